"""Samplers of the Gaussian model: quadrature, exact covariances, joint tests, calibration.

Chains of one batch are independent, so that their averages give standard errors without a guess
at autocorrelation.  A test with k comparisons allows z where 2 k (1 - Phi(z)) = 1e-4.
"""

import functools
import zlib
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
from grids import thin
from oracles import scale_mixtures
from scipy import sparse
from scipy.stats import chi2, norm

from sksurvgpu.backends.cpu.sampling import Sampling
from sksurvgpu.bayes.priors import DrawSite, HorseshoePrior, Lasso, Ridge, draw_gamma
from sksurvgpu.bayes.reduction import reduce_rows
from sksurvgpu.bayes.regression import SAMPLERS, CollapsedSampler, ThreeStepSampler, TwoBlockSampler
from sksurvgpu.bayes.routes import ColumnsRoute, DiagonalRoute, RowsRoute, choose_route

FAILURE = 1e-4


def largest_z(values, expected, extra=0.0):
    """Largest z-score of the means over chains (B, k), and the one that is allowed."""
    error = np.sqrt(values.var(axis=0, ddof=1) / len(values) + extra)
    z = np.abs(values.mean(axis=0) - expected) / error
    return z.max(), norm.isf(FAILURE / 2 / z.size)


def advance(sampler, n_sweeps, first=1, tuning=False):
    """States after each of some sweeps."""
    for iteration in range(first, first + n_sweeps):
        sampler.sampling.random.iteration = iteration
        sampler.sweep(tuning)
        yield sampler


def seed_of(*names):
    return zlib.crc32(repr(names).encode())


NOISE = (2.0, 0.7)
SMALL = np.random.default_rng(3)
ONE_X, ONE_WEIGHT = SMALL.normal(2.0, 1.0, 9), SMALL.uniform(0.3, 2.0, 9)
ONE_Y = 5.0 + 0.6 * ONE_X + SMALL.normal(size=9)
PRIORS = {
    "lasso": (
        Lasso(shape=1.5, rate=0.8),
        scale_mixtures.log_gamma_global(1.5, 0.8),
        scale_mixtures.log_exponential,
    ),
    "lasso fixed": (Lasso(lam=1.3), -2 * np.log(1.3), scale_mixtures.log_exponential),
    "ridge": (Ridge(shape=1.5, rate=0.8), scale_mixtures.log_gamma_global(1.5, 0.8), 0.0),
    "ridge fixed": (Ridge(lam=1.3), -2 * np.log(1.3), 0.0),
    "horseshoe": (
        HorseshoePrior(global_scale=0.7, local_df=3.0, global_df=2.0),
        scale_mixtures.log_half_t(0.7, 2.0),
        scale_mixtures.log_half_t(1.0, 3.0),
    ),
}
ROUTES = {"columns": ColumnsRoute, "rows": RowsRoute, "diagonal": DiagonalRoute}


@functools.cache
def exact_moments(name):
    return scale_mixtures.moments(ONE_X, ONE_Y, ONE_WEIGHT, NOISE, *PRIORS[name][1:])


def one_column_z(kind, prior, route, n_chains=400, n_tune=40, n_sweeps=50):
    """Largest z-score of means and covariances of coefficient, variance and scales."""
    name, prior = (prior, PRIORS[prior][0]) if isinstance(prior, str) else prior
    rows = reduce_rows(ONE_X[:, None], ONE_Y[None], ONE_WEIGHT)
    sampling = Sampling(seed_of(kind.__name__, name, route), np.arange(n_chains))
    sampler = kind(sampling, rows, prior, NOISE, route=ROUTES[route])
    for _ in advance(sampler, n_tune, tuning=True):
        pass
    mean, covariance = exact_moments(name)
    kept = np.diag(covariance) > 0
    pairs = np.triu_indices(kept.sum())
    total = 0.0
    for state in advance(sampler, n_sweeps, first=n_tune + 1):
        value = np.column_stack(
            [state.coef[:, 0], *map(np.log, (state.sigma2, state.scale, state.local[:, 0]))]
        )
        off = (value - mean)[:, kept]
        total = total + np.hstack([off, off[:, pairs[0]] * off[:, pairs[1]]])
    expected = np.concatenate([np.zeros(kept.sum()), covariance[np.ix_(kept, kept)][pairs]])
    return largest_z(total / n_sweeps, expected)


