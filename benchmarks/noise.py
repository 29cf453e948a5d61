"""What noise at sites costs: errors and coverage of Cox models over three sites, by epsilon."""

from __future__ import annotations

import sys
import warnings

import numpy as np
from scipy.stats import norm

from sksurvgpu import CoxLassoCCD, surv, wald
from sksurvgpu.federated import Coordinator, Identity, Noise, Rules, Site

from .report import Option, columns, lines, read, save

EFFECTS = np.array([0.5, -0.4, 0.3, 0.2, -0.2, 0.1, 0.0, 0.0, 0.3, -0.3])
GRID = np.linspace(0.05, 1.0, 20)
EVENTS, SHARE, LENGTH = 0.1, 0.3, 2.0  # hazard, ones of indicators, norm of a row
MOST = 1_000_000 // 5  # rows times fits, beyond which fits are fewer
SHOWN = columns(
    "rows:,.0f | events:,.0f | epsilon:g | fits:.0f | plain error=plain:.4f | error:.4f"
    " | standard error=standard_error:.4f | times plain=times:.2f | inflation:.2f"
    " | coverage:.1% | of plain=plain_coverage:.1%"
)


def main_noise(arguments=None):
    """Measure, print a table, write JSON."""
    epsilon = Option([0.5, 2.0, 8.0])
    n_rows = Option([100_000, 1_000_000], "of all sites together")
    fits = Option(20, quick=2)
    options = read("noise", __doc__, arguments, "2 fits", epsilon=epsilon, n_rows=n_rows, fits=fits)
    results = []
    for n in options.n_rows:
        found = {epsilon: [] for epsilon in options.epsilon}
        n_fits = max(2, min(options.fits, options.fits * MOST // n))
        for seed in range(n_fits):
            print(f"{n:,} rows, {seed + 1} of {n_fits}", file=sys.stderr, flush=True)
            _fit_all(found, n, seed)
        results += [_summary(n, *each) for each in found.items()]
        save(options, results=results)
    print(lines(SHOWN, results))


def _rows(n, seed):
    """Eight indicators and two numbers, centred; a tenth have the event."""
    rng = np.random.default_rng(seed)
    X = np.hstack([(rng.random((n, 8)) < SHARE) - SHARE, rng.uniform(-1, 1, (n, 2))])
    event = rng.exponential(np.exp(-X @ EFFECTS) / EVENTS)
    censored = np.minimum(1.0, rng.uniform(0, 2, n))
    return X, surv(event <= censored, np.minimum(event, censored))


def _fit_all(found, n, seed):
    """One data set: the plain fit, and one with each noise."""
    X, y = _rows(n, seed)
    rounded = surv(y["event"], GRID[np.searchsorted(GRID, y["time"])])
    plain = wald(CoxLassoCCD(alpha=0).fit(X, rounded), X, rounded)
    for epsilon, fits in found.items():
        keys = {name: Identity.new() for name in "ABC"}
        options = {"rules": Rules(max_epsilon=epsilon)}
        options["peers"] = {name: key.fingerprint for name, key in keys.items()}
        sites = {
            name: Site(X[k::3], y[k::3], key=keys[name], **options).answer
            for k, name in enumerate("ABC")
        }
        noise = Noise(epsilon, norm=LENGTH)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fit = Coordinator(CoxLassoCCD(alpha=0), sites, grid=GRID, noise=noise).fit()
        fits.append((plain, fit))


def _summary(n, epsilon, fits):
    plain = np.array([plain.coef for plain, _ in fits]) - EFFECTS
    errors = np.array([fit.coef for _, fit in fits]) - EFFECTS
    expected = np.array([fit.standard_errors for _, fit in fits])
    of_plain = np.array([plain.standard_errors for plain, _ in fits])
    events = np.mean([fit.n_events for _, fit in fits])
    variance = np.mean(1.0 / of_plain**2) / events
    return {
        "rows": n,
        "events": events,
        "epsilon": epsilon,
        "fits": len(fits),
        "plain": float(np.sqrt(np.mean(plain**2))),
        "error": float(np.sqrt(np.mean(errors**2))),
        "standard_error": float(np.sqrt(np.mean(expected**2))),
        "times": float(np.mean(expected / of_plain)),
        "inflation": Noise(epsilon, norm=LENGTH).inflation(events, variance),
        "coverage": float(np.mean(abs(errors) < norm.isf(0.025) * expected)),
        "plain_coverage": float(np.mean(abs(plain) < norm.isf(0.025) * of_plain)),
    }
