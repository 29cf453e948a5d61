"""Checks of a coordinator's messages before a site works on them: their form, and their work.

Compiled code trusts what is checked here.  Work is counted in numbers that are read, a billion of
which take about a second and a half: a message may ask for a few times what its site has anyway,
and for more as far as that is little.
"""

from __future__ import annotations

import json
import logging

import numpy as np

from ..backends.sums.labels import numbered, renumbered
from ..estimators._partition import outline_of
from ..patterns.risk_sets.plan import FEW_BINS, SMALL_DEATHS
from .forms import LABELS, LARGEST, MOST, FormError, check_tables, require, size_of
from .rules import NotReleasedError

FEW = 16  # requests of a message, or pieces of time, that are always allowed; fits ask for 2
OF_COLUMN = 50_000  # numbers that are read in the time that a column takes beside its entries
MOST_TEXT = 1 << 23  # letters of a model
MOST_STRATA = 1 << 16
MOST_CELLS = 1 << 23  # strata times pieces of time, and event times
MOST_PAIRS = 1 << 26  # of columns, in a matrix: no coordinator has room for more
journal = logging.getLogger(__name__)


def work_of(design, n_rows, n_columns):
    """Numbers that are read where all rows and columns are; a power of two tells no rare ones."""
    numbers = int(design.indptr[-1]) + len(design.values) + n_rows + OF_COLUMN * n_columns
    return 2.0 ** numbers.bit_length()


def check_work(times, each, rules, what):
    """Refuse so many times so much work."""
    if times > FEW and times * each > rules.max_work:
        raise NotReleasedError(
            f"{times:,} {what} in one message are work on {times * each:.1e} numbers, and "
            f"`max_work` of the site's rules is {rules.max_work:.1e}; ask for fewer"
        )


