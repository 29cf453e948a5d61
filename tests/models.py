"""Every likelihood as the tests call it: data, problem, evaluation, fit, and the oracle's view.

`MODELS` is what tests are parametrized over; each entry is a likelihood of the registry with one
shape of data.  `engine` has what is Cox's alone.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp
from engine import BINS, dense, make_batch, use_bins
from oracles.reference_competing import finegray_direct
from oracles.reference_conditional import clogit_enumerate, clogit_exact, multinomial_direct
from oracles.reference_glm import expit, glm_direct
from oracles.reference_likelihoods import cox_direct, exact_hessian, kkt, model_hessian, penalty

from sksurvgpu.backends import cpu
from sksurvgpu.backends.cpu.session import Session
from sksurvgpu.backends.cpu.threads import Threads
from sksurvgpu.data.design.columns import build_design
from sksurvgpu.data.outcomes.survival import Outcome
from sksurvgpu.likelihoods import LIKELIHOODS
from sksurvgpu.patterns.carried.plan import plan_competing
from sksurvgpu.patterns.groups import plan as group_plans
from sksurvgpu.patterns.groups.plan import plan_groups
from sksurvgpu.patterns.risk_sets.plan import plan_rows
from sksurvgpu.penalties import ElasticNet
from sksurvgpu.solver.fits import Fits, Options
from sksurvgpu.solver.problem import Problem


@dataclass(frozen=True)
class Sample:
    """One data set; `y` holds the arrays, one entry a row, that make up the outcome."""

    X: object
    y: dict
    weights: np.ndarray | None = None
    offset: np.ndarray | None = None

    @property
    def n(self):
        return len(next(iter(self.y.values())))

    def rows(self, keep):
        def kept(values):
            return None if values is None else values[keep]

        y = {name: kept(values) for name, values in self.y.items()}
        return Sample(kept(self.X), y, kept(self.weights), kept(self.offset))

    def with_(self, **changes):
        return replace(self, **changes)

    def with_y(self, **changes):
        return replace(self, y={**self.y, **changes})

    @property
    def sample_weight(self):
        return np.ones(self.n) if self.weights is None else self.weights

    def eta(self, coef):
        eta = dense(self.X) @ coef
        return eta if self.offset is None else eta + self.offset


@dataclass(frozen=True)
class Model:
    """A likelihood of the registry, outcomes for it, and its oracle."""

    name: str
    options: dict
    draw: Callable  # rng -> y
    plan: Callable  # y -> plan
    evaluate: Callable  # (eta, y, weights) -> Evaluation
    best: Callable  # (y, weights) -> predictor at which the log-likelihood is largest, nearly
    groups: str | None = None  # entry of y in whose groups the mean is free
    weighs_groups: bool = False  # whether a weight is that of a whole group
    free: bool = True  # whether shifts of the predictor within groups change nothing
    by_bins: bool = False  # whether the quadratic model has bins of event times
    twice: bool = False  # whether twice the quadratic model is the bound
    exact: bool = True  # whether the quadratic model is the Hessian, under one bin a death
    copies: bool = True  # whether a weight of 2 is the row (or its group) given twice
    hessian: Callable | None = None  # where `evaluate` does not know it

    @property
    def likelihood(self):
        return LIKELIHOODS[self.name](**self.options)

    def group_of(self, sample):
        if not self.free:
            return None
        labels = None if self.groups is None else sample.y.get(self.groups)
        return np.zeros(sample.n, int) if labels is None else labels

    def sample(self, seed, *, p=None, kind="mixed", weights=True, offset=True):
        """Random data; some weights are 0."""
        rng = np.random.default_rng(seed)
        y = self.draw(rng)
        n = len(next(iter(y.values())))
        sample = Sample(None, y, offset=rng.normal(size=n) if offset else None)
        if weights:
            weight = rng.choice([0.0, 0.5, 1.0, 3.3], size=n)
            if self.weighs_groups:
                weight = weight[y[self.groups]]
            sample = sample.with_(weights=weight)
        return sample if p is None else sample.with_(X=draw_columns(rng, n, p, kind))

    def problem(self, sample):
        return Problem.build(build_design(sample.X), self.plan(sample.y), self.likelihood)

    def reference(self, sample, eta):
        """The oracle's evaluation at eta, without the offset."""
        return self.evaluate(np.asarray(eta), sample.y, sample.weights)

    def reference_at(self, sample, coef):
        return self.reference(sample, sample.eta(coef))

    def exact_hessian(self, sample, eta):
        if self.hessian is not None:
            return self.hessian(eta, sample.y, sample.weights)
        return exact_hessian(self.reference(sample, eta))

    def highest(self, sample):
        """Largest log-likelihood that any predictor has."""
        return self.reference(sample, self.best(sample.y, sample.sample_weight)).loglik


