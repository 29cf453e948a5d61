"""Sites against a coordinator that is not honest, and against whoever else carries messages."""

import json
from dataclasses import replace
from functools import partial
from hashlib import sha256

import numpy as np
import pytest

from sksurvgpu import CoxLassoCCD, FineGrayCCD, LogisticCCD, competing_risks, surv
from sksurvgpu.backends.sums import messages as m
from sksurvgpu.federated import Coordinator, RefusedError, Rules, Site, wire
from sksurvgpu.federated.files import Mailbox, only_one
from sksurvgpu.federated.keys import Circle, Identity, total_of
from sksurvgpu.federated.local import Local
from sksurvgpu.federated.words import PRIME, add

pytestmark = pytest.mark.filterwarnings("ignore:times are so coarse")

N_ROWS, GRID = 900, np.arange(20.0, 1220.0, 40.0)
NAMES = ("A", "B", "C")
# Of sites whose sums are those of the rows as they are.
Exact = partial(Rules, blur=0)
MODEL = CoxLassoCCD(alpha=0.02)
OTHER_SUM = "the sum that came is not that of what the sites sent"
NO_SUM = "what the sites have sent does not add up"
OTHER_SHARE = "the share of site '.' does not open"


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(1)
    X = (rng.random((N_ROWS, 5)) < rng.uniform(0.2, 0.5, 5)).astype(float)
    X[:, 4] = rng.normal(size=N_ROWS)
    event, censored = rng.exponential(400.0, N_ROWS), rng.uniform(50, 1800, N_ROWS)
    return X, surv(event <= censored, np.minimum(event, censored) + 0.01)


def site_of(rows, name, **options):
    X, y = (values[NAMES.index(name) :: 3] for values in rows)
    return Site(X, y, name=name, **{"rules": Exact()} | options)


def sites_of(rows, names=NAMES, **options):
    return {name: site_of(rows, name, **options) for name in names}


class Middle:
    """Carries messages of a fit, and changes some; keeps what was said."""

    def __init__(self, sites, change=lambda name, content: content):
        self.sites, self.change = sites, change
        self.heard, self.said = ({name: [] for name in sites} for _ in range(2))

    def send(self, name, message):
        content = wire.decode(message)
        changed = self.change(name, content)
        self.heard[name].append(changed)
        about = f"{len(self.heard[name])} of another"
        data = message if changed is content else wire.encode(changed, site=name, about=about)
        said = wire.read(self.sites[name].answer(data))
        self.said[name].append(said.content)
        digest = sha256(message).hexdigest()
        return wire.encode(said.content, site=name, about=digest, rows=said.rows)

    def fit(self, model=MODEL, grid=GRID, **options):
        send = {name: partial(self.send, name) for name in self.sites}
        return Coordinator(model, send, grid=grid, **options).fit()

    def refusal(self, **options):
        """Words of the site that refuses, or of who sees first that nothing adds up."""
        with pytest.raises(RefusedError, match=rf"^site '.' refused: |^{NO_SUM}") as caught:
            self.fit(**options)
        return str(caught.value)


def first(kind, to="ABC", after=0):
    """Whether a message is the first of a kind, after some, to one of some sites."""
    seen = dict.fromkeys(NAMES, 0)

    def is_it(name, content):
        seen[name] += isinstance(content, kind)
        return isinstance(content, kind) and name in to and seen[name] == after + 1

    return is_it


def answer(site, content):
    return wire.decode(site.answer(wire.encode(content)))


def refusal(site, content):
    found = answer(site, content)
    assert isinstance(found, wire.Refused), type(found)
    return found.reason


def moved(words):
    return add(words, np.eye(1, len(words), dtype=np.uint64)[0])


SUMS = {
    "another number": moved,
    "another tag": lambda words: moved(words[::-1])[::-1],
    "zeros": np.zeros_like,
}


