"""Stability selection: which columns a path selects in most halves of the data.

Halves are weights of 0 and 1, so that all fits are one batch (Meinshausen and Buhlmann 2010; in
complementary pairs: Shah and Samworth 2013).
"""

from contextlib import closing
from functools import partial

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from .._journal import Journal, describe_call
from .._warnings import warn
from ..data import options
from ..data.vectors import check_order
from ..estimators._docs import documented
from ..estimators._preparing import prepare
from ..selection.grid import alpha_grid, check_alphas, check_grid, find_alpha_max, require_strength
from ..selection.progress import Progress
from ._replicates import PipelineRefits, check_seeded, replicates_of
from .stability_result import StabilityResult, check_options

DEFAULTS = {"complementary": "unimodal", "half": "none"}  # what is assumed, by sampling
SAMPLINGS = tuple(DEFAULTS)
ROOM = 2.0**0.5  # slopes of halves vary so much more than those of all rows
EARLY = 0.1  # of the errors that are allowed: penalties that end there end too early
CHUNK_BYTES = 2**28  # of the coefficients that fits return before they are counted


@documented
def stability_selection(
    estimator,
    X,
    y,
    *,
    alphas=None,
    n_alphas=30,
    alpha_min_ratio=0.1,
    n_subsamples=100,
    sampling="complementary",
    threshold=0.75,
    max_errors=1.0,
    assumption=None,
    groups=None,
    random_state=None,
    folder=None,
    **fit_params,
) -> StabilityResult:
    """Select the coefficients that are not zero in most halves of the data.

    Paths are fitted to random halves of the rows (of their subjects, matched sets or `groups`). A
    coefficient is selected if at some penalty it is not zero in at least the proportion `threshold`
    of the halves. Penalties below the one with an expected number of `max_errors` false selections
    do not count. A warning says if the path ends long before.

    Parameters
    ----------
    estimator : estimator of this package, or pipeline
        Model and options; its ``alpha`` is not used, and it is not changed. Transformers are
        fitted in every half, as those of `bootstrap` are.
    <<rows_to_fit>>
    alphas : array-like, optional
        Penalties, in any order; by default a geometric sequence from 1.41 times the least alpha
        that sets all penalized coefficients to zero in a fit to all rows: slopes of halves vary
        so much more.
    n_alphas : int, default=30
        Length of that sequence.
    alpha_min_ratio : float, default=0.1
        Its last value over its first.
    n_subsamples : int, default=100
        Number of halves, at least 4.
    sampling : {"complementary", "half"}, default="complementary"
        Halves in pairs without a common row, or each drawn by itself.
    threshold : float, default=0.75
        Share of the halves, above 0.5 and at most 1.
    max_errors : float, default=1.0
        Expected number of false selections that is allowed.
    assumption : {"none", "unimodal", "r-concave"}, optional
        What the bound of that number assumes of how often false columns are selected; more gives
        more selections. By default "unimodal" for complementary pairs. Halves that are drawn by
        themselves have "none".
    groups : array-like of shape (n_samples,), optional
        Labels of rows that stay together, such as persons or hospitals.
    random_state : int, RandomState instance or None, default=None
        Seed of the halves.
    folder : path, optional
        New folder in which finished fits are kept, 16 at a time; where the same call is made again
        after it was ended, whatever ended it, it goes on with the others, to the same result. It
        needs a seed.
    <<more_to_fit>>

    Returns
    -------
    result : StabilityResult
        Selected coefficients, probabilities and bounds.

    See Also
    --------
    StabilityDisplay : Figure of the result.
    bootstrap : Selection frequencies at one penalty.

    Notes
    -----
    A half is fitted at the same penalty of the mean as all rows. The bounds are of columns whose
    chance to be selected is no larger than that of a column drawn at random, which a column
    without an effect may have that is correlated with one that has an effect.

    Examples
    --------
    >>> from sksurvgpu import CoxLassoCCD, stability_selection
    >>> from sksurvgpu.datasets import simulate_cox
    >>> data = simulate_cox(500, 30, density=0.3, random_state=0)
    >>> options = {"n_alphas": 12, "n_subsamples": 40, "random_state": 0}
    >>> result = stability_selection(CoxLassoCCD(), data.X, data.y, **options)
    >>> bool(result.expected_errors[result.alphas >= result.alpha_min].max() <= 1)
    True
    >>> cautious = result.with_options(threshold=0.9, assumption="none")
    >>> bool(cautious.support.sum() < result.support.sum())
    True
    """
    check_order(X=X, groups=groups)
    fitted, refits, X = PipelineRefits.open(estimator, X, y, "stability_selection", fit_params)
    require_strength(fitted, "stability_selection")
    assumption = DEFAULTS.get(sampling) if assumption is None else assumption
    _check_halves(n_subsamples, sampling)
    check_options(threshold, max_errors, assumption, sampling)
    check_seeded(folder, random_state)
    make_alphas = _read_alphas(alphas, n_alphas, alpha_min_ratio)
    with closing(prepare(fitted, X, y, n_fits=n_subsamples, **fit_params)) as prepared:
        penalties = make_alphas(prepared)
        weight, n_halves = fit_params.get("sample_weight"), int(n_subsamples)
        halves = replicates_of(fitted, prepared, weight, groups, sampling, random_state)
        of = describe_call("stability selection", fitted, **prepared.describe(), steps=refits)
        of |= {"n_subsamples": n_halves, "sampling": sampling, "groups": halves.unit}
        of |= {"alpha": penalties, "random_state": np.array(halves.seed)}  # chosen by no user
        with Journal(folder, of) as journal:
            found = _fit(fitted, prepared, halves, penalties, n_halves, journal, refits)
    result = StabilityResult(
        alphas=penalties,
        probabilities=found["counts"] / found["n_selected"].shape[1],
        n_selected=found["n_selected"].mean(axis=1),
        n_subsamples=found["n_selected"].shape[1],
        sampling=sampling,
        threshold=float(threshold),
        max_errors=float(max_errors),
        assumption=assumption,
        is_penalized=prepared.batch.factor > 0,
        feature_names=prepared.setting.names,
    )
    _warn(result, found["converged"], n_halves, fitted)
    _warn_of_early_end(result, alphas, alpha_min_ratio)
    return result


