"""Random small problems of every model, as the public classes and as the oracles see them.

A problem is drawn in *plain* units, in which columns have standard deviations of about one, so that
its oracle meets no large or small number.  `in_units` states the same problem in other units: a
column times s has 1/s of the coefficient, and an absolute-value penalty stays the same under a
factor s, a squared one under s^2.  Where both are mixed no factor does that, and only columns
without a penalty are scaled.

The first three columns are an indicator, sparse and dense in all units, so that no attempt compiles
other kernels than the one before it.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import scipy.sparse as sp
from models import MODELS, Model, Sample
from oracles.reference_conditional import clogit_approx, clogit_enumerate, multinomial_direct
from oracles.reference_glm import expit
from oracles.reference_likelihoods import information

from sksurvgpu import (
    CaseSeriesCCD,
    CaseSeriesCV,
    ConditionalLogisticCCD,
    ConditionalLogisticCV,
    ConditionalPoissonCCD,
    CoxLassoCCD,
    CoxLassoCV,
    FineGrayCCD,
    FineGrayCV,
    LinearCCD,
    LogisticCCD,
    LogisticCV,
    PoissonCCD,
    PoissonCV,
    case_series,
    competing_risks,
    matched,
    surv,
)
from sksurvgpu.data.design.columns import build_design

FREE_SHARE = 0.3  # of columns without a penalty
STORAGES = {
    "array": np.asarray,
    "csr": sp.csr_array,
    "csc": sp.csc_array,
    "frame": lambda X: pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])]),
    "design": build_design,
}
# What `penalty_factor` is multiplied by when a column is, as a power of that number.
PENALTIES = {"none": (1.0, 1), "lasso": (1.0, 1), "elastic net": (0.5, None), "ridge": (0.0, 2)}


@dataclass(frozen=True)
class Face:
    """A model's public class, and how the arrays of an outcome in `models` become its arguments."""

    cls: type
    params: dict
    outcome: Callable  # y -> argument `y` of fit
    rows: dict  # argument of fit -> entry of y
    cross_validated: type | None = None


def _faces():
    strata = {"strata": "strata"}
    group = {"strata": "group"}
    faces = {}
    for ties in ("breslow", "efron"):
        faces[f"cox, {ties}"] = Face(
            CoxLassoCCD,
            {"ties": ties},
            lambda y: surv(y["event"], y["time"], start=y["start"]),
            strata,
            CoxLassoCV,
        )
    for name in MODELS:
        if name.startswith("fine_gray"):
            last = "events first" in name or name == "fine_gray, one curve"
            faces[name] = Face(
                FineGrayCCD,
                {"censoring_ties": "finegray" if last else "crr"},
                lambda y: competing_risks(y["status"], y["time"]),
                {**strata, "censoring_groups": "curve"},
                FineGrayCV,
            )
    for family, cls, cross_validated in (
        ("logistic", LogisticCCD, LogisticCV),
        ("poisson", PoissonCCD, PoissonCV),
        ("gaussian", LinearCCD, None),
    ):
        for name, intercept in ((family, True), (f"{family}, origin", False)):
            params = {"fit_intercept": intercept}
            faces[name] = Face(cls, params, lambda y: y["value"], {}, cross_validated)
    for many in ("", ", many"):
        faces["conditional_poisson" + many] = Face(
            ConditionalPoissonCCD, {}, lambda y: y["count"], group
        )
        for ties in ("exact", "efron", "breslow"):
            suffix = many if ties == "exact" else f", {ties}{many}"
            faces["conditional_logistic" + suffix] = Face(
                ConditionalLogisticCCD,
                {"ties": ties},
                lambda y: matched(y["case"], y["group"]),
                {},
                ConditionalLogisticCV,
            )
    faces["case_series"] = Face(
        CaseSeriesCCD,
        {},
        lambda y: case_series(y["count"], y["exposure"], y["group"]),
        {},
        CaseSeriesCV,
    )
    return faces


