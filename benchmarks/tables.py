"""Tables turned into designs, matching and balance: named cases, each timed the second time.

Seconds are of the clock and of the processor, which other work on the machine does not add to.
"""

from __future__ import annotations

import resource
from functools import partial

import numpy as np
import pandas as pd

from .processes import timed
from .report import Option, columns, lines, read, save


def _measure(cases, options, shown=""):
    """Time every case, print a table, write JSON.

    A case is a function, and what is known of it or of its result: the columns `shown`.
    """
    results = []
    for name, (function, known) in cases.items():
        function()  # which may compile
        result, seconds = timed(function)
        known = known(result) if callable(known) else known
        results.append({"case": name, **known, **seconds})
        del result
    each = {"each": lambda found: 1e9 * found["seconds"] / found["entries"]}
    clocks = "s=seconds:.2f | CPU s=cpu_seconds:.2f"
    print(lines(columns(f"case | {shown}{clocks}", **each), results))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"most memory {peak:.2f} GiB")
    save(options, results=results, gib=peak)


DECAY = 0.7
TEXT_LINES, TEXT_ROWS = 5_000_000, 1_000_000


def main_long_tables(arguments=None):
    """Reading long tables, and choosing rows of what was read.

    One line a row and covariate, with 64-bit identifiers; covariate j is drawn with a frequency
    proportional to (j + 1)^-0.7. Five million lines have strings in place of the integers.
    """
    options = read(
        "long_tables",
        main_long_tables.__doc__,
        arguments,
        "1 million lines, 50,000 rows",
        lines=Option(50_000_000, quick=1_000_000),
        rows=Option(1_000_000, quick=50_000),
        covariates=Option(20_000, quick=2_000),
    )
    shown = "lines or entries=entries:,d | ns each=each:.0f | "
    _measure(_long_cases(options), options, shown)


