"""First looks at a device: what is installed, and whether a fit is right."""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from importlib.metadata import distributions

import numpy as np

from sksurvgpu import backends
from sksurvgpu.backends import cpu
from sksurvgpu.solver.fits import Fits, Options
from sksurvgpu.solver.problem import Batch

from ..report import PACKAGES
from . import ceilings, problems
from .day import Part
from .parity import find_tool

CUDA_PACKAGES = re.compile(r"numba-cuda|cupy.*|cuda-.*|torch|nvidia-(cuda|cublas|cusolver|nv).*")
LAUNCHES = 50


class Chip(Part):
    """Packages that are installed, which libraries answer, whether the least things work.

    Each item says what the package needs and could lack: a compiler, a linker and a driver that fit
    each other, a barrier of all blocks, more shared memory than the default, quick launches.
    """

    limit = 30.0
    table = "=value"

    def jobs(self, sizes):
        """A process each: what one breaks is not there for the next."""
        return [(item,) for item in MEASURES]

    def measure(self, item, sizes):
        return MEASURES[item](sizes)


def _open():
    return backends.choose("cuda").device


def ask_packages(sizes):
    packages = {d.metadata["Name"]: d.version for d in distributions() if d.metadata["Name"]}
    kept = {
        name: version
        for name, version in sorted(packages.items())
        if name in PACKAGES or CUDA_PACKAGES.fullmatch(name.lower())
    }
    missing = [name for name in (*PACKAGES, "numba-cuda") if name not in packages]
    note = f"missing: {', '.join(missing)}" if missing else "all that fits need"
    return {"value": f"{len(kept)} packages", "packages": kept, "missing": missing, "note": note}


def ask_libraries(sizes):
    """Versions of compiler, linker and driver; the newer must not be the compiler's."""
    from cuda.bindings import nvjitlink, nvvm

    from sksurvgpu.show_versions import _ask_driver

    def name(version):
        return ".".join(map(str, version))

    found = {
        "nvvm": name(nvvm.version()),
        "nvvm_ir": name(nvvm.ir_version()),
        "nvjitlink": name(nvjitlink.version()),
        "driver": _ask_driver().version,
        "driver_version": _ask_smi(),
    }
    note = ", ".join(f"{key} {value}" for key, value in found.items())
    return {"value": "", "libraries": found, "note": note}


def _ask_smi():
    if not shutil.which("nvidia-smi"):
        return None
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip().splitlines()[0] if done.stdout.strip() else None


def ask_tools(sizes):
    tools = {"ncu": shutil.which("ncu"), "compute-sanitizer": find_tool()}
    there = [name for name, path in tools.items() if path]
    return {"value": "", "tools": there, "note": ", ".join(there) or "neither ncu nor sanitizer"}


def ask_device(sizes):
    device = _open()
    found = {
        "name": device.name,
        "multiprocessors": device.n_multiprocessors,
        "shared_bytes": device.shared_bytes,
        "free_bytes": device.free_bytes(),
    }
    return {"value": device.name, "note": str(found), **found}


def meet(sizes):
    """Barriers of two blocks that both come back from them, and what one costs."""
    return {"value": _shown(ceilings.latency(_open(), "barrier", 2, sizes), "barrier of 2 blocks")}


def opt_in(sizes):
    """A block with all the shared memory that the device allows."""
    device = _open()
    n = 2 ** int(np.log2((device.shared_bytes - 4_096) // 8))
    index = device.upload(np.arange(sizes.threads, dtype=np.int32) * 7 % n)
    out = device.zeros((1, n), np.float64)
    device.launch(ceilings.gather_shared, 1, sizes.threads, (index, 1, out), 8 * n)
    total = float(device.download(out).sum())
    return {"value": f"{8 * n:,} bytes", "passed": total == sizes.threads}


def launch(sizes):
    """Host time of one warm launch, with one array and with many in a tuple."""
    device, seconds = _open(), {}
    for n in (1, 40):
        arrays = tuple(device.zeros(1, np.float64) for _ in range(n))
        device.launch(ceilings.do_nothing, 1, sizes.threads, (arrays, 1))
        begin = time.perf_counter()
        for _ in range(LAUNCHES):
            device.launch(ceilings.do_nothing, 1, sizes.threads, (arrays, 1))
        seconds[n] = (time.perf_counter() - begin) / LAUNCHES
        device.download(arrays[0])
    note = ", ".join(f"{n} array(s): {1e6 * s:.0f} us" for n, s in seconds.items())
    return {"value": _shown(seconds[1], "launch"), "host_us": 1e6 * seconds[40], "note": note}


def _shown(seconds, what):
    return f"{what}: not resident" if seconds is None else f"{what}: {1e6 * seconds:.2f} us"


MEASURES = {
    "packages": ask_packages,
    "libraries": ask_libraries,
    "tools": ask_tools,
    "device": ask_device,
    "barrier": meet,
    "shared memory": opt_in,
    "launch": launch,
}


ROWS, WIDTH, FITS = 20_000, 200, 3
COEF, OBJECTIVE = 1e-5, 1e-8  # largest relative differences at the default tolerance


class Smoke(Part):
    """The first fit on the device, against the CPU: whether anything else is worth measuring."""

    table = (
        "first s=first_s:.2f | second s=second_s:.4f | CPU s=cpu_s:.3f | coef:.1e | "
        "objective:.1e | iter=iterations:d | CPU iter=cpu_iterations:d | bitwise"
    )

    def jobs(self, sizes):
        return [("majorized",), ("exact",)]

    def measure(self, item, sizes):
        return smoke(item, sizes)


def smoke(item, sizes):
    """Three fits of a batch, twice on the device (the same bits?), once on the CPU."""
    n, p = max(ROWS // sizes.shrink, 60), sizes.width or WIDTH
    problem = problems.cox_problem(n, p)
    weight = np.ones((n, FITS))
    weight[:, 1:] = np.random.default_rng(0).integers(3, size=(n, FITS - 1))
    batch = Batch(np.full((1, FITS), sizes.penalty), weight=weight)
    options = Options(algorithm=item, max_iter=sizes.max_iter)
    runs, seconds = [], []
    for backend in (backends.choose("cuda"), backends.choose("cuda"), cpu):
        begin = time.perf_counter()
        runs.append([path[0] for path in Fits(problem, batch, backend, options).solve()])
        seconds.append(time.perf_counter() - begin)
    found, again, expected = runs
    coef, objective = (_difference(found, expected, name) for name in ("coef", "objective"))
    same = all(np.array_equal(a.coef, b.coef) for a, b in zip(found, again, strict=True))
    ended = all(solution.converged for solution in (*found, *expected))
    return {
        "first_s": seconds[0],
        "second_s": seconds[1],
        "cpu_s": seconds[2],
        "coef": coef,
        "objective": objective,
        "iterations": max(solution.n_iter for solution in found),
        "cpu_iterations": max(solution.n_iter for solution in expected),
        "bitwise": "yes" if same else "no",
        "passed": bool(np.isfinite(coef) and objective <= OBJECTIVE and coef <= COEF) or not ended,
        "note": "" if ended else "not all converged",
    }


def _difference(found, expected, name):
    """Largest, relative to the largest number of each fit."""
    pairs = [(getattr(a, name), getattr(b, name)) for a, b in zip(found, expected, strict=True)]
    return max(float(np.max(np.abs(a - b)) / max(np.max(np.abs(b)), 1e-300)) for a, b in pairs)
