"""A problem whose rows are in partitions: what is known of it without them."""

from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

import numpy as np

from ...data.design.sums import ROUNDING
from ...data.design.units import choose_centers
from ...data.model_columns import ModelColumns
from .messages import Arrange, Description, Engine, Tables
from .recipes import KnownPart


@dataclass(frozen=True)
class SumPlan:
    """The plan of the rows of all partitions together: their cells of time, and no row."""

    n_base: int  # rows of X
    n_strata: int = 1
    n_pieces: int = 1
    # of patterns with cells
    cell_ptr: np.ndarray | None = None  # int64 (n_pieces * n_strata + 1,)
    cell_time: np.ndarray | None = None
    bins: Any = None  # `patterns.risk_sets.plan.BinPlan`
    events: Any = None  # `patterns.risk_sets.joined.EventTimes`
    # of patterns with lanes
    lanes: Any = None  # `patterns.carried.plan.Lanes`
    curves: Any = None  # `patterns.carried.joined.Curves`

    @property
    def n_cells(self):
        return 0 if self.cell_ptr is None else int(self.cell_ptr[-1])

    @property
    def few(self):
        """Whether a column can afford to keep one number for every bin."""
        return self.bins is None or self.bins.few

    @property
    def n_bins(self):
        return 1 if self.bins is None else self.bins.n_bins

    @property
    def one_lane_a_stratum(self):
        """Whether rows of a stratum are carried along the same curve."""
        return self.lanes is None or len(self.lanes.lane_cell) == self.n_strata


@dataclass(frozen=True)
class DesignInPartitions:
    """Columns of X, as far as they are known without their rows."""

    n_rows: int
    names: np.ndarray | None
    entries: np.ndarray  # int64 (n_columns,): stored ones
    mean: np.ndarray  # of these
    square: np.ndarray  # sum of their squared deviations from it
    least: np.ndarray  # NaN where that is not told
    largest: np.ndarray

    @property
    def n_columns(self):
        return len(self.entries)

    @property
    def n_entries(self):
        return int(self.entries.sum())

    def span(self, j):
        """Largest minus smallest value of column j; where they are not told, of typical ones."""
        span = self.largest[j] - self.least[j]
        return float(span if np.isfinite(span) else 2.0 * self.typical_values()[j])

    def typical_values(self):
        """Root of the mean square of the stored values of each column; 1 where there are none."""
        square = self.square / np.maximum(self.entries, 1) + self.mean**2
        return np.sqrt(np.where(square > 0.0, square, 1.0))

    def find_scales(self):
        """Standard deviations of columns, by the rule of `data.design.sums.find_scales`."""
        share = self.entries / self.n_rows
        variance = self.square / self.n_rows + share * (1.0 - share) * self.mean**2
        return np.sqrt(np.where(variance > ROUNDING * share * self.mean**2, variance, 1.0))

    def find_centers(self):
        """Numbers to take from each column, by the rule of `data.design.units.find_centers`."""
        mean = np.where(self.entries == self.n_rows, self.mean, 0.0)
        return choose_centers(mean, self.square, self.n_rows)


@dataclass(frozen=True)
class ProblemInPartitions(ModelColumns):
    """A `solver.problem.Problem` as the solver and estimators read it, and who has its rows.

    Partitions read the model from `model`: it cannot be changed here.
    """

    engine: Engine
    model: str  # as partitions are told
    design: DesignInPartitions
    plan: SumPlan
    likelihood: Any
    source: np.ndarray
    piece_ptr: np.ndarray
    descriptions: tuple[Description, ...]
    center: np.ndarray | None = None
    tables: Tables = field(default_factory=dict)  # of `Arrange`, the same for all partitions
    # what coordinators keep of it; no other problem has that
    kept: dict = field(default_factory=dict, init=False, compare=False, repr=False)

    @property
    def given(self):
        """The design, whose rows have no order here."""
        return self.design

    @property
    def n_parts(self):
        return self.engine.n_parts

    @property
    def digest(self):
        """Name of the problem among others, a checksum."""
        if "digest" not in self.kept:
            code = sha256(self.model.encode())
            for name, table in sorted(self.tables.items()):
                # labels are objects, perhaps, and their bytes are addresses
                text = str(table.tolist()) if table.dtype.kind == "O" else table.tobytes().hex()
                code.update(f"{name} {table.dtype} {text}".encode())
            self.kept["digest"] = code.hexdigest()
        return self.kept["digest"]

    def arrange(self, part):
        """The message that gives a partition the problem."""
        return Arrange(self.model, self.tables | {"part": np.array([part])}, self.digest)

    def offset_of(self, mean):
        """X times numbers by column of X, as an offset that partitions make."""
        return KnownPart(self.design.n_rows, mean[self.source])

    def uncentred(self):
        """Refuse what needs the columns as they were given."""
        return self._refuse("columns that are not centred")

    def without_intercept(self):
        """Refuse to change the model."""
        return self._refuse("a known intercept")

    def with_own_intercept(self):
        """Refuse to change the model."""
        return self._refuse("the intercept as a column of ones")

    def _refuse(self, what):
        raise ValueError(
            f"the rows of X are in partitions, and this needs {what}; fit rows that are in the "
            "memory of one machine, or a sample of them."
        )
