"""Several devices share out the fits of a batch."""

import sys
import threading
from contextlib import contextmanager
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("numba_cuda")
pytest.importorskip("greenlet")

from engine import make_batch
from gpu.backend import simulate_backend
from gpu.device import SimulatedDevice
from models import MODELS

from sksurvgpu.backends import choose, cuda
from sksurvgpu.backends.split import SplitBackend
from sksurvgpu.exceptions import BackendUnavailableError
from sksurvgpu.solver.fits import Fits, Options
from sksurvgpu.solver.problem import Batch, ColumnsOnDemand

MODEL = MODELS["cox, breslow"]
SAMPLE = MODEL.sample(0, p=2, kind="indicator")
OPTIONS = Options(tol=1e-9, max_iter=3)


@pytest.fixture
def devices(monkeypatch):
    """Two simulated devices, by their numbers."""
    found = [SimulatedDevice(n_multiprocessors=1) for _ in range(2)]
    simulate_backend(monkeypatch, found[0])
    monkeypatch.setattr(cuda, "open_device", found.__getitem__)
    monkeypatch.setattr(cuda, "count_devices", lambda: len(found))
    return found


def batch_of(n_fits, *, on_demand=False):
    rng = np.random.default_rng(0)
    weight = rng.integers(0, 3, (len(SAMPLE.weights), n_fits)).astype(float)
    offset = 0.1 * rng.standard_normal(weight.shape)
    if on_demand:
        columns = weight
        weight = ColumnsOnDemand(columns.shape, lambda b: columns[:, b])
    return Batch(np.linspace(0.5, 2.0, n_fits)[None, :], weight=weight, offset=offset)


@pytest.mark.parametrize("on_demand", [False, True])
def test_fits_are_shared_out_and_come_back_in_order(devices, on_demand):
    problem, batch = MODEL.problem(SAMPLE), batch_of(3, on_demand=on_demand)
    expected = Fits(problem, batch, choose("cuda"), OPTIONS).solve()
    before = [device.n_launches for device in devices]
    found = Fits(problem, batch, choose("cuda", device="all"), OPTIONS).solve()
    assert all(device.n_launches > n for device, n in zip(devices, before, strict=True))
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one[0].coef, other[0].coef, rtol=1e-9, atol=1e-12)
        assert one[0].lam == other[0].lam


def test_a_single_fit_takes_the_first_device(devices):
    problem, batch = MODEL.problem(SAMPLE), make_batch(SAMPLE, 1.0)
    Fits(problem, batch, choose("cuda", device=[1, 0]), OPTIONS).solve()
    assert devices[1].n_launches and not devices[0].n_launches
    assert not isinstance(choose("cuda", device=[1]), SplitBackend)


def test_evaluations_are_on_the_first_device(devices, monkeypatch):
    """Which is not the last one that was opened."""
    current = []
    for number, device in enumerate(devices):
        monkeypatch.setattr(device, "use", partial(current.append, number))

    def open_device(number):
        devices[number].use()
        return devices[number]

    monkeypatch.setattr(cuda, "open_device", open_device)
    backend = choose("cuda", device=[0, 1])
    backend.open_evaluator(MODEL.problem(SAMPLE), make_batch(SAMPLE, 1.0))
    assert current == [0, 1, 0]


def test_the_first_device_has_the_problem_once(devices, monkeypatch):
    """Of a fit alone, as a null model's is, and of the batch that follows."""
    made, make = [], cuda.Layout
    monkeypatch.setattr(cuda, "Layout", lambda *given: made.append(given[0]) or make(*given))
    problem, backend = MODEL.problem(SAMPLE), choose("cuda", device="all")
    Fits(problem, make_batch(SAMPLE, 1.0), backend, OPTIONS).solve()
    Fits(problem, batch_of(2), backend, OPTIONS).solve()
    assert made == devices


def test_every_device_has_a_thread_of_its_own():
    class Recorder:
        def run(self, problem, batch, coroutines, n_threads):
            self.seen = threading.get_ident(), batch.lambdas.tolist(), coroutines
            barrier.wait(timeout=60)  # both run at the same time
            return [f"result of {c}" for c in coroutines]

    barrier, backends = threading.Barrier(2), (Recorder(), Recorder())
    batch = Batch(np.arange(3.0)[None])
    found = SplitBackend(backends).run(None, batch, ["a", "b", "c"], 1)
    assert found == ["result of a", "result of b", "result of c"]
    (one, few, first), (two, more, last) = (backend.seen for backend in backends)
    assert one != two
    assert (few, first) == ([[0.0]], ["a"]) and (more, last) == ([[1.0, 2.0]], ["b", "c"])


def test_what_fails_on_one_device_is_an_error():
    class Failing:
        def run(self, *given):
            raise MemoryError("no room on this device")

    class Idle:
        def run(self, problem, batch, coroutines, n_threads):
            return [None] * len(coroutines)

    with pytest.raises(MemoryError, match="no room"):
        SplitBackend((Idle(), Failing())).run(None, Batch(np.zeros((1, 2))), [1, 2], 1)


@pytest.mark.parametrize(
    ("asked", "words"),
    [([], "at least one"), ([0, 0], "once"), ([0, -1], "-1 is not"), ([0, 0.5], "0.5 is not")],
)
def test_bad_lists_are_refused(asked, words):
    with pytest.raises(ValueError, match=words):
        cuda.list_devices(asked)


def test_the_number_of_a_device_may_be_numpys(devices):
    assert choose("cuda", device=np.int64(1)).device is devices[1]


def test_all_of_no_devices_says_what_is_missing():
    if cuda.count_devices():
        pytest.skip("there is one")
    with pytest.raises(BackendUnavailableError):
        choose("cuda", device="all")


def test_operations_have_named_ranges_where_they_are_wanted(devices, monkeypatch):
    @contextmanager
    def annotate(name, domain):
        ranges.append((domain, name))
        yield

    ranges = []
    monkeypatch.setitem(sys.modules, "nvtx", SimpleNamespace(annotate=annotate))
    problem, batch = MODEL.problem(SAMPLE), make_batch(SAMPLE, 1.0)
    options = Options(max_iter=1)
    Fits(problem, batch, choose("cuda"), options).solve()
    assert not ranges
    monkeypatch.setenv("SKSURVGPU_NVTX", "1")
    Fits(problem, batch, choose("cuda"), options).solve()
    assert ranges[0] == ("sksurvgpu", "start") and ("sksurvgpu", "gradient") in ranges
    monkeypatch.setitem(sys.modules, "nvtx", None)
    with pytest.raises(ImportError, match="pip install nvtx, or unset"):
        Fits(problem, batch, choose("cuda"), options).solve()
