"""Posterior distributions of the models' coefficients, and of the scales of their priors."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from .._journal import describe_call
from .._warnings import warn
from ..backends.cpu.sampling import Sampling
from ..bayes.chains import Schedule, run_chains
from ..bayes.draws import Storage
from ..bayes.hmc import HmcSampler
from ..bayes.posterior import Posterior
from ..bayes.shrinkage import ShrinkageSampler
from ..data import options
from ..data.by_column import check_by_column
from ..data.intervals import check_level
from ..data.partitioned import require_in_memory
from ..estimators._bayes import SEEDS
from ..estimators._docs import documented
from ..estimators._preparing import prepare
from ..estimators.models.base import model_of
from ..selection.grid import open_copy
from ._mode import Density, NormalPrior, find_mode
from ._rows import require_absent
from ._shrinkage import find_reference, read_scales


@documented
def posterior(
    estimator,
    X,
    y,
    *,
    prior="normal",
    prior_mean=0.0,
    prior_precision=None,
    scale=None,
    scale_groups=None,
    scale_median=None,
    slab=None,
    intercept_precision=0.0,
    level=0.95,
    n_chains=4,
    n_tune=500,
    n_draws=1000,
    thin=1,
    keep="float64",
    folder=None,
    random_state=0,
    verbose=0,
    **fit_params,
) -> Posterior:
    """Draw from the posterior of a model's coefficients, by Hamiltonian Monte Carlo.

    The coefficients have independent normal, Laplace or horseshoe priors, whose scales are known,
    or drawn with the coefficients. All models of this package can be sampled except `LinearCCD`;
    take `BayesianLasso`, which also draws the variance of the errors.

    Parameters
    ----------
    estimator : estimator of this package, or pipeline
        Model and options; it is not changed. Its own penalty, `alpha`, `l1_ratio` and
        `penalty_factor`, is not used. Transformers are fitted to `X` unless they are.
    <<rows_to_fit>>
    prior : {"normal", "laplace", "horseshoe"}, default="normal"
        Distribution of a coefficient about its mean: normal; double exponential, as the lasso
        has it; or normal with a half-Cauchy standard deviation, which leaves large coefficients
        nearly alone and draws small ones to the mean (Carvalho, Polson and Scott 2010).
    prior_mean : float, array-like of shape (n_features,) or dict, default=0.0
        Means of the priors. A dictionary gives those of some columns, by name or position, the
        others get 0. A column whose coefficient changes over time has the same prior for each of
        its coefficients.
    prior_precision : float, array-like of shape (n_features,) or dict, optional
        Precisions of normal priors whose `scale` is not given, one over the variance, by default
        1; with a dictionary the other columns get 1. A precision of 0 is a flat prior, which needs
        data that determine the coefficient. A ridge fit with ``alpha`` has its optimum where the
        posterior with precision ``alpha`` times the sum of the sample weights has its mode.
    scale : float or "learn", optional
        Width of the priors, in the units of the coefficients: the standard deviation of normal
        and Laplace priors, and of a horseshoe the factor of the half-Cauchy variables. "learn"
        draws it with the coefficients. By default, `prior_precision` says how wide normal priors
        are, and the scale of the others is drawn.
    scale_groups : array-like of shape (n_features,) or dict, optional
        Label of each column, or a dictionary of some columns; the others are labelled "others".
        The columns of a label share a scale of their own. Columns with the label None have flat
        priors. By default, all columns share one scale. Only where scales are drawn.
    scale_median : float, optional
        Median of the prior of each scale that is drawn, by default 1; the prior is half-t with 3
        degrees of freedom. Where columns are divided by a number, multiply it by that number.
    slab : float, optional
        Standard deviation of a normal density by which each prior is multiplied (the regularized
        horseshoe). It keeps coefficients finite that the data hardly bound from one side, and has
        no effect on those that are much smaller. By default there is none.
    intercept_precision : float, default=0.0
        Precision of the intercept's prior, whose mean is 0, for models that have one.
    level : float, default=0.95
        Level of the intervals.
    <<n_chains>>
    n_tune : int, default=500
        First draws of each chain, which tune the sampler and are thrown away.
    <<n_draws, thin>>
    keep : {"float64", "float32", "summary"}, default="float64"
        How draws are kept. "summary" keeps running means and covariances of long parameters in
        place of their draws.
    folder : path, optional
        New folder for the draws (``~`` is the user's home), where memory is too small for them, or
        where a call may be ended: the same call made again goes on where it was, to the same draws.
    <<random_state>>
    verbose : int, default=0
        0 is silent; 1 shows one line for all chains, 2 lines of each.
    <<more_to_fit>>

    Returns
    -------
    result : Posterior
        Draws of ``coef``, and of ``intercept`` where there is one, with their diagnostics. Where
        scales are drawn, also of ``scale``, by group, and for normal and Laplace priors of
        ``alpha``, the penalty of a ridge or lasso fit that is the same prior.

    Warns
    -----
    ConvergenceWarning
        Where chains disagree, or have made too few effective draws; it names the worst parameter.

    See Also
    --------
    wald : Normal approximation without a prior.
    bootstrap : Intervals that do not rely on the model.

    Notes
    -----
    What is taken for the likelihood:

    - Cox's partial likelihood, which is the limit of the posterior under a vague gamma process
      prior of the baseline hazard (Kalbfleisch 1978).
    - The conditional likelihoods of case series and matched or grouped data, in which baselines do
      not occur.
    - Fine and Gray's weighted partial likelihood at the estimated distribution of the censoring.
      It is no density of the data: rows count beyond competing events by weights, and nothing says
      that the censoring was estimated. Intervals are as wide as those of `wald` without
      ``robust=True``; compare them with the robust ones, or with `bootstrap`.

    Sample weights are powers of the rows' likelihoods: a weight of 2 is the row given twice.

    In terms of penalties, with W the sum of the sample weights: a normal prior of the scale s is a
    ridge (``l1_ratio=0``) with ``alpha = 1 / (W s**2)``, and a Laplace prior a lasso
    (``l1_ratio=1``) with ``alpha = sqrt(2) / (W s)``; in either case the variance of the prior is
    s**2. The modes of these posteriors, at a known scale, are where such fits end.

    Where scales are drawn, or priors are not normal, each coefficient is normal given a local scale
    that is drawn, too. Scales make three kinds of steps: with coefficients integrated out, about;
    with coefficients held in units of their scales; and given coefficients. Each of up to three
    groups takes two gradients more in a draw, and each draw factors two to four matrices as large
    as the coefficients are many. With a slab c, the joint density of coefficients and scales is
    that without one times the density of N(m, c**2) at each coefficient with the prior mean m.

    Chains start around the mode, which the model's solver finds; minus the Hessian there makes all
    directions alike for them. A gradient of all rows is computed three times a draw, more often
    for more than 81 coefficients. Time and memory also grow with the square of their number. On
    the CPU each of ``n_jobs`` threads runs chains; on a device all chains are one batch.

    Examples
    --------
    >>> from sksurvgpu import CoxLassoCCD, posterior
    >>> from sksurvgpu.datasets import simulate_cox
    >>> data = simulate_cox(500, 3, density=0.3, random_state=0)
    >>> result = posterior(CoxLassoCCD(), data.X, data.y, prior_precision=0.25, n_draws=500)
    >>> result.draws["coef"].shape
    (4, 500, 3)
    >>> result.summary().columns.tolist()
    ['mean', 'sd', 'lower', 'upper', 'hazard_ratio', 'hazard_ratio_lower',
     'hazard_ratio_upper', 'r_hat', 'ess_bulk', 'ess_tail']

    The scale of a Laplace prior, and the penalty that it stands for:

    >>> result = posterior(CoxLassoCCD(), data.X, data.y, prior="laplace", scale="learn")
    >>> result.labels
    ['coef[x0]', 'coef[x1]', 'coef[x2]', 'scale', 'alpha']
    >>> result.quantile("alpha", [0.025, 0.975]).shape
    (2,)
    """
    model, _, X = open_copy(estimator, X, y, "posterior", fit_params)
    require_in_memory(X)
    _require_density(model)
    level = check_level(level)
    seed = int(check_random_state(random_state).randint(SEEDS, dtype=np.uint64))
    schedule, storage = Schedule(n_chains, n_tune, n_draws, thin, seed), Storage(keep, folder)
    prepared = prepare(model, X, y, **fit_params)
    scales, precision = read_scales(
        prepared.problem.given, prior, prior_precision, scale, scale_groups, scale_median, slab
    )
    problem, normal = _with_prior(prepared, prior_mean, precision, intercept_precision)
    of = describe_call("posterior", model, **prepared.describe(), **_describe_prior(normal, scales))
    make_sampler = _sampler_maker(model, prepared, problem, normal, scales, seed)
    sampled = run_chains(
        make_sampler,
        schedule,
        storage=replace(storage, of=of),
        n_threads=prepared.fits.n_threads,
        batched=prepared.backend.batched,
        verbose=verbose,
    )
    return _describe(model, prepared.setting, sampled, scales, level)


def _require_density(model):
    require_absent(model, "posterior", ("bounds", "penalty", "relax", "prior_mean", "standardize"))
    if model_of(model).has_dispersion:
        raise TypeError(
            f"`estimator` is of type {type(model).__name__}, whose errors have a variance that is "
            'not known; take BayesianLasso(prior="ridge"), which draws it with the coefficients.'
        )


def _with_prior(prepared, prior_mean, prior_precision, intercept_precision):
    """The problem whose coefficients are drawn, and what of their prior is normal."""
    problem = prepared.problem
    mean, precision = (
        _per_coefficient(values, name, problem, default=default, minimum=minimum)
        for values, name, default, minimum in (
            (prior_mean, "prior_mean", 0.0, None),
            (prior_precision, "prior_precision", 1.0, 0),
        )
    )
    of_intercept = _number(intercept_precision, "intercept_precision", 0)
    if problem.has_intercept:
        problem = problem.uncentred().with_own_intercept()
        mean, precision = np.append(mean, 0.0), np.append(precision, of_intercept)
    elif of_intercept:
        raise ValueError(
            f"`intercept_precision` is {of_intercept:g}, but the model has no intercept; leave it "
            "out."
        )
    return problem, NormalPrior(mean, precision)


def _describe_prior(normal, scales):
    """Parameters of the prior by the names that users know, on which draws depend."""
    given = {"prior_mean": normal.mean, "prior_precision": normal.precision}
    return given if scales is None else given | scales.describe()


def _per_coefficient(values, name, problem, **bounds):
    """A number for every coefficient, from one for all columns, or one for each."""
    design = problem.given
    if np.ndim(values) == 0 and not isinstance(values, Mapping):
        values = np.full(design.n_columns, _number(values, name, bounds["minimum"]))
    return check_by_column(values, name, design.n_columns, design.names, **bounds)[problem.source]


def _number(value, name, minimum):
    least, bound = -np.inf, ""
    if minimum is not None:
        least, bound = minimum, f" of at least {minimum:g}"
    return options.number(value, name, f"must be a finite number{bound}", least=least)


def _sampler_maker(model, prepared, problem, normal, scales, seed):
    """Function from the numbers of chains to their sampler."""
    if scales is not None:
        return _shrinkage_maker(model, prepared, problem, normal, scales, seed)
    mode, shapes = find_mode(model, prepared, problem, normal), _shapes(prepared)

    def make_sampler(chains):
        density = Density(_open_evaluate(prepared, problem, chains), normal)
        return HmcSampler(Sampling(seed, chains), density, mode.coef, mode.factor, shapes=shapes)

    return make_sampler


def _shrinkage_maker(model, prepared, problem, normal, scales, seed):
    """Maker of samplers of chains where priors are mixtures, or their scales are drawn."""
    prior = scales.prior_of(prepared.problem.source, normal.mean, normal.precision)
    reference = find_reference(model, prepared, problem, scales, prior)
    given = {"shapes": _shapes(prepared), "report": scales.reporter(prepared.total_weight)}

    def make_sampler(chains):
        evaluate = _open_evaluate(prepared, problem, chains)
        return ShrinkageSampler(Sampling(seed, chains), evaluate, prior, reference, **given)

    return make_sampler


def _shapes(prepared):
    shapes = {"coef": (prepared.problem.n_columns,)}
    return shapes | ({"intercept": ()} if prepared.problem.has_intercept else {})


def _open_evaluate(prepared, problem, chains):
    batch = replace(prepared.batch, lambdas=np.empty((0, len(chains))))
    return prepared.backend.open_evaluator(problem, batch).evaluate


def _describe(model, setting, sampled, scales, level):
    """Result of the chains; warns of what is doubtful."""
    names = {"coef": setting.names.tolist()} | ({} if scales is None else scales.names())
    sampled = replace(sampled, samplers=[])  # which hold rows
    result = Posterior(sampled, names, level=level, effect=model_of(model).effect)
    for doubt in result.doubts():
        warn(f"posterior: {doubt}", ConvergenceWarning)
    return result
