"""Every kind of design, drawn from fixed seeds: what `designs`, `compare` and `survset` fit.

Penalties are on the scale of sums: gamma = sqrt(2), or a share of the largest of use, which `judge`
finds without the package. Nothing here takes more of the package than users have, so that the same
file fits other versions of it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.sparse import csc_array, hstack

import sksurvgpu
from sksurvgpu import CoxLassoCCD, surv
from sksurvgpu.datasets import simulate_cox, simulate_dense, simulate_ehr

from . import problems as draws
from .cases import PAPERS_PENALTY, SEED, estimator, outcome_of
from .judge import Certificate
from .problems import Data

QUICK_ROWS, QUICK_COLUMNS = 1_000, 60
ALONE = {"backend": "cpu", "n_jobs": 1}


class Task(NamedTuple):
    """A call that fits, and the shape of its X."""

    call: Callable
    shape: tuple


class Design(NamedTuple):
    """Rows and columns, and the function that makes a `Task` of them."""

    make: Callable
    rows: int
    columns: int
    options: dict = {}  # noqa: RUF012 (nobody writes to it)
    is_large: bool = False

    def task(self, quick=False):
        rows, columns = self.rows, self.columns
        if quick:
            rows, columns = min(rows, QUICK_ROWS), min(columns, QUICK_COLUMNS)
        return self.make(rows, columns, **self.options)


def _fit(X, y, strength, given=None, **parameters):
    """A Cox fit; its penalty may be named in the parameters."""
    model = CoxLassoCCD(alpha=strength / len(y), **ALONE, **parameters)
    return Task(partial(model.fit, X, y, **(given or {})), X.shape)


def _largest(data):
    """The largest penalty of use, of a simulated data set or of `Data`."""
    return Certificate(data if isinstance(data, Data) else Data.of(data)).penalty_max


def _path_of(data, last, steps):
    """Penalties from the largest of use to a share of it, on the scale of means."""
    return np.geomspace(1.0, last, steps) * _largest(data) / len(data.y)


def papers(rows, columns, *, rows_a_stratum=None, has_ties=False, entry=False, **parameters):
    """Independent indicators, gamma = sqrt(2), unless `strength` says otherwise."""
    n_strata = 1 if rows_a_stratum is None else rows // rows_a_stratum
    options = {"n_strata": n_strata, "tie_break": not has_ties, "random_state": SEED}
    data = simulate_cox(rows, columns, **options)
    y, strength = data.y, parameters.pop("strength", PAPERS_PENALTY)
    if entry:
        start = y["time"] * np.random.default_rng(SEED).uniform(0.0, 0.9, rows)
        y = surv(y["event"], y["time"], start=start)
    return _fit(data.X, y, strength, {"strata": data.strata}, **parameters)


def weighted(rows, columns):
    """The papers' design with weights, offsets, and other values than one."""
    rng, data = np.random.default_rng(SEED), simulate_cox(rows, columns, random_state=SEED)
    X = data.X.astype(float)
    X.data = rng.exponential(size=X.nnz)
    given = {"sample_weight": rng.exponential(size=rows), "offset": rng.normal(0.0, 0.5, rows)}
    return _fit(X, data.y, PAPERS_PENALTY, given)


def other_model(rows, columns, *, draw, **options):
    """Models other than Cox's, and dense columns without a penalty."""
    strength = options.pop("strength", PAPERS_PENALTY)
    problem = draw(rows, columns, random_state=SEED, **options)
    y, given = outcome_of(problem)
    model = estimator(problem, strength, n_jobs=1)
    return Task(partial(model.fit, problem.table(), y, **given), problem.shape)


