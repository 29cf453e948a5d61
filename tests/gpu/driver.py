"""What the host asks of CUDA's driver, on memory of the host: launches are kept and not run."""

from __future__ import annotations

import ctypes
from functools import partial
from types import SimpleNamespace

import numpy as np

from sksurvgpu.backends.cuda import _cuda, arrays

_OUT_OF_MEMORY = _cuda.driver.binding.CUresult.CUDA_ERROR_OUT_OF_MEMORY


class HostDriver:
    """`launches` has the words of every launch's parameters; a kernel's handle is their number."""

    def __init__(self, memory):
        self.memory = self.free = memory
        self.n_taken = 0
        self.buffers, self.launches, self.shared, self.copies = {}, [], [], []

    def allocate(self, n_bytes):
        if n_bytes > self.free:
            raise _cuda.driver.CudaAPIError(_OUT_OF_MEMORY, "out of memory")
        self.n_taken += 1
        self.free -= n_bytes
        buffer = np.full(n_bytes, 0xA5, np.uint8)
        address = arrays.address_of(buffer)
        self.buffers[address] = buffer
        return address

    def give_back(self, address):
        self.free += self.buffers.pop(address).nbytes

    def copy(self, target, source, n_bytes, *stream):
        self.copies.append(n_bytes)
        ctypes.memmove(target, source, n_bytes)

    def launch(self, handle, *shape, cooperative=False):
        *shape, places = shape if cooperative else shape[:-1]
        words = (ctypes.POINTER(ctypes.c_uint64) * handle).from_address(places)
        values = np.array([word.contents.value for word in words], np.uint64)
        self.launches.append((cooperative, tuple(shape), values))

    def limit(self, attribute, value, *kernel_and_device):
        self.shared.append(value)

    def calls(self):
        """What it does, by the driver's names."""
        return {
            "cuMemAlloc": self.allocate,
            "cuMemFree": self.give_back,
            "cuMemGetInfo": lambda: (self.free, self.memory),
            "cuMemcpyHtoD": self.copy,
            "cuMemcpyHtoDAsync": self.copy,
            "cuMemcpyDtoH": self.copy,
            "cuMemsetD8": ctypes.memset,
            "cuLaunchKernel": self.launch,
            "cuLaunchCooperativeKernel": partial(self.launch, cooperative=True),
            "cuKernelSetAttribute": self.limit,
        }


def open_on_host(monkeypatch, memory=2**30):
    """A `Device` of the backend, and the driver that stands for CUDA's."""
    host = HostDriver(memory)
    limits = {"MULTIPROCESSOR_COUNT": 4, "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN": 2**16}
    functions = {
        "select_device": lambda ordinal: None,
        "get_current_device": lambda: SimpleNamespace(name="host", id=0, **limits),
        "synchronize": lambda: None,
        "pinned_array": np.empty,
        "is_cuda_array": _cuda.cuda.is_cuda_array,
        "types": _cuda.cuda.types,
        "driver": SimpleNamespace(driver=SimpleNamespace(get_version=lambda: None)),
    }
    monkeypatch.setattr(_cuda, "cuda", SimpleNamespace(gpus=[0], **functions))
    monkeypatch.setattr(_cuda, "misfit", lambda *versions: None)
    kept = {name: getattr(_cuda.driver, name) for name in ("CudaAPIError", "binding")}
    calls = SimpleNamespace(**host.calls())
    monkeypatch.setattr(_cuda, "driver", SimpleNamespace(driver=calls, **kept))
    return _cuda.Device(0), host
