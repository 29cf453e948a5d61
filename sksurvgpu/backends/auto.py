"""Where ``backend="auto"`` computes: on a device from as much work on as was measured to pay.

Work is the number of nonzeros of X (of all rows of dense columns) times the number of fits.  What
was measured lies in one file of the package, `TABLE`, as JSON::

    {
      "device": "NVIDIA H200, CUDA 13.0",    what `reason` calls it
      "start": 0.9,                          seconds before the first fit of a process on it:
                                             libraries, context, machine code from disk
      "fits": [[5e4, 0.004, 0.011], ...]     work, seconds on all cores of the CPU, on the device
    }

Every fit is counted as the first of its process.  ``python -m benchmarks.gpu papers`` measures it,
and ``benchmarks.gpu.crossover`` writes the file; without it the CPU is taken.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

TABLE = Path(__file__).with_name("crossover.json")
_CPU = 'backend="auto" takes the CPU'


class Crossover(NamedTuple):
    """Least work from which on a device always won, None where it did not; and which device."""

    work: float | None
    device: str


def read_crossover() -> Crossover | None:
    """Measured crossover, or None."""
    if not TABLE.exists():
        return None
    table = json.loads(TABLE.read_text(encoding="utf-8"))
    pays = None
    for work, on_cpu, on_device in sorted(table["fits"], reverse=True):
        if on_cpu <= table["start"] + on_device:
            break
        pays = work
    return Crossover(pays, table["device"])


def decide(work: float | None, find_obstacle: Callable[[], str | None]) -> tuple[str, str]:
    """Backend for some work, and why; `find_obstacle` says why a device cannot be used, if so."""
    measured = read_crossover()
    if measured is None:
        return "cpu", f'{_CPU}: from which size on backend="cuda" is faster is not known yet'
    if measured.work is None:
        return "cpu", f'{_CPU}: backend="cuda" won nowhere, measured on {measured.device}'
    pays = f'backend="cuda" pays from {measured.work:,.0f} nonzeros times fits on'
    pays += f", measured on {measured.device}"
    if work is None:
        return "cpu", f"{_CPU} where work is not known: {pays}"
    if work < measured.work:
        return "cpu", f"{_CPU}, for {work:,.0f} nonzeros times fits: {pays}"
    if obstacle := find_obstacle():
        return "cpu", f"{_CPU}, though {pays}: {obstacle}"
    return "cuda", f'backend="auto" takes the device, for {work:,.0f} nonzeros times fits: {pays}'
