"""Sites that run one fit together: what leaves them, and whose fit it is."""

import json
import re
import warnings
from collections import Counter
from dataclasses import replace
from functools import partial, reduce
from itertools import pairwise
from threading import Lock

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from sksurvgpu import (
    CaseSeriesCCD,
    CoxLassoCCD,
    CoxLassoCV,
    FineGrayCCD,
    LinearCCD,
    LogisticCCD,
    PoissonCCD,
    case_series,
    competing_risks,
    profile_likelihood,
    surv,
    wald,
)
from sksurvgpu.backends.sums import messages as m
from sksurvgpu.data.design.columns import build_design
from sksurvgpu.data.outcomes.survival import Outcome
from sksurvgpu.exceptions import NothingSelectedWarning
from sksurvgpu.federated import Coordinator, RefusedError, Rules, Site, wire
from sksurvgpu.federated import grid as grids
from sksurvgpu.federated import words as arithmetic
from sksurvgpu.federated.__main__ import main
from sksurvgpu.federated.files import Mailbox
from sksurvgpu.federated.keys import Circle, Identity, total_of
from sksurvgpu.federated.local import Local
from sksurvgpu.federated.reading import digest_rows
from sksurvgpu.federated.times import candidates, choose_times, flags_of

pytestmark = pytest.mark.filterwarnings("ignore:times are so coarse")

GRID = np.arange(20.0, 1220.0, 20.0)
COX = CoxLassoCCD | FineGrayCCD
NAMES = ("A", "B", "C")
CUTS = (0, 700, 1500, 2400)
# Of sites whose sums are those of the rows as they are.
Exact = partial(Rules, blur=0)
OPEN = Exact(min_rows=1, max_exchanges=1000, largest_share=1.0, longest_range=700.0, max_matrices=9)


def table(rng, n=CUTS[-1], p=12):
    """Columns: dense, sparse with values, ones; the last ones are rare somewhere."""
    X = (rng.random((n, p)) < rng.uniform(0.08, 0.5, p)).astype(float)
    X[:, 0] = rng.normal(size=n)
    X[:, 1] *= rng.choice([0.5, 1.0, 2.0], n)
    X[:, -1] = 0.0
    X[rng.choice(700, 4, replace=False), -1] = 1.0  # few at A
    X[1500 + rng.choice(900, 60, replace=False), -1] = 1.0  # enough at C
    X[:, -2] = 1.0
    X[700 + rng.choice(800, 5, replace=False), -2] = 0.0  # few zeros at B
    X[rng.choice(700, 90, replace=False), -2] = 0.0
    return X


def survival(rng, X, kind="plain"):
    eta = X[:, :6] @ np.array([0.4, -0.4, 0.3, 0.2, -0.3, 0.5])
    event = rng.exponential(np.exp(-eta)) * 400
    censored = rng.uniform(50, 1800, len(X))
    time, seen = np.minimum(event, censored) + 0.01, event <= censored
    if kind == "competing":
        return competing_risks(np.where(seen, 1 + (rng.random(len(X)) < 0.4), 0), time)
    start = np.where(rng.random(len(X)) < 0.4, time * rng.random(len(X)), 0.0)
    stratum = rng.integers(0, 2, len(X))
    more = {"start": start} if kind == "delayed" else {}
    more |= {"stratum": np.array(["old", "young"])[stratum]} if kind == "strata" else {}
    return surv(seen, time, **more)


def parts(values, cuts=CUTS):
    return [values[a:b] for a, b in pairwise(cuts)]


def sites_of(X, y, rules=None, cuts=CUTS, **arguments):
    pieces = zip(NAMES, parts(X, cuts), parts(y, cuts), strict=True)
    rules = Exact() if rules is None else rules
    return {name: Site(a, b, rules=rules, **arguments) for name, a, b in pieces}


def send_to(sites):
    return {name: site.answer for name, site in sites.items()}


def fit_over(sites, model, grid=GRID, **options):
    """A coordinator that has fitted over sites."""
    coordinator = Coordinator(clone(model), send_to(sites), grid=grid, **options)
    coordinator.fit()
    return coordinator


def pooled(X, y, coordinator, sites, cuts=CUTS):
    """All rows as the sites have agreed to read them."""
    X, y = X.copy(), y.copy()
    for site, rows in zip(sites.values(), parts(np.arange(len(X)), cuts), strict=True):
        for column in map(int, site.absent_):
            X[rows, column] = 0.0
    if y.dtype.names is None or "time" not in y.dtype.names:
        return X, y
    late = y["time"] > GRID[-1]
    y["event"][late] = 0
    grids = coordinator.grid_
    for label in [None] if not isinstance(grids, dict) else grids:
        grid = grids if label is None else grids[label]
        rows = slice(None) if label is None else y["stratum"] == label
        at = np.minimum(np.searchsorted(grid, y["time"][rows]), len(grid) - 1)
        y["time"][rows] = grid[at]
        if "start" in y.dtype.names:
            before = np.searchsorted(grid, y["start"][rows], side="right")
            y["start"][rows] = np.append(0.0, grid)[before]
    if "start" in y.dtype.names:
        keeps = y["start"] < y["time"]
        X, y = X[keeps], y[keeps]
    return X, y


CASES = {
    "breslow": (CoxLassoCCD(alpha=0.003), "plain"),
    "efron": (CoxLassoCCD(alpha=0.003, ties="efron"), "plain"),
    "efron, delayed entry": (CoxLassoCCD(alpha=0.003, ties="efron"), "delayed"),
    "delayed entry": (CoxLassoCCD(alpha=0.003), "delayed"),
    "strata": (CoxLassoCCD(alpha=0.003), "strata"),
    "pieces": (CoxLassoCCD(alpha=0.003, time_varying={2: [300.0]}), "plain"),
    "competing": (FineGrayCCD(alpha=0.003), "competing"),
    "logistic": (LogisticCCD(alpha=0.003), "classes"),
    "poisson": (PoissonCCD(alpha=0.003), "counts"),
    "linear": (LinearCCD(alpha=0.003), "numbers"),
    "case series": (CaseSeriesCCD(alpha=0.003), "persons"),
}


