"""All benchmarks: ``python -m benchmarks NAME [options]``; ``list`` says what there is."""

from __future__ import annotations

import sys
from importlib import import_module

from .report import table

# name -> module with a function `main_name`, what it measures
COMMANDS = {
    "run": ("run", "this package beside other solvers, judged by one certificate"),
    "wide": ("run", "the same where columns are many, dense, and rows few"),
    "peers": ("run", "environments with the other solvers"),
    "paths": ("batches", "regularization paths, beside a cold fit at their end"),
    "resampling": ("batches", "cross-validation, bootstrap and profiles, beside Cyclops"),
    "outcomes": ("batches", "many outcomes of one X, beside those of another version"),
    "threads": ("batches", "what threads bring to batches of fits, by size"),
    "scaling": ("costs", "cost of an iteration by nonzeros, memory by rows"),
    "costs": ("costs", "the constants by which forms of the quadratic model are chosen"),
    "estimate": ("estimate", "what expected_time says beside what calls take"),
    "startup": ("startup", "import, first fit, compiling"),
    "coverage": ("coverage", "how often bootstrap and profile intervals hold the truth"),
    "debiased": ("coverage", "the same of all coefficients: debiased lasso, Wald"),
    "clusters": ("clusters", "the same of coefficients beside random intercepts"),
    "bayes": ("bayes", "Bayesian samplers beside monomvn and polyagamma"),
    "long_tables": ("tables", "reading long tables, choosing rows"),
    "episodes": ("tables", "rows at risk and case series from lines and eras"),
    "matching": ("tables", "matched sets of a million persons"),
    "balance": ("tables", "balance and screening of a sparse matrix"),
    "cohort_study": ("coverage", "the study of the documentation at full size"),
    "study": ("studies", "a study of a simulated database, killed and resumed, or coverage"),
    "routes": ("partitions", "rows in partitions beside rows in memory"),
    "partition_batches": ("partitions", "cross-validation and bootstrap over partitions"),
    "large": ("stores", "a fit on files larger than the memory it may take"),
    "faults": ("stores", "workers killed, a coordinator killed, a file changed"),
    "noise": ("noise", "errors and coverage of fits over sites with noise, by epsilon"),
    "states": ("states", "intervals of incidences and states: how often they hold the truth"),
    "hazards": ("states", "several hazards beside one fit of all events"),
    "additive": ("additive", "steps and splines beside linear models and forests, on cohorts"),
    "genotypes": ("genotypes", "a path of variants in a PLINK file, beside adelie"),
    "gpu": ("gpu.__main__", "all that needs a CUDA device; gpu/README.rst"),
    "papers": ("papers.__main__", "tables and figures of published papers, run again"),
    "designs": ("compare", "every kind of design: iterations, CPU, objective, optimality"),
    "survset": ("compare", "the same of all cohorts of the package SurvSet"),
    "compare": ("compare", "two commits of this repository, in turns"),
    "report": ("report", "what results/ holds, as Markdown or HTML"),
}


def main(arguments=None):
    """Run one of them."""
    name, *options = (sys.argv[1:] if arguments is None else arguments) or ["list"]
    if name in ("list", "--list", "--help", "-h"):
        rows = [[name, says] for name, (_, says) in COMMANDS.items()]
        print(f"python -m benchmarks NAME [options]\n\n{table(['name', 'note'], rows)}")
        return 0
    if name not in COMMANDS:
        print(f"no benchmark {name!r}; list says what there is", file=sys.stderr)
        return 2
    module = import_module(f"{__package__}.{COMMANDS[name][0]}")
    return getattr(module, f"main_{name}")(options)


if __name__ == "__main__":
    sys.exit(main())
