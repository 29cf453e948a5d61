"""Sites that give out sums and never rows: what leaves them, and whose fits these are."""

import io
import json
import re
import sys
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import pairwise
from threading import Thread
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone

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
    surv,
)
from sksurvgpu.backends.sums import messages as m
from sksurvgpu.data.design.columns import build_design
from sksurvgpu.data.outcomes.survival import Outcome
from sksurvgpu.estimators._partition import model_text
from sksurvgpu.federated import Coordinator, RefusedError, Rules, Site, wire
from sksurvgpu.federated import grid as grids
from sksurvgpu.federated.__main__ import _told, main
from sksurvgpu.federated.files import Mailbox
from sksurvgpu.federated.reading import digest_rows

GRID = np.arange(20.0, 1220.0, 20.0)
NAMES = ("A", "B", "C")
CUTS = (0, 700, 1500, 2400)
OPEN = Rules(min_rows=1, max_exchanges=1000, largest_share=1.0, longest_range=700.0, max_matrices=9)


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
    pieces = zip(NAMES, parts(X, cuts), parts(y, cuts), strict=False)
    return {name: Site(a, b, rules=rules, **arguments) for name, a, b in pieces}


def send_to(sites):
    return {name: site.answer for name, site in sites.items()}


def pooled(X, y, coordinator, cuts=CUTS):
    """All rows as the sites have agreed to read them."""
    X, y = X.copy(), y.copy()
    for name, rows in zip(NAMES, parts(np.arange(len(X)), cuts), strict=False):
        for column in map(int, coordinator.absent_[name]):
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
    "delayed entry": (CoxLassoCCD(alpha=0.003), "delayed"),
    "efron, delayed entry": (CoxLassoCCD(alpha=0.003, ties="efron"), "delayed"),
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
def test_fit_is_that_of_all_rows_at_the_agreed_times(case):
    model, kind = CASES[case]
    rng = np.random.default_rng(1)
    X = table(rng)
    y = outcome(rng, X, kind)
    coordinator = Coordinator(
        model, send_to(sites_of(X, y)), grid=None if kind in ("classes", "counts") else GRID
    )
    far = coordinator.fit()
    here = type(model)(**model.get_params()).fit(*pooled(X, y, coordinator))
    assert far.objective_ == pytest.approx(here.objective_, rel=1e-10)
    assert far.coef_ == pytest.approx(here.coef_, abs=2e-4)
    assert np.flatnonzero(far.coef_).size > 3
    assert coordinator.absent_ == {"A": ("11",), "B": ("10", "11"), "C": ()}


# -- what leaves a site -----------------------------------------------------------------------
class Spy:
    """A site whose messages and answers are kept."""

    def __init__(self, site):
        self.site, self.heard, self.said = site, [], []

    def __call__(self, message):
        answer = self.site.answer(message)
        self.heard.append(wire.decode(message))
        self.said.append(wire.decode(answer))
        return answer


def arrays_in(value):
    if isinstance(value, np.ndarray):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from arrays_in(item)
    elif isinstance(value, tuple):
        for item in value:
            yield from arrays_in(item)
    elif hasattr(value, "__dataclass_fields__"):
        yield from arrays_in(vars(value))


def spied_fit(model, X, y, rules=None, secret=b"s", **options):
    """Spies of all sites after a fit."""
    spies = {name: Spy(site) for name, site in sites_of(X, y, rules, secret=secret).items()}
    grid = None if y.dtype.names is None else GRID
    Coordinator(model, spies, grid=grid, **options).fit()
    return spies


@pytest.fixture(scope="module")
def cox():
    rng = np.random.default_rng(1)
    X = table(rng)
    return X, survival(rng, X)


@pytest.mark.parametrize("case", ["efron", "delayed entry", "competing", "logistic"])
def test_only_sums_leave(case):
    model, kind = CASES[case]
    rng = np.random.default_rng(2)
    X = table(rng)
    spies = spied_fit(model, X, outcome(rng, X, kind))
    for spy, first, last in zip(spies.values(), CUTS, CUTS[1:], strict=False):
        for answer in spy.said:
            for array in arrays_in(answer):
                assert array.dtype.kind in "biufU"
                assert max(array.shape, default=0) < (last - first) // 5
            for part in getattr(answer, "of", ()):
                if isinstance(part, m.Evaluated):
                    assert part.top == 0.0
                    assert np.isnan([part.low, part.high]).all()
            if isinstance(answer, m.Description):
                assert np.isnan(answer.columns[:, 3:5]).all()


@pytest.mark.parametrize("kind", ["plain", "delayed", "strata", "competing"])
@pytest.mark.parametrize("seed", range(3))
def test_no_sum_is_of_few_rows(kind, seed):
    """At coefficients of zero, tables by time are numbers of rows: none, or ten and more."""
    rng = np.random.default_rng(seed)
    X = table(rng)
    y = survival(rng, X, kind)
    model = FineGrayCCD(alpha=9.0) if kind == "competing" else CoxLassoCCD(alpha=9.0)
    spies = spied_fit(model, X, y, rows_per_time=0)
    for spy in spies.values():
        n_tables = 0
        for answer in spy.said:
            tables = answer.tables if isinstance(answer, wire.Proposed) else {}
            for of in getattr(answer, "of", ()):
                tables = tables | getattr(of, "tables", {})
            for name in set(tables) & {"risk", "tied", "deaths", "lost", "failed"}:
                counts = np.round(np.atleast_2d(tables[name])[0])
                if name == "risk" and kind == "delayed":
                    counts = abs(counts)  # exits less entries
                    continue
                n_tables += 1
                assert not ((counts > 0) & (counts < 10)).any(), name
        assert n_tables >= 2


