"""Noise: what a row can change is hidden in draws that sites add to what they send.

All that is told of rows is a sequence of sums over them, each with normal noise of the variance
(s / m)**2, where s is the most that one row changes the sum by in Euclidean norm.  Whatever is made
of such sums, points at which later ones are taken included, a test of whether a row is there is no
better than that of N(0, 1) against N(mu, 1), mu**2 = sum of m**2 (Gaussian differential privacy;
Dong, Roth and Su, 2022; adaptively: Smith and Thakurta, 2022).  For every epsilon this is

    delta = Phi(mu / 2 - epsilon / mu) - exp(epsilon) Phi(-mu / 2 - epsilon / mu)

and no smaller one (Balle and Wang, 2018).

Sums are of integers.  Floating point would round the sum otherwise without a row, and the lowest
digits of a float tell what was added to it (Mironov, 2012).  Each row's part is rounded to a grid
and the noise, too: integers plus a rounded draw are the rounded sum.  Of several sites each adds
its own rounded draw; with steps of 2**-16 of a standard deviation nobody can tell that from
rounding once (Kairouz, Liu and Steinke, 2021).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import KW_ONLY, asdict, dataclass
from functools import cached_property
from hashlib import blake2b, sha256, shake_256
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.special import log_ndtr

from ..data.options import number, whole
from .words import COUNTS, decode_counts, encode_counts

FINE = 16  # bits of a grid below a standard deviation
SLACK = 1.0 + 1e-9  # of bounds that are computed in floating point
MOST_STEPS = 20
# Parts of mu**2.  Of counts and risk from 0.05 to 0.3, and `LAST` from 2 to 8, errors depend by a
# tenth in simulated fits of ten columns, and by a fifth where these are not centred; with 0.06 for
# the matrix in place of 0.12 fewer intervals hold (0.89 for 0.96), with 0.2 errors are larger.
SHARES = {"counts": 0.08, "risk": 0.15, "matrix": 0.12, "loads": 0.05, "gradient": 0.6}
LAST = 3.0  # how many times the part of another step the last one has


def delta_of(epsilon: float, mu: float) -> float:
    """Least delta at an epsilon of what is no easier to tell than N(0, 1) from N(mu, 1)."""
    above = log_ndtr(mu / 2 - epsilon / mu)
    below = min(epsilon + log_ndtr(-mu / 2 - epsilon / mu), above)
    return float(-np.exp(above) * np.expm1(below - above))


def mu_of(epsilon: float, delta: float) -> float:
    """Largest mu that is differentially private with epsilon and delta."""
    log_mu = brentq(lambda u: delta_of(epsilon, np.exp(u)) - delta, -40.0, 40.0, xtol=1e-13)
    return float(np.exp(log_mu)) / SLACK


@dataclass(frozen=True)
class Noise:
    """Differential privacy of rows, for `Coordinator(noise=...)`.

    Parameters
    ----------
    epsilon : float
        Logarithm of the largest factor by which one row, added or taken away, changes how likely
        anything is that is told of all rows; below 1 is strict, above 8 says little.
    norm : float
        Largest Euclidean norm of a row of X. Longer ones are shortened, so choose it for nearly all
        rows, after columns were centred and scaled by what everyone knows. Noise is in proportion.
    delta : float, default=1e-6
        Probability beyond which the factor holds: well below one over the number of rows.
    effect : float, default=2.0
        Largest linear predictor of a row in size: coefficients are at most `effect` / `norm` long.
    steps : int, default=3
        Newton steps, among which noise is divided.

    Examples
    --------
    >>> from sksurvgpu.federated import Noise
    >>> noise = Noise(1.0, norm=3.0)
    >>> print(f"{noise.mu:.3f}")
    0.237
    >>> print(f"{noise.inflation(n_events=10_000, variance=0.25):.2f}")
    1.13
    """

    epsilon: float
    _: KW_ONLY
    norm: float
    delta: float = 1e-6
    effect: float = 2.0
    steps: int = 3

    def __post_init__(self):
        positive = {"epsilon": 1e7, "norm": 1e9, "effect": 20.0, "delta": 0.1}
        for name, most in positive.items():
            rule = f"must be a number above 0 and at most {most:g}"
            number(getattr(self, name), name, rule, above=0.0, most=most)
        rule = f"must be a whole number from 1 to {MOST_STEPS}"
        if whole(self.steps, "steps", 1, rule) > MOST_STEPS:
            raise ValueError(f"`steps` is {self.steps}, {rule}.")

    @classmethod
    def read(cls, text: str) -> Noise:
        """Noise of a programme's text, which may be anybody's; ValueError if it is none."""
        try:
            given = json.loads(text)
            return cls(given.pop("epsilon"), **given)
        except (TypeError, KeyError, AttributeError, ValueError) as error:
            raise ValueError(f"its noise cannot be read: {error}") from None

    @property
    def text(self) -> str:
        """JSON of a programme."""
        return json.dumps(asdict(self), sort_keys=True)

    def __str__(self) -> str:
        return (
            "Sums are told with noise only: one row, added or taken away at one site, changes how "
            f"likely anything is that is told by a factor of exp({self.epsilon:g}) at most, but "
            f"for a probability of {self.delta:g}. Rows of X are shortened to a norm of "
            f"{self.norm:g}, linear predictors are at most {self.effect:g} in size, and "
            f"{self.steps} step(s) are made."
        )

    @cached_property
    def mu(self) -> float:
        """Difference of the means of two standard normals that are as hard to tell apart."""
        return mu_of(self.epsilon, self.delta)

    def mu_at(self, kind: str, step: int, kinds=tuple(SHARES)) -> float:
        """Part of a release of a kind, at a step from 0 on, of a model that has these kinds.

        Sums by time of the first step are its counts.
        """
        share = SHARES[kind] / sum(SHARES[other] for other in self._told(kinds))
        if kind == "counts":
            return self.mu * share**0.5
        first = 1 if kind == "risk" else 0
        weights = np.ones(self.steps - first)
        weights[-1] = LAST
        return float(self.mu * (share * weights[step - first] / weights.sum()) ** 0.5)

    def _told(self, kinds):
        return [kind for kind in kinds if kind != "risk" or self.steps > 1]

    def inflation(self, n_events: float, variance: float, *, residual: float = 1.0) -> float:
        """Factor by which standard errors of a Cox model grow, before anything is run.

        Parameters
        ----------
        n_events : float
            Of all sites.
        variance : float
            Of a column among the rows at risk, given the other columns, once rows are shortened.
        residual : float, default=1.0
            Largest cumulative hazard of any row that the model allows for, if above 1: that at
            zeros times ``exp(effect)``.

        Returns
        -------
        factor : float
            Of the noise of the last step alone, of three sites; sums by time add to it.
        """
        last = Release("gradient", 1, self.norm * max(1.0, residual), self._last, 3)
        return float(np.sqrt(1.0 + last.variance / (n_events * variance)))

    @property
    def _last(self):
        return self.mu_at("gradient", self.steps - 1)


class Release(NamedTuple):
    """One sum with noise.

    sensitivity   bound of the change, in Euclidean norm, that one row makes
    mu            of this sum
    """

    name: str
    size: int
    sensitivity: float
    mu: float
    n_sites: int

    @property
    def n_others(self) -> int:
        """Sites whose noise hides a row where one site tells the coordinator its own."""
        return max(1, self.n_sites - 1)

    @property
    def exponent(self) -> int:
        """Steps of the grid are two to the power of this."""
        own = self.sensitivity / self.mu / self.n_others**0.5
        return int(np.floor(np.log2(own))) - FINE

    @property
    def own_sigma(self) -> float:
        """Standard deviation of the noise of a site, in steps; of all but one it is enough."""
        bound = np.ldexp(self.sensitivity * SLACK, -self.exponent) + 0.5 * self.size**0.5
        return float(bound / self.mu / self.n_others**0.5)

    @property
    def variance(self) -> float:
        """Of the noise in the sum of all sites."""
        return self.n_sites * float(np.ldexp(self.own_sigma, self.exponent)) ** 2

    def round(self, parts) -> np.ndarray:
        """Parts of rows as whole numbers of steps, in floating point, whose sums are exact."""
        return np.rint(np.ldexp(parts, -self.exponent))

    def __str__(self) -> str:
        return f"{self.name} {self.size:,} (noise {self.variance**0.5:.3g})"


def noise_key(secret: bytes, state: bytes, code: bytes) -> bytes:
    """Key of a site's draws at a point: the same ones for the same point, and rows, alone."""
    key = sha256(secret).digest()
    return blake2b(state + code, key=key, digest_size=32, person=b"sksurvgpu noise").digest()