@pytest.mark.thorough(but=r"ABC")
@pytest.mark.parametrize("to", ["ABC", "B"])
@pytest.mark.parametrize("spoil", SUMS.values(), ids=SUMS)
def test_sites_go_on_with_the_true_sum_alone(rows, spoil, to):
    is_it = first(wire.Add, to, 3)

    def change(name, said):
        return replace(said, words=spoil(said.words)) if is_it(name, said) else said

    middle = Middle(sites_of(rows), change)
    assert OTHER_SUM in middle.refusal()
    last = middle.heard["B"][-1]
    for name, site in middle.sites.items():
        if name in to:  # and the fit is over there, whatever comes
            assert "the fit waits for none" in refusal(site, last)
            assert site.model_ is None


@pytest.mark.parametrize("others", [("A",), ("B", "C")])
def test_a_sum_without_some_site_is_refused(rows, others):
    """Else what it lacks is the part of that site, by subtraction."""
    middle = Middle(sites_of(rows))

    def change(name, content):
        if isinstance(content, wire.Add) and content.number == 2:
            parts = [middle.said[other][3].words for other in others]
            return replace(content, words=total_of(parts))
        return content

    middle.change = change
    assert OTHER_SUM in middle.refusal()


def test_sums_are_those_of_their_round(rows):
    kept = {}

    def again(name, content, choose):
        if isinstance(content, wire.Add):
            kept.setdefault(name, []).append(content)
            if content.number == 5:
                return choose(name)
        return content

    for choose, reason in (
        (lambda name: kept[name][2], "is number 3, and 5 is waited for"),
        (lambda name: replace(kept[name][4], number=6), "is number 6, and 5 is waited for"),
        (lambda name: replace(kept[name][3], number=5), "has another form"),
    ):
        kept.clear()
        assert reason in Middle(sites_of(rows), partial(again, choose=choose)).refusal()
    of_another = Middle(sites_of(rows))
    of_another.fit()
    adds = {said.number: said for said in of_another.heard["A"] if isinstance(said, wire.Add)}

    def change(name, content):
        return adds[2] if isinstance(content, wire.Add) and content.number == 2 else content

    assert OTHER_SUM in Middle(of_another.sites, change).refusal()  # of the same sites and fit


WORDS = {
    "negative": lambda words: -words.astype(np.int64),
    "huge": lambda words: words | np.uint64(PRIME),
    "numbers": lambda words: words.astype(float) * np.nan,
    "short": lambda words: words[1:],
    "table": lambda words: words[None],
}


@pytest.mark.parametrize("spoil", WORDS.values(), ids=WORDS)
def test_what_is_no_sum_is_refused(rows, spoil):
    is_it = first(wire.Add, "C", 2)

    def change(name, said):
        return replace(said, words=spoil(said.words)) if is_it(name, said) else said

    reason = Middle(sites_of(rows), change).refusal()
    assert "has another form" in reason or "the sum that came is none of words" in reason


def swapped(table, one, other):
    return table | {one: table[other], other: table[one]}


def table_changed(said, name, **facts):
    other = replace(said.joined[name], facts=said.joined[name].facts | facts)
    return replace(said, joined=said.joined | {name: other})