@pytest.mark.parametrize("seed", range(20))
def test_agreed_times_have_enough_rows_of_every_kind_or_none(seed):
    """... counted by brute force, for sites whose follow-up and rows have little in common."""
    rng = np.random.default_rng(seed)
    grid, held, asked = np.arange(1.0, 40.0), {}, {}
    for name in NAMES:
        n = int(rng.integers(150, 600))
        time = np.minimum(rng.exponential(rng.choice([8.0, 25.0]), n), rng.uniform(0, 50, n)) + 0.1
        start = np.where(rng.random(n) < 0.5, np.floor(time * rng.random(n)), 0.0)
        start = start if seed % 2 else None
        event, stratum = rng.random(n) < 0.6, rng.integers(0, 2, n)
        unit = rng.integers(0, n // 2, n) if seed % 3 == 0 else None
        whole = Outcome(event, time, start, stratum, np.array(["a", "b"]))
        ended, begins = grids.end_follow_up(whole, grid[-1])
        begins &= ~np.isin(stratum, grids.rare_strata(ended, unit, 10))
        held[name] = ended.take(begins), None if unit is None else unit[begins]
        if begins.any():
            asked[name] = grids.propose(*held[name], grid, 10)
    times = grids.agree(asked, grid)
    assert set(times.times) <= set(grid)
    for name in asked:
        coarse, keeps = grids.coarsen(held[name][0], times, held[name][1])
        coarse = coarse.take(keeps)
        unit = np.arange(len(keeps)) if held[name][1] is None else held[name][1]
        for chosen, at in (("exits", "time"), ("deaths", "time"), ("entries", "start")):
            persons = {}
            for i, who in enumerate(unit[keeps]):
                when = None if getattr(coarse, at) is None else getattr(coarse, at)[i]
                if when and (chosen != "deaths" or coarse.event[i]):
                    persons.setdefault((coarse.stratum[i], when), set()).add(who)
            assert all(len(some) >= 10 for some in persons.values()), chosen


def test_sites_refuse_levels_that_tell_rows(cox):
    X, y = cox
    level = np.arange(len(X)) % 4
    level[np.flatnonzero(level == 0)[9:]] = 1  # nine rows are of the level without a column
    levels = np.column_stack([X[:, 0], level == 1, level == 2, level == 3]).astype(float)
    sites = sites_of(csr_array(levels), y)
    with pytest.raises(RefusedError, match="fewer than 10 rows have none of the columns 1 to 3"):
        Coordinator(CoxLassoCCD(alpha=0.01), send_to(sites), grid=GRID).fit()


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


@pytest.mark.parametrize("rows_per_time", [10, 30, 200])
def test_rows_that_are_cut_without_a_change_are_the_same_fit(cox, rows_per_time):
    (X, y), rng = cox, np.random.default_rng(7)
    X = X[:, :6]
    ends = np.cumsum([0, *(b - a for a, b in pairwise(CUTS))])
    pieces = [cut_rows(rng, X[a:b], y[a:b]) for a, b in pairwise(ends)]
    options = {"grid": GRID, "rows_per_time": rows_per_time}

    def fit(pieces):
        sites = {name: Site(*piece, rules=OPEN) for name, piece in zip(NAMES, pieces, strict=True)}
        coordinator = Coordinator(CoxLassoCCD(alpha=0.0), send_to(sites), **options)
        return coordinator.fit(), coordinator

    found, coordinator = fit(pieces)
    whole = CoxLassoCCD(alpha=0.0).fit(*pooled(X, y, coordinator))
    np.testing.assert_allclose(found.coef_, whole.coef_, atol=1e-5)
    without = [(X, surv(y["event"], y["time"], start=y["start"])) for X, y in pieces]
    with pytest.raises(RefusedError, match="say whose rows are whose"):
        fit(without)


def test_sums_of_few_rows_are_withheld_from_models(cox):
    X, y = cox
    spies = spied_fit(
        CoxLassoCCD(alpha=0.003), X, y, replace(Rules(), max_matrices=99), level="full"
    )
    rare_pairs = rare_loads = 0
    for spy, rows in zip(spies.values(), parts(X), strict=True):
        for heard, said in zip(spy.heard, spy.said, strict=True):
            for asked, sums in zip(
                getattr(heard, "requests", ()), getattr(said, "of", ()), strict=True
            ):
                tables = getattr(sums, "tables", {})
                if "gram" in tables:
                    has = (rows[:, asked.columns] != 0.0).astype(int)
                    pairs = has.T @ has
                    rare = (pairs > 0) & (pairs < 10) & ~np.eye(len(pairs), dtype=bool)
                    assert not tables["gram"][rare].any()
                    rare_pairs += rare.sum()
                if "loads" in tables and len(tables["loads"]) == X.shape[1]:
                    rare_loads += np.sum(~tables["loads"].any(axis=1))
    assert rare_pairs
    assert rare_loads


def test_rare_columns_are_zero_in_every_answer(cox):
    spies = spied_fit(CoxLassoCCD(alpha=0.003), *cox)
    for name, column in (("A", 11), ("B", 10)):
        [description] = [a for a in spies[name].said if isinstance(a, m.Description)]
        assert not description.columns[column, 1:3].any()
        for answer in spies[name].said:
            for sums in getattr(answer, "of", ()):
                for what in {"gradient", "size", "curvature", "loads"} & set(
                    getattr(sums, "tables", {})
                ):
                    assert not np.any(sums.tables[what][column])


# -- refusals ---------------------------------------------------------------------------------
def opened(cox, rules=None):
    """A site that is in the middle of a fit, and the messages of that: (site, Ask of Slopes)."""
    spies = spied_fit(CoxLassoCCD(alpha=0.003), *cox, rules)
    spy = spies["A"]
    slopes = [ask for ask in spy.heard if has(ask, m.Slopes)]
    evaluate = [ask for ask in spy.heard if has(ask, m.Evaluate)]
    return spy.site, spy.heard, evaluate[-1], slopes[-1]


def has(ask, kind):
    return isinstance(ask, m.Ask) and isinstance(ask.requests[0], kind)


def changed(ask, **changes):
    return replace(ask, requests=(replace(ask.requests[0], **changes),))


def refusal(site, message):
    answer = wire.decode(site.answer(wire.encode(message)))
    assert isinstance(answer, wire.Refused), type(answer)
    return answer.reason


def test_a_matrix_and_curvatures_tell_no_more_at_once(cox):
    rules = replace(Rules(), max_exchanges=1000, max_matrices=1)
    site, *_, slopes = opened(cox, rules)
    columns = np.array([0, 3, 10, 11])

    def ask(*want):
        answer = site.answer(wire.encode(changed(slopes, want=want, columns=columns)))
        return wire.decode(answer).of[0].tables

    both, curvature, gram = ask("curvature", "gram"), ask("curvature"), ask("gram")
    assert set(both) == set(curvature) | set(gram)
    for name, table in (curvature | {"gram": gram["gram"]}).items():
        np.testing.assert_array_equal(both[name], table)
    np.testing.assert_array_equal(both["loads"][columns], gram["loads"])


def test_site_refuses_what_would_tell_rows(cox):
    site, heard, evaluate, slopes = opened(cox, replace(Rules(), max_exchanges=1000))
    coarsen = next(message for message in heard if isinstance(message, wire.Coarsen))
    arrange = next(message for message in heard if isinstance(message, m.Arrange))
    describe = next(message for message in heard if isinstance(message, m.Describe))
    [asked] = slopes.requests
    far, steep, outside = (
        changed(evaluate, coef=m.Coef(np.array([column]), np.array([value])))
        for column, value in ((0, 1e3), (0, 3.0), (99, 1.0))
    )

    def arranged(**tables):
        return replace(arrange, tables=arrange.tables | tables, digest="new")

    hazard = asked.tables["hazard"]
    hazard = asked.tables | {"hazard": hazard + np.eye(len(hazard))[0]}
    short = asked.tables | {"hazard": asked.tables["hazard"][1:]}
    reasons = {
        "differ by more than 30": changed(slopes, coef=far.requests[0].coef),
        "one row would be more than 20%": changed(slopes, coef=steep.requests[0].coef),
        "'columns' that is not of whole numbers from 0 to 11": outside,
        "'multinomial' are not allowed": changed(evaluate, weight=m.Recipe("multinomial", of=9)),
        "fewer than 10 rows (exits)": changed(evaluate, weight=m.Recipe("train", 1, 0, 10)),
        "asked for again with other tables": changed(slopes, tables=hazard),
        "'hazard' that is not of numbers of the shape": changed(slopes, tables=short),
        "has the tables ['carry'": changed(slopes, tables=asked.tables | {"carry": np.ones(3)}),
        "at 0 points (`max_matrices`)": changed(slopes, want=("gram",), columns=np.arange(3)),
        "jumps of rows are not released": changed(slopes, want=("jumps",), columns=np.arange(9)),
        "meat of rows are not released": changed(slopes, want=("meat",), columns=np.arange(3)),
        "'columns' that is not of whole numbers from 0": changed(slopes, columns=np.array([-1])),
        "other times were agreed": replace(coarsen, times=coarsen.times + 1.0),
        "or proposed before": replace(heard[0], grid=heard[0].grid[1:]),
        "has the tables ['bin_end'], not": replace(
            arrange, tables={"bin_end": np.zeros(1)}, digest="new"
        ),
        "'event_ptr' that is not of whole numbers from 0": arranged(event_ptr=np.array([0, 10**9])),
        "'event_time' that is not of ascending": arranged(
            event_time=arrange.tables["event_time"][::-1]
        ),
        "not have the last cells of all bins": arranged(bin_end=np.array([1])),
        "'few' that is not of truth": arranged(few=np.array([1])),
        "'part' that is not of whole": arranged(part=np.array([-1])),
        "'labels_strata' that is not of ascending": arranged(labels_strata=np.zeros((1, 1), int)),
        "no offsets into 'event_time'": arranged(event_ptr=arrange.tables["event_ptr"][::-1]),
        "lacks labels of the site's rows": arranged(labels_strata=np.array([1])),
        "'center' of columns with zeros": arranged(center=np.ones(12)),
        "has the tables ['edges'], not": changed(slopes, tables={"edges": asked.tables["edges"]}),
        "`grid` is not of ascending": replace(heard[0], grid=np.array([np.inf])),
        "another problem has the same digest": replace(
            arranged(part=np.array([1])), digest=arrange.digest
        ),
        "see the log there": replace(describe, model='{"model": "os:system"}'),
    }  # fmt: skip
    for reason, message in reasons.items():
        assert reason in refusal(site, message)
    for message in (far, steep):  # on the way of a fit, perhaps, which turns away
        [nothing] = wire.decode(site.answer(wire.encode(message))).of
        numbers = np.array([nothing.loglik, *nothing.tables["risk"]])
        assert np.isnan(numbers).all()


def test_fit_turns_away_from_points_that_a_site_refuses_or_says_that_it_cannot(cox):
    X, y = cox
    steep = X * 4.0  # the first step is too long along these
    coordinator = Coordinator(CoxLassoCCD(alpha=0.003), send_to(sites_of(steep, y)), grid=GRID)
    model = coordinator.fit()
    assert model.converged_
    sites = sites_of(X, y, Rules(largest_share=0.06, max_exchanges=30))
    with pytest.raises(RefusedError, match=r"site\(s\) .* refused points of this fit: one row"):
        Coordinator(CoxLassoCCD(alpha=0.003), send_to(sites), grid=GRID).fit()


def test_site_without_agreed_times_tells_none(cox):
    X, y = cox
    described = m.Describe(model_text(CoxLassoCCD()))
    assert "in a grid only" in refusal(Site(X, y), described)
    fine = np.unique(y["time"])
    coarsen = wire.Coarsen(
        described.model, np.zeros(1, int), fine, np.array([0, len(fine)]), fine[-1]
    )
    site = Site(X, y)
    assert "some times have fewer than 10 rows (exits, deaths)" in refusal(site, coarsen)
    assert "in a grid only" in refusal(site, described)  # and nothing was agreed
    many = wire.Propose(described.model, np.linspace(0.1, 1200.0, len(y) + 1), 0)
    assert "more times than the site has rows" in refusal(site, many)
    with pytest.raises(RefusedError, match=r"site '.' refused: its times are told in a grid only"):
        Coordinator(CoxLassoCCD(), send_to(sites_of(X, y))).fit()


def test_folds_are_dealt_by_a_secret_and_need_rows_of_every_column_and_time(cox):
    X, y = cox
    X = X[:, :10]
    alike = [Site(X, y, rules=replace(Rules(), largest_share=0.9), secret=s) for s in (b"1", b"2")]
    found = []
    for site in alike:
        spy = Spy(site)
        Coordinator(CoxLassoCCD(alpha=0.02), {"A": spy}, grid=GRID, rows_per_time=80).fit()
        weigh = next(ask for ask in spy.heard if has(ask, m.Weigh))
        spy(wire.encode(changed(weigh, weight=m.Recipe("train", 7, 0, 2))))
        found.append(spy.said[-1].of[0].tables["deaths"])
        rare = changed(weigh, weight=m.Recipe("test", 8, 0, 9))
        assert "fewer than 10 rows" in refusal(site, rare)
    assert not np.array_equal(*found)


def test_pieces_of_time_in_which_a_column_has_few_rows(cox):
    X, y = cox
    X = X.copy()
    late = np.flatnonzero(y["time"] > 700.0)
    X[late[9:], 5] = 0.0
    model = CoxLassoCCD(alpha=0.003, time_varying={5: [700.0]})
    coordinator = Coordinator(model, send_to(sites_of(X, y)), grid=GRID)
    coordinator.fit()
    assert "5" in coordinator.absent_["A"]


def test_exchanges_are_counted_over_the_life_of_a_site(cox, tmp_path):
    X, y = cox
    sites = sites_of(X, y, Rules(max_exchanges=4), log=tmp_path / "log")
    with pytest.raises(RefusedError, match="the 4 exchanges that it allows are used up"):
        Coordinator(CoxLassoCCD(alpha=0.003), send_to(sites), grid=GRID).fit()
    lines = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    assert {line["decision"][:8] for line in lines} == {"released", "refused:"}
    assert {"Propose", "Coarsen", "Describe", "Arrange", "Weigh", "Evaluate"} <= {
        line["operation"] for line in lines
    }
    assert all(len(line["message"]) == len(line["answer"]) == 64 for line in lines)


def test_answer_that_is_not_approved_does_not_leave(cox):
    site = Site(*cox)
    message = wire.encode(wire.Propose(model_text(CoxLassoCCD()), GRID, 0))
    shown = []
    answer = site.answer(message, lambda answer: shown.append(answer))
    assert "not approved" in wire.decode(answer).reason
    assert isinstance(shown[0], wire.Proposed)


def test_small_sites_and_strata_stand_aside(cox):
    X, y = cox
    with pytest.raises(RefusedError, match="'A' refused: it has fewer than 10 rows that could be"):
        Coordinator(
            CoxLassoCCD(), send_to(sites_of(X, y, cuts=(0, 9, 2400))), grid=GRID[9::10]
        ).fit()
    stratum = np.where(np.arange(len(y)) % 700 < 12, "rare", "common")
    y = surv(y["event"], y["time"], stratum=stratum)
    coordinator = Coordinator(CoxLassoCCD(alpha=0.01), send_to(sites_of(X, y)), grid=GRID)
    coordinator.fit()
    assert coordinator.left_out_["A"] == 1
    assert list(coordinator.grid_) == ["common"]


def test_persons_count_once(cox):
    X, y = cox
    n_times = []
    for subject in (None, np.arange(len(y)) // 40):  # 18 at A
        y = surv(y["event"], y["time"], subject=subject)
        sites = sites_of(X, y)
        coordinator = Coordinator(
            CoxLassoCCD(alpha=0.9), send_to(sites), grid=GRID, rows_per_time=0
        )
        coordinator.fit()
        n_times.append(len(coordinator.grid_))
    assert n_times[0] > 5
    assert n_times[1] == 1


# -- work of a message ------------------------------------------------------------------------
def test_messages_that_ask_for_much_are_refused_at_once(cox, monkeypatch):
    X, y = cox
    rules = replace(Rules(), max_exchanges=10**6)
    site, heard, evaluate, _ = opened(cox, rules)

    def propose(n_cuts, columns=(0,)):
        cuts = {j: np.linspace(1.0 + j, 1000.0, n_cuts).tolist() for j in columns}
        return wire.Propose(model_text(CoxLassoCCD(time_varying=cuts)), GRID, 0)

    message = replace(propose(50_000), least=30)
    assert len(message.model) < 10**6
    monkeypatch.setattr("sksurvgpu.federated.reading.read_rows", None)  # nothing is read
    assert re.search(r"50,002 pieces of time .* `max_work` .* 1.0e\+10", refusal(site, message))
    assert "pieces of time" in refusal(site, propose(3000, range(12)))
    monkeypatch.undo()
    many = replace(evaluate, requests=(m.Weigh(m.Recipe()),) * 50_000)
    before = site.n_exchanges_
    assert "50,000 requests in one message are work on" in refusal(site, many)
    assert site.n_exchanges_ == before
    few = replace(evaluate, requests=evaluate.requests * 16)
    assert len(wire.decode(site.answer(wire.encode(few))).of) == 16
    assert site._models == {heard[0].model}  # what is refused is not counted
    site = Site(X, y, rules=replace(rules, max_work=1e6))
    assert "`max_work`" in refusal(site, propose(17))
    assert isinstance(wire.decode(site.answer(wire.encode(propose(14)))), wire.Proposed)


def test_refused_exchanges_are_not_counted(cox):
    site, _, evaluate, _ = opened(cox, replace(Rules(), max_exchanges=40))
    many = replace(evaluate, requests=evaluate.requests * 100)
    assert "the 40 exchanges that it allows are used up" in refusal(site, many)
    assert isinstance(wire.decode(site.answer(wire.encode(evaluate))), m.Answers)


def test_sites_may_lack_some_of_many_strata():
    rng = np.random.default_rng(0)
    stratum = rng.integers(0, 100, 30_000)
    X = (rng.random((len(stratum), 4)) < 0.4).astype(float)
    time = 1.0 + (rng.exponential(np.exp(-X @ [0.5, -0.5, 0.2, 0.0])) > 0.5)
    X, y, cuts = X, surv(rng.random(len(X)) < 0.7, time, stratum=stratum), (0, 15_000, 25_000)
    keeps = (np.arange(len(X)) < cuts[1]) | (stratum < 70)
    X, y = X[keeps][: cuts[2]], y[keeps][: cuts[2]]
    model = CoxLassoCCD(alpha=0.001)
    coordinator = Coordinator(model, send_to(sites_of(X, y, cuts=cuts)), grid=[1.0, 2.0])
    far = coordinator.fit()
    here = clone(model).fit(*pooled(X, y, coordinator, cuts))
    assert far.objective_ == pytest.approx(here.objective_, rel=1e-10)
    assert np.count_nonzero(far.coef_) == 3


# -- who carries ------------------------------------------------------------------------------
def answered(coordinator, sites):
    while messages := coordinator.messages():
        coordinator.receive({k: sites[k].answer(v) for k, v in reversed(messages.items())})
    assert coordinator.done
    return coordinator.estimator


def test_bits_are_the_same_whoever_carries(cox, tmp_path):
    X, y = cox
    model = CoxLassoCCD(alpha=0.003)
    first = Coordinator(clone(model), send_to(sites_of(X, y)), grid=GRID).fit()
    by_hand = answered(Coordinator(clone(model), NAMES, grid=GRID), sites_of(X, y))
    boxes = {}
    for name, site in sites_of(X, y).items():
        box = Mailbox(tmp_path, name)
        boxes[name] = Mailbox(tmp_path, name, wait=partial(box.answer, site.answer)).send
    by_files = Coordinator(clone(model), boxes, grid=GRID).fit()
    for other in (by_hand, by_files):
        assert other.coef_.tobytes() == first.coef_.tobytes()
        assert other.n_exchanges_ == first.n_exchanges_


def test_hands_that_forget_a_site_are_told(cox):
    X, y = cox
    sites = sites_of(X, y)
    coordinator = Coordinator(CoxLassoCCD(), NAMES, grid=GRID)
    with pytest.raises(ValueError, match=r"answers are of \['A'\], must be of \['A', 'B', 'C'\]"):
        coordinator.receive({"A": b""})
    with pytest.raises(ValueError, match="site 'A': These bytes are no message"):
        coordinator.receive(dict.fromkeys(NAMES, b""))
    assert not coordinator.done
    with pytest.raises(ValueError, match="nobody sends"):
        Coordinator(CoxLassoCCD(), NAMES, grid=GRID).fit()
    send = send_to(sites) | {"B": lambda message: sites["A"].answer(message)[:-9]}
    with pytest.raises(ValueError, match="site 'B': These bytes are no message"):
        Coordinator(CoxLassoCCD(), send, grid=GRID).fit()


def test_who_was_interrupted_while_the_fit_went_on_goes_on(cox, monkeypatch):
    X, y = cox
    sites, model = sites_of(X, y), CoxLassoCCD(alpha=0.003)
    first = Coordinator(clone(model), send_to(sites_of(X, y)), grid=GRID).fit()
    coordinator = Coordinator(model, NAMES, grid=GRID)

    def fail():
        raise KeyboardInterrupt

    while messages := coordinator.messages():
        answers = {name: sites[name].answer(message) for name, message in messages.items()}
        with monkeypatch.context() as patch:
            patch.setattr(coordinator, "_take", fail)
            with pytest.raises(KeyboardInterrupt):
                coordinator.receive(answers)
    assert coordinator.done and model.coef_.tobytes() == first.coef_.tobytes()


def test_names_of_sites_may_be_numbers(cox):
    X, y = cox
    send = dict(enumerate(send_to(sites_of(X, y)).values()))
    coordinator = Coordinator(CoxLassoCCD(alpha=0.003), send, grid=GRID)
    assert coordinator.fit().converged_ and [*coordinator.absent_] == ["0", "1", "2"]


@pytest.mark.parametrize("answer", [None, "text"])
def test_who_sends_and_returns_no_bytes_is_named(answer, cox):
    send = send_to(sites_of(*cox)) | {"B": lambda message: answer}
    with pytest.raises(ValueError, match="site 'B': A message is bytes, got "):
        Coordinator(CoxLassoCCD(), send, grid=GRID).fit()


def restamped(data, content):
    """Bytes of another answer to the same message."""
    said = wire.read(data)
    return wire.encode(content, site=said.site, about=said.about, rows=said.rows)


def test_answers_to_other_messages_are_refused_and_the_fit_goes_on(cox):
    X, y = cox
    model = CoxLassoCCD(alpha=0.003)
    first = Coordinator(clone(model), send_to(sites_of(X, y)), grid=GRID).fit()
    sites = sites_of(X, y)
    ours, other = (Coordinator(clone(model), NAMES, grid=GRID) for _ in range(2))
    before, seen = None, 0
    while messages := ours.messages():
        right = {name: sites[name].answer(message) for name, message in messages.items()}
        wrong = {"one of site 'B'": right | {"A": right["B"]}}
        if before is not None and len(before) == len(right):
            wrong["to another message than the one that waits"] = right | {"B": before["B"]}
        if theirs := other.messages():
            answers = {name: sites[name].answer(message) for name, message in theirs.items()}
            wrong["one of another fit"] = right | {"C": answers["C"]}
            other.receive(answers)
        for reason, answers in wrong.items():
            with pytest.raises(ValueError, match=reason):
                ours.receive(answers)
            seen += 1
        ours.receive(right)
        before = right
    assert seen > 40
    assert ours.estimator.coef_.tobytes() == first.coef_.tobytes()


def test_one_answer_a_message_is_taken(cox):
    sites = sites_of(*cox)
    coordinator = Coordinator(CoxLassoCCD(), send_to(sites), grid=GRID)

    def twice(data):
        for name, message in data.items():
            yield from [(name, sites[name].answer(message))] * 2

    with pytest.raises(ValueError, match="site 'A' has answered its message"):
        coordinator._fit(twice)


def test_versions_that_differ_are_told_at_both_ends(cox, monkeypatch):
    X, y = cox
    site = Site(X, y)
    monkeypatch.setattr(wire, "PROTOCOL", 1)
    old_message, old_answer = wire.encode(m.Describe("{}")), wire.encode(wire.Refused("error"))
    monkeypatch.undo()
    words = "its protocol is 1, this version of sksurvgpu speaks 2: install the same version"
    assert words in wire.decode(site.answer(old_message)).reason
    with pytest.raises(ValueError, match=f"site 'A': These bytes are no message .* {words}"):
        Coordinator(CoxLassoCCD(), {"A": lambda message: old_answer}, grid=GRID).fit()


def test_sites_that_know_their_name_answer_to_it(cox):
    X, y = cox
    site = Site(X, y, name="Bergen")
    send = {"Kyoto": site.answer}
    with pytest.raises(RefusedError, match="the message is to 'Kyoto', and this is 'Bergen'"):
        Coordinator(CoxLassoCCD(), send, grid=GRID).fit()
    message = wire.encode(wire.Propose(model_text(CoxLassoCCD()), GRID, 0), site="Kyoto")
    assert "is to 'Kyoto', and this is 'Bergen'" in wire.decode(site.answer(message)).reason
    coordinator = Coordinator(CoxLassoCCD(alpha=0.01), {"Bergen": site.answer}, grid=GRID)
    assert coordinator.fit().converged_


def test_digests_are_those_of_rows_in_their_order():
    """... whatever holds them: of objects, those of what they say, and not of where they are."""
    digest = partial(digest_rows, rules=OPEN, secret=b"s")
    words = np.array(["".join(["old", "er"]), "young"], object)
    again = np.array(["".join(["ol", "der"]), "young"], object)
    records = np.zeros(2, np.dtype([("event", "?"), ("time", "<f8")], align=True))
    gaps = records.copy()
    gaps.view(np.uint8)[3] = 7
    for one, same in ((words, again), (records, gaps)):
        assert digest({"y": one}) == digest({"y": same})
        assert digest({"y": one}) == digest({"y": one[:]})
    assert digest({"y": words}) != digest({"y": words[::-1]})
    values = [words, words.astype(str), np.arange(4), np.arange(4.0), np.arange(4.0)[::-1]]
    values += [np.arange(4.0).reshape(2, 2), np.arange(4).astype("M8[D]"), np.zeros(0)]
    values += [build_design(np.eye(2)), build_design(np.eye(2)[::-1])]
    found = [digest({"y": value}) for value in values] + [digest({"z": words})]
    found += [digest_rows({"y": words}, *more) for more in ((OPEN, b"t"), (Rules(), b"s"))]
    assert len(set(found)) == len(values) + 3
    assert digest({"y": words}) == digest({"y": words}, rules=replace(OPEN, max_exchanges=7))


class Restarted:
    """A site that is another one from some message on."""

    def __init__(self, first, second, after):
        self.first, self.second, self.left = first, second, after

    def __call__(self, message):
        self.left -= 1
        return (self.first if self.left >= 0 else self.second).answer(message)


def test_site_that_is_started_again_goes_on_and_one_with_other_rows_is_named(cox):
    X, y = cox
    model = CoxLassoCCD(alpha=0.003)
    first = Coordinator(clone(model), send_to(sites_of(X, y)), grid=GRID).fit()
    [same, again] = (sites_of(X, y, secret=b"kept") for _ in range(2))
    send = send_to(same) | {"B": Restarted(same["B"], again["B"], 9)}
    assert Coordinator(clone(model), send, grid=GRID).fit().coef_.tobytes() == first.coef_.tobytes()
    moved, turned = X.copy(), X.copy()
    moved[800, 0] += 1.0
    turned[[701, 702]] = turned[[702, 701]]  # of rows of y that stay: sums of columns are the same
    for rows, secret in ((moved, b"kept"), (X, b"other"), (turned, b"kept")):
        other = sites_of(rows, y, secret=secret)["B"]
        send = send_to(same) | {"B": Restarted(same["B"], other, 9)}
        with pytest.raises(ValueError, match="site 'B': it has other rows than when the fit"):
            Coordinator(clone(model), send, grid=GRID).fit()


def test_command_line(cox, tmp_path, monkeypatch, capsys):
    X, y = cox
    monkeypatch.setitem(sys.modules, "rows_of_b", SimpleNamespace(load=lambda: {"X": X, "y": y}))
    options = ["--name", "B", "--rows", "rows_of_b:load", str(tmp_path)]
    options += ["--log", str(tmp_path / "log"), "--secret", str(tmp_path / "secret")]
    out = tmp_path / "coef.csv"
    fit = ["coordinator", "--sites", "B", "--estimator", "CoxLassoCCD", "--out", str(out)]
    fit += ["--parameters", '{"alpha": 0.01}', "--grid", "20", "1200", "20", str(tmp_path)]

    def fit_beside(*more):
        """Code of the coordinator, with a site in a thread that ends when it does."""
        ended = []

        def wait_for_coordinator():
            if ended:
                raise TimeoutError

        given = ["site", *more, *options]
        site = Thread(target=main, args=(given,), kwargs={"wait": wait_for_coordinator})
        site.start()
        try:
            code = main(fit, wait=lambda: None)
        finally:
            ended.append(True)
            site.join()
        return code

    assert fit_beside() == 0
    said = capsys.readouterr().out.splitlines()
    assert re.fullmatch(
        r"\d+ of 60 times, from \d+ to 1200, as each site has 30 rows or .*", said[0]
    )
    assert re.search(r"exchanges, .* MB from them; written: /.*coef.csv", said[-1])
    assert len(out.read_text().splitlines()) == X.shape[1] + 1
    assert (tmp_path / "secret").stat().st_size == 16
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    assert fit_beside("--approve") == 1
    found = capsys.readouterr()
    assert "Release this answer? [y/N]" in found.out
    assert "RefusedError: site 'B' refused: the answer was not approved" in found.err
    assert main([*fit, "--timeout", "0"]) == 1
    assert "waited 0 s for an answer of site 'B'" in capsys.readouterr().err


def test_command_line_tells_what_was_left_out():
    fitted = SimpleNamespace(
        grid_={"a": [1.0, 2.0], "b": [1.0, 2.0, 3.0]},
        absent_={"A": ("x4", "x7"), "B": ()},
        left_out_={"A": 0, "B": 2},
    )
    assert list(_told(fitted, 50, 40)) == [
        "2 to 3 of 50 times in each of 2 strata, as each site has 40 rows or more of each kind",
        "zero at site A, where few rows have them: x4, x7",
        "left out at site B: 2 strata of few rows",
    ]


# -- models and matrices ----------------------------------------------------------------------
@pytest.mark.parametrize("options", [{"level": "full"}, {"level": "sample", "matrix_of": "B"}])
def test_matrices_change_the_way_and_not_the_fit(cox, options):
    X, y = cox
    rules = Rules(max_matrices=50)
    found = [
        Coordinator(CoxLassoCCD(alpha=0.003), send_to(sites_of(X, y, rules)), grid=GRID, **some)
        for some in ({}, options)
    ]
    diagonal, other = [coordinator.fit() for coordinator in found]
    assert other.objective_ == pytest.approx(diagonal.objective_, rel=1e-10)
    with pytest.raises(
        RefusedError, match=r"at 0 points \(`max_matrices`\); take level='diagonal'"
    ):
        Coordinator(CoxLassoCCD(), send_to(sites_of(X, y)), grid=GRID, level="full").fit()


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"min_rows": 0}, "`min_rows` is 0, must be an integer from 1 on"),
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
    for options, match in (
        ({"level": "all"}, "`level` is 'all'"),
        ({"matrix_of": "A"}, "`matrix_of` is 'A'"),
        ({"grid": [1.0, np.inf]}, "`grid` has NaN"),
    ):
        with pytest.raises(ValueError, match=match):
            Coordinator(CoxLassoCCD(), NAMES, **options)
    with pytest.raises(ValueError, match="`sites` are"):
        Coordinator(CoxLassoCCD(), [])


