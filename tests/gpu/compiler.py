"""Kernels compiled to machine code without a GPU or driver, and what they need of one.

A kernel goes through NVVM to PTX, and through nvJitLink to a cubin.  Registers limit how many
blocks are resident; stack (an array indexed at run time) and spills are slow memory where nobody
expects any.  The figures of all kernels are committed as a table, so that a change shows.

What is compiled are the signatures that occur: a `RecordingDevice` runs whole fits in the simulator
and notes what was launched.  To write the table anew, set KERNEL_FIGURES=write and run its test.
"""

from __future__ import annotations

import json
import os
import re
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import pytest
from cuda.bindings import nvjitlink
from numba.cuda import codegen, dispatcher

from .device import SimulatedDevice

CAPABILITIES = ((7, 5), (8, 0), (9, 0), (9, 0, "a"))  # on hardware Hopper compiles for the last
TABLE = Path(__file__).with_name("kernel_figures.json")
# On these, what the system reserves is counted as shared memory of every kernel that has some.
_RESERVED_SHARED = {(9, 0): 1024}


class Figures(NamedTuple):
    """What one thread (registers; bytes of stack and spills) or block (bytes of `shared`) needs."""

    registers: int
    stack: int
    spills: int
    shared: int


class Absent:
    """A device and its context, for who asks for its capability; loads code, and runs none."""

    def __init__(self, capability):
        self.device, self.id, self.compute_capability = self, 0, capability[:2]
        self.loaded = []  # machine code

    def create_module_image(self, cubin, setup, teardown):
        self.loaded.append(cubin.code)
        return SimpleNamespace(initialized=True, get_function=self._get_function)

    def _get_function(self, name):
        return SimpleNamespace(name=name, module=SimpleNamespace(initialized=True))


@contextmanager
def device_of(capability):
    """Have Numba compile for a device that is not there."""
    absent = Absent(capability)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dispatcher, "get_current_device", lambda: absent)
        patch.setattr(codegen.devices, "get_context", lambda: absent)
        yield absent


def target_of(capability):
    return "sm_" + "".join(map(str, capability))


def library_of(kernel, signature, capability):
    """Code of a kernel before NVVM."""
    with device_of(capability):
        return dispatcher._Kernel(kernel.py_func, signature, **kernel.targetoptions).library


def compile_ptx(kernel, signature, capabilities):
    """PTX by capability; types are found once.

    NVVM writes the same for sm_90 as for sm_90a, which a test holds: it runs for one of them.
    """
    library, written = library_of(kernel, signature, capabilities[-1]), {}
    for which in reversed(capabilities):
        like = written.get((*which, "a"))
        if like is None:
            written[which] = library.get_asm_str(cc=(*which, "")[:3])
        else:
            target = target_of(which)
            written[which] = like.replace(f".target {target}a", f".target {target}")
    return written


def _device_runtime():
    """Library of the grid barrier."""
    import nvidia

    for folder in nvidia.__path__:
        for found in Path(folder).rglob("libcudadevrt.a"):
            return found.read_bytes()
    raise FileNotFoundError("libcudadevrt.a is in none of the installed nvidia packages")


def link(ptx, capability):
    """Assemble and link PTX; returns the tool's report."""
    linker = nvjitlink.create(2, [f"-arch={target_of(capability)}", "-verbose"])
    try:
        kinds = nvjitlink.InputType
        parts = [(kinds.PTX, ptx.encode(), "kernel.ptx")]
        if "cudaCG" in ptx:
            parts.append((kinds.LIBRARY, _device_runtime(), "libcudadevrt.a"))
        try:
            for kind, content, name in parts:
                nvjitlink.add_data(linker, kind, content, len(content), name)
            nvjitlink.complete(linker)
        except nvjitlink.nvJitLinkError as error:
            log = bytearray(nvjitlink.get_error_log_size(linker))
            nvjitlink.get_error_log(linker, log)
            raise RuntimeError(log.decode(errors="replace")) from error
        log = bytearray(nvjitlink.get_info_log_size(linker))
        nvjitlink.get_info_log(linker, log)
        return log.decode(errors="replace")
    finally:
        nvjitlink.destroy(linker)


