"""Bayesian samplers of this package beside others: time of a sweep and effective draws a second.

Every measurement has a process of its own, one chain and one thread, and is told in CPU time; ESS
and R-hat are recomputed from the draws by `mixing`, which shares no code with the package. Others
need an interpreter with NumPy, SciPy and polyagamma (`--peer-python`), and R with monomvn
(`--rscript`); what is missing stays in the table with the reason.
"""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import dataclass
from pathlib import Path

from . import bayes_floors, bayes_monomvn
from .bayes_problems import N_ROWS
from .processes import TookTooLongError, call
from .report import default_output, machine, number, table, write

PARTS = ("draws", "lasso", "multinomial", "chains")
SEED = 1
WORST_R_HAT = 1.05  # beyond, an ESS is of a chain that has not been everywhere
LEAST_ESS = 100  # below, an ESS is itself a guess
BUSY = 3.0  # load of a machine beyond which the clock's times of two threads are not judged
# What the package asks of itself, of one core of a server of 2019 or later.
TARGETS = {
    "draws": ("PG draws at z ~ N(0, 4), million a second", 6.0),
    "lasso": ("collapsed lasso at p = 2,000, ms an iteration", 20.0),
    "multinomial": ("Gibbs sweep of 50,000 x 56, 9 classes, ms", 250.0),
    "chains": ("least efficiency of two chains on two threads", 0.8),
}
LASSO_SAMPLERS = ("collapsed", "two-block", "three-step", "published", "monomvn")
MULTINOMIAL_SAMPLERS = ("hmc", "gibbs", "polyagamma")


@dataclass(frozen=True)
class Scale:
    """Sizes of all problems, and how long each is run."""

    draws: int = 1_000_000
    repeats: int = 7
    columns: tuple = (71, 500, 1_000, 2_000, 5_000)
    multinomial: tuple = (
        {"n": 20_000, "p": 20, "n_classes": 5},
        {"n": 20_000, "p": 20, "n_classes": 5, "common": 0.94},
        {"n": 50_000, "p": 56, "n_classes": 9},
        {"n": 500_000, "p": 56, "n_classes": 9},
    )
    chains: tuple = (
        ("collapsed", {"p": 500}, 200),
        ("collapsed", {"p": 2_000}, 30),
        ("gibbs", {"n": 20_000, "p": 20, "n_classes": 5}, 30),
        ("hmc", {"n": 20_000, "p": 20, "n_classes": 5}, 40),
    )
    order: int = 1_500
    n_bytes: int = 2**28
    n_tune: int = 300


QUICK = Scale(
    draws=2_000,
    repeats=1,
    columns=(12, 40),
    multinomial=({"n": 200, "p": 3, "n_classes": 3},),
    chains=(("collapsed", {"p": 10, "n": 30}, 5), ("hmc", {"n": 60, "p": 2, "n_classes": 3}, 5)),
    order=100,
    n_bytes=2**16,
    n_tune=10,
)


def main(arguments=None):
    """Measure the chosen parts, print tables, write JSON after every measurement."""
    options = _read(arguments)
    runner = Runner(options)
    for part in ("ceilings", *options.parts):
        MEASURE[part](runner)
    content = runner.content
    content["targets"] = [] if options.quick else judge(content)
    runner.save()
    print("\n\n".join(describe(content)))
    print(f"\nwritten: {os.path.relpath(options.output)}")


class Runner:
    """Runs jobs one after the other and keeps what they found."""

    def __init__(self, options):
        self.options = options
        self.scale = QUICK if options.quick else Scale()
        self.content = {"machine": machine(), "seconds": options.seconds}

    def save(self):
        write(self.options.output, self.content)

    def job(self, module, function, arguments, n_threads=1):
        """Result of a job in a process of its own, or the reason why there is none."""
        options = self.options
        python = options.peer_python if module == "bayes_peers" else None
        print(module, function, arguments, file=sys.stderr, flush=True)
        limits = {"n_threads": n_threads, "timeout": options.timeout, "python": python}
        try:
            return call(f"benchmarks.{module}", function, arguments, **limits)
        except TookTooLongError:
            return {"reason": f"more than {options.timeout:g} s"}
        except FileNotFoundError:
            return {"reason": f"no interpreter {python}"}
        except RuntimeError as error:
            print(error, file=sys.stderr)
            return {"reason": f"failed: {str(error).splitlines()[-1]}"}

    def add(self, part, found):
        self.content.setdefault(part, []).append(found)
        self.save()


