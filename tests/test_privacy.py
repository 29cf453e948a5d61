"""Sites against a coordinator that asks for what a fit would not ask for."""

import json
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from sksurvgpu import CoxLassoCCD, FineGrayCCD, LogisticCCD, competing_risks, surv
from sksurvgpu.backends.sums import messages as m
from sksurvgpu.estimators._partition import model_text
from sksurvgpu.federated import Coordinator, Rules, Site, wire
from sksurvgpu.federated.files import Mailbox, only_one

N_ROWS, GRID = 700, np.arange(20.0, 1220.0, 40.0)
NOWHERE = m.Coef(np.zeros(0, np.int64), np.zeros(0))


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(1)
    X = (rng.random((N_ROWS, 5)) < rng.uniform(0.2, 0.5, 5)).astype(float)
    X[:, 4] = rng.normal(size=N_ROWS)
    event, censored = rng.exponential(400.0, N_ROWS), rng.uniform(50, 1800, N_ROWS)
    return X, np.minimum(event, censored) + 0.01, event <= censored


class Attacker:
    """Has gone through a fit over one site, and goes on from its messages."""

    def __init__(self, site, model=None, grid=GRID, **options):
        self.site, self.heard = site, []
        model = CoxLassoCCD(alpha=0.02) if model is None else model
        Coordinator(model, {"A": self.carry}, grid=grid, **options).fit()

    def carry(self, message):
        self.heard.append(wire.decode(message))
        return self.site.answer(message)

    def first(self, kind, of=None):
        """First message of a kind, or Ask that is of a kind of requests."""
        found = (message for message in self.heard if isinstance(message, kind))
        return next(f for f in found if of is None or isinstance(f.requests[0], of))

    def ask(self, message, **changes):
        if isinstance(message, m.Ask):
            changes = {"requests": (replace(message.requests[0], **changes),)} if changes else {}
        return wire.decode(self.site.answer(wire.encode(replace(message, **changes))))

    def refusal(self, message, **changes):
        answer = self.ask(message, **changes)
        assert isinstance(answer, wire.Refused), type(answer)
        return answer.reason


def test_times_are_agreed_once_whatever_came_of_it(rows):
    """Else the difference of two fits is the row that lies between their times."""
    X, time, event = rows
    attacker = Attacker(Site(X, surv(event, time)))
    agreed, proposed = attacker.first(wire.Coarsen), attacker.first(wire.Propose)
    for end in (agreed.end - 1e-6, agreed.times[-1] - 1.0):
        assert "other times were agreed" in attacker.refusal(agreed, end=end)
    assert "proposed before" in attacker.refusal(proposed, least=proposed.least + 1)
    assert isinstance(attacker.ask(agreed), wire.Coarsened)
    # refusals speak of rows, too: the first time is the only one
    attacker.site = Site(X, surv(event, time))
    few = replace(agreed, times=np.array([np.sort(time)[3], 1500.0]), ptr=np.array([0, 2]))
    assert "fewer than 10 rows" in attacker.refusal(few, end=1500.0)
    assert "other times were agreed" in attacker.refusal(agreed)
    assert "in a grid only" in attacker.refusal(attacker.first(m.Describe))
    attacker.site = Site(X, surv(event, time))
    attacker.ask(proposed)
    for changes in ({"times": agreed.times - 1.0}, {"end": agreed.end - 1e-6}):
        assert "other times were agreed" in attacker.refusal(agreed, **changes)
    assert isinstance(attacker.ask(agreed), wire.Coarsened)
    attacker.site = Site(X, surv(event, time))
    for end in np.sort(time)[3:5]:  # before it looks at a row
        grid = np.linspace(end / 2, end, N_ROWS + 1)
        assert "more times than the site has rows" in attacker.refusal(proposed, grid=grid)
    assert isinstance(attacker.ask(proposed), wire.Proposed)


