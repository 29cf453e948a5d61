"""Everything that needs a CUDA device, in one command and a few minutes.

Parity with the CPU and compute-sanitizer first, in processes side by side; then, one process at a
time: the chip's ceilings, kernel fusion, the first fit, timings, samplers with their own parity,
and where CPU and device cross.  A part has a share of the minutes, and what an earlier one left of
its own; what finds no time is listed.  The tables come last.  Exit status 1: parity, sanitizer or
samplers failed; 2: no device.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import distributions
from pathlib import Path

from . import gpu_cases, gpu_sanitizer
from .gpu_jobs import Job, module_of, run_job
from .report import RESULTS, machine, table, write

# part -> (module, share of the time); those of one line of STAGES run side by side
PARTS = {
    "parity": ("gpu_parity", 0.36),
    "sanitizer": ("gpu_sanitizer", 0.36),
    "ceilings": ("gpu_ceilings", 0.05),
    "fusion": ("fusion", 0.06),
    "first-fit": ("gpu_first_fit", 0.07),
    "timings": ("gpu_timings", 0.33),
    "bayes": ("gpu_bayes", 0.2),
    "crossover": ("gpu_crossover", 0.08),
}
STAGES = (
    ("parity", "sanitizer"),
    ("ceilings",),
    ("fusion",),
    ("first-fit",),
    ("timings",),
    ("bayes",),
    ("crossover",),
)
MUST_PASS = ("parity", "sanitizer")
ALSO_CHECKED = ("bayes",)
MARGIN = 0.05  # of the minutes, for starting, and ending what is late
NOTE_WIDTH = 100
CUDA_PACKAGES = re.compile(r"numba-cuda|cupy.*|cuda-.*|nvidia-(cuda|cublas|cusolver|nvjitlink).*")


def main(arguments=None):
    """Run the queue, print tables, write JSON; the exit status."""
    options = _read(arguments)
    if options.kernels:
        print(f"{gpu_sanitizer.run_kernels(options.kernels)} fits")
        return 0
    begin = time.monotonic()
    chip = _ask_device(begin + 60.0)
    if "error" in chip:
        print(chip["error"], file=sys.stderr)
        return 2
    path = options.json or RESULTS / f"gpu-{_slug(chip['name'])}.json"
    content = {"machine": {**machine(), **chip, **versions()}, "small": options.small, "parts": {}}
    for stage, deadline in schedule(options.only, begin, 60.0 * options.minutes):
        content["parts"] |= run_stage(stage, deadline, options)
        content["seconds"] = time.monotonic() - begin
        write(path, content)
    print(show(content))
    print(f"written: {os.path.relpath(path)}")
    checked = MUST_PASS + ALSO_CHECKED
    return int(any(fails(part, content["parts"].get(part, {})) for part in checked))


def schedule(parts, begin, seconds):
    """Stages of the chosen parts and when each must end; shares of parts left out are shared out.

    Parts of a stage run side by side and have its share together.
    """
    stages = [[part for part in stage if part in parts] for stage in STAGES]
    shares = [max((PARTS[part][1] for part in stage), default=0.0) for stage in stages]
    scale, passed = (1.0 - MARGIN) * seconds / sum(shares), 0.0
    for stage, share in zip(stages, shares, strict=True):
        passed += share
        if stage:
            yield stage, begin + scale * passed


def run_stage(stage, deadline, options, run=run_job):
    """Results of some parts, whose jobs run side by side where there are several of them."""
    scale = "SMALL" if options.small else "FULL"
    jobs = []
    for part in stage:
        module = module_of(PARTS[part][0])
        for items in module.jobs(getattr(module, scale, None)).values():
            n_threads = 1 if len(stage) > 1 or part in MUST_PASS else None
            jobs.append((part, Job(PARTS[part][0], tuple(items), scale, n_threads)))
    n_jobs = options.jobs if any(part in MUST_PASS for part in stage) else 1
    print(f"{', '.join(stage)}: {len(jobs)} process(es), {n_jobs} at a time", flush=True)
    with ThreadPoolExecutor(n_jobs) as pool:
        done = list(pool.map(lambda job: run(job[1], deadline), jobs))
    results = {part: {} for part in stage}
    for (part, _), result in zip(jobs, done, strict=True):
        results[part] |= result
    return results


def fails(part, results):
    """Whether an item of a part was found wrong or ended in an error."""
    module = module_of(PARTS[part][0])
    return any(module.failed(result) for result in results.values())


# -- the machine ------------------------------------------------------------------------------


def _ask_device(deadline):
    """Name and sizes of the device, asked in a process of its own."""
    results = run_job(Job("gpu", ("device",), "FULL", 1), deadline)
    return results["device"]


ITEM_LIMIT = 60.0


def measure(item, scale):
    """What the device says of itself."""
    from sksurvgpu.backends import choose
    from sksurvgpu.exceptions import BackendUnavailableError

    try:
        device = choose("cuda").device
    except BackendUnavailableError as error:
        return {"error": str(error)}
    return {
        "name": device.name,
        "multiprocessors": device.n_multiprocessors,
        "shared_bytes": device.shared_bytes,
        "free_bytes": device.free_bytes(),
    }


def versions():
    """Of the driver, of CUDA's packages, of the sanitizer."""
    packages = {d.metadata["Name"]: d.version for d in distributions() if d.metadata["Name"]}
    found = {name: v for name, v in packages.items() if CUDA_PACKAGES.fullmatch(name.lower())}
    sanitizer = gpu_sanitizer.find_tool()
    return {
        "driver": _ask_driver(),
        "cuda": dict(sorted(found.items())),
        "sanitizer": None if sanitizer is None else gpu_sanitizer.version(sanitizer),
    }