def outcome(rng, X, kind):
    eta = X[:, :4] @ np.array([0.5, -0.4, 0.5, 0.3]) - 0.5
    if kind == "classes":
        return (rng.random(len(X)) < 1 / (1 + np.exp(-eta))).astype(int)
    if kind == "counts":
        return rng.poisson(np.exp(eta))
    if kind == "numbers":
        return eta + rng.normal(size=len(X))
    if kind == "persons":
        length = rng.uniform(10, 60, len(X))
        return case_series(rng.poisson(0.02 * length * np.exp(eta)), length, np.arange(len(X)) // 4)
    return survival(rng, X, kind)


@pytest.mark.parametrize("case", CASES)
def test_fit_is_that_of_all_rows_at_the_agreed_times_and_every_site_has_it(case):
    model, kind = CASES[case]
    rng = np.random.default_rng(1)
    X = table(rng)
    y = outcome(rng, X, kind)
    sites = sites_of(X, y)
    coordinator = fit_over(sites, model, GRID if isinstance(model, COX) else None)
    far = coordinator.estimator
    here = clone(model).fit(*pooled(X, y, coordinator, sites))
    assert far.objective_ == pytest.approx(here.objective_, rel=1e-10)
    assert far.coef_ == pytest.approx(here.coef_, abs=2e-4)
    assert far.kkt_ <= 1.0 and np.flatnonzero(far.coef_).size > 3
    assert [site.absent_ for site in sites.values()] == [("11",), ("10", "11"), ()]
    assert (coordinator.absent_, coordinator.n_left_out_) == ({"10": 1, "11": 2}, 0)
    for site in sites.values():
        assert site.model_.coef_.tobytes() == far.coef_.tobytes()
        assert site.n_exchanges_ == coordinator.n_exchanges_ - 3


@pytest.fixture(scope="module")
def cox():
    rng = np.random.default_rng(1)
    X = table(rng)
    return X, survival(rng, X)


LASSO = CoxLassoCCD(alpha=0.003)


# -- times ------------------------------------------------------------------------------------
def followed(rng, n, has_entries, has_units):
    """Rows of a site: outcome and persons."""
    time = np.minimum(rng.exponential(rng.choice([8.0, 25.0]), n), rng.uniform(0, 50, n)) + 0.1
    start = np.where(rng.random(n) < 0.5, np.floor(time * rng.random(n)), 0.0)
    whole = Outcome(
        rng.random(n) < 0.6, time, start if has_entries else None, rng.integers(0, 2, n),
        np.array(["a", "b"]),
    )  # fmt: skip
    return whole, rng.integers(0, n // 2, n) if has_units else None


def persons_by_time(outcome, unit):
    """Persons of every kind, stratum and time, one row after the other."""
    for kind, at in (("exits", "time"), ("deaths", "time"), ("entries", "start")):
        persons = {}
        for i, who in enumerate(np.arange(outcome.n_rows) if unit is None else unit):
            when = None if getattr(outcome, at) is None else getattr(outcome, at)[i]
            if when and (kind != "deaths" or outcome.event[i]):
                persons.setdefault((kind, outcome.stratum[i], when), set()).add(who)
        yield from persons.values()


@pytest.mark.parametrize("seed", range(6))
def test_agreed_times_have_enough_rows_of_every_kind_or_none(seed):
    """... for sites whose follow-up and rows have little in common; and there are many of them."""
    rng = np.random.default_rng(seed)
    grid, labels, least = np.arange(1.0, 40.0), np.array(["a", "b"]), (10, 14)[seed % 2]
    held, found = {}, []
    every = np.array([(a, b) for b in range(len(grid) + 1) for a in range(b)])
    spans = candidates(len(grid))
    for name in NAMES:
        whole, unit = followed(rng, int(rng.integers(150, 600)), seed % 2, seed % 3 == 0)
        ended, begins = grids.end_follow_up(whole, grid[-1])
        begins &= ~np.isin(whole.stratum, grids.rare_strata(ended, unit, least))
        held[name] = ended.take(begins), None if unit is None else unit[begins]
        if begins.any():
            proposed = grids.propose(*held[name], grid, 10)
            found.append([flags_of(proposed, least, labels, some) for some in (spans, every)])
    some, all_ = (np.all(flags, axis=0) for flags in zip(*found, strict=True))
    times, best = choose_times(labels, grid, spans, some), choose_times(labels, grid, every, all_)
    assert len(best.times) >= len(times.times) >= max(2, 0.8 * len(best.times) - 1)
    assert set(times.times) <= set(grid) and times.times[-1] == grid[-1]
    for coarse, unit in held.values():
        coarse, keeps = grids.coarsen(coarse, times, unit)
        counts = [
            len(persons)
            for persons in persons_by_time(
                coarse.take(keeps), None if unit is None else unit[keeps]
            )
        ]
        assert min(counts, default=least) >= least
        assert not grids.find_few(coarse.take(keeps), None if unit is None else unit[keeps], least)


@pytest.mark.parametrize("seed", range(5))
def test_times_are_the_most_that_sites_agree_on(seed):
    rng, n = np.random.default_rng(seed), 7
    spans = candidates(n)
    assert {(0, n), (n - 1, n), (0, 1)} <= set(map(tuple, spans))
    agree = rng.random((2, len(spans))) < 0.5

    def most(chosen, begin=0):
        """Largest number of spans side by side from a time to the end, by trying all."""
        if begin == n:
            return 0
        tried = [1 + most(chosen, b) for a, b in chosen if a == begin]
        return max(tried, default=-np.inf)

    times = choose_times(np.arange(2), np.arange(1.0, n + 1), spans, agree)
    for label, is_agreed in enumerate(agree):
        ends = [0, *(times.of(label).astype(int))]
        assert len(ends) - 1 == max(0, most(spans[is_agreed].tolist()))
        assert set(pairwise(ends)) <= set(map(tuple, spans[is_agreed]))


# -- what leaves a site -----------------------------------------------------------------------
@pytest.fixture
def told(monkeypatch):
    """Requests of a fit and each site's tables, before these are covered; (None, description)."""
    found = {name: [] for name in NAMES}
    ask, describe = Local.ask, Local.describe

    def keep_tables(self, requests):
        answers = ask(self, requests)
        found[self._name] += zip(requests, answers, strict=True)
        return answers

    def keep_description(self, *given):
        found[self._name].append((None, describe(self, *given)))
        return found[self._name][-1][1]

    monkeypatch.setattr(Local, "ask", keep_tables)
    monkeypatch.setattr(Local, "describe", keep_description)
    return found


@pytest.fixture
def covers(monkeypatch):
    """Words of each site's parts of sums, and what covers them: the site sends that."""
    found, cover = {name: [] for name in NAMES}, Circle.cover

    def keep(self, words, transcript):
        found[self.name].append((words, cover(self, words, transcript)))
        return found[self.name][-1][1]

    monkeypatch.setattr(Circle, "cover", keep)
    return found


def test_a_part_is_read_by_nobody_and_all_parts_add_up(cox, covers):
    sites = sites_of(*cox)
    sent = {name: [] for name in NAMES}

    def send(name, message):
        answer = sites[name].answer(message)
        content = wire.decode(answer)
        if isinstance(content, wire.Covered):
            sent[name].append(content.words)
        return answer

    Coordinator(clone(LASSO), {name: partial(send, name) for name in NAMES}, grid=GRID).fit()
    for name in NAMES:  # nothing else leaves
        assert len(sent[name]) == len(covers[name]) == sites[name].n_exchanges_
        for words, (_, covered) in zip(sent[name], covers[name], strict=True):
            np.testing.assert_array_equal(words, covered)
    for cells in zip(*covers.values(), strict=True):
        plain = [words for words, _ in cells]
        assert any(words.any() for words in plain)
        total = total_of([covered for _, covered in cells])[:-1]
        np.testing.assert_array_equal(total, reduce(arithmetic.add, plain))
        for some in ([0], [1], [2], [0, 1], [0, 2], [1, 2]):
            seen = total_of([cells[k][1] for k in some])[:-1]
            assert not (seen == reduce(arithmetic.add, [plain[k] for k in some])).any()
    for name in NAMES:
        words = np.concatenate(sent[name])
        assert len(words) > 800 and len(np.unique(words)) == len(words)
        bits = (words[:, None] >> np.arange(61, dtype=np.uint64)) & np.uint64(1)
        assert abs(bits.mean(axis=0) - 0.5).max() < 2.5 / np.sqrt(len(words))
    again = {name: [covered for _, covered in cells] for name, cells in covers.items()}
    for cells in covers.values():
        cells.clear()
    fit_over(sites, LASSO)  # of the same words
    for name in NAMES:
        for (_, covered), before in zip(covers[name], again[name], strict=True):
            assert not (covered == before).any()


def test_what_is_public_tells_no_number_of_rows(cox):
    """... but orders of size: of other rows of such a site it is the same, bit by bit."""
    X, y = cox
    said = []
    for rows in (slice(None), slice(None, None, 2)):
        sites = sites_of(X[rows], y[rows], cuts=(0, 350, 750, 1200) if rows.step else CUTS)
        answers = Coordinator(clone(LASSO), NAMES, grid=GRID).messages()
        found = {name: wire.decode(sites[name].answer(answers[name])) for name in NAMES}
        said.append({name: (joined.names, joined.facts) for name, joined in found.items()})
    for name in NAMES:
        (names, facts), (others, other) = said[0][name], said[1][name]
        assert names == others and set(facts) == set(other)
        for key in set(facts) - {"powers"}:
            np.testing.assert_array_equal(facts[key], other[key])
        assert facts["powers"].dtype.kind == "i" and abs(facts["powers"]).max() < 4


@pytest.mark.parametrize("kind", ["plain", "delayed", "strata", "competing"])
def test_no_part_is_of_few_rows(kind, told):
    """At coefficients of zero, tables by time are numbers of rows: none, or ten and more."""
    rng = np.random.default_rng(0)
    X = table(rng)
    model = FineGrayCCD(alpha=9.0) if kind == "competing" else CoxLassoCCD(alpha=9.0)
    sites = sites_of(X, survival(rng, X, kind))
    with warnings.catch_warnings(action="ignore"):  # numba's filters, where it compiles in threads
        fit_over(sites, model, rows_per_time=0)
    for cells in told.values():
        cells.clear()
    with pytest.warns(NothingSelectedWarning) as warned:
        fit_over(sites, model, rows_per_time=0)
    assert sum(w.category is NothingSelectedWarning for w in warned) == 1  # and not at sites
    for name in NAMES:
        seen = Counter()
        for request, tables in told[name]:
            shift = np.exp(getattr(request, "shift", 0.0))
            for of in set(tables) & {"risk", "deaths", "exits", "leaving", "lost", "failed"}:
                counts = np.atleast_2d(tables[of])[0]
                counts = np.round(abs(counts) * (shift if of == "risk" else 1.0))
                if of == "risk" and kind == "delayed":
                    continue  # exits less entries
                seen[of] += counts.any()
                assert not ((counts > 0) & (counts < 10)).any(), of
        assert seen["deaths"] == 2 and seen["exits"] == 1
        assert seen["leaving"] == 1 and (seen["lost"] > 0) == (kind == "competing")


def test_rare_columns_are_zero_in_every_part(cox, told):
    fit_over(sites_of(*cox), LASSO)
    for name, column in (("A", 11), ("B", 10), ("B", 11)):
        seen = Counter()
        for _, tables in told[name]:
            for what in {"sum", "square", "gradient", "size", "curvature"} & set(tables):
                seen[what] += 1
                assert np.any(tables[what][0]) and not np.any(tables[what][column])
        assert len(seen) == 5
    assert any(tables["gradient"][11] for _, tables in told["C"] if "gradient" in tables)


def test_sums_of_few_rows_are_withheld_from_models(cox, told):
    X, y = cox
    sites = sites_of(X, y, Exact(max_matrices=99))
    fit_over(sites, LASSO, level="full")
    rare_pairs = rare_loads = 0
    for name, rows in zip(NAMES, parts(X), strict=True):
        for request, tables in told[name]:
            if "gram" in tables:
                has = (rows[:, request.columns] != 0.0).astype(int)
                pairs = has.T @ has
                rare = (pairs > 0) & (pairs < 10) & ~np.eye(len(pairs), dtype=bool)
                assert not tables["gram"][rare].any()
                rare_pairs += rare.sum()
            if "loads" in tables and len(tables["loads"]) == X.shape[1]:
                rare_loads += np.sum(~tables["loads"].any(axis=1))
    assert rare_pairs and rare_loads


def test_a_matrix_and_curvatures_tell_no_more_at_once(cox, told):
    sites = sites_of(*cox, Exact(max_matrices=99))
    fit_over(sites, LASSO)
    local = sites["A"]._session.local
    slopes = next(r for r, _ in reversed(told["A"]) if isinstance(r, m.Slopes))

    def ask(*want):
        [found] = local.ask([replace(slopes, want=want, columns=np.array([0, 3, 10, 11]))])
        return found

    both, curvature, gram = ask("curvature", "gram"), ask("curvature"), ask("gram")
    assert set(both) == set(curvature) | set(gram)
    for name, found in (curvature | {"gram": gram["gram"]}).items():
        np.testing.assert_array_equal(both[name], found)
    np.testing.assert_array_equal(both["loads"][[0, 3, 10, 11]], gram["loads"])


# -- refusals ---------------------------------------------------------------------------------
def refusal(site, content, **stamp):
    answer = wire.decode(site.answer(wire.encode(content, **stamp)))
    assert isinstance(answer, wire.Refused), type(answer)
    return answer.reason


def begun(sites, model=LASSO, **options):
    """Message that begins a fit, as each site is sent it."""
    coordinator = Coordinator(clone(model), [*sites], **{"grid": GRID, **options})
    return wire.decode(coordinator.messages()["A"])


REFUSED = {  # programme, rules and columns: the reason
    "its times are told in a grid only": (LASSO, {"grid": None}, {}),
    "`grid` has more times than the site has rows": (LASSO, {"grid": np.arange(1.0, 702.0)}, {}),
    r"at 0 points \(`max_matrices`\); take level='diagonal'": (LASSO, {"level": "full"}, {}),
    "the 4 exchanges that it allows are used up": (LASSO, {}, {"max_exchanges": 4}),
    r"read for 0 models \(`max_models`\)": (LASSO, {}, {"max_models": 0}),
    r"is of 3 site\(s\), and sums hide this one among 4 or more \(`min_sites`\)":
        (LASSO, {}, {"min_sites": 4}),
    "weights of kind 'multinomial' are not allowed":
        (LASSO, {"then": [("bootstrap", {"n_replicates": 2, "random_state": 0})]}, {}),
    "meat of rows are not released":
        (CoxLassoCCD(alpha=0.0), {"then": [("wald", {"robust": True})]}, {"min_rows": 1}),
    "a sum by column and time would be of fewer than 10 rows; take `profile_likelihood`":
        (CoxLassoCCD(alpha=0.0), {"then": [("wald", {})]}, {}),
    r"there are 2 to 10 folds \(`min_rows`\), not 11":
        (CoxLassoCV(n_alphas=2, cv=11, random_state=0), {}, {}),
    r"under 10 independent vectors of weights": (LASSO, {"then": [("bootstrap", {
        "n_replicates": 10, "kind": "exponential", "random_state": 0})]}, {}),
    r"a sum would be of fewer than 10 rows \(|a fold or a draw would have fewer than 10 rows of a":
        (CoxLassoCV(n_alphas=2, cv=9, random_state=0), {}, {}),
    "its outcome has no times; leave out `grid`": (LinearCCD(), {}, {}),
}  # fmt: skip


@pytest.mark.parametrize("reason", REFUSED)
def test_sites_refuse_programmes_that_would_tell_rows(cox, reason):
    model, options, rules = REFUSED[reason]
    X, y = cox
    y = y["time"] if isinstance(model, LinearCCD) else y
    sites = sites_of(X[:, :8], y, Exact(**rules))
    with pytest.raises(RefusedError, match=f"^site '[ABC]' refused: .*{reason}"):
        fit_over(sites, model, **{"grid": GRID, **options})


def test_sites_refuse_levels_of_few_rows(cox):
    X, y = cox
    level = np.arange(len(X)) % 4
    level[np.flatnonzero(level == 0)[9:]] = 1  # nine rows are of the level without a column
    levels = np.column_stack([X[:, 0], level == 1, level == 2, level == 3]).astype(float)
    with pytest.raises(RefusedError, match="fewer than 10 rows have none of the columns 1 to 3"):
        fit_over(sites_of(csr_array(levels), y), LASSO)


def test_centred_columns_of_measured_values_are_no_levels(cox):
    X, y = cox[0][:, [0, 2]].copy(), cox[1]
    few = [5, 900, 901, 1600]
    X[few, 0] = 0.0  # the very mean
    assert fit_over(sites_of(X, y), LASSO).estimator.converged_
    X[:, 0] = 1.0 + (np.arange(len(X)) % 3 == 0)  # sums and sums of squares tell apart 1 and 2
    X[few, 0] = 0.0
    with pytest.raises(RefusedError, match="fewer than 10 rows have none of the columns 0 to 0"):
        fit_over(sites_of(X, y, Exact(max_listed=0)), LASSO)


def test_fit_turns_away_from_points_that_a_site_refuses_or_says_that_it_cannot(cox):
    X, y = cox
    steep = sites_of(X * 4.0, y)  # the first step is too long along these
    assert fit_over(steep, LASSO).estimator.converged_
    sites = sites_of(X, y, Exact(largest_share=0.06))
    with pytest.raises(RefusedError, match=r"^some site refused points of this fit: one row"):
        fit_over(sites, CoxLassoCCD(alpha=0.003))
    assert max(site.n_exchanges_ for site in sites.values()) < 50  # and not all that are allowed
    reasons = {site._session.withheld[:37] for site in sites.values()}
    assert reasons - {""} == {"one row would be more than 6% of a su"}


def test_shares_of_a_few_deaths_matter_where_their_sums_are_told(cox, tmp_path):
    X, y = cox
    dies = y["event"] & (np.arange(len(y)) % 3 == 0)  # ten or more at a time, of many rows
    X, y, rules = X[:, :2] * [3.0, 1.0], surv(dies, y["time"]), Exact(largest_share=0.12)
    fit = partial(fit_over, sites_of(X, y, rules, log=tmp_path / "log"), rows_per_time=0)
    fit(CoxLassoCCD(alpha=0.0))
    assert "(deaths)" not in (tmp_path / "log").read_text()
    with pytest.raises(RefusedError, match="some site refused points of this fit"):
        fit(CoxLassoCCD(alpha=0.0, ties="efron"))
    said = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    assert any("(deaths)" in line.get("withheld", "") for line in said)


def test_small_sites_and_strata_stand_aside(cox):
    X, y = cox
    with pytest.raises(RefusedError, match="'A' refused: it has fewer than 10 rows that could be"):
        fit_over(sites_of(X, y, cuts=(0, 9, 1000, 2400)), LASSO, GRID[9::10])
    n_times = [
        len(fit_over(sites_of(X, y, cuts=(0, n, 1000, 2400)), LASSO).grid_) for n in (99, 700)
    ]
    assert 0 < n_times[0] < n_times[1]  # that all sites have rows for
    stratum = np.where(np.arange(len(y)) % 700 < 12, "rare", "common")
    sites = sites_of(X, surv(y["event"], y["time"], stratum=stratum))
    coordinator = fit_over(sites, CoxLassoCCD(alpha=0.01))
    assert sites["A"].left_out_ == ("rare",)
    assert coordinator.n_left_out_ == 3 and list(coordinator.grid_) == ["common"]


def test_persons_count_once(cox):
    X, y = cox
    n_times = []
    for subject in (None, np.arange(len(y)) // 40):  # 18 at A
        sites = sites_of(X, surv(y["event"], y["time"], subject=subject))
        n_times.append(len(fit_over(sites, CoxLassoCCD(alpha=0.05), rows_per_time=0).grid_))
    assert n_times[0] > 5 and n_times[1] == 1


def cut_rows(rng, X, y):
    """Rows of persons whose follow-up is cut at up to three times, without any change."""
    persons, start, time, event = [], [], [], []
    for i, (seen, end) in enumerate(zip(y["event"], y["time"], strict=True)):
        at = [0.0, *np.sort(rng.uniform(0.0, end, rng.integers(0, 4))), end]
        persons += [i] * (len(at) - 1)
        start += at[:-1]
        time += at[1:]
        event += [False] * (len(at) - 2) + [seen]
    return X[persons], surv(event, time, start=start, subject=persons)


@pytest.mark.parametrize("rows_per_time", [10, 200])
def test_rows_that_are_cut_without_a_change_are_the_same_fit(cox, rows_per_time):
    (X, y), rng = (cox[0][:, :6], cox[1]), np.random.default_rng(7)
    pieces = [cut_rows(rng, *piece) for piece in zip(parts(X), parts(y), strict=True)]
    sites = {name: Site(*piece, rules=OPEN) for name, piece in zip(NAMES, pieces, strict=True)}
    coordinator = fit_over(sites, CoxLassoCCD(alpha=0.0), rows_per_time=rows_per_time)
    whole = CoxLassoCCD(alpha=0.0).fit(*pooled(X, y, coordinator, sites))
    np.testing.assert_allclose(coordinator.estimator.coef_, whole.coef_, atol=1e-5)
    for name, (X, y) in zip(NAMES, pieces, strict=True):
        sites[name] = Site(X, surv(y["event"], y["time"], start=y["start"]), rules=OPEN)
    with pytest.raises(RefusedError, match="say whose rows are whose"):
        fit_over(sites, CoxLassoCCD(alpha=0.0), rows_per_time=rows_per_time)


def test_pieces_of_time_in_which_a_column_has_few_rows(cox):
    X, y = cox[0].copy(), cox[1]
    X[np.flatnonzero(y["time"] > 700.0)[9:], 5] = 0.0
    sites = sites_of(X, y)
    fit_over(sites, CoxLassoCCD(alpha=0.003, time_varying={5: [700.0]}))
    assert "5" in sites["A"].absent_


def test_models_of_much_work_are_refused_before_rows_are_read(cox, monkeypatch):
    cuts = np.linspace(1.0, 1000.0, 50_000).tolist()
    [many, some] = (begun(NAMES, CoxLassoCCD(time_varying={0: cuts[:n]})) for n in (len(cuts), 17))
    monkeypatch.setattr("sksurvgpu.federated.reading.read_rows", None)
    site = Site(*cox, name="A")
    assert re.search(r"50,002 pieces of time .* `max_work` .* 1.0e\+10", refusal(site, many))
    site.rules = Exact(max_work=1e6)
    assert "19 pieces of time are work on" in refusal(site, some)
    assert site.ledger.total("models") == 0  # what is refused is not counted


def test_sites_may_lack_some_of_many_strata():
    rng = np.random.default_rng(0)
    stratum = np.concatenate([rng.integers(0, n, 10_000) for n in (100, 70, 60)])
    X, cuts = (rng.random((len(stratum), 4)) < 0.4).astype(float), (0, 10_000, 20_000, 30_000)
    time = 1.0 + (rng.exponential(np.exp(-X @ [0.5, -0.5, 0.2, 0.0])) > 0.5)
    y = surv(rng.random(len(X)) < 0.7, time, stratum=stratum)
    sites = sites_of(X, y, Exact(max_listed=0), cuts=cuts)
    model = CoxLassoCCD(alpha=0.001)
    coordinator = fit_over(sites, model, [1.0, 2.0], rows_per_time=10)
    here = clone(model).fit(*pooled(X, y, coordinator, sites, cuts))
    assert coordinator.estimator.objective_ == pytest.approx(here.objective_, rel=1e-10)
    assert np.count_nonzero(here.coef_) == 3 and coordinator.n_left_out_ == 0


def test_efrons_ties_need_no_rows_that_leave_before_the_end_of_follow_up():
    rng = np.random.default_rng(4)
    X = np.column_stack([rng.normal(size=2400), rng.random((2400, 2)) < 0.5]).astype(float)
    time = rng.exponential(900.0 * np.exp(-X @ [0.5, -0.4, 0.3]))
    y = surv(time < 1200.0, np.minimum(time, 1200.0))
    grid, here = GRID[::6], CoxLassoCCD(alpha=0.0).fit(X, y)
    with pytest.warns(UserWarning, match=r"Breslow's ties .* about \d+%: take ties='efron'"):
        breslow = fit_over(sites_of(X, y), CoxLassoCCD(alpha=0.0), grid)
    efron = fit_over(sites_of(X, y), CoxLassoCCD(alpha=0.0, ties="efron"), grid)
    np.testing.assert_array_equal(efron.grid_, breslow.grid_)
    off = [abs(f.estimator.coef_ / here.coef_ - 1.0).max() for f in (breslow, efron)]
    assert off[0] > 0.05 > 0.03 > off[1]


def test_combinations_that_can_be_listed_have_enough_rows():
    rng = np.random.default_rng(0)
    X = (rng.random((2400, 2)) < 0.5).astype(float)
    y = survival(rng, np.hstack([X, np.zeros((2400, 4))]))
    reason = (
        r"columns have 4 combinations of values .*`max_listed`.* fewer than 10 rows at some time"
    )
    with pytest.raises(RefusedError, match=reason):
        fit_over(sites_of(X, y), LASSO)
    few_times = fit_over(sites_of(X, y), LASSO, GRID[[29, 59]], rows_per_time=200)
    assert few_times.estimator.converged_
    X[:, 1] = rng.normal(size=2400)  # most rows have a combination of their own
    assert fit_over(sites_of(X, y), LASSO).estimator.converged_


def test_blurred_sums_are_of_secret_weights_that_stay(cox, tmp_path):
    X, y = cox
    exact = fit_over(sites_of(X, y), CoxLassoCCD(alpha=0.0, max_iter=99))
    rules, secrets = Rules(blur=0.2), {name: 16 * name.encode() for name in NAMES}

    def blurred(**more):
        pieces = zip(NAMES, parts(X), parts(y), strict=True)
        return {
            name: Site(a, b, rules=rules, secret=secrets[name], **more) for name, a, b in pieces
        }

    found = [fit_over(blurred(), CoxLassoCCD(alpha=0.0, max_iter=99)) for _ in range(2)]
    assert found[0].estimator.coef_.tobytes() == found[1].estimator.coef_.tobytes()
    assert (exact.blur_, found[0].blur_) == (0.0, 0.2)
    here = CoxLassoCCD(alpha=0.0).fit(X, y)
    errors = wald(here, X, y).standard_errors
    off = (found[0].estimator.coef_ - exact.estimator.coef_)[:-2] / errors[:-2]
    assert 0.02 < np.sqrt(np.mean(off**2)) < 0.4  # of 0.2, about
    binary = (X[:, 2:5] != 0).astype(float)
    fit_over(sites_of(binary, y, rules), LASSO)  # of no whole numbers
    site_of = partial(Site, X, y, rules=rules, ledger=tmp_path / "ledger")
    site_of(secret=16 * b"1")
    with pytest.raises(ValueError, match="`secret` is another one than before"):
        site_of(secret=16 * b"2")
    kept = [Site(X, y, ledger=tmp_path / "other ledger").rows for _ in range(2)]
    assert kept[0] == kept[1]  # as are the weights


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
    assert run(Exact(), *given, stops_at=9) == 1 and said.exists()
    assert run(Exact(), *given) == 0 and not said.exists()
    assert "30 times" in capsys.readouterr().out
    noise = ["--parameters", '{"alpha": 0}', "--noise"]
    with pytest.warns(ConvergenceWarning, match="the noise is as large"):
        assert run(Exact(max_epsilon=1.0), *noise, '{"epsilon": 1, "norm": 3}') == 0
    assert "epsilon 1" in capsys.readouterr().out and "standard_error" in out.read_text()
    with pytest.raises(SystemExit):
        run(Exact(), *noise, '{"epsilon": 1}')
    assert "missing 1 required" in capsys.readouterr().err
    assert main(["coordinator", str(folder), "--sites", "A", "--estimator", "Cox", "--out", "x"])


# -- what a site keeps, and what it shows -----------------------------------------------------
def test_ledgers_survive_a_start_anew(cox, tmp_path):
    X, y = cox
    rules, grid = Exact(max_exchanges=40, max_models=2), GRID[::2]

    def again(**more):
        ledgers = {n: {"ledger": tmp_path / n, "key": tmp_path / f"{n}.key"} for n in NAMES}
        pieces = zip(NAMES, parts(X), parts(y), strict=True)
        return {name: Site(a, b, rules=rules, **ledgers[name], **more) for name, a, b in pieces}

    first = fit_over(again(), LASSO, grid)
    told = first.n_exchanges_ - 3
    assert 12 < told < 40 and again()["A"].n_exchanges_ == told
    with pytest.raises(RefusedError, match="other times were agreed or proposed before"):
        fit_over(again(), LASSO, GRID)
    sites = again()
    with pytest.raises(RefusedError, match="it has taken part in fits of other sites"):
        fit_over({"A": sites["A"], "B": sites["B"], "D": sites["C"]}, LASSO, grid)
    for knot, reason in ((300.0, "the 40 exchanges"), (400.0, r"read for 2 models \(`max_m")):
        with pytest.raises(RefusedError, match=reason):
            fit_over(again(), CoxLassoCCD(alpha=0.003, time_varying={2: [knot]}), grid)
    (tmp_path / "A").write_text("{}")
    with pytest.raises(ValueError, match=r"`ledger` .* is none of a site, or damaged"):
        again()


def test_programmes_are_shown_in_words_and_logged(cox, tmp_path):
    sites, shown = sites_of(*cox, log=tmp_path / "log"), []
    own = {"key": Identity.new()}
    sites["B"] = Site(*(part[1] for part in map(parts, cox)), log=tmp_path / "B", **own)

    def approve(programme):
        shown.append(str(programme))
        return len(shown) < 2

    send = send_to(sites) | {"B": lambda message: sites["B"].answer(message, approve)}
    then = [("profile_likelihood", {"columns": [0]})]
    options = {"grid": GRID, "then": then, "level": "full"}
    for reason in ("at 0 points", "site 'B' refused: the programme was not approved at the site"):
        with pytest.raises(RefusedError, match=reason):
            Coordinator(CoxLassoCCD(alpha=0.02, time_varying={2: [300]}), send, **options).fit()
    assert shown[1].splitlines() == [
        "Fit CoxLassoCCD(alpha=0.02, time_varying={2: [300]}) over the rows of 3 sites: A, B, C.",
        "Times are told apart at 60 points from 20 to 1200 at most, and only where each site has "
        "30 rows of each kind, or as many as its rules ask for.",
        "Then profile_likelihood(columns=[0]).",
        "The sum of the sites' matrices of columns by columns is told.",
    ]
    sample = begun(NAMES, level="sample", matrix_of="C").programme
    assert str(sample).endswith("A matrix of columns by columns is told, that of site C alone.")
    fit_over({**sites, "B": Site(*(part[1] for part in map(parts, cox)), **own)}, LASSO)
    lines = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    assert {line["decision"][:8] for line in lines} == {"answered", "refused:"}
    assert {line["operation"] for line in lines} == {"Begin", "Seal", "Start", "Add"}
    assert all(len(line["message"]) == len(line["answer"]) == 64 for line in lines)
    [*_, last] = (line for line in lines if line["operation"] == "Begin")
    assert last["programme"].startswith("Fit CoxLassoCCD(alpha=0.003) over") and last["rules"]
    assert any(line.get("told", "").startswith("Slopes: gradient 12, ") for line in lines)
    logged = [json.loads(line) for line in (tmp_path / "B").read_text().splitlines()]
    assert logged[-1]["decision"] == "refused: the programme was not approved at the site"
    assert sites["B"].ledger.total("models") == 1  # of the first alone


def test_sites_know_the_keys_of_their_peers(cox):
    X, y = cox
    own = {name: Identity.new() for name in NAMES}
    peers = {name: identity.fingerprint for name, identity in own.items()}

    def sites(given, peers):
        pieces = zip(NAMES, parts(X), parts(y), strict=True)
        return {n: Site(a, b, key=given[n], peers=peers) for n, a, b in pieces}

    assert fit_over(sites(own, peers), LASSO).estimator.converged_
    other = own | {"C": Identity.new()}
    with pytest.raises(RefusedError, match=r"the key of 'C' has the fingerprint .* \(`peers`\)"):
        fit_over(sites(other, peers), LASSO)
    with pytest.raises(RefusedError, match="this site knows none"):
        fit_over(sites(own, {"A": peers["A"], "B": peers["B"]}), LASSO)


# -- more than a fit --------------------------------------------------------------------------
@pytest.mark.parametrize("options", [{"level": "full"}, {"level": "sample", "matrix_of": "B"}])
def test_matrices_change_the_way_and_not_the_fit(cox, options, told):
    X, y = cox
    alone = options.get("matrix_of", "")
    rules = {name: Exact(max_matrices=50 * (alone in ("", name))) for name in NAMES}
    sites = sites_of(X, y)
    for name, site in sites.items():
        site.rules = rules[name]
    other = fit_over(sites, LASSO, **options)
    matrices = {name: [t["gram"] for _, t in told[name] if "gram" in t] for name in NAMES}
    for name, found in matrices.items():
        assert found and any(gram.any() for gram in found) == (alone in ("", name))
    diagonal = fit_over(sites_of(X, y), LASSO)
    assert other.estimator.objective_ == pytest.approx(diagonal.estimator.objective_, rel=1e-10)


def test_inference_follows_in_the_same_programme(cox):
    """Standard errors and intervals are those of all rows at the agreed times."""
    (X, y), model = cox, CoxLassoCCD(alpha=0.0)
    sites = sites_of(X[:, :6], y, OPEN)
    coordinator = fit_over(
        sites, model, then=[("wald", {}), ("profile_likelihood", {"columns": [0, 2]})]
    )
    rows = pooled(X[:, :6], y, coordinator, sites)
    here = clone(model).fit(*rows)
    covariance, profile = coordinator.results_[0].covariance, coordinator.results_[1]
    np.testing.assert_allclose(covariance, wald(here, *rows).covariance, rtol=1e-5, atol=1e-9)
    near = profile_likelihood(here, *rows, columns=[0, 2])
    np.testing.assert_allclose(profile.intervals, near.intervals, atol=1e-3)
    for site in sites.values():
        assert site._session.results[0].covariance.tobytes() == covariance.tobytes()


def test_standard_errors_need_all_pairs_of_columns(cox):
    """A matrix that lacks pairs is a way to a fit, and no variance."""
    X = cox[0][:, :6].copy()
    y, model = (cox[1]["time"] > 300).astype(float), LogisticCCD(alpha=0.0)
    options, rules = {"grid": None, "then": [("wald", {})]}, Exact(max_matrices=99)
    here = wald(clone(model).fit(X, y), X, y).standard_errors
    for level in ("diagonal", "full"):
        told = fit_over(sites_of(X, y, rules), model, level=level, **options).results_[0]
        np.testing.assert_allclose(told.standard_errors, here, rtol=1e-4)
    with pytest.raises(ValueError, match="`wald` needs the matrix of all sites"):
        Coordinator(model, NAMES, level="sample", matrix_of="A", **options)
    asked = begun(sites_of(X, y), model, **options)
    alone = replace(asked.programme, level="sample", matrix_of="A")
    site = next(iter(sites_of(X, y, name="A").values()))
    assert "needs the matrix of all" in refusal(site, wire.Begin(alone))
    rare = np.flatnonzero(X[:700, 2])  # at A, of whom 3 shall have column 5
    X[rare, 5] = 0.0
    X[rare[:3], 5] = 1.0
    for level in ("diagonal", "full"):
        with pytest.raises(RefusedError, match="'A' refused: fewer than 10 rows have both of"):
            fit_over(sites_of(X, y, rules), model, level=level, **options)
    fit_over(sites_of(X, y, rules), model, level="full", grid=None)


def test_folds_are_dealt_at_sites_by_a_secret(cox, told):
    X, y = (values[: CUTS[1]] for values in cox)
    secrets = {"A": 16 * b"1", "B": 16 * b"1", "C": 16 * b"2"}  # of the same rows
    sites = {name: Site(X[:, :10], y, secret=secret) for name, secret in secrets.items()}
    model = CoxLassoCV(n_alphas=4, cv=2, random_state=0)
    fit = fit_over(sites, model, rows_per_time=80).estimator
    assert fit.converged_ and fit.alpha_ < fit.alpha_max_ and np.count_nonzero(fit.coef_) > 3
    deaths = {
        (name, r.weight.kind, r.weight.number): tables["deaths"]
        for name in NAMES for r, tables in told[name] if isinstance(r, m.Weigh)
    }  # fmt: skip
    for name, site in sites.items():
        assert site.model_.coef_.tobytes() == fit.coef_.tobytes()
        assert site.model_.alpha_ == fit.alpha_
        every, *train = deaths[name, "given", 0], *(deaths[name, "train", k] for k in range(2))
        np.testing.assert_array_equal(train[0] + train[1], every)
        assert abs(train[0] / every - 0.5).max() < 0.3 and (train[0] != train[1]).any()
        is_same = [np.array_equal(deaths["A", "train", k], train[k]) for k in range(2)]
        assert is_same == [name != "C"] * 2
    with pytest.raises(ValueError, match="`random_state` of CoxLassoCV is None; pass a number"):
        Coordinator(CoxLassoCV(random_state=None), NAMES)


# -- who carries ------------------------------------------------------------------------------
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


# -- what sites send that is not right --------------------------------------------------------
def table_of(name, change):
    return lambda said: replace(said, facts=said.facts | {name: change(said.facts[name])})


SPOILT = {
    "its answer has the tables": lambda s: replace(s, facts=s.facts | {"more": np.ones(1)}),
    "has a table 'powers' of another form": table_of("powers", lambda v: v.astype(float)),
    "columns or an outcome too large": table_of("powers", lambda v: v + 401),
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


# -- parameters -------------------------------------------------------------------------------
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
    for secret in (5, b"fifteen bytes..", 16 * "text"):
        with pytest.raises(TypeError, match="`secret` must be 16 bytes or more"):
            Site(X, y, secret=secret)
    for options, match in (
        ({"level": "all"}, "`level` is 'all'"),
        ({"matrix_of": "A"}, "`matrix_of` is 'A'"),
        ({"grid": [1.0, np.inf]}, "`grid` has NaN"),
        ({"then": [("fused", {})]}, r"\['fused'\] do not follow a fit over sites"),
        ({"then": [("bootstrap", {"folder": "x"})]}, "`folder` is written to by who asks"),
    ):
        with pytest.raises(ValueError, match=match):
            Coordinator(LASSO, NAMES, **options)
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