def test_labels_of_persons_and_of_few_rows_stay(rows):
    X, time, event = rows
    person = np.array([f"person {i // 2}" for i in range(N_ROWS)])
    site = Site(X, surv(event, time, subject=person))
    attacker = Attacker(site)
    asked = json.loads(attacker.first(m.Describe).model) | {"agreed": {"subjects": True}}
    describe = m.Describe(json.dumps(asked))
    assert attacker.refusal(describe) == "['subjects'] are not told"
    stratum = np.where(np.arange(N_ROWS) < 9, "alone", "many")
    site = Site(X, surv(event, time, stratum=stratum))
    answers = []

    def listen(message):
        answers.append(site.answer(message))
        return answers[-1]

    coordinator = Coordinator(CoxLassoCCD(alpha=0.02), {"A": listen}, grid=GRID)
    coordinator.fit()
    assert (coordinator.left_out_, site.left_out_) == ({"A": 1}, ("alone",))
    for answer in answers:
        assert b"alone" not in answer
        assert "alone".encode("utf-32-le") not in answer
    assert any("many".encode("utf-32-le") in answer for answer in answers)


def test_groups_of_censoring_need_rows_of_every_time(rows):
    X, time, event = rows
    group = np.where(np.arange(N_ROWS) < 3, 7, 8)
    site = Site(X, competing_risks(event.astype(int), time), censoring_groups=group)
    text = model_text(FineGrayCCD())
    proposed = wire.decode(site.answer(wire.encode(wire.Propose(text, GRID, 0))))
    assert isinstance(proposed, wire.Proposed)
    times = wire.Coarsen(text, np.zeros(1, int), GRID[[4, 29]], np.array([0, 2]), GRID[-1])
    answer = wire.decode(site.answer(wire.encode(times)))
    assert "some times have fewer than 10 rows" in answer.reason


def test_columns_of_nobody_look_like_those_of_few(rows):
    X, time, event = rows
    told = []
    for n_ones in (0, 9):
        X = X.copy()
        X[:, 1], X[:n_ones, 1] = 0.0, 1.0
        answers = []
        site = Site(X, surv(event, time), secret=b"same")

        def listen(message, site=site, answers=answers):
            answers.append(site.answer(message))
            return answers[-1]

        Coordinator(CoxLassoCCD(alpha=0.02), {"A": listen}, grid=GRID).fit()
        assert site.absent_ == ("1",)
        told.append(answers)
    # beside the contents: digests of two messages, and of rows under a secret
    first, second = ([wire.encode(wire.decode(answer)) for answer in some] for some in told)
    assert first == second
    rows_of = [{wire.read(answer).rows for answer in some} for some in told]
    assert [len(some) for some in rows_of] == [1, 1]


def test_intercepts_far_from_the_rows_do_not_single_out_the_largest(rows):
    """There, sums of curvatures are exp(eta) of one row, and residuals are the outcome."""
    X, _, event = rows
    attacker = Attacker(Site(X, event.astype(int)), LogisticCCD(alpha=0.02), grid=None)
    evaluate, slopes = attacker.first(m.Ask, m.Evaluate), attacker.first(m.Ask, m.Slopes)
    steep = m.Coef(np.array([4]), np.array([4.0]))
    assert isinstance(attacker.ask(evaluate, coef=steep), m.Answers)
    for center in (-40.0, 40.0):
        reason = attacker.refusal(evaluate, coef=steep, center=center)
        assert "one row would be more than 20%" in reason
    for center in (-745.0, np.inf, 1e308):
        assert "far from all rows" in attacker.refusal(evaluate, coef=NOWHERE, center=center)
    assert "one row would be more" in attacker.refusal(slopes, coef=steep, intercept=-40.0)