def dense_and_sparse(rows, columns, *, n_dense):
    """Normal columns beside indicators; all normal ones have an effect."""
    rng, data = np.random.default_rng(SEED), simulate_cox(rows, columns, random_state=SEED)
    dense = rng.normal(size=(rows, n_dense))
    eta = data.X @ data.coef + dense @ rng.normal(0.0, 0.2, n_dense)
    failed = rng.exponential(50.0 * np.exp(eta.mean() - eta))
    lost = rng.uniform(0.0, 500.0, rows)
    X = csc_array(hstack([csc_array(dense), data.X], format="csc"))
    return _fit(X, surv(failed <= lost, np.minimum(failed, lost)), PAPERS_PENALTY)


def records(rows, columns, *, share, **parameters):
    """Clustered, near-duplicated indicators; functions of the columns' number may be given."""
    data = simulate_ehr(rows, columns, random_state=SEED)
    return _fit(data.X, data.y, share * _largest(data), **_made(parameters, columns))


def _made(parameters, columns):
    return {name: g(columns) if callable(g) else g for name, g in parameters.items()}


def dense(rows, columns, *, share, correlation=0.5, **parameters):
    """Normal columns, an autoregressive sequence."""
    data = simulate_dense(rows, columns, correlation=correlation, random_state=SEED)
    return _fit(data.X, data.y, share * _largest(data), **_made(parameters, columns))


def path(rows, columns, *, simulate, share, steps=50):
    """A path of fifty penalties."""
    data = simulate(rows, columns, random_state=SEED)
    return _path_task(data.X, data.y, _path_of(data, share, steps))


def genes(rows, columns, *, name, share):
    """A path of fifty penalties on gene expressions, whatever size is asked for."""
    try:
        data = draws.read_genes(name)
    except ModuleNotFoundError as missing:
        raise RuntimeError("left out: pip install SurvSet") from missing
    y, _ = outcome_of(data)
    alphas = np.geomspace(1.0, share, 50) * _largest(data) / len(y)
    return _path_task(data.table().toarray()[:, :columns], y, alphas)


def _path_task(X, y, alphas):
    model = CoxLassoCCD(**ALONE)
    return Task(partial(sksurvgpu.fit_path, model, X, y, alphas=alphas), X.shape)


def folds(rows, columns, *, share):
    """Cross-validation of twenty penalties, all of them in all of ten folds."""
    data = simulate_ehr(rows, columns, random_state=SEED)
    options = {"alphas": _path_of(data, share, 20), "cv": 10, "early_stopping": False}
    model = sksurvgpu.CoxLassoCV(**options, **ALONE)
    return Task(partial(model.fit, data.X, data.y), data.X.shape)


def inferred(n_rows, n_columns, *, infer, **options):
    """A bootstrap or profile likelihoods of the papers' design."""
    data, infer = simulate_cox(n_rows, n_columns, random_state=SEED), getattr(sksurvgpu, infer)
    model = CoxLassoCCD(alpha=PAPERS_PENALTY / n_rows, **ALONE)
    return Task(partial(infer, model, data.X, data.y, **options), data.X.shape)


def outcomes(rows, columns, *, number):
    """The first column's effect on many outcomes, each with effects of its own."""
    X, rng = simulate_ehr(rows, columns, random_state=SEED).X, np.random.default_rng(SEED)
    found, end = {}, rng.uniform(30.0, 730.0, rows)
    for k in range(number):
        eta = X @ (rng.normal(0.0, 0.4, columns) * (rng.random(columns) < 0.05))
        time = rng.exponential(5_000.0 * np.exp(eta.mean() - eta))
        found[f"outcome {k}"] = surv(time <= end, np.ceil(np.minimum(time, end)))
    model = CoxLassoCCD(alpha=5e-4, penalty_factor={0: 0.0}, **ALONE)
    options = {"columns": 0, "intervals": "wald", "n_jobs": 1}
    call = partial(sksurvgpu.fit_outcomes, model, X, found, **options)
    return Task(call, X.shape)


def _bootstrap(rows, columns, number):
    options = {"infer": "bootstrap", "n_replicates": number, "random_state": 0}
    return Design(inferred, rows, columns, options)


