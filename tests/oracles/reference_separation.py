"""Which coefficients are infinite, from all pairs of rows and a linear program for every column.

`pairs_*` list vectors a with a d >= 0 for every direction d along which the log-likelihood never
falls, one loop a definition.  They look at all pairs of rows of positive weight.
"""

import numpy as np
from scipy.optimize import linprog

from oracles.reference_competing import censoring_km
from oracles.reference_likelihoods import codes


def pairs_cox(X, y, c, time_of=None):
    """Every death against all at risk; X(t) gives the rows at a time."""
    rows_at = X if callable(X) else lambda t: X
    n = len(y["time"])
    stratum, start = codes(n, y["strata"]), y["start"]
    start = np.full(n, -np.inf) if start is None else start
    out = []
    for e in np.flatnonzero(y["event"].astype(bool) & (c > 0)):
        t = y["time"][e]
        for i in np.flatnonzero((stratum == stratum[e]) & (c > 0)):
            if start[i] < t <= y["time"][i]:
                out.append(rows_at(t)[e] - rows_at(t)[i])
    return out


def pairs_fine_gray(X, y, c, ties):
    n, time, status = len(y["time"]), y["time"], y["status"]
    stratum = codes(n, y["strata"])
    curve = stratum if y["curve"] is None else codes(n, y["curve"])
    out = []
    for e in np.flatnonzero((status == 1) & (c > 0)):
        for i in np.flatnonzero((stratum == stratum[e]) & (c > 0)):
            group = curve == curve[i]
            stays = censoring_km(time[group], status[group], [time[e]], c[group], ties)[0] > 0
            if time[e] <= time[i] or (status[i] == 2 and stays):
                out.append(X[e] - X[i])
    return out


def pairs_conditional_poisson(X, y, c):
    out = []
    for e in np.flatnonzero((y["count"] > 0) & (c > 0)):
        out += [X[e] - X[i] for i in np.flatnonzero((y["group"] == y["group"][e]) & (c > 0))]
    return out


def pairs_conditional_logistic(X, y, c):
    out = []
    for e in np.flatnonzero((y["case"] > 0) & (c > 0)):
        others = (y["group"] == y["group"][e]) & (c > 0) & (y["case"] == 0)
        out += [X[e] - X[i] for i in np.flatnonzero(others)]
    return out


def pairs_glm(X, y, c, family, intercept):
    """The intercept is one more column, the last."""
    X = np.column_stack([X, np.ones(len(X))]) if intercept else X
    out = []
    for x, value in zip(X[c > 0], y["value"][c > 0], strict=True):
        if family == "gaussian" or (family == "poisson" and value > 0):
            out += [x, -x]
        else:
            out.append(x if value == 1 and family == "logistic" else -x)
    return out


def decide(pairs, p):
    """Whether the likelihood has no maximum; which columns are to blame, None if collinear."""
    A = np.array(pairs).reshape(len(pairs), -1) if len(pairs) else np.zeros((1, p))

    def largest(gain):
        result = linprog(-gain, A_ub=-A, b_ub=np.zeros(len(A)), bounds=(-1, 1))
        assert result.status == 0
        return -result.fun

    is_separated = largest(A.sum(axis=0)) > 1e-6
    if np.linalg.matrix_rank(A) < A.shape[1]:
        return is_separated, None
    units = np.eye(A.shape[1])[:p]
    return is_separated, np.array([max(largest(unit), largest(-unit)) > 1e-6 for unit in units])