def test_weights_are_fewer_than_rows_of_a_sum(rows):
    """Sums under as many vectors of weights as there are rows in a cell span these rows."""
    X, time, event = rows
    attacker = Attacker(Site(X[:, :4], surv(event, time)), rows_per_time=100)
    weigh = attacker.first(m.Ask, m.Weigh)
    assert isinstance(attacker.ask(weigh, weight=m.Recipe("train", 1, 0, 2)), m.Answers)
    for number in range(8):
        recipe = m.Recipe("exponential", 3, number)
        assert isinstance(attacker.ask(weigh, weight=recipe), m.Answers)
    more = m.Recipe("exponential", 3, 8)
    assert "under 10 independent vectors of weights" in attacker.refusal(weigh, weight=more)
    assert isinstance(attacker.ask(weigh, weight=m.Recipe("test", 1, 1, 2)), m.Answers)
    arrange = attacker.first(m.Arrange)  # other numbers of parts deal anew
    arrange = replace(arrange, tables=arrange.tables | {"part": np.array([1])}, digest="other")
    attacker.ask(arrange)
    weigh = replace(weigh, plan="other")
    recipe = m.Recipe("test", 1, 1, 2)
    assert "independent vectors" in attacker.refusal(weigh, weight=recipe)
    for kind, number, of in (("train", 0, 10**12), ("train", -1, 2), ("test", 0, 1)):
        recipe = m.Recipe(kind, 1, number, of)
        assert "do not exist" in attacker.refusal(weigh, weight=recipe)


def test_models_are_few(rows):
    X, time, event = rows
    attacker = Attacker(Site(X, surv(event, time), rules=Rules(max_models=3)))
    cuts = [attacker.ask(m.Describe(model_text(CoxLassoCCD(time_varying={0: [c]})))) for c in GRID]
    assert [type(answer) for answer in cuts[:2]] == [m.Description] * 2
    assert {type(answer) for answer in cuts[2:]} == {wire.Refused}
    assert "read for 3 models (`max_models`)" in cuts[-1].reason
    assert isinstance(attacker.ask(attacker.first(m.Describe)), m.Description)


def test_rows_follow_from_sums_at_chosen_points(rows):
    """What no rule stops, and the guide says: 2**q evaluations are the table of q columns."""
    X, time, event = rows
    attacker = Attacker(Site(X, surv(event, time)), CoxLassoCCD(alpha=0.05))
    evaluate, q, step = attacker.first(m.Ask, m.Evaluate), 4, 0.1
    corners = np.array(list(product([0, 1], repeat=q)))
    asked = [m.Coef(np.flatnonzero(c), np.full(c.sum(), step)) for c in corners]
    requests = tuple(replace(evaluate.requests[0], coef=coef) for coef in asked)
    answer = attacker.ask(replace(evaluate, requests=requests))
    risk = np.array([of.tables["risk"] for of in answer.of])  # of exits at each time
    found = np.linalg.solve(np.exp(step * corners @ corners.T), risk)
    times = attacker.first(wire.Coarsen).times
    truth = np.zeros_like(found)
    cell = np.searchsorted(times, np.minimum(time, times[-1])) + risk.shape[1] - len(times)
    np.add.at(truth, ((X[:, :q] @ [8, 4, 2, 1]).astype(int), cell), 1.0)
    assert found == pytest.approx(truth, abs=1e-4)
    assert (truth == 1.0).any()


