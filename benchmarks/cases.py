"""The problems of `run`: data, penalty, and who is not asked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

import sksurvgpu
from sksurvgpu.datasets import simulate_cox, simulate_dense, simulate_ehr

from . import problems as draws
from .problems import Data

PAPERS_PENALTY = float(np.sqrt(2.0))  # a Laplace prior of variance 1, on the sum scale
SEED = 20_240
QUICK_ROWS, QUICK_COLUMNS, QUICK_COLUMNS_DENSE = 4_000, 200, 2_000
TOLERANCE_COX, TOLERANCE = 1e-6, 1e-4  # KKT residual asked for, over the largest useful penalty

TOO_LARGE = "excluded: needs a dense X of 8 GB, or more than the time limit"
LASSO_ONLY = ("scikit-survival", "skglm", "adelie", "glmnet", "skein-glm", "FastSurvival", "abess")
# Who is left out where a run is known to end in the time limit or without memory.
MILLION_ROWS = dict.fromkeys(LASSO_ONLY, TOO_LARGE)


@dataclass(frozen=True)
class Case:
    """One problem.

    The penalty is `share` of the largest useful one; where that is None the papers' fixed one.
    """

    name: str
    title: str
    simulate: Callable
    arguments: dict = field(default_factory=dict)
    share: float | None = None
    excluded: dict = field(default_factory=dict)  # solver -> why
    model: str = "cox"
    steps: int = 0  # penalties of a path, from the largest to the last one; 0: no path

    @property
    def tolerance(self):
        if self.steps:
            return TOLERANCE
        return TOLERANCE_COX if self.model == "cox" else TOLERANCE

    def draw(self):
        seed = {} if self.simulate is draws.read_genes else {"random_state": SEED}
        drawn = self.simulate(**self.arguments, **seed)
        return drawn if isinstance(drawn, Data) else Data.of(drawn)

    def penalty(self, penalty_max):
        return PAPERS_PENALTY if self.share is None else self.share * penalty_max

    def path(self, penalty_max):
        """Penalties that end with the case's; none where no path is asked for."""
        if not self.steps:
            return ()
        return np.geomspace(penalty_max, self.penalty(penalty_max), self.steps)

    def size(self):
        if "n_samples" not in self.arguments:
            return "-"
        return f"{self.arguments['n_samples']:,} x {self.arguments['n_features']:,}"

    def shrunk(self):
        """A small problem of the same kind, that every solver manages in seconds."""
        if "n_samples" not in self.arguments:
            return self
        sizes = dict(self.arguments)
        is_wide = sizes["n_features"] > sizes["n_samples"]
        most = QUICK_COLUMNS_DENSE if is_wide else QUICK_COLUMNS
        sizes["n_samples"] = min(sizes["n_samples"], QUICK_ROWS)
        sizes["n_features"] = min(sizes["n_features"], most)
        if "n_strata" in sizes:
            sizes["n_strata"] = min(sizes["n_strata"], QUICK_ROWS // 2)
        left = {solver: why for solver, why in self.excluded.items() if why != TOO_LARGE}
        return replace(self, arguments=sizes, excluded=left)


# -- Cox --------------------------------------------------------------------------------------


def _papers():
    for n, p in [(10_000, 500), (100_000, 1_000), (100_000, 2_000), (1_000_000, 1_000)]:
        yield Case(
            f"papers-{n:.0e}-{p}".replace("e+0", "e"),
            "papers' design, 5 % ones, gamma = sqrt(2)",
            simulate_cox,
            {"n_samples": n, "n_features": p},
            excluded=MILLION_ROWS if n >= 1_000_000 else {},
        )


def _health_records():
    for share in (0.1, 0.01, 0.001):
        yield Case(
            f"ehr-{share:g}",
            f"health records, {share:g} of the largest penalty",
            simulate_ehr,
            {"n_samples": 100_000, "n_features": 2_000},
            share,
        )


def _dense():
    for share in (0.2, 0.05):
        yield Case(
            f"dense-{share:g}",
            f"dense p >> n, {share:g} of the largest penalty",
            simulate_dense,
            {"n_samples": 300, "n_features": 20_000},
            share,
        )


def _strata():
    for n_strata in (1, 5, 50, 500, 5_000, 50_000):
        yield Case(
            f"strata-{n_strata}",
            "papers' design in strata, gamma = sqrt(2)",
            simulate_cox,
            {"n_samples": 100_000, "n_features": 1_000, "n_strata": n_strata},
        )


THIN = Case(
    "thin",
    "thin columns, 0.5 % ones, gamma = sqrt(2)",
    simulate_cox,
    {"n_samples": 100_000, "n_features": 3_000, "density": 0.005},
)

# -- the other models -------------------------------------------------------------------------

# (name, model, title, draw, what differs from 100,000 x 1,000 with 5 % ones)
DESIGNS = (
    ("fine-gray", "fine-gray", "Fine-Gray", draws.draw_fine_gray, {}),
    ("logistic", "logistic", "logistic", draws.draw_logistic, {}),
    (
        "logistic-origin",
        "logistic",
        "logistic without intercept",
        draws.draw_logistic,
        {"intercept": False},
    ),
    ("poisson", "poisson", "Poisson", draws.draw_poisson, {}),
    (
        "poisson-exposure",
        "poisson",
        "Poisson with exposures",
        draws.draw_poisson,
        {"exposure": True},
    ),
    ("linear", "linear", "linear", draws.draw_linear, {}),
    ("matched-1", "matched", "20,000 matched sets, 1 case of 5", draws.draw_matched, {}),
    (
        "matched-2",
        "matched",
        "20,000 matched sets, 2 cases of 5, exact",
        draws.draw_matched,
        {"n_cases": 2},
    ),
    (
        "matched-2-breslow",
        "matched",
        "20,000 matched sets, 2 cases of 5, Breslow",
        draws.draw_matched,
        {"n_cases": 2, "ties": "breslow"},
    ),
    (
        "case-series",
        "case-series",
        "case series, 0.5 % ones",
        draws.draw_case_series,
        {"n_samples": 1_000_000},
    ),
    (
        "case-series-5",
        "case-series",
        "case series, 5 % ones",
        draws.draw_case_series,
        {"n_samples": 1_000_000, "density": 0.05},
    ),
)
SPARSER = 0.1


def _other_models():
    for name, model, title, draw, differs in DESIGNS:
        sizes = {"n_samples": 100_000, "n_features": 1_000, **differs}
        yield Case(name, f"{title}, gamma = sqrt(2)", draw, sizes, model=model)
        sparser = f"{title}, {SPARSER:g} of the largest penalty"
        yield Case(f"{name}-{SPARSER:g}", sparser, draw, sizes, SPARSER, model=model)


MATCHED_DENSE = Case(
    "matched-dense",
    "100 matched sets, 8 cases of 20, dense, exact, no penalty",
    draws.draw_matched_dense,
    {"n_samples": 2_000, "n_features": 100},
    share=0.0,
    model="matched",
)

NO_PENALTY = Case(
    "cox-0",
    "dense Gaussian columns, no penalty",
    draws.draw_cox_dense,
    {"n_samples": 100_000, "n_features": 50},
    share=0.0,
    excluded=dict.fromkeys(LASSO_ONLY, "excluded: a lasso program"),
)

# -- wide: paths of penalties from the largest of use ------------------------------------------

WIDE_SHARE, WIDE_STEPS = 0.05, 100
WIDE_SIZES = {
    "cox": ((250, 6_000), (400, 8_000), (300, 20_000), (1_000, 20_000)),
    "logistic": ((250, 6_000), (300, 20_000)),
    "linear": ((250, 6_000), (300, 20_000)),
}
GENES = {"vdv": "breast cancer", "DBCD": "breast cancer", "AML_Bull": "leukaemia"}


def _wide():
    last = f"path of {WIDE_STEPS} penalties to {WIDE_SHARE:g} of the largest"
    for model, sizes in WIDE_SIZES.items():
        for n, p in sizes:
            yield Case(
                f"wide-{model}-{n}-{p}",
                f"correlated dense columns, {last}",
                draws.draw_wide,
                {"n_samples": n, "n_features": p, "model": model},
                WIDE_SHARE,
                model=model,
                steps=WIDE_STEPS,
            )
    for name, what in GENES.items():
        title = f"gene expressions, {what}, {last}"
        given = {"name": name}
        yield Case(f"genes-{name}", title, draws.read_genes, given, WIDE_SHARE, steps=WIDE_STEPS)


WIDE = {case.name: case for case in _wide()}

CASES = {
    case.name: case
    for case in [
        *_papers(),
        *_health_records(),
        THIN,
        *_dense(),
        *_strata(),
        *_other_models(),
        MATCHED_DENSE,
        NO_PENALTY,
    ]
}
MODELS = tuple(dict.fromkeys(case.model for case in CASES.values()))


# -- this package ---------------------------------------------------------------------------------

ESTIMATORS = {
    "cox": "CoxLassoCCD",
    "fine-gray": "FineGrayCCD",
    "case-series": "CaseSeriesCCD",
    "matched": "ConditionalLogisticCCD",
    "logistic": "LogisticCCD",
    "poisson": "PoissonCCD",
    "linear": "LinearCCD",
}
WITH_INTERCEPT = ("logistic", "poisson", "linear")


def estimator(problem, penalty, **parameters):
    """The model of a problem, for a penalty on the sum scale."""
    if problem.model == "matched":
        parameters["ties"] = problem.ties
    if problem.model in WITH_INTERCEPT:
        parameters["fit_intercept"] = problem.intercept
    alpha = penalty / problem.shape[0]
    kind = getattr(sksurvgpu, ESTIMATORS[problem.model])
    return kind(alpha=alpha, backend="cpu", **parameters)


def outcome_of(problem):
    """The outcome as ``fit`` takes it, and further arguments of ``fit``."""
    if problem.model == "cox":
        y = sksurvgpu.surv(problem["event"] > 0, problem["time"])
        return y, {"strata": problem["stratum"]}
    if problem.model == "fine-gray":
        return sksurvgpu.competing_risks(problem["event"], problem["time"]), {}
    if problem.model == "case-series":
        return sksurvgpu.case_series(problem["y"], problem["exposure"], problem["group"]), {}
    if problem.model == "matched":
        return sksurvgpu.matched(problem["y"] > 0, problem["group"]), {}
    if problem.model == "logistic":
        return problem["y"].astype(int), {}
    if problem.model == "poisson" and problem["exposure"] is not None:
        return problem["y"], {"exposure": problem["exposure"]}
    return problem["y"], {}