def _ask_driver():
    """Driver's version, and the newest CUDA that it runs."""
    from sksurvgpu.show_versions import _ask_driver as ask

    answer = {"cuda": ask().version}
    if shutil.which("nvidia-smi"):
        command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        answer["version"] = done.stdout.strip().splitlines()[0] if done.stdout.strip() else None
    return answer


def _slug(name):
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


# -- the tables -------------------------------------------------------------------------------


def show(content):
    """All tables, after a line on the machine."""
    chip = content["machine"]
    versions_ = ", ".join(f"{k} {v}" for k, v in chip["cuda"].items() if k.startswith("numba"))
    head = (
        f"\n{chip['name']}, {chip['multiprocessors']} multiprocessors; driver {chip['driver']}; "
        f"{versions_}; {chip['date']}; {content['seconds']:.0f} s"
    )
    parts = [_show_part(part, results) for part, results in content["parts"].items()]
    return "\n\n".join([head, *parts]) + "\n"


def _show_part(part, results):
    module, rows = module_of(PARTS[part][0]), []
    for item, result in results.items():
        rows.append(_row_of(module, item, result))
    if hasattr(module, "footer"):
        rows += module.footer()
    text = table(module.HEADERS, rows)
    return f"{text}\n{module.footer_of(results)}" if hasattr(module, "footer_of") else text


def _row_of(module, item, result):
    """Row of an item; one that has no result says why."""
    reason = None
    if "not_run" in result:
        reason = f"not run: {result['not_run']}"
    elif "error" in result:
        lines = result["error"].strip().splitlines() or ["?"]
        reason = f"ERROR: {lines[-1]}"
    if reason is None:
        *cells, note = module.row(item, result)
    else:
        cells, note = [item, *["-"] * (len(module.HEADERS) - 2)], reason
    return [*cells, note if len(note) <= NOTE_WIDTH else note[: NOTE_WIDTH - 3] + "..."]


def _read(arguments):
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__)
    parser.add_argument("--only", type=_parts, default=list(PARTS), help="parts, by commas")
    parser.add_argument("--json", type=Path, help="by default results/gpu-<chip>.json")
    parser.add_argument("--small", action="store_true", help="small problems, few repeats")
    parser.add_argument("--minutes", type=float, default=9.0, help="at most, in all")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 2
    parser.add_argument("--jobs", type=int, default=cores, help="processes of parity and sanitizer")
    parser.add_argument(
        "--kernels", choices=gpu_cases.MODELS, help="only launch a model's kernels, for a sanitizer"
    )
    return parser.parse_args(arguments)


def _parts(text):
    chosen = [part.strip() for part in text.split(",")]
    unknown = sorted(set(chosen) - set(PARTS))
    if unknown:
        raise argparse.ArgumentTypeError(
            f"{', '.join(unknown)}: not a part; these are {', '.join(PARTS)}"
        )
    return chosen


if __name__ == "__main__":
    sys.exit(main())
