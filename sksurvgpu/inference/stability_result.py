r"""Result of stability selection: which columns are selected under which bound of errors.

A procedure selects q of p columns in half of the data, on average.  A column is a *noise* here if
its chance of that is at most :math:`\theta = q/p`, as if columns were drawn.  Stability selection
keeps those with a share of at least :math:`\tau` of 2B halves.  Whatever the procedure, it keeps at
most

.. math:: \frac{q^2}{(2\tau - 1) p}

noises (Shah and Samworth 2013, theorem 1; Meinshausen and Buhlmann 2010 have the same for columns
without an effect, which must be exchangeable).  Let the halves be complementary pairs.  If the
share of the pairs of which a noise is selected in both halves has a unimodal distribution, the
factor of :math:`q^2 / p` becomes that of theorem 2.  If it has an r-concave one with r = -1/2, and
the share of the halves one with r = -1/4, the bound is

.. math:: p \min\{D(\theta^2; 2\tau - 1, B, -1/2), D(\theta; \tau, 2B, -1/4)\},

where D(m; t, B, r) is the largest probability of at least t that an r-concave distribution on 0,
1/B, ..., 1 of mean m has.  It is that of masses :math:`(a + i)^{1/r}` for i up to some k, and what
is left at k + 1 (appendix A.4).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np
from pandas import DataFrame, Index

from .._tables import Result
from ..data import options


@dataclass(frozen=True, eq=False, repr=False)
class StabilityResult(Result):
    """How often columns were selected; made by `stability_selection`.

    Attributes
    ----------
    alphas : ndarray of shape (n_alphas,)
        Penalties, descending.
    probabilities : ndarray of shape (n_coef, n_alphas)
        Share of the halves in which a coefficient was selected at a penalty.
    n_selected : ndarray of shape (n_alphas,)
        Mean number of penalized coefficients that a half selected at a penalty or a larger one.
    n_subsamples : int
        Halves that could be fitted.
    sampling : str
        How halves were drawn.
    threshold : float
        Share of the halves from which on a coefficient is stable.
    max_errors : float
        Bound of the expected number of false selections that is allowed.
    assumption : str
        What that bound assumes.
    is_penalized : ndarray of shape (n_coef,), bool
        Coefficients that can be left out: others are always there, and not selected.
    feature_names : ndarray of shape (n_coef,)
        Name of each row of `probabilities`.

    Examples
    --------
    >>> from sksurvgpu import CoxLassoCCD, stability_selection
    >>> from sksurvgpu.datasets import simulate_cox
    >>> data = simulate_cox(500, 30, density=0.3, random_state=0)
    >>> options = {"n_alphas": 12, "n_subsamples": 40, "random_state": 0}
    >>> result = stability_selection(CoxLassoCCD(), data.X, data.y, **options)
    >>> result
    <StabilityResult of 40 subsamples, 5 of 30 coefficients selected>
        probability selected
    x3            1     True
    x10           1     True
    ...
    >>> bool(data.coef[result.support].all())
    True
    >>> result.summary().columns.tolist()
    ['probability', 'selected']
    """

    alphas: np.ndarray
    probabilities: np.ndarray
    n_selected: np.ndarray
    n_subsamples: int
    sampling: str
    threshold: float
    max_errors: float
    assumption: str
    is_penalized: np.ndarray
    feature_names: np.ndarray

    def _title(self) -> str:
        return (
            f"StabilityResult of {self.n_subsamples:,} subsamples, {self.support.sum():,} of "
            f"{len(self.probabilities):,} coefficients selected"
        )

    def _head(self, n):
        return self.summary().head(n), int(self.is_penalized.sum())

    @cached_property
    def expected_errors(self) -> np.ndarray:
        """Bound of the expected number of false selections, if penalties end at each: (n_alphas,).

        Coefficients are selected that are stable at that penalty or a larger one.
        """
        n_columns = int(self.is_penalized.sum())
        n_subsamples, assumption = self.n_subsamples, self.assumption
        bounds = (
            expected_errors(float(q), n_columns, self.threshold, n_subsamples, assumption)
            for q in self.n_selected
        )
        return np.array(list(bounds))

    @property
    def alpha_min(self) -> float:
        """Least penalty that counts: beyond it, more errors would be expected than are allowed.

        Infinite where none counts.
        """
        within = self.alphas[self.expected_errors <= self.max_errors]
        return float(within.min(initial=np.inf))

    @property
    def max_probabilities(self) -> np.ndarray:
        """Largest probability of every coefficient over the penalties that count: (n_coef,)."""
        counts = self.alphas >= self.alpha_min
        return self.probabilities[:, counts].max(axis=1, initial=0.0)

    @property
    def support(self) -> np.ndarray:
        """Coefficients that are selected, bool of shape (n_coef,)."""
        return self.is_penalized & (self.max_probabilities >= self.threshold)

    def with_options(self, **options) -> StabilityResult:
        """Result of the same fits with another threshold, bound or assumption.

        Parameters
        ----------
        **options : object
            `threshold`, `max_errors` or `assumption`, as `stability_selection` has them.

        Returns
        -------
        result : StabilityResult
            Another result; this one is left as it is.
        """
        known = {name: getattr(self, name) for name in ("threshold", "max_errors", "assumption")}
        unknown = sorted(set(options) - set(known))
        if unknown:
            raise TypeError(
                f"`{unknown[0]}` cannot be changed after the fits; {', '.join(known)} can."
            )
        known |= options
        check_options(sampling=self.sampling, **known)
        return replace(self, **known)

    def summary(self):
        """Table of coefficients.

        Returns
        -------
        table : pandas.DataFrame
            A row for each penalized coefficient, indexed by feature, the most stable first:
            ``probability``, the largest over the penalties that count, and whether it is
            ``selected``.
        """
        some = np.flatnonzero(self.is_penalized)
        order = some[np.argsort(-self.max_probabilities[some], kind="stable")]
        columns = {"probability": self.max_probabilities[order], "selected": self.support[order]}
        return DataFrame(columns, index=Index(self.feature_names[order], name="feature"))

    def to_frame(self):
        """Table of all probabilities.

        Returns
        -------
        table : pandas.DataFrame
            A row for each penalty, indexed by alpha; a column for each coefficient.
        """
        index = Index(self.alphas, name="alpha")
        return DataFrame(self.probabilities.T, index=index, columns=self.feature_names)


def check_options(threshold, max_errors, assumption, sampling):
    """Check what a result is judged by."""
    rule = "must be above 0.5 and at most 1"
    options.number(threshold, "threshold", rule, above=0.5, most=1)
    if not options.is_number(max_errors) or not max_errors > 0:
        options.refuse(max_errors, "max_errors", "must be a positive number")
    options.choice(assumption, "assumption", ASSUMPTIONS)
    if assumption != "none" and sampling != "complementary":
        raise ValueError(
            f'`assumption` is {assumption!r}, whose bound is for sampling="complementary" only; '
            'pass that, or assumption="none".'
        )


ASSUMPTIONS = ("none", "unimodal", "r-concave")
ROUNDING = 1e-9  # of a share that is a multiple of one over the number of halves
LOWEST, HIGHEST = 1e-8, 1e8  # of the parameter a
HALVINGS, SECTIONS = 80, 60
GOLDEN = (np.sqrt(5.0) - 1.0) / 2.0


def expected_errors(n_selected, n_columns, threshold, n_halves, assumption) -> float:
    """Bound for q of p columns, a threshold of the share, and so many halves."""
    theta = n_selected / n_columns
    share = np.ceil(threshold * n_halves - ROUNDING) / n_halves  # the least that is enough
    worst = n_selected * theta / (2.0 * share - 1.0)
    bound = n_columns * theta
    if assumption == "unimodal":
        bound = n_selected * theta * _unimodal_factor(theta, share, n_halves // 2)
    elif assumption == "r-concave":
        n_kept, n_pairs = round(share * n_halves), n_halves // 2
        both = largest_tail(theta**2, n_kept - n_pairs, n_pairs, -0.5)
        bound = n_columns * min(both, largest_tail(theta, n_kept, n_halves, -0.25))
    return float(min(bound, worst, n_selected))


def _unimodal_factor(theta, share, n_pairs):
    """Factor of q^2 / p; infinite where the theorem says nothing."""
    least = 0.5 + min(theta**2, 0.5 / n_pairs + 0.75 * theta**2)
    if theta > 1.0 / np.sqrt(3.0) or share <= least:
        return np.inf
    if share <= 0.75:
        return 0.5 / (2.0 * share - 1.0 - 0.5 / n_pairs)
    return 4.0 * (1.0 - share + 0.5 / n_pairs) / (1.0 + 1.0 / n_pairs)


@lru_cache(maxsize=4096)
def largest_tail(mean, at_least, n, r) -> float:
    """Largest probability of `at_least` or more of n under an r-concave law with mean n * mean."""
    total, power = mean * n, 1.0 / r
    first = int(np.ceil(2.0 * total)) + 1  # the uniform law up to it has a larger mean
    if at_least < first or first > n - 1:
        return 1.0
    if total == 0.0:
        return 0.0
    ends = np.arange(max(first, at_least - 1), n + 1)
    place = np.arange(n + 1)
    inside = place <= ends[:, None]

    def masses(a):
        return np.where(inside, (a[:, None] + place) ** power, 0.0)

    low, high = np.full(len(ends), LOWEST), np.full(len(ends), HIGHEST)
    for _ in range(HALVINGS):  # of a at which nothing is left at k + 1, by its logarithm
        middle = np.sqrt(low * high)
        mass = masses(middle)
        is_low = mass @ place < total * mass.sum(axis=1)
        low, high = np.where(is_low, middle, low), np.where(is_low, high, middle)
    limit = np.sqrt(low * high)
    inside, last = inside[:-1], ends[:-1]

    def tail(a):
        mass = masses(a)
        rest = (np.maximum(last[:, None] + 1 - place, 0) * mass).sum(axis=1)
        return 1.0 - (last + 1 - total) * mass[:, :at_least].sum(axis=1) / rest

    return float(np.clip(_largest(tail, limit[1:], limit[:-1]), 0.0, 1.0))


def _largest(function, low, high):
    """Largest value of functions with one peak, each between its own limits."""
    best = np.maximum(function(low), function(high))
    for _ in range(SECTIONS):
        width = GOLDEN * (high - low)
        left, right = high - width, low + width
        at_left, at_right = function(left), function(right)
        best = np.maximum(best, np.maximum(at_left, at_right))
        low, high = (
            np.where(at_left < at_right, left, low),
            np.where(at_left < at_right, high, right),
        )
    return best.max()
