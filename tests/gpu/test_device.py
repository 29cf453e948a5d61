"""The simulated device: copies, limits, and what the host must not do."""

from typing import NamedTuple

import numpy as np
import pytest

pytest.importorskip("numba_cuda")
pytest.importorskip("greenlet")

from gpu.device import SimulatedDevice
from gpu.faults import removable_sites, survivors
from gpu.rebinding import cuda
from gpu.scans import THREADS, scan_in_one_block


def numbers(n):
    return np.random.default_rng(n).normal(size=n)


class Pair(NamedTuple):
    x: object
    inner: object


def test_a_device_runs_kernels_on_its_arrays():
    @cuda.jit
    def add(pair, scale):
        i = cuda.grid(1)
        if i < pair.x.size:
            pair.x[i] += scale * pair.inner.x[i]

    device = SimulatedDevice(n_multiprocessors=3)
    x, y = device.upload(numbers(70)), device.upload(np.ones((2, 70), order="F"))
    device.launch(add, 3, 32, (Pair(x, Pair(y[1], ())), 2.0))
    np.testing.assert_array_equal(device.download(x), numbers(70) + 2.0)
    assert device.resident_blocks(add, 32, ()) == 3
    assert (device.n_launches, device.n_switches > 0) == (1, True)


def test_every_launch_has_an_order_of_its_own():
    @cuda.jit
    def write_order(ticket, out):
        out[cuda.atomic.add(ticket, 0, 1)] = cuda.threadIdx.x

    def orders(seed):
        device = SimulatedDevice(seed)
        seen = []
        for _ in range(3):
            out = device.zeros(32, np.int32)
            device.launch(write_order, 1, 32, (device.zeros(1, np.int32), out))
            seen.append(tuple(device.download(out)))
        return seen

    assert len(set(orders(0) + orders(1))) == 6
    assert orders(0) == orders(0)


def test_copies_do_not_share_memory():
    device, host = SimulatedDevice(), np.ones(3)
    array = device.upload(host)
    host[0] = 2.0
    down = device.download(array)
    down[1] = 2.0
    np.testing.assert_array_equal(device.download(array), 1.0)
    device.write(array, [3, 4, 5])
    np.testing.assert_array_equal(device.download(array), [3.0, 4.0, 5.0])
    device.fill(array[1:], 0)
    np.testing.assert_array_equal(device.download(array), [3.0, 0.0, 0.0])
    np.testing.assert_array_equal(device.download(device.zeros((2, 2), np.int64)), 0)


@pytest.mark.parametrize(
    "touch",
    [
        np.asarray,
        np.sum,
        lambda a: a + 1,
        lambda a: np.ones(3) + a,
        lambda a: np.ones(3) == a,
        lambda a: a[0],
        lambda a: a.__setitem__(0, 1.0),
        lambda a: a == 1,
        bool,
        list,
        float,
        max,
    ],
)
def test_the_host_cannot_touch_device_arrays(touch):
    with pytest.raises(TypeError):
        touch(SimulatedDevice().zeros(3, np.float64))


def test_a_launch_takes_only_arrays_of_the_device():
    @cuda.jit
    def nothing(pair):
        pass

    device, other = SimulatedDevice(), SimulatedDevice()
    array = device.zeros(1, np.float64)
    device.launch(nothing, 1, 1, (Pair(array, 1),))
    with pytest.raises(TypeError, match="a kernel cannot take a ndarray from the host"):
        device.launch(nothing, 1, 1, (Pair(array, np.zeros(1)),))
    with pytest.raises(TypeError, match="NoneType"):
        device.launch(nothing, 1, 1, (None,))
    with pytest.raises(TypeError, match="another device"):
        device.launch(nothing, 1, 1, (other.zeros(1, np.float64),))
    with pytest.raises(TypeError, match="not an array of the device"):
        device.download(np.zeros(1))
    with pytest.raises(TypeError, match="fill takes a scalar"):
        device.fill(array, [1.0])
    with pytest.raises(TypeError, match="written into int32"):
        device.write(device.zeros(1, np.int32), [0.5])
    with pytest.raises(ValueError, match="bytes of shared memory"):
        device.launch(nothing, 1, 1, (array,), shared_bytes=device.shared_bytes + 1)


@pytest.mark.parametrize(("blocks", "threads"), [(0, 32), (1, 0), (1, 1056)])
def test_a_launch_has_blocks_and_threads_that_exist(blocks, threads):
    with pytest.raises(ValueError, match=f"{blocks} blocks of {threads} threads"):
        SimulatedDevice().launch(None, blocks, threads, ())


def test_device_memory_is_limited_and_freed():
    device = SimulatedDevice(memory=1000)
    first = device.zeros(100, np.float64)
    assert device.free_bytes() == 200
    with pytest.raises(MemoryError, match="208 bytes on a device with 200 free"):
        device.zeros(26, np.float64)
    part = first[:10]
    del first
    assert device.free_bytes() == 200
    del part
    assert device.free_bytes() == 1000


def test_a_device_without_a_barrier():
    def run(seed, without):
        device = SimulatedDevice(seed, without=without)
        x, out = device.upload(numbers(300)), device.empty(300, np.float64)
        device.launch(scan_in_one_block, 1, THREADS, (x, out))
        return device.download(out)

    def is_right(out):
        return np.allclose(out, np.cumsum(numbers(300)), rtol=1e-12, atol=1e-12)

    assert len(removable_sites(run)) == 2
    assert survivors(run, is_right, seeds=range(10)) == []