POWERS, KEY = {"powers": np.full(5, 40)}, Identity.new().public.hex()
OPENINGS = {  # kind of message, sites that are told another one, which, and why it is refused
    "Begin": (wire.Begin, "B", lambda s: wire.Begin(
        replace(s.programme, session="x")), OTHER_SHARE),
    "Begin of another fit": (wire.Begin, "B", lambda s: wire.Begin(replace(
        s.programme, estimator=s.programme.estimator.replace("0.02", "0.01"))), OTHER_SHARE),
    "keys swapped": (wire.Seal, "A", lambda s: replace(s, joined=s.joined | {
        "B": replace(s.joined["B"], public=s.joined["C"].public),
        "C": replace(s.joined["C"], public=s.joined["B"].public)}), OTHER_SHARE),
    "one key twice": (wire.Seal, "A", lambda s: replace(s, joined=s.joined | {
        "B": s.joined["C"]}), "have the same public key"),
    "key of the coordinator": (wire.Seal, "A", lambda s: replace(s, joined=s.joined | {
        "B": replace(s.joined["B"], public=KEY)}), OTHER_SHARE),
    "key of small order": (wire.Seal, "A", lambda s: replace(s, joined=s.joined | {
        "B": replace(s.joined["B"], public="00" * 32)}), "is no valid one"),
    "no key": (wire.Seal, "A", lambda s: replace(s, joined=s.joined | {
        "B": replace(s.joined["B"], public="key")}), "a public key of a site is none"),
    "facts": (wire.Seal, "AB", lambda s: table_changed(s, "C", **POWERS), NO_SUM),
    "facts to all": (wire.Seal, "ABC", lambda s: table_changed(s, "C", **POWERS),
                     "has something else of this site than what it has said"),
    "facts of another form": (wire.Seal, "A", lambda s: table_changed(
        s, "C", powers=np.zeros(5)), "the message has a table 'powers' of another form"),
    "sites": (wire.Seal, "A", lambda s: replace(s, joined={
        name: s.joined[name] for name in "AB"}), "is not of the sites of its programme"),
    "shares swapped": (wire.Start, "A", lambda s: replace(
        s, sealed=swapped(s.sealed, "B", "C")), OTHER_SHARE),
    "share of oneself": (wire.Start, "A", lambda s: replace(s, sealed=s.sealed | {
        "B": s.sealed["A"]}), OTHER_SHARE),
    "no share": (wire.Start, "A", lambda s: replace(s, sealed=s.sealed | {
        "B": wire.Sealed({})}), OTHER_SHARE),
    "own shares": (wire.Start, "A", lambda s: replace(s, sealed=s.sealed | {
        "A": s.sealed["B"]}), NO_SUM),
    "order": (wire.Seal, "C", lambda s: wire.Start({name: wire.Sealed({}) for name in NAMES}),
              "begins a fit before the site has the keys of all"),
}  # fmt: skip


@pytest.mark.thorough(but=r"Begin|twice|coordinator|facts|shares")
@pytest.mark.parametrize("case", OPENINGS)
def test_sites_that_are_told_different_things_have_no_fit(rows, case):
    kind, to, change, reason = OPENINGS[case]
    is_it = first(kind, to)
    middle = Middle(sites_of(rows), lambda name, c: change(c) if is_it(name, c) else c)
    found = middle.refusal()
    assert all(words in found for words in reason.split("'.'")), found
    # at most one sum was covered, and by masks that do not cancel
    assert max(len(said) for said in middle.said.values()) <= 4


@pytest.mark.thorough
def test_who_plays_the_other_sites_meets_those_who_know_their_keys(rows, monkeypatch):
    """Without `peers`, it reads the parts of the one that is left: the guide says so."""
    covered, cover = {}, Circle.cover

    def keep(self, words, transcript):
        covered.setdefault(self.name, []).append(words)
        return cover(self, words, transcript)

    monkeypatch.setattr(Circle, "cover", keep)
    known = {"B": Identity.new().fingerprint, "C": Identity.new().fingerprint}
    made_up = sites_of(rows, "BC")
    middle = Middle({"A": site_of(rows, "A"), **made_up})
    middle.fit()
    for number, said in enumerate(middle.said["A"][2:-1]):
        masks = [m.words for m in (middle.said["B"][2 + number], middle.said["C"][2 + number])]
        others = add(*(covered[name][number] for name in "BC"))
        read = add(total_of([said.words, *masks])[:-1], (np.uint64(PRIME) - others) % PRIME)
        np.testing.assert_array_equal(read, covered["A"][number])
    middle = Middle({"A": site_of(rows, "A", peers=known), **sites_of(rows, "BC")})
    assert "(`peers`)" in middle.refusal()
    assert len(middle.said["A"]) == 2 and len(covered["A"]) == number + 1


def estimator(name, **parameters):
    return json.dumps({"class": name, "parameters": parameters})


