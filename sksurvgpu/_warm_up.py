"""Compile in advance what the models need on usual data: ``python -m sksurvgpu --compile``.

What is compiled depends on types alone: small fits of every kind leave the code of large ones.  On
a device it depends on sizes, too, where rows of a fit are too many for shared memory.
"""

from __future__ import annotations

import time
import warnings
from functools import partial

import numpy as np
import scipy.sparse as sp

from . import datasets
from ._calls import renamed
from ._compile import cache_files
from .backends import choose
from .estimators.bayesian_multinomial import BayesianMultinomialLogistic
from .estimators.bayesian_regression import BayesianLasso
from .estimators.case_series import CaseSeriesCCD, ConditionalPoissonCCD
from .estimators.competing import FineGrayCCD
from .estimators.conditional_logistic import ConditionalLogisticCCD
from .estimators.logistic import LogisticCCD
from .estimators.regression import LinearCCD, PoissonCCD
from .estimators.survival import CoxLassoCCD
from .exceptions import BackendUnavailableError
from .inference.bootstrap import bootstrap
from .inference.posterior import posterior
from .inference.profile import profile_likelihood
from .inference.wald import wald
from .penalties import GroupLasso
from .routes.firth import Firth
from .selection import models as cv
from .selection.path import fit_path

N_ROWS, N_COLUMNS, N_FREE = 240, 8, 2  # N_FREE: of fits without a penalty
CURVES = (
    "predict_survival_function",
    "predict_cumulative_hazard_function",
    "predict_cumulative_incidence_function",
    "predict_proba",
)
SHORT_CHAINS = {"n_chains": 2, "n_tune": 20, "n_draws": 20}
_SAMPLERS = BayesianLasso, BayesianMultinomialLogistic


def _models():
    """Every model: estimator, its cross-validated form (or None), data, arguments of its fit."""
    size = {"density": 0.3, "random_state": 0}
    cox = datasets.simulate_cox(N_ROWS, N_COLUMNS, **size)
    competing = datasets.simulate_fine_gray(N_ROWS, N_COLUMNS, **size)
    binary = datasets.simulate_logistic(N_ROWS, N_COLUMNS, **size)
    counts = datasets.simulate_poisson(N_ROWS, N_COLUMNS, **size)
    series = datasets.simulate_case_series(N_ROWS // 8, N_COLUMNS, **size)
    matched = datasets.simulate_matched(N_ROWS // 8, N_COLUMNS, stratum_size=8, **size)
    months = {"strata": np.arange(N_ROWS) % 12}
    return [
        (CoxLassoCCD, cv.CoxLassoCV, cox, {}),
        (partial(CoxLassoCCD, ties="efron"), partial(cv.CoxLassoCV, ties="efron"), cox, {}),
        (FineGrayCCD, cv.FineGrayCV, competing, {}),
        (LogisticCCD, cv.LogisticCV, binary, {}),
        (PoissonCCD, cv.PoissonCV, counts, {}),
        (LinearCCD, None, counts, {}),
        (CaseSeriesCCD, cv.CaseSeriesCV, series, {}),
        (ConditionalPoissonCCD, None, counts, months),
        (ConditionalLogisticCCD, cv.ConditionalLogisticCV, matched, {}),
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
    """Compile in advance what models need on usual data, and keep it on disk.

    Small fits of every kind are run, and each is printed with its time. All models take minutes on
    the CPU, and longer for a device, which must be there: code is made for its kind. What is on
    disk already is loaded.

    Parameters
    ----------
    estimators : list of class, optional
        Such as `CoxLassoCCD`; by default all of them.
    backend : {"cpu", "cuda"}, default="cpu"
        For what to compile. "cuda" raises `exceptions.BackendUnavailableError` where it cannot run.
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
    known = {type(make()) for make, *_ in _models()} | {*_SAMPLERS}
    models = known if estimators is None else estimators
    if unknown := [model for model in models if model not in known]:
        names = ", ".join(sorted(model.__name__ for model in known))
        raise ValueError(f"`estimators` has {unknown[0]!r}, which is none of the models {names}.")
    compile_all(tasks(models, backend=backend, device=device))


def tasks(models, **where):
    """Names and calls of all that is compiled, on a backend and device."""
    for make, make_cv, data, given in _models():
        if type(make()) not in models:
            continue
        name = type(make()).__name__ + "".join(
            f" {v}" for v in getattr(make, "keywords", {}).values()
        )
        there = partial(make, **where)
        for form, X in _forms(data.X).items():
            yield f"{name}, {form}", partial(_fit, there, X, data.y, given)
        forms = _forms(data.X)
        yield f"{name}, inference", partial(_infer, there, forms["dense"], data.y, given)
        if make_cv is not None:
            run = make_cv(n_alphas=4, cv=3, n_jobs=1, **where)
            yield f"{name}, cross-validation", partial(run.fit, forms["indicators"], data.y)
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
    model.predict(X)
    for curve in CURVES:
        if hasattr(model, curve):
            getattr(model, curve)(X)
    profile_likelihood(model, X, y, [0], **given)
    bootstrap(model, X, y, n_replicates=3, random_state=0, **given)
    model.set_params(bounds=(-1.0, 1.0)).fit(X, y, **given)
    groups = GroupLasso(np.arange(X.shape[1]) // 2, mix=0.5)
    model.set_params(bounds=None, penalty=groups).fit(X, y, **given)


def _weights(y):
    """Weights that are alike within subjects and matched sets."""
    fields = [field for field in ("subject", "stratum") if field in (y.dtype.names or ())]
    labels = y[fields[0]] if fields else np.arange(len(y)) // 40
    return 1.0 + np.unique(labels, return_inverse=True)[1] % 2


def _infer(make, X, y, given):
    X = X[:, :N_FREE]
    model = make(alpha=0.0, n_jobs=1).fit(X, y, **given)
    wald(model, X, y, **given)
    wald(model, X, y, robust=True, **given)
    if not model._has_dispersion:  # else only Bayesian models draw
        posterior(make(n_jobs=1), X, y, **SHORT_CHAINS, **given)
        make(penalty=Firth(), n_jobs=1).fit(X, y, **given)


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
