"""From which size on the device wins: the same calls there and on all cores of the CPU.

Times are of whole calls, as in `papers`.  The rule of ``backend="auto"`` is made of them::

    python -m benchmarks.gpu.crossover call0.json call1.json papers.json --output crossover.json

takes the device's name, what the first fit of a process costs besides, and the times from the
files of the day.
"""

from __future__ import annotations

import argparse
import json
import warnings
from dataclasses import replace
from pathlib import Path

from . import papers, problems
from .day import Part

WIDTH = 1_000


class Crossover(Part):
    """Batches on the CPU and on the device, from small ones on."""

    limit = 100.0
    table = "nonzeros x fits=work:,d | CPU s=cpu_s:.4f | CUDA s=cuda_s:.4f | CPU / CUDA=ratio:.2f"

    def jobs(self, sizes):
        """By work, so that what finds no time are the largest."""
        width = sizes.width or WIDTH
        pairs = [(n, fits) for n in sizes.crossing_rows for fits in sizes.crossing_fits]
        work = {pair: pair[0] * pair[1] * width * problems.DENSITY for pair in pairs}
        kept = sorted((w, pair) for pair, w in work.items() if w <= sizes.most_work)
        return [tuple(f"rows {n}, fits {fits}" for _, (n, fits) in kept)]

    def measure(self, item, sizes):
        n, n_fits = (int(part.split()[1]) for part in item.split(", "))
        sizes, call = replace(sizes, fits=n_fits), "fit" if n_fits == 1 else "folds"
        data = papers.draw("cox", n, sizes.width or WIDTH)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            seconds = {
                backend: papers.time_call("cox", call, data, data, sizes, backend=backend)[0]
                for backend in ("cpu", "cuda")
            }
        return {
            "work": data[0].nnz * n_fits,
            "cpu_s": seconds["cpu"],
            "cuda_s": seconds["cuda"],
            "ratio": seconds["cpu"] / seconds["cuda"],
        }

    def footer(self, results):
        """From where on the device always won, warm."""
        measured = sorted((r["work"], r["ratio"]) for r in results.values() if "work" in r)
        found = None
        for work, ratio in reversed(measured):
            if ratio <= 1.0:
                break
            found = work
        return "CUDA wins nowhere" if found is None else f"CUDA wins from {found:,} on"


def rule_of(contents):
    """Rule of ``backend="auto"``: the device, seconds of a start from disk, and every time."""
    found = {name: part for content in contents for name, part in content["parts"].items()}
    start = next(r for item, r in found["start"].items() if item == "majorized, warm")
    times = [r for r in found["crossover"].values() if "work" in r]
    return {
        "device": found["chip"]["device"]["name"],
        "start": start["import_s"] + start["first_s"] - start["second_s"],
        "fits": sorted([r["work"], r["cpu_s"], r["cuda_s"]] for r in times),
    }


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--output", type=Path, required=True)
    options = parser.parse_args(arguments)
    rule = rule_of([json.loads(path.read_text(encoding="utf-8")) for path in options.files])
    options.output.write_text(json.dumps(rule, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
