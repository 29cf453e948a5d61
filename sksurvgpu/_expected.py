"""How long calls would take: calls of their kind on small simulated data, timed on this machine.

An iteration costs a constant, and a part for every entry and row; how many there are hardly depends
on the size, where rows are some times as many as columns.  So a call is timed on ever more entries,
and a line goes on from the last two sizes.  Small data have all columns where each then has
`ROWS_A_COLUMN`, and else rows and columns in the proportion asked for: then matrices over the
selected columns, which are quadratic in these, grow as entries do.
"""

from __future__ import annotations

import time
import warnings
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
from pandas import DataFrame

from . import datasets
from ._progress import on_a_line
from ._waiting import seconds_of_compiling
from .backends.cpu import BYTES_OF_SMALL
from .backends.cpu.threads import share_out
from .data.options import choice, refuse, whole
from .estimators._prepared import count_threads
from .inference.bootstrap import bootstrap
from .selection import models as cv_models
from .selection.path import fit_path
from .solver.costs import BYTES  # of an element of a matrix

__all__ = ["MODELS", "expected_time"]

SET, ERAS = 5, 20  # rows of a matched set and of a subject
# Name of the estimator, before CCD or CV, simulator, and rows of one of its units
MODELS: dict[str, tuple[str, Any, int]] = {
    "cox": ("CoxLasso", datasets.simulate_cox, 1),
    "fine-gray": ("FineGray", datasets.simulate_fine_gray, 1),
    "logistic": ("Logistic", datasets.simulate_logistic, 1),
    "poisson": ("Poisson", datasets.simulate_poisson, 1),
    "linear": ("Linear", datasets.simulate_logistic, 1),
    "case-series": ("CaseSeries", datasets.simulate_case_series, ERAS),
    "matched": ("ConditionalLogistic", partial(datasets.simulate_matched, stratum_size=SET), SET),
}
SHARE = 0.02  # penalty of a fit, over the largest of use
FEW_FOLDS, FEW_REPLICATES, SECONDS = 3, 8, 2.0  # that are timed, and of all sizes together
LONGEST = 6.0  # seconds, with drawing and compiling, after which no larger size is tried
EMPTIEST = 100  # rows or columns for each entry
FEWEST, MOST = 20_000, 8_000_000  # entries of the first size, and of the last
SLOW, FAST = 4.0, 64.0  # growth of entries, at least and at most
ROWS_A_COLUMN, LEAST_ROWS = 6, 200
COLUMNS = ["seconds", "lower", "upper", "memory_mb", "timed"]
DENSE = 0.9  # share of the entries from which columns hold numbers
# How far calls are from what is expected, as a factor: of all that was timed, else a tenth, or less
FACTORS = ((1.0, 2.0), (0.1, 2.5), (0.0, 3.0))
SERIAL_WITHIN, SERIAL_BETWEEN = 0.4, 0.15  # shares of a fit, of a batch, that have one thread
SHORTEST, LEAST_SLOPE = 1e-4, 0.25  # seconds of a call; of a line, over that through the origin
BYTES_A_ROW, BYTES_A_COLUMN, BYTES_OF_PATH = 120, 2_048, 2**25


