"""Messages of sites that run one fit together: whoever carries, loses or changes them."""

from collections import Counter
from dataclasses import replace
from functools import partial
from threading import Lock

import numpy as np
import pandas as pd
import pytest
from federation import (
    CUTS,
    GRID,
    LASSO,
    NAMES,
    OPEN,
    Exact,
    draw_cox,
    fit_over,
    parts,
    send_to,
    sites_of,
)
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from sksurvgpu import CoxLassoCCD, CoxLassoCV, surv
from sksurvgpu.data.design.columns import build_design
from sksurvgpu.federated import Coordinator, RefusedError, Rules, Site, wire
from sksurvgpu.federated.__main__ import main
from sksurvgpu.federated.files import Mailbox
from sksurvgpu.federated.keys import Identity
from sksurvgpu.federated.reading import digest_rows

pytestmark = pytest.mark.filterwarnings("ignore:times are so coarse")


@pytest.fixture(scope="module")
def cox():
    return draw_cox()


@pytest.fixture(scope="module")
def fitted(cox):
    """The fit that all ways lead to, and its number of exchanges."""
    coordinator = fit_over(sites_of(*cox), LASSO)
    return coordinator.estimator.coef_.tobytes(), coordinator.n_exchanges_


def by_hand(sites, answer, **options):
    """A coordinator whose messages go through ``answer(name, message)``."""
    coordinator = Coordinator(clone(LASSO), NAMES, grid=GRID, **options)
    while messages := coordinator.messages():
        coordinator.receive({k: answer(k, v) for k, v in reversed(messages.items())})
    assert coordinator.done
    return coordinator


def test_bits_are_the_same_whoever_carries(cox, fitted, tmp_path):
    sites = sites_of(*cox)
    found = [by_hand(sites, lambda name, message: sites[name].answer(message))]
    boxes = {}
    for name, site in sites_of(*cox).items():
        box = Mailbox(tmp_path, name)
        boxes[name] = Mailbox(tmp_path, name, wait=partial(box.answer, site.answer)).send
    found.append(Coordinator(clone(LASSO), boxes, grid=GRID))
    found[-1].fit()
    numbered = dict(enumerate(send_to(sites_of(*cox)).values()))
    found.append(Coordinator(clone(LASSO), numbered, grid=GRID))
    found[-1].fit()
    for other in found:
        assert (other.estimator.coef_.tobytes(), other.n_exchanges_) == fitted


def test_answers_that_are_lost_are_given_again(cox, fitted):
    sites, alike = sites_of(*cox), []

    def answer(name, message):
        lost = sites[name].answer(message)
        alike.append(sites[name].answer(message) == lost)
        return lost

    coordinator = by_hand(sites, answer)
    assert (coordinator.estimator.coef_.tobytes(), coordinator.n_exchanges_) == fitted
    assert len(alike) == 3 * fitted[1] and all(alike)
    assert sites["A"].n_exchanges_ == fitted[1] - 3


def replaced(cox, after, **change):
    """The fit of sites of which B is another one from some message on; and that B."""
    (X, y), n_heard = cox, Counter()
    rows = slice(*CUTS[1:3])
    same = {"X": X[rows], "y": y[rows], "secret": 16 * b"k", "rules": Exact()}
    same["key"] = Identity.new()
    sites, starts = sites_of(X, y), [Site(**same), Site(**{**same, **change})]

    def answer(name, message):
        n_heard[name] += 1
        site = sites[name] if name != "B" else starts[n_heard["B"] > after]
        return site.answer(message)

    return by_hand(sites, answer).estimator, starts[1]


@pytest.mark.parametrize("after", [1, 2, 3, 20])
def test_a_site_that_is_started_again_goes_on(after, cox, fitted):
    model, again = replaced(cox, after)
    assert model.coef_.tobytes() == again.model_.coef_.tobytes() == fitted[0]