def read_report(report, capability):
    """Figures of the kernel of a report, which also has the functions of linked libraries."""
    entry = re.search(r"Compiling entry function '(\w+)'", report).group(1)
    linked = report[report.index(f"Function properties for '{entry}'") :]
    registers = int(re.search(r"used (\d+) registers", linked).group(1))
    shared = int(re.search(r"(\d+) bytes smem", linked).group(1))
    if shared:
        shared -= _RESERVED_SHARED.get(capability[:2], 0)
    # Only what is compiled here, not what is linked, has lines of this form.
    frames = re.findall(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+)", report)
    stack = max(int(frame[0]) for frame in frames)
    spills = sum(int(frame[1]) + int(frame[2]) for frame in frames)
    return Figures(registers, stack, spills, shared)


def compile_for(kernel, signature, capabilities):
    """Figures of a kernel compiled for the types of its arguments, by architecture."""
    return {
        target_of(which): read_report(link(ptx, which), which)
        for which, ptx in compile_ptx(kernel, signature, capabilities).items()
    }


def compile_kernel(kernel, signature, capability):
    """Figures for one architecture."""
    return compile_for(kernel, signature, (capability,))[target_of(capability)]


def signature_of(kernel, arguments):
    """Types of the arguments of a launch, as Numba finds them."""
    return tuple(kernel.typeof_pyval(argument) for argument in arguments)


def name_of(kernel):
    """Module and name; of a pattern's kernels the pattern and name."""
    plain = kernel.py_func
    *folders, module = plain.__module__.split(".")
    return f"{folders[-1] if 'patterns' in folders else module}.{plain.__qualname__}"


class RecordingDevice(SimulatedDevice):
    """Notes what is launched: `launched` has the kernels for every (name, signature)."""

    def __init__(self, *settings, **named_settings):
        super().__init__(*settings, **named_settings)
        self.launched = {}

    def launch(self, kernel, blocks, threads, arguments, shared_bytes=0):
        signature = signature_of(kernel, self.arrays_of(tuple(arguments)))
        kernels = self.launched.setdefault((name_of(kernel), signature), [])
        if not any(kernel is other for other in kernels):
            kernels.append(kernel)
        super().launch(kernel, blocks, threads, arguments, shared_bytes)


def _each(launched):
    return ((key, kernel) for key, kernels in launched.items() for kernel in kernels)


def compile_launched(launched, capabilities=CAPABILITIES):
    """Figures by kernel name and architecture; of several signatures, the largest of each.

    All kernels that do not compile are reported at once, in an exception group.
    """
    found, errors = {}, []
    for (name, signature), kernel in _each(launched):
        try:
            compiled = compile_for(kernel, signature, capabilities)
        except Exception as error:
            error.add_note(f"{name}, launched with {signature}")
            errors.append(error)
            continue
        targets = found.setdefault(name, {})
        for target, figures in compiled.items():
            targets[target] = Figures(*map(max, figures, targets.get(target, figures)))
    if errors:
        raise ExceptionGroup("kernels that do not compile", errors)
    return found


def read_table(path=TABLE):
    if not path.exists():
        return {}
    table = json.loads(path.read_text(encoding="utf-8"))
    return {
        name: {target: Figures(**figures) for target, figures in targets.items()}
        for name, targets in table.items()
    }


def write_table(found, path=TABLE):
    """Replace the table; one line for each kernel and architecture."""
    kernels = []
    for name, targets in sorted(found.items()):
        lines = [
            f'    "{target}": {json.dumps(figures._asdict())}'
            for target, figures in sorted(targets.items())
        ]
        kernels.append(f"  {json.dumps(name)}: {{\n" + ",\n".join(lines) + "\n  }")
    path.write_text("{\n" + ",\n".join(kernels) + "\n}\n", encoding="utf-8")


def differences(found, table):
    """Sentences that say where figures are not those of the table; none where all are."""
    lines = []
    for name in sorted(found.keys() | table.keys()):
        now, before = found.get(name, {}), table.get(name, {})
        for target in sorted(now.keys() | before.keys()):
            if target not in now or target not in before:
                where = "found" if target in now else "in the table"
                lines.append(f"{name} for {target} is only {where}")
                continue
            for what, new, old in zip(Figures._fields, now[target], before[target], strict=True):
                if new != old:
                    lines.append(f"{name} for {target}: {new} {what}, {old} in the table")
    return lines


def slow_memory(found):
    """Sentences that name kernels with a stack or spills."""
    return [
        f"{name} for {target}: {figures.stack} bytes of stack, {figures.spills} of spills"
        for name, targets in sorted(found.items())
        for target, figures in sorted(targets.items())
        if figures.stack or figures.spills
    ]


def compare_with_table(found, path=TABLE):
    """Differences from the committed table, which is written anew where the environment asks."""
    if os.environ.get("KERNEL_FIGURES") == "write":
        write_table(found, path)
    return differences(found, read_table(path))