def test_problems_of_other_rows_are_refused(rows):
    """Compiled code would look for their rows outside of its tables."""
    X, time, event = rows
    group = np.arange(N_ROWS) % 2
    y = competing_risks(event * (1 + (X[:, 0] > 0)), time)
    site = Site(X, y, censoring_groups=group)
    attacker = Attacker(site, FineGrayCCD(alpha=0.02))
    arrange, evaluate = attacker.first(m.Arrange), attacker.first(m.Ask, m.Evaluate)
    given = arrange.tables
    for name, spoilt, reason in (
        ("lane_group", given["lane_group"] + 1, "'lane_group' that is not of whole"),
        ("lane_group", given["lane_group"][::-1], "does not have the lanes of the site's rows"),
        ("lane_stratum", given["lane_stratum"][:1], "'lane_group' that is not of whole"),
        ("labels_censoring", given["labels_censoring"] + 5, "lacks labels of the site's rows"),
        ("labels_censoring", np.array(["a", "b"]), "lacks labels of the site's rows"),
        ("table_ptr", given["table_ptr"].astype(np.int32), "'table_ptr' that is not of whole"),
        ("table_ptr", given["table_ptr"] - given["table_ptr"], "no offsets into 'table_time'"),
        ("table_time", given["table_time"] * np.nan, "'table_time' that is not of numbers from"),
    ):
        changes = {"tables": given | {name: spoilt}, "digest": "other"}
        assert reason in attacker.refusal(arrange, **changes), name
    censoring = evaluate.requests[0].tables["censoring"]
    for tables, reason in (
        ({}, "has the tables [], not ['censoring']"),
        ({"censoring": censoring * 0.0}, "'censoring' that is not of numbers from 5e-324"),
    ):
        assert reason in attacker.refusal(evaluate, tables=tables)
    assert "rescale the columns" in attacker.refusal(evaluate, in_logs=True)
    assert isinstance(attacker.ask(evaluate), m.Answers)


# -- bytes ------------------------------------------------------------------------------------
def test_whatever_bytes_come_a_site_answers(rows):
    X, time, event = rows
    attacker = Attacker(Site(X, surv(event, time), rules=Rules(max_exchanges=10**6)))
    rng = np.random.default_rng(0)
    messages = [wire.encode(message) for message in attacker.heard[:6]]
    for _ in range(300):
        data = bytearray(messages[rng.integers(len(messages))])
        for at in rng.integers(len(data), size=rng.integers(1, 6)):
            data[at] = rng.integers(256)
        wire.decode(attacker.site.answer(bytes(data[: rng.integers(1, 3) * len(data)])))


def test_links_that_lie_in_the_folder_are_not_followed(tmp_path):
    box, other = Mailbox(tmp_path, "A"), tmp_path / "mine"
    other.write_bytes(b"mine")
    (box.folder / "000001.message").write_bytes(b"question")
    (box.folder / "000001.answer.unfinished").symlink_to(other)
    box.answer(lambda message: b"answer")
    assert other.read_bytes() == b"mine"
    assert (box.folder / "000001.answer").read_bytes() == b"answer"


@pytest.mark.parametrize("name", ["", ".", "..", "a/b"])
def test_sites_stay_in_the_folder(tmp_path, name):
    with pytest.raises(ValueError, match="take a name that a folder can have"):
        Mailbox(tmp_path / "shared", name)


def test_files_that_are_no_messages_are_left_alone(tmp_path):
    box = Mailbox(tmp_path, "A")
    (box.folder / "notes.message").write_bytes(b"mine")
    (box.folder / "000004.message").write_bytes(b"question")
    assert box.answer(lambda message: message + b"!") == 1
    assert not (box.folder / "notes.answer").exists()
    answered = Mailbox(tmp_path, "A", wait=lambda: box.answer(lambda message: message + b"?"))
    assert answered.send(b"next") == b"next?"


def test_answers_that_were_left_in_a_folder_are_nobodys(tmp_path):
    box = Mailbox(tmp_path, "A")
    (box.folder / "000007.answer").write_bytes(b"old")
    asking = Mailbox(tmp_path, "A", wait=lambda: box.answer(lambda message: message + b"!"))
    assert asking.send(b"new") == b"new!"


def test_a_folder_has_one_coordinator(tmp_path):
    first = only_one(tmp_path)
    with first, pytest.raises(RuntimeError, match="a coordinator is at work in"):
        only_one(tmp_path).__enter__()
    with only_one(tmp_path):
        pass


@pytest.mark.parametrize("secret", [5, b"", "text"])
def test_secrets_are_bytes(rows, secret):
    X, time, event = rows
    with pytest.raises(TypeError, match="`secret` must be bytes"):
        Site(X, surv(event, time), secret=secret)