def measure_ceilings(runner):
    """What one core does at most."""
    scale = runner.scale
    job = {"order": scale.order, "n_bytes": scale.n_bytes, "repeats": scale.repeats}
    runner.content["ceilings"] = runner.job("bayes_floors", "measure_ceilings", job)


def measure_draws(runner):
    """PG draws of both, million a second."""
    scale = runner.scale
    job = {"n": scale.draws, "repeats": scale.repeats, "seed": SEED}
    for sampler, module in (("sksurvgpu", "bayes_ours"), ("polyagamma", "bayes_peers")):
        runner.add("draws", {"sampler": sampler, **runner.job(module, "measure_draws", job)})


def measure_lasso(runner):
    """All samplers at all numbers of columns."""
    options, ceilings = runner.options, runner.content["ceilings"]
    for p in runner.scale.columns:
        job = {"p": p, "n": N_ROWS, "seconds": options.seconds, "seed": SEED}
        job["n_tune"] = runner.scale.n_tune
        for sampler in LASSO_SAMPLERS:
            floor = bayes_floors.lasso(p, N_ROWS, ceilings)
            if sampler == "published":
                floor = bayes_floors.published_lasso(p, N_ROWS, ceilings)
                found = runner.job("bayes_peers", "measure_lasso", job)
            elif sampler == "monomvn":
                limits = (options.seconds, options.timeout)
                found = bayes_monomvn.measure(options.rscript, p, N_ROWS, *limits)
            else:
                found = runner.job("bayes_ours", "measure_lasso", {"kind": sampler, **job})
            runner.add("lasso", {"sampler": sampler, "p": p, "floor_ms": floor, **found})


def measure_multinomial(runner):
    """Gibbs and Hamiltonian chains, and polyagamma's."""
    options, ceilings = runner.options, runner.content["ceilings"]
    draws = 1e6 * max(
        (found.get("z ~ N(0, 4)", 0.0) for found in runner.content.get("draws", [])), default=0.0
    )
    for problem in runner.scale.multinomial:
        job = {"problem": problem, "seconds": options.seconds, "seed": SEED}
        job["n_tune"] = runner.scale.n_tune
        for sampler in MULTINOMIAL_SAMPLERS:
            is_ours = sampler != "polyagamma"
            module = "bayes_ours" if is_ours else "bayes_peers"
            kind = {"kind": sampler} if is_ours else {}
            if sampler == "hmc":
                floor = bayes_floors.hmc(problem, ceilings)
            else:
                floor = bayes_floors.gibbs(problem, ceilings, draws) if draws else None
            found = runner.job(module, "measure_multinomial", {**kind, **job})
            runner.add("multinomial", {"sampler": sampler, **problem, "floor_ms": floor, **found})


def measure_chains(runner):
    """One chain on one thread beside two on two."""
    for kind, problem, n_sweeps in runner.scale.chains:
        job = {"kind": kind, "problem": problem, "n_sweeps": n_sweeps}
        job["repeats"] = runner.scale.repeats
        found = runner.job("bayes_ours", "measure_chains", job, n_threads=2)
        runner.add("chains", {"sampler": kind, "problem": problem, **found})


MEASURE = {
    "ceilings": measure_ceilings,
    "draws": measure_draws,
    "lasso": measure_lasso,
    "multinomial": measure_multinomial,
    "chains": measure_chains,
}


# -- tables -----------------------------------------------------------------------------------


def judge(content):
    """Figures beside what was aimed at; nothing where none is known."""
    figures = {
        "draws": [
            found.get("z ~ N(0, 4)")
            for found in content.get("draws", [])
            if found["sampler"] == "sksurvgpu"
        ],
        "lasso": [
            found.get("ms")
            for found in content.get("lasso", [])
            if (found["sampler"], found["p"]) == ("collapsed", 2_000)
        ],
        "multinomial": [
            found.get("ms")
            for found in content.get("multinomial", [])
            if (found["sampler"], found["n"]) == ("gibbs", 50_000)
        ],
        "chains": [
            found.get("efficiency")
            for found in content.get("chains", [])
            if found.get("load", 0.0) <= BUSY
        ],
    }
    judged = []
    for part, (name, target) in TARGETS.items():
        known = [figure for figure in figures[part] if figure is not None]
        if known:
            at_most = part in ("lasso", "multinomial")
            figure = max(known) if at_most else min(known)
            met = figure <= target if at_most else figure >= target
            judged.append({"name": name, "target": target, "figure": figure, "met": met})
    return judged


