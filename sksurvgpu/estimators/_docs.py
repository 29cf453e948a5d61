"""Text that the docstrings of all models share, written once."""

from __future__ import annotations

import re
from textwrap import dedent

__all__ = ["documented"]

_SHARED = {
    "penalty": """
        alpha : float, default=0.01
            Strength of the penalty; 0 fits without one.
        l1_ratio : float, default=1.0
            Share of the lasso, from 0 (ridge) to 1.
        penalty_factor : dict, array-like of shape (n_features,) or None, default=None
            Factor of the penalty of each column; 0 leaves a column unpenalized. A dictionary gives
            those of some columns, by name or position, the others get 1.
        """,
    "solver": """
        algorithm : {"majorized", "exact"}, default="majorized"
            "majorized" sweeps over a quadratic model of the likelihood; "exact" takes an exact
            one-dimensional Newton step for each coordinate, the published cyclic descent, which
            reaches the same optimum more slowly.
        tol : float, default=1e-6
            Bound of the KKT residual, relative to the largest gradient of the null model.
        max_iter : int, default=1000
            Most outer iterations.
        warm_start : bool, default=False
            Start from the previous fit's `coef_` where its length fits.
        backend : {"auto", "cpu", "cuda"}, default="auto"
            Where to compute. "auto" takes the CPU: the CUDA backend has been compiled and simulated
            but not yet measured on a device. "cuda" raises `exceptions.BackendUnavailableError`
            where it cannot run.
        precision : {"float64", "float32"}, default="float64"
            Numbers that a sweep on a CUDA device keeps for every row; everything else, and all that
            decides when a fit ends, is in double precision. "float32" exists there only.
        device : int, default=0
            Number of the CUDA device, as the driver counts them.
        n_jobs : int or None, default=None
            Threads. None takes as many as Numba would, that is all cores, or what the environment
            variable ``NUMBA_NUM_THREADS`` says (joblib sets it in its workers); -1 all cores.
        verbose : int, default=0
            0 is silent; 1 prints a line a penalty, 2 one an iteration.
        """,
    "fitted": """
        alpha_max_ : float
            Least `alpha` at which all penalized coefficients are zero (for ``l1_ratio=0``, where
            there is none, 1,000 times the lasso's); on the scale of `alpha`.
        objective_ : float
            Minimum found of the objective above, a mean.
        log_likelihood_ : float
            Log-likelihood at `coef_`, a sum.
        kkt_ : float
            Largest violation of the optimality conditions, computed afresh after the fit; in units
            of the objective's gradient, hence of `alpha`. That of a column is divided by its
            penalty factor, or if it is unpenalized by twice its standard deviation.
        dual_gap_ : float
            Upper bound of `objective_` minus the optimum; NaN where some column is unpenalized.
        n_iter_ : int
            Outer iterations.
        converged_ : bool
            Whether `kkt_` met `tol`.
        n_features_in_ : int
            Columns of X.
        feature_names_in_ : ndarray of shape (`n_features_in_`,)
            Their names, where X had strings as column names.
        backend_, backend_reason_ : str
            Where the fit ran, and why there.
        """,
    "X": """
        X : scipy sparse matrix or array, ndarray or DataFrame of shape (n_samples, n_features)
            Numbers without missing values. Sparse input stays sparse.
        """,
    "sample_weight": """
        sample_weight : array-like of shape (n_samples,), optional
            Row weights, at least 0.
        """,
    "strata": """
        strata : array-like of shape (n_samples,), optional
            Stratum label of each row, where `y` has no field ``stratum``.
        """,
    "strata_of_fit": """
        strata : array-like of shape (n_samples,), optional
            Stratum of each row; required if and only if the model was fitted with strata.
        """,
    "return_array": """
        return_array : bool, default=False
            Return values at `unique_times_` in place of functions.
        """,
    "curves": """
        Of `sksurv.functions.StepFunction`, shape (n_samples,); from 0 to the last time of the
        stratum. With `return_array` numbers, shape (n_samples, n_unique_times), NaN beyond the
        last time of the row's stratum.
        """,
    "offset": """
        offset : array-like of shape (n_samples,), optional
            Known part of the linear predictor. Predictions do not include it.
        """,
    "offset_of_score": """
        offset : array-like of shape (n_samples,), optional
            Known part of the linear predictor of these rows.
        """,
    "self": """
        self : object
            The fitted estimator.
        """,
    "routing": """
        With scikit-learn's metadata routing, the arguments of ``fit`` and ``score`` beyond X and y
        are requested unless ``set_fit_request`` or ``set_score_request`` say otherwise.
        """,
}
_PLACE = re.compile(r"^( *)<<(\w+)>>$", re.MULTILINE)


def documented(cls):
    """Replace every line ``<<name>>`` in the docstrings of a class by the shared text."""
    for item in (cls, *vars(cls).values()):
        if callable(item) and item.__doc__:
            item.__doc__ = _PLACE.sub(_indented, item.__doc__)
    return cls


def _indented(place):
    margin, name = place.groups()
    lines = dedent(_SHARED[name]).strip().splitlines()
    return "\n".join(margin + line if line else line for line in lines)