@pytest.mark.parametrize(
    ("estimator", "sites", "message"),
    [
        (CoxLassoCV(), ["a"], "`estimator` is of type CoxLassoCV; pass one .* has one penalty"),
        (CoxLassoCCD(), {"a": 3}, "`sites` has one of type int; pass functions by name"),
    ],
)
def test_what_a_coordinator_cannot_fit_is_refused(estimator, sites, message):
    with pytest.raises(TypeError, match=message):
        Coordinator(estimator, sites)


def test_strata_of_some_sites_only_are_refused():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(400, 2)), surv(np.ones(400, bool), rng.integers(1, 5, 400))
    sites = {"a": Site(X, y, strata=np.repeat(["f", "m"], 200)), "b": Site(X, y)}
    send = {name: site.answer for name, site in sites.items()}
    with pytest.raises(
        ValueError, match="by text at site 'a', and by numbers or not at all at 'b'"
    ):
        Coordinator(CoxLassoCCD(), send, grid=np.arange(1.0, 5.0)).fit()


def test_coordinators_refuse_descriptions_that_no_rows_have(cox):
    """Each would be an index, or a size, of compiled code."""
    X, y = cox
    sites = sites_of(X, y)
    rng = np.random.default_rng(0)

    def spoilt(data, spoil):
        answer = wire.decode(data)
        return restamped(data, spoil(answer)) if isinstance(answer, m.Description) else data

    def fit(spoil):
        send = send_to(sites) | {"B": lambda message: spoilt(sites["B"].answer(message), spoil)}
        return Coordinator(CoxLassoCCD(alpha=0.01), send, grid=GRID).fit()

    def changed(name, change):
        return lambda d: replace(d, tables=d.tables | {name: change(d.tables[name])})

    spoils = {
        "'deaths' that is not of whole numbers from 0": changed("deaths", lambda v: -v),
        "'deaths' that is not of whole numbers of": changed("deaths", lambda v: v + 0.5),
        "'deaths' that is not of whole numbers from 0 to 2": changed("deaths", lambda v: v + 2**60),
        "'stratum' that is not of whole numbers from 0 to 0": changed("stratum", lambda v: v + 1),
        "'time' that is not of numbers of": changed("time", lambda v: v[1:]),
        "'time' that is not of numbers from": changed("time", lambda v: v * np.nan),
        "'last' that is not of": changed("last", lambda v: v[:0]),
        "more deaths than its 800": changed("deaths", lambda v: v * 0 + 700),
        "shape": changed("units", lambda v: v[:0]),
        "'labels' that is not of ascending": changed("labels", lambda v: v[[0, 0]]),
        "has the tables": lambda d: replace(d, tables=d.tables | {"more": np.ones(1)}),
        "extremes": lambda d: replace(d, columns=np.nan_to_num(d.columns)),
        "negative squares": lambda d: replace(d, columns=d.columns * [1, 1, -1, 1, 1]),
        "says that it has -1 rows": lambda d: replace(d, rows=-1),
        "not 5 of each": lambda d: replace(d, columns=d.columns[:, :4]),
        "other numbers of rows": lambda d: replace(d, columns=d.columns * 1e9),
    }
    for reason, spoil in spoils.items():
        with pytest.raises(ValueError, match=f"site 'B': .*{reason}"):
            fit(spoil)
    for _ in range(25):  # whatever else is changed, an error or a fit, and never a crash
        name = rng.choice(["deaths", "stratum", "time", "last", "labels"])
        size = rng.integers(0, 3)
        with suppress(ValueError, RefusedError, TypeError):
            fit(changed(name, lambda v, size=size: rng.permutation(v)[size:] * rng.integers(-2, 3)))


