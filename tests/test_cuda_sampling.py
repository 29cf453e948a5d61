"""Samplers' arithmetic on a simulated device: random numbers and linear algebra as on the CPU.

Kernels run as they are; what CuPy does is done by a stand-in on NumPy (`gpu.cupy`).
"""

import numpy as np
import pytest
import scipy.sparse as sp

pytest.importorskip("numba_cuda")
pytest.importorskip("greenlet")

from gpu.cupy import simulate_sampling
from gpu.device import SimulatedDevice

from sksurvgpu.backends import choose_sampling
from sksurvgpu.backends.cuda import linalg as products
from sksurvgpu.bayes.reduction import reduce_rows
from sksurvgpu.bayes.routes import RowsRoute
from sksurvgpu.exceptions import BackendUnavailableError

SEED, CHAINS = 5, np.array([0, 3])


@pytest.fixture
def modules(monkeypatch):
    return simulate_sampling(monkeypatch, SimulatedDevice(memory=2**24))


@pytest.fixture
def samplings(modules):
    """Of the CPU and of the device, in the same iteration."""
    made = [choose_sampling(backend)(SEED, CHAINS) for backend in ("cpu", "cuda")]
    for sampling in made:
        sampling.random.iteration = 7
    return made


def draws_of(sampling):
    rng, put = np.random.default_rng(0), sampling.put
    shape, mean = rng.gamma(1.0, size=(2, 9)) + 0.01, np.exp(5.0 * rng.normal(size=(2, 9)))
    tilts = 3.0 * rng.normal(size=(2, 9))
    tilts[0, :5] = 0.0, 8.0, -30.0, 100.0, 1e6
    random, one = sampling.random, put(np.ones((1, 1)))
    count, ones = put(np.array([3, 1, 2, 1, 1, 4, 2, 1, 1])), put(np.ones(9, np.int64))
    drawn = {
        "normal": random.normal(1, 35),
        "uniform": random.uniform(2, 35),
        "gamma": random.gamma(3, put(shape)),
        "logarithms of gamma": random.log_gamma(9, put(0.01 * shape)),
        "inverse Gaussian": random.inverse_gaussian(4, put(mean), put(shape)),
        "inverse Gaussian, one shape": random.inverse_gaussian(5, put(mean), one),
        "Polya-Gamma": random.polya_gamma(6, ones, put(tilts)),
        "sums of Polya-Gamma": random.polya_gamma(7, count, put(tilts)),
        "none": random.normal(8, 0),
    }
    return {name: sampling.to_host(array) for name, array in drawn.items()}


def test_draws_are_those_of_the_cpu_bit_for_bit(samplings):
    expected, found = map(draws_of, samplings)
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array, err_msg=name)


def test_a_chain_draws_the_same_beside_any_others(samplings):
    alone = choose_sampling("cuda")(SEED, CHAINS[1:])
    alone.random.iteration = 7
    for draw in ("normal", "uniform"):
        both, one = (getattr(s.random, draw)(1, 20) for s in (samplings[1], alone))
        np.testing.assert_array_equal(alone.to_host(both)[1:], alone.to_host(one))


def spread_matrix(rng, n, p):
    return rng.normal(size=(n, p)) * np.exp(2.0 * rng.normal(size=p))


@pytest.mark.parametrize(("n_matrices", "order"), [(1, 4), (3, 5), (2, 400)])
def test_factors_and_solutions(n_matrices, order, samplings):
    """The last ones are few and large, and factored one by one."""
    rng = np.random.default_rng(order)
    roots = rng.normal(size=(n_matrices, order, order))
    stack = roots @ np.swapaxes(roots, 1, 2) + np.eye(order)
    right, found = rng.normal(size=(n_matrices, order)), []
    for sampling in samplings:
        linalg, lower = sampling.linalg, np.tril(stack)  # what is above is not read
        factor = linalg.cholesky(sampling.put(lower.copy()))
        solved = [f(factor, sampling.put(right)) for f in (linalg.solve_lower, linalg.solve_upper)]
        found.append([sampling.to_host(array) for array in solved])
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)
    determinant = sampling.to_host(linalg.log_determinant(factor))
    np.testing.assert_allclose(determinant, np.linalg.slogdet(stack)[1], rtol=1e-12)


@pytest.mark.parametrize("bad", [-1.0, 0.0, np.nan])
@pytest.mark.parametrize("order", [3, 400])
def test_matrices_that_are_not_positive_definite_are_refused(bad, order, samplings):
    stack = np.stack([np.eye(order)] * 2)
    stack[1, 2, 2] = bad
    for sampling in samplings[int(np.isnan(bad)) :]:  # some LAPACKs let a NaN pass
        with pytest.raises(np.linalg.LinAlgError, match=f"matrix of order {order} is not positive"):
            sampling.linalg.cholesky(sampling.put(stack.copy()))


@pytest.mark.parametrize("numbers", [40, 100, 10_000])
@pytest.mark.parametrize("is_sparse", [False, True])
def test_weighted_gram_and_products(numbers, is_sparse, samplings, monkeypatch):
    """Some rows after the others, for some chains after the others, with and without a rest."""
    monkeypatch.setattr(products, "_SCALED_NUMBERS", numbers)
    monkeypatch.setattr(products, "_ROWS", 6)
    monkeypatch.setattr(products, "_MULTIPLE", 1)
    rng, p = np.random.default_rng(numbers), 3
    X, weight = spread_matrix(rng, 31, p), rng.gamma(1.0, size=(2, 31))
    X = sp.csr_array(X * (rng.random(X.shape) < 0.3)) if is_sparse else X
    vectors, grams = rng.normal(size=(2, p)), []
    for sampling in samplings:
        Z, linalg = sampling.put(X), sampling.linalg
        grams.append(sampling.to_host(linalg.weighted_gram(Z, sampling.put(weight))))
    np.testing.assert_allclose(grams[1], grams[0], rtol=1e-12, atol=1e-12 * grams[0].max())
    found = sampling.to_host(linalg.product(Z, sampling.put(vectors)))
    np.testing.assert_allclose(found, (X @ vectors.T).T, rtol=1e-12, atol=1e-12)


