"""The only place that imports `numba.cuda`, and the device as host code sees it.

Kernels and the functions that they call are declared with `kernel` and `device`.  Host code never
touches a device array except through a `Device`, so that another one with the same methods can
stand in for it, such as the simulator of the tests.
"""

from __future__ import annotations

import warnings
from functools import cache
from importlib.util import find_spec
from types import ModuleType

import numpy as np

from ..._compile import bind
from ...exceptions import BackendUnavailableError

__all__ = [
    "Device",
    "cuda",
    "device",
    "fetch",
    "inlined",
    "kernel",
    "open_device",
    "specialize",
    "uses_stream_of_threads",
]


def _import_numba_cuda() -> tuple[ModuleType, type[Warning]]:
    if find_spec("numba_cuda") is None:
        raise BackendUnavailableError.missing_package("cuda", "numba-cuda", "cuda12")
    # numba-cuda 0.30 still looks for a name that NumPy 2.5 removed.
    is_bare = not hasattr(np, "row_stack")
    if is_bare:
        np.row_stack = np.vstack  # noqa: NPY201 (its replacement would lose vstack)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            from numba import cuda
            from numba.cuda.core.errors import NumbaPerformanceWarning
            from numba.cuda.np import arrayobj  # noqa: F401
    finally:
        if is_bare:
            del np.row_stack  # noqa: NPY201
    return cuda, NumbaPerformanceWarning


cuda, NumbaPerformanceWarning = _import_numba_cuda()


def kernel(function):
    """Declare a function that the host launches."""
    return cuda.jit(function)


def device(function):
    """Declare a function that only kernels call."""
    return cuda.jit(device=True)(function)


def inlined(function):
    """Declare a function that returns an array, which only code in its caller can do."""
    return cuda.jit(device=True, inline="always")(function)


def specialize(template, label, **formulas):
    """Kernel made from a template and some formulas; `label` tells it from its siblings."""
    bound = bind(template, **formulas)
    bound.__name__ = bound.__qualname__ = f"{template.__name__.strip('_')}_{label}"
    return kernel(bound)


def fetch(array):
    """Copy of another library's array on a device."""
    return cuda.as_cuda_array(array).copy_to_host()


def uses_stream_of_threads():
    """Whether launches go to the default stream of each thread, not to the one of all."""
    from numba.cuda.core import config

    return bool(config.CUDA_PER_THREAD_DEFAULT_STREAM)


class Device:
    """One CUDA device: its memory, its limits, and launches on it."""

    def __init__(self, ordinal: int = 0):
        _require_device(ordinal)
        cuda.select_device(ordinal)
        self._device = cuda.get_current_device()
        self.name = str(self._device.name)
        self.n_multiprocessors = int(self._device.MULTIPROCESSOR_COUNT)
        self.shared_bytes = int(self._device.MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)
        self._shared_of = {}  # kernel handle -> dynamic shared memory that it may have

    def free_bytes(self) -> int:
        context = cuda.current_context()
        context.deallocations.clear()  # memory that is to be freed some time still counts as taken
        return int(context.get_memory_info()[0])

    def upload(self, array):
        """Copy a host array, or take an array that lies on a device as it is."""
        if cuda.is_cuda_array(array):
            return cuda.as_cuda_array(array)
        return cuda.to_device(np.ascontiguousarray(array))

    def share(self, array):
        """CuPy's array for a launch, without a copy; both libraries use the same stream."""
        return cuda.as_cuda_array(array, sync=False)

    def empty(self, shape, dtype):
        return cuda.device_array(shape, dtype)

    def view(self, array, dtype):
        """The memory of an array, as numbers of another type of the same size."""
        return array.view(dtype)

    def zeros(self, shape, dtype):
        return cuda.to_device(np.zeros(shape, dtype))

    def download(self, array):
        return array.copy_to_host()

    def write(self, array, values):
        """Copy host values into a device array of the same shape."""
        array.copy_to_device(np.ascontiguousarray(values, dtype=array.dtype).reshape(array.shape))

    def launch(self, kernel, blocks, threads, arguments, shared_bytes=0):
        """Run a kernel; it has ended when the next download returns."""
        if shared_bytes:
            self._allow_shared(kernel, arguments, shared_bytes)
        with warnings.catch_warnings():  # small grids are meant
            warnings.simplefilter("ignore", NumbaPerformanceWarning)
            configured = kernel[blocks, threads, 0, shared_bytes]
        configured(*arguments)

    def resident_blocks(self, kernel, threads, arguments, shared_bytes=0) -> int:
        """Blocks of a launch that run at the same time: teams wait for each other."""
        compiled = self._allow_shared(kernel, arguments, shared_bytes)
        return int(compiled.max_cooperative_grid_blocks(threads, shared_bytes))

    def _allow_shared(self, kernel, arguments, shared_bytes):
        """Compile for the arguments and lift the default limit of dynamic shared memory."""
        types = tuple(kernel.typeof_pyval(argument) for argument in arguments)
        compiled = kernel.overloads.get(types) or kernel.compile(types)
        # the default limit counts what a kernel declares itself, so that it is never relied on
        if shared_bytes > self._shared_of.get(id(compiled), 0):
            from numba.cuda.cudadrv.driver import binding, driver

            attribute = binding.CUfunction_attribute
            driver.cuKernelSetAttribute(
                attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                shared_bytes,
                compiled._codelibrary.get_cufunc().handle,
                self._device.id,
            )
            self._shared_of[id(compiled)] = shared_bytes
        return compiled


def open_device(ordinal):
    """The device of that number, made the calling thread's own."""
    device = _device(ordinal)
    cuda.select_device(ordinal)
    return device


@cache
def _device(ordinal):
    return Device(ordinal)


def _require_device(ordinal):
    """Say what is missing where nothing can run."""
    try:
        count = len(cuda.gpus)
    except cuda.CudaSupportError as error:
        reason = " ".join(str(error).split())
        raise BackendUnavailableError.no_device("cuda", reason) from None
    if not 0 <= ordinal < count:
        raise BackendUnavailableError(
            f"device={ordinal} was asked for and this machine has {count} CUDA device(s), numbered "
            'from 0; pass another `device`, or backend="cpu"'
        )