@pytest.mark.parametrize("after", [2, 9])
def test_a_site_that_changed_is_named(after, cox):
    moved = cox[0][slice(*CUTS[1:3])].copy()
    turned = moved.copy()
    moved[100, 0] += 1.0
    turned[[1, 2]] = turned[[2, 1]]  # of rows of y that stay: sums of columns are the same
    for change in ({"X": moved}, {"X": turned}, {"secret": 16 * b"o"}):
        with pytest.raises(ValueError, match="site 'B': it has other rows than when the fit"):
            replaced(cox, after, **change)
    with pytest.raises(RefusedError, match=r"site 'B' refused: .*has something else of this site"):
        replaced(cox, after, key=Identity.new())


def test_hands_that_forget_a_site_are_told(cox):
    sites = sites_of(*cox)
    coordinator = Coordinator(LASSO, NAMES, grid=GRID)
    with pytest.raises(ValueError, match=r"answers are of \['A'\], must be of \['A', 'B', 'C'\]"):
        coordinator.receive({"A": b""})
    with pytest.raises(ValueError, match="site 'A': These bytes are no message"):
        coordinator.receive(dict.fromkeys(NAMES, b""))
    assert not coordinator.done
    with pytest.raises(ValueError, match="nobody sends"):
        Coordinator(LASSO, NAMES, grid=GRID).fit()

    def fail(message):
        raise ConnectionError("no way")

    for send, error, words in (
        (lambda message: sites["B"].answer(message)[:-9], ValueError, "These bytes are no message"),
        (lambda message: None, ValueError, "A message is bytes, got NoneType"),
        (fail, RuntimeError, r"could not be reached: ConnectionError\('no way'\)"),
    ):
        with pytest.raises(error, match=f"^site 'B'.* {words}"):
            Coordinator(LASSO, send_to(sites) | {"B": send}, grid=GRID).fit()
    coordinator = Coordinator(LASSO, send_to(sites), grid=GRID)
    answer = {name: site.answer for name, site in sites.items() if name != "B"}
    with pytest.raises(RuntimeError, match=r"site\(s\) \['B'\] have not answered; the fit was st"):
        coordinator._fit(lambda data: ((name, answer[name](data[name])) for name in answer))
    with pytest.raises(ValueError, match="site 'A' has answered its message"):
        coordinator._fit(lambda data: ((name, answer["A"](data["A"])) for name in "AA"))


def test_who_was_interrupted_while_the_fit_went_on_goes_on(cox, fitted, monkeypatch):
    sites = sites_of(*cox)
    coordinator = Coordinator(clone(LASSO), NAMES, grid=GRID)

    def fail():
        raise KeyboardInterrupt

    while messages := coordinator.messages():
        answers = {name: sites[name].answer(message) for name, message in messages.items()}
        with monkeypatch.context() as patch:
            patch.setattr(coordinator, "_take", fail)
            with pytest.raises(KeyboardInterrupt):
                coordinator.receive(answers)
    assert coordinator.done and coordinator.estimator.coef_.tobytes() == fitted[0]


def test_answers_to_other_messages_are_refused_and_the_fit_goes_on(cox, fitted):
    sites, others = sites_of(*cox, secret=16 * b"s"), sites_of(*cox, secret=16 * b"s")
    ours, other = (Coordinator(clone(LASSO), NAMES, grid=GRID) for _ in range(2))
    before, seen = None, 0
    while messages := ours.messages():
        right = {name: sites[name].answer(message) for name, message in messages.items()}
        wrong = {"one of site 'B'": right | {"A": right["B"]}}
        if before is not None:
            wrong["to another message than the one that waits"] = right | {"B": before["B"]}
        if theirs := other.messages():
            answers = {name: others[name].answer(message) for name, message in theirs.items()}
            wrong["one of another fit"] = right | {"C": answers["C"]}
            other.receive(answers)
        for reason, answers in wrong.items():
            with pytest.raises(ValueError, match=reason):
                ours.receive(answers)
            seen += 1
        ours.receive(right)
        before = right
    assert seen > 60 and ours.estimator.coef_.tobytes() == fitted[0]


