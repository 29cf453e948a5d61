"""Checks of sites' answers before the coordinator relies on them, compiled code most of all.

Answers have the form that their messages ask for, and no numbers that no rows can have: counts and
curvatures are not negative, places lie within what they are places of.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..backends.sums import messages as m
from .forms import CLASSES, LABELS, LARGEST, MOST, check_tables, require, size_of
from .grid import KINDS
from .wire import Coarsen, Coarsened, Propose, Proposed, Refused

ANSWERS: dict[type, Any] = {
    Propose: Proposed,
    Coarsen: Coarsened,
    m.Describe: m.Description,
    m.Arrange: m.Arranged,
    m.Ask: m.Answers | m.Unarranged,
    m.Weigh: m.Weights,
    m.Evaluate: m.Evaluated,
    m.Slopes: m.Sums,
}
DESCRIBED: dict[str, tuple] = {
    "labels": LABELS,
    "censor_labels": LABELS,
    "classes": CLASSES,
    "stratum": (np.int64, "stratum", 0, "labels"),
    "time": (np.float64, "stratum", -LARGEST, LARGEST),
    "deaths": (np.int64, "stratum", 0, MOST),
    "last": (np.float64, "labels", -np.inf, LARGEST),
    "censor_group": (np.int64, "censor_group", 0, "censor_labels"),
    "censor_time": (np.float64, "censor_group", -LARGEST, LARGEST),
    "lane_stratum": (np.int64, "lane_stratum", 0, "labels"),
    "lane_group": (np.int64, "lane_stratum", 0, "censor_labels"),
    "class_totals": (np.float64, "classes", 0.0, LARGEST),
    "units": (np.int64, (1,), 0, MOST),
    "events": (np.int64, (2,), 0, MOST),
    "groups": (np.int64, (2, 4), 0, MOST),
    "has_subjects": (np.bool_, (1,), None, None),
    "has_strata": (np.bool_, (1,), None, None),
}


class Told(dict):
    """Tables of a site, which is named where it has not told one that is needed."""

    def __init__(self, name: str, tables: dict[str, np.ndarray]):
        super().__init__(tables)
        self._name = name

    def __missing__(self, table):
        raise ValueError(f"site {self._name!r} has not told the table {table!r}.")


def _check_kind(message, answer):
    what = f"is {type(answer).__name__}, to {type(message).__name__}"
    require(isinstance(answer, ANSWERS[type(message)]), what)


def check_answer(message, answer) -> None:
    """Refuse an answer that is not one to its message; FormError says what is wrong."""
    if isinstance(answer, Refused):
        return
    _check_kind(message, answer)
    if isinstance(answer, Proposed):
        _check_proposed(answer, len(message.grid))
    elif isinstance(answer, Coarsened):
        require(0 <= answer.left_out < MOST, f"leaves out {answer.left_out} strata")
    elif isinstance(answer, m.Description):
        _check_description(answer)


# -- opening ----------------------------------------------------------------------------------
def _check_proposed(found, n_times):
    require(0 < found.min_rows < MOST, f"has sums of {found.min_rows} rows")
    tables, forms = found.tables, {"labels": LABELS}
    if not tables:
        return
    shape = size_of(tables, "labels"), n_times
    for kind in {"exits", "deaths"}.union(kind for kind in KINDS if kind in tables):
        forms |= dict.fromkeys((kind, f"{kind}_by"), (np.int64, shape, 0, MOST))
        forms[f"{kind}_end"] = np.bool_, shape[:1], None, None
    check_tables(tables, forms)


def _check_description(found):
    columns, n_rows = found.columns, found.rows
    require(0 <= n_rows < MOST, f"says that it has {n_rows:,} rows")
    require(0 <= found.checksum < 1 << 32, "has a checksum of more than 32 bits")
    is_right = columns.ndim == 2 and columns.shape[1] == 5 and columns.dtype == np.float64
    require(is_right, f"tells {columns.shape} numbers of columns, not 5 of each")
    is_right = found.names is None or len(found.names) == len(columns)
    require(is_right, f"has another number of names than of columns, {len(columns):,}")
    entries, _, square, *extremes = columns.T
    is_right = (entries >= 0) & (entries <= n_rows) & (entries == np.floor(entries))
    require(is_right.all(), f"tells of columns with other numbers of rows than 0 to {n_rows:,}")
    is_right = np.isfinite(columns[:, 1:3]).all() and np.all(square >= 0.0)
    require(is_right, "tells sums of columns that are not finite, or negative squares")
    require(np.isnan(extremes).all(), "tells extremes of columns, which sites do not tell")
    check_tables(found.tables, DESCRIBED, may_lack=DESCRIBED)
    n_deaths = found.tables.get("deaths", np.zeros(0)).sum(dtype=float)
    require(n_deaths <= n_rows, f"tells of more deaths than its {n_rows:,} rows")


# -- fits -------------------------------------------------------------------------------------
def check_sums(problem, part, arranged, message, answer) -> None:
    """Refuse what is not arranged for a problem, and sums that are not those of its rows."""
    if isinstance(message, m.Arrange):
        _check_arranged(problem.plan, answer)
    if not isinstance(answer, m.Answers):
        return
    requests, found = message.requests, answer.of
    require(len(found) == len(requests), f"has {len(found)} parts to {len(requests)} requests")
    for request, one in zip(requests, found, strict=True):
        _check_kind(request, one)
        if isinstance(one, m.Weights):
            _check_weights(problem, problem.descriptions[part].rows, arranged, one)
            continue
        require(one.loglik != np.inf, "has an infinite log-likelihood")
        if isinstance(one, m.Evaluated):
            _check_evaluated(problem, arranged, request, one)
        else:
            _check_slopes(problem, request, one.tables)


def _check_arranged(plan, found):
    ends = {"own": plan.n_cells}
    if plan.lanes is not None:
        ends |= {"own_lanes": plan.lanes.lane_ptr[-1], "own_entries": plan.lanes.table_ptr[-1]}
    places = {name: numbers for name, numbers in vars(found).items() if numbers is not None}
    check_tables(places, {name: (np.int64, name, 0, end - 1) for name, end in ends.items()})
    for name, numbers in places.items():
        require(np.all(np.diff(numbers) > 0), f"has {name!r} that are not ascending")


def _check_weights(problem, n_rows, arranged, found):
    is_right = np.isfinite([found.total, found.error_weight, found.events]).all()
    is_right = is_right and found.total >= 0.0 and found.error_weight >= 0.0
    is_right = is_right and 0 <= found.rows <= n_rows and not np.isinf(found.largest)
    require(is_right, f"has sums of weights that {n_rows:,} rows cannot have")
    forms = {}
    if problem.plan.bins is not None:
        size = len(arranged.own)
        forms = {"death_weight": (np.float64, (size,), 0.0, LARGEST)}
        forms["deaths"] = np.float64, (size,), 0.0, float(n_rows)
    if problem.plan.lanes is not None:
        size = len(arranged.own_entries)
        forms |= dict.fromkeys(("lost", "failed"), (np.float64, (size,), 0.0, LARGEST))
    check_tables(found.tables, forms)
    deaths = found.tables.get("deaths", np.zeros(0))
    is_right = np.all(deaths == np.floor(deaths)) and deaths.sum() <= n_rows
    require(is_right, f"has deaths that are no numbers of {n_rows:,} rows")


def _check_evaluated(problem, arranged, request, found):
    is_right = found.top == 0.0 and np.isnan([found.low, found.high]).all()
    require(is_right, "tells of single rows, which sites do not")
    tables, likelihood, plan = found.tables, problem.likelihood, problem.plan
    has_nothing = np.isnan(found.loglik) and all(np.all(t != t) for t in tables.values())
    least = None if has_nothing or request.in_logs else 0.0
    forms = {}
    if plan.bins is not None:
        form = np.float64, (len(arranged.own),), least, np.inf
        forms = {"risk": form, "tied": form} if likelihood.uses_ties else {"risk": form}
        if "risk" in tables and tables["risk"].ndim == 2:  # exits less entries, and what is lost
            forms["risk"] = np.float64, (2, len(arranged.own)), None, None
    if plan.lanes is not None:
        forms["carried"] = np.float64, (len(arranged.own_lanes),), least, np.inf
    if problem.has_intercept:
        forms = dict.fromkeys(("score", "curvature"), (np.float64, (m.NODES,), None, None))
        forms["loglik"] = np.float64, (1,), None, None
    check_tables(tables, forms)
    if problem.has_intercept and likelihood.observed_formula is None:
        require(not np.any(tables["curvature"] < 0.0), "has negative curvatures")


def _check_slopes(problem, request, tables):
    want, p, n_bins = set(request.want), problem.n_columns, problem.plan.n_bins
    joins = problem.has_intercept if problem.plan.bins is None else problem.plan.few
    q = p if request.columns is None else len(request.columns)
    shapes = {"gradient": (p,), "size": (p,), "curvature": (p,) if joins else (p, 2)}
    shapes = {name: shape for name, shape in shapes.items() if name in want}
    shapes |= {"gram": (q, q)} if "gram" in want else {}
    if want & {"curvature", "gram"}:
        loads = p if "curvature" in want else q, n_bins
        shapes |= {"total": (n_bins,), "loads": loads} if joins else {"total": (1,)}
    least = dict.fromkeys(("gradient", "loads", "gram"), -LARGEST)
    forms = {
        name: (np.float64, shape, least.get(name, 0.0), LARGEST) for name, shape in shapes.items()
    }
    check_tables(tables, forms)
    gram = tables.get("gram", np.zeros((0, 0)))
    is_right = np.allclose(gram, gram.T, 1e-9, 1e-9 * np.abs(gram).max(initial=0.0), True)
    require(is_right, "has a matrix that is not symmetric")
