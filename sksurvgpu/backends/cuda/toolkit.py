"""Which driver, toolkit and linker go together; versions are pairs of numbers.

NVVM writes PTX of its toolkit's version, which older linkers refuse.  Machine code of a toolkit
runs on drivers of the same major version and on later ones.
"""

import re
from functools import cache

OLDEST = 12  # CUDA, of which the package has an extra
ANY_DEVICE = "compute_75"  # architecture that every supported NVVM knows


def linker_version():
    """Version of nvJitLink, or None where the driver links."""
    from cuda.bindings import nvjitlink

    try:
        return nvjitlink.version()
    except Exception:  # of a kind that differs between versions of the bindings
        return None


@cache
def compiler_version(nvvm):
    """Version of the toolkit of NVVM, which its PTX names; None where that is missing.

    NVRTC, which Numba asks, may be of another one.
    """
    try:
        compiler = nvvm.NVVM()
        numbers = ", ".join(f"i32 {n}" for n in compiler.get_ir_version())
        layout = f'target datalayout = "{compiler.data_layout}"'
        parts = 'target triple = "nvptx64-nvidia-cuda"', layout, "!nvvmir.version = !{!0}"
        ptx = nvvm.compile_ir("\n".join([*parts, f"!0 = !{{{numbers}}}"]), arch=ANY_DEVICE)
    except Exception:  # of a kind that differs between versions of the bindings
        return None
    return tuple(map(int, re.search(rb"release (\d+)\.(\d+)", ptx).groups()))


def misfit(driver, toolkit, linker):
    """Say what does not go together and what to install, or None.

    `toolkit` is that of NVVM; it and `linker` are None if missing.
    """
    if toolkit is None:
        return None  # what was compiled before still runs
    if toolkit[0] > driver[0]:
        older = f'"sksurvgpu[cuda{driver[0]}]" or ' if driver[0] >= OLDEST else ""
        return (
            f"the installed CUDA toolkit is {_name(toolkit)} and the driver supports CUDA up to "
            f"{_name(driver)}; install {older}a newer driver"
        )
    reader, known = ("the driver", driver) if linker is None else ("nvJitLink", linker)
    if known < toolkit:
        return (
            f"{reader} reads code of CUDA up to {_name(known)} and NVVM writes that of "
            f'{_name(toolkit)}; run: pip install "nvidia-nvjitlink{_suffix(toolkit)}'
            f'>={_name(toolkit)}"'
        )
    return None


def _name(version):
    return ".".join(map(str, version))


def _suffix(toolkit):
    """How wheels of CUDA 12 are called; those of later ones carry no number."""
    return "-cu12" if toolkit[0] == 12 else ""
