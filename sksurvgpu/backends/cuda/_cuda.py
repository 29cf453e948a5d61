"""The only place that imports `numba.cuda`, and the device as host code sees it.

Kernels and the functions that they call are declared with `kernel` and `device`.  Host code never
touches a device array except through a `Device`, so that another one with the same methods can
stand in for it, such as the simulator of the tests.
"""

import ctypes
import math
import pickle
import warnings
import zlib
from functools import cache
from importlib.util import find_spec

import numpy as np

from ..._compile import OwnFiles, bind, keep, uncollected
from ...exceptions import BackendUnavailableError
from .arrays import Array, Launch, Packed, Staging, address_of, flatten
from .pool import KEPT, MemoryPool
from .toolkit import compiler_version, linker_version, misfit


def _import_numba_cuda():
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
            from numba.cuda.cudadrv import driver
            from numba.cuda.np import arrayobj, numpy_support  # noqa: F401
            from numba.cuda.typing import typeof
    finally:
        if is_bare:
            del np.row_stack  # noqa: NPY201
    return cuda, driver, numpy_support.from_dtype, typeof.typeof, typeof.Purpose


cuda, driver, from_dtype, typeof, Purpose = _import_numba_cuda()
from numba.cuda.cudadrv import nvvm, runtime  # noqa: E402 (what the import needs is there now)
from numba.cuda.dispatcher import CUDACache, CUDACacheImpl  # noqa: E402

# Where sent arrays begin, and bytes that are staged at once if no more are needed.
ALIGNED, LEAST_STAGED = 16, 2**20
BREAKING = range(700, 720)  # codes of errors that a context does not survive

# What Numba asks an argument of a launch for.
Array._numba_type_ = property(lambda own: cuda.types.Array(from_dtype(own.dtype), own.ndim, "C"))
Packed._numba_type_ = property(lambda own: typeof(own._value, Purpose.argument))


class _Content(CUDACacheImpl):
    """Machine code of a kernel and what it was made from, for a device of another kind."""

    def reduce(self, kernel):
        return zlib.compress(pickle.dumps(super().reduce(kernel)), level=1)

    def rebuild(self, target_context, payload):
        return super().rebuild(target_context, pickle.loads(zlib.decompress(payload)))


class _NumbaCache(CUDACache):
    _impl_class = _Content

    def load_overload(self, sig, target_context):
        """Load without what only compiling needs: Numba's tables, 0.3 s once a process."""
        return self._load_overload(sig, target_context)

    def _index_key(self, sig, codegen):
        # the device's compute capability and Numba's version, then what else shapes the code
        return *super()._index_key(sig, codegen), _tools()


class _Cache(OwnFiles, _NumbaCache):
    """Machine code for devices."""


@cache
def _tools():
    """Versions of what makes machine code, and a target that the environment may ask for."""
    from cuda import bindings, core
    from numba.cuda.core import config

    versions = core.__version__, bindings.__version__, runtime.get_version()
    return *versions, linker_version(), config.FORCE_CUDA_CC


def kernel(function, most_threads=None):
    """Declare a function that the host launches; its machine code is kept on disk.

    It takes so many registers that blocks of `most_threads` have enough; else those of 256 have.
    """
    # nvJitLink would compile once more what NVVM has: nothing is linked that it could inline
    compiled = cuda.jit(function, launch_bounds=most_threads, lto=False)
    return keep(compiled, function, _Cache)


def device(function):
    """Declare a function that only kernels call."""
    return cuda.jit(device=True)(function)


def inlined(function):
    """Declare a function that returns an array, which only code in its caller can do."""
    return cuda.jit(device=True, inline="always")(function)


def specialize(template, label, most_threads=None, **formulas):
    """Kernel made from a template and some formulas; `label` tells it from its siblings."""
    bound = bind(template, **formulas)
    bound.__name__ = bound.__qualname__ = f"{template.__name__.strip('_')}_{label}"
    return kernel(bound, most_threads)


def fetch(array):
    """Copy of another library's array on a device."""
    return cuda.as_cuda_array(array).copy_to_host()


def uses_stream_of_threads():
    """Whether launches go to the default stream of each thread, not to the one of all."""
    from numba.cuda.core import config

    return bool(config.CUDA_PER_THREAD_DEFAULT_STREAM)


