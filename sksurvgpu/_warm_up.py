"""Compile in advance what the models need on usual data: ``python -m sksurvgpu --compile``.

What is compiled depends on types alone: small fits of every kind leave the code of large ones.  On
a device it depends on sizes, too, where rows of a fit are too many for shared memory.
"""

import time
import warnings
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import scipy.sparse as sp

from . import cohort, datasets, metrics, nonparametric
from ._calls import renamed
from ._compile import cache_files
from .backends import choose
from .data.design.narrow import keep_types
from .data.outcomes.states import multi_state
from .data.outcomes.survival import surv
from .data.prepare import PrepareColumns
from .data.products import ProductColumns
from .data.splines import SplineColumns
from .data.steps import StepColumns
from .estimators.bayesian_multinomial import BayesianMultinomialLogistic
from .estimators.bayesian_regression import BayesianLasso
from .estimators.case_series import CaseSeriesCCD, ConditionalPoissonCCD
from .estimators.competing import FineGrayCCD
from .estimators.conditional_logistic import ConditionalLogisticCCD
from .estimators.logistic import LogisticCCD
from .estimators.models.base import model_of
from .estimators.multi_state import MultiStateCox
from .estimators.regression import LinearCCD, PoissonCCD
from .estimators.survival import CoxLassoCCD
from .exceptions import BackendUnavailableError
from .inference.bootstrap import bootstrap
from .inference.posterior import posterior
from .inference.profile import profile_likelihood
from .inference.wald import wald
from .partitions.write import write_partitions
from .penalties import MCP, Fused, GroupLasso
from .routes.firth import Firth
from .selection import models as cv
from .selection.path import fit_path
from .selection.screen import screen
from .tables.episodes import episodes
from .tables.from_long import from_long

N_ROWS, N_COLUMNS, N_CODES, N_FREE = 240, 8, 50, 2  # N_FREE: of fits without a penalty
CURVES = (
    "predict_survival_function",
    "predict_cumulative_hazard_function",
    "predict_cumulative_incidence_function",
    "predict_proba",
)
MANY_GROUPS = 80  # subjects, sets or strata, more than a column keeps a number for
SHORT_CHAINS = {"n_chains": 2, "n_tune": 20, "n_draws": 20}
_SAMPLERS = BayesianLasso, BayesianMultinomialLogistic


