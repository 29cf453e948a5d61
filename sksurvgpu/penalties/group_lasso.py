"""The group lasso as users choose it."""

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

import numpy as np

from ..data.options import is_number, number
from .groups import LASSO, GroupFamily
from .labels import read_groups
from .mcp import MCP
from .scad import SCAD
from .spec import PenaltySpec


class GroupLasso(PenaltySpec):
    r"""Penalty of groups of columns, which enter the model together.

    With :math:`w_g` the weight of group g and :math:`\tau` the `mix`, it is

    .. math:: \alpha\Bigl(\tau \sum_g w_g \lVert\beta_g\rVert_2
              + (1 - \tau) \sum_j f_j \lvert\beta_j\rvert\Bigr),

    the group lasso for :math:`\tau = 1`, the sparse group lasso below. Columns without a group have
    the lasso, :math:`\alpha f_j \lvert\beta_j\rvert`, as a group of one column has.

    Parameters
    ----------
    groups : array-like of shape (n_features,), dict, "prefix"
        A label for each column, None where it has no group; a dictionary ``{column: label}`` or
        ``{label: [columns]}``, by name or position; or "prefix": columns whose names begin alike
        are a group, as `groups_from` tells. A column belongs to one group.
    weights : "size", "equal" or dict, default="size"
        Weight of each group: the square root of its number of coefficients, 1, or those in a
        dictionary ``{label: weight}``, which may leave groups of the first kind out.
    mix : float, default=1.0
        Share of the penalty that is of norms, above 0. What is left selects within groups.
    shape : MCP, SCAD, {"mcp", "scad"} or None, default=None
        Penalty of norms, and of columns alone, in place of themselves: the group MCP and the group
        SCAD, which leave large groups alone. They are not convex: see `certificate`. With
        ``scale="column"`` the curvature :math:`C` of a group is the mean of its columns'.
    prefix_sep : str, default="_"
        What separates the prefix of a name, for ``groups="prefix"``.

    See Also
    --------
    groups_from : Groups of the columns that a transformer makes.

    Notes
    -----
    The norm is that of the coefficients as they are: columns of a group should have one unit.
    `penalty_factor` :math:`f_j` multiplies the part within groups, and leaves columns without a
    group unpenalized where it is 0. The pieces of a coefficient that changes over time belong to
    the group of their column. What `MCP` and `SCAD` call :math:`l` is, of a group,
    :math:`\alpha \tau w_g` times the sum of the sample weights.

    References
    ----------
    Yuan M, Lin Y. Model selection and estimation in regression with grouped variables. Journal of
    the Royal Statistical Society B 2006;68:49-67.

    Simon N, Friedman J, Hastie T, Tibshirani R. A sparse-group lasso. Journal of Computational and
    Graphical Statistics 2013;22:231-245.

    Examples
    --------
    >>> from sksurvgpu import CoxLassoCCD, GroupLasso
    >>> from sksurvgpu.datasets import simulate_cox
    >>> data = simulate_cox(1_000, 12, random_state=0)
    >>> groups = {"a": [0, 1, 2], "b": [3, 4, 5], "c": [9, 10, 11]}
    >>> model = CoxLassoCCD(alpha=0.01, penalty=GroupLasso(groups)).fit(data.X, data.y)
    >>> [int((model.coef_[columns] != 0).sum()) for columns in groups.values()]
    [0, 0, 3]
    """

    accepts: ClassVar[frozenset[str]] = frozenset({"penalty_factor", "prior_mean"})
    algorithms: ClassVar[frozenset[str]] = frozenset({"majorized"})

    known_to: ClassVar[tuple[str, ...]] = ("certificate",)

    def __init__(self, groups, weights="size", mix=1.0, shape=None, prefix_sep="_"):
        self.groups = groups
        self.weights = weights
        self.mix = mix
        self.shape = shape
        self.prefix_sep = prefix_sep

    def family(self, given):
        group, labels = read_groups(self.groups, len(given.factor), given.names, self.prefix_sep)
        share = self._check_mix()
        self._check_factor(group, labels, given)
        radial, group = self._read_shape(group, labels, given), group[given.source]
        return GroupFamily(group, self._read_weights(group, labels), share, radial)

    def _read_shape(self, group, labels, given):
        """Penalties of norms, and of columns alone."""
        if self.shape is None:
            return LASSO
        shape = {"mcp": MCP(), "scad": SCAD()}.get(self.shape, self.shape)
        if not isinstance(shape, MCP | SCAD):
            raise ValueError(f"`shape` is {shape!r}; pass MCP(), SCAD(), 'mcp', 'scad' or None.")
        radial = shape.family(replace(given, l1_ratio=1.0, bounds=None))
        group = group[given.source]
        for knots in (radial.flat, radial.knot):
            for g in range(len(labels)):
                if len(np.unique(knots[group == g])) > 1:
                    raise ValueError(
                        f"`shape` is {self.shape!r}, which differs between columns of group "
                        f"{labels[g]!r}: a group has one norm, pass one number for its columns."
                    )
        return radial

    def _check_mix(self):
        rule = "must be a number above 0 and at most 1; without norms of groups the penalty is the "
        return number(self.mix, "mix", f"{rule}lasso, penalty=None", above=0, most=1)

    def _check_factor(self, group, labels, given):
        """Groups have no columns without a penalty, and no factors that nothing is done with."""
        wrong = (group >= 0) & (given.factor != 1.0)
        if self.mix < 1:
            wrong &= given.factor == 0
        if not wrong.any():
            return
        j = int(np.argmax(wrong))
        column = f"column {j:,}" if given.names is None else f"column {given.names[j]!r}"
        remedy = "give it the label None to leave it unpenalized"
        if given.factor[j] > 0:
            remedy = "give its group another weight (`weights`), or set `mix` below 1"
        raise ValueError(
            f"`penalty_factor` of {column} is {given.factor[j]:g}, but `groups` has it in "
            f"{labels[group[j]]!r}: {remedy}."
        )

    def _read_weights(self, group, labels):
        weights = np.sqrt(np.bincount(group[group >= 0], minlength=len(labels)))
        if isinstance(self.weights, Mapping):
            for label, weight in self.weights.items():
                if label not in labels:
                    known = ", ".join(map(repr, labels[:5]))
                    raise ValueError(
                        f"`weights` names group {label!r}, `groups` has {len(labels):,} others: "
                        f"{known}{', ...' if len(labels) > 5 else ''}."
                    )
                if not is_number(weight) or not 0 < weight < np.inf:
                    raise ValueError(
                        f"`weights` of group {label!r} is {weight!r}, must be a positive number; "
                        "columns of the label None have no group."
                    )
                weights[labels.index(label)] = weight
            return weights
        if self.weights not in ("size", "equal"):
            raise ValueError(
                f'`weights` is {self.weights!r}; pass "size", "equal" or a dictionary '
                "{label: weight}."
            )
        return weights if self.weights == "size" else np.ones(len(labels))