LATE, NONE = "in whose order 'A' has no place", "is no estimator and no penalty of this package"
PROGRAMMES = {
    "two sites": ({"sites": ("A", "B")}, "is of 2 site(s), and sums hide this one among 3 or more"),
    "not sorted": ({"sites": ("B", "A", "C")}, LATE),
    "twice": ({"sites": ("A", "A", "B")}, LATE),
    "not here": ({"sites": ("B", "C", "D")}, LATE),
    "class": ({"estimator": estimator("Lasso")}, NONE),
    "function": ({"estimator": estimator("wald")}, NONE),
    "code": ({"estimator": estimator("os.system", command="true")}, NONE),
    "code inside": (
        {
            "estimator": estimator(
                "CoxLassoCCD", penalty={"class": "subprocess.Popen", "parameters": {"args": "true"}}
            )
        },
        NONE,
    ),
    "private": ({"estimator": estimator("__builtins__")}, NONE),
    "penalty": ({"estimator": estimator("SCAD")}, "its estimator is none of this package"),
    "number": ({"estimator": "3"}, "its estimator is none of this package"),
    "parameter": ({"estimator": estimator("CoxLassoCCD", beta=1)}, "unexpected keyword argument"),
    "value": ({"estimator": estimator("CoxLassoCCD", ties="none")}, "cannot read its rows by the"),
    "no text": ({"estimator": "{"}, "its estimator cannot be read"),
    "deep": ({"estimator": "[" * 100_000}, "its estimator cannot be read"),
    "other keys": ({"estimator": '{"name": "CoxLassoCCD"}'}, "its estimator cannot be read"),
    "list": ({"estimator": '{"class": "CoxLassoCCD", "parameters": [1]}'}, "cannot be read"),
    "list for a class": ({"estimator": '{"class": ["wald"], "parameters": {}}'}, NONE),
    "then": ({"then": '[["predict", {}]]'}, "['predict'] do not follow a fit over sites"),
    "then code": ({"then": '[["datasets.simulate_cox", {}]]'}, "do not follow a fit"),
    "then what": ({"then": "[3]"}, "what follows its fit cannot be read"),
    "then deep": ({"then": "[" * 100_000}, "what follows its fit cannot be read"),
    "folder": ({"then": '[["bootstrap", {"folder": "/tmp/x"}]]'}, "`folder` is written to by"),
    "alphas": ({"estimator": estimator("CoxLassoCV", n_alphas=10**9)}, "`n_alphas` is of 1,000,0"),
    "listed": ({"then": json.dumps([["fit_path", {"alphas": [1.0] * 1001}]])}, "`alphas` is of 1"),
    "points": (
        {"then": '[["profile_likelihood", {"columns": [0], "n_points": NaN}]]'},
        "sites take up to",
    ),
    "seed": ({"then": '[["bootstrap", {}]]'}, "`random_state` of bootstrap is None; pass a number"),
    "seed of folds": (
        {"estimator": estimator("CoxLassoCV", random_state=None)},
        "`random_state` of CoxLassoCV",
    ),
    "level": ({"level": "rows"}, "`level` is 'rows'"),
    "grid": ({"grid": GRID[::-1].copy()}, "`grid` is not of ascending times"),
    "infinite grid": ({"grid": np.array([1.0, np.inf])}, "`grid` is not of ascending times"),
    "fine grid": ({"grid": np.arange(1.0, 600.0)}, "more times than the site has rows"),
}


@pytest.fixture(scope="module")
def programme():
    messages = Coordinator(MODEL, NAMES, grid=GRID).messages()
    return wire.decode(messages["A"]).programme


@pytest.mark.parametrize("case", PROGRAMMES)
def test_programmes_that_are_none_are_refused(rows, programme, case):
    changes, reason = PROGRAMMES[case]
    site = site_of(rows, "A")
    assert reason in refusal(site, wire.Begin(replace(programme, **changes)))
    assert isinstance(answer(site, wire.Begin(programme)), wire.Joined)  # none of it is kept


def test_programmes_are_shown_as_they_are(programme):
    """Who approves one at a terminal sees what could move its cursor, or hide words."""
    names = (*NAMES[:2], "C.\x1b[8m\u202e")
    then = json.dumps([["wald", {"level": "0.95).\n"}]])
    shown = str(replace(programme, sites=names, then=then))
    assert shown.splitlines()[0].endswith(r"A, B, C.\x1b[8m\u202e.")
    assert shown.splitlines()[2] == r"Then wald(level='0.95).\n')."


