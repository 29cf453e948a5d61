"""Writes bayes_multinomial.json: posterior moments of two small multinomial models, by integration.

Run:  python make_bayes_multinomial.py [bayes_multinomial.json]     (two minutes)

y_i ~ Multinomial(n_i, softmax(x_i'B)), the coefficients of the last class zero, those of class j
beta_j ~ N(m_j, P_j^-1).  A case has X, counts (rows x classes), `prior_mean` (classes - 1 x
columns) and `prior_precision` (classes - 1 x columns x columns).

No Markov chain: importance sampling with a t distribution around the mode, of scrambled Sobol
points.  `mean`, `sd` and `covariance` (coefficients class by class) are of all points; the standard
errors `mean_error` ... are from the scatter over `n_scrambles` independent scramblings.
`effective_share` is the effective number of points over all.
"""

import sys
from pathlib import Path

import numpy as np
import scipy
from scipy.optimize import minimize
from scipy.special import gammaincinv, logsumexp, ndtri
from scipy.stats import qmc
from sklearn.datasets import load_iris

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from oracles.published.certify import write

N_SCRAMBLES, LOG2_POINTS = 32, 17
FREEDOM = 12.0  # of the t distribution
WIDENED = 1.1  # its scale over that of the curvature at the mode


def log_density(flat, case):
    """Logarithm of likelihood x prior at every row of `flat`, without constants."""
    X, counts = case["X"], case["counts"]
    n_free = counts.shape[1] - 1
    coefs = np.atleast_2d(flat).reshape(-1, n_free, X.shape[1])
    eta = np.concatenate([coefs @ X.T, np.zeros((len(coefs), 1, len(X)))], axis=1)
    loglik = np.einsum("sji,ij->s", eta, counts) - logsumexp(eta, axis=1) @ counts.sum(axis=1)
    away = coefs - case["prior_mean"]
    return loglik - 0.5 * np.einsum("sja,jab,sjb->s", away, case["prior_precision"], away)


def curvature(at, case):
    """Minus the second derivative of the log density."""
    X, counts = case["X"], case["counts"]
    n_free, p = counts.shape[1] - 1, X.shape[1]
    eta = np.column_stack([X @ at.reshape(n_free, p).T, np.zeros(len(X))])
    share = np.exp(eta - logsumexp(eta, axis=1, keepdims=True))[:, :n_free]
    between = np.einsum("ij,jl->ijl", share, np.eye(n_free)) - share[:, :, None] * share[:, None]
    total = counts.sum(axis=1)
    hessian = np.einsum("i,ijl,ia,ib->jalb", total, between, X, X)
    for j in range(n_free):
        hessian[j, :, j] += case["prior_precision"][j]
    return hessian.reshape(n_free * p, n_free * p)


def proposals(seed, mode, root):
    """Points of the t distribution and the logarithms of its density, without constants."""
    d = len(mode)
    uniforms = qmc.Sobol(d + 1, seed=seed).random_base2(LOG2_POINTS)
    uniforms = np.clip(uniforms, 2.0**-54, 1.0 - 2.0**-53)
    normal = ndtri(uniforms[:, :d])
    chi2 = 2.0 * gammaincinv(FREEDOM / 2.0, uniforms[:, d])
    away = normal / np.sqrt(chi2 / FREEDOM)[:, None]
    log_q = -0.5 * (FREEDOM + d) * np.log1p((away**2).sum(axis=1) / FREEDOM)
    return mode + WIDENED * away @ root.T, log_q


def moments_of(case):
    d = case["prior_mean"].size
    found = minimize(lambda b: -log_density(b, case)[0], case["prior_mean"].ravel(), tol=1e-10)
    mode = found.x
    root = np.linalg.cholesky(np.linalg.inv(curvature(mode, case)))
    top = log_density(mode, case)[0]
    sums = np.empty((N_SCRAMBLES, 1 + d + d * d))
    squared = 0.0
    for seed in range(N_SCRAMBLES):
        points, log_q = proposals(seed, mode, root)
        weight = np.exp(log_density(points, case) - top - log_q)
        away = points - mode
        second = (away * weight[:, None]).T @ away
        sums[seed] = np.concatenate([[weight.sum()], weight @ away, second.ravel()])
        squared += (weight**2).sum()
    total = sums.sum(axis=0)
    mean = total[1 : d + 1] / total[0]
    own_mean = sums[:, 1 : d + 1] / sums[:, :1]
    # Second moments about the mean of all, so that every scrambling estimates the same number.
    about = -np.einsum("sa,b->sab", own_mean, mean)
    own = (sums[:, d + 1 :] / sums[:, :1]).reshape(-1, d, d) + about + about.transpose(0, 2, 1)
    own += np.outer(mean, mean)
    covariance = own.transpose(1, 2, 0) @ sums[:, 0] / total[0]
    sd = np.sqrt(np.diag(covariance))

    def error(values):
        return values.std(axis=0, ddof=1) / np.sqrt(N_SCRAMBLES)

    covariance_error = error(own)
    return {
        "n_scrambles": N_SCRAMBLES,
        "n_points": 2**LOG2_POINTS,
        "effective_share": total[0] ** 2 / squared / (N_SCRAMBLES * 2**LOG2_POINTS),
        "mean": mode + mean,
        "mean_error": error(own_mean),
        "sd": sd,
        "sd_error": np.diag(covariance_error) / (2.0 * sd),
        "covariance": covariance,
        "covariance_error": covariance_error,
    }


def counts_case():
    """Forty rows of up to four trials; informative priors that no symmetry hides behind."""
    rng = np.random.default_rng(2013)
    X = np.round(rng.standard_normal((40, 3)), 2)
    truth = np.array([[1.0, -0.5, 0.25], [-0.75, 0.5, 1.0], [0.0, 0.0, 0.0]])
    eta = X @ truth.T
    shares = np.exp(eta - logsumexp(eta, axis=1, keepdims=True))
    counts = rng.multinomial(1 + np.arange(40) % 4, shares)
    precision = np.array(
        [
            [[1.0, 0.3, 0.0], [0.3, 0.8, -0.2], [0.0, -0.2, 0.5]],
            [[0.4, 0.0, 0.1], [0.0, 1.2, 0.0], [0.1, 0.0, 0.7]],
        ]
    )
    mean = np.array([[0.5, -0.25, 0.0], [0.0, 1.0, -0.5]])
    return {"X": X, "counts": counts, "prior_mean": mean, "prior_precision": precision}


def iris_case():
    """An intercept and the sepals, whose first species is nearly separated."""
    data = load_iris()
    sepals = np.round(data.data[:, :2] - [5.8, 3.0], 1)
    return {
        "X": np.column_stack([np.ones(len(sepals)), sepals]),
        "counts": np.eye(3, dtype=int)[data.target],
        "prior_mean": np.zeros((2, 3)),
        "prior_precision": np.array([np.diag([0.04, 0.25, 0.25])] * 2),
    }


def main(path):
    published = {
        "origin": f"NumPy {np.__version__}, SciPy {scipy.__version__}; importance sampling",
        "cases": [],
    }
    for name, case in (("counts", counts_case()), ("iris", iris_case())):
        found = {"name": name, **case, **moments_of(case)}
        print(
            f"{name}: effective share {found['effective_share']:.2f}, largest error of a mean "
            f"{(found['mean_error'] / found['sd']).max():.1e} sd"
        )
        plain = {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in found.items()}
        published["cases"].append(plain)
    write(published, Path(path))


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "bayes_multinomial.json")