def _long_cases(options):
    from sksurvgpu import from_long

    persons, codes = draw_codes(options.lines, options.rows, options.covariates)
    shuffled = codes.sample(frac=1.0, random_state=0, ignore_index=True)
    valued = shuffled.assign(value=np.random.default_rng(1).random(len(codes)))
    few, many = min(options.lines, TEXT_LINES), min(options.rows, TEXT_ROWS)
    names, text = as_text(*draw_codes(few, many, options.covariates))
    cases, read_lines = {}, partial(from_long, duplicates="max")
    for name, given in {"by row": codes, "shuffled": shuffled, "with values": valued}.items():
        cases[f"read, {name}"] = partial(read_lines, persons, given), {"entries": len(given)}
    for name, make in text_forms(text).items():
        known = {"entries": few}
        cases[f"strings, {name}"] = lambda make=make: read_lines(names, make()), known
    data = read_lines(persons, valued)
    rng, n = np.random.default_rng(2), options.rows
    chosen = {"mask": rng.random(n) < 0.8, "permutation": rng.permutation(n)[: n * 4 // 5]}
    chosen["bootstrap"] = rng.integers(0, n, n)
    for name, rows in chosen.items():
        known = {"entries": data.report.n_entries}
        cases[f"rows, {name}"] = partial(data.X.__getitem__, rows), known
    return cases


def draw_codes(n_lines, n_rows, n_covariates):
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
    """Long tables with strings for identifiers, an object each, and lines in any order."""
    codes = codes.sample(frac=1.0, random_state=0, ignore_index=True)
    rows = "person-" + codes["row_id"].astype(str)
    text = {"row_id": rows, "covariate_id": "code-" + codes["covariate_id"].astype(str)}
    names = "person-" + persons["row_id"].astype(str)
    return pd.DataFrame({"row_id": names}), pd.DataFrame(text)


def text_forms(text):
    """Makers of the lines, in the forms that strings come in; streams are read once."""
    import duckdb
    import polars as pl
    import pyarrow as pa

    arrow = pa.table(text)
    tables = {
        "pandas objects": text,
        "pandas Arrow": text.astype("string[pyarrow]"),
        "polars": pl.DataFrame(text.to_dict("list")),
        "Arrow": arrow,
    }
    made = {name: lambda form=form: form for name, form in tables.items()}
    return made | {"DuckDB": lambda: duckdb.connect().from_arrow(arrow)}


N_COVARIATES = 20


def main_episodes(arguments=None):
    """Rows at risk from lines of covariates that change, and intervals of case series.

    Ten lines a person on average, of 20 covariates, with integer or text identifiers, sorted by
    person or not.
    """
    from sksurvgpu import episodes

    n_lines = Option(10_000_000, quick=100_000)
    options = read("episodes", main_episodes.__doc__, arguments, "100,000 lines", lines=n_lines)
    persons, given = draw_lines(options.lines)
    text = [frame.assign(id="person " + frame["id"].astype(str)) for frame in (persons, given)]
    shuffled = given.sample(frac=1.0, random_state=0, ignore_index=True)
    calls = {
        "sorted": lambda: episodes(persons, given, overlaps="max").X,
        "shuffled": lambda: episodes(persons, shuffled, overlaps="max").X,
        "shuffled, with y": lambda: _with_outcome(episodes(persons, shuffled, overlaps="max")),
        "until the next line": lambda: episodes(persons, shuffled, stop=None, overlaps="last").X,
        "text identifiers": lambda: episodes(*text, overlaps="max").X,
        "case series": lambda: _intervals(persons, given),
    }

    def sizes(X):
        return {"lines": len(given), "rows": X.n_rows, "entries": X.n_entries}

    cases = {name: (call, sizes) for name, call in calls.items()}
    _measure(cases, options, "lines:,d | rows:,d | entries:,d | ")


def draw_lines(n_lines):
    """Persons followed for 200 to 2,000 days, and lines of up to 90 days within follow-up."""
    rng = np.random.default_rng(0)
    n_persons = n_lines // 10
    ids = rng.permutation(n_persons) * 1_000_003
    last = rng.integers(200, 2_000, n_persons)
    persons = pd.DataFrame({"id": ids, "time": last, "event": rng.random(n_persons) < 0.1})
    who = np.sort(rng.integers(0, n_persons, n_lines))
    start = (rng.random(n_lines) * last[who]).astype(np.int64)
    given = {
        "id": ids[who],
        "covariate_id": rng.integers(0, N_COVARIATES, n_lines) * 1_000 + 210,
        "start": start,
        "stop": start + rng.integers(1, 90, n_lines),
        "value": rng.normal(size=n_lines),
    }
    return persons, pd.DataFrame(given)


def _with_outcome(data):
    data.y  # noqa: B018
    return data.X


def _intervals(persons, given):
    """Case series of all persons with an event, with a column for every covariate."""
    from sksurvgpu.cohort import RiskWindow, eras_to_intervals

    periods = persons.assign(start=0).rename(columns={"time": "end"})
    events = persons[persons["event"]]
    outcomes = events.assign(day=events["time"] * 2 // 3)[["id", "day"]]
    eras = given.rename(columns={"covariate_id": "era", "stop": "end"})
    window = RiskWindow(by_era=True)
    return eras_to_intervals(periods, eras, outcomes, windows=window, age=5).X


def main_matching(arguments=None):
    """Matching treated persons with comparators by their scores, however these lie."""
    from sksurvgpu.cohort import Cohort, match

    n = Option(1_000_000, quick=50_000)
    options = read("matching", main_matching.__doc__, arguments, "50,000 persons", persons=n)

    def counts(matched):
        return {"persons": options.persons, "matched": len(matched.rows)}

    cases = {
        name: (partial(match, Cohort.of(persons), **how), counts)
        for name, (persons, how) in score_cases(options.persons).items()
    }
    _measure(cases, options, "persons:,d | matched:,d | ")


def score_cases(n):
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


DIFFERENT = 50  # columns that are drawn; the others repeat them
BLOCK = 8192


def main_balance(arguments=None):
    """Balance and screening of a sparse matrix, against the least that reading it can take.

    A million rows and 10,000 columns with 3 % of ones, drawn once for every 50 columns. Two floors:
    a sum over the row numbers, and over what is known of the rows that they name, in blocks of rows
    that stay in cache.
    """
    options = read(
        "balance",
        main_balance.__doc__,
        arguments,
        "50,000 rows, 1,000 columns",
        rows=Option(1_000_000, quick=50_000),
        columns=Option(10_000, quick=1_000),
        share=0.03,
    )
    rng = np.random.default_rng(0)
    X = draw_indicators(rng, options.rows, options.columns, options.share)
    known = {"entries": int(X.indptr[-1])}
    cases = {name: (call, known) for name, call in _balance_cases(rng, X, options).items()}
    print(f"{int(X.indptr[-1]):,} entries; {X.nbytes / 1e9:.2f} GB")
    _measure(cases, options)


def _balance_cases(rng, X, options):
    from scipy import sparse

    from sksurvgpu import screen, surv
    from sksurvgpu._threads import over_columns
    from sksurvgpu.cohort import balance
    from sksurvgpu.data.design.duplicates import find_duplicates

    n = options.rows
    treatment = rng.random(n) < 0.3
    weights = rng.exponential(size=n) * (rng.random(n) < 0.8)
    sets = rng.integers(0, n // 3, n)
    sets[rng.random(n) < 0.5] = -1
    time = np.round(rng.exponential(1_000, n))
    outcome = surv(rng.random(n) < 0.05, time)
    sum_rows, sum_weights = _floors()
    one, two, sizes = {"n_jobs": 1}, {"n_jobs": 2}, np.diff(X.indptr)

    def read_rows(a, z):
        return sum_rows(X.indptr[a], X.indptr[z], X.indices)

    def read_weights(a, z):
        return sum_weights(a, z, X.indptr, X.indices, weights)

    cases = {
        "floor: row numbers": lambda: over_columns(read_rows, sizes, 2),
        "floor: and weights": lambda: over_columns(read_weights, sizes, 2),
        "before, one thread": lambda: balance(X, treatment, **one),
        "before, two threads": lambda: balance(X, treatment, **two),
        "weights, one thread": lambda: balance(X, treatment, weights=weights, **one),
        "weights, two threads": lambda: balance(X, treatment, weights=weights, **two),
        "matched sets, two threads": lambda: balance(X, treatment, strata=sets, **two),
        "screen by correlation": lambda: screen(X, treatment, duplicates=None, **two),
        "screen by log-rank": lambda: screen(X, outcome, duplicates=None, **two),
        "duplicates": lambda: find_duplicates(X, 0.99, n_threads=2),
    }
    if not options.quick:
        small = X.select(np.arange(options.columns // 10))
        ones = np.ones(len(small.indices), np.int8)
        csc = sparse.csc_array((ones, small.indices, small.indptr), shape=small.shape)
        csr = csc.tocsr()
        cases["a tenth, SciPy's CSC"] = lambda: balance(csc, treatment, weights=weights, **two)
        cases["a tenth, SciPy's CSR"] = lambda: balance(csr, treatment, weights=weights, **two)
    return cases


def draw_indicators(rng, n_rows, n_columns, share):
    """A design of indicators."""
    from sksurvgpu import Design

    drawn = [np.flatnonzero(rng.random(n_rows) < share) for _ in range(DIFFERENT)]
    drawn = [rows.astype(np.int32) for rows in drawn]
    chosen = [drawn[j % DIFFERENT] for j in range(n_columns)]
    indptr = np.concatenate([[0], np.cumsum([len(rows) for rows in chosen])])
    kind, nothing = np.zeros(n_columns, np.uint8), np.zeros(n_columns, np.int64)
    return Design(n_rows, kind, indptr, np.concatenate(chosen), np.empty(0), nothing)


def _floors():
    """Compiled sums over a range of columns: of row numbers, and of the rows' weights."""
    from numba import njit

    @njit(nogil=True)
    def sum_rows(start, stop, rows):
        total = 0
        for q in range(start, stop):
            total += rows[q]
        return total

    @njit(nogil=True)
    def sum_weights(first, last, indptr, rows, weights):
        total, place = 0.0, indptr[first:last].copy()
        for start in range(0, len(weights), BLOCK):
            for j in range(first, last):
                q = place[j - first]
                while q < indptr[j + 1] and rows[q] < start + BLOCK:
                    total += weights[np.uint64(rows[q])]
                    q += 1
                place[j - first] = q
        return total

    return sum_rows, sum_weights
