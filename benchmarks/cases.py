"""The problems of `run` and `wide`, one entry each: data, penalty, and who is not asked.

A new case is a `Case` in `CASES` (or `WIDE`), and nothing else.
"""

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
LASSO_ONLY = (
    "scikit-survival",
    "skglm",
    "adelie",
    "glmnet",
    "skein-glm",
    "FastSurvival",
    "abess",
    "biglasso",
)
# Who is left out where a run is known to end in the time limit or without memory.
MILLION_ROWS = dict.fromkeys(LASSO_ONLY, TOO_LARGE)
NO_LASSO = dict.fromkeys(LASSO_ONLY, "excluded: a lasso program")


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
    model: str = "cox"
    excluded: dict = field(default_factory=dict)  # solver -> why
    steps: int = 0  # penalties of a path, from the largest to the last one; 0: no path

    @property
    def tolerance(self):
        return TOLERANCE_COX if self.model == "cox" and not self.steps else TOLERANCE

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


def _size(n, p, **more):
    return {"n_samples": n, "n_features": p, **more}


def _of_cox():
    title = "papers' design, 5 % ones, gamma = sqrt(2)"
    for n, p in [(10_000, 500), (100_000, 1_000), (100_000, 2_000), (1_000_000, 1_000)]:
        name, left = f"papers-{n:.0e}-{p}".replace("e+0", "e"), MILLION_ROWS if n >= 1e6 else {}
        yield Case(name, title, simulate_cox, _size(n, p), excluded=left)
    for share in (0.1, 0.01, 0.001):
        title = f"health records, {share:g} of the largest penalty"
        yield Case(f"ehr-{share:g}", title, simulate_ehr, _size(100_000, 2_000), share)
    title, size = "thin columns, 0.5 % ones, gamma = sqrt(2)", _size(100_000, 3_000, density=0.005)
    yield Case("thin", title, simulate_cox, size)
    for share in (0.2, 0.05):
        title = f"dense p >> n, {share:g} of the largest penalty"
        yield Case(f"dense-{share:g}", title, simulate_dense, _size(300, 20_000), share)
    for k in (1, 5, 50, 500, 5_000, 50_000):
        title, size = "papers' design in strata, gamma = sqrt(2)", _size(100_000, 1_000, n_strata=k)
        yield Case(f"strata-{k}", title, simulate_cox, size)


# (name, model, title, draw, what differs from 100,000 x 1,000 with 5 % ones)
SETS, MANY = "20,000 matched sets", {"n_samples": 1_000_000}
DESIGNS = (
    ("fine-gray", "fine-gray", "Fine-Gray", draws.draw_fine_gray, {}),
    ("logistic", "logistic", "logistic", draws.draw_logistic, {}),
    ("logistic-origin", "logistic", "logistic without intercept", draws.draw_logistic,
     {"intercept": False}),
    ("poisson", "poisson", "Poisson", draws.draw_poisson, {}),
    ("poisson-exposure", "poisson", "Poisson with exposures", draws.draw_poisson,
     {"exposure": True}),
    ("linear", "linear", "linear", draws.draw_linear, {}),
    ("matched-1", "matched", f"{SETS}, 1 case of 5", draws.draw_matched, {}),
    ("matched-2", "matched", f"{SETS}, 2 cases of 5, exact", draws.draw_matched, {"n_cases": 2}),
    ("matched-2-breslow", "matched", f"{SETS}, 2 cases of 5, Breslow", draws.draw_matched,
     {"n_cases": 2, "ties": "breslow"}),
    ("case-series", "case-series", "case series, 0.5 % ones", draws.draw_case_series, MANY),
    ("case-series-5", "case-series", "case series, 5 % ones", draws.draw_case_series,
     {**MANY, "density": 0.05}),
)  # fmt: skip
SPARSER = 0.1


def _of_others():
    for name, model, title, draw, differs in DESIGNS:
        sizes = _size(100_000, 1_000) | differs
        yield Case(name, f"{title}, gamma = sqrt(2)", draw, sizes, model=model)
        sparser = f"{title}, {SPARSER:g} of the largest penalty"
        yield Case(f"{name}-{SPARSER:g}", sparser, draw, sizes, SPARSER, model)
    title, size = "100 matched sets, 8 cases of 20, dense, exact, no penalty", _size(2_000, 100)
    yield Case("matched-dense", title, draws.draw_matched_dense, size, 0.0, "matched")
    title, size = "a small study, dense Gaussian columns", _size(700, 20)
    sparser = f"{title}, {SPARSER:g} of the largest penalty"
    yield Case("study", sparser, draws.draw_cox_dense, size, SPARSER)
    yield Case(
        "study-0", f"{title}, no penalty", draws.draw_cox_dense, size, 0.0, excluded=NO_LASSO
    )
    title, size = "dense Gaussian columns, no penalty", _size(100_000, 50)
    yield Case("cox-0", title, draws.draw_cox_dense, size, 0.0, excluded=NO_LASSO)


WIDE_SHARE, WIDE_STEPS = 0.05, 100
WIDE_SIZES = {
    "cox": ((250, 6_000), (400, 8_000), (300, 20_000), (1_000, 20_000)),
    "logistic": ((250, 6_000), (300, 20_000)),
    "linear": ((250, 6_000), (300, 20_000)),
}
GENES = {"vdv": "breast cancer", "DBCD": "breast cancer", "AML_Bull": "leukaemia"}


def _wide():
    last = f"path of {WIDE_STEPS} penalties to {WIDE_SHARE:g} of the largest"
    path = {"share": WIDE_SHARE, "steps": WIDE_STEPS}
    for model, sizes in WIDE_SIZES.items():
        for n, p in sizes:
            name, title = f"wide-{model}-{n}-{p}", f"correlated dense columns, {last}"
            yield Case(name, title, draws.draw_wide, _size(n, p, model=model), model=model, **path)
    for name, what in GENES.items():
        title = f"gene expressions, {what}, {last}"
        yield Case(f"genes-{name}", title, draws.read_genes, {"name": name}, **path)


CASES = {case.name: case for case in (*_of_cox(), *_of_others())}
WIDE = {case.name: case for case in _wide()}
MODELS = tuple(dict.fromkeys(case.model for case in CASES.values()))

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
    match problem.model:
        case "cox":
            y = sksurvgpu.surv(problem["event"] > 0, problem["time"])
            return y, {"strata": problem["stratum"]}
        case "fine-gray":
            return sksurvgpu.competing_risks(problem["event"], problem["time"]), {}
        case "case-series":
            count, exposure = problem["y"], problem["exposure"]
            return sksurvgpu.case_series(count, exposure, problem["group"]), {}
        case "matched":
            return sksurvgpu.matched(problem["y"] > 0, problem["group"]), {}
        case "logistic":
            return problem["y"].astype(int), {}
    exposure = problem["exposure"]
    return problem["y"], {} if exposure is None else {"exposure": exposure}
