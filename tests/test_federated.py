"""Sites that give out sums and never rows: what leaves them, and whose fits these are."""

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
from sksurvgpu.federated import Coordinator, Rules, Site

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
