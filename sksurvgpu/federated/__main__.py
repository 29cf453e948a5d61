"""``python -m sksurvgpu.federated``: a site, or a coordinator, over a shared folder."""

from __future__ import annotations

import argparse
import json
import os
import sys
from functools import partial
from importlib import import_module
from pathlib import Path

import numpy as np

from .coordinator import Coordinator
from .files import Mailbox, only_one, serve
from .forms import printable
from .keys import Identity
from .noise import Noise
from .rules import Rules
from .site import Site

EVERY = 10  # sums, of which a site says how many there were


def main(arguments=None, wait=None) -> int:
    """Run the command line; `wait` is called between looks into the folder."""
    given = vars(_parser().parse_args(arguments))
    run = given.pop("run")
    if "folder" in given:
        waiting = {"timeout": given.pop("timeout")} | ({} if wait is None else {"wait": wait})
        given |= {"folder": Path(given["folder"]).resolve(), "waiting": waiting}
    try:
        run(**given)
    except (ValueError, TypeError, RuntimeError, ImportError, AttributeError, OSError) as error:
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
    site.add_argument("--key", help="file of the site's key; made where there is none")
    site.add_argument(
        "--peers", type=json.loads, metavar="JSON",
        help='fingerprints of the other sites\' keys, as {"Kyoto": "0123-..."}',
    )  # fmt: skip
    site.add_argument("--ledger", help="file of what was told, by which limits survive a restart")
    site.add_argument("--approve", action="store_true", help="ask before taking part in a fit")
    key = commands.add_parser("key", help="fingerprint of the key of FILE, made if there is none")
    key.set_defaults(run=run_key)
    key.add_argument("file")
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
    fit.add_argument(
        "--then", type=json.loads, default=[], metavar="JSON",
        help='what follows the fit, as [["wald", {}]]; its table is written, too',
    )  # fmt: skip
    fit.add_argument(
        "--noise", type=_noise_of, metavar="JSON",
        help='differential privacy, as {"epsilon": 4, "norm": 1.5}',
    )  # fmt: skip
    fit.add_argument("--checkpoint", help="file by which a fit that was stopped goes on")
    fit.add_argument("--level", default="diagonal")
    fit.add_argument("--matrix-of")
    fit.add_argument("--out", required=True, help="CSV file of the coefficients")
    for command in (site, fit):
        command.add_argument("folder")
        command.add_argument("--timeout", type=float, default=86_400.0, help="seconds to wait")
    return parser


def run_site(folder, waiting, *, name, rows, rules, approve, secret, **options):
    """Answer messages until none comes any more."""
    module, _, function = rows.partition(":")
    arguments = getattr(import_module(module), function)()
    options |= {"rules": Rules(**rules), "secret": _secret_of(secret)}
    site = Site(**arguments, name=name, **options)
    print(f"Site {name!r} waits in {folder}; its key is {site.identity.fingerprint}", flush=True)
    accept = _ask_user if approve else _show
    serve(Mailbox(folder, name, **waiting), lambda message: _answer(site, message, accept))


def _answer(site, message, accept):
    """Answer a message, and say how far the fit is."""
    before, had = site.n_exchanges_, site.model_
    answer = site.answer(message, accept)
    if site.model_ is not had:
        print(f"The fit is done, after {site.n_exchanges_} sums.", flush=True)
    elif site.n_exchanges_ > before and site.n_exchanges_ % EVERY == 0:
        print(f"{site.n_exchanges_} sums", flush=True)
    return answer


def run_key(file):
    """Print the fingerprint of a key."""
    print(Identity.load(file).fingerprint)


def _noise_of(text):
    """Noise of its JSON."""
    try:
        return Noise(**json.loads(text))
    except TypeError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _secret_of(path):
    if path is None:
        return None
    if not Path(path).exists():
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(os.urandom(16))
    return Path(path).read_bytes()


def _show(programme):
    print(programme, flush=True)
    return True


def _ask_user(programme):
    print(f"{programme}\nTake part? [y/N] ", end="", flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def run_coordinator(folder, waiting, *, sites, estimator, parameters, grid, out, **options):
    """Fit, and write the coefficients."""
    if not Path(out).resolve().parent.is_dir():
        raise ValueError(f"`--out` {out!r} is in a folder that is not there; make it first.")
    model = getattr(import_module("sksurvgpu"), estimator)(**parameters)
    boxes = {name: Mailbox(folder, name, **waiting) for name in sites}
    send = {name: partial(_send, box, name == sites[-1]) for name, box in boxes.items()}
    if grid is not None:
        first, last, step = grid
        if not (step > 0 and first <= last):
            raise ValueError(f"`--grid` is {grid}; pass FIRST LAST STEP, as in 50 1000 50.")
        options["grid"] = np.arange(first, last + step / 2, step)
    with only_one(folder):
        coordinator = Coordinator(model, send, **options)
        fitted = coordinator.fit()
    fitted.summary().to_csv(out)
    written = [Path(out).resolve()]
    functions = [function for function, _ in options["then"]]
    for k, (function, result) in enumerate(zip(functions, coordinator.results_, strict=True), 1):
        again = functions[:k].count(function)
        name = f"{written[0].stem}-{function}{f'-{again}' * (again > 1)}.csv"
        written.append(written[0].with_name(name))
        table = result.summary() if hasattr(result, "summary") else result.to_frame()
        table.to_csv(written[-1])
    if options["noise"] is None:
        lines = _told(coordinator, len(options.get("grid", ())), options["rows_per_time"])
        print("\n".join([*lines, f"{fitted.n_iter_} iterations"]))
    else:
        print(repr(fitted))
    down, up = (n_bytes / 1e6 for n_bytes in coordinator.n_bytes_)
    print(
        f"{coordinator.n_exchanges_} messages to every site, "
        f"{down:.2f} MB to sites and {up:.2f} MB from them; written: {', '.join(map(str, written))}"
    )


def _send(box, is_last, message):
    """Send a message, and say how far the fit is."""
    answer = box.send(message)
    n_messages = len(list(box.folder.glob("*.answer")))
    if is_last and n_messages % EVERY == 0:
        print(f"{n_messages} messages to every site", flush=True)
    return answer


def _told(coordinator, n_asked, rows_per_time):
    """Lines on what was fitted that was not asked for: fewer times, columns, strata."""
    grid, why = coordinator.grid_, f"as each site has {rows_per_time} rows or more of each kind"
    if isinstance(grid, dict):
        n_times = [len(times) for times in grid.values()]
        few, many = min(n_times), max(n_times)
        yield f"{few} to {many} of {n_asked} times in each of {len(grid)} strata, {why}"
    elif len(grid):
        yield f"{len(grid)} of {n_asked} times, from {grid[0]:g} to {grid[-1]:g}, {why}"
    for column, n_sites in coordinator.absent_.items():
        yield f"zero at {n_sites} site(s), where few rows have it: column {printable(column)}"
    if coordinator.n_left_out_:
        yield f"{coordinator.n_left_out_} strata are left out at sites where they have few rows"


if __name__ == "__main__":
    sys.exit(main())