def test_versions_that_differ_are_told_at_both_ends(cox, monkeypatch):
    site = Site(*cox)
    monkeypatch.setattr(wire, "PROTOCOL", 1)
    old_message, old_answer = wire.encode(wire.Lost()), wire.encode(wire.Refused("error"))
    monkeypatch.undo()
    words = "its protocol is 1, this version of sksurvgpu speaks 3: install the same version"
    assert words in wire.decode(site.answer(old_message)).reason
    with pytest.raises(ValueError, match=f"site 'A': These bytes are no message .* {words}"):
        Coordinator(LASSO, {"A": lambda message: old_answer}, grid=GRID).fit()


def test_sites_that_know_their_name_answer_to_it(cox):
    site = Site(*cox, name="Bergen", rules=Exact(min_sites=1))
    with pytest.raises(RefusedError, match="the message is to 'Kyoto', and this is 'Bergen'"):
        fit_over({"Kyoto": site}, LASSO)
    assert fit_over({"Bergen": site}, LASSO).estimator.converged_


def test_coordinator_that_was_stopped_goes_on(cox, tmp_path):
    first = fit_over(sites_of(*cox), LASSO)
    sites, n_sent = sites_of(*cox), Counter()

    def send(name, message):
        n_sent[name] += 1
        if name == "B" and n_sent[name] in (9, 11):
            raise OSError("gone")
        return sites[name].answer(message)

    options = {"grid": GRID, "checkpoint": tmp_path / "said"}
    for _ in range(2):
        with pytest.raises(RuntimeError, match="site 'B' could not be reached"):
            Coordinator(clone(LASSO), {n: partial(send, n) for n in NAMES}, **options).fit()
    with pytest.raises(ValueError, match=r"`checkpoint` .* is of another fit"):
        Coordinator(CoxLassoCCD(alpha=0.1), {n: partial(send, n) for n in NAMES}, **options).fit()
    with open(tmp_path / "said", "ab") as file:
        file.write(b"what was being written")
    last = Coordinator(clone(LASSO), {n: partial(send, n) for n in NAMES}, **options)
    assert last.fit().coef_.tobytes() == first.estimator.coef_.tobytes()
    assert last.n_exchanges_ == first.n_exchanges_ - 9
    assert not (tmp_path / "said").exists()
    assert {site.n_exchanges_ for site in sites.values()} == {first.n_exchanges_ - 3}
    (tmp_path / "said").write_bytes(bytes(7) + b"\x03abc")
    with pytest.raises(ValueError, match=r"`checkpoint` .* is not of a fit over sites"):
        Coordinator(clone(LASSO), {n: partial(send, n) for n in NAMES}, **options).fit()


@pytest.mark.parametrize("told", [1, 5])
def test_coordinator_that_was_stopped_as_a_site_was_told_again_goes_on(cox, tmp_path, told):
    sites, n_sent = sites_of(cox[0][:, :2], cox[1]), Counter()
    X, y, rules = sites["B"]._arguments["X"], sites["B"]._arguments["y"], sites["B"].rules
    given = {"rules": rules, "key": sites["B"].identity, "secret": sites["B"]._secret}

    def send(name, message):
        n_sent[name] += 1
        if name == "B" and n_sent[name] == 9:
            sites[name] = Site(X, y, **given)
        if name == "B" and n_sent[name] == 10 + told:
            raise OSError("gone")
        return sites[name].answer(message)

    options = {"grid": GRID, "checkpoint": tmp_path / "said"}
    send_of = {name: partial(send, name) for name in NAMES}
    with pytest.raises(RuntimeError, match="site 'B' could not be reached"):
        Coordinator(clone(LASSO), send_of, **options).fit()
    fitted = Coordinator(clone(LASSO), send_of, **options).fit()
    assert np.array_equal(fitted.coef_, sites["B"].model_.coef_)


