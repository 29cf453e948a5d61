r"""Coefficients that are pulled to those of their classes, which are estimated, too.

.. math:: \beta_j = \delta_j + \sum_{k \ni j} m_k, \qquad
          P = \sum_j \lambda f_j\, p(\delta_j) + \sum_k \lambda b_k\, q(m_k),

with p and q absolute value or half the square. Since :math:`X\beta = X\delta + (XA) m`, where A has
a column of ones and zeros for each class k, this is a penalty that is separable in the columns of
:math:`[X, XA]`: the fit has one more column a class, the sum of its members, and nothing else is
new. With two normal priors P is :math:`\beta^\top Q\beta/2` at the best m,
:math:`Q^{-1} = (\mathrm{diag}(1/f) + A\,\mathrm{diag}(1/b)A^\top)/\lambda`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from scipy.sparse import csc_array

from ..data.by_column import by_column, by_name
from ..data.options import is_number, refuse
from ..penalties import ElasticNet, Given, PenaltySpec
from ..penalties.parts import ROUNDS, Parts
from .base import Detour

RATIOS = {"l1": 1.0, "l2": 0.0}


class Hierarchical(PenaltySpec):
    """Penalty that shrinks coefficients towards those of their classes.

    A coefficient is the sum of a part of the column and parts of its classes, ``part[j] +
    class_coef_[k]``, and all parts are penalized: columns borrow strength from others of their
    class, and a column without data gets the effect of the class.

    Parameters
    ----------
    classes : mapping {column: label}, or array-like of shape (n_columns,) or (n_columns, n_levels)
        Class of columns, a mapping by name or position; None, or not to be named, is to belong to
        none. With several labels a column, a tuple of them in a mapping, every column belongs to a
        class of each level: of which those of one level may be classes of another's (narrow and
        wide ones, of drugs say), or the levels cross (drugs and outcomes).
    between : float or array-like of shape (n_levels,)
        Penalty of the classes' coefficients as a multiple of ``alpha``, positive. Small values let
        classes differ, large ones leave nothing but the columns' own parts.
    within : {"l1", "l2"}, default="l2"
        Penalty of the columns' own parts. With "l1" most columns of a class share one coefficient,
        exactly.
    above : {"l1", "l2"} or list of these, one a level, default="l2"
        Penalty of the classes' coefficients. With "l1" most classes have none.

    See Also
    --------
    alpha_of_variance : Penalties of prior variances.

    Notes
    -----
    The objective of an estimator is its mean loss plus

        alpha * (sum_j penalty_factor[j] * p(part[j]) + sum_k between * q(class_coef[k]))

    with p and q the absolute value ("l1") or half the square ("l2"). As priors of variances v1
    within classes and v2 between them that is ``alpha = alpha_of_variance(v1, W, prior)`` and
    ``between = alpha_of_variance(v2, W, prior) / alpha``: for two normal ones ``between`` is
    ``v1 / v2``. R Cyclops' hierarchical prior is that of two normal ones.

    Fitted estimators have ``class_coef_`` and ``class_names_``, and ``class_levels_``, the number
    of the level of each class. ``alpha_max_`` leaves all parts at zero, of columns and of classes
    (with a ridge of some of them, those with a lasso); ``kkt_`` is the largest violation for any
    part, and ``dual_gap_`` bounds the objective as ever. Columns keep their ``penalty_factor``, and
    their ``prior_mean``, around which their part is. A class may not have columns whose effects
    change over time.

    The fit has one column more a class, the sum of its members' columns; X is in memory twice.

    Examples
    --------
    >>> import numpy as np
    >>> from sksurvgpu import CoxLassoCCD, Hierarchical
    >>> from sksurvgpu.datasets import simulate_cox
    >>> data = simulate_cox(1_000, 6, random_state=0)
    >>> classes = ["statin", "statin", "statin", "nitrate", "nitrate", None]
    >>> model = CoxLassoCCD(alpha=0.05, penalty=Hierarchical(classes, between=0.5))
    >>> model.fit(data.X, data.y).class_names_.tolist()
    ['statin', 'nitrate']
    >>> part = model.coef_[:3] - model.class_coef_[0]
    >>> bool(np.isclose(part.sum(), 0.5 * model.class_coef_[0], atol=1e-4))
    True
    """

    accepts: ClassVar[frozenset[str]] = frozenset({"penalty_factor", "prior_mean"})

    def __init__(self, classes, *, between, within="l2", above="l2"):
        self.classes = classes
        self.between = between
        self.within = within
        self.above = above

    def family(self, given):
        return ElasticNet(self.prior_ratio(given.l1_ratio))

    def prior_ratio(self, l1_ratio):
        return _ratio(self.within, "within")

    def route(self, given: Given, inner):
        labels = _read_labels(self.classes, len(given.factor), given.names)
        levels, names, members = _number(labels)
        of_coef = csc_array(members[given.source])
        _check_constant(given, of_coef)
        n_levels = labels.shape[1]
        strength = _by_level(_numbers(self.between), "between", n_levels)[levels]
        above = [self.above] if isinstance(self.above, str) else list(self.above)
        above = _by_level(np.array([_ratio(name, "above") for name in above]), "above", n_levels)
        within, named = self.prior_ratio(given.l1_ratio), _attributes(names, levels)
        if given.scale is not None:  # sums of columns as the penalty has them
            members = csc_array(members / given.scale[:, None])
        return Classes(inner, members, of_coef, strength, within, above[levels], named)


@dataclass(frozen=True, eq=False)
class Classes(Detour):
    """Fits with columns for classes."""

    members: csc_array  # (n_columns of X, n_classes), of ones over the scales of columns
    of_coef: csc_array  # (n_coef, n_classes)
    strength: np.ndarray  # (n_classes,) factors of their penalties
    within: float  # l1_ratio of the columns' own parts
    above: np.ndarray  # (n_classes,) l1_ratio
    attributes: dict[str, np.ndarray]
    _last: dict[str, Any] = field(default_factory=dict, repr=False)  # problem, with classes

    def leave(self, fits):
        wide, n_coef = self._with_classes(fits.problem), self.of_coef.shape[0]
        scale = None if fits.scale is None else np.append(fits.scale, np.ones(len(self.strength)))

        def back(solution, _):
            own, of_classes = np.split(solution.coef, [n_coef])
            return replace(
                solution,
                coef=own + self.of_coef @ of_classes,
                baseline=wide.baseline_of(solution.baseline, solution.coef),
                of_route=self.attributes | {"class_coef_": of_classes},
            )

        return replace(fits, problem=wide, batch=self._of_parts(fits.batch), scale=scale), back

    def _with_classes(self, problem):
        """The problem with a column for each class, made once for all calls."""
        if self._last.get("problem") is not problem:
            names_apart = replace(problem.design, names=None)
            design = names_apart.with_columns(names_apart.to_scipy() @ self.members)
            added = np.arange(problem.design.n_columns, design.n_columns)
            whole = np.tile([[0, getattr(problem.plan, "n_pieces", 1)]], (len(added), 1))
            source = np.concatenate([problem.source, added])
            piece_ptr = np.vstack([problem.piece_ptr, whole])
            # columns are centred already, and classes, which have no scale, may be
            wide = problem.with_design(design, source, piece_ptr)
            self._last.update(problem=problem, wide=wide.centred())
        return self._last["wide"]

    def _of_parts(self, batch):
        """The batch whose coefficients are those of columns, then of classes."""
        n_coef, n_classes = self.of_coef.shape
        factor = np.ones(n_coef) if batch.factor is None else batch.factor
        strength = self.strength if factor.ndim == 1 else self.strength[:, None]
        strength = np.broadcast_to(strength, (n_classes, *factor.shape[1:]))
        batch = replace(batch, penalty=self._penalty(), factor=np.concatenate([factor, strength]))
        if batch.fixed is not None:
            if (self.of_coef.T @ batch.fixed).any():
                raise ValueError("a coefficient cannot be held that is a sum of others.")
            batch = replace(batch, fixed=_below(batch.fixed, n_classes))
        return batch if batch.coef is None else replace(batch, coef=self._starts(batch))

    def _penalty(self):
        ratio = np.concatenate([np.full(self.of_coef.shape[0], self.within), self.above])
        of_coef = self.of_coef
        rounds = ROUNDS if of_coef.sum(axis=1).max() > 1 else 1
        return Parts(ratio, of_coef.shape[0], of_coef.indptr, of_coef.indices, rounds)

    def _starts(self, batch):
        """Parts of coefficients: those of the least penalty, or near it where classes overlap."""
        starts = _below(batch.coef, len(self.strength))
        nothing = np.zeros(len(starts), bool)
        for b, start in enumerate(starts.T):
            factor = batch.factor if batch.factor.ndim == 1 else batch.factor[:, b]
            starts[:, b] = batch.penalty.at(1.0, factor, nothing).settled(start)
        return starts


def _below(values, n_more):
    """Values of coefficients, (n_coef, n_fits), and zeros for those of classes."""
    return np.concatenate([values, np.zeros((n_more, values.shape[1]), values.dtype)])


def _read_labels(classes, n_columns, names):
    """Labels of every column, (n_columns, n_levels), None for no class."""
    classes = by_name(classes, "classes", names)
    if isinstance(classes, Mapping):
        found = by_column(classes, "classes", n_columns, names)
        rows = [(column, _as_tuple(label)) for column, label in found.values()]
        n_levels = max((len(labels) for _, labels in rows), default=1)
        for column, labels in rows:
            if len(labels) != n_levels:
                raise ValueError(
                    f"`classes` of column {column!r} has {len(labels)} label(s), of others "
                    f"{n_levels}; pass as many of each, None where a column has no class."
                )
        table = np.full((n_columns, n_levels), None, dtype=object)
        for j, (_, labels) in zip(found, rows, strict=True):
            table[j] = labels
    else:
        table = _as_table(classes, n_columns)
    for label in table.ravel():
        if not isinstance(label, (str, int, float, np.integer, np.floating, type(None))):
            raise TypeError(
                f"`classes` has a label {label!r} of type {type(label).__name__}; labels are "
                "strings or numbers, as many for each column."
            )
    return table


def _as_table(classes, n_columns):
    entries = classes if hasattr(classes, "__array__") else list(classes)
    try:
        table = np.array(entries, dtype=object)
    except ValueError:  # ragged
        table = np.empty(0, dtype=object)
    if table.ndim == 1:
        table = table[:, None]
    if table.ndim != 2 or len(table) != n_columns:
        raise ValueError(
            f"`classes` has shape {np.shape(table)}, `X` has {n_columns:,} columns; pass a label "
            "per column, as many for each, or a dictionary {column: label}."
        )
    return table


def _as_tuple(label):
    return tuple(label) if isinstance(label, (tuple, list, np.ndarray)) else (label,)


def _number(labels):
    """Level and name of every class, in the order of appearance, and its members."""
    columns, positions, levels, names = [], [], [], []
    for level, of_columns in enumerate(labels.T):
        known = {}
        for j, label in enumerate(of_columns):
            if label is None or label != label:  # NaN
                continue
            if label not in known:
                known[label] = len(names)
                names.append(label)
                levels.append(level)
            columns.append(j)
            positions.append(known[label])
    if not names:
        raise ValueError("`classes` puts no column into a class; label some, or leave it out.")
    shape = len(labels), len(names)
    members = csc_array((np.ones(len(columns)), (columns, positions)), shape=shape)
    return np.array(levels), names, members


def _attributes(names, levels):
    labels = np.empty(len(names), dtype=object)
    labels[:] = names
    return {"class_names_": labels, "class_levels_": levels}


def _check_constant(given, of_coef):
    repeated = np.bincount(given.source)[given.source] > 1
    found = np.flatnonzero(repeated & (of_coef.sum(axis=1) > 0))
    if len(found):
        j = given.source[found[0]]
        name = f"column {j:,}" if given.names is None else f"column {given.names[j]!r}"
        raise ValueError(
            f"`classes` has {name}, whose effect changes over time (`time_varying`): leave it out "
            "of one of them."
        )


def _numbers(between):
    numbers = np.atleast_1d(np.asarray(between, dtype=object))
    for number in numbers.ravel():
        if not is_number(number) or not 0.0 < number < np.inf:
            refuse(between, "between", "must be positive and finite")
    return numbers.astype(np.float64)


def _by_level(values, name, n_levels):
    if values.shape not in ((1,), (n_levels,)):
        raise ValueError(
            f"`{name}` has {values.size} entries, `classes` has {n_levels} level(s) of labels; "
            "pass one for all, or one for each."
        )
    return np.broadcast_to(values, n_levels)


def _ratio(penalty, name):
    if not isinstance(penalty, str) or penalty not in RATIOS:
        raise ValueError(f'`{name}` is {penalty!r}, must be "l1" or "l2".')
    return RATIOS[penalty]