def _models():
    """Every model: name, estimator, its cross-validated form or None, data, arguments of fit."""
    size = {"density": 0.3, "random_state": 0}
    cox = datasets.simulate_cox(N_ROWS, N_COLUMNS, **size)
    competing = datasets.simulate_fine_gray(N_ROWS, N_COLUMNS, **size)
    binary = datasets.simulate_logistic(N_ROWS, N_COLUMNS, **size)
    counts = datasets.simulate_poisson(N_ROWS, N_COLUMNS, **size)
    series, many_series = (
        datasets.simulate_case_series(n, N_COLUMNS, **size) for n in (N_ROWS // 8, MANY_GROUPS)
    )
    matched, many_matched = (
        datasets.simulate_matched(n, N_COLUMNS, stratum_size=8, **size)
        for n in (N_ROWS // 8, MANY_GROUPS)
    )
    months = {"strata": np.arange(N_ROWS) % 12}
    large = datasets.simulate_cox(5 * N_ROWS, N_COLUMNS, **size)  # few deaths have a bin each
    many_strata = {"strata": np.arange(5 * N_ROWS) % MANY_GROUPS}
    changing = partial(CoxLassoCCD, time_varying={0: [float(np.median(cox.y["time"]))]})
    efron, efron_cv = partial(CoxLassoCCD, ties="efron"), partial(cv.CoxLassoCV, ties="efron")
    return [
        ("", CoxLassoCCD, cv.CoxLassoCV, cox, {}),
        (" efron", efron, efron_cv, cox, {}),
        (" in many strata", CoxLassoCCD, None, large, many_strata),
        (" with cut points", changing, None, cox, {}),
        ("", FineGrayCCD, cv.FineGrayCV, competing, {}),
        ("", LogisticCCD, cv.LogisticCV, binary, {}),
        ("", PoissonCCD, cv.PoissonCV, counts, {}),
        ("", LinearCCD, None, counts, {}),
        ("", CaseSeriesCCD, cv.CaseSeriesCV, series, {}),
        (" of many subjects", CaseSeriesCCD, cv.CaseSeriesCV, many_series, {}),
        ("", ConditionalPoissonCCD, None, counts, months),
        ("", ConditionalLogisticCCD, cv.ConditionalLogisticCV, matched, {}),
        (" of many sets", ConditionalLogisticCCD, cv.ConditionalLogisticCV, many_matched, {}),
    ]


def _forms(X):
    """Columns of ones, dense columns, and both kinds with sparse values among them."""
    ones = sp.csc_array(X)
    dense = ones.toarray() + np.random.default_rng(0).standard_normal(ones.shape)
    valued = sp.csc_array(ones)
    valued.data = 1.0 + np.arange(valued.nnz) % 3
    mixed = dense.copy()
    mixed[:, ::2] = ones[:, ::2].toarray()
    return {"indicators": ones, "dense": dense, "mixed": mixed, "sparse values": valued}


@renamed(models="estimators")
def warm_up(estimators=None, *, backend="cpu", device=0) -> None:
    """Compile the code of models for usual data in advance, and keep it on disk.

    It runs small fits of every kind, and prints each with its time. All models take minutes on the
    CPU, and longer for a device, which must be present. Code that is on disk already is loaded.

    Parameters
    ----------
    estimators : list of class, optional
        Such as `CoxLassoCCD`; by default all of them.
    backend : {"cpu", "cuda"}, default="cpu"
        For what to compile. "cuda" raises `exceptions.BackendUnavailableError` where it cannot run;
        for it, ``algorithm="exact"`` is not compiled.
    device : int, default=0
        Number of the CUDA device.

    Examples
    --------
    >>> from sksurvgpu import CoxLassoCCD, warm_up
    >>> warm_up([CoxLassoCCD], backend="cuda")  # doctest: +SKIP
    """
    if backend not in ("cpu", "cuda"):
        raise ValueError(f'`backend` is {backend!r}, must be "cpu" or "cuda".')
    choose(backend, device=device)
    known = {type(make()) for _, make, *_ in _models()} | {*_SAMPLERS}
    models = known if estimators is None else estimators
    if isinstance(models, type):
        raise TypeError(f"`estimators` is a class, must be a list; pass [{models.__name__}].")
    if unknown := [model for model in models if model not in known]:
        names = ", ".join(sorted(model.__name__ for model in known))
        raise ValueError(f"`estimators` has {unknown[0]!r}, which is none of the models {names}.")
    jobs = list(tasks(models, backend=backend, device=device))
    if estimators is None and backend == "cpu":
        jobs.append(("from tables to a fit", _read_tables))
    compile_all(jobs)


def tasks(models, **where):
    """Names and calls of all that is compiled, on a backend and device."""
    for kind, make, make_cv, data, given in _models():
        if type(make()) not in models:
            continue
        name, there = f"{type(make()).__name__}{kind}", partial(make, **where)
        forms = _forms(data.X)
        for form, X in forms.items():
            yield f"{name}, {form}", partial(_fit, there, X, data.y, given)
        yield f"{name}, inference", partial(_infer, there, forms["dense"], data.y, given)
        if where["backend"] == "cpu":  # devices have it for few models
            exact, X = there(alpha=0.02, algorithm="exact", n_jobs=1), forms["indicators"]
            yield f"{name}, exact algorithm", partial(exact.fit, X, data.y, **given)
        if make_cv is not None:
            run = make_cv(n_alphas=4, cv=3, n_jobs=1, **where)
            by_row = forms["indicators"].tocsr()  # which is read in another way
            yield f"{name}, cross-validation", partial(run.fit, by_row, data.y)
    yield from _tasks_of_samplers(models, where)


def _tasks_of_samplers(models, where):
    X = _forms(datasets.simulate_poisson(N_ROWS, N_COLUMNS, density=0.3, random_state=0).X)["dense"]
    y = X @ np.ones(X.shape[1])
    outcomes = y, np.digitize(y, np.quantile(y, [0.3, 0.6]))
    for model, outcome in zip(_SAMPLERS, outcomes, strict=True):
        if model in models:
            run = model(**SHORT_CHAINS, **where)
            yield model.__name__, partial(run.fit, X, outcome)


def _fit(make, X, y, given):
    """Fits, with weights and without, a path, predictions, intervals and replicates."""
    model = make(alpha=0.02, n_jobs=1)
    model.fit(X, y, sample_weight=_weights(y), **given)
    fit_path(model, X, y, n_alphas=4, **given)
    model.fit(X, y, **given)
    if not getattr(model, "time_varying", None):
        model.predict(X)
        for curve in () if given else CURVES:
            if hasattr(model, curve):
                getattr(model, curve)(X)
        make(penalty=Fused([(0, 1)]), alpha=0.02, n_jobs=1).fit(X, y, **given)
    profile_likelihood(model, X, y, [0], **given)
    bootstrap(model, X, y, n_replicates=3, random_state=0, **given)
    groups = GroupLasso(np.arange(X.shape[1]) // 2, mix=0.5)
    anywhere = [{}, {"bounds": (-1.0, 1.0)}, {"penalty": groups}, {"penalty": MCP()}]
    for options in anywhere:
        make(alpha=0.02, n_jobs=1, **options).fit(X, y, **given)


def _weights(y):
    """Weights that are alike within subjects and matched sets."""
    fields = [field for field in ("subject", "stratum") if field in (y.dtype.names or ())]
    labels = y[fields[0]] if fields else np.arange(len(y)) // 40
    return 1.0 + np.unique(labels, return_inverse=True)[1] % 2


def _infer(make, X, y, given):
    X = X[:, :N_FREE]
    model = make(alpha=0.0, n_jobs=1).fit(X, y, **given)
    wald(model, X, y, tests=True, **given)
    wald(model, X, y, robust=True, **given)
    if not model_of(model).has_dispersion:  # else only Bayesian models draw
        posterior(make(n_jobs=1), X, y, **SHORT_CHAINS, **given)
        make(penalty=Firth(), n_jobs=1).fit(X, y, **given)


def _read_tables():
    """The way from tables of persons, records and outcomes to columns, pairs and rows in files."""
    import pandas as pd

    claims = datasets.simulate_claims(N_ROWS, N_CODES, random_state=0)
    persons, outcomes = claims.persons, claims.outcomes
    names = {"row_id": "id", "covariate_id": "code", "day": "date", "duplicates": "present"}
    X = from_long(persons, claims.records, **names, windows={"year": (-365, -1)}).X
    treated = persons["treatment"].to_numpy()
    screen(X, treated)
    cohort.balance(X, treated)
    PrepareColumns().fit(X)
    scores = np.linspace(0.2, 0.8, N_ROWS)
    given = cohort.Cohort.of(persons.assign(score=scores))
    for ratio in (1, 2):
        cohort.match(given, ratio=ratio)
    cohort.time_at_risk(given, outcomes)
    y = surv(treated == 1, 1.0 + np.arange(N_ROWS))
    screen(X, y)
    nonparametric.kaplan_meier(y)
    metrics.concordance(y, scores)
    _cut_time(pd.DataFrame({"id": np.arange(N_ROWS), "event": treated, "time": 9.0}))
    with TemporaryDirectory() as folder:
        parts = write_partitions(Path(folder) / "rows", (X, y), rows=N_ROWS // 2)
        CoxLassoCCD(alpha=0.02, n_jobs=1).fit(parts.X, parts.y)
    _compute_columns(y)
    states = multi_state(treated, 1 - treated, np.zeros(N_ROWS), y["time"], np.arange(N_ROWS))
    for clock in ("forward", "reset"):
        model = MultiStateCox(CoxLassoCCD(alpha=0.02, n_jobs=1), clock=clock).fit(X, states)
        model.predict_state_probabilities(X[:2], 9.0, state=0)


def _compute_columns(y):
    """Numbers as steps, as splines, multiplied, and in types of their own."""
    numbers = np.random.default_rng(0).integers(0, 99, (N_ROWS, 5))
    of_numbers = StepColumns(), SplineColumns(), SplineColumns(smooth=True), ProductColumns()
    made = [columns.fit_transform(numbers) for columns in of_numbers]
    made.append(ProductColumns().fit_transform(np.where(numbers < 20, numbers, 0)))
    made[-1].dot(np.ones(made[-1].n_columns))
    made += [keep_types(numbers.astype(dtype)) for dtype in (np.uint8, np.float32)]
    for X in made:
        CoxLassoCCD(alpha=0.02, n_jobs=1).fit(X, y)


def _cut_time(rows):
    """Follow-up cut where an exposure begins and ends, in rows and as a case series."""
    some = rows[["id"]].assign(start=3.0, stop=5.0)
    some = some.assign(covariate_id="drug", value=1.0)
    for kind in (int, str):
        episodes(rows.assign(id=rows["id"].map(kind)), some.assign(id=some["id"].map(kind)))
    periods = rows[["id"]].assign(start=0, end=400)
    eras = rows[["id"]].assign(start=200, end=220, era="drug")
    events = rows[["id"]].assign(day=210)
    windows = {"drug": cohort.RiskWindow()}
    cohort.eras_to_intervals(periods, eras, events, windows=windows)
    cohort.case_crossover_windows(periods, eras, events)


def compile_all(jobs) -> None:
    """Run tasks, saying which, and say where compiled code lies."""
    jobs = list(jobs)
    start = time.perf_counter()
    for k, (name, run) in enumerate(jobs, start=1):
        print(f"{k:>3}/{len(jobs)}  {name:<48}", end="", flush=True)
        begin = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what fits this small say of themselves
            try:
                run()
            except BackendUnavailableError as error:  # samplers need a package of their own
                print(f"  left out: {error}", end="")
        print(f"{time.perf_counter() - begin:>8.1f} s", flush=True)
    print(f"\n{time.perf_counter() - start:.0f} s. Compiled code:")
    for folder, sizes in cache_files().items():
        print(f"  {folder}: {len(sizes)} files, {sum(sizes) / 1e6:.1f} MB")