def test_command_line_goes_on_and_adds_noise(cox, tmp_path, capsys):
    X, y = cox[0][:, :2], cox[1]
    keys = {name: Identity.new() for name in NAMES}
    peers = {name: key.fingerprint for name, key in keys.items()}
    folder, said, out = tmp_path / "shared", tmp_path / "said", tmp_path / "coefficients.csv"

    def run(rules, *more, stops_at=0):
        sites = {
            n: Site(a, b, name=n, rules=rules, key=keys[n], peers=peers, secret=16 * b"o")
            for n, a, b in zip(NAMES, parts(X), parts(y), strict=True)
        }
        boxes, lock = {name: Mailbox(folder, name) for name in NAMES}, Lock()

        def wait():
            if stops_at and len(list((folder / "A").glob("*.answer"))) >= stops_at:
                raise OSError("gone")
            with lock:  # of a thread for each site
                for name, box in boxes.items():
                    box.answer(sites[name].answer)

        start = ["coordinator", str(folder), "--sites", *NAMES, "--estimator", "CoxLassoCCD"]
        start += ["--grid", "40", "1200", "40", "--out", str(out)]
        return main([*start, *more], wait)

    given = ["--parameters", '{"alpha": 0.003}', "--checkpoint", str(said)]
    given += ["--then", '[["fit_path", {"n_alphas": 2}], ["fit_path", {"n_alphas": 3}]]']
    assert run(Exact(), *given, stops_at=9) == 1 and said.exists()
    assert run(Exact(), *given) == 0 and not said.exists()
    assert "30 times" in capsys.readouterr().out
    for name, n_alphas in (("fit_path", 2), ("fit_path-2", 3)):
        table = pd.read_csv(out.with_name(f"coefficients-{name}.csv"), index_col="alpha")
        assert table.columns.tolist() == ["x0", "x1"] and len(table) == n_alphas
    noise = ["--parameters", '{"alpha": 0}', "--noise"]
    with pytest.warns(ConvergenceWarning, match="the noise is as large"):
        assert run(Exact(max_epsilon=1.0), *noise, '{"epsilon": 1, "norm": 3}') == 0
    assert "epsilon 1" in capsys.readouterr().out and "standard_error" in out.read_text()
    with pytest.raises(SystemExit):
        run(Exact(), *noise, '{"epsilon": 1}')
    assert "missing 1 required" in capsys.readouterr().err
    assert main(["coordinator", str(folder), "--sites", "A", "--estimator", "Cox", "--out", "x"])


def test_command_line_refuses_what_would_be_lost_or_without_an_end(tmp_path, capsys):
    start = ["coordinator", str(tmp_path), "--sites", "A", "--estimator", "CoxLassoCCD"]
    start += ["--timeout", "nan", "--out"]
    assert main([*start, str(tmp_path / "none" / "coef.csv")], pytest.fail)
    assert "is in a folder that is not there; make it first" in capsys.readouterr().err
    assert main([*start, str(tmp_path / "coef.csv"), "--grid", "9", "1", "0"], pytest.fail)
    assert "`--grid` is [9.0, 1.0, 0.0]; pass FIRST LAST STEP" in capsys.readouterr().err
    assert main([*start, str(tmp_path / "coef.csv")], pytest.fail)
    assert "waited nan s for an answer of site 'A'" in capsys.readouterr().err


def table_of(name, change):
    return lambda said: replace(said, facts=said.facts | {name: change(said.facts[name])})


SPOILT = {
    "its answer has the tables": lambda s: replace(s, facts=s.facts | {"more": np.ones(1)}),
    "has a table 'powers' of another form": table_of("powers", lambda v: v.astype(float)),
    "columns or an outcome too large": table_of("powers", lambda v: v + 401),
    "columns or an outcome too large to": table_of(
        "powers", lambda v: v * 0 + np.iinfo(v.dtype).min
    ),
    "'labels' that is not of ascending": table_of("labels", lambda v: v[[0, 0]]),
    "'classes' that is not of ascending": table_of("classes", lambda v: np.array([np.nan])),
    "'lane_stratum' that is not of places": table_of("lane_stratum", lambda v: v - 1),
    "is of another question": lambda s: replace(s, number=s.number + 1),
    "is of another question: its program": lambda s: replace(s, form="ff"),
    "its part is not of": lambda s: replace(s, words=s.words[1:]),
    "part is not of": lambda s: replace(s, words=s.words | np.uint64(2**61 - 1)),
    "answered Done where Covered was": lambda s: wire.Done(),
}


