"""Products of columns, for models in which the effect of one column depends on another."""

import numpy as np
from sklearn.base import clone
from sklearn.utils.metadata_routing import process_routing

from . import options
from .additive import MadeColumns, router_of
from .by_column import check_column_names, find_column
from .design.beside import side_by_side
from .design.computed import ComputedColumns
from .design.kernels import ONE
from .design.products import Pairs, products_of
from .design.units import check_largest, largest_values
from .prepare import documented, fewest_rows, input_names, labels_of

MOST_PAIRS = 10_000_000  # whose names take a gigabyte
COUNTED = 2**23  # pairs whose rows are counted at once


@documented
class ProductColumns(MadeColumns):
    """Add products of pairs of columns (interactions), for effects that depend on other columns.

    Products are not stored: each pass over the rows computes them from their two columns. Half a
    million products, those of 1,000 codes, take little more time than stored ones. Pairs that never
    occur together are left out.

    Parameters
    ----------
    columns : sequence of str or int, optional
        Columns that are multiplied with each other, by name or position; by default all.
    by : sequence of str or int, optional
        Multiply `columns` with these only, as all covariates with a drug. Names of products have
        the column first that comes first in X.
    pairs : sequence of (column, column), optional
        Multiply these, and no others.
    min_count : int or float, default=1
        Leave out products that are not zero in fewer rows; below 1, in a smaller share of the rows.
    estimator : estimator, optional
        Model that is fitted to X and y first, or a pipeline: only columns to which it gives
        coefficients are multiplied.
    hierarchy : {"strong", "weak"}, default="strong"
        Whether both columns of a pair need a coefficient of `estimator`, or one of them.
    groups : array-like of shape (n_columns,) or dict, optional
        Labels of columns, as `CategoryColumns` has them; a dictionary has them by name, of some.
        Products of columns of the same two groups are a group.

    Attributes
    ----------
    pairs_ : ndarray of shape (n_products, 2)
        Positions of the columns that are multiplied.
    n_left_out_ : int
        Pairs that `min_count` has left out.
    groups_ : ndarray of shape (n_columns + n_products,)
        Group of every column of the result, such as `GroupLasso` takes; without `groups` its name.
    estimator_ : estimator
        The fitted one, or None.
    <<header>>

    See Also
    --------
    StepColumns : Functions of single columns.

    Notes
    -----
    Columns are multiplied as they are: centre numbers before, where the effect of a column is to be
    the one at the mean of others.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from sksurvgpu import CoxLassoCCD, ProductColumns, make_pipeline, surv
    >>> rng = np.random.default_rng(0)
    >>> X = pd.DataFrame(rng.integers(0, 2, (2000, 3)), columns=["drug", "woman", "old"])
    >>> time = rng.exponential(np.where(X["drug"] * X["old"], 0.3, 1.0))
    >>> model = make_pipeline(ProductColumns(by=["drug"]), CoxLassoCCD(alpha=0.05))
    >>> model = model.fit(X, surv(np.full(2000, True), time))
    >>> model[0].get_feature_names_out().tolist()
    ['drug', 'woman', 'old', 'drug*woman', 'drug*old']
    >>> model[1].coef_.round(1).tolist()
    [0.0, 0.0, 0.0, 0.0, 0.8]
    """

    def __init__(
        self,
        *,
        columns=None,
        by=None,
        pairs=None,
        min_count=1,
        estimator=None,
        hierarchy="strong",
        groups=None,
    ):
        self.columns = columns
        self.by = by
        self.pairs = pairs
        self.min_count = min_count
        self.estimator = estimator
        self.hierarchy = hierarchy
        self.groups = groups

    def fit(self, X, y=None, **fit_params):
        """Learn which columns are multiplied.

        <<table>>
        y : outcome, optional
            For `estimator`.
        **fit_params : array-like of shape (n_samples,), optional
            What else that requests, such as weights.

        Returns
        -------
        self : object
            The fitted transformer.
        """
        given = process_routing(self, "fit", **fit_params)
        options.choice(self.hierarchy, "hierarchy", ("strong", "weak"))
        design = self._read(X, reset=True)
        fewest = fewest_rows(self.min_count, design.n_rows)
        labels, names = labels_of(self.groups, design), input_names(self)
        self.estimator_ = None if self.estimator is None else clone(self.estimator)
        if self.estimator is not None:
            self.estimator_.fit(X, y, **given.estimator.fit)
        self._meet(design, self._given() if self.pairs is not None else self._every(), fewest)
        first, second = self.pairs_.T
        self._names_out = np.concatenate([names, names[first] + "*" + names[second]])
        check_column_names(self._names_out, "X")
        self.groups_ = self._names_out
        if self.groups is not None:
            joined = [_join(labels[a], labels[b]) for a, b in self.pairs_]
            self.groups_ = np.array([*labels, *joined], dtype=object)
        return self

    def get_metadata_routing(self):
        """Return where scikit-learn's metadata goes: to the estimator, which requests it.

        Returns
        -------
        router : MetadataRouter
        """
        return router_of(self, estimator=self.estimator)

    def _make(self, X):
        parts = [self._read(X)]
        if len(self.pairs_):
            largest = largest_values(parts[0])[self.pairs_].prod(axis=1)
            check_largest(largest, self._names_out[-len(largest) :])
            parts.append(products_of(parts[0], Pairs(*self.pairs_.T)))
        return side_by_side(parts).with_names(self._names_out)

    def _given(self):
        """Pairs that the user names."""
        if self.columns is not None or self.by is not None:
            raise ValueError("`pairs` are all that is multiplied; leave out `columns` and `by`.")
        names, numbers = getattr(self, "feature_names_in_", None), []
        for k, pair in enumerate(self.pairs):
            place = f"pairs[{k}]"
            if isinstance(pair, str) or len(pair) != 2:
                options.refuse(pair, place, "must be two columns")
            a, b = (find_column(c, place, self.n_features_in_, names) for c in pair)
            if a == b:
                raise ValueError(
                    f"`{place}` is column {input_names(self)[a]!r} with itself; pass two columns. "
                    "Squares are columns of `X`, and curves those of SplineColumns."
                )
            numbers.append((min(a, b), max(a, b)))
        yield Pairs(*np.array(sorted(set(numbers)), dtype=np.int64).reshape(-1, 2).T)

    def _every(self):
        """Pairs of all columns that are multiplied with each other, in pieces."""
        every = np.arange(self.n_features_in_)
        own = every if self.columns is None else self._find(self.columns)
        by = own if self.by is None else self._find(self.by, "by")
        is_own, is_by, found, size = np.isin(every, own), np.isin(every, by), [], 0
        for a in every:
            is_partner = (is_own[a] & is_by) | (is_by[a] & is_own)
            second = a + 1 + np.flatnonzero(is_partner[a + 1 :])
            found.append(np.stack([np.full(len(second), a), second]))
            size += len(second)
            if size >= COUNTED or a == every[-1]:
                yield Pairs(*np.concatenate(found, axis=1))
                found, size = [], 0

    def _meet(self, design, candidates, fewest):
        """Learn pairs that meet in some rows, of those that the hierarchy allows."""
        kept, n_asked, is_main = [np.empty((0, 2), np.int64)], 0, self._main_effects()
        test = np.logical_and if self.hierarchy == "strong" else np.logical_or
        for pairs in candidates:
            pairs = pairs.take(test(is_main[pairs.first], is_main[pairs.second]))
            n_asked += len(pairs.first)
            if not len(pairs.first):
                continue
            made, each = ComputedColumns(products_of(design, pairs)), np.arange(len(pairs.first))
            count = made.sums(each, np.ones(design.n_rows), ONE, None, 1, _at_once)[:, 0]
            kept.append(np.stack(pairs.take(count >= fewest), axis=1))
            if (n_kept := sum(map(len, kept))) > MOST_PAIRS:
                raise ValueError(
                    f"{n_kept:,} of the first {n_asked:,} pairs of columns meet in enough rows, "
                    f"more than {MOST_PAIRS:,}; name fewer by `columns`, `by` or `pairs`, let an "
                    "`estimator` choose, or raise `min_count`."
                )
        self.pairs_ = np.concatenate(kept)
        self.n_left_out_ = n_asked - len(self.pairs_)
        if not len(self.pairs_) and self.estimator is None:
            raise ValueError(
                f"none of {n_asked:,} pairs of columns is not zero in as many rows as `min_count` "
                f"({self.min_count!r}) asks for; lower it, or leave this step out."
                if n_asked
                else "there are no two columns to multiply; name others by `columns` and `by`."
            )

    def _main_effects(self):
        """Whether the estimator gives columns coefficients; without one all have some."""
        if self.estimator is None:
            return np.full(self.n_features_in_, True)
        model = getattr(self.estimator_, "best_estimator_", self.estimator_)
        made = names = input_names(self)
        if hasattr(model, "steps"):
            made, model = model[:-1].get_feature_names_out(names), model[-1]
        coef = getattr(model, "coef_", None)
        if coef is None or np.shape(coef)[-1:] != made.shape:
            raise ValueError(
                f"`estimator` ends in a {type(model).__name__} that has "
                f"{'no `coef_`' if coef is None else f'`coef_` of shape {np.shape(coef)}'} after "
                f"its fit to {len(made):,} columns; pass a model with one for each."
            )
        return np.isin(names, made[np.any(np.atleast_2d(coef) != 0.0, axis=0)])


def _join(first, second):
    """Group of a product of columns of two groups."""
    return None if None in (first, second) else "*".join(sorted([str(first), str(second)]))


def _at_once(function, columns):
    function(0, len(columns))