def draw_columns(rng, n, p, kind="mixed"):
    """Indicators, sparse and dense columns in turn; or all of one kind."""
    X = rng.normal(size=(n, p))
    if kind == "mixed":
        X[:, ::3] = rng.random((n, len(range(0, p, 3)))) < 0.3
        X[:, 1::3] *= rng.random((n, len(range(1, p, 3)))) < 0.3
        return X
    if kind == "dense":
        return X
    X = {"indicator": 1.0, "valued": X}[kind] * (rng.random((n, p)) < 0.3)
    return sp.csc_array(X)


def open_session(model, sample, coef, n_threads=1):
    """Session of one fit, evaluated at coefficients: (session, loglik, problem)."""
    problem = model.problem(sample)
    full = np.zeros(problem.n_columns)
    full[: len(coef)] = coef
    session = Session(
        problem, sample.weights, sample.offset, Threads(n_threads), ElasticNet.formulas
    )
    return session, session.start(full), problem


def open_rows(model, sample, eta):
    """Session whose columns are the rows, so that its coefficients are the predictor."""
    return open_session(model, sample.with_(X=sp.eye_array(sample.n, format="csc")), eta)


def gradient(session):
    return session.gradient(np.arange(session.n_columns))


def fit_path(model, sample, lam, *, n_threads=1, **kwargs):
    """Solutions of one fit, one a penalty; ``tol`` and the like by name."""
    names = ("l1_ratio", "factor", "coef", "fixed")
    batch = make_batch(sample, lam, **{k: kwargs.pop(k) for k in names if k in kwargs})
    return Fits(model.problem(sample), batch, cpu, Options(**kwargs), n_threads).solve()[0]


def fit(model, sample, lam, **kwargs):
    return fit_path(model, sample, lam, **kwargs)[0]


def objective(model, sample, coef, lam, l1_ratio=1.0, factor=1.0):
    """The oracle's objective."""
    return penalty(coef, lam, l1_ratio, factor) - model.reference_at(sample, coef).loglik


def violation(model, sample, coef, lam, l1_ratio=1.0, factor=1.0):
    """The oracle's KKT violation, per column."""
    u = model.reference_at(sample, coef).u
    return kkt(dense(sample.X), u, coef, lam, l1_ratio, factor)


def largest_gradient(model, sample):
    """Largest entry of the gradient at zero: the unit of `tol` where no column is free."""
    return violation(model, sample, np.zeros(sample.X.shape[1]), 0.0).max()


def codes(labels):
    return None if labels is None else np.unique(labels, return_inverse=True)[1].astype(np.int64)


def optional_labels(rng, n, count):
    return rng.integers(0, count, n) if count else None


def draw_survival(n=60, n_strata=3, start=True):
    def draw(rng):
        time = 1.0 + np.floor(np.minimum(3.0 * rng.exponential(size=n), 11.0))
        begin = np.floor(time * 0.8 * rng.random(n)) if start else None
        event = rng.random(n) < 0.6
        strata = optional_labels(rng, n, n_strata)
        return {"time": time, "event": event, "start": begin, "strata": strata}

    return draw