def draw_normal(key: bytes, n: int) -> np.ndarray:
    """Standard normal draws of a key (Box and Muller), none beyond 9.5."""
    half = -(-n // 2)
    bits = np.frombuffer(shake_256(key).digest(16 * half), "<u8").reshape(2, half)
    first, angle = np.ldexp(bits[0] + 0.5, -64), np.ldexp(bits[1], -63) * np.pi
    radius = np.sqrt(-2.0 * np.log(first))
    return np.concatenate([radius * np.cos(angle), radius * np.sin(angle)])[:n]


class NoisySums:
    """Sums over all sites, with noise.

    Parameters
    ----------
    exchange : callable
        As of `SumEngine`.
    rows : object, optional
        Of this site: ``rows.total(release, point)`` is its sum, in steps; the coordinator has none.
    open_noise : callable, optional
        Counts mu**2 at this point and gives its key, see `noise_key`.
    """

    def __init__(self, exchange, rows: Any = None, open_noise: Callable | None = None):
        self._exchange, self._rows, self._open_noise = exchange, rows, open_noise
        self.asked, self.n_exchanges = "", 0  # for, the last time, in words

    def ask(self, releases, point=None) -> list[np.ndarray]:
        """Sums of all sites."""
        said = [(r.name, r.size, r.exponent) for r in releases]
        self.asked = ", ".join(map(str, releases))
        self.n_exchanges += 1
        sizes = [r.size for r in releases]
        words = self._exchange(
            sha256(repr(said).encode()).digest(), lambda: self.make(releases, point), sum(sizes)
        )
        parts = np.split(decode_counts(words).astype(np.float64), np.cumsum(sizes)[:-1])
        return [np.ldexp(part, r.exponent) for r, part in zip(releases, parts, strict=True)]

    def make(self, releases, point):
        """Words of this site, for `exchange`."""
        key = self._open_noise(sum(r.mu**2 for r in releases))
        normal = draw_normal(key, sum(r.size for r in releases))
        scale = np.repeat([r.own_sigma for r in releases], [r.size for r in releases])
        own = np.concatenate([self._rows.total(r, point) for r in releases])
        total = own + np.rint(normal * scale).astype(np.int64)
        return encode_counts(np.clip(total, 1 - COUNTS, COUNTS - 1))
