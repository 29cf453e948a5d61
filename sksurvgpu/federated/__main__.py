"""``python -m sksurvgpu.federated``: a site, or a coordinator, over a shared folder."""

from __future__ import annotations

import argparse
import json
import os
import sys
from importlib import import_module
from pathlib import Path

import numpy as np

from .coordinator import Coordinator
from .files import Mailbox, only_one, serve
from .rules import Rules
from .site import Site


def main(arguments=None, wait=None) -> int:
    """Run the command line; `wait` is called between looks into the folder."""
    given = vars(_parser().parse_args(arguments))
    run, folder = given.pop("run"), given.pop("folder")
    waiting = {"timeout": given.pop("timeout")} | ({} if wait is None else {"wait": wait})
    try:
        run(folder, waiting, **given)
    except (ValueError, TypeError, TimeoutError, RuntimeError, ImportError, OSError) as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    return 0


def _parser():
    parser = argparse.ArgumentParser(prog="python -m sksurvgpu.federated", description=__doc__)
    commands = parser.add_subparsers(required=True)
    site = commands.add_parser("site", help="answer messages in FOLDER/NAME")
    site.set_defaults(run=run_site)
    site.add_argument("--name", required=True)
    site.add_argument(
        "--rows", required=True, metavar="MODULE:FUNCTION",
        help="function of yours that returns a dict of the arguments of fit: X, y, ...",
    )  # fmt: skip
    site.add_argument("--rules", type=json.loads, default={}, help='JSON, as {"min_rows": 20}')
    site.add_argument("--log", help="file to which a line is added for every message")
    site.add_argument("--secret", help="file of the site's secret; made where there is none")
    site.add_argument("--approve", action="store_true", help="ask before an answer leaves")
    fit = commands.add_parser("coordinator", help="fit over the sites NAME ... of FOLDER")
    fit.set_defaults(run=run_coordinator)
    fit.add_argument("--sites", nargs="+", required=True)
    fit.add_argument("--estimator", required=True, help="such as CoxLassoCCD")
    fit.add_argument("--parameters", type=json.loads, default={}, help='JSON: {"alpha": 0.01}')
    fit.add_argument(
        "--grid", nargs=3, type=float, metavar=("FIRST", "LAST", "STEP"),
        help="times that the fit may tell apart",
    )  # fmt: skip
    fit.add_argument("--rows-per-time", type=int, default=30)
    fit.add_argument("--level", default="diagonal")
    fit.add_argument("--matrix-of")
    fit.add_argument("--out", required=True, help="CSV file of the coefficients")
    for command in (site, fit):
        command.add_argument("folder")
        command.add_argument("--timeout", type=float, default=86_400.0, help="seconds to wait")
    return parser


def run_site(folder, waiting, *, name, rows, rules, log, secret, approve):
    """Answer messages until none comes any more."""
    module, _, function = rows.partition(":")
    arguments = getattr(import_module(module), function)()
    options = {"rules": Rules(**rules), "log": log, "secret": _secret_of(secret)}
    site = Site(**arguments, name=name, **options)
    asks = _ask_user if approve else None
    serve(Mailbox(folder, name, **waiting), lambda message: site.answer(message, asks))


def _secret_of(path):
    if path is None:
        return None
    if not Path(path).exists():
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(os.urandom(16))
    return Path(path).read_bytes()


def _ask_user(answer):
    print(f"{answer}\nRelease this answer? [y/N] ", end="", flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def run_coordinator(folder, waiting, *, sites, estimator, parameters, grid, out, **options):
    """Fit, and write the coefficients."""
    model = getattr(import_module("sksurvgpu"), estimator)(**parameters)
    send = {name: Mailbox(folder, name, **waiting).send for name in sites}
    if grid is not None:
        first, last, step = grid
        options["grid"] = np.arange(first, last + step / 2, step)
    with only_one(folder):
        coordinator = Coordinator(model, send, **options)
        fitted = coordinator.fit()
    fitted.summary().to_csv(out)
    print("\n".join(_told(coordinator, len(options.get("grid", ())), options["rows_per_time"])))
    down, up = (n_bytes / 1e6 for n_bytes in coordinator.n_bytes_)
    print(
        f"{fitted.n_iter_} iterations, {fitted.n_exchanges_} exchanges, {down:.2f} MB to sites and "
        f"{up:.2f} MB from them; written: {Path(out).resolve()}"
    )


def _told(coordinator, n_asked, rows_per_time):
    """Lines on what was fitted that was not asked for: fewer times, columns, strata."""
    grid, why = coordinator.grid_, f"as each site has {rows_per_time} rows or more of each kind"
    if isinstance(grid, dict):
        n_times = [len(times) for times in grid.values()]
        few, many = min(n_times), max(n_times)
        yield f"{few} to {many} of {n_asked} times in each of {len(grid)} strata, {why}"
    elif len(grid):
        yield f"{len(grid)} of {n_asked} times, from {grid[0]:g} to {grid[-1]:g}, {why}"
    for name, columns in coordinator.absent_.items():
        if columns:
            yield f"zero at site {name}, where few rows have them: {', '.join(columns)}"
    for name, n_strata in coordinator.left_out_.items():
        if n_strata:
            yield f"left out at site {name}: {n_strata} strata of few rows"


if __name__ == "__main__":
    sys.exit(main())
