"""All estimators with data that suits them, for the tests that hold for each."""

from dataclasses import dataclass, field

import numpy as np
import scipy.sparse as sp

from sksurvgpu import (
    CaseSeriesCCD,
    ConditionalLogisticCCD,
    ConditionalPoissonCCD,
    CoxLassoCCD,
    FineGrayCCD,
    LinearCCD,
    LogisticCCD,
    PoissonCCD,
    case_series,
    competing_risks,
    surv,
)
from sksurvgpu.estimators.fitted import fitted_of

N, P, N_SUBJECTS = 240, 12, 60
RNG = np.random.default_rng(20)
X = sp.csr_array(
    np.column_stack(
        [RNG.random((N, 8)) < 0.3, RNG.normal(size=(N, 4)) * (RNG.random((N, 4)) < 0.6)]
    )
)
COEF = np.where(np.arange(P) % 3 == 0, RNG.normal(size=P), 0.0)
ETA = X @ COEF
SUBJECT = RNG.permutation(np.arange(N) % N_SUBJECTS)
CODE = RNG.integers(0, 3, N)
TIME = np.ceil(40 * RNG.exponential(size=N) * np.exp(-0.5 * ETA))
EXPOSURE = RNG.uniform(0.5, 4.0, N)
COUNT = RNG.poisson(EXPOSURE * np.exp(0.5 * ETA - 0.5))
IS_CASE = RNG.random(N) < 1 / (1 + np.exp(0.5 - ETA))
WEIGHT = RNG.choice([0.0, 0.5, 1.0, 2.0], N, p=[0.1, 0.3, 0.3, 0.3])
WEIGHT_OF_SUBJECT = RNG.choice([0.0, 0.5, 1.0, 2.0], N_SUBJECTS, p=[0.1, 0.3, 0.3, 0.3])[SUBJECT]
STRATA = np.array(["east", "north", "west"])[RNG.integers(0, 3, N)]
OFFSET = 0.3 * RNG.normal(size=N)


@dataclass(frozen=True)
class Face:
    """An estimator class, an outcome, and what else its `fit` takes, a number or label a row."""

    cls: type
    y: np.ndarray
    rows: dict = field(default_factory=dict)
    scored: tuple = ("sample_weight",)  # names in `rows` that `score` takes, too
    ratio: str | None = None  # what exp(coef) is called in `summary`
    needed: tuple = ()  # names in `rows` without which there is no fit
    groups: np.ndarray | None = None  # rows that a split must keep together

    @property
    def drawn(self):
        """Unit of each row among those that are drawn, which have a weight."""
        unit = np.arange(len(self.y)) if self.groups is None else self.groups
        some = np.unique(unit[self.rows["sample_weight"] > 0])
        return np.searchsorted(some, unit).clip(max=len(some) - 1)

    def make(self, **params):
        return self.cls(**{"alpha": 0.02, "tol": 1e-10, **params})

    def arguments(self, names=None, rows=slice(None)):
        """Arguments of `fit`; by default those that it needs."""
        names = self.needed if names is None else names
        return {name: self.rows[name][rows] for name in names}

    def fit(self, X=X, *, names=None, **params):
        return self.make(**params).fit(X, self.y, **self.arguments(names))

    def predict(self, model, X=X):
        """All that a fitted model says about rows, as arrays of numbers."""
        methods = {
            CoxLassoCCD: ("predict_survival_function", "predict_cumulative_hazard_function"),
            FineGrayCCD: (
                "predict_cumulative_incidence_function",
                "predict_cumulative_hazard_function",
            ),
            LogisticCCD: ("decision_function", "predict_proba", "predict_log_proba"),
        }.get(self.cls, ())
        curves = {"return_array": True} if any("function" in m for m in methods[:2]) else {}
        if self.cls is LogisticCCD:
            curves = {}
        elif curves and fitted_of(model).setting.timeline.labels is not None:
            curves["strata"] = STRATA[: X.shape[0]]
        found = [getattr(model, method)(X, **curves) for method in methods]
        if self.cls is not LogisticCCD:  # whose predictions are labels
            found.append(model.predict(X))
        return found


ROWS = {"sample_weight": WEIGHT, "offset": OFFSET}
OF_SUBJECTS = {"sample_weight": WEIGHT_OF_SUBJECT, "offset": OFFSET}
FACES = {
    "cox": Face(
        CoxLassoCCD,
        surv(CODE == 1, TIME),
        {**ROWS, "strata": STRATA},
        scored=("sample_weight", "strata"),
        ratio="hazard_ratio",
    ),
    "fine-gray": Face(
        FineGrayCCD,
        competing_risks(CODE, TIME),
        {**ROWS, "strata": STRATA, "censoring_groups": SUBJECT % 2},
        scored=("sample_weight", "strata"),
        ratio="hazard_ratio",
    ),
    "case series": Face(
        CaseSeriesCCD,
        case_series(COUNT, EXPOSURE, SUBJECT),
        OF_SUBJECTS,
        scored=("sample_weight", "offset"),
        ratio="rate_ratio",
        groups=SUBJECT,
    ),
    "conditional poisson": Face(
        ConditionalPoissonCCD,
        COUNT,
        {**ROWS, "strata": SUBJECT, "exposure": EXPOSURE},
        scored=("sample_weight", "strata", "exposure", "offset"),
        ratio="rate_ratio",
        groups=SUBJECT,
    ),
    "conditional logistic": Face(
        ConditionalLogisticCCD,
        IS_CASE,
        {**OF_SUBJECTS, "strata": SUBJECT},
        scored=("sample_weight", "strata", "offset"),
        ratio="odds_ratio",
        needed=("strata",),
        groups=SUBJECT,
    ),
    "logistic": Face(LogisticCCD, np.where(IS_CASE, "yes", "no"), ROWS, ratio="odds_ratio"),
    "poisson": Face(
        PoissonCCD,
        COUNT,
        {**ROWS, "exposure": EXPOSURE},
        scored=("sample_weight", "exposure"),
        ratio="rate_ratio",
    ),
    "linear": Face(LinearCCD, ETA + RNG.normal(size=N), ROWS),
}


def same_predictions(face, model, expected, table=X, atol=1e-8):
    """Assert that two fitted models say the same of all rows."""
    for values, others in zip(face.predict(model, table), face.predict(expected), strict=True):
        np.testing.assert_allclose(values, others, atol=atol)