def _prior_means(columns):
    return np.random.default_rng(SEED).normal(0.0, 0.2, columns)


def _penalty(name, *arguments, size=None, **options):
    """Maker of a penalty, perhaps over groups of `size` columns; older versions have not all."""

    def make(columns):
        groups = () if size is None else (np.arange(columns) // size,)
        return getattr(sksurvgpu, name)(*groups, *arguments, **options)

    return {"penalty": make}


def _model(draw, rows=100_000, columns=1_000, **options):
    return Design(other_model, rows, columns, {"draw": draw, **options})


def _penalized(rows=100_000, columns=1_000, share=0.02, **parameters):
    return Design(records, rows, columns, {"share": share, **parameters})


PROFILES = {"infer": "profile_likelihood", "columns": list(range(5))}
FREE = dict.fromkeys(range(30), 0.0)
CUTS = {0: [20.0, 60.0], 1: [20.0, 60.0], 2: [40.0]}
DESIGNS = {
    "papers-1e6-1000": Design(papers, 1_000_000, 1_000, is_large=True),
    "papers-1e5-1000": Design(papers, 100_000, 1_000),
    "papers-1e5-2000": Design(papers, 100_000, 2_000),
    "ties": Design(papers, 100_000, 1_000, {"has_ties": True}),
    "efron": Design(papers, 100_000, 1_000, {"has_ties": True, "ties": "efron"}),
    "entry": Design(papers, 100_000, 1_000, {"entry": True}),
    "strata-500": Design(papers, 100_000, 1_000, {"rows_a_stratum": 200}),
    "strata-50000": Design(papers, 100_000, 1_000, {"rows_a_stratum": 2}),
    "time-varying": Design(papers, 100_000, 500, {"time_varying": CUTS}),
    "treatment": Design(papers, 100_000, 1_001, {"penalty_factor": {0: 0.0}}),
    "free-30": Design(papers, 100_000, 30, {"strength": 0.0}),
    "free-30-of-1000": Design(papers, 100_000, 1_000, {"penalty_factor": FREE}),
    "weighted": Design(weighted, 100_000, 1_000),
    "dense-50": _model(draws.draw_cox_dense, columns=50, strength=0.0),
    "dense-and-sparse": Design(dense_and_sparse, 100_000, 500, {"n_dense": 20}),
    "matched-breslow": _model(draws.draw_matched, ties="breslow"),
    "matched-exact": _model(draws.draw_matched),
    "matched-2-exact": _model(draws.draw_matched, n_cases=2),
    "case-series-1e6": _model(draws.draw_case_series, 1_000_000),
    "case-series-42000": _model(draws.draw_case_series, 42_000),
    "fine-gray": _model(draws.draw_fine_gray),
    "logistic": _model(draws.draw_logistic),
    "poisson": _model(draws.draw_poisson),
    "linear": _model(draws.draw_linear),
    "records-0.1": _penalized(100_000, 2_000, 0.1),
    "records-0.01": _penalized(100_000, 2_000, 0.01),
    "records-0.001": _penalized(100_000, 2_000, 0.001),
    "records-12000-0.3": Design(records, 60_000, 12_000, {"share": 0.3}, is_large=True),
    "records-12000-0.01": Design(records, 60_000, 12_000, {"share": 0.01}, is_large=True),
    "records-path": Design(path, 50_000, 1_000, {"simulate": simulate_ehr, "share": 0.01}),
    "elastic-net": _penalized(l1_ratio=0.5),
    "ridge": _penalized(l1_ratio=0.0),
    "mcp": _penalized(penalty="mcp"),
    "scad": _penalized(penalty="scad"),
    "bounds": _penalized(bounds=(0.0, np.inf)),
    "prior-means": _penalized(prior_mean=_prior_means),
    "groups-5": _penalized(**_penalty("GroupLasso", size=5)),
    "groups-50": _penalized(**_penalty("GroupLasso", size=50)),
    "sparse-groups": _penalized(**_penalty("GroupLasso", size=5, mix=0.5)),
    "group-mcp": _penalized(**_penalty("GroupLasso", size=5, shape="mcp")),
    "fused": _penalized(columns=500, **_penalty("Fused", "chain")),
    "adaptive": _penalized(**_penalty("Adaptive")),
    "relaxed": _penalized(relax=0.5),
    "hierarchical": _penalized(**_penalty("Hierarchical", size=20, between=0.5)),
    "broken-ridge": _penalized(**_penalty("BrokenRidge")),
    "firth": Design(dense, 5_000, 20, {"share": 0.0, **_penalty("Firth")}),
    "wide": Design(dense, 200, 5_000, {"share": 0.05}),
    "wide-path": Design(path, 200, 5_000, {"simulate": simulate_dense, "share": 0.05}),
    "genes-path": Design(genes, 78, 100_000, {"name": "vdv", "share": 0.05}),
    "wide-ridge-1": Design(dense, 2_000, 5_000, {"share": 1.0, "l1_ratio": 0.0}),
    "wide-ridge-0.05": Design(dense, 2_000, 5_000, {"share": 0.05, "l1_ratio": 0.0}, is_large=True),
    "autoregressive": Design(dense, 5_000, 500, {"share": 0.05, "correlation": 0.95}),
    "folds": Design(folds, 20_000, 500, {"share": 0.02}),
    "bootstrap": _bootstrap(10_000, 300, 50),
    "bootstrap-small": _bootstrap(1_000, 50, 200),
    "profiles": Design(inferred, 20_000, 300, PROFILES),
    "outcomes": Design(outcomes, 20_000, 300, {"number": 20}),
}

# What `compare` measures: a second of each at most.
SHORT_DESIGNS = {
    "Cox": Design(papers, 20_000, 300),
    "Cox, Efron": Design(papers, 20_000, 300, {"has_ties": True, "ties": "efron"}),
    "Cox, exact algorithm": Design(papers, 20_000, 300, {"algorithm": "exact"}),
    "Cox, 2,000 strata": Design(papers, 20_000, 300, {"rows_a_stratum": 10}),
    "health records, path": Design(
        path, 10_000, 300, {"simulate": simulate_ehr, "share": 0.02, "steps": 20}
    ),
    "dense, path": Design(path, 200, 3_000, {"simulate": simulate_dense, "share": 0.05}),
    "cross-validation": Design(folds, 4_000, 100, {"share": 0.05}),
    "bootstrap": _bootstrap(4_000, 100, 20),
    # hardly any rows: what Python costs in a fit
    "bootstrap, small fits": _bootstrap(1_000, 50, 100),
    "Fine-Gray": _model(draws.draw_fine_gray, 20_000, 200),
    "logistic": _model(draws.draw_logistic, 20_000, 300),
    "matched sets": _model(draws.draw_matched, 20_000, 200),
    "case series": _model(draws.draw_case_series, 50_000, 200),
}

SHARES = (0.1, 0.01)
ROWS_A_COLUMN = 10  # with fewer there is no fit without a penalty


def cohort_tasks(name):
    """Fits of a cohort of SurvSet in its own units, by their penalties."""
    from oracles.survset import cox_scores, read_cohort  # `judge` has found the tests

    cohort = read_cohort(name)
    X, n = cohort.X, len(cohort.X)
    y = surv(cohort.event, cohort.time, start=cohort.start)
    largest = np.abs(cox_scores(cohort, X - X.mean(axis=0), np.zeros(n))[0]).max()
    tasks = {f"{share:g}": _fit(X, y, share * largest) for share in SHARES}
    return tasks | ({"none": _fit(X, y, 0.0)} if n > ROWS_A_COLUMN * X.shape[1] else {})
