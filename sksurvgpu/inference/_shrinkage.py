"""Priors of posteriors whose scales are drawn: read from arguments, and where sampling starts.

The reference of a sampler is the mode under a normal prior, and the curvature there.  Its scales
are those which make the normal approximation of the likelihood most probable, about: an EM step
takes the mean square of a group's coefficients for their variance, with one more, of the median of
the scale's prior, so that no scale goes to zero.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real

import numpy as np

from ..bayes.mixtures import MIXTURES
from ..bayes.shrinkage import RIDGE, Reference, ShrinkagePrior
from ..data import options
from ..data.by_column import by_column, by_name
from ._mode import NormalPrior, find_mode

N_MODES, N_STEPS = 2, 10  # found one after the other; of EM after each
OTHERS = "others"  # label of columns that a dictionary does not name
ONE = None  # label of the group of all columns


@dataclass(frozen=True, eq=False)
class Scales:
    """Scales of priors, as users have asked for them."""

    prior: str  # name of the mixture
    scale: float | None  # None where scales are drawn
    # (n_columns,): number of the group of each column; -1 for a column with a flat prior
    group: np.ndarray
    labels: list  # of the groups
    median: float  # of the prior of each scale
    # standard deviation of the normal distribution that multiplies each prior; may be infinite
    slab: float

    @property
    def is_learned(self) -> bool:
        """Whether scales are drawn."""
        return self.scale is None

    @property
    def least_square(self) -> float:
        """Square of the scale that is known, or of the median of the scales that are not."""
        return (self.median if self.scale is None else self.scale) ** 2

    def describe(self):
        """Scales by the names that users know, on which draws depend."""
        return {
            "prior": self.prior,
            "scale": "learn" if self.is_learned else self.scale,
            "scale_groups": [None if g < 0 else str(self.labels[g]) for g in self.group],
            "scale_median": self.median,
            "slab": self.slab,
        }

    def members_of(self, source, size):
        """1 where a coefficient is of a group: of columns `source`, then of an intercept."""
        group = np.full(size, -1)
        group[: len(source)] = self.group[source]
        return 1.0 * (group[:, None] == np.arange(len(self.labels)))

    def prior_of(self, source, mean, precision):
        """The prior of coefficients of columns `source`, and of an intercept after them.

        Means and precisions are theirs without the mixture.
        """
        members = self.members_of(source, len(mean))
        is_shrunk = members.any(axis=1)
        return ShrinkagePrior(
            MIXTURES[self.prior],
            mean,
            precision + np.where(is_shrunk, self.slab**-2.0, 0.0),
            np.where(is_shrunk, 1.0 if self.is_learned else self.scale, np.inf),
            members if self.is_learned else members[:, :0],
            self.median,
        )

    def names(self):
        """Labels of the quantities that are reported, where there are several numbers."""
        if not self.is_learned or self.labels == [ONE]:
            return {}
        labels = list(map(str, self.labels))
        has_penalty = MIXTURES[self.prior].l1_ratio is not None
        return {"scale": labels} | ({"alpha": labels} if has_penalty else {})

    def reporter(self, total):
        """Function from scales to what is recorded of them, given the sum of the weights."""
        if not self.is_learned:
            return None
        mixture = MIXTURES[self.prior]

        def report(scale):
            found = {"scale": scale}
            if mixture.l1_ratio is not None:
                found["alpha"] = mixture.penalty(scale) / total
            if self.labels == [ONE]:
                found = {name: values[:, 0] for name, values in found.items()}
            return found

        return report


def read_scales(design, prior, precision, scale, groups, median, slab):
    """Scales that users have asked for, and precisions by column, not checked.

    Scales are None where the prior is normal, and its precisions are all there is to know; where
    there are scales, precisions are 0.
    """
    options.choice(prior, "prior", MIXTURES)
    _refuse_two_widths(prior, precision, scale)
    if scale is None and prior != "normal":
        scale = "learn"
    is_learned = isinstance(scale, str) and scale == "learn"
    known = None if scale is None or is_learned else _positive(scale, "scale", ', or "learn"')
    if not is_learned:
        _refuse_without_learning(prior, scale, groups, median, slab)
    if prior == "normal" and not is_learned:
        given = 1.0 if precision is None else precision
        return None, given if known is None else known**-2.0
    median = 1.0 if median is None else _positive(median, "scale_median")
    slab = np.inf if slab is None else _positive(slab, "slab")
    return Scales(prior, known, *_read_groups(design, groups), median, slab), 0.0


def _refuse_two_widths(prior, precision, scale):
    if precision is None or (prior == "normal" and scale is None):
        return
    other = f"`scale` is {scale!r}" if scale is not None else f"`prior` is {prior!r}"
    raise ValueError(
        f"`prior_precision` is given, and {other}, which says how wide the prior is; pass "
        "`prior_precision` for normal priors of known width, and `scale` for all others."
    )


def _refuse_without_learning(prior, scale, groups, median, slab):
    for name, value in (("scale_groups", groups), ("scale_median", median)):
        if value is not None:
            raise ValueError(
                f"`{name}` is given, but `scale` is {scale!r}: only scales that are drawn have "
                'groups and a prior; pass scale="learn", or leave it out.'
            )
    if prior == "normal" and slab is not None:
        raise ValueError(
            f"`slab` is {slab!r}, but the prior is normal and its width is known; leave it out, or "
            'pass scale="learn".'
        )


def _positive(value, name, more=""):
    rule = f"must be a positive finite number{more}"
    return options.number(value, name, rule, least=1e-100, most=1e100)


def _read_groups(design, groups):
    """Number of the group of each column, and labels of the groups."""
    n_columns = design.n_columns
    if groups is None:
        return np.zeros(n_columns, int), [ONE]
    groups = by_name(groups, "scale_groups", design.names)
    if isinstance(groups, Mapping):
        found = by_column(groups, "scale_groups", n_columns, design.names)
        labels = [found[j][1] if j in found else OTHERS for j in range(n_columns)]
    else:
        labels = _as_list(groups)
        if len(labels) != n_columns:
            raise ValueError(
                f"`scale_groups` has {len(labels):,} entries, `X` has {n_columns:,} columns; pass "
                "a label per column, or a dictionary {column: label}."
            )
    for label in labels:
        _check_label(label)
    order = list(dict.fromkeys(label for label in labels if label is not None))
    if not order:
        raise ValueError(
            "`scale_groups` leaves all columns without a group: there is no scale to draw; label "
            "some columns."
        )
    return np.array([-1 if label is None else order.index(label) for label in labels]), order


def _as_list(groups):
    if isinstance(groups, str) or np.ndim(groups) != 1:
        raise ValueError(
            f"`scale_groups` is {groups!r}; pass a label per column, or a dictionary "
            "{column: label}."
        )
    return list(groups)


def _check_label(label):
    if label is not None and (not isinstance(label, str | Real) or label != label):
        raise ValueError(
            f"`scale_groups` has the label {label!r}; labels are strings or numbers, or None for a "
            "column with a flat prior."
        )


def find_reference(model, prepared, problem, scales, prior) -> Reference:
    """The log-likelihood about where the posterior is, of arguments as of `find_mode`."""
    members = scales.members_of(prepared.problem.source, len(prior.mean))
    square = np.full(len(scales.labels), scales.least_square)
    is_moving = scales.is_learned or scales.prior == "horseshoe"
    for _ in range(N_MODES if is_moving else 1):
        precision = prior.precision + members @ (1.0 / square)
        mode = find_mode(model, prepared, problem, NormalPrior(prior.mean, precision))
        factor = np.tril(mode.factor)
        whole = factor @ factor.T
        hessian, slope = whole - np.diag(precision), whole @ (mode.coef - prior.mean)
        if is_moving:
            square = _likely_squares(hessian, slope, prior, members, square, scales.least_square)
    log_scale = 0.5 * np.log(square) if scales.is_learned else np.empty(0)
    return Reference(hessian, slope, log_scale)


def _likely_squares(hessian, slope, prior, members, square, least):
    """Squares of scales of groups under which a quadratic log-likelihood is likely, by EM."""
    for _ in range(N_STEPS):
        precision = np.diagonal(hessian) + prior.precision + members @ (1.0 / square)
        width = 1.0 / np.sqrt(precision)
        correlation = hessian * np.outer(width, width)
        np.fill_diagonal(correlation, 1.0 + RIDGE)
        inverse = np.linalg.inv(correlation) * np.outer(width, width)
        expected = (inverse @ slope) ** 2 + np.diagonal(inverse)
        square = (expected @ members + least) / (members.sum(axis=0) + 1.0)
    return square
