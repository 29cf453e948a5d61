"""Late entry beside predictors that lie far apart: sums over risk sets in which nothing cancels."""

import math
from contextlib import nullcontext, suppress

import numpy as np
import pytest

from sksurvgpu import CoxLassoCCD, residuals, surv, wald, write_partitions


def simulate(n, spread, seed, n_strata=1, ties=False):
    """Outcome with late entry, two columns, and offsets of a standard deviation `spread`."""
    rng = np.random.default_rng(seed)
    start = rng.exponential(1.0, n)
    time = start + rng.exponential(1.0, n)
    if ties:
        start, time = np.floor(4.0 * start), np.floor(4.0 * time) + 1.0
    stratum = rng.integers(0, n_strata, n) if n_strata > 1 else None
    y = surv(rng.random(n) < 0.7, time, start=start, stratum=stratum)
    return rng.normal(0.0, 1.0, (n, 2)), y, rng.normal(0.0, spread, n), rng.uniform(0.5, 2.0, n)


def by_hand(y, eta, weight, ties="breslow"):
    """Log-likelihood and its slope by the predictor, each sum over a risk set by itself."""
    stratum = y["stratum"] if "stratum" in y.dtype.names else np.zeros(len(y))
    terms, u = [], np.where(y["event"], weight, 0.0)
    for s in np.unique(stratum):
        for t in np.unique(y["time"][y["event"] & (stratum == s)]):
            at_risk = (stratum == s) & (y["start"] < t) & (y["time"] >= t)
            dead = at_risk & y["event"] & (y["time"] == t)
            top = eta[at_risk].max()
            w = np.where(at_risk, weight * np.exp(np.minimum(eta - top, 0.0)), 0.0)
            n_dead = dead.sum()
            for r in range(n_dead if ties == "efron" else 1):
                share = 1.0 - r / n_dead * dead if ties == "efron" else np.ones(len(y))
                mass = weight[dead].sum() / (n_dead if ties == "efron" else 1)
                risk = math.fsum(share * w)
                terms.append(-mass * (math.log(risk) + top))
                u -= mass * share * w / risk
            terms += (weight[dead] * eta[dead]).tolist()
    return math.fsum(terms), u


@pytest.mark.parametrize("ties", ["breslow", "efron"])
@pytest.mark.parametrize("n_strata", [1, 3])
@pytest.mark.parametrize("spread", [1.0, 15.0, 30.0, 100.0, 1000.0])
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_log_likelihood_of_rows_that_enter_late(spread, n_strata, ties, seed):
    n = 20 if seed % 2 else 60
    X, y, offset, weight = simulate(n, spread, seed, n_strata, ties == "efron")
    given = {"sample_weight": weight, "offset": offset}
    model = CoxLassoCCD(alpha=0.03, ties=ties, max_iter=300).fit(X, y, **given)
    loglik, u = by_hand(y, X @ model.coef_ + offset, weight, ties)
    assert model.log_likelihood_ == pytest.approx(loglik, rel=1e-9)
    slope = X.T @ u / weight.sum()
    kkt = np.where(
        model.coef_ != 0,
        np.abs(slope - 0.03 * np.sign(model.coef_)),
        np.maximum(np.abs(slope) - 0.03, 0.0),
    )
    assert not model.converged_ or kkt.max() <= 1e-6
    assert model.converged_ or spread > 5.0


def information_by_hand(X, y, eta, weight):
    """Negative second derivative, each covariance over a risk set by itself."""
    total = np.zeros((X.shape[1], X.shape[1]))
    for t in np.unique(y["time"][y["event"]]):
        at_risk = (y["start"] < t) & (y["time"] >= t)
        p = np.where(at_risk, weight * np.exp(np.minimum(eta - eta[at_risk].max(), 0.0)), 0.0)
        p /= p.sum()
        mass = weight[at_risk & y["event"] & (y["time"] == t)].sum()
        centred = X - p @ X
        total += mass * (centred * p[:, None]).T @ centred
    return total


@pytest.mark.parametrize("spread", [1.0, 5.0, 30.0, 60.0])
def test_errors_of_rows_that_enter_late(spread):
    X, y, offset, weight = simulate(80, spread, 3)
    given = {"sample_weight": weight, "offset": offset}
    model = CoxLassoCCD(alpha=0.0, max_iter=1000).fit(X, y, **given)
    expected = information_by_hand(X, y, X @ model.coef_ + offset, weight)
    found = wald(model, X, y, robust=False, **given)
    np.testing.assert_allclose(np.linalg.inv(found.covariance), expected, rtol=1e-6)


def score_residuals_by_hand(X, y, eta):
    """Score residuals, each mean over a risk set by itself."""
    out = np.zeros_like(X)
    for t in np.unique(y["time"][y["event"]]):
        at_risk = (y["start"] < t) & (y["time"] >= t)
        p = np.where(at_risk, np.exp(np.minimum(eta - eta[at_risk].max(), 0.0)), 0.0)
        p /= p.sum()
        dead = at_risk & y["event"] & (y["time"] == t)
        out += (dead - dead.sum() * p)[:, None] * (X - p @ X)
    return out


@pytest.mark.parametrize("spread", [1.0, 5.0, 30.0, 60.0])
def test_score_residuals_of_rows_that_enter_late(spread):
    X, y, offset, _ = simulate(80, spread, 4)
    model = CoxLassoCCD(alpha=0.02, max_iter=1000).fit(X, y, offset=offset)
    found = residuals(model, X, y, kind="score", offset=offset)
    expected = score_residuals_by_hand(X, y, X @ model.coef_ + offset)
    np.testing.assert_allclose(found, expected, atol=1e-8)


@pytest.mark.parametrize("seed", [1, 6])
@pytest.mark.parametrize("spread", [5.0, 30.0, 100.0])
@pytest.mark.parametrize("ties", ["breslow", "efron"])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_partitions_are_right_or_refuse(tmp_path, spread, ties, seed):
    X, y, offset, _ = simulate(20, spread, seed, ties=ties == "efron")
    data = write_partitions(tmp_path / "a.parts", (X, y, None, offset), rows=10)
    model = CoxLassoCCD(alpha=0.03, ties=ties)
    refusal = nullcontext() if spread == 5.0 else suppress(ValueError)
    with refusal:
        model.fit(data.X, data.y, offset=data.offset)
        loglik, _ = by_hand(y, X @ model.coef_ + offset, np.ones(20), ties)
        assert model.log_likelihood_ == pytest.approx(loglik, rel=1e-9)
