"""Rows of a partition, and what a pattern makes of them: sums for a coordinator.

A pattern has the rows of a partition under one vector of weights.  What is the same under all of
them, the plan of the rows and their columns, is an `Arrangement`.  A pattern's own part are four
methods: `weigh` and `evaluate`, and for `slopes` the residuals at what the coordinator has joined
(`settle`) and the quadratic model there (`refer`).  The products with X are the CPU backend's.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...data.design.columns import DENSE, INDICATOR, Design
from ...data.design.tiles import tiles_of
from ...data.design.units import moved
from ...data.vectors import encode
from ..cpu.bins import Centring
from ..cpu.threads import Threads
from ..cpu.tile_gram import rows_of_gram, rows_of_model
from ..cpu.tile_loads import load, load_ones
from ..cpu.tile_products import Products
from ..meat import collector_of, meat_of
from .messages import Arranged, Coef, Evaluate, Evaluated, Slopes, Sums, Tables, Weights

KEPT = 2  # predictors, of 8 bytes a row
MOST_NUMBERS = 2**25  # in a dense block of columns: 256 MiB
BYTES_A_ROW = 64  # of a pattern: these, weights, residuals, marks, tables of own cells


@dataclass(frozen=True)
class PartRows:
    """Checked rows of a partition, in the order in which they were given."""

    design: Design
    outcome: Any
    weight: np.ndarray | None  # (n_rows,)
    offset: np.ndarray | None  # (n_rows,)
    likelihood: Any
    source: np.ndarray  # of the model's columns, as in `solver.problem.Problem`
    piece_ptr: np.ndarray
    cuts: tuple[float, ...] = ()
    censoring: dict[str, Any] = field(default_factory=dict)  # arguments of `plan_competing`
    unit: np.ndarray | None = None  # number of what folds and draws keep together
    cluster: np.ndarray | None = None  # labels of rows that are not independent
    told: Tables = field(default_factory=dict)  # what the estimator must know of all parts

    @property
    def n_rows(self) -> int:
        return self.design.n_rows


class Arrangement:
    """Rows in the order of a plan, whatever their weights."""

    def __init__(self, rows: PartRows, tables: Tables, plan: Any):
        if rows.n_rows != plan.n_base:
            raise ValueError(
                f"the partition has {rows.n_rows:,} rows, had {plan.n_base:,} when the fit began; "
                "its data must stay as they are until the fit is done."
            )
        self.rows, self.tables, self.plan = rows, tables, plan
        tiles = tiles_of(_centred(rows.design, tables.get("center")), plan.order)
        pieces = rows.source, rows.piece_ptr, plan.first, plan.shift
        threads = Threads(1)  # an engine asks many partitions at a time
        self.products = Products(tiles, pieces, threads)
        self.offset = None if rows.offset is None else plan.per_copy(rows.offset[plan.order])

    @property
    def n_columns(self) -> int:
        return len(self.rows.source)


def _centred(design, center):
    """Design with a number taken from each column, of which all rows have a value or none."""
    if center is None or not center.any() or not design.n_rows:
        return design
    ones = np.flatnonzero((center != 0.0) & (design.kind == INDICATOR))
    return moved(_with_values(design, ones), -center)


def _with_values(design, columns):
    """Design whose indicators of all rows among `columns` have values, of one."""
    if not len(columns):
        return design
    kind, value_ptr = design.kind.copy(), design.value_ptr.copy()
    kind[columns] = DENSE
    value_ptr[columns] = len(design.values) + design.n_rows * np.arange(len(columns))
    stored = np.diff(design.indptr)
    indices = design.indices[np.repeat(kind != DENSE, stored)]
    stored[columns] = 0
    indptr = np.concatenate([[0], np.cumsum(stored)])
    values = np.concatenate([design.values, np.ones(design.n_rows * len(columns))])
    return Design(design.n_rows, kind, indptr, indices, values, value_ptr, design.names)


class PatternInPart:
    """How a partition answers for rows under weights; `arranged` are the rows.

    `joins` says whether groups of rows go beyond the partition: the quadratic model's second term
    is then the coordinator's, and loads are sent in its place.
    """

    joins = True

    @staticmethod
    def describe(rows: PartRows) -> Tables:
        """Tables of rows that a coordinator reads before it plans those of all partitions."""
        raise NotImplementedError

    @staticmethod
    def plan_of(rows: PartRows, tables: Tables) -> tuple[Any, Arranged]:
        """Plan of rows, whatever their weights, and what of the problem's cells is their own."""
        raise NotImplementedError

    def __init__(self, arranged: Arrangement, weight: np.ndarray | None):
        """Set up rows with weights, which are in the order of the caller."""
        self.arranged, self.plan = arranged, arranged.plan
        self._known: dict[bytes, np.ndarray] = {}

    @property
    def n_bytes(self) -> int:
        """Bytes of what it keeps, about."""
        return BYTES_A_ROW * self.plan.n_rows

    def weigh(self) -> Weights:
        """Sums over rows that need no predictor."""
        raise NotImplementedError

    def evaluate(self, request: Evaluate) -> Evaluated:
        """Part of the rows in a log-likelihood, as the coordinator joins it."""
        raise NotImplementedError

    def settle(self, eta: np.ndarray, request: Slopes) -> float:
        """Make `residuals`, `sizes` and `refer` speak of `eta` and of what was joined there.

        The log-likelihood, NaN where the coordinator has it.
        """
        raise NotImplementedError

    def residuals(self) -> np.ndarray:
        """u of every row."""
        raise NotImplementedError

    def sizes(self) -> np.ndarray:
        """Sizes that the rounding errors of u are relative to."""
        raise NotImplementedError

    def refer(self, h: np.ndarray) -> Centring:
        """Write h of every row; the second term."""
        raise NotImplementedError

    def jumps(self, columns: np.ndarray) -> Tables:
        """Sums of x w by own cell."""
        raise NotImplementedError

    def scores(self, x: np.ndarray, places: np.ndarray) -> np.ndarray:
        """Part of every row in the gradient along dense columns x, `places` of those asked for."""
        raise NotImplementedError

    def predictor(self, coef: Coef) -> np.ndarray:
        """eta of every row; the last two are kept, as slopes and moves speak of them again."""
        key = coef.columns.tobytes() + coef.values.tobytes()
        eta = self._known.pop(key, None)
        self._known[key] = eta = self.predict(coef) if eta is None else eta
        if len(self._known) > KEPT:
            del self._known[next(iter(self._known))]
        return eta

    def predict(self, coef: Coef) -> np.ndarray:
        """eta of every row."""
        eta, arranged = np.empty(self.plan.n_rows), self.arranged
        arranged.products.predict(coef.vector(arranged.n_columns), arranged.offset, eta)
        return eta

    def move(self, request: Evaluate, eta: np.ndarray, live: np.ndarray) -> tuple[float, float]:
        """Least and largest change of live rows' predictors since the origin; 0 without one."""
        if request.origin is None:
            return 0.0, 0.0
        change = eta[live] - self.predictor(request.origin)[live]
        return float(np.min(change, initial=np.inf)), float(np.max(change, initial=-np.inf))

    def slopes(self, request: Slopes) -> Sums:
        """Sums over rows and columns, by name."""
        products, found = self.arranged.products, {}
        loglik = self.settle(self.predictor(request.coef), request)
        if "gradient" in request.want:
            every = np.arange(self.arranged.n_columns)
            found["gradient"] = products.of_columns(every, self.residuals())
        if "size" in request.want:
            found["size"] = products.absolute(self.sizes())
        if "curvature" in request.want or "gram" in request.want:
            found |= self._model(request)
        if "jumps" in request.want:
            found |= self.jumps(request.columns)
        if "meat" in request.want:
            found["meat"] = meat_of(*self.scores_of_clusters(request.columns))
        return Sums(loglik, found)

    def scores_of_clusters(self, columns):
        """Blocks of columns, and a function of one: scores of clusters; copies of a row are one."""
        products, plan, p = self.arranged.products, self.plan, len(columns)
        width = int(np.clip(MOST_NUMBERS // max(plan.n_rows, 1), 1, max(p, 1)))
        cluster, blocks = self.arranged.rows.cluster, np.split(np.arange(p), range(width, p, width))
        collect = None
        if cluster is not None or plan.n_rows > plan.n_base:
            number = np.argsort(plan.order) if cluster is None else encode(cluster)[0]
            collect = collector_of(number, plan)

        def scores_of(block):
            x = np.ascontiguousarray(products.dense(columns[block]).T)
            scores = self.scores(x, block)
            return scores if collect is None else collect(scores)

        return blocks, scores_of

    def _model(self, request):
        products = self.arranged.products
        h, found = np.zeros(self.plan.n_rows), {}
        centring = self.refer(h)
        found["total"] = load_ones(h, centring.bins) if self.joins else np.array([h.sum()])
        loads = None
        if "curvature" in request.want:
            every = np.arange(self.arranged.n_columns)
            curvature, loads = load(products, every, h, centring)
            found["curvature"] = np.ascontiguousarray(curvature[:, 1]) if self.joins else curvature
        if self.joins and loads is not None:
            found["loads"] = loads
        if "gram" in request.want:
            found = self._matrix(request.columns, h, centring, loads) | found
        return found

    def _matrix(self, columns, h, centring, loads):
        products = self.arranged.products
        if loads is not None:
            loads = loads[columns]
        elif centring.few:
            _, loads = load(products, columns, h, centring)
        if self.joins:
            return {"gram": rows_of_gram(products, columns, 0, h), "loads": loads}
        if loads is None and self.plan.n_pieces > 1:  # strata are no ranges of row copies
            return {"gram": rows_of_gram(products, columns, 0, h)}
        return {"gram": rows_of_model(products, columns, 0, h, centring, loads)}
