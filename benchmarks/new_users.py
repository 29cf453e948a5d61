"""The example of the documentation, two drugs in a cohort of new users, at full size.

Runs the statements of ``docs/examples/new_users.rst`` with other numbers of persons and codes, and
prints the seconds of those that take long. Its figures are left out.
"""

from __future__ import annotations

import argparse
import doctest
import re
import time
import warnings
from pathlib import Path

from .processes import ROOT
from .report import default_output, machine, number, table, write

PAGE = ROOT / "docs" / "examples" / "new_users.rst"
SIZES = re.compile(r"^n, p = .*$", re.MULTILINE)
SHOWN = 0.5  # seconds
HEADERS = ["statement", "seconds"]


def main(arguments=None):
    """Run the page, print a table, write JSON."""
    options = _read(arguments)
    sizes = f"n, p = {options.rows}, {options.columns}"
    examples = doctest.DocTestParser().get_examples(PAGE.read_text(encoding="utf-8"))
    names, steps, ratios = {}, [], []
    begin = time.perf_counter()
    for example in examples:
        source = SIZES.sub(sizes, example.source)
        if "Display" in source and "import" not in source:
            continue
        start = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            exec(compile(source, str(PAGE), "single"), names)
        steps.append({"statement": source.splitlines()[0], "seconds": time.perf_counter() - start})
    total = time.perf_counter() - begin
    for name, result in names["results"].items():
        ratio, low, high = result.summary().loc["new_drug", names["ratios"]]
        ratios.append({"method": name, "hazard_ratio": ratio, "lower": low, "upper": high})
    content = {"rows": options.rows, "columns": options.columns, "seconds": total}
    content |= {"machine": machine(), "steps": steps, "hazard_ratios": ratios}
    write(options.output, content)
    shown = [step for step in steps if step["seconds"] > SHOWN]
    rows = [[step["statement"][:80], number(step["seconds"], ".1f")] for step in shown]
    print(table(HEADERS, [*rows, ["all", number(total, ".1f")]]))
    for ratio in ratios:
        print("{method}: {hazard_ratio:.3f} ({lower:.3f}, {upper:.3f})".format(**ratio))


def _read(arguments):
    parser = argparse.ArgumentParser(prog="python -m benchmarks.new_users", description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--columns", type=int, default=2_000)
    parser.add_argument("--quick", action="store_true", help="4,000 x 150, as on the page")
    parser.add_argument("--output", type=Path, help="JSON file; by default in results/")
    options = parser.parse_args(arguments)
    options.output = options.output or default_output("new-users", options.quick)
    if options.quick:
        options.rows, options.columns = 4_000, 150
    return options


if __name__ == "__main__":
    main()