@pytest.mark.thorough(but=r"-columns")
@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("name", SAMPLERS)
def test_moments_are_those_of_quadrature(name, prior, route):
    if route == "diagonal" and "ridge" not in prior:
        pytest.skip("local scales are not 1")
    z, allowed = one_column_z(SAMPLERS[name], prior, route)
    assert z < allowed


# The published slips, each in a sampler that has nothing else wrong.
class PrecisionForVariance(Lasso):
    """Takes 1/v, what the inverse Gaussian draws, for v."""

    def draw_local(self, *given):
        return 1.0 / super().draw_local(*given)


class SumOfPrecisions(Lasso):
    """Rate of lambda2 from 1/tau2."""

    def draw_global(self, sampling, coef, sigma2, scale, local):
        product = scale[:, None] * local
        rate = self.rate + 0.5 * (1.0 / product).sum(axis=1)
        lambda2 = draw_gamma(sampling, DrawSite.GLOBAL, self.shape + coef.shape[1], rate)
        return 1.0 / lambda2, product * lambda2[:, None]


class WithoutHalf(Lasso):
    """Rate of lambda2 from the sum of tau2, not from half of it."""

    def draw_global(self, sampling, coef, sigma2, scale, local):
        doubled, local = super().draw_global(sampling, coef, sigma2, scale, 2.0 * local)
        return doubled, 0.5 * local


class RowsForDegrees(ThreeStepSampler):
    """Counts the row that the intercept takes."""

    def _draw_noise(self, quadratic, n_squares):
        super()._draw_noise(quadratic, n_squares + 1)


class CollapsedRowsForDegrees(CollapsedSampler):
    """Counts the row that the intercept takes, where coefficients are integrated out."""

    def observe(self, rows):
        super().observe(rows._replace(degrees=rows.degrees + 1))


class WithoutShape(ThreeStepSampler):
    """Leaves the prior's shape out of the variance."""

    def _draw_noise(self, quadratic, n_squares):
        super()._draw_noise(quadratic, n_squares - 2 * self._noise[0])


class WithoutRate(TwoBlockSampler):
    """Leaves the prior's rate out of the variance."""

    def _draw_noise(self, quadratic, n_squares):
        super()._draw_noise(quadratic - 2 * self._noise[1], n_squares)


class WithoutDeterminant(CollapsedSampler):
    """Accepts global scales without the determinant."""

    def _log_density(self, factor, scale):
        return super()._log_density(factor, scale) + 0.5 * factor.log_det


class PrecisionForCovariance(ColumnsRoute):
    """Noise with the precision's factor where the covariance's belongs."""

    def draw(self, factor, scale, local, sigma2):
        xp, root = np, np.sqrt(scale[:, None] * local)
        mean = self._sampling.linalg.solve_upper(factor.factor, factor.solved)
        noise = xp.sqrt(sigma2)[:, None] * self._normal(DrawSite.COEF, self.n_columns)
        return root * (mean + np.matmul(np.tril(factor.factor), noise[:, :, None])[:, :, 0])


def draw_from_prior(prior, noise, n_draws, p, random):
    """Coefficients, variance, global and local scales."""
    sigma2 = noise[1] / random.gamma(noise[0], size=n_draws)
    if isinstance(prior, HorseshoePrior):
        g = (prior.global_scale * random.standard_t(prior.global_df, n_draws)) ** 2
        local = random.standard_t(prior.local_df, (n_draws, p)) ** 2
    else:
        g = prior.rate / random.gamma(prior.shape, size=n_draws)
        local = 2.0 * random.exponential(size=(n_draws, p))
        local = np.ones((n_draws, p)) if isinstance(prior, Ridge) else local
    coef = np.sqrt(sigma2[:, None] * g[:, None] * local) * random.normal(size=(n_draws, p))
    return coef, sigma2, g, local