def _models():
    """Those of the tests, and the public classes' further forms of them.

    All know their second derivatives at the point where they are evaluated.
    """
    series, sets = MODELS["conditional_poisson"], MODELS["conditional_logistic"]

    def draw_eras(rng):
        y = series.draw(rng)
        return {**y, "exposure": rng.uniform(0.5, 40.0, len(y["count"]))}

    def evaluate_eras(eta, y, weights):
        return multinomial_direct(eta, y["count"], y["group"], y["exposure"], weights)

    def approximate(ties):
        def evaluate(eta, y, weights):
            return clogit_approx(eta, y["case"], y["group"], weights, ties)

        return replace(sets, evaluate=evaluate)

    def list_sets(eta, y, weights):
        return clogit_enumerate(eta, y["case"], y["group"], weights)

    listed = {
        name: replace(model, evaluate=list_sets)
        for name, model in MODELS.items()
        if model.name == "conditional_logistic"
    }
    return {
        **MODELS,
        **listed,
        "case_series": replace(series, draw=draw_eras, evaluate=evaluate_eras),
        "conditional_logistic, efron": approximate("efron"),
        "conditional_logistic, breslow": approximate("breslow"),
    }


ALL_MODELS = _models()
FACES = {name: face for name, face in _faces().items() if name in ALL_MODELS}
assert FACES.keys() == ALL_MODELS.keys()


@dataclass(frozen=True)
class Problem:
    """One fit, in some units."""

    name: str
    sample: Sample  # its X is an array
    alpha: float
    penalty: str  # a key of PENALTIES
    factor: np.ndarray
    algorithm: str
    storage: str

    @property
    def model(self) -> Model:
        return ALL_MODELS[self.name]

    @property
    def face(self) -> Face:
        return FACES[self.name]

    @property
    def l1_ratio(self):
        return PENALTIES[self.penalty][0]

    @property
    def table(self):
        return STORAGES[self.storage](self.sample.X)

    @property
    def y(self):
        return self.face.outcome(self.sample.y)

    @property
    def arguments(self):
        """What else `fit` takes."""
        rows = {name: self.sample.y[entry] for name, entry in self.face.rows.items()}
        rows |= {"sample_weight": self.sample.weights, "offset": self.sample.offset}
        return {name: values for name, values in rows.items() if values is not None}

    @property
    def params(self):
        return {
            **self.face.params,
            "alpha": self.alpha,
            "l1_ratio": self.l1_ratio,
            "penalty_factor": self.factor,
            "algorithm": self.algorithm,
            "n_jobs": 1,
        }

    def estimator(self, **params):
        return self.face.cls(**self.params | params)

    def with_(self, **changes):
        return replace(self, **changes)

    @property
    def movable(self):
        """Columns whose unit may change without a change of the model."""
        free = (self.factor == 0) | (self.alpha == 0)
        return free if PENALTIES[self.penalty][1] is None else np.ones(len(free), bool)

    def in_units(self, scale):
        """The same problem with columns times `scale`, and that scale where it was possible."""
        scale = np.where(self.movable, scale, 1.0)
        factor = self.factor * scale ** (PENALTIES[self.penalty][1] or 1)
        return self.with_(sample=self.sample.with_(X=self.sample.X * scale), factor=factor), scale

    @property
    def total(self):
        return float(self.sample.sample_weight.sum())

    @property
    def terms(self):
        """The penalty as the oracle's functions take it."""
        return self.alpha * self.total, self.l1_ratio, self.factor

    @property
    def l1(self):
        return self.alpha * self.total * self.l1_ratio * self.factor

    @property
    def l2(self):
        return self.alpha * self.total * (1.0 - self.l1_ratio) * self.factor

    def at(self, coef):
        """The oracle's evaluation."""
        return self.model.reference_at(self.sample, coef)

    def information(self, evaluation):
        """Minus the second derivative of the log-likelihood in the coefficients."""
        return information(self.sample.X, evaluation)

    def __str__(self):
        rows = {name for name in self.arguments if self.arguments[name] is not None}
        rows |= {"entry"} if self.sample.y.get("start") is not None else set()
        factor = np.array2string(self.factor, precision=3, separator=", ")
        return (
            f"{self.name}; {self.algorithm}; {self.penalty}, alpha={self.alpha:.4g}, "
            f"penalty_factor={factor}; {self.storage}; {', '.join(sorted(rows)) or 'plain rows'}"
        )


