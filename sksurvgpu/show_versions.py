"""Versions, threads, devices, and what is missing for CUDA: what a bug report needs.

The driver is asked through its C library: initializing it and counting devices creates no
CUDA context, needs no Python package, and therefore also works where the package is missing.
"""

# Imported with the package, so only what costs nothing stands here.
import os
import sys
from importlib.util import find_spec
from typing import NamedTuple

__all__ = ["show_versions"]

CORE_PACKAGES = (
    "sksurvgpu",
    "numpy",
    "scipy",
    "scikit-learn",
    "scikit-survival",
    "numba",
    "llvmlite",
    "pandas",
    "narwhals",
)
OPTIONAL_PACKAGES = (
    "numba-cuda",
    "cupy-cuda12x",
    "cupy-cuda13x",
    "dask",
    "duckdb",
    "distributed",
    "matplotlib",
    "polars",
)
DRIVER_LIBRARIES = ("libcuda.so.1", "nvcuda.dll")


class _Driver(NamedTuple):
    """Answers of the CUDA driver; ``problem`` is None where it answers."""

    version: str | None
    devices: list[str]
    problem: str | None


def show_versions() -> None:
    """Print versions of dependencies, threads and devices, for reports of errors.

    Nothing is compiled and no CUDA context is created.

    Examples
    --------
    >>> from sksurvgpu import show_versions
    >>> show_versions()  # doctest: +ELLIPSIS
    System
    ...
    """
    driver = _ask_driver()
    _print_section("System", _system_rows())
    _print_section("Packages", [(name, _version_of(name)) for name in CORE_PACKAGES])
    _print_section("Optional packages", [(name, _version_of(name)) for name in OPTIONAL_PACKAGES])
    _print_section("Threads", _thread_rows())
    _print_section("CUDA", _cuda_rows(driver))


def _print_section(title, rows):
    print(title)
    for name, value in rows:
        print(f"  {name:<18}{value}")


def _system_rows():
    import platform

    return [
        ("python", sys.version.split()[0]),
        ("executable", sys.executable),
        ("platform", platform.platform()),
        ("CPU", platform.processor() or platform.machine()),
    ]


def _version_of(package):
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        # A source tree on the path has no metadata.
        if package == "sksurvgpu":
            return sys.modules["sksurvgpu"].__version__
        return "not installed"


def _thread_rows():
    import numba

    from ._threads import usable_cpus

    return [
        ("CPUs", os.cpu_count()),
        ("usable CPUs", usable_cpus()),
        ("numba threads", numba.config.NUMBA_NUM_THREADS),
        ("numba layers", " ".join(numba.config.THREADING_LAYER_PRIORITY)),
        ("OMP_NUM_THREADS", os.environ.get("OMP_NUM_THREADS", "not set")),
    ]


def _cuda_rows(driver):
    from .backends import explain

    rows = [("driver", f"CUDA {driver.version}" if driver.version else "none")]
    rows += [(f"device {i}", name) for i, name in enumerate(driver.devices)]
    if os.environ.get("NUMBA_ENABLE_CUDASIM", "0") not in ("", "0"):
        rows.append(("simulator", "on (NUMBA_ENABLE_CUDASIM)"))
    rows += [("missing", what) for what in _missing_for_cuda(driver)]
    return [*rows, ("auto", explain("auto")[1])]


def _missing_for_cuda(driver):
    missing = [] if driver.problem is None else [driver.problem]
    if find_spec("numba_cuda") is None:
        extra = _extra_for(driver.version)
        missing.append(f'package numba-cuda; run: pip install "sksurvgpu[{extra}]"')
    return missing


def _extra_for(driver_version):
    """Name the newest of our extras that the driver can run; cuda12 where it is unknown."""
    major = int(driver_version.split(".")[0]) if driver_version else 0
    return "cuda13" if major >= 13 else "cuda12"


def _ask_driver():
    import ctypes

    library = _load_driver()
    if library is None:
        return _Driver(None, [], "NVIDIA driver (its library was not found)")
    error = library.cuInit(0)
    if error:
        return _Driver(None, [], f"usable NVIDIA driver (cuInit returned error {error})")
    number, count = ctypes.c_int(), ctypes.c_int()
    library.cuDriverGetVersion(ctypes.byref(number))
    library.cuDeviceGetCount(ctypes.byref(count))
    devices = [_describe_device(library, i) for i in range(count.value)]
    # 12040 means 12.4.
    supported = f"{number.value // 1000}.{number.value % 1000 // 10}"
    return _Driver(supported, devices, None if devices else "CUDA device")


def _load_driver():
    import ctypes

    for name in DRIVER_LIBRARIES:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    return None


def _describe_device(library, ordinal):
    import ctypes

    device, memory = ctypes.c_int(), ctypes.c_size_t()
    name = ctypes.create_string_buffer(128)
    library.cuDeviceGet(ctypes.byref(device), ordinal)
    library.cuDeviceGetName(name, len(name), device)
    library.cuDeviceTotalMem_v2(ctypes.byref(memory), device)
    return f"{name.value.decode()}, {memory.value / 2**30:.0f} GiB"
