"""Sites that give out sums and never rows: what leaves them, and whose fits these are."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from sksurvgpu import (
    CoxLassoCCD,
    FineGrayCCD,
    LogisticCCD,
    PoissonCCD,
    competing_risks,
    surv,
)
from sksurvgpu.backends.sums import messages as m
from sksurvgpu.data.outcomes.survival import Outcome
from sksurvgpu.federated import Coordinator, Rules, Site, wire
from sksurvgpu.federated import grid as grids

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
    "strata": (CoxLassoCCD(alpha=0.003), "strata"),
    "pieces": (CoxLassoCCD(alpha=0.003, time_varying={2: [300.0]}), "plain"),
    "competing": (FineGrayCCD(alpha=0.003), "competing"),
    "logistic": (LogisticCCD(alpha=0.003), "classes"),
    "poisson": (PoissonCCD(alpha=0.003), "counts"),
}


def outcome(rng, X, kind):
    eta = X[:, :4] @ np.array([0.5, -0.4, 0.5, 0.3]) - 0.5
    if kind == "classes":
        return (rng.random(len(X)) < 1 / (1 + np.exp(-eta))).astype(int)
    if kind == "counts":
        return rng.poisson(np.exp(eta))
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
    assert coordinator.absent_ == {"A": ("11",), "B": ("10",), "C": ()}


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
    model = FineGrayCCD(alpha=9.0) if kind == "competing" else CoxLassoCCD(alpha=9.0, ties="efron")
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
        assert n_tables >= 3


@pytest.mark.parametrize("seed", range(20))
def test_agreed_times_have_enough_rows_of_every_kind_or_none(seed):
    """... counted by brute force, for sites whose follow-up and rows have little in common."""
    rng = np.random.default_rng(seed)
    grid, held, asked = np.arange(1.0, 40.0), {}, {}
    for name in NAMES:
        n = int(rng.integers(150, 600))
        time = np.minimum(rng.exponential(rng.choice([8.0, 25.0]), n), rng.uniform(0, 50, n)) + 0.1
        start = np.where(rng.random(n) < 0.5, time * rng.random(n), 0.0) if seed % 2 else None
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
        coarse, keeps = grids.coarsen(held[name][0], times)
        coarse = coarse.take(keeps)
        unit = np.arange(len(keeps)) if held[name][1] is None else held[name][1]
        for chosen, at in (("exits", "time"), ("deaths", "time"), ("entries", "start")):
            persons = {}
            for i, who in enumerate(unit[keeps]):
                when = None if getattr(coarse, at) is None else getattr(coarse, at)[i]
                if when and (chosen != "deaths" or coarse.event[i]):
                    persons.setdefault((coarse.stratum[i], when), set()).add(who)
            assert all(len(some) >= 10 for some in persons.values()), chosen


def test_sums_of_few_rows_are_withheld_from_models(cox):
    X, y = cox
    spies = spied_fit(CoxLassoCCD(alpha=0.003), X, y, replace(Rules(), max_matrices=99), level="full")
    rare_pairs = rare_loads = 0
    for spy, rows in zip(spies.values(), parts(X), strict=True):
        for heard, said in zip(spy.heard, spy.said, strict=True):
            for asked, sums in zip(getattr(heard, "requests", ()), getattr(said, "of", ()), strict=True):
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
        assert not description.columns[column, :3].any()
        for answer in spies[name].said:
            for sums in getattr(answer, "of", ()):
                for what in {"gradient", "size", "curvature", "loads"} & set(getattr(sums, "tables", {})):
                    assert not np.any(sums.tables[what][column])
