"""Result of sampling: draws by name, what they say, and how far they can be trusted."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
from pandas import DataFrame, Index, concat

from .._docs import sharing
from .._tables import Result, counted
from ..data.intervals import check_level, tails, with_ratios
from ..data.options import is_whole
from .arviz import to_arviz
from .chains import Schedule
from .diagnostics import Diagnostics, diagnose
from .doubts import badness, doubts_about
from .draws import Draws, first_of, read_draws, some_of
from .run import Sampled

_OF_QUANTITY = "Parameters\n----------\nname : str\n    Name of the quantity.\n\nReturns\n-------\n"
_OF_QUANTITY += "numbers : ndarray\n    Of the shape of one draw."


@sharing({"of_quantity": _OF_QUANTITY})
@dataclass(frozen=True, eq=False, repr=False)
class Posterior(Result):
    """Draws of named parameters from a posterior distribution.

    Parameters
    ----------
    sampled : Sampled
        What chains have drawn.
    names : dict of {str: list of str}
        Labels of the numbers of each quantity that has several, in the order of memory.
    level : float, default=0.95
        Of the intervals.
    effect : str or None, default=None
        What exp(coef) is called; None where it is no ratio.

    Attributes
    ----------
    draws : dict of {str: ndarray of shape (n_chains, n_draws, ...)}
        Draws of each quantity, in memory or in files.
    seconds : float
        Time that sampling took.

    See Also
    --------
    TraceDisplay : Figures of chains.
    CoefficientDisplay : Forest plots, also of posteriors.

    Notes
    -----
    Where only a summary was kept (``keep="summary"``), means, standard deviations and covariances
    are there of all quantities, covariances of at most 2,000 numbers, and the rest only of those
    of at most 16. ``r_hat`` of the others is that of Gelman and Rubin (1992), of whole chains and
    without ranks.

    Examples
    --------
    >>> import numpy as np
    >>> from sksurvgpu import Posterior
    >>> random = np.random.default_rng(0)
    >>> draws = {
    ...     "coef": random.normal(0.5, 0.1, (4, 500, 2)),
    ...     "sigma2": random.gamma(9, 1, (4, 500)),
    ... }
    >>> posterior = Posterior.from_draws(draws, {"coef": ["age", "dose"]})
    >>> posterior
    <Posterior of 4 chains, 500 draws each: coef (2), sigma2>
    ...
    >>> posterior.summary().index.tolist()
    ['coef[age]', 'coef[dose]', 'sigma2']
    """

    sampled: Sampled
    names: dict[str, list[str]]
    level: float = 0.95
    effect: str | None = None

    def __post_init__(self):
        for name, shape in self.shapes.items():
            n_labels = len(self.names.get(name, ()))
            if name in self.names and n_labels != prod(shape):
                raise ValueError(f"{name!r} has {n_labels:,} labels for {prod(shape):,} numbers.")

    @classmethod
    def from_draws(cls, draws, names=None, *, level=0.95, effect=None) -> Posterior:
        """Make a posterior of draws that came from elsewhere.

        Parameters
        ----------
        draws : dict of {str: array-like of shape (n_chains, n_draws, ...)}
            Draws of each quantity.
        names : dict of {str: list of str}, optional
            Labels of the numbers of each quantity that has several; numbers by default.
        level : float, default=0.95
            Of the intervals.
        effect : str or None, default=None
            What exp(coef) is called; None where it is no ratio.

        Returns
        -------
        posterior : Posterior
            With all that can be said of them.
        """
        arrays = read_draws(draws)
        n_chains, n_draws = next(iter(arrays.values())).shape[:2]
        schedule = Schedule(n_chains, n_tune=0, n_draws=n_draws)
        sampled = Sampled(Draws(arrays, {}), schedule, n_draws, 0.0)
        return cls(sampled, names or {}, check_level(level), effect)

    @property
    def draws(self) -> dict[str, np.ndarray]:
        """Draws by name, of shape (n_chains, n_draws, ...)."""
        return self.sampled.draws.arrays

    @property
    def seconds(self) -> float:
        """Time that sampling took."""
        return self.sampled.seconds

    @property
    def n_chains(self) -> int:
        """Number of chains."""
        return self.sampled.schedule.n_chains

    @property
    def n_draws(self) -> int:
        """Draws of each chain."""
        return self.sampled.n_draws

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shape of one draw of each quantity, also of those without draws."""
        shapes = {name: array.shape[2:] for name, array in self.draws.items()}
        return shapes | {name: of.shape for name, of in self.sampled.draws.moments.items()}

    def mean(self, name) -> np.ndarray:
        """Posterior mean of a quantity.

        <<of_quantity>>
        """
        if name in self.sampled.draws.moments:
            return self.sampled.draws.moments[name].mean()
        return self.sampled.draws.reduce(name, lambda draws: draws.mean(axis=0))

    def sd(self, name) -> np.ndarray:
        """Posterior standard deviation of a quantity.

        <<of_quantity>>
        """
        if name in self.sampled.draws.moments:
            return self.sampled.draws.moments[name].sd()
        return self.sampled.draws.reduce(name, lambda draws: draws.std(axis=0, ddof=1))

    def covariance(self, name) -> np.ndarray:
        """Posterior covariance matrix of the numbers of a quantity.

        Parameters
        ----------
        name : str
            Name of the quantity.

        Returns
        -------
        covariance : ndarray of shape (size, size)
            Of all pairs of its numbers.
        """
        moments = self.sampled.draws.moments.get(name)
        if moments is None:
            draws = self.sampled.draws.of(name, "covariance")
            size = prod(draws.shape[2:])
            return np.cov(draws.reshape(-1, size), rowvar=False, dtype=np.float64).reshape(
                size, size
            )
        if not moments.has_covariance:
            raise ValueError(
                f"the covariance of {name!r} was not kept: it has {prod(moments.shape):,} numbers, "
                'too many for a matrix; its standard deviations are in sd; keep="float32" keeps '
                "what covariances of some of them can be computed from."
            )
        return moments.spread()

    def quantile(self, name, q) -> np.ndarray:
        """Posterior quantiles of a quantity.

        Parameters
        ----------
        name : str
            Name of the quantity.
        q : float or array-like of shape (n_quantiles,)
            Probabilities.

        Returns
        -------
        quantile : ndarray
            Of the shape of one draw, after an axis of several probabilities.
        """
        self.sampled.draws.of(name, "quantile")
        q = np.asarray(q, dtype=np.float64)
        if q.ndim > 1 or not ((q >= 0) & (q <= 1)).all():
            raise ValueError(f"`q` is {q}, must have probabilities between 0 and 1.")
        return self.sampled.draws.reduce(name, lambda draws: np.quantile(draws, q, axis=0), q.shape)

    @property
    def intervals(self) -> Any:
        """Posterior means and intervals, a DataFrame by feature: ``coef``, ``lower``, ``upper``."""
        lower, upper = self.quantile("coef", tails(self.level)).reshape(2, -1)
        columns = {"coef": self.mean("coef").ravel(), "lower": lower, "upper": upper}
        return DataFrame(columns, index=Index(self._numbers_of("coef"), name="feature"))

    def summary(self, level=None) -> Any:
        """Table of all parameters.

        Parameters
        ----------
        level : float, optional
            Level of the intervals, by default that of the posterior.

        Returns
        -------
        table : pandas.DataFrame
            A row for each parameter, with mean, standard deviation, bounds of the interval, R-hat
            and effective sample sizes. Where exp(coef) is a ratio, there are columns for it and
            its interval, too.
        """
        level = self.level if level is None else check_level(level)
        table = concat([self._summarize(name, level) for name in self.shapes])
        # By position: names of columns may occur twice.
        for key, column in self.diagnostics.items():
            table[key] = column.to_numpy()
        return table.set_index(self.diagnostics.index)

    def _summarize(self, name, level):
        size = prod(self.shapes[name])
        table = DataFrame({"mean": self.mean(name).ravel(), "sd": self.sd(name).ravel()})
        bounds = np.full((2, size), np.nan)
        if name in self.draws:
            bounds = self.quantile(name, tails(level)).reshape(2, size)
        table["lower"], table["upper"] = bounds
        if name == "coef":
            table = with_ratios(table.rename(columns={"mean": "coef"}), self.effect)
            table = table.rename(columns={"coef": "mean"})
        return table

    @cached_property
    def labels(self) -> list[str]:
        """Labels of all parameters, such as ``sigma2`` or ``coef[age]``."""
        return [
            f"{name}[{number}]" if shape else name
            for name, shape in self.shapes.items()
            for number in self._numbers_of(name)
        ]

    @cached_property
    def diagnostics(self) -> Any:
        """R-hat and effective sample sizes of all parameters, a DataFrame by label."""
        found = [self._diagnose(name) for name in self.shapes]
        columns = {
            key: np.concatenate([np.ravel(getattr(part, key)) for part in found])
            for key in ("r_hat", "ess_bulk", "ess_tail")
        }
        return DataFrame(columns, index=Index(self.labels, name="parameter"))

    def _diagnose(self, name):
        if name in self.draws:
            return diagnose(self.draws[name])
        moments = self.sampled.draws.moments[name]
        missing = np.full(moments.shape, np.nan)
        return Diagnostics(moments.r_hat(), missing, missing)

    def worst(self, n=1) -> Any:
        """Diagnostics of the parameters with the worst chains.

        Parameters
        ----------
        n : int, default=1
            How many parameters.

        Returns
        -------
        table : pandas.DataFrame
            R-hat and effective sample sizes by label, from the worst on.
        """
        order = np.argsort(-badness(self.diagnostics, self.n_chains), kind="stable")
        return self.diagnostics.iloc[order[:n]]

    def doubts(self) -> list[str]:
        """Reasons not to trust the draws, such as chains that disagree.

        Returns
        -------
        doubts : list of str
            A sentence for each doubt, with the worst parameter and what to do; empty if there is
            none.
        """
        return list(self._doubts)

    @cached_property
    def _doubts(self):
        with np.errstate(invalid="ignore", over="ignore"):  # what is not finite is a doubt
            mean, sd = (
                np.concatenate([of(name).ravel() for name in self.shapes])
                for of in (self.mean, self.sd)
            )
            found = doubts_about(self.diagnostics, mean, sd, self.sampled.schedule, self.n_draws)
        return [*self.sampled.doubts, *found]

    def to_arviz(self) -> Any:
        """Draws as ArviZ holds them.

        Returns
        -------
        data : DataTree or InferenceData
            A group ``posterior``, whose dimensions carry the labels.
        """
        arrays, labels = {}, {}
        for name, draws in self.draws.items():
            arrays[name] = np.asarray(draws)
            if draws.ndim > 2:
                arrays[name] = arrays[name].reshape(*draws.shape[:2], prod(draws.shape[2:]))
                labels[name] = self._numbers_of(name)
        return to_arviz(arrays, labels)

    def parameter(self, label) -> np.ndarray:
        """Draws of one parameter.

        Parameters
        ----------
        label : str or int
            Its label or its row, as in ``summary``.

        Returns
        -------
        draws : ndarray of shape (n_chains, n_draws)
            A row for each chain.
        """
        if label in self.labels:
            label = self.labels.index(label)
        if not is_whole(label) or not 0 <= label < len(self.labels):
            raise ValueError(f"there is no parameter {label!r}, but {some_of(self.labels)}.")
        sizes = [prod(shape) for shape in self.shapes.values()]
        ends = np.cumsum(sizes)
        which = int(np.searchsorted(ends, label, side="right"))
        draws = self.sampled.draws.of(list(self.shapes)[which], "trace")
        flat = draws.reshape(*draws.shape[:2], sizes[which])
        return flat[:, :, label - ends[which] + sizes[which]]

    def _numbers_of(self, name):
        """Labels of the numbers of a quantity, without its name."""
        if name in self.names:
            return list(map(str, self.names[name]))
        return [", ".join(map(str, index)) for index in np.ndindex(self.shapes[name])]

    def _title(self) -> str:
        shapes = {
            name: " × ".join(map("{:,}".format, shape)) for name, shape in self.shapes.items()
        }
        sizes = ", ".join(f"{name} ({shape})" if shape else name for name, shape in shapes.items())
        chains = counted(self.n_chains, "chains")
        return f"Posterior of {chains}, {self.n_draws:,} draws each: {sizes}"

    def _head(self, n):
        part, level = self, self.level
        if not self.sampled.draws.moments:
            part = Posterior.from_draws(*first_of(self.draws, self._numbers_of, n), level=level)
        return part.summary().head(n), sum(map(prod, self.shapes.values()))

    def _notes(self):
        return self._doubts
