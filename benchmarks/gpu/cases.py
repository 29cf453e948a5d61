"""Small data sets of every likelihood and every shape of its data, and one large one of each.

A case draws an estimator and what its ``fit`` takes; `problem_of` turns that into what the solver
takes.  All come from the package's simulators; what these lack (ties, entries, weights, valued and
dense columns) is added here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

import sksurvgpu
from sksurvgpu import datasets
from sksurvgpu.estimators._preparing import prepare

ONES = 0.3  # share of ones in small designs
MANY_ROWS, FEW_ONES = 10_000, 0.05  # of designs from so many rows on
WEIGHTS = (0.0, 0.5, 1.0, 3.3)
MANY = 70


def _ones(n):
    return ONES if n < MANY_ROWS else FEW_ONES


@dataclass(frozen=True)
class Drawn:
    """An estimator and its data; `group` has the labels of rows that must share a weight."""

    estimator: object
    X: object
    y: object
    given: dict = field(default_factory=dict)
    group: np.ndarray | None = None

    def weights(self, rng, n_fits):
        """Row weights of some fits, some of them 0; the first fit has a weight for every row."""
        labels = np.arange(len(self.y)) if self.group is None else self.group
        weights = rng.choice(WEIGHTS, size=(labels.max() + 1, n_fits))
        weights[:, 0] = np.maximum(weights[:, 0], 0.5)
        return weights[labels]


@dataclass(frozen=True)
class Case:
    """A shape of data; ``draw(rng, n, p)`` from at least `least` rows.

    `ends` is False where rounding keeps fits from the tolerance; `exact` says whether devices have
    the exact algorithm for it.
    """

    name: str
    model: str
    draw: Callable
    least: int = 0
    ends: bool = True
    exact: bool = False


def problem_of(drawn):
    """Problem and batch without penalties, checked as in a fit."""
    prepared = prepare(drawn.estimator, drawn.X, drawn.y, **drawn.given)
    return prepared.problem, prepared.batch


def valued(X, rng):
    """Columns in turn: indicators, sparse values, dense values."""
    X = X.toarray()
    X[:, 1::3] *= rng.normal(size=X[:, 1::3].shape)
    X[:, 2::3] += 0.5 * rng.normal(size=X[:, 2::3].shape)
    return X


def finished(estimator, X, y, rng, plain, given=None, group=None):
    """With columns of all kinds, weights and offsets, but where plain."""
    drawn = Drawn(estimator, X if plain else valued(X, rng), y, given or {}, group)
    if plain:
        return drawn
    weight = drawn.weights(rng, 1)[:, 0]
    more = {"sample_weight": weight, "offset": 0.5 * rng.normal(size=len(weight))}
    return replace(drawn, given={**drawn.given, **more})


def on_grid(time, n_times):
    """Times moved up to a grid of about as many points, so that many are tied."""
    edges = np.unique(np.quantile(time, np.linspace(0.0, 1.0, n_times + 1)[1:]))
    return edges[np.minimum(np.searchsorted(edges, time), len(edges) - 1)] + 1.0


def cox(n_strata=None, tied=True, entries=False, cuts=0, plain=False, **parameters):
    """``n_strata(n)`` labels; `cuts` cut points of two coefficients."""

    def draw(rng, n, p):
        data = datasets.simulate_cox(n, p, density=_ones(n), random_state=rng)
        time = on_grid(data.y["time"], max(n // 4, 3)) if tied else data.y["time"]
        start = np.floor(time * 0.7 * rng.random(n)) if entries else None
        labels = None if n_strata is None else rng.integers(n_strata(n), size=n)
        more = dict(parameters)
        if cuts:
            points = np.quantile(time, np.arange(1, cuts + 1) / (cuts + 1)).tolist()
            more["time_varying"] = {0: points, p - 1: points[:1]}
        y = sksurvgpu.surv(data.y["event"], time, start=start, stratum=labels)
        return finished(sksurvgpu.CoxLassoCCD(**more), data.X, y, rng, plain)

    return draw


def cox_of_any_range(rng, n, p):
    """The first to leave has a predictor beside which the exponentials of all others underflow."""
    drawn = cox(plain=True)(rng, n, p)
    offset = rng.normal(size=n)
    offset[np.argmin(drawn.y["time"])] = 900.0
    return replace(drawn, given={"offset": offset})


def fine_gray(tied=True, n_strata=0, n_groups=0, plain=False, **parameters):
    """`n_groups` groups of censoring: 1 is one for all strata, 0 those of the strata."""

    def draw(rng, n, p):
        data = datasets.simulate_fine_gray(n, p, density=_ones(n), random_state=rng)
        time = on_grid(data.y["time"], max(n // 4, 3)) if tied else data.y["time"]
        counts = {"strata": n_strata, "censoring_groups": n_groups}
        given = {name: rng.integers(k, size=n) for name, k in counts.items() if k}
        y = sksurvgpu.competing_risks(data.y["event"], time)
        return finished(sksurvgpu.FineGrayCCD(**parameters), data.X, y, rng, plain, given)

    return draw


def case_series(n_subjects, plain=False):
    def draw(rng, n, p):
        eras = {"mean_eras": 6.0, "density": _ones(n)}
        data = datasets.simulate_case_series(n_subjects(n), p, random_state=rng, **eras)
        labels = np.unique(data.y["subject"], return_inverse=True)[1]
        return finished(sksurvgpu.CaseSeriesCCD(), data.X, data.y, rng, plain, group=labels)

    return draw


def conditional_poisson(n_strata, plain=False):
    def draw(rng, n, p):
        data = datasets.simulate_poisson(n, p, density=_ones(n), random_state=rng)
        given = {"strata": rng.integers(n_strata(n), size=n), "exposure": data.exposure}
        y = np.minimum(data.y, 9)  # counts of hundreds would leave nothing to compare by
        return finished(sksurvgpu.ConditionalPoissonCCD(), data.X, y, rng, plain, given)

    return draw


def matched(size, n_cases=None, n_sets=None, plain=False, **parameters):
    """Sets of `size` rows; ``n_sets(n)``, by default as many as n rows make."""

    def draw(rng, n, p):
        count = max(n // size, 4) if n_sets is None else n_sets(n)
        sets = {"stratum_size": size, "n_cases": n_cases, "density": _ones(n)}
        data = datasets.simulate_matched(count, p, random_state=rng, **sets)
        labels = data.y["stratum"].astype(np.int64)
        model = sksurvgpu.ConditionalLogisticCCD(**parameters)
        return finished(model, data.X, data.y, rng, plain, group=labels)

    return draw


def rows(name, intercept, plain=False):
    def draw(rng, n, p):
        if name == "poisson":
            data = datasets.simulate_poisson(n, p, density=_ones(n), random_state=rng)
            model, y = sksurvgpu.PoissonCCD, np.minimum(data.y, 20)
        else:
            how = {"density": _ones(n), "intercept": -0.5, "random_state": rng}
            data = datasets.simulate_logistic(n, p, **how)
            model, y = sksurvgpu.LogisticCCD, data.y
        if name == "linear":
            model, y = sksurvgpu.LinearCCD, 3.0 + data.X @ data.coef + rng.normal(size=n)
        return finished(model(fit_intercept=intercept), data.X, y, rng, plain)

    return draw


def few(n):
    return 3


def many(n):
    """More groups than columns keep a number for."""
    return max(n // 4, MANY)


SMALL = (
    Case("no ties", "cox", cox(tied=False, plain=True), exact=True),
    Case("ties, Breslow", "cox", cox(), exact=True),
    Case("ties, Efron", "cox", cox(ties="efron"), exact=True),
    Case("Efron, strata", "cox", cox(few, ties="efron"), exact=True),
    Case("many strata", "cox", cox(n_strata=many), 4 * MANY, exact=True),
    Case("entries, Efron", "cox", cox(few, ties="efron", entries=True)),
    Case("entries, many strata", "cox", cox(n_strata=many, entries=True), 4 * MANY),
    Case("cut points", "cox", cox(cuts=2)),
    Case("cut points, entries", "cox", cox(ties="efron", entries=True, cuts=2)),
    Case("cut points, many strata", "cox", cox(n_strata=many, cuts=1), 4 * MANY),
    Case("sums that underflow", "cox", cox_of_any_range, ends=False),
    Case("no ties", "fine-gray", fine_gray(tied=False, plain=True)),
    Case("ties", "fine-gray", fine_gray()),
    Case("ties, events first", "fine-gray", fine_gray(censoring_ties="finegray")),
    Case("strata", "fine-gray", fine_gray(n_strata=3)),
    Case("one censoring group", "fine-gray", fine_gray(n_strata=3, n_groups=1)),
    Case("censoring groups", "fine-gray", fine_gray(n_groups=3)),
    Case("strata and groups", "fine-gray", fine_gray(n_strata=3, n_groups=4)),
    Case("few subjects", "case-series", case_series(lambda n: max(min(n // 6, 60), 4))),
    Case("many subjects", "case-series", case_series(many)),
    Case("one stratum", "conditional-poisson", conditional_poisson(lambda n: 1)),
    Case("few strata", "conditional-poisson", conditional_poisson(few)),
    Case("many strata", "conditional-poisson", conditional_poisson(many), 4 * MANY),
    Case("one case of 4", "matched", matched(4, 1)),
    Case("any number of cases", "matched", matched(7)),
    Case("many sets", "matched", matched(5, 2, many)),
    Case("large sets", "matched", matched(90, 20, lambda n: 4)),
    Case("Efron", "matched", matched(5, 2, ties="efron")),
    Case("intercept", "logistic", rows("logistic", True)),
    Case("no intercept", "logistic", rows("logistic", False)),
    Case("intercept", "poisson", rows("poisson", True)),
    Case("no intercept", "poisson", rows("poisson", False)),
    Case("intercept", "linear", rows("linear", True)),
    Case("no intercept", "linear", rows("linear", False)),
)
MODELS = tuple(dict.fromkeys(case.model for case in SMALL))
# name -> parameters of an estimator with so many columns
PENALTIES = {
    "groups": lambda p: {"penalty": sksurvgpu.GroupLasso([k // 3 for k in range(p)])},
    "elastic net": lambda p: {"l1_ratio": 0.5, "penalty_factor": {0: 0.0, p - 1: 2.0}},
    "bounds": lambda p: {"bounds": (np.full(p, -0.1), np.full(p, 0.3))},
    "MCP": lambda p: {"penalty": "mcp"},
    "SCAD": lambda p: {"penalty": "scad"},
}


LARGE = {
    "cox": cox(tied=False, plain=True),
    "fine-gray": fine_gray(tied=False, plain=True),
    "case-series": case_series(lambda n: n // 20, plain=True),
    "conditional-poisson": conditional_poisson(lambda n: n // 20, plain=True),
    "matched": matched(5, 2, plain=True),
    "logistic": rows("logistic", True, plain=True),
    "poisson": rows("poisson", True, plain=True),
    "linear": rows("linear", True, plain=True),
}