def multinomial_rows(samplings, rng, X, per_chain=False):
    """Rows of three categories on both, at the same coefficients."""
    count = rng.integers(1, 4, X.shape[0])
    drawn = [rng.multinomial(count, [0.5, 0.3, 0.2]).T[:2] for _ in range(1 + per_chain)]
    y = np.array(drawn, float)
    coef = rng.normal(size=(2, 2, X.shape[1]))
    rows = [s.softmax_rows(s.put(X), s.put(y), s.put(count)) for s in samplings]
    for sampling, own in zip(samplings, rows, strict=True):
        own.place(sampling.put(coef))
    return rows, coef


@pytest.mark.parametrize(("scale", "is_sparse"), [(1.0, False), (1.0, True), (900.0, False)])
def test_rows_of_multinomial_models(scale, is_sparse, samplings):
    """Predictors of a thousand, where exponentials overflow, included."""
    rng = np.random.default_rng(3)
    X = scale * rng.normal(size=(33, 2))
    X = sp.csr_array(X * (rng.random(X.shape) < 0.6)) if is_sparse else X
    rows, coef = multinomial_rows(samplings, rng, X, per_chain=is_sparse)
    moved, target = rng.normal(size=(2, 2)), rng.normal(size=(2, 33))

    def ask(sampling, own):
        yield from (own.offset(0), own.predictor(1), own.project(sampling.put(target)))
        own.move(1, sampling.put(moved))
        yield from (own.offset(0), own.offset(1), own.probability(coef))

    expected, found = (
        [np.array(sampling.to_host(array)) for array in ask(sampling, own)]
        for sampling, own in zip(samplings, rows, strict=True)
    )
    pairs = [*zip(found, expected, strict=True)]
    on_host = [own.value_and_gradient(coef) for own in rows]
    for one, other in [*pairs, *zip(on_host[1], on_host[0], strict=True)]:
        assert type(one) is np.ndarray
        np.testing.assert_allclose(one, other, rtol=1e-11, atol=1e-12 * abs(other).max())


def test_chains_that_do_not_fit_are_refused(samplings):
    sampling = samplings[1]
    sampling.reserve(2**20, 2**20)
    with pytest.raises(MemoryError) as raised:
        sampling.reserve(2**24, 2**30)
    assert str(raised.value) == (
        "2 chains need 2.02 GiB on simulated device, 0.0156 for the data and 1 for each chain, and "
        "0.0141 GiB are free; pass a smaller `n_chains`, another `device` or "
        'backend="cpu", or free memory that other programs and arrays hold.'
    )


def test_samplers_ask_for_memory_before_they_start(samplings):
    sampling = samplings[1]
    y, count = (sampling.put(np.zeros((1, 3, n), t)) for n, t in ((4, float), (1, int)))
    with pytest.raises(MemoryError, match=r"^2 chains need .* for each chain"):
        sampling.softmax_rows(sp.csr_array((10**6, 2)), y, count)
    rows = reduce_rows(np.ones((1, 2000)), np.ones((1, 1)))._replace(matrix=np.ones((2000, 2)))
    with pytest.raises(MemoryError, match=r"^2 chains need .* for each chain"):
        RowsRoute(sampling, rows)


def test_streams_of_two_kinds_are_refused(modules, monkeypatch):
    from sksurvgpu.backends.cuda import linalg

    modules.stream.ptr = 2
    with pytest.raises(BackendUnavailableError, match="handle 2 and Numba's 0, so that neither"):
        choose_sampling("cuda")
    monkeypatch.setattr(linalg, "uses_stream_of_threads", lambda: True)
    choose_sampling("cuda")


def test_missing_cupy_is_an_error_that_says_what_to_install(monkeypatch):
    from sksurvgpu.backends.cuda import linalg

    monkeypatch.setattr(linalg, "find_spec", lambda name: None)
    with pytest.raises(BackendUnavailableError) as raised:
        choose_sampling("cuda")
    assert str(raised.value) == (
        'backend="cuda" needs the package cupy, which is not installed; run: pip install '
        '"sksurvgpu[bayes-cuda12]", or pass backend="cpu"'
    )


def test_no_device_is_an_error(modules, monkeypatch):
    from sksurvgpu.backends.cuda import _cuda, sampling

    if _cuda.cuda.is_available():
        pytest.skip("there is a device")
    monkeypatch.setattr(sampling, "open_device", _cuda.open_device)
    with pytest.raises(BackendUnavailableError, match=r'^backend="cuda" found no usable device \('):
        choose_sampling("cuda")


def test_auto_and_cpu_take_the_cpu():
    from sksurvgpu.backends.cpu.sampling import Sampling

    assert choose_sampling("auto") is choose_sampling("cpu") is Sampling


def test_the_stand_in_is_as_strict_as_cupy(samplings):
    sampling = samplings[1]
    array = sampling.put(np.ones(3))
    for operate in (
        lambda: array + np.ones(3),
        lambda: np.ones(3) * array,
        lambda: array[np.ones(3)],
    ):
        with pytest.raises(TypeError, match="Unsupported type"):
            operate()
    with pytest.raises(TypeError, match="download"):
        np.asarray(array)
    with pytest.raises(AttributeError, match="not simulated"):
        array.cumsum()