def test_labels_that_fill_a_sites_memory_are_refused(rows, programme):
    """A site that is not honest names more strata than there can be rows."""
    sites = sites_of(rows)
    joined = {name: answer(site, wire.Begin(programme)) for name, site in sites.items()}
    labels = np.arange(1 << 19)
    joined["B"] = replace(joined["B"], facts=joined["B"].facts | {"labels": labels})
    assert "strata times `grid` are more than" in refusal(sites["A"], wire.Seal(joined))


def test_no_programme_writes_to_a_folder_at_sites(rows, programme, tmp_path):
    folder = str(tmp_path / "there")
    text = estimator("CoxLassoCV", folder=folder, n_jobs=8, n_alphas=2, cv=2, random_state=0)
    sites = sites_of(rows)
    is_it = first(wire.Begin)

    def change(name, content):
        if not is_it(name, content):
            return content
        return wire.Begin(replace(content.programme, estimator=text))

    with pytest.raises((RefusedError, ValueError)):  # the coordinator fits another model
        Middle(sites, change).fit()
    model = sites["A"]._session._model
    assert (model.folder, model.n_jobs, model.n_alphas) == (None, 1, 2)
    assert not (tmp_path / "there").exists()


@pytest.mark.parametrize("changes", [
    {"grid": GRID[:-1]}, {"grid": GRID - 1.0}, {"grid": np.append(GRID, 1300.0)},
    {"rows_per_time": 31},
])  # fmt: skip
def test_times_are_proposed_once(rows, programme, changes):
    """Else the difference of two fits is the row that lies between their times."""
    other = wire.Begin(replace(programme, session="other", **changes))
    for is_first in (True, False):
        site = site_of(rows, "A")
        pair = [wire.Begin(programme), other]
        one, two = pair if is_first else pair[::-1]
        assert isinstance(answer(site, one), wire.Joined)
        assert "other times were agreed or proposed before" in refusal(site, two)
        assert isinstance(answer(site, one), wire.Joined)


def test_other_sites_are_not_joined(rows, programme):
    """Else the difference of two sums is the part of the site that comes or goes."""
    site = site_of(rows, "A")
    assert isinstance(answer(site, wire.Begin(programme)), wire.Joined)
    for names in (("A", "B", "D"), ("A", "B", "C", "D")):
        other = wire.Begin(replace(programme, session="other", sites=names))
        assert "it has taken part in fits of other sites" in refusal(site, other)


def test_what_was_said_before_tells_nothing_new(rows):
    middle = Middle(sites_of(rows))
    middle.fit()
    site, heard, said = middle.sites["A"], middle.heard["A"], middle.said["A"]
    told = site.n_exchanges_
    assert answer(site, heard[-1]) == said[-1]  # an answer that was lost is given again
    for content in reversed(heard[1:-1]):  # to a site whose fit is over
        assert isinstance(answer(site, content), wire.Refused)
    for content, before in zip(heard, said, strict=True):
        again = answer(site, content)
        if not isinstance(content, wire.Seal):  # nonces are random
            assert wire.encode(again) == wire.encode(before)
    assert site.n_exchanges_ == told
    seal, start = heard[1:3]
    for content in heard[:3]:
        answer(site, content)
    assert "is of the keys of a fit that has begun" in refusal(site, seal)
    assert "begins a fit that has begun" in refusal(site, start)
    assert isinstance(answer(site, heard[3]), wire.Covered)  # and it goes on
    joined = answer(site, wire.Begin(replace(heard[0].programme, session="another")))
    answer(site, replace(seal, joined=seal.joined | {"A": joined}))
    assert "does not open" in refusal(site, start)
    other = site_of(rows, "A", key=Identity.new())
    answer(other, heard[0])
    assert "something else of this site" in refusal(other, seal)


def test_one_mask_does_not_cover_two_versions_of_rows(rows):
    """Their difference would be read, by who has the site say all again when rows have changed."""
    key, secret = Identity.new(), 16 * b"k"
    sites = sites_of(rows) | {"A": site_of(rows, "A", key=key, secret=secret)}
    middle = Middle(sites)
    middle.fit()
    X, y = rows
    changed = X.copy()
    changed[0, 0] = 1.0 - changed[0, 0]
    for values in (X, changed):
        site = site_of((values, y), "A", key=key, secret=secret)
        parts = [answer(site, content) for content in middle.heard["A"][:4]][2:]
        is_same = [
            (part.words == before.words).mean()
            for part, before in zip(parts, middle.said["A"][2:], strict=False)
            if isinstance(part, wire.Covered)
        ]
        assert is_same == ([1.0, 1.0] if values is X else [0.0])


