"""Bayesian samplers of this package beside others: time of a sweep and effective draws a second.

Every measurement has a process of its own, one chain and one thread, and is told in CPU time; ESS
and R-hat are recomputed from the draws by `mixing`, which shares no code with the package. Others
need an interpreter with NumPy, SciPy and polyagamma (`--peer-python`), and R with monomvn
(`--rscript`); what is missing stays in the table with the reason.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from . import mixing
from .processes import ROOT, TookTooLongError, call, environment, run
from .report import Option, columns, lines, read, save
from .samplers import LASSO_PRIOR, N_ROWS, linear

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
PLAIN = ("measure_draws", "measure_lasso", "measure_multinomial")  # by the peers' interpreter
LARGEST = 2_000  # columns for monomvn; with more, an iteration takes minutes
SKIPPED = 3  # exit code of a driver that cannot run here
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


def main_bayes(arguments=None):
    """Measure the chosen parts, print tables, write JSON after every measurement."""
    options = read(
        "bayes",
        __doc__,
        arguments,
        parts=PARTS,
        peer_python=Option(sys.executable, "with NumPy, SciPy and polyagamma"),
        rscript=Option("Rscript", "with monomvn"),
        seconds=Option(20.0, "sweeps of a measurement", quick=0.1),
        timeout=Option(600.0, "seconds a process may take"),
    )
    runner = Runner(options)
    for part in ("ceilings", *options.parts):
        MEASURE[part](runner)
    content = runner.content
    content["targets"] = [] if options.quick else judge(content)
    save(options, **content)
    print("\n\n".join(describe(content)))


class Runner:
    """Runs jobs one after the other and keeps what they found."""

    def __init__(self, options):
        self.options = options
        self.scale = QUICK if options.quick else Scale()
        self.content = {"seconds": options.seconds}

    def job(self, function, arguments, n_threads=1, module="samplers"):
        """Result of a job in a process of its own, or the reason why there is none."""
        options = self.options
        python = options.peer_python if function in PLAIN else None
        print(function, arguments, file=sys.stderr, flush=True)
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
        save(self.options, **self.content)


def measure_ceilings(runner):
    """Rates of one core, which floors are made of."""
    scale = runner.scale
    job = {"order": scale.order, "n_bytes": scale.n_bytes, "repeats": scale.repeats}
    runner.content["ceilings"] = runner.job("measure_ceilings", job, module="mixing")


def measure_draws(runner):
    """PG draws of both, million a second."""
    scale = runner.scale
    job = {"n": scale.draws, "repeats": scale.repeats, "seed": SEED}
    for sampler, function in (("sksurvgpu", "measure_our_draws"), ("polyagamma", "measure_draws")):
        runner.add("draws", {"sampler": sampler, **runner.job(function, job)})


def measure_lasso(runner):
    """All samplers at all numbers of columns."""
    options, ceilings = runner.options, runner.content["ceilings"]
    for p in runner.scale.columns:
        job = {"p": p, "n": N_ROWS, "seconds": options.seconds, "seed": SEED}
        job["n_tune"] = runner.scale.n_tune
        for sampler in LASSO_SAMPLERS:
            floor = mixing.lasso_floor(p, N_ROWS, ceilings)
            if sampler == "published":
                floor = mixing.published_lasso_floor(p, N_ROWS, ceilings)
                found = runner.job("measure_lasso", job)
            elif sampler == "monomvn":
                limits = (options.seconds, options.timeout)
                found = measure_monomvn(options.rscript, p, N_ROWS, *limits)
            else:
                found = runner.job("measure_our_lasso", {"kind": sampler, **job})
            runner.add("lasso", {"sampler": sampler, "p": p, "floor_ms": floor, **found})


def measure_monomvn(rscript, p, n, seconds, timeout):
    """Milliseconds of a sweep of monomvn and mixing, or the reason why there are none."""
    if p > LARGEST:
        return {"reason": f"left out with more than {LARGEST:,} columns"}
    executable = shutil.which(rscript)
    if executable is None:
        return {"reason": f"no interpreter {rscript}"}
    problem = linear(p, n)
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "shape.json").write_text(json.dumps({"n": n, "p": p}))
        problem.X.T.tofile(Path(folder, "X.bin"))
        problem.y.tofile(Path(folder, "y.bin"))
        output = Path(folder, "answer.json")
        prior = [LASSO_PRIOR[name] for name in ("r", "delta", "a", "b")]
        driver = ROOT / "benchmarks" / "peers" / "monomvn_lasso.R"
        command = [executable, driver, folder, output, seconds, *prior]
        try:
            status, printed = run(command, timeout, environment(1))
        except TookTooLongError:
            return {"reason": f"more than {timeout:g} s"}
        if status == SKIPPED:
            return {"reason": printed.strip().splitlines()[-1]}
        if status:
            raise RuntimeError(f"monomvn ended with {status}:\n{printed}")
        answer = json.loads(output.read_text())
    draws = np.array(answer["draws"], float)
    return {
        "ms": 1e3 * answer["seconds"] / len(draws),
        "note": f"{answer['version']}, {answer['blas']}",
        "load": os.getloadavg()[0],
        **mixing.mixing(draws[None], answer["seconds"]),
    }


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
            function = "measure_our_multinomial" if is_ours else "measure_multinomial"
            kind = {"kind": sampler} if is_ours else {}
            if sampler == "hmc":
                floor = mixing.hmc_floor(problem, ceilings)
            else:
                floor = mixing.gibbs_floor(problem, ceilings, draws) if draws else None
            found = runner.job(function, {**kind, **job})
            runner.add("multinomial", {"sampler": sampler, **problem, "floor_ms": floor, **found})


def measure_chains(runner):
    """One chain on one thread beside two on two."""
    for kind, problem, n_sweeps in runner.scale.chains:
        job = {"kind": kind, "problem": problem, "n_sweeps": n_sweeps}
        job["repeats"] = runner.scale.repeats
        found = runner.job("measure_chains", job, n_threads=2)
        runner.add("chains", {"sampler": kind, "problem": problem, **found})


MEASURE = {
    "ceilings": measure_ceilings,
    "draws": measure_draws,
    "lasso": measure_lasso,
    "multinomial": measure_multinomial,
    "chains": measure_chains,
}


def judge(content):
    """Figures beside what was aimed at; nothing where none is known."""

    def known(part, key, **those):
        found = [one for one in content.get(part, []) if those.items() <= one.items()]
        return [one[key] for one in found if one.get(key)]

    figures = {
        "draws": known("draws", "z ~ N(0, 4)", sampler="sksurvgpu"),
        "lasso": known("lasso", "ms", sampler="collapsed", p=2_000),
        "multinomial": known("multinomial", "ms", sampler="gibbs", n=50_000),
        "chains": [
            one["efficiency"]
            for one in content.get("chains", [])
            if "efficiency" in one and one.get("load", 0.0) <= BUSY
        ],
    }
    judged = []
    for part, (name, target) in TARGETS.items():
        if figures[part]:
            at_most = part in ("lasso", "multinomial")
            figure = max(figures[part]) if at_most else min(figures[part])
            met = figure <= target if at_most else figure >= target
            judged.append({"name": name, "target": target, "figure": figure, "met": met})
    return judged


def _ess(k):
    """Effective draws a second: of quantity k, or the least and the median of many."""

    def rate(found):
        ess = found.get("ess")
        if ess is None:
            return None
        if found["sampler"] in MULTINOMIAL_SAMPLERS:
            ess = [min(ess), sorted(ess)[len(ess) // 2]]
        return ess[k] / found["seconds"]

    return rate


def _size(found):
    size = f"{found['n']:,} x {found['p']}, {found['n_classes']}"
    return size + (f", {found['common']:.0%} in one" if "common" in found else "")


def _problem(found):
    return ", ".join(f"{name} = {value:,}" for name, value in found["problem"].items())


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


TIMES = "draws:,d | ms:.3g | floor ms=floor_ms:.3g | made s=made_seconds:.3g"
TABLES = {
    "draws": columns(
        "M/s=sampler | z = 0:.2f | z = 1:.2f | z = 4:.2f | z ~ N(0, 4):.2f | uniform:.2f | note",
        note=_note,
    ),
    "lasso": columns(
        f"sampler | p:,d | {TIMES} | ESS/s sigma2=first:.3g | lambda2=second:.3g | "
        "|beta|^2=third:.3g | sigma2=mean:.3f | R-hat=r_hat:.3f | note",
        first=_ess(0),
        second=_ess(1),
        third=_ess(2),
        mean=lambda found: (found.get("mean") or [None])[0],
        note=_note,
    ),
    "multinomial": columns(
        f"sampler | problem | {TIMES} | least ESS/s=least:.3g | median:.3g | R-hat=r_hat:.3f | "
        "note",
        problem=_size,
        least=_ess(0),
        median=_ess(1),
        note=_note,
    ),
    "chains": columns(
        "sampler | problem | one s=one:.3f | two s=two:.3f | efficiency:.2f | note",
        problem=_problem,
        note=_note,
    ),
}
TARGETS_TABLE = columns(
    "what=name | target:.3g | found=figure:.3g | note",
    note=lambda found: "met" if found["met"] else "MISSED",
)


def describe(content):
    """All tables as text."""
    ceilings = content["ceilings"]
    yield (
        f"one core: {ceilings['flops'] / 1e9:.1f} Gflop/s, {ceilings['bytes'] / 1e9:.1f} GB/s; "
        f"{content['seconds']:g} s a measurement"
    )
    for part, shown in TABLES.items():
        if part in content:
            yield f"{part}\n\n{lines(shown, content[part])}"
    if content["targets"]:
        yield f"targets\n\n{lines(TARGETS_TABLE, content['targets'])}"