def describe(X, coef, sigma2, scale, local, y):
    """Eight functions of everything that is random."""
    y = y - y.mean(axis=1, keepdims=True)
    fit = ((coef @ X.T) * y).sum(axis=1) / (1.0 + (y**2).sum(axis=1))
    logs = np.log(sigma2), np.log(scale), np.log(local[:, 0]) + np.log(np.abs(coef[:, 0]))
    return np.column_stack(
        [*logs, logs[0] ** 2, logs[0] * logs[1], logs[1] ** 2, np.log((y**2).sum(axis=1)), fit]
    )


def joint_z(kind, prior, shape, route=None, n_chains=3000, n_sweeps=25):
    """Alternate sweeps and new outcomes, from draws of the prior: nothing may drift."""
    noise, (n, p) = (5.0, 5.0), shape
    random = np.random.default_rng(seed_of(kind.__name__, repr(prior), n, p))
    X = random.normal(size=(n, p))

    def outcomes(coef, sigma2):
        return coef @ X.T + np.sqrt(sigma2)[:, None] * random.normal(size=(len(coef), n))

    exact = draw_from_prior(prior, noise, 100_000, p, random)
    exact = describe(X, *exact, outcomes(*exact[:2]))
    start = draw_from_prior(prior, noise, n_chains, p, random)
    y = outcomes(*start[:2])
    sampling = Sampling(1, np.arange(n_chains))
    sampler = kind(sampling, reduce_rows(X, y), prior, noise, route=route)
    sampler.coef, sampler.sigma2, sampler.scale, sampler.local = start
    total = 0.0
    for state in advance(sampler, n_sweeps):
        y = outcomes(state.coef, state.sigma2)
        sampler.observe(reduce_rows(X, y))
        total = total + describe(X, state.coef, state.sigma2, state.scale, state.local, y)
    error = exact.var(axis=0, ddof=1) / len(exact)
    return largest_z(total / n_sweeps, exact.mean(axis=0), error)


JOINT_PRIORS = {
    "lasso": Lasso(shape=5.0, rate=5.0),
    "ridge": Ridge(shape=5.0, rate=5.0),
    "horseshoe": HorseshoePrior(local_df=10.0, global_df=10.0),
}


@pytest.mark.parametrize(
    ("shape", "name", "prior"), thin(4, [(4, 2), (3, 5)], SAMPLERS, JOINT_PRIORS)
)
def test_sweeps_leave_the_joint_distribution_as_it_is(name, prior, shape):
    z, allowed = joint_z(SAMPLERS[name], JOINT_PRIORS[prior], shape)
    assert z < allowed


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("kind", "prior", "route"),
    [
        (ThreeStepSampler, PrecisionForVariance, None),
        (TwoBlockSampler, SumOfPrecisions, None),
        (ThreeStepSampler, WithoutHalf, None),
        (RowsForDegrees, Lasso, None),
        (CollapsedRowsForDegrees, Lasso, None),
        (WithoutShape, Ridge, None),
        (WithoutRate, Ridge, None),
        (WithoutDeterminant, Lasso, None),
        (CollapsedSampler, Lasso, PrecisionForCovariance),
    ],
)
def test_slips_move_the_joint_distribution(kind, prior, route):
    with np.errstate(all="ignore"):  # some run away
        shape = (3, 5) if kind is WithoutDeterminant else (4, 2)
        z, _ = joint_z(kind, prior(shape=5.0, rate=5.0), shape, route=route, n_sweeps=6)
    assert not z < 10


