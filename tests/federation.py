"""Rows at three sites, and fits over them, as the tests of sites share them."""

from functools import partial
from itertools import pairwise

import numpy as np
from sklearn.base import clone

from sksurvgpu import CoxLassoCCD, FineGrayCCD, competing_risks, surv
from sksurvgpu.federated import Coordinator, Rules, Site, wire
from sksurvgpu.federated.local import Local

GRID = np.arange(20.0, 1220.0, 20.0)
COX = CoxLassoCCD | FineGrayCCD
NAMES = ("A", "B", "C")
CUTS = (0, 700, 1500, 2400)
# Of sites whose sums are those of the rows as they are.
Exact = partial(Rules, blur=0)
OPEN = Exact(min_rows=1, max_exchanges=1000, largest_share=1.0, longest_range=700.0, max_matrices=9)
LASSO = CoxLassoCCD(alpha=0.003)


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


def draw_cox():
    """Columns and outcome of all rows."""
    rng = np.random.default_rng(1)
    X = table(rng)
    return X, survival(rng, X)


def keep_what_is_told(monkeypatch):
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


def refusal(site, content, **stamp):
    answer = wire.decode(site.answer(wire.encode(content, **stamp)))
    assert isinstance(answer, wire.Refused), type(answer)
    return answer.reason


def begun(sites, model=LASSO, **options):
    """Message that begins a fit, as each site is sent it."""
    coordinator = Coordinator(clone(model), [*sites], **{"grid": GRID, **options})
    return wire.decode(coordinator.messages()["A"])
