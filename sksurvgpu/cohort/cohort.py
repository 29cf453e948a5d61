"""Persons of a study: those who are left, and who left at which step.

Every step of a study takes a cohort and returns another one, with columns more or rows fewer. Rows
keep their order, so that `Cohort.rows` chooses the rows of a design that was made of the first
table; whoever is left out stays in `Cohort.left_out`, by the name of the step.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from pandas import DataFrame, Index, Series, concat

from .._tables import Result
from .._warnings import warn
from ..data.sources import read_whole
from ..data.vectors import check_flags, in_native_order
from .checks import check_ids, check_scores, check_treatment, require_column

LEFT_OUT = ("row", "step")  # its columns beside the identifiers


@dataclass(frozen=True, eq=False, repr=False)
class Cohort(Result):
    """Persons who are compared, with an account of those who were left out.

    Made by `Cohort.of`; the functions of `sksurvgpu.cohort` take one, or a table, and return one.

    Attributes
    ----------
    table : pandas.DataFrame
        A line for each person who is left: the columns given, and those that were added. Lines
        keep the order, and their labels the index, of the first table.
    rows : ndarray of shape (n_rows,), int64
        Position of each line in the first table: ``X[cohort.rows]`` are the rows of a design
        that was made of it.
    attrition : pandas.DataFrame
        A line for each step, indexed by ``step``: how many ``rows`` it left, how many of them
        ``treated`` and ``comparators``, and how many it has ``left_out``.
    left_out : pandas.DataFrame
        A line for each person who was left out: identifier, ``row`` in the first table, ``step``.
    id, treatment, score : str or None
        Names of the columns of identifiers, of treatment (1 or 0) and of the propensity score.
    share : float or None
        Share of the treated where the scores are from, which preference scores depend on: among
        the persons of the first table, or those to whom `with_columns` gave other scores or arms.

    See Also
    --------
    trim : Leave out persons by their score.

    Examples
    --------
    >>> import pandas as pd
    >>> from sksurvgpu.cohort import Cohort
    >>> persons = pd.DataFrame({"id": [11, 12, 13, 14], "treatment": [1, 0, 0, 1]})
    >>> cohort = Cohort.of(persons.assign(age=[54, 17, 61, 70]))
    >>> adults = cohort.keep(cohort.table["age"] >= 18, "adults")
    >>> adults
    <Cohort of 3 rows: 2 treated, 1 comparators; 1 left out>
           rows treated comparators left_out
    given     4       2           2        0
    adults    3       2           1        1
    >>> adults.attrition
            rows  treated  comparators  left_out
    step
    given      4        2            2         0
    adults     3        2            1         1
    >>> adults.left_out
       id  row    step
    0  12    1  adults
    >>> adults.spread("age")
    array([54, -1, 61, 70])
    >>> adults.rows_of([14, 13, 12, 11])
    array([3, 1, 0])
    """

    table: Any
    rows: np.ndarray
    attrition: Any
    left_out: Any
    id: str
    treatment: str | None
    score: str | None
    share: float | None = None

    @classmethod
    def of(cls, table, *, id="id", treatment="treatment", score="score") -> Cohort:
        """Begin with a table of persons.

        Parameters
        ----------
        table : DataFrame, Arrow table, relation of DuckDB, or path
            A line for each person: pandas, polars, Arrow, files of Parquet or Feather.
        id : str, default="id"
            Column of identifiers, each of them once.
        treatment : str or None, default="treatment"
            Column of the arms: 1 (or True) for the treated, 0 for their comparators. None for
            persons who are not compared.
        score : str, default="score"
            Column of the propensity score, the probability of treatment. The table may be without
            it until a step needs it.

        Returns
        -------
        cohort : Cohort
            All persons of the table.
        """
        table = read_whole(table, "table")
        if table.empty:
            raise ValueError("`table` has no rows; pass a line for each person.")
        require_column(table, id, "id")
        if id in LEFT_OUT:
            raise ValueError(
                f"`id` is {id!r}, as a column of `left_out` is called that says something else; "
                "rename it."
            )
        check_ids(table[id], id)
        if treatment is not None:
            require_column(table, treatment, "treatment")
            check_flags(table[treatment], treatment)
        empty = DataFrame({id: table[id].iloc[:0], "row": np.empty(0, np.int64), "step": []})
        rows = np.arange(len(table))
        cohort = cls(table, rows, None, empty.astype({"step": object}), id, treatment, score)
        return replace(cohort, attrition=cohort._count("given", 0), share=cohort._share())

    def _title(self) -> str:
        arms = ""
        if self.treatment is not None:
            n_treated = np.count_nonzero(self.is_treated)
            arms = f": {n_treated:,} treated, {len(self.rows) - n_treated:,} comparators"
        return f"Cohort of {len(self.rows):,} rows{arms}; {len(self.left_out):,} left out"

    @property
    def is_treated(self) -> np.ndarray:
        """Who is treated, booleans of shape (n_rows,)."""
        if self.treatment is None:
            raise ValueError(
                "the cohort has no arms; name the column of the treated by treatment=."
            )
        return check_flags(self.table[self.treatment], self.treatment)

    def arms(self) -> np.ndarray:
        """Return who is treated, as `is_treated`, where both arms have somebody left."""
        return check_treatment(self.is_treated, self.treatment)

    @property
    def scores(self) -> np.ndarray:
        """Propensity scores, finite and between 0 and 1, of shape (n_rows,)."""
        require_column(self.table, self.score, "score")
        return check_scores(self.table[self.score], self.score)

    def keep(self, is_kept, step) -> Cohort:
        """Keep some persons and leave out the others.

        Parameters
        ----------
        is_kept : array-like of shape (n_rows,), bool
            Who stays, of the lines of `table` in their order; a Series has its index.
        step : str
            What the step is called in `attrition` and in `left_out`.

        Returns
        -------
        cohort : Cohort
            Those who stay; also where all or none do.
        """
        self._check_index(is_kept, "is_kept")
        is_kept = check_flags(is_kept, "is_kept")
        if is_kept.size != len(self.rows):
            raise ValueError(
                f"`is_kept` has {is_kept.size:,} entries, the cohort has {len(self.rows):,} rows; "
                "pass one for each."
            )
        out = self.table.loc[~is_kept, [self.id]].assign(row=self.rows[~is_kept], step=str(step))
        left_out = concat([self.left_out, out] if len(self.left_out) else [out], ignore_index=True)
        left = replace(self, table=self.table[is_kept], rows=self.rows[is_kept], left_out=left_out)
        line = left._count(str(step), len(out))
        return replace(left, attrition=concat([self.attrition, line]))

    def spread(self, column, fill=-1, of=None) -> np.ndarray:
        """Entries of a column for all rows of the first table, also those who were left out.

        `balance` and `fit_outcomes` take them as ``strata`` beside a design of all persons.

        Parameters
        ----------
        column : str
            Column of `table`, such as ``"stratum"``, ``"match"`` or ``"weight"``.
        fill : scalar, default=-1
            Entry of those who were left out: -1 for no stratum and no set, 0 for no weight.
        of : LongData or array-like of identifiers, optional
            Take its rows in place of those of the first table, as `rows_of` does.

        Returns
        -------
        entries : ndarray of shape (n_given,)
        """
        require_column(self.table, column, "column")
        values = self.table[column].to_numpy()
        n_given = len(self.rows) + len(self.left_out)
        n_rows = n_given if of is None else len(getattr(of, "row_ids", of))
        try:
            dtype = np.result_type(values, np.asarray(fill))
        except TypeError:
            raise TypeError(
                f"`fill` is {fill!r}, and column {column!r} is of {values.dtype}; pass a value of "
                'that kind, such as np.datetime64("NaT", "D") for dates.'
            ) from None
        entries = np.full(n_rows, fill, dtype)
        entries[self.rows if of is None else self.rows_of(of)] = values
        return entries

    def rows_of(self, data) -> np.ndarray:
        """Find the rows of these persons in a design of other persons or in another order.

        They are found by identifiers, where `rows` relies on a design of the first table.

        Parameters
        ----------
        data : LongData or array-like of identifiers
            What `from_long` returned, or the identifiers of the rows of a design.

        Returns
        -------
        rows : ndarray of shape (n_rows,), int64
        """
        ids = in_native_order(Series(getattr(data, "row_ids", data)))
        own = self.table[self.id]
        check_ids(ids, "data")
        rows = Index(ids).get_indexer(own)
        is_absent = rows < 0
        if is_absent.any():
            raise ValueError(
                f"`data` has no row of {is_absent.sum():,} person(s) of the cohort, such as "
                f"{own[is_absent].tolist()[0]!r}; its identifiers are like "
                f"{next(iter(ids), None)!r}. Make it of the table that the cohort began with, or "
                "of `cohort.table`."
            )
        return rows

    def with_columns(self, **columns) -> Cohort:
        """Add columns, or put others in their place.

        Parameters
        ----------
        **columns : array-like of shape (n_rows,)
            Entries of each column in the order of the lines of `table`; a Series has its index.

        Returns
        -------
        cohort : Cohort
            The same persons.
        """
        for column, values in columns.items():
            self._check_index(values, column)
        cohort = replace(self, table=self.table.assign(**columns))
        is_new = not columns.keys().isdisjoint({self.score, self.treatment})
        return replace(cohort, share=cohort._share()) if is_new else cohort

    def _share(self):
        return None if self.treatment is None else float(self.is_treated.mean())

    def _check_index(self, values, argument):
        """Check that entries of a Series are in the order of the table, where the index tells."""
        if isinstance(values, Series) and not values.index.equals(self.table.index):
            raise ValueError(
                f"`{argument}` is a Series with another index than the table of the cohort; "
                f"reindex it, or pass {argument}.to_numpy() if it is in the order of the table."
            )

    def _count(self, step, n_left_out):
        """Line of `attrition` for the rows that are left."""
        counts = {"rows": len(self.rows)}
        if self.treatment is not None:
            counts["treated"] = int(np.count_nonzero(self.is_treated))
            counts["comparators"] = counts["rows"] - counts["treated"]
        counts["left_out"] = n_left_out
        return DataFrame([counts], index=Index([step], name="step"))


def add_column(cohort, column, values) -> Cohort:
    """Add a column that a step found, and warn where one of that name goes."""
    if column in cohort.table.columns:
        warn(
            f"the table of the cohort has a column {column!r}, which another one takes the place "
            "of; rename it, if it is to stay."
        )
    return cohort.with_columns(**{column: values})


def as_cohort(cohort, names) -> Cohort:
    """Return a cohort as it is, or a table as a cohort with these names of columns."""
    if unknown := names.keys() - {"id", "treatment", "score"}:
        known = "columns of a table are named by id=, treatment= and score=, others as documented"
        raise TypeError(f"{min(unknown)!r} is no argument; {known}.")
    if not isinstance(cohort, Cohort):
        return Cohort.of(cohort, **names)
    if names:
        given = ", ".join(f"{key}=" for key in names)
        raise TypeError(f"{given} names columns of a table; a Cohort has its own names.")
    return cohort