@pytest.mark.parametrize("prior", ["lasso", "ridge", "horseshoe"])
def test_true_parameters_rank_anywhere_among_draws(prior):
    """500 sets of data from the prior, a chain each: ranks of the truth are uniform."""
    n_sets, n_ranked, n_apart, (n, p) = 500, 15, 12, (6, 3)
    prior = HorseshoePrior(global_scale=0.5) if prior == "horseshoe" else JOINT_PRIORS[prior]
    random = np.random.default_rng(seed_of(repr(prior)))
    X = random.normal(size=(n, p))
    truth = draw_from_prior(prior, NOISE, n_sets, p, random)
    noise = np.sqrt(truth[1])[:, None] * random.normal(size=(n_sets, n))
    rows = reduce_rows(X, 4.0 + truth[0] @ X.T + noise)
    sampler = CollapsedSampler(Sampling(2, np.arange(n_sets)), rows, prior, NOISE)
    rank = np.zeros((n_sets, 4), int)
    true = np.column_stack([truth[0][:, 0], truth[1], truth[2], truth[3][:, 1]])
    for _ in advance(sampler, 100, tuning=True):
        pass
    for index, state in enumerate(advance(sampler, n_ranked * n_apart, first=101)):
        if index % n_apart == 0:
            value = [state.coef[:, 0], state.sigma2, state.scale, state.local[:, 1]]
            rank += np.column_stack(value) < true
    expected = n_sets / (n_ranked + 1)
    for k in range(3 if isinstance(prior, Ridge) else 4):
        count = np.bincount(rank[:, k], minlength=n_ranked + 1)
        statistic = ((count - expected) ** 2 / expected).sum()
        assert statistic < chi2.isf(FAILURE / 4, n_ranked)


def exact_posterior(X, y, d):
    """A^-1, A^-1 X'y and y'y - y'X A^-1 X'y of A = X'X + D^-1, by Gauss and Jordan on fractions."""
    X, y, d = (np.vectorize(Fraction, otypes=[object])(value) for value in (X, y, d))
    p = len(d)
    rows = np.hstack([X.T @ X + np.diag(1 / d), np.diag([Fraction(1)] * p)])
    for i in range(p):
        rows[i] = rows[i] / rows[i, i]
        for j in set(range(p)) - {i}:
            rows[j] = rows[j] - rows[j, i] * rows[i]
    inverse, gradient = rows[:, p:], X.T @ y
    mean = inverse @ gradient
    return inverse.astype(float), mean.astype(float), float(y @ y - gradient @ mean)


def noise_by_units(sizes):
    """A sampling whose chain 0 has no noise, and whose others have one unit of it each."""
    units = np.vstack([np.zeros(sum(sizes.values())), np.eye(sum(sizes.values()))])
    ends = dict(zip(sizes, np.cumsum(list(sizes.values())), strict=True))
    sampling = Sampling(0, np.arange(len(units)))
    sampling.random = SimpleNamespace(
        normal=lambda site, size: units[:, ends[site] - size : ends[site]]
    )
    return sampling


