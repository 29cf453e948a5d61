"""Matching treated persons with comparators by their propensity scores, however these lie.

Every case is matched twice, since the first time may compile; seconds are of the processor, so that
other work on the machine does not count, and of the clock.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import pandas as pd

from sksurvgpu.cohort import Cohort, match

from .report import default_output, machine, number, table, write


def main(arguments=None):
    options = _read(arguments)
    results = []
    for name, (persons, arguments) in cases(options.persons).items():
        cohort = Cohort.of(persons)
        matched, *seconds = _timed(lambda cohort=cohort, given=arguments: match(cohort, **given))
        size = {"persons": len(persons), "matched": len(matched.rows)}
        results.append({"case": name, **size, "processor": seconds[0], "clock": seconds[1]})
    lines = [
        [
            result["case"],
            number(result["persons"], ",d"),
            number(result["matched"], ",d"),
            number(result["processor"], ".2f"),
            number(result["clock"], ".2f"),
        ]
        for result in results
    ]
    print(table(["case", "persons", "matched", "CPU s", "s"], lines))
    write(options.output, {"machine": machine(), "results": results})


def cases(n):
    """Persons by name of the case, and how they are matched."""
    rng = np.random.default_rng(0)

    def draw(share, score):
        columns = {"id": np.arange(n), "treatment": rng.random(n) < share, "score": score}
        return pd.DataFrame(columns).assign(site=rng.integers(0, 50, n))

    apart = draw(0.5, 0.0)
    apart["score"] = np.where(apart["treatment"], 0.3, 0.6) * rng.uniform(0.9, 1.0, n)
    confounded = draw(0.0, rng.beta(2, 4, n))
    confounded["treatment"] = rng.random(n) < confounded["score"]
    return {
        "1:1": (confounded, {}),
        "1:1 within sites": (confounded, {"exact": "site"}),
        "1:4": (draw(0.2, rng.random(n)), {"ratio": 4}),
        "1:1, largest first": (confounded, {"order": "largest"}),
        "all scores equal": (draw(0.5, 0.3), {}),
        "arms apart, no caliper": (apart, {"caliper": None}),
        "1 in 100 treated, 1:any": (draw(0.01, rng.random(n)), {"ratio": None, "caliper": None}),
        "99 in 100 treated": (draw(0.99, rng.random(n)), {"caliper": None}),
    }


def _timed(call):
    call()
    begin, processor = time.perf_counter(), time.process_time()
    result = call()
    return result, time.process_time() - processor, time.perf_counter() - begin


def _read(arguments):
    parser = argparse.ArgumentParser(prog="python -m benchmarks.matching", description=__doc__)
    parser.add_argument("--persons", type=int, default=1_000_000)
    parser.add_argument("--quick", action="store_true", help="50,000 persons")
    parser.add_argument("--output", type=Path, help="JSON file; by default in results/")
    options = parser.parse_args(arguments)
    options.output = options.output or default_output("matching", options.quick)
    if options.quick:
        options.persons = 50_000
    return options


if __name__ == "__main__":
    main()