def spoiling(site, spoil, kind, number=0):
    """A site one of whose answers of a kind is another one."""
    seen = Counter()

    def send(message):
        said = wire.read(site.answer(message))
        seen[type(said.content)] += 1
        content = said.content
        if seen[kind] == number + 1 and isinstance(content, kind):
            content = spoil(content)
        return wire.encode(content, site=said.site, about=said.about, rows=said.rows)

    return send


@pytest.mark.parametrize("reason", SPOILT)
def test_coordinators_refuse_answers_that_no_site_gives(reason, cox):
    sites = sites_of(*cox)
    of_joined = "table" in reason or "columns or" in reason or "'" in reason
    kind = wire.Joined if of_joined else wire.Covered
    send = send_to(sites) | {"B": spoiling(sites["B"], SPOILT[reason], kind, 0 if of_joined else 4)}
    with pytest.raises(ValueError, match=f"^site 'B':? .*{reason}"):
        Coordinator(LASSO, send, grid=GRID).fit()


def test_refusals_are_shown_as_they_are(cox):
    """Who reads one at a terminal sees what could move its cursor, or hide words."""
    sites = sites_of(*cox)
    refused = wire.Refused("no\x1b[2J\r\n\u202e\ud800")
    send = send_to(sites) | {"B": spoiling(sites["B"], lambda _: refused, wire.Joined, 0)}
    with pytest.raises(RefusedError) as caught:
        Coordinator(LASSO, send, grid=GRID).fit()
    assert str(caught.value) == r"site 'B' refused: no\x1b[2J\r\n\u202e\ud800."


def test_sites_that_are_not_alike_are_refused(cox):
    X, y = cox
    strata = np.repeat(["f", "m"], len(y) // 2)
    codes = np.repeat([1, 2], len(y) // 2)
    for changed, words in (
        ({"X": X[:, 1:]}, "'B' has 11 columns, and 'A' has 12"),
        ({"y": surv(y["event"], y["time"], stratum=strata)}, "text at one of .* 'A' and 'B'"),
        ({"y": surv(y["event"], y["time"], stratum=codes)}, "rows have strata at one of"),
    ):
        some = {"X": X, "y": y}
        sites = {name: Site(**(some | changed if name == "B" else some)) for name in NAMES}
        with pytest.raises((RefusedError, ValueError), match=words):
            fit_over(sites, LASSO)


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"min_rows": 0}, "`min_rows` is 0, must be an integer from 1 on"),
        ({"min_sites": 0}, "`min_sites` is 0, must be an integer from 1 on"),
        ({"max_matrices": True}, "`max_matrices` is True"),
        ({"largest_share": 0.0}, "`largest_share` is 0.0, must be above 0 and at most 1"),
        ({"longest_range": np.nan}, "`longest_range` is nan"),
        ({"recipes": ("given", "all")}, "`recipes` is"),
        ({"recipes": "given"}, "`recipes` is 'given'"),
    ],
)
def test_rules_are_checked(given, match):
    with pytest.raises(ValueError, match=match):
        Rules(**given)


