"""Fits over sites whose sums all have noise: what can be fitted so, and what comes of it."""

import json
from dataclasses import dataclass

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from .._warnings import warn
from ..data.options import number
from ..inference.wald import INTERCEPT, WaldResult
from .newton import MODELS
from .noise import Noise, NoisySums

MOST_TIMES = 10_000
FREE = {"alpha", "l1_ratio", "tol", "max_iter"}  # parameters; the others stay as they are


def check_noisy(programme) -> Noise:
    """Noise of a programme that can be; ValueError otherwise."""
    noise = Noise.read(programme.noise)
    said = json.loads(programme.estimator)
    kind, given = said["class"], said["parameters"]
    if kind not in MODELS:
        raise ValueError(f"with noise there are {' and '.join(MODELS)}, not {kind}")
    others = sorted(set(given) - FREE)
    if others:
        raise ValueError(f"with noise there is no {', '.join(map(repr, others))}; leave it out")
    number(given.get("alpha", 0.01), "alpha", "must be a number from 0 on", least=0.0)
    if given.get("alpha", 1.0) != 0 and given.get("l1_ratio", 1.0) != 0:
        raise ValueError("with noise nothing is selected: pass alpha=0, or a ridge, l1_ratio=0")
    if programme.then != "[]" or programme.level != "diagonal":
        raise ValueError("with noise nothing follows the fit: leave out `then` and `level`")
    if not (np.isfinite(programme.grid).all() and np.all(np.diff(programme.grid) > 0)):
        raise ValueError("`grid` is not of ascending times")
    n_times, has_time = len(programme.grid), MODELS[kind].has_time
    if not (2 <= n_times <= MOST_TIMES if has_time else n_times == 0):
        raise ValueError(
            f"`grid` has {n_times:,} times; a model with time needs 2 to {MOST_TIMES:,}, and one "
            "without time has none"
        )
    return noise


@dataclass(frozen=True, eq=False, repr=False)
class NoisyFit(WaldResult):
    """Differentially private coefficients, with a covariance that accounts for the noise.

    A `WaldResult` with its methods; made by ``Coordinator(noise=...)``.

    Attributes
    ----------
    epsilon : float
    delta : float
        What the noise was for.
    n_rows : float
    n_events : float
        Of all sites, with noise.
    n_exchanges : int
        Sums that were told.

    Examples
    --------
    >>> import numpy as np
    >>> from sksurvgpu import CoxLassoCCD, surv
    >>> from sksurvgpu.federated import Coordinator, Identity, Noise, Rules, Site
    >>> rng = np.random.default_rng(0)
    >>> X = (rng.random((60_000, 2)) < 0.5) - 0.5
    >>> time = rng.exponential(np.exp(-X @ [0.5, 0.0]))
    >>> y = surv(time < 1, np.minimum(time, 1))
    >>> keys = {name: Identity.new() for name in "ABC"}
    >>> options = {"rules": Rules(max_epsilon=2.0)}
    >>> options["peers"] = {name: key.fingerprint for name, key in keys.items()}
    >>> sites = {
    ...     name: Site(X[k::3], y[k::3], key=keys[name], **options) for k, name in enumerate("ABC")
    ... }
    >>> send = {name: site.answer for name, site in sites.items()}
    >>> noise = Noise(2.0, norm=0.71)
    >>> grid = np.linspace(0.05, 1, 20)
    >>> Coordinator(CoxLassoCCD(alpha=0), send, grid=grid, noise=noise).fit()
    <NoisyFit of 2 coefficients, 95% intervals, epsilon 2, delta 1e-06>
    ...
    """

    epsilon: float = np.nan
    delta: float = np.nan
    n_rows: float = np.nan
    n_events: float = np.nan
    n_exchanges: int = 0

    def _title(self) -> str:
        said = super()._title().replace("WaldResult", "NoisyFit")
        return f"{said}, epsilon {self.epsilon:g}, delta {self.delta:g}"


def fit_noisy(programme, public, sums: NoisySums) -> NoisyFit:
    """Fit the model of a programme by sums with noise; all parties have the same result."""
    noise, said = Noise.read(programme.noise), json.loads(programme.estimator)
    n = len(public.powers)
    model = MODELS[said["class"]](sums, noise, programme, n)
    coef = model.begin()
    ridge = said["parameters"].get("alpha", 0.01) * max(model.n_rows, 0.0) * np.ones(len(coef))
    ridge[: len(coef) - n] = 0.0
    for step in range(noise.steps):
        told = model.step(step, coef)
        information, n_lost = _as_definite(told.information, 2.0 * told.error * len(coef) ** 0.5)
        inverse = np.linalg.inv(information + np.diag(ridge))
        before, coef = coef, model.project(coef + inverse @ (told.gradient - ridge * coef))
    spread = told.spread + told.spread_of(coef - before)
    if n_lost:
        warn(
            f"the noise is as large as what is known of {n_lost} combination(s) of coefficients: "
            "their errors are larger than said; take a larger epsilon or fewer columns.",
            ConvergenceWarning,
        )
    names = [f"x{j}" for j in range(n)] if public.names is None else list(public.names)
    return NoisyFit(
        coef=coef,
        covariance=inverse @ (information + spread) @ inverse,
        level=0.95,
        robust=False,
        feature_names=np.array([INTERCEPT] * (len(coef) - n) + names, dtype=object),
        _effect=model.effect,
        _fitted=coef,
        epsilon=noise.epsilon,
        delta=noise.delta,
        n_rows=float(model.n_rows),
        n_events=float(model.n_events),
        n_exchanges=sums.n_exchanges,
    )


def _as_definite(matrix, least):
    """A matrix whose eigenvalues are at least the noise, and how many were not."""
    values, vectors = np.linalg.eigh(matrix)
    return (vectors * np.maximum(values, least)) @ vectors.T, int((values < least).sum())
