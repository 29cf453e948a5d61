"""Stands in for CuPy on a simulated device: what samplers and matrices use of it, on NumPy.

An array is no NumPy array to anyone: it takes part in operations with others of its device and
with scalars, and refuses NumPy's, as CuPy does; a number of it is read by `bool`, `float` or
`asnumpy`.  Only functions that CuPy 14 has are here, by the same names.  As with CuPy, a failed
factorization gives numbers without a meaning unless `cupyx.errstate` asks for an error.
"""

from __future__ import annotations

import ctypes
import sys
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace

import numpy as np
import scipy.sparse as sp
from numpy.lib.mixins import NDArrayOperatorsMixin
from scipy.linalg import solve_triangular

from sksurvgpu.backends import polya_gamma, random

from .device import DeviceArray

FUNCTIONS = (
    "abs", "arange", "argsort", "ascontiguousarray", "broadcast_to", "concatenate", "diagonal",
    "empty", "empty_like", "exp", "eye", "full", "isfinite", "log", "logaddexp", "maximum",
    "minimum", "ones", "ones_like", "sqrt", "stack", "where", "zeros", "zeros_like",
)  # fmt: skip
FORMULAS = (
    random.gamma, random.inverse_gaussian, random.log_gamma, random.normal, random.uniform,
    polya_gamma.polya_gamma,
)  # fmt: skip
METHODS = ("all", "any", "astype", "copy", "max", "mean", "min", "reshape", "sum", "transpose")


class CupyArray(NDArrayOperatorsMixin, DeviceArray):
    """An array whose operations are NumPy's, inside its device."""

    def __init__(self, device, data):
        super().__init__(device, np.asarray(data))

    def __array_ufunc__(self, ufunc, method, *inputs, **options):
        if method != "__call__":
            raise TypeError(f"CuPy has no {ufunc.__name__}.{method} here")
        return apply(self._device, ufunc, *inputs, **options)

    __hash__ = DeviceArray.__hash__

    def __getattr__(self, name):
        if name not in METHODS:
            raise AttributeError(f"a CuPy array's {name} is not simulated")
        method = getattr(self._data, name)
        return lambda *given, **options: apply(self._device, method, *given, **options)

    @property
    def T(self):
        return CupyArray(self._device, self._data.T)

    def __getitem__(self, index):
        return CupyArray(self._device, self._data[inside(self._device, index)])

    def __setitem__(self, index, value):
        self._data[inside(self._device, index)] = inside(self._device, value)

    def __iter__(self):
        return (self[k] for k in range(len(self)))

    def __bool__(self):
        return bool(self._data)

    def __float__(self):
        return float(self._data)

    def __eq__(self, other):
        return apply(self._device, np.equal, self, other)


def inside(device, value):
    """What an operation works on; refuses arrays that are not the device's."""
    if isinstance(value, CupyArray):
        return device._own(value)._data
    if isinstance(value, tuple | list):
        return type(value)(inside(device, part) for part in value)
    if isinstance(value, np.ndarray) or sp.issparse(value):
        raise TypeError(f"Unsupported type {type(value)}")
    return value


def apply(device, function, *given, **options):
    options = {name: inside(device, value) for name, value in options.items()}
    found = function(*(inside(device, value) for value in given), **options)
    if isinstance(found, np.ndarray | np.generic):
        return CupyArray(device, found)
    return found


class CsrMatrix:
    """Sparse matrix by rows on a device."""

    def __init__(self, device, matrix):
        self._device, self._matrix, self.shape = device, sp.csr_matrix(matrix), matrix.shape

    @property
    def T(self):
        return CsrMatrix(self._device, self._matrix.T)

    @property
    def nnz(self):
        return self._matrix.nnz

    def multiply(self, other):
        other = other._matrix if isinstance(other, CsrMatrix) else inside(self._device, other)
        return CsrMatrix(self._device, self._matrix.multiply(other))

    def tocsr(self):
        return self

    def toarray(self):
        return CupyArray(self._device, self._matrix.toarray())

    def __matmul__(self, other):
        if isinstance(other, CsrMatrix):
            return CsrMatrix(self._device, self._matrix @ other._matrix)
        return CupyArray(self._device, self._matrix @ inside(self._device, other))


def columns_at(address, shape, step, dtype, is_written=False):
    """A matrix of BLAS's in memory: of so many rows and columns, these `step` numbers apart."""
    n_numbers = step * (shape[1] - 1) + shape[0]
    buffer = (ctypes.c_byte * (n_numbers * np.dtype(dtype).itemsize)).from_address(address)
    steps = np.dtype(dtype).itemsize * np.array([1, step])
    numbers = np.frombuffer(buffer, dtype)
    return np.lib.stride_tricks.as_strided(numbers, shape, steps, writeable=is_written)