def draw_problem(rng, names=tuple(FACES), penalties=tuple(PENALTIES), copies=1):
    """A problem in plain units, with a penalty that is somewhere on its path."""
    name = str(rng.choice(names))
    model = ALL_MODELS[name]
    y = _draw_outcome(model, rng, copies)
    sample = _draw_rows(model, y, rng)
    sample = sample.with_(X=_draw_columns(model, sample, rng))
    p = sample.X.shape[1]
    penalty = str(rng.choice(penalties))
    factor = rng.uniform(0.3, 3.0, p) if rng.random() < 0.3 else np.ones(p)
    factor[:-1][rng.random(p - 1) < FREE_SHARE] = 0.0
    problem = Problem(
        name,
        sample,
        0.0,
        penalty,
        factor,
        algorithm=str(rng.choice(["majorized", "exact"])),
        storage=str(rng.choice(list(STORAGES))),
    )
    return problem.with_(alpha=draw_alpha(problem, rng))


def draw_alpha(problem, rng):
    """A penalty under which some column, chosen at random, is between free and gone."""
    penalized = np.flatnonzero(problem.factor)
    if problem.penalty == "none":
        return 0.0
    column, nothing = rng.choice(penalized), np.zeros(len(problem.factor))
    share, null = 10 ** rng.uniform(-2.5, -0.1), problem.at(nothing)
    if problem.penalty == "ridge":
        size = problem.information(null)[column, column]
    else:
        size = abs(problem.sample.X[:, column] @ null.u) / problem.l1_ratio
    return float(share * size / problem.factor[column] / problem.total)


def _draw_outcome(model, rng, copies):
    parts = [model.draw(rng) for _ in range(copies)]

    def joined(name):
        values = [part[name] for part in parts]
        if values[0] is None:
            return None
        if name == "group":  # those of other copies are other groups
            values = [labels + 1000 * k for k, labels in enumerate(values)]
        return np.concatenate(values)

    y = {name: joined(name) for name in parts[0]}
    for name, chance in (("start", 0.5), ("strata", 0.5), ("curve", 0.0)):
        if y.get(name) is not None and rng.random() < chance:
            y[name] = None
    return y


def _draw_rows(model, y, rng):
    """Weights and offsets, or none."""
    n = len(next(iter(y.values())))
    offset = rng.normal(size=n) if rng.random() < 0.4 else None
    weight = None
    if rng.random() < 0.4:
        weight = rng.choice([0.0, 0.5, 1.0, 3.3], size=n) * rng.choice([1e-3, 1.0, 1e3])
        if model.weighs_groups:
            weight = weight[np.unique(y[model.groups], return_inverse=True)[1]]
    return Sample(None, y, weight, offset)


def _draw_columns(model, sample, rng):
    """Correlated columns of which some have an effect.

    Some means are 4 or 700 standard deviations from zero, as are those of platelets and of years;
    without an intercept these would be other models.
    """
    n, p = sample.n, int(rng.integers(3, 7))
    u = model.reference(sample, np.zeros(n) if sample.offset is None else sample.offset).u
    cause = u / max(np.abs(u).max(), 1e-300) * rng.choice([0.0, 1.5], size=p)[:, None]
    common = rng.normal(size=n) * rng.choice([0.0, 1.0], size=p)[:, None]
    X = (rng.normal(size=(p, n)) + cause + common).T
    kind = np.concatenate([[0, 1, 2], rng.integers(0, 3, p - 3)])
    centre = rng.choice([0.0, 4.0, 700.0], size=p, p=[0.5, 0.3, 0.2]) * model.free
    for j in range(p):
        if kind[j] == 0:
            X[:, j] = rng.random(n) < 0.3 * expit(X[:, j]) / expit(X[:, j]).mean()
        elif kind[j] == 1:
            X[:, j] *= rng.permutation(n) < 0.24 * n
        else:
            X[:, j] += centre[j]
    most = np.flatnonzero(X[:, 0])[int(0.3 * n) :]  # an array's fuller columns are dense
    X[most, 0] = 0.0
    return X


def draw_scale(rng, X, exact):
    """Units over twelve orders of magnitude; the first column stays an indicator.

    Powers of two are exact where all columns keep their storage, so that no indicator has another.
    """
    p = X.shape[1]
    scale = 2.0 ** rng.integers(-20, 21, p) if exact else 10 ** rng.uniform(-6.0, 6.0, p)
    scale[np.isin(X, (0.0, 1.0)).all(axis=0) & (exact | (np.arange(p) == 0))] = 1.0
    return scale
