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
        self.free, self.launches, self.shared, self.copies = memory, [], [], []

    def allocate(self, n_bytes):
        if n_bytes > self.free:
            raise _cuda.driver.CudaAPIError(_OUT_OF_MEMORY, "out of memory")
        self.free -= n_bytes
        buffer = np.full(n_bytes, 0xA5, np.uint8)
        return SimpleNamespace(device_pointer=arrays.address_of(buffer), buffer=buffer)

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
    context = SimpleNamespace(
        memalloc=host.allocate,
        deallocations=SimpleNamespace(clear=lambda: None),
        get_memory_info=lambda: (host.free, memory),
    )
    limits = {"MULTIPROCESSOR_COUNT": 4, "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN": 2**16}
    functions = {
        "select_device": lambda ordinal: None,
        "get_current_device": lambda: SimpleNamespace(name="host", id=0, **limits),
        "current_context": lambda: context,
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
