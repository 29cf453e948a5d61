"""Result of stability selection: which columns are selected under which bound of errors."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from .._tables import Result
from ..data import options
from ._errors_of_selection import ASSUMPTIONS, expected_errors

__all__ = ["StabilityResult", "check_options"]


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
        """Result of the same fits, judged otherwise.

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
        from pandas import DataFrame, Index

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
        from pandas import DataFrame, Index

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