class Device:
    """One CUDA device: its memory, its limits, and launches on it.

    Everything is in the order of one stream, which the host waits for when it downloads.
    """

    def __init__(self, ordinal: int = 0):
        _require_device(ordinal)
        cuda.select_device(ordinal)
        self.ordinal = ordinal
        self._device = cuda.get_current_device()
        self.name = str(self._device.name)
        self.n_multiprocessors = int(self._device.MULTIPROCESSOR_COUNT)
        self.shared_bytes = int(self._device.MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)
        self._compiled = {}  # by kernel and kinds of arguments: compiled kernel, handle
        self._shared_of = {}  # by handle: dynamic shared memory that it may have
        self._staging = Staging()
        # streams of threads do not wait for each other: one's memory is no other's
        kept = 0 if uses_stream_of_threads() else int(KEPT * driver.driver.cuMemGetInfo()[1])
        self._pool = MemoryPool(self._allocate, driver.driver.cuMemFree, kept)

    def use(self):
        """Have the calling thread compute on this device."""
        cuda.select_device(self.ordinal)

    def free_bytes(self) -> int:
        held = self._pool.held_bytes()  # which may give some back
        return held + int(driver.driver.cuMemGetInfo()[0])

    def is_broken(self) -> bool:
        """Whether a kernel has failed, after which the driver refuses all that follows."""
        try:
            cuda.synchronize()
        except driver.CudaAPIError as error:
            return int(error.code) in BREAKING
        return False

    def release(self):
        """Give memory that no array has back, to other libraries."""
        self._pool.release()

    def empty(self, shape, dtype):
        shape = tuple(map(int, shape)) if np.ndim(shape) else (int(shape),)
        n_bytes = math.prod(shape) * np.dtype(dtype).itemsize
        if not n_bytes:
            return Array(None, 0, shape, np.dtype(dtype))
        block = self._pool.take(n_bytes)
        return Array(block, block.address, shape, np.dtype(dtype))

    def _allocate(self, n_bytes):
        return int(self._take(driver.driver.cuMemAlloc, n_bytes))

    def _take(self, allocate, n_bytes, *rest):
        try:
            return allocate(n_bytes, *rest)
        except driver.CudaAPIError as error:
            if error.code != driver.binding.CUresult.CUDA_ERROR_OUT_OF_MEMORY:
                raise
            raise MemoryError(
                f"{n_bytes:,} bytes on {self.name}, which has {self.free_bytes():,} free"
            ) from None

    def zeros(self, shape, dtype):
        array = self.empty(shape, dtype)
        if array.nbytes:
            driver.driver.cuMemsetD8(array.address, 0, array.nbytes)
        return array

    def view(self, array, dtype, shape=None):
        """An array's memory as numbers of another type of that size, or in another shape."""
        return Array(array.owner, array.address, shape or array.shape, np.dtype(dtype))

    def share(self, array):
        """Another library's array for launches, without a copy; all use the same stream."""
        seen = array.__cuda_array_interface__
        if seen.get("strides") is not None:
            raise TypeError(f"an array of shape {array.shape} is not contiguous")
        return Array(array, int(seen["data"][0]), tuple(seen["shape"]), np.dtype(seen["typestr"]))

    def upload(self, array):
        """Copy a host array, or take an array that lies on a device as it is."""
        if cuda.is_cuda_array(array):
            return self.share(array)
        array = np.asarray(array, order="C")
        out = self.empty(array.shape, array.dtype)
        self.write(out, array)
        return out

    def write(self, array, values):
        """Copy host values into a device array of as many entries, in its dtype."""
        values = np.ascontiguousarray(values, array.dtype)
        if array.nbytes:
            driver.driver.cuMemcpyHtoD(array.address, address_of(values), array.nbytes)

    def send(self, *arrays):
        """Copy small host arrays in one go; on the device they last until the next `download`."""
        arrays, contents, begin, begins = list(map(np.asarray, arrays)), [], 0, []
        for array in arrays:
            begins.append(begin)
            contents.append(array.tobytes())
            begin += len(contents[-1])
            if spare := -begin % ALIGNED:
                contents.append(bytes(spare))
                begin += spare
        address, owner = self._stage(b"".join(contents)), self._staging.mirror.owner
        pairs = zip(arrays, begins, strict=True)
        return [Array(owner, address + begin, array.shape, array.dtype) for array, begin in pairs]

    def refill(self, array, values):
        """Copy small host values to the begin of an array of their type, on the way of `send`."""
        self._stage(values.tobytes(), array.address)

    def _stage(self, content, target=None):
        """Copy bytes to an address, by default their place in the mirror; that address."""
        staging, first = self._staging, self._staging.taken
        if first + len(content) > staging.size:
            size, first = max(LEAST_STAGED, 2 * (first + len(content))), 0
            cuda.synchronize()  # copies from the old memory are on their way
            staging.host = self._take(cuda.pinned_array, size, np.uint8)
            staging.mirror = self.empty(size, np.uint8)
            staging.size, staging.address = size, address_of(staging.host)
        staging.taken, source = first + len(content), staging.address + first
        target = staging.mirror.address + first if target is None else target
        ctypes.memmove(source, content, len(content))
        driver.driver.cuMemcpyHtoDAsync(target, source, len(content), 0)
        return target

    def download(self, array):
        out = np.empty(array.shape, array.dtype)
        if array.nbytes:
            driver.driver.cuMemcpyDtoH(address_of(out), array.address, array.nbytes)
            self._staging.taken = 0  # the copies from there have ended
        return out

    def pack(self, value):
        """A tuple of arrays, or of such tuples, whose launches take little time."""
        return Packed(value)

    def launch(self, kernel, blocks, threads, arguments, shared_bytes=0):
        """Run a kernel; it has ended when the next download returns."""
        kinds, words = [], []
        flatten(arguments, kinds, words)
        compiled, handle = self._compile(kernel, " ".join(kinds), arguments)
        if shared_bytes:
            self._allow_shared(handle, shared_bytes)
        launch = Launch.of(
            arguments,
            b"".join(words),
            handle=handle,
            is_cooperative=compiled.cooperative,
            blocks=blocks,
            threads=threads,
            shared_bytes=shared_bytes,
        )
        self._run(launch)
        if self._staging.tape is not None:
            self._staging.tape.append(launch)

    def _run(self, launch):
        handle, is_cooperative, blocks, threads, shared_bytes, parameters, _ = launch
        if is_cooperative:
            driver.driver.cuLaunchCooperativeKernel(
                handle, blocks, 1, 1, threads, 1, 1, shared_bytes, 0, parameters
            )
        else:
            driver.driver.cuLaunchKernel(
                handle, blocks, 1, 1, threads, 1, 1, shared_bytes, 0, parameters, 0
            )

    def record(self, work):
        """Have work done; its launches, to be repeated."""
        self._staging.tape = tape = []
        try:
            work()
        finally:
            self._staging.tape = None
        return tape

    def repeat(self, tape):
        """Run recorded launches again, with the arguments that they had."""
        for launch in tape:
            self._run(launch)

    def resident_blocks(self, kernel, threads, arguments, shared_bytes=0) -> int:
        """Blocks of a launch that run at the same time: teams wait for each other."""
        kinds = []
        flatten(arguments, kinds, [])
        compiled, handle = self._compile(kernel, " ".join(kinds), arguments)
        self._allow_shared(handle, shared_bytes)
        return int(compiled.max_cooperative_grid_blocks(threads, shared_bytes))

    def _compile(self, kernel, kinds, arguments):
        """Kernel compiled for arguments, once for all that are of the same kinds."""
        key = kernel, kinds
        if key not in self._compiled:
            types = tuple(map(kernel.typeof_pyval, arguments))
            with uncollected():
                compiled = kernel.overloads.get(types) or kernel.compile(types)
                self._compiled[key] = compiled, int(compiled._codelibrary.get_cufunc().handle)
        return self._compiled[key]

    def _allow_shared(self, handle, shared_bytes):
        """Lift the default limit, which counts what a kernel declares itself: never rely on it."""
        if shared_bytes > self._shared_of.get(handle, 0):
            attributes = driver.binding.CUfunction_attribute
            attribute = attributes.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            driver.driver.cuKernelSetAttribute(attribute, shared_bytes, handle, self.ordinal)
            self._shared_of[handle] = shared_bytes


def open_device(ordinal):
    """The device of that number, made the calling thread's own."""
    device = _device(ordinal)
    device.use()
    return device


def count_devices():
    try:
        return len(cuda.gpus)
    except cuda.CudaSupportError:
        return 0


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
    problem = misfit(cuda.driver.driver.get_version(), compiler_version(nvvm), linker_version())
    if problem:
        raise BackendUnavailableError(f'backend="cuda" cannot compile: {problem}')