def _read_alphas(alphas, n_alphas, alpha_min_ratio):
    """Function from what is prepared to penalties, after a check of what was given."""
    if alphas is not None:
        alphas = check_alphas(alphas)
        return lambda _: alphas
    check_grid(n_alphas, alpha_min_ratio)

    def make(prepared):
        alpha_max = ROOM * find_alpha_max(prepared)
        return alpha_grid(alpha_max, n_alphas, alpha_min_ratio, prepared.problem)

    return make


def _fit(model, prepared, halves, alphas, n_subsamples, journal, refits):
    """How often coefficients were selected, and how many by each fit, (n_alphas, n_fits)."""
    totals = halves.totals(n_subsamples)
    if halves.kind == "complementary":  # a pair is of use as a whole
        totals = np.where(np.repeat(totals.reshape(-1, 2).all(axis=1), 2), totals, 0.0)
    numbers, is_penalized = np.flatnonzero(totals), prepared.batch.factor > 0
    if len(numbers) < 4:
        raise ValueError(
            f"{len(numbers)} of {n_subsamples:,} halves can be fitted, the others have no event or "
            "nothing to compare; there are too few events for stability selection."
        )
    has_intercept = prepared.problem.has_intercept  # the only baselines that blends ask for
    options = {"baseline": has_intercept, "verbose": max(int(model.verbose) - 1, 0)}
    prepared, mean = prepared.with_options(**options), getattr(prepared.route, "mean", None)
    rest = 0.0 if mean is None else mean[prepared.problem.source][:, None]
    progress = Progress(model)

    def fit(some):
        if refits is not None:
            each = (refits.prepare(halves, int(number))[1] for number in some)
            fits = [own.with_options(**options).solve(alphas, on_fit=done)[0] for own in each]
            return _count(fits, rest, is_penalized)
        fits = prepared.solve(
            np.repeat(alphas[:, None], len(some), axis=1),
            total=totals[some],
            on_fit=done,
            weight=halves.columns(some),
        )
        return _count(fits, rest, is_penalized)

    n_bytes = 8 * prepared.problem.n_columns * len(alphas)
    most = int(np.clip(CHUNK_BYTES // n_bytes, 1, len(numbers)))
    with progress.batch("stability selection", len(numbers)) as done:
        parts = [
            journal.keep(f"halves-{part.start}", partial(fit, numbers[part]))
            for part in journal.slices(len(numbers), most)
        ]
    progress.end()
    found = {
        name: np.concatenate([part[name] for part in parts], axis=1)
        for name in ("n_selected", "converged")
    }
    return {"counts": sum(part["counts"] for part in parts), **found}


def _count(fits, rest, is_penalized):
    """How often some fits select each column, how many each selects, and which converged."""
    n_alphas = len(fits[0])
    counts = np.zeros((len(is_penalized), n_alphas), np.int32)
    n_selected = np.zeros((n_alphas, len(fits)), np.int64)
    for b, solutions in enumerate(fits):
        coefs = [solution.coef[: len(is_penalized)] for solution in solutions]
        chosen = np.stack(coefs, axis=1) != rest
        counts += chosen
        so_far = np.maximum.accumulate(chosen[is_penalized], axis=1)
        n_selected[:, b] = np.count_nonzero(so_far, axis=0)
    converged = [[solution.converged for solution in solutions] for solutions in fits]
    return {"counts": counts, "n_selected": n_selected, "converged": np.array(converged).T}


def _check_halves(n_subsamples, sampling):
    options.choice(sampling, "sampling", SAMPLINGS)
    rule = "must be a whole number of at least 4, and even for complementary pairs"
    if options.whole(n_subsamples, "n_subsamples", 4, rule) % 2 and sampling == "complementary":
        options.refuse(n_subsamples, "n_subsamples", rule)


def _warn_of_early_end(result, given, alpha_min_ratio):
    expected = float(result.expected_errors[-1])
    if given is None and expected < EARLY * result.max_errors:
        warn(
            f"the penalties end at alpha {result.alphas[-1]:.3g}, where {expected:.2g} of "
            f"max_errors={result.max_errors:g} false selections are to be expected, so that "
            f"weaker effects had no chance; pass a smaller alpha_min_ratio ({alpha_min_ratio:g}).",
            UserWarning,
        )


def _warn(result, converged, n_subsamples, model):
    missing = n_subsamples - converged.shape[1]
    if missing:
        warn(
            f"{missing:,} of {n_subsamples:,} halves, or the other half of their pair, have no "
            "event or nothing to compare, and are left out.",
            UserWarning,
        )
    if np.isinf(result.alpha_min):
        warn(
            f"more than max_errors={result.max_errors:g} false selections are to be expected even "
            f"at the largest penalty ({result.expected_errors[0]:.3g} at alpha "
            f"{result.alphas[0]:.3g}, where {result.n_selected[0]:.3g} are selected), so that "
            "nothing is; pass larger `alphas`, `max_errors` or `threshold`.",
            UserWarning,
        )
    failed = np.count_nonzero(~converged)
    if failed:
        warn(
            f"{failed:,} of the {converged.size:,} fits of the stability selection did not "
            f"converge; raise max_iter={model.max_iter:,} or tol={model.tol:g}, or end with a "
            "larger penalty.",
            ConvergenceWarning,
        )
