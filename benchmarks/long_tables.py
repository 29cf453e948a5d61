"""Reading long tables, and choosing rows of what was read.

One line a row and covariate, with 64-bit identifiers; covariate j is drawn with a frequency
proportional to (j + 1)^-0.7. Five million lines have strings in place of the integers. Every case
is read twice, since the first time may compile.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

from sksurvgpu import from_long

from .report import default_output, machine, number, table, write

DECAY = 0.7
TEXT_LINES, TEXT_ROWS = 5_000_000, 1_000_000


def main(arguments=None):
    options = _read(arguments)
    results = []
    persons, codes = draw(options.lines, options.rows, options.covariates)
    shuffled = codes.sample(frac=1.0, random_state=0, ignore_index=True)
    valued = shuffled.assign(value=np.random.default_rng(1).random(len(codes)))
    for name, lines in {"by row": codes, "shuffled": shuffled, "with values": valued}.items():
        data, seconds = _timed(lambda lines=lines: from_long(persons, lines, duplicates="max"))
        results.append({"case": f"read, {name}", "entries": len(lines), **seconds})
    few, many = min(options.lines, TEXT_LINES), min(options.rows, TEXT_ROWS)
    names, lines = as_text(*draw(few, many, options.covariates))
    for name, make in forms(lines).items():
        _, seconds = _timed(lambda make=make: from_long(names, make(), duplicates="max"))
        results.append({"case": f"strings, {name}", "entries": few, **seconds})
    rng, n = np.random.default_rng(2), options.rows
    for name, rows in {
        "mask": rng.random(n) < 0.8,
        "permutation": rng.permutation(n)[: n * 4 // 5],
        "bootstrap": rng.integers(0, n, n),
    }.items():
        _, seconds = _timed(lambda rows=rows: data.X[rows])
        entries = data.report.n_entries
        results.append({"case": f"rows, {name}", "entries": entries, **seconds})
    lines = [
        [
            result["case"],
            number(result["entries"], ",d"),
            number(result["seconds"], ".2f"),
            number(result["cpu_seconds"], ".2f"),
            number(1e9 * result["seconds"] / result["entries"], ".0f"),
        ]
        for result in results
    ]
    print(table(["case", "lines or entries", "s", "CPU s", "ns each"], lines))
    write(options.output, {"machine": machine(), "results": results})


def draw(n_lines, n_rows, n_covariates):
    """Outcomes without anything but identifiers, and lines sorted by row."""
    rng = np.random.default_rng(0)
    row_ids = rng.permutation(n_rows) * 1_000_003
    covariate_ids = rng.permutation(n_covariates) * 1_000 + 210
    ends = np.cumsum(np.arange(1, n_covariates + 1) ** -DECAY)
    covariates = np.searchsorted(ends, ends[-1] * rng.random(n_lines))
    rows = np.sort(rng.integers(0, n_rows, n_lines))
    codes = {"row_id": row_ids[rows], "covariate_id": covariate_ids[covariates]}
    return pd.DataFrame({"row_id": row_ids}), pd.DataFrame(codes)


def as_text(persons, codes):
    """The same tables with strings for identifiers, an object each, and lines in any order."""
    codes = codes.sample(frac=1.0, random_state=0, ignore_index=True)
    rows = "person-" + codes["row_id"].astype(str)
    lines = pd.DataFrame(
        {"row_id": rows, "covariate_id": "code-" + codes["covariate_id"].astype(str)}
    )
    return pd.DataFrame({"row_id": "person-" + persons["row_id"].astype(str)}), lines


def forms(lines):
    """What makes the lines, in the forms that strings come in; streams are read once."""
    arrow = pa.table(lines)
    tables = {
        "pandas objects": lines,
        "pandas Arrow": lines.astype("string[pyarrow]"),
        "polars": pl.DataFrame(lines.to_dict("list")),
        "Arrow": arrow,
    }
    made = {name: lambda form=form: form for name, form in tables.items()}
    return made | {"DuckDB": lambda: duckdb.connect().from_arrow(arrow)}


def _timed(call):
    call()
    begin, cpu = time.perf_counter(), time.process_time()
    result = call()
    return result, {
        "seconds": time.perf_counter() - begin,
        "cpu_seconds": time.process_time() - cpu,
    }


def _read(arguments):
    parser = argparse.ArgumentParser(prog="python -m benchmarks.long_tables", description=__doc__)
    parser.add_argument("--lines", type=int, default=50_000_000)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--covariates", type=int, default=20_000)
    parser.add_argument("--quick", action="store_true", help="1 million lines, 50,000 rows")
    parser.add_argument("--output", type=Path, help="JSON file; by default in results/")
    options = parser.parse_args(arguments)
    options.output = options.output or default_output("long_tables", options.quick)
    if options.quick:
        options.lines, options.rows, options.covariates = 1_000_000, 50_000, 2_000
    return options


if __name__ == "__main__":
    main()