def describe(content):
    """All tables as text."""
    ceilings = content["ceilings"]
    yield (
        f"one core: {ceilings['flops'] / 1e9:.1f} Gflop/s, {ceilings['bytes'] / 1e9:.1f} GB/s; "
        f"{content['seconds']:g} s a measurement"
    )
    for part, (headers, row) in TABLES.items():
        if part in content:
            yield f"{part}\n\n{table(headers, [row(found) for found in content[part]])}"
    if content["targets"]:
        rows = [
            [found["name"], number(found["target"]), number(found["figure"]), met_or_missed(found)]
            for found in content["targets"]
        ]
        yield f"targets\n\n{table(['what', 'target', 'found', 'note'], rows)}"


def met_or_missed(found):
    return "met" if found["met"] else "MISSED"


def _draws_row(found):
    names = ("z = 0", "z = 1", "z = 4", "z ~ N(0, 4)", "uniform")
    return [found["sampler"], *(number(found.get(name), ".2f") for name in names), _note(found)]


def _lasso_row(found):
    ess = found.get("ess") or [None] * 3
    return [
        found["sampler"],
        number(found["p"], ",d"),
        *_times(found),
        *(_per_second(found, value) for value in ess),
        number((found.get("mean") or [None])[0], ".3f"),
        number(found.get("r_hat"), ".3f"),
        _note(found),
    ]


def _multinomial_row(found):
    ess = found.get("ess") or [None] * 2
    if len(ess) > 2:
        ess = [min(ess), sorted(ess)[len(ess) // 2]]
    size = f"{found['n']:,} x {found['p']}, {found['n_classes']}"
    return [
        found["sampler"],
        size + (f", {found['common']:.0%} in one" if "common" in found else ""),
        *_times(found),
        *(_per_second(found, value) for value in ess),
        number(found.get("r_hat"), ".3f"),
        _note(found),
    ]


def _chains_row(found):
    problem = ", ".join(f"{name} = {value:,}" for name, value in found["problem"].items())
    return [
        found["sampler"],
        problem,
        *(number(found.get(name), ".3f") for name in ("one", "two")),
        number(found.get("efficiency"), ".2f"),
        _note(found),
    ]


def _times(found):
    return [number(found.get("draws"), ",d")] + [
        number(found.get(name), ".3g") for name in ("ms", "floor_ms", "made_seconds")
    ]


def _per_second(found, ess):
    return number(None if ess is None else ess / found["seconds"], ".3g")


def _note(found):
    if "reason" in found:
        return found["reason"]
    r_hat = found.get("r_hat")
    notes = []
    if "draws" in found and r_hat is None:
        notes.append("too few draws for an ESS")
    elif r_hat is not None and not r_hat <= WORST_R_HAT:
        notes.append("NOT CONVERGED")
    elif r_hat is not None and min(found["ess"]) < LEAST_ESS:
        notes.append("short: ESS is a guess")
    notes += [found["note"]] if "note" in found else []
    if "load" in found:
        notes.append(f"load {found['load']:.1f}")
        if "efficiency" in found and found["load"] > BUSY:
            notes.append("NOT JUDGED: the machine is busy")
    return "; ".join(notes)


TIMES = ["draws", "ms", "floor ms", "made s"]
TABLES = {
    "draws": (
        ["M/s", "z = 0", "z = 1", "z = 4", "z ~ N(0, 4)", "uniform", "note"],
        _draws_row,
    ),
    "lasso": (
        ["sampler", "p", *TIMES, "ESS/s sigma2", "lambda2", "|beta|^2", "sigma2", "R-hat", "note"],
        _lasso_row,
    ),
    "multinomial": (
        ["sampler", "problem", *TIMES, "least ESS/s", "median", "R-hat", "note"],
        _multinomial_row,
    ),
    "chains": (["sampler", "problem", "one s", "two s", "efficiency", "note"], _chains_row),
}


def _read(arguments):
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bayes", description=__doc__)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--peer-python", default=sys.executable, metavar="PATH")
    parser.add_argument("--rscript", default="Rscript", metavar="PATH", help="with monomvn")
    parser.add_argument("--seconds", type=float, help="sweeps of a measurement; 20 by default")
    parser.add_argument("--timeout", type=float, default=600.0, help="seconds a process may take")
    parser.add_argument("--quick", action="store_true", help="small problems of the same kinds")
    parser.add_argument("--output", type=Path, help="JSON file; by default in results/")
    options = parser.parse_args(arguments)
    options.output = options.output or default_output("bayes", options.quick)
    options.seconds = options.seconds or (0.1 if options.quick else 20.0)
    return options


if __name__ == "__main__":
    main()
