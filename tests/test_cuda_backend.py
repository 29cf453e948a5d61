"""What users meet of the CUDA backend: requests, errors, estimators on a (simulated) device."""

import importlib.util
import pickle
from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
from faces import FACES
from faces import X as FACE_X
from gpu.backend import simulate_backend

from sksurvgpu import CoxLassoCCD, LogisticCCD, fit_path
from sksurvgpu.datasets import simulate_cox
from sksurvgpu.exceptions import BackendUnavailableError


@pytest.fixture(scope="module")
def data():
    return simulate_cox(60, 4, density=0.3, random_state=0)


def test_no_device_is_an_error_that_says_what_to_do(data):
    from sksurvgpu.backends.cuda._cuda import cuda

    if cuda.is_available():
        pytest.skip("there is a device")
    with pytest.raises(BackendUnavailableError) as raised:
        CoxLassoCCD(backend="cuda").fit(data.X, data.y)
    assert str(raised.value).startswith('backend="cuda" found no usable device (')
    assert str(raised.value).endswith('or pass backend="cpu"')
    assert "\n" not in str(raised.value)


def test_device_that_is_not_there(monkeypatch):
    from sksurvgpu.backends.cuda import _cuda

    class Devices:
        gpus = ("one", "two")
        CudaSupportError = RuntimeError

    monkeypatch.setattr(_cuda, "cuda", Devices)
    with pytest.raises(
        BackendUnavailableError, match=r"device=2 was asked for and this machine has 2"
    ):
        _cuda.open_device(2)


def test_auto_takes_the_cpu_and_says_why(data):
    model = CoxLassoCCD(backend="auto").fit(data.X, data.y)
    assert model.backend_ == "cpu" and "not known yet" in model.backend_reason_


@pytest.mark.weekly(but="cox")
@pytest.mark.mostly_slow(but=r"\[(cox|logistic)\]")  # others are in test_cuda_fits
@pytest.mark.parametrize("name", FACES)
def test_every_estimator(name, monkeypatch):
    device = simulate_backend(monkeypatch, seed=1)
    face, rows = FACES[name], slice(0, 80)
    arguments, y = face.arguments(rows=rows), face.y[rows]
    X = sp.csr_array(FACE_X[rows][:, [0, 3, 9]])
    expected = face.make(backend="cpu").fit(X, y, **arguments)
    found = face.make(backend="cuda").fit(X, y, **arguments)
    assert device.n_launches > 0
    np.testing.assert_allclose(found.coef_, expected.coef_, rtol=0, atol=1e-8)
    assert found.objective_ == pytest.approx(expected.objective_, rel=1e-10)
    assert found.backend_ == "cuda" and found.backend_reason_ == 'asked for with backend="cuda"'
    assert isinstance(found.coef_, np.ndarray) and found.coef_.dtype == np.float64


def test_model_fitted_on_a_device_predicts_and_unpickles_without_one(data, monkeypatch):
    simulate_backend(monkeypatch, seed=2)
    model = CoxLassoCCD(alpha=0.02, backend="cuda").fit(data.X, data.y)
    expected = CoxLassoCCD(alpha=0.02, backend="cpu").fit(data.X, data.y)
    monkeypatch.undo()
    model = pickle.loads(pickle.dumps(model))
    np.testing.assert_allclose(model.predict(data.X), expected.predict(data.X), atol=1e-5)
    np.testing.assert_allclose(
        model.predict_survival_function(data.X[:5], return_array=True),
        expected.predict_survival_function(data.X[:5], return_array=True),
        atol=1e-5,
    )
    assert model.score(data.X, data.y) == pytest.approx(expected.score(data.X, data.y))


def test_path(data, monkeypatch):
    simulate_backend(monkeypatch, seed=3)
    options = {"n_alphas": 4, "alpha_min_ratio": 0.2}
    path = fit_path(CoxLassoCCD(backend="cuda", tol=1e-9), data.X, data.y, **options)
    expected = fit_path(CoxLassoCCD(backend="cpu", tol=1e-9), data.X, data.y, **options)
    np.testing.assert_allclose(path.coefs, expected.coefs, atol=1e-7)


class OnDevice:
    """An array of another library that lies on a device."""

    __cuda_array_interface__ = None


def test_columns_that_lie_on_a_device_are_fetched(monkeypatch):
    from sksurvgpu.backends.cuda import _cuda

    X, y = np.array([[0.0], [1.0], [1.0]]), [0, 1, 0]
    monkeypatch.setattr(_cuda, "fetch", lambda array: X)
    model = LogisticCCD().fit(OnDevice(), y)
    np.testing.assert_array_equal(model.coef_, LogisticCCD().fit(X, y).coef_)
    np.testing.assert_array_equal(model.predict_proba(OnDevice()), model.predict_proba(X))


def test_sparse_columns_of_cupy_are_fetched():
    X, y = sp.csc_array(np.array([[0.0], [1.0], [1.0]])), [0, 1, 0]
    kind = type("csc_matrix", (), {"__module__": "cupyx.scipy.sparse", "get": lambda self: X})
    np.testing.assert_array_equal(LogisticCCD().fit(kind(), y).coef_, LogisticCCD().fit(X, y).coef_)


class Exported:
    """An array on a device that other libraries see through DLPack alone."""

    def __init__(self, values):
        self._values = np.asarray(values, float)

    def __dlpack_device__(self):
        return 2, 0

    def __dlpack__(self, *, dl_device, **_):
        assert dl_device == (1, 0)  # brought to the host by its own library
        return self._values.__dlpack__()


def of_library(name, method, values):
    """An array of a library, which brings it to the host by a method."""
    kind = type("Array", (), {"__module__": name, method: lambda self, **_: values})
    return kind()


@pytest.mark.parametrize(
    "place",
    [
        Exported,
        partial(of_library, "cupy._core.core", "get"),
        partial(of_library, "cudf.core.series", "to_pandas"),
        partial(of_library, "torch", "numpy"),
        partial(of_library, "numba_cuda", "copy_to_host"),
    ],
)
def test_all_that_is_given_may_lie_on_a_device(place):
    rng = np.random.default_rng(0)
    X, y, weight = rng.random((30, 2)), rng.random(30) < 0.5, rng.random(30)
    expected = LogisticCCD(alpha=0.001).fit(X, y, sample_weight=weight, offset=weight)
    on_device = [place(values) for values in (X, y.astype(float), weight)]
    found = LogisticCCD(alpha=0.001).fit(*on_device[:2], on_device[2], offset=on_device[2])
    np.testing.assert_array_equal(found.coef_, expected.coef_)
    np.testing.assert_array_equal(found.predict_proba(on_device[0]), expected.predict_proba(X))


def test_numba_cuda_is_what_is_imported():
    assert importlib.util.find_spec("numba_cuda") is not None
    from sksurvgpu.backends.cuda._cuda import cuda

    assert "numba_cuda" in cuda.__file__