def draw_competing(n=60, n_strata=0, n_curves=0):
    """Times on a grid, where events, competing events and censorings coincide."""

    def draw(rng):
        time = 1.0 + np.floor(np.minimum(4.0 * rng.exponential(size=n), 14.0))
        return {
            "time": time,
            "status": rng.choice([0, 1, 2], size=n),
            "strata": optional_labels(rng, n, n_strata),
            "curve": optional_labels(rng, n, n_curves) if n_curves != 1 else np.zeros(n, int),
        }

    return draw


def draw_labels(rng, sizes):
    """Groups of the given sizes; their rows are no neighbours."""
    return rng.permutation(np.repeat(np.arange(len(sizes)), sizes))


def draw_counts(n_groups):
    """The first group has one row, the second no event."""

    def draw(rng):
        group = draw_labels(rng, np.concatenate([[1, 4], rng.integers(1, 6, n_groups - 2)]))
        count = rng.poisson(0.9, len(group)).astype(float)
        return {"count": np.where(group == 1, 0.0, count), "group": group}

    return draw


def draw_sets(n_sets):
    """The first sets have: one row, only cases, no case, one case of many, one control of many."""

    def draw(rng):
        sizes = np.concatenate([[1, 3, 4, 7, 7], rng.integers(2, 9, n_sets - 5)])
        group = draw_labels(rng, sizes)
        case = (rng.random(len(group)) < 0.45).astype(float)
        case[np.isin(group, [1, 4])] = 1.0
        case[np.isin(group, [2, 3])] = 0.0
        case[np.argmax(group == 3)], case[np.argmax(group == 4)] = 1.0, 0.0
        return {"case": case, "group": group}

    return draw


def draw_responses(family, n=60):
    def draw(rng):
        if family == "logistic":
            y = (rng.random(n) < 0.4).astype(float)
        else:
            y = rng.poisson(1.5, n).astype(float) if family == "poisson" else 3 + rng.normal(size=n)
        return {"value": y}

    return draw


def plan_survival(y):
    return plan_rows(Outcome(y["event"].astype(bool), y["time"], y["start"], codes(y["strata"])))


def evaluate_cox(ties):
    def evaluate(eta, y, weights):
        return cox_direct(eta, y["time"], y["event"], y["start"], y["strata"], weights, ties)

    return evaluate


def plan_fine_gray(events_first):
    def plan(y):
        status = y["status"].astype(np.uint8)
        outcome = Outcome(status == 1, y["time"], stratum=codes(y["strata"]), status=status)
        return plan_competing(outcome, codes(y["curve"]), events_first)

    return plan


def evaluate_fine_gray(events_first):
    ties = "events_first" if events_first else "together"

    def evaluate(eta, y, weights):
        curve = y["strata"] if y["curve"] is None else y["curve"]
        return finegray_direct(eta, y["time"], y["status"], y["strata"], weights, curve, ties)

    return evaluate


def best_intercept(family, eta, y, weights=None):
    """The intercept at which the means sum to the outcomes, from any distance."""
    c = np.ones(len(y)) if weights is None else weights
    if family == "gaussian":
        return c @ (y - eta) / c.sum()
    if family == "poisson":
        top = eta[c > 0].max()
        return np.log(c @ y) - top - np.log(c @ np.exp(np.minimum(eta - top, 0.0)))
    low, high = -800.0 - eta.max(), 800.0 - eta.min()
    for _ in range(200):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if c @ expit(eta + middle) < c @ y else (low, middle)
    return 0.5 * (low + high)


def glm_evaluation(family, intercept):
    """With an intercept: at its optimum, and the Hessian is that of the profile."""

    def evaluate(eta, y, weights):
        if not intercept:
            return glm_direct(eta, y["value"], family, weights, intercept=False)
        shift = best_intercept(family, eta, y["value"], weights)
        evaluation = glm_direct(eta + shift, y["value"], family, weights)
        hessian = model_hessian(evaluation.h, evaluation.stratum)
        return replace(evaluation, hessian=hessian)

    return evaluate


