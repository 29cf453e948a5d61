"""Logistic, Poisson and linear regression.

    logistic   loglik = sum c (y eta - log(1 + e^eta))    mu = 1 / (1 + e^-eta)    h = c mu (1 - mu)
    poisson    loglik = sum c (y eta - e^eta)             mu = e^eta               h = c mu
    gaussian   loglik = -1/2 sum c (y - eta)^2            mu = eta                 h = c

and u = c (y - mu).  Exposure is an offset of its logarithm, part of eta, and so is the intercept.
The Hessian is diag(h); with an unpenalized intercept the model profiles it out (`stratum`: one
group of all rows, or one of every stratum), and is exact where 1'u = 0 in every group.
"""

import numpy as np

from oracles.reference_likelihoods import Evaluation, case_weights, codes


def expit(x):
    z = np.exp(-np.abs(x))
    return np.where(x >= 0, 1.0, z) / (1.0 + z)


def family_terms(eta, y, family):
    """Log-likelihood, mean and h of every row, without weights."""
    if family == "logistic":
        mu = expit(eta)
        return y * eta - np.logaddexp(0.0, eta), mu, mu * expit(-eta)
    if family == "poisson":
        mu = np.exp(eta)
        return y * eta - mu, mu, mu
    if family == "gaussian":
        return -0.5 * (y - eta) ** 2, eta, np.ones(len(eta))
    raise ValueError(family)


def glm_direct(eta, y, family, weights=None, intercept=True, strata=None):
    """Evaluate at eta, which holds the intercept; `intercept` says whether it is free."""
    n = len(eta)
    c = case_weights(n, weights)
    terms, mu, h = family_terms(eta, y, family)
    groups = codes(n, strata) if intercept else None
    return Evaluation(c @ terms, c * (y - mu), c * h, groups, hessian=np.diag(c * h))


def profile(evaluation):
    """Gradient in eta and step of every free intercept of the quadratic model without intercepts.

    T_g = 1'u_g / 1'h_g is the intercept's Newton step, u - h T the gradient that is left.
    """
    step = np.zeros_like(evaluation.u)
    for g in () if evaluation.stratum is None else np.unique(evaluation.stratum):
        rows = evaluation.stratum == g
        if evaluation.h[rows].sum() > 0:
            step[rows] = evaluation.u[rows].sum() / evaluation.h[rows].sum()
    return evaluation.u - evaluation.h * step, step


def null_intercept(y, family, offset=None, weights=None):
    """The intercept of the model without columns, by Newton's method."""
    offset = np.zeros(len(y)) if offset is None else offset
    c, intercept = case_weights(len(y), weights), 0.0
    for _ in range(200):
        _, mu, h = family_terms(offset + intercept, y, family)
        step = (c @ (y - mu)) / (c @ h)
        intercept += np.clip(step, -1.0, 1.0)
        if abs(step) < 1e-15 * max(1.0, abs(intercept)):
            break
    return intercept