def expected_time(
    rows, columns, ones, *, model="cox", n_alphas=None, cv=None, n_replicates=None, n_jobs=None
) -> Any:
    """Say how long a fit would take on this machine, and a path, cross-validation or bootstrap.

    Calls of these kinds are timed for some seconds each, on small simulated data; your data are
    not needed. The first call on a machine compiles, which is not counted.

    Parameters
    ----------
    rows, columns : int
        Shape of X; at least 200 rows.
    ones : int
        Entries of X that are not zero: ``rows * columns`` where columns hold numbers.
    model : {"cox", "fine-gray", "logistic", "poisson", "linear", "case-series", "matched"}
        Model; rows of a case series are eras, "matched" is conditional logistic regression.
    n_alphas : int, optional
        Penalties of a path, and of the cross-validation, which else has 100.
    cv : int, optional
        Folds of a cross-validation.
    n_replicates : int, optional
        Replicates of a bootstrap.
    n_jobs : int, optional
        Threads, as of estimators: all by default.

    Returns
    -------
    table : pandas.DataFrame
        A line for a fit, at 0.02 of the largest penalty, and for each other call asked for:
        ``seconds``, which a call mostly takes no less than ``lower`` and no more than ``upper``;
        ``memory_mb`` at its peak, with X; ``timed``, the sizes behind that.

    Examples
    --------
    >>> from sksurvgpu import expected_time
    >>> table = expected_time(2_000, 20, 4_000, n_replicates=20)
    >>> table.index.tolist()
    ['fit', 'bootstrap of 20 replicates']
    >>> bool((table["lower"] < table["seconds"]).all())
    True
    """

    choice(model, "model", MODELS)
    shape = rows, columns = whole(rows, "rows", LEAST_ROWS), whole(columns, "columns", 1)
    ones = whole(ones, "ones", 1)  # of NumPy, a product of 32 bits would overflow
    if ones > rows * columns:
        refuse(ones, "ones", f"must be at most rows x columns, which are {rows * columns:,}")
    if EMPTIEST * ones < max(shape):
        rule = f"must be at least {max(shape) // EMPTIEST:,}, a hundredth of the rows or columns"
        refuse(ones, "ones", f"{rule}: a table with fewer is nearly empty")
    for name, number in {"n_alphas": n_alphas, "cv": cv, "n_replicates": n_replicates}.items():
        if number is not None:
            whole(number, name, 2)
    n_threads, lines = count_threads(n_jobs), {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what fits this small say of themselves
        for name, make, times, n_fits in _calls(model, n_alphas, cv, n_replicates):
            sizes, seconds = _time(model, make, shape, ones / (rows * columns))
            entries = [size[-1] for size in sizes]
            alone = on_a_line(entries[-2:], seconds[-2:], ones)
            alone = max(alone, LEAST_SLOPE * seconds[-1] * ones / entries[-1])
            is_path = "penalties" in name
            n_at_once, share = _share_out(rows, ones, n_fits, n_threads, is_path)
            factor = next(most for part, most in FACTORS if entries[-1] >= 0.95 * part * ones)
            pairs, expected = zip(sizes, seconds, strict=True), times * share * alone
            timed = ", ".join(f"{n:,} x {p:,} in {t:.2g} s" for (n, p, _), t in pairs)
            peak = _bytes(shape, ones, n_at_once, is_path) / 1e6
            lines[name] = expected, expected / factor, expected * factor, peak, timed
    return DataFrame.from_dict(lines, orient="index", columns=COLUMNS)


def _calls(model, n_alphas, cv, n_replicates):
    """Name, maker of a call of X and y, how many such calls take as long, fits side by side."""
    kinds = (getattr(cv_models, MODELS[model][0] + kind) for kind in ("CCD", "CV"))
    estimator, chosen = (kind(n_jobs=1) for kind in kinds)

    def at_share(X, y):
        largest = estimator.set_params(alpha=1e9).fit(X, y).alpha_max_
        return estimator.set_params(alpha=SHARE * largest)

    yield "fit", lambda X, y: partial(at_share(X, y).fit, X, y), 1.0, 1
    if n_alphas:
        name = f"path of {n_alphas} penalties"
        yield name, lambda X, y: partial(fit_path, estimator, X, y, n_alphas=n_alphas), 1.0, 1
    if cv:
        few, n_alphas = min(cv, FEW_FOLDS), n_alphas or 100
        chosen.set_params(cv=few, n_alphas=n_alphas)
        name = f"{cv} folds of {n_alphas} penalties"
        yield name, lambda X, y: partial(chosen.fit, X, y), (1 + cv) / (1 + few), cv
    if n_replicates:
        few = min(n_replicates, FEW_REPLICATES)
        name = f"bootstrap of {n_replicates} replicates"
        resample = partial(bootstrap, n_replicates=few, random_state=0)
        times = (1 + n_replicates) / (1 + few)
        yield name, lambda X, y: partial(resample, at_share(X, y), X, y), times, n_replicates


def _time(model, make, shape, density):
    """Sizes (rows, columns, entries) of ever larger problems, and the seconds that each took."""
    sizes, seconds, entries, start = [], [], FEWEST, time.perf_counter()
    most = min(MOST, shape[0] * shape[1] * density)
    while True:
        X, y = _draw(model, *_shrink(shape, density, min(entries, most)), density)
        run = make(X, y)
        if not sizes:
            run()  # compiles, or reads what was compiled
        begin, compiling = (time.perf_counter(), time.process_time()), seconds_of_compiling()
        run()
        ends = time.perf_counter(), time.process_time()
        # other work on the machine adds to the former, other threads to the latter
        taken = min(end - before for end, before in zip(ends, begin, strict=True))
        seconds.append(max(taken - seconds_of_compiling() + compiling, SHORTEST))
        sizes.append((*X.shape, max(1, X.nnz if hasattr(X, "nnz") else X.size)))
        growth = (SECONDS - sum(seconds)) / seconds[-1]
        is_last = growth < SLOW if len(sizes) > 1 else growth < 1
        if entries >= most or is_last or time.perf_counter() - start > LONGEST:
            return sizes, seconds
        entries *= min(max(growth, SLOW), FAST)


def _shrink(shape, density, entries):
    """Rows and columns of a problem of so many entries, that is like the one of this shape."""
    rows, columns = shape
    ratio = min(rows / columns, ROWS_A_COLUMN)
    if entries / (density * columns) < ratio * columns:
        columns = max(1, int(np.sqrt(entries / (density * ratio))))
    return min(rows, max(LEAST_ROWS, int(entries / (density * columns)))), columns


def _draw(model, rows, columns, density):
    """X and y; numbers are indicators, which have effects, and noise."""
    _, simulate, unit = MODELS[model]
    drawn = 0.3 if density > DENSE else density
    data = simulate(rows // unit, columns, density=drawn, random_state=0)
    X, y, rng = data.X, data.y, np.random.default_rng(0)
    if model == "linear":
        y = X @ data.coef + rng.standard_normal(len(y))
    return (X.toarray() + rng.standard_normal(X.shape) if density > DENSE else X), y


def _share_out(rows, entries, n_fits, n_threads, is_path):
    """Fits side by side, and the share of the time on one thread that a call then takes."""
    design = SimpleNamespace(n_rows=rows, n_entries=entries)
    between, within = share_out(design, n_fits, n_threads)
    n = between if between > 1 or is_path else within  # a single path gains nothing
    serial = SERIAL_BETWEEN if between > 1 else SERIAL_WITHIN
    return between, serial + (1.0 - serial) / n


def _bytes(shape, ones, n_at_once, is_path):
    """Peak of a call: X as scipy has it, tiles of it, rows, and matrices of selected columns."""
    rows, columns = shape
    of_entries = 2 * 8 * ones if ones > DENSE * rows * columns else (12 + 2) * ones
    matrix = min(BYTES * min(shape) ** 2, max(BYTES_OF_SMALL, 2 * 12 * ones))
    of_fit = BYTES_A_ROW * rows + (matrix + BYTES_OF_PATH if is_path else 0)
    return of_entries + BYTES_A_COLUMN * columns + n_at_once * of_fit