def first_to_fail(y, weights):
    """Nobody but the deaths counts: everyone else's predictor is far below theirs."""
    died = y["event"] if "event" in y else y["status"] == 1
    return np.where(died & (weights > 0), -40.0 * y["time"], -40.0 * y["time"].max() - 60.0)


def risk_set_models():
    def cox(ties):
        return Model(
            "cox",
            {"ties": ties},
            draw_survival(),
            plan_survival,
            evaluate_cox(ties),
            first_to_fail,
            groups="strata",
            by_bins=True,
            exact=ties == "breslow",
            copies=ties == "breslow",
        )

    def fine_gray(events_first=False, lanes=False, **shape):
        return Model(
            "fine_gray",
            {},
            draw_competing(**shape),
            plan_fine_gray(events_first),
            evaluate_fine_gray(events_first),
            first_to_fail,
            groups="strata",
            by_bins=True,
            exact=not lanes,
        )

    return {
        "cox, breslow": cox("breslow"),
        "cox, efron": cox("efron"),
        "fine_gray": fine_gray(),
        "fine_gray, events first": fine_gray(events_first=True),
        "fine_gray, strata": fine_gray(n_strata=3),
        "fine_gray, one curve": fine_gray(n_strata=3, n_curves=1, events_first=True),
        "fine_gray, curves": fine_gray(n_curves=3, lanes=True),
        "fine_gray, strata and curves": fine_gray(n_strata=3, n_curves=4, lanes=True),
    }


def group_models():
    poisson = Model(
        "conditional_poisson",
        {},
        draw_counts(16),
        lambda y: plan_groups(y["count"], y["group"]),
        lambda eta, y, weights: multinomial_direct(eta, y["count"], y["group"], None, weights),
        lambda y, weights: np.log(np.maximum(y["count"], 1e-20)),
        groups="group",
        weighs_groups=True,
    )
    logistic = Model(
        "conditional_logistic",
        {},
        draw_sets(14),
        lambda y: plan_groups(y["case"], y["group"]),
        lambda eta, y, weights: clogit_exact(eta, y["case"], y["group"], weights),
        lambda y, weights: 50.0 * y["case"],
        groups="group",
        weighs_groups=True,
        twice=True,
        exact=False,
        hessian=lambda eta, y, weights: (
            clogit_enumerate(eta, y["case"], y["group"], weights).hessian
        ),
    )
    many = group_plans.FEW_GROUPS + 6
    return {
        "conditional_poisson": poisson,
        "conditional_poisson, many": replace(poisson, draw=draw_counts(many)),
        "conditional_logistic": logistic,
        "conditional_logistic, many": replace(logistic, draw=draw_sets(many)),
    }


def row_models():
    best = {
        "logistic": lambda y, weights: np.log(
            np.maximum(y["value"], 1e-17) / np.maximum(1.0 - y["value"], 1e-17)
        ),
        "poisson": lambda y, weights: np.log(np.maximum(y["value"], 1e-17)),
        "gaussian": lambda y, weights: y["value"],
    }
    return {
        family if intercept else f"{family}, origin": Model(
            family,
            {"intercept": intercept},
            draw_responses(family),
            lambda y: plan_groups(y["value"]),
            glm_evaluation(family, intercept),
            best[family],
            free=intercept,
        )
        for family in best
        for intercept in (True, False)
    }


MODELS = {**risk_set_models(), **group_models(), **row_models()}


def forms_of(model):
    """Forms that the quadratic model may be told to take: bins of event times, or of groups."""
    if model.by_bins:
        return BINS
    return ("few", "many") if model.groups else ("one",)


FORMS = [(name, form) for name, model in MODELS.items() for form in forms_of(model)]


def use_form(form, monkeypatch):
    """Have problems built from here on take one form of the quadratic model."""
    if form in BINS:
        use_bins(form, monkeypatch)
    if form in ("few", "many"):
        monkeypatch.setattr(group_plans, "FEW_GROUPS", {"few": 10**9, "many": 0}[form])