def test_parameters_are_checked(cox):
    X, y = cox
    with pytest.raises(ValueError, match="`strata` has 3 entries, `X` has 2,400 rows"):
        Site(X, y, strata=[1, 2, 3])
    with pytest.raises(TypeError, match="`rules` is of type dict"):
        Site(X, y, rules={"min_rows": 10})
    with pytest.raises(TypeError, match=r"`weights` is no argument of a fit; .*'sample_weight'"):
        Site(X, y, weights=np.ones(len(y)))
    frame, weight = pd.DataFrame(X), pd.Series(np.ones(len(y)))
    with pytest.raises(ValueError, match="the index of `sample_weight` has the labels of that of"):
        Site(frame, y, sample_weight=weight[::-1])
    with pytest.raises(ValueError, match="`sample_weight` is a masked array with 2,400 masked"):
        Site(X, y, sample_weight=np.ma.masked_all(len(y)))
    for secret in (5, b"fifteen bytes..", 16 * "text"):
        with pytest.raises(TypeError, match="`secret` must be 16 bytes or more"):
            Site(X, y, secret=secret)
    for options, match in (
        ({"level": "all"}, "`level` is 'all'"),
        ({"matrix_of": "A"}, "`matrix_of` is 'A'"),
        ({"grid": [1.0, np.inf]}, "`grid` has NaN"),
        ({"rows_per_time": 30.5}, "`rows_per_time` is 30.5, must be a whole number of at least 0"),
        ({"rows_per_time": -1}, "`rows_per_time` is -1, must be a whole"),
        ({"then": [("fused", {})]}, r"\['fused'\] do not follow a fit over sites"),
        ({"then": [("bootstrap", {"folder": "x"})]}, "`folder` is written to by who asks"),
        ({"then": [("wald", {"robst": True})]}, "wald, which follows its fit: .* 'robst'"),
        ({"then": [("wald", {"strata": [1]})]}, "wald, which follows its fit: .* 'strata'"),
        ({"then": [("profile_likelihood", {})]}, "its fit: missing a required .* 'columns'"),
    ):
        with pytest.raises(ValueError, match=match):
            Coordinator(LASSO, NAMES, **options)
    for then in (["wald"], [("profile_likelihood", {"columns": np.arange(2)})]):
        with pytest.raises(TypeError, match=r"`then` is .*, must be pairs of a name and"):
            Coordinator(LASSO, NAMES, then=then)
    with pytest.raises(ValueError, match="`folder` has fits of one party alone"):
        Coordinator(CoxLassoCV(folder="fits", random_state=0), NAMES)
    with pytest.raises(ValueError, match="`sites` are"):
        Coordinator(LASSO, [])
    with pytest.raises(TypeError, match="`estimator` is of type Rules; pass one of this package"):
        Coordinator(Rules(), NAMES)
    with pytest.raises(TypeError, match="`sites` has one of type int; pass functions by name"):
        Coordinator(LASSO, {"a": 3})
    own = CoxLassoCV(scoring=print, random_state=0)
    with pytest.raises(TypeError, match="`scoring` is of type builtin_function_or_method, and"):
        Coordinator(own, NAMES, grid=GRID).messages()


def test_digests_are_those_of_rows_in_their_order():
    """... whatever holds them: of objects, those of what they say, and not of where they are."""
    digest = partial(digest_rows, rules=OPEN, secret=b"s")
    words = np.array(["".join(["old", "er"]), "young"], object)
    again = np.array(["".join(["ol", "der"]), "young"], object)
    records = np.zeros(2, np.dtype([("event", "?"), ("time", "<f8")], align=True))
    gaps = records.copy()
    gaps.view(np.uint8)[3] = 7
    for one, same in ((words, again), (records, gaps)):
        assert digest({"y": one}) == digest({"y": same}) == digest({"y": one[:]})
    values = [words, words[::-1], words.astype(str), np.arange(4), np.arange(4.0), np.zeros(0)]
    values += [np.arange(4.0)[::-1], np.arange(4.0).reshape(2, 2), np.arange(4).astype("M8[D]")]
    values += [build_design(np.eye(2)), build_design(np.eye(2)[::-1])]
    found = [digest({"y": value}) for value in values] + [digest({"z": words})]
    found += [digest_rows({"y": words}, *more) for more in ((OPEN, b"t"), (Exact(), b"s"))]
    assert len(set(found)) == len(values) + 3
    assert digest({"y": words}) == digest({"y": words}, rules=replace(OPEN, max_exchanges=7))