def test_one_mask_does_not_cover_two_parts(rows, monkeypatch):
    """Whatever made the second one another one, as rounding of another machine would."""
    middle = Middle(sites_of(rows))
    middle.fit()
    site, heard, describe = middle.sites["A"], middle.heard["A"], Local.describe
    told = site.n_exchanges_

    def other(self, *given):
        tables = describe(self, *given)
        return tables | {"rows": [tables["rows"][0] + 1]}

    monkeypatch.setattr(Local, "describe", other)
    for content in heard[:3]:
        answer(site, content)
    assert "it has told another part at this point" in refusal(site, heard[3])
    monkeypatch.undo()
    assert [answer(site, content) for content in heard[:4]][-1].number == 2
    assert site.n_exchanges_ == told


@pytest.mark.thorough
def test_sums_under_other_weights_have_other_masks(rows):
    forms = []
    for seed in (0, 1):
        then = [("bootstrap", {"n_replicates": 2, "kind": "exponential", "random_state": seed})]
        middle = Middle(sites_of(rows, rules=Exact(largest_share=1.0), secret=16 * b"k"))
        middle.fit(then=then, rows_per_time=60)
        forms.append({said.form for said in middle.said["A"] if isinstance(said, wire.Covered)})
    of_draws = [one - other for one, other in (forms, forms[::-1])]
    assert min(map(len, of_draws)) > 3 and len(forms[0] & forms[1]) > 3


def test_sums_are_counted_under_whichever_session_they_are_told(rows):
    sites = sites_of(rows)

    def change(_, content):
        if not isinstance(content, wire.Begin):
            return content
        return wire.Begin(replace(content.programme, session="always the same"))

    counts = []
    for alpha in (0.02, 0.01):
        middle = Middle(sites, change)
        middle.fit(CoxLassoCCD(alpha=alpha))
        counts.append(sum(isinstance(said, wire.Covered) for said in middle.said["A"]))
        assert sites["A"].n_exchanges_ == sum(counts)
    assert min(counts) > 3


@pytest.mark.thorough
def test_weights_are_counted_over_the_life_of_a_site(rows, tmp_path):
    keys = {name: Identity.new() for name in NAMES}

    def fit(seed):
        """By sites that are started anew."""
        kept = {"rules": Exact(largest_share=1.0, max_exchanges=1000), "secret": 16 * b"k"}
        sites = {
            name: site_of(rows, name, ledger=tmp_path / name, key=keys[name], **kept)
            for name in NAMES
        }
        options = {"n_replicates": 3, "kind": "exponential", "random_state": seed}
        Middle(sites).fit(then=[("bootstrap", options)], rows_per_time=60)
        return sites["A"].ledger.total("weights")

    assert [fit(0), fit(0), fit(1), fit(2)] == [3, 3, 6, 9]
    with pytest.raises(RefusedError, match="under 10 independent vectors of weights in its life"):
        fit(3)


def test_matrices_are_counted_over_the_life_of_a_site(rows):
    sites = sites_of(rows, rules=Exact(max_matrices=1, largest_share=1.0))
    for _ in range(2):
        Middle(sites).fit(level="full")
    other = CoxLassoCCD(alpha=0.02, time_varying={3: [300.0]})
    with pytest.raises(RefusedError, match="matrices are released at 1 points"):
        Middle(sites).fit(other, level="full")


def test_names_of_sites_stay_with_their_keys(rows):
    """Else a coordinator takes keys of its own under the names that a site has met."""
    sites = sites_of(rows)
    Middle(sites).fit()
    others = {"A": sites["A"]} | sites_of(rows, ("B", "C"))
    middle = Middle(others)
    assert "the key of 'B' is another one than when it first took part" in middle.refusal()
    assert [type(said) for said in middle.said["A"]] == [wire.Joined, wire.Refused]
    Middle(sites).fit(CoxLassoCCD(alpha=0.01))