def check_model(text, design, rules):
    """Refuse a model that cannot be, or that cuts time into many pieces."""
    try:
        if len(text) > MOST_TEXT:
            raise ValueError(f"the text of a model has {len(text):,} letters")
        terms = outline_of(json.loads(text), design.n_columns, design.names).terms
    except Exception:  # whatever became of somebody's text; words may tell names of columns
        journal.exception("A model could not be read.")
        raise NotReleasedError(
            "it cannot read its rows by the model of the message: install the same version at the "
            "coordinator and all sites; see the log there"
        ) from None
    pieces = max(1, len(np.unique(terms.piece_ptr, axis=0)))
    each = work_of(design, design.n_rows, design.n_columns + len(terms.source) // pieces)
    check_work(pieces, each, rules, "pieces of time")


# -- problems ---------------------------------------------------------------------------------
def check_problem(tables, rows):
    """Check the form of what `Arrange` gives."""
    pattern, design = rows.likelihood.pattern, rows.design
    forms = {"part": (np.int64, (1,), 0, MOST)}
    forms["center"] = np.float64, (design.n_columns,), -LARGEST, LARGEST
    if pattern.has_cells:
        n_strata = size_of(tables, "labels_strata")
        n_cells = size_of(tables, "event_time") + (len(rows.cuts) + 1) * n_strata
        require(n_cells <= MOST_CELLS, f"has {n_cells:,} cells of time, of {MOST_CELLS:,} at most")
        forms |= _forms_of_times("labels_strata", "event_time", "event_ptr", tables)
        forms |= {
            "bin_end": (np.int64, "bin_end", 0, n_cells - 1),
            "few": (np.bool_, (1,), None, 0),
        }
    if pattern.has_lanes:
        forms |= _forms_of_times("labels_censoring", "table_time", "table_ptr", tables)
        forms["lane_stratum"] = np.int64, "lane_stratum", 0, "labels_strata"
        forms["lane_group"] = np.int64, "lane_stratum", 0, "labels_censoring"
    check_tables(tables, forms, may_lack=("center",))
    if "table_ptr" in forms:
        check_offsets("table_ptr", "table_time", tables)
    if "bin_end" in forms:
        check_offsets("event_ptr", "event_time", tables)
        end = tables["bin_end"]
        is_right = len(end) and end[-1] == n_cells - 1 and np.all(np.diff(end) > 0)
        require(is_right, "does not have the last cells of all bins")
        is_right = not tables["few"][0] or len(end) <= max(FEW_BINS, SMALL_DEATHS)
        require(is_right, "has a table 'few' for bins that are many")
        _check_labels(tables, rows)
    is_centred = tables.get("center", np.zeros(design.n_columns)) != 0.0
    is_full = design.n_stored[is_centred] == design.n_rows
    require(is_full.all(), "has a table 'center' of columns with zeros")


def _forms_of_times(labels, times, ptr, tables):
    return {
        labels: LABELS,
        times: (np.float64, times, -LARGEST, LARGEST),
        ptr: (np.int64, (size_of(tables, labels) + 1,), 0, size_of(tables, times)),
    }


def check_times(times):
    """Check times by stratum, which are a tuple of labels, times and offsets."""
    tables = times._asdict()
    check_tables(tables, _forms_of_times(*times._fields, tables))
    check_offsets("ptr", "times", tables)


def check_offsets(name, of, tables):
    """Check offsets by label into times, which ascend within each."""
    ptr, times = tables[name], tables[of]
    is_right = ptr[0] == 0 and ptr[-1] == len(times) and not np.any(np.diff(ptr) < 0)
    require(is_right, f"has a table {name!r} that has no offsets into {of!r}")
    rises = np.diff(times) > 0.0
    rises[np.setdiff1d(ptr[1:-1], (0, len(times))) - 1] = True  # from one label to the next
    require(rises.all(), f"has a table {of!r} that is not of ascending times")


def _check_labels(tables, rows):
    """Check that labels of the rows are those of the problem, and lanes have all pairs of them."""
    outcome, n_rows = rows.outcome, rows.n_rows
    try:
        stratum, labels = numbered(outcome.stratum, outcome.stratum_labels, n_rows)
        of_rows = renumbered(stratum, labels, tables["labels_strata"])
        if "lane_group" not in tables:
            return
        group = stratum
        if outcome.censoring_group is not None:
            group, labels = outcome.censoring_group, outcome.censoring_labels
        n_groups = len(tables["labels_censoring"])
        of_rows = of_rows * n_groups + renumbered(group, labels, tables["labels_censoring"])
    except (ValueError, TypeError):  # of text beside numbers
        raise FormError("lacks labels of the site's rows") from None
    stratum = tables["lane_stratum"]
    pairs = stratum * n_groups + tables["lane_group"]
    is_right = np.all(np.diff(pairs) > 0) and np.isin(of_rows, pairs).all()
    require(is_right, "does not have the lanes of the site's rows, ascending")
    n_cells = (np.diff(tables["event_ptr"])[stratum] + 1).sum()
    require(n_cells <= MOST_CELLS, f"has {n_cells:,} cells of lanes, of {MOST_CELLS:,} at most")


# -- requests ---------------------------------------------------------------------------------
def check_coef(coef, n_columns):
    """Check the form of coefficients."""
    forms = {"columns": (np.int64, "columns", 0, n_columns - 1)}
    check_tables(vars(coef), forms | {"values": (np.float64, "columns", -LARGEST, LARGEST)})
    require(np.all(np.diff(coef.columns) > 0), "has coefficients of columns that do not ascend")


def check_columns(columns, n_columns, is_of_matrix):
    """Check columns of the model, in any order, each of which comes once."""
    if columns is None:
        if is_of_matrix:
            raise NotReleasedError("a matrix was asked for without `columns`")
        return
    check_tables({"columns": columns}, {"columns": (np.int64, "columns", 0, n_columns - 1)})
    require(np.all(np.diff(np.sort(columns)) > 0), "asks for a column twice")
    if is_of_matrix and len(columns) ** 2 > MOST_PAIRS:
        raise NotReleasedError(f"a matrix of {len(columns):,} columns is larger than any fit asks")