def gemm_ex(handle, *given):
    """cuBLAS's product of numbers in half precision that are added up in single precision."""
    (transposed_a, transposed_b, m, n, k, alpha), given = given[:6], given[6:]
    (a, half_a, step_a), (b, half_b, step_b), given = given[:3], given[3:6], given[6:]
    beta, out, single, step, way, _ = given
    types = half_a, half_b, single, way
    if (handle, transposed_a, transposed_b, types) != ("handle", 1, 0, (2, 2, 0, 68)):
        raise ValueError(f"a product of other kinds: {transposed_a}, {transposed_b}, {types}")
    if step_a < k or step_b < k or step < m:
        raise ValueError("columns overlap")
    alpha, beta = (columns_at(number, (1, 1), 1, np.float32)[0, 0] for number in (alpha, beta))
    left, right = (
        columns_at(address, (k, size), step, np.float16).astype(np.float32)
        for address, size, step in ((a, m, step_a), (b, n, step_b))
    )
    target = columns_at(out, (m, n), step, np.float32, is_written=True)
    product = alpha * (left.T @ right)
    target[...] = product + beta * target if beta else product  # what is there may be no number


class Stream:
    """A stream; as a context the current one."""

    def __init__(self, modules, ptr):
        self._modules, self.ptr, self._before = modules, ptr, []

    def __enter__(self):
        self._before.append(self._modules.stream)
        self._modules.stream = self

    def __exit__(self, *error):
        self._modules.stream = self._before.pop()


class Modules:
    """The modules `cupy` and `cupyx` of one device."""

    def __init__(self, device):
        self.device, self.checks, self.products = device, "ignore", []
        streams = SimpleNamespace(null=Stream(self, 0), ptds=Stream(self, 2))
        self.stream = streams.null
        pool = SimpleNamespace(free_bytes=lambda: 0)
        self.cupy = _module(
            "cupy",
            asarray=self._asarray,
            asnumpy=lambda array: device._own(array)._data.copy(),
            cuda=SimpleNamespace(
                Device=_Device,
                Stream=streams,
                get_current_stream=lambda: self.stream,
            ),
            get_default_memory_pool=lambda: pool,
            linalg=SimpleNamespace(cholesky=self._cholesky),
            **{name: self._wrapped(getattr(np, name)) for name in FUNCTIONS},
        )
        self.all = [
            self.cupy,
            _module("cupy.cuda.device", get_cublas_handle=lambda: "handle"),
            _module("cupy_backends.cuda.libs", cublas=SimpleNamespace(gemmEx=self._multiply)),
            _module("cupyx", errstate=self._errstate),
            _module("cupyx.scipy"),
            _module("cupyx.scipy.linalg", solve_triangular=self._solve_triangular),
            _module("cupyx.scipy.sparse", csr_matrix=lambda matrix: CsrMatrix(device, matrix)),
        ]

    def _wrapped(self, function):
        return lambda *given, **options: apply(self.device, function, *given, **options)

    def _multiply(self, *given):
        """Products are made on the current stream, whose handle is kept."""
        self.products.append(self.stream.ptr)
        gemm_ex(*given)

    def _asarray(self, array):
        if isinstance(array, CupyArray):
            return array
        return CupyArray(self.device, np.array(array))

    @contextmanager
    def _errstate(self, linalg):
        before, self.checks = self.checks, linalg
        try:
            yield
        finally:
            self.checks = before

    def _cholesky(self, stack):
        lower = np.tril(inside(self.device, stack))
        symmetric = lower + np.swapaxes(np.tril(lower, -1), -1, -2)
        if np.isnan(lower).any():
            return CupyArray(self.device, lower)
        try:
            return CupyArray(self.device, np.linalg.cholesky(symmetric))
        except np.linalg.LinAlgError:
            if self.checks == "raise":
                raise
            return CupyArray(self.device, lower)

    def _solve_triangular(self, a, b, trans, lower):
        a, b = inside(self.device, a), inside(self.device, b)
        if a.shape[:-1] != b.shape[: a.ndim - 1]:
            raise ValueError("incompatible dimensions")
        options = {"trans": trans, "lower": lower, "check_finite": False}
        if a.ndim == 2:
            return CupyArray(self.device, solve_triangular(a, b, **options))
        pairs = zip(a, b, strict=True)
        return CupyArray(self.device, np.stack([solve_triangular(*p, **options) for p in pairs]))


class _Device:
    def __init__(self, ordinal):
        self.ordinal = ordinal

    def use(self):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass


def _module(name, **attributes):
    module = ModuleType(name)
    module.__spec__ = ModuleSpec(name, None, is_package=True)
    module.__path__ = []
    vars(module).update(attributes)
    return module


def stand_in(monkeypatch, device):
    """Have CuPy's stand-in be found from here on, on a device; its modules."""
    from sksurvgpu.backends.cuda import linalg

    modules = Modules(device)
    for module in modules.all:
        monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(linalg, "_import_cupy", lambda: modules.cupy)
    return modules


def simulate_sampling(monkeypatch, device, compiled=False):
    """Have samplers of ``backend="cuda"`` compute on a simulated device from here on.

    With `compiled`, kernels call the formulas of random numbers as the CPU compiles them, not as
    Python: the same bits, sooner.
    """
    from sksurvgpu.backends.cuda import sampling

    for formula in FORMULAS if compiled else ():
        device._machine._rebinding._replaced[id(formula)] = formula
    monkeypatch.setattr(sampling, "open_device", lambda ordinal: device)
    return stand_in(monkeypatch, device)