def coarse(values):
    """Numbers of few bits: fractions stay short."""
    return np.round(values * 256) / 256


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("storage", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("shape", [(4, 7), (8, 5)], ids=str)
@pytest.mark.parametrize("route", ROUTES.values(), ids=ROUTES)
def test_draws_are_exact_in_their_noise(route, shape, storage, fit_intercept):
    """beta = m + R z: m and R R' are recovered and compared with exact fractions."""
    (n, p), sigma2, scale = shape, 1.7, 2.0
    if storage is sparse.csr_array and n < p and route is not RowsRoute:
        pytest.skip("sparse rows stay sparse")
    random = np.random.default_rng(n)
    X, y = coarse(random.normal(size=(n, p))), coarse(random.normal(size=n))
    local = np.ones(p) if route is DiagonalRoute else np.logspace(-5, 4, p)
    rows = reduce_rows(storage(X), y[None], fit_intercept=fit_intercept)
    if fit_intercept:  # exact: rows are a power of two in number
        X, y = X - X.mean(axis=0), y - y.mean()
    sizes = {DrawSite.COEF: p} | (
        {DrawSite.ERROR: len(rows.target[0])} if route is RowsRoute else {}
    )
    sampling = noise_by_units(sizes)
    scales, local = np.full(len(sampling.chains), scale), np.tile(local, (len(sampling.chains), 1))
    way = route(sampling, rows)
    way.prepare(local)
    factor = way.factor(scales)
    coef = way.draw(factor, scales, local, np.full(len(scales), sigma2))

    inverse, mean, quadratic = exact_posterior(X, y, scale * local[0])
    spread, root = np.sqrt(sigma2 * inverse.diagonal()), coef[1:] - coef[0]
    error = (root.T @ root - sigma2 * inverse) / np.outer(spread, spread)
    assert np.abs(error).max() < 1e-9
    assert np.abs((coef[0] - mean) / spread).max() < 1e-9
    assert factor.quadratic == pytest.approx(np.full(len(scales), quadratic), rel=1e-9)
    log_det = np.linalg.slogdet(np.eye(n) + X * (scale * local[0]) @ X.T)[1]
    assert factor.log_det == pytest.approx(np.full(len(scales), log_det), rel=1e-9)
    square = ((y - coef @ X.T) ** 2).sum(axis=1)
    assert way.residual_square(coef) == pytest.approx(square, rel=1e-9)


def make_rows(n, p, random, density=0.4):
    """Columns that are partly zero, one without zeros far from them, one constant."""
    X = random.normal(size=(n, p)) * (random.uniform(size=(n, p)) < density)
    X[:, 0] = 2000.0 + random.normal(size=n)
    X[:, -1] = 3.0
    return X, X[:, 1] - X[:, 2] + random.normal(size=n), random.uniform(0.2, 3.0, n)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("storage", [np.asarray, sparse.csc_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("shape", [(40, 6), (5, 9)], ids=str)
def test_reduced_rows_have_the_same_sums_of_squares(shape, storage, fit_intercept, monkeypatch):
    monkeypatch.setattr("sksurvgpu.bayes.reduction.BLOCK_ENTRIES", 60)  # several blocks
    random = np.random.default_rng(5)
    X, y, weight = make_rows(*shape, random)
    weight[1] = 0.0
    outcomes = np.stack([y, 2 * y + 1e6])
    rows = reduce_rows(storage(X), outcomes, weight, fit_intercept=fit_intercept)
    assert rows.degrees == shape[0] - 1 - fit_intercept
    matrix = rows.matrix.toarray() if sparse.issparse(rows.matrix) else rows.matrix
    if rows.direction is not None:
        matrix = matrix - np.outer(rows.direction, rows.direction @ matrix)
    np.testing.assert_allclose(rows.column_square, (matrix**2).sum(axis=0), atol=1e-6)
    for k, outcome in enumerate(outcomes):
        for coef in random.normal(size=(3, shape[1])):
            left = outcome - X @ coef
            best = np.average(left, weights=weight) if fit_intercept else 0.0
            square = rows.residual[k] + ((rows.target[k] - matrix @ coef) ** 2).sum()
            assert square == pytest.approx(weight @ (left - best) ** 2, rel=1e-9)
            if fit_intercept:
                mean = rows.outcome_mean[k] - rows.column_mean @ coef
                assert mean == pytest.approx(best, rel=1e-9)


def nearly_the_same(eps, random):
    """Columns that differ by eps, and only by that matter; mostly zero."""
    X = np.zeros((400, 8))
    kept = random.uniform(size=400) < 0.15
    X[:, 0] = kept * random.normal(size=400)
    X[:, 1] = X[:, 0] + eps * kept * random.normal(size=400)
    return X, np.array([-3.0 / eps, 3.0 / eps, *np.zeros(6)])


def seconds_of_an_epoch(sd, random):
    """Times where there are some, and whether there are."""
    X, known = np.zeros((500, 12)), random.uniform(size=500) < 0.7
    X[:, 0] = known * (1.6e9 + sd * random.normal(size=500))
    X[:, 1] = ~known
    return X, np.array([1.0 / sd, 1.6e9 / sd, *np.zeros(10)])


@pytest.mark.parametrize("storage", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize(
    ("make", "size"),
    [(nearly_the_same, 1e-7), (nearly_the_same, 3e-8), (seconds_of_an_epoch, 30.0)],
)
def test_what_only_small_differences_tell_is_kept(make, size, storage):
    random = np.random.default_rng(2)
    X, coef = make(size, random)
    noise = 0.1 * random.normal(size=len(X))
    rows = reduce_rows(storage(X), (X @ coef + noise)[None])
    square = rows.residual + ((rows.target - rows.matrix @ coef) ** 2).sum()
    assert square == pytest.approx(((noise - noise.mean()) ** 2).sum(), rel=1e-6)
    assert rows.residual > 0.9 * square


@pytest.mark.parametrize("storage", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
def test_weak_priors_of_more_columns_than_rows(storage):
    """Centring leaves 19 directions, whatever the scale; of fewer, rounding is told."""
    random = np.random.default_rng(0)
    X, y = random.normal(size=(20, 30)), random.normal(size=20)
    rows = reduce_rows(storage(X), y[None])
    way = RowsRoute(Sampling(0, np.arange(1)), rows)
    way.prepare(np.ones((1, 30)))
    if storage is np.asarray:
        value = np.linalg.svd(X - X.mean(axis=0), compute_uv=False)[:19]
        for scale in (1e8, 1e14, 1e18):
            log_det = np.log1p(scale * value**2).sum()
            assert way.factor(np.array([scale])).log_det == pytest.approx(log_det, rel=1e-9)
    way.prepare(np.array([[1.0] * 3 + [0.0] * 27]))  # 3 columns of 20 rows
    with pytest.raises(FloatingPointError, match=r"pass a larger `lam`.* a larger `noise_rate`"):
        way.factor(np.array([1e25]))


ANY_PRIOR = {"lasso": Lasso(), "ridge": Ridge(), "horseshoe": HorseshoePrior()}


def run_chains(X, y, prior, chains=(0,), name="collapsed", n_sweeps=20, route=None, **given):
    rows = reduce_rows(X, y[None], **given)
    sampling = Sampling(7, np.array(chains))
    sampler = SAMPLERS[name](sampling, rows, ANY_PRIOR[prior], NOISE, route=route)
    *_, last = advance(sampler, n_sweeps, tuning=True)
    return last.state()


def check_same(one, other):
    assert one.keys() == other.keys()
    for name, value in one.items():
        np.testing.assert_allclose(value, other[name], rtol=1e-6, atol=1e-9, err_msg=name)


@pytest.mark.parametrize("shape", [(60, 20), (20, 60)], ids=str)
@pytest.mark.parametrize("prior", ANY_PRIOR)
def test_sparse_rows_are_dense_rows(prior, shape):
    X, y, weight = make_rows(*shape, np.random.default_rng(6))
    is_wide = shape[0] < shape[1]  # with an intercept, sparse rows are one more: other noise
    route = RowsRoute if is_wide else None
    given = {"weight": weight, "route": route, "fit_intercept": not is_wide}
    one = run_chains(X, y, prior, **given)
    check_same(one, run_chains(sparse.csr_array(X), y, prior, **given))


@pytest.mark.parametrize("name", SAMPLERS)
@pytest.mark.parametrize("prior", ANY_PRIOR)
def test_a_batch_of_chains_is_as_many_runs(prior, name):
    X, y, _ = make_rows(30, 20, np.random.default_rng(8))
    together = run_chains(X, y, prior, (4, 0, 9), name)
    for row, number in enumerate((4, 0, 9)):
        alone = run_chains(X, y, prior, (number,), name)
        check_same(alone, {key: value[row : row + 1] for key, value in together.items()})
        again = run_chains(X, y, prior, (number,), name)
        assert all((alone[key] == again[key]).all() for key in alone)


def test_rows_of_weight_zero_are_absent_and_weight_two_is_not_two_rows():
    X, y, weight = make_rows(30, 5, np.random.default_rng(9))
    weight[:4] = 0.0
    check_same(
        run_chains(X, y, "lasso", weight=weight),
        run_chains(X[4:], y[4:], "lasso", weight=weight[4:]),
    )
    assert reduce_rows(X, y[None], np.full(30, 2.0)).degrees == 29  # a precision, not a count


def test_steps_are_tuned_then_frozen():
    X, y, _ = make_rows(30, 5, np.random.default_rng(10))
    sampler = CollapsedSampler(Sampling(3, np.arange(50)), reduce_rows(X, y[None]), Lasso(), NOISE)
    for _ in advance(sampler, 150, tuning=True):
        pass
    step = sampler._log_step.copy()
    probability = [
        state._doubtful["probability of a proposed scale"].mean()
        for state in advance(sampler, 100, first=151)
    ]
    assert (sampler._log_step == step).all()
    assert np.mean(probability) == pytest.approx(0.44, abs=0.03)


def test_what_is_recorded():
    X, y, _ = make_rows(30, 5, np.random.default_rng(11))

    def names(prior, *, fit_intercept=True, **options):
        rows = reduce_rows(X, y[None], fit_intercept=fit_intercept)
        return CollapsedSampler(Sampling(0, [0]), rows, prior, NOISE, **options).shapes

    one = {"coef": (5,), "intercept": (), "sigma2": ()}
    assert names(Lasso()) == one | {"lambda2": ()}
    assert names(Lasso(lam=2.0)) == one
    assert names(HorseshoePrior()) == one | {"global_scale2": ()}
    assert names(Ridge(), record_local=True) == one | {"lambda2": ()}  # they never change
    assert names(Lasso(), record_local=True) == one | {"lambda2": (), "local_scale2": (5,)}
    assert "intercept" not in names(Lasso(), fit_intercept=False)


def test_draws_that_overflow_are_refused():
    X, y, _ = make_rows(30, 5, np.random.default_rng(12))
    rows = reduce_rows(X, y[None])
    sampler = TwoBlockSampler(Sampling(0, [0]), rows, Lasso(), NOISE)
    sampler.local[0, 2] = np.nan
    with pytest.raises(FloatingPointError, match="not positive definite"):
        sampler.sweep(False)
    sampler = CollapsedSampler(Sampling(0, [0]), rows, Ridge(), (1.0, np.nan))
    with pytest.raises(FloatingPointError, match="noise variance is not finite in iteration 0"):
        sampler.sweep(False)


def test_the_route_is_the_cheapest():
    def route(n, p, prior=ANY_PRIOR["lasso"], storage=np.asarray):
        rows = reduce_rows(storage(np.eye(n, p)), np.ones((1, n)))
        return choose_route(rows, prior, 2)

    assert route(50, 40) is ColumnsRoute
    assert route(40, 50) is ColumnsRoute
    assert route(40, 100) is RowsRoute
    assert route(40, 50, storage=sparse.csr_array) is RowsRoute
    assert route(50, 40, storage=sparse.csr_array) is ColumnsRoute
    assert route(40, 50, Ridge()) is DiagonalRoute
    rows = reduce_rows(np.eye(9, 3), np.ones((1, 9)))
    for prior, n_factors in ((Lasso(), 3), (Lasso(lam=1.0), 1)):  # two proposals where g is drawn
        assert CollapsedSampler(Sampling(0, [0]), rows, prior, NOISE).n_factors == n_factors
