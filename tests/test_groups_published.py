"""Penalties of groups against other programs, whose numbers are kept here.

grpreg 3.6.0 makes the columns of a group orthonormal, as `table` does. Its calls:
``grpreg(X, y, g, penalty="grLasso", lambda=c(.1, .05), eps=1e-14, max.iter=1e6)``, with
``family="binomial"`` for ``y > 0``, and ``grpsurv(X, Surv(time, event), g, ...)``. skglm 0.5:
``WeightedGroupL2(alpha, [1, 2, 1.5], ...)`` with ``LogisticGroup`` and ``GroupProxNewton(tol=1e-13)``.
"""

import numpy as np
import pytest

from sksurvgpu import CoxLassoCCD, GroupLasso, LinearCCD, LogisticCCD, fit_path, surv

GROUP = np.array([0, 0, 0, 1, 1, 2, 2, 2, 2])
UNITS = np.array([1, 2, 0.5, 1, 3, 1, 1, 0.7, 1.0])


def table(n=80):
    """Columns of unit variance, uncorrelated within groups; an outcome, times and events."""
    i, j = np.arange(1, n + 1)[:, None], np.arange(1, 10)
    X = np.sin(0.37 * i * j + j**2) + 0.3 * np.cos(1.3 * i + 0.5 * j)
    X -= X.mean(axis=0)
    for g in range(3):
        w, V = np.linalg.eigh(X[:, g == GROUP].T @ X[:, g == GROUP] / n)
        X[:, g == GROUP] = X[:, g == GROUP] @ (V / np.sqrt(w)) @ V.T
    signal = X @ np.array([0.5, -0.3, 0.0, 0, 0, 0.2, 0.2, -0.4, 0.1])
    k = np.arange(1, n + 1)
    time = np.exp(-signal) * (1.2 + np.sin(3.3 * k**2))
    return X, signal + np.sin(5.1 * k**2), surv(k % 3 > 0, time)


X, Y, TIMES = table()
GRPREG = {
    "linear": (
        LinearCCD,
        Y,
        [0.1, 0.05],
        [
            [
                0.433900684795055,
                -0.238871501026129,
                0.032338555110656,
                0,
                0,
                0.0612475647280345,
                0.0941214276969499,
                -0.166447081145681,
                0.092967307411676,
            ],
            [
                0.507851473071245,
                -0.277898452387264,
                0.0377805294295117,
                -0.0298672824802409,
                0.0171369689526484,
                0.0895359599677131,
                0.1362290930144124,
                -0.239110261705215,
                0.135111794876992,
            ],
        ],
    ),
    "logistic": (
        LogisticCCD,
        Y > 0,
        [0.03, 0.015],
        [
            [
                0.817017477310507,
                -0.283391614378566,
                0.350111062607515,
                0,
                0,
                -0.059613078450676,
                0.301504820878998,
                -0.28801122610699,
                0.19674067264471,
            ],
            [
                1.043450766676555,
                -0.38736578230301,
                0.42811847822479,
                0,
                0,
                -0.0655955781205859,
                0.488405473181421,
                -0.468805135466959,
                0.290824503468427,
            ],
        ],
    ),
    "cox": (
        CoxLassoCCD,
        TIMES,
        [0.06, 0.03],
        [
            [
                0.491783605446734,
                -0.374919230703562,
                0.095181247725052,
                0.0427839235963994,
                0.0909136239890327,
                0.124566336080748,
                0.153191931992975,
                -0.401842690790025,
                0.00444077838028032,
            ],
            [
                0.646538126063831,
                -0.510178900152164,
                0.107136982197199,
                0.0676613566130401,
                0.1713112372093133,
                0.167488558989975,
                0.234094576011382,
                -0.575149565778614,
                0.00694393051222772,
            ],
        ],
    ),
}


@pytest.mark.parametrize("name", GRPREG)
def test_grpreg(name):
    make, y, alphas, expected = GRPREG[name]
    path = fit_path(make(penalty=GroupLasso(GROUP), tol=1e-10), X, y, alphas=alphas)
    np.testing.assert_allclose(path.coefs.T, expected, atol=1e-7)


def test_skglm():
    """Columns of other units, and weights of its own for every group."""
    penalty = GroupLasso(GROUP, weights={0: 1.0, 1: 2.0, 2: 1.5})
    path = fit_path(LogisticCCD(penalty=penalty, tol=1e-10), X * UNITS, Y > 0, alphas=[0.05, 0.02])
    expected = [
        [
            0.80420888,
            -0.1588725,
            0.43034281,
            0.0,
            0.0,
            -0.05148739,
            0.22611309,
            -0.21234117,
            0.14316079,
        ],
        [
            1.07890929,
            -0.21069241,
            0.71895796,
            -0.00257223,
            0.00943358,
            -0.06630601,
            0.49773257,
            -0.60217288,
            0.28615245,
        ],
    ]
    np.testing.assert_allclose(path.coefs.T, expected, atol=2e-8)
    assert path.at(1).intercept_ == pytest.approx(0.21805750213544975, abs=1e-8)