def test_messages_before_a_fit_are_answered_by_that_it_is_lost(rows):
    for content in (wire.Seal({}), wire.Start({}), wire.Add(1, np.zeros(3, np.uint64))):
        assert answer(site_of(rows, "A"), content) == wire.Lost()


def test_labels_of_few_rows_stay(rows):
    X, y = rows
    stratum = np.where(np.arange(N_ROWS) < 27, "alone", "many")
    sites = sites_of((X, surv(y["event"], y["time"], stratum=stratum)))
    middle = Middle(sites)
    middle.fit()
    for name, said in middle.said.items():
        assert sites[name].left_out_ == ("alone",)
        data = b"".join(map(wire.encode, said))
        assert b"alone" not in data
        assert "alone".encode("utf-32-le") not in data and "many".encode("utf-32-le") in data


def test_groups_of_censoring_of_few_rows_stay(rows):
    """Which strata and groups occur together is said in the clear."""
    X, y = rows
    y = competing_risks(y["event"].astype(int), y["time"])
    stratum = np.arange(N_ROWS) // 3 % 2
    grid = GRID[::6]
    for n_moved, kind in ((0, wire.Joined), (9, wire.Refused), (10, wire.Joined)):
        group = stratum.copy()
        group[np.flatnonzero((stratum == 0) & (np.arange(N_ROWS) % 3 == 0))[:n_moved]] = 1
        own = {"strata": stratum[::3], "censoring_groups": group[::3]}
        site = Site(X[::3], y[::3], name="A", **own)
        begin = Coordinator(FineGrayCCD(), NAMES, grid=grid).messages()["A"]
        assert isinstance(wire.decode(site.answer(begin)), kind), n_moved


@pytest.mark.thorough
def test_columns_of_nobody_look_like_those_of_few(rows, monkeypatch):
    found, cover = [], Circle.cover

    def keep(self, words, transcript):
        found.append((self.name, words.tobytes()))
        return cover(self, words, transcript)

    monkeypatch.setattr(Circle, "cover", keep)
    told = []
    for n_ones in (0, 27):
        X = rows[0].copy()
        X[:, 1], X[:n_ones, 1] = 0.0, 1.0
        middle = Middle(sites_of((X, rows[1])))
        middle.fit()
        assert middle.sites["A"].absent_ == ("1",)
        joined = [wire.encode(replace(said[0], public="")) for said in middle.said.values()]
        told.append((joined, sorted(found)))
        found.clear()
    assert told[0] == told[1]


def test_points_far_from_the_rows_do_not_single_out_the_largest(rows):
    """There, sums of curvatures are exp(eta) of one row, and residuals are the outcome."""
    X, y = rows
    sites = sites_of((X, y["event"].astype(int)))
    middle = Middle(sites)
    middle.fit(LogisticCCD(alpha=0.002), None)
    local = sites["A"]._session.local
    for want in ((), ("gradient", "size", "curvature")):
        for center in (0.0, -40.0, 40.0, -745.0, np.inf, 1e308):
            coef = m.Coef(np.array([4]), np.array([4.0]))
            request = (
                m.Slopes(m.Recipe(), coef, {}, intercept=center, want=want)
                if want
                else m.Evaluate(m.Recipe(), coef, None, center=center)
            )
            [found] = local.ask([request])
            assert (found is not None) == (center == 0.0), (want, center)


def test_whatever_bytes_come_a_site_answers(rows):
    middle = Middle(sites_of(rows))
    middle.fit()
    site = site_of(rows, "A", rules=Exact(max_exchanges=10**6))
    rng = np.random.default_rng(0)
    messages = [wire.encode(message) for message in middle.heard["A"][:6]]
    for _ in range(300):
        data = bytearray(messages[rng.integers(len(messages))])
        for at in rng.integers(len(data), size=rng.integers(1, 6)):
            data[at] = rng.integers(256)
        wire.decode(site.answer(bytes(data[: rng.integers(1, 3) * len(data)])))


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