def spoil_table(name, change):
    return lambda found: replace(found, tables=found.tables | {name: change(found.tables[name])})


def spoil_matrix(found):
    gram = found.tables.get("gram", np.zeros((0, 0)))
    return replace(found, tables=found.tables | ({"gram": np.triu(gram, 1)} if gram.size else {}))


SPOILT = {  # in the answers of a fit of competing risks with matrices, or of classes
    wire.Proposed: {
        "sums of 0 rows": lambda found: replace(found, min_rows=0),
        "'deaths_by' that is not of whole numbers from 0": spoil_table("deaths_by", lambda v: -v),
        "'exits_end' that is not of truth": spoil_table("exits_end", lambda v: v.astype(int)),
        "'exits' that is not of whole numbers of": spoil_table("exits", lambda v: v[:, 1:]),
        "'labels' that is not of ascending": spoil_table("labels", lambda v: v[None]),
        "has the tables": lambda found: replace(found, tables={"labels": found.tables["labels"]}),
    },
    wire.Coarsened: {"leaves out -1": lambda found: replace(found, left_out=-1)},
    m.Description: {
        "'labels' that is not of ascending labels": spoil_table("labels", lambda v: v + np.inf),
        "'censor_labels' that is not of asc": spoil_table("censor_labels", lambda v: v + 0.5),
    },
    m.Arranged: {
        "'own' that is not of whole numbers from 0": lambda found: replace(
            found, own=found.own - 10**6
        ),
        "'own' that are not ascending": lambda found: replace(found, own=found.own[::-1].copy()),
        "'own_lanes' that is not of whole": lambda f: replace(f, own_lanes=f.own_lanes + 10**6),
        "has the tables": lambda found: replace(found, own_entries=None),
    },
    m.Weights: {
        "800 rows cannot have": lambda found: replace(found, total=-1.0),
        "800 rows cannot": lambda found: replace(found, rows=801),
        "800 rows": lambda found: replace(found, events=np.inf),
        "deaths that are no numbers of 800": spoil_table("deaths", lambda v: v + 0.5),
        "'death_weight' that is not of numbers from 0": spoil_table("death_weight", lambda v: -v),
        "'lost' that is not of numbers of": spoil_table("lost", lambda v: v[1:]),
    },
    m.Evaluated: {
        "tells of single rows": lambda found: replace(found, top=1.0),
        "infinite log-likelihood": lambda found: replace(found, loglik=np.inf),
        "'risk' that is not of numbers of the shape": lambda found: replace(
            found, loglik=np.nan, tables={k: v.astype(str) for k, v in found.tables.items()}
        ),
        "'risk' that is not of numbers from 0": spoil_table("risk", lambda v: -v),
        "'carried' that is not of numbers from": spoil_table("carried", lambda v: v * np.nan),
        "has negative curvatures": spoil_table("curvature", lambda v: -v),
        "'score' that is not of numbers of": spoil_table("score", lambda v: v[:3]),
    },
    m.Sums: {
        "'gradient' that is not of numbers from": spoil_table("gradient", lambda v: v + np.inf),
        "'curvature' that is not of numbers from 0": spoil_table("curvature", lambda v: -v),
        "'total' that is not of numbers of": spoil_table("total", lambda v: v[None]),
        "'size' that is not of numbers from 0": spoil_table("size", lambda v: -1.0 - v),
        "'loads' that is not of numbers of": spoil_table("loads", lambda v: v.T[1:]),
        "a matrix that is not symmetric": spoil_matrix,
    },
    m.Answers: {"has 2 parts to 1 requests": lambda found: m.Answers(found.of * 2)},
}


@pytest.mark.parametrize(
    ("kind", "reason", "spoil"),
    [(kind, *spoil) for kind, spoils in SPOILT.items() for spoil in spoils.items()],
)
def test_coordinators_refuse_answers_that_no_rows_have(kind, reason, spoil):
    def change(found):
        if isinstance(found, m.Answers) and kind is not m.Answers:
            return m.Answers(tuple(map(change, found.of)))
        return spoil(found) if isinstance(found, kind) else found

    rng = np.random.default_rng(1)
    X, is_of_classes = table(rng), "'score'" in reason or "curvatures" in reason
    y = outcome(rng, X, "classes" if is_of_classes else "competing")
    model = LogisticCCD(alpha=0.003) if is_of_classes else FineGrayCCD(alpha=0.003)
    sites = send_to(sites_of(X, y, Rules(max_matrices=99)))
    right = sites["B"]

    def send(message):
        data = right(message)
        return restamped(data, change(wire.decode(data)))

    coordinator = Coordinator(model, sites | {"B": send}, grid=GRID, level="full")
    with pytest.raises(ValueError, match=f"^site 'B': its answer .*{reason}"):
        coordinator.fit()
