"""Penalties of groups against other programs, whose numbers are kept here.

grpreg 3.6.0 makes the columns of a group orthonormal, as `table` does. Its calls:
``grpreg(X, y, g, penalty="grLasso", lambda=c(.1, .05), eps=1e-14, max.iter=1e6)``, with
``family="binomial"`` for ``y > 0``, and ``grpsurv(X, Surv(time, event), g, ...)``. skglm 0.5:
``WeightedGroupL2(alpha, [1, 2, 1.5], ...)``, ``LogisticGroup``, ``GroupProxNewton(tol=1e-13)``.
"""

from functools import partial

import numpy as np
import pytest

from sksurvgpu import MCP, SCAD, CoxLassoCCD, GroupLasso, LinearCCD, LogisticCCD, fit_path, surv

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
            "0.4339006848 -0.238871501 0.03233855511 0 0 "
            "0.06124756473 0.0941214277 -0.1664470811 0.09296730741",
            "0.5078514731 -0.2778984524 0.03778052943 -0.02986728248 0.01713696895 "
            "0.08953595997 0.136229093 -0.2391102617 0.1351117949",
        ],
    ),
    "logistic": (
        LogisticCCD,
        Y > 0,
        [0.03, 0.015],
        [
            "0.8170174773 -0.2833916144 0.3501110626 0 0 "
            "-0.05961307845 0.3015048209 -0.2880112261 0.1967406726",
            "1.043450767 -0.3873657823 0.4281184782 0 0 "
            "-0.06559557812 0.4884054732 -0.4688051355 0.2908245035",
        ],
    ),
    "cox": (
        CoxLassoCCD,
        TIMES,
        [0.06, 0.03],
        [
            "0.4917836054 -0.3749192307 0.09518124773 0.0427839236 0.09091362399 "
            "0.1245663361 0.153191932 -0.4018426908 0.00444077838",
            "0.6465381261 -0.5101789002 0.1071369822 0.06766135661 0.1713112372 "
            "0.167488559 0.234094576 -0.5751495658 0.006943930512",
        ],
    ),
}


def numbers(lines):
    return np.array([line.split() for line in lines], float)


@pytest.mark.parametrize("name", GRPREG)
def test_grpreg(name):
    make, y, alphas, expected = GRPREG[name]
    path = fit_path(make(penalty=GroupLasso(GROUP), tol=1e-10), X, y, alphas=alphas)
    np.testing.assert_allclose(path.coefs.T, numbers(expected), atol=1e-7)


SHAPES = {
    "grMCP": (
        MCP,
        [
            "0.584898947106 -0.320353954815 0.0443668378851 0 0 "
            "0.0938238236246 0.141437944227 -0.242082217691 0.142425477065",
            "0.582841498323 -0.317491015360 0.0437510212087 -0.0376131649865 0.0212885302036 "
            "0.119031635094 0.179354761262 -0.310193820584 0.179346216665",
        ],
    ),
    "grSCAD": (
        partial(SCAD, a=4.0),
        [
            "0.575785404100 -0.315834370850 0.0436305775479 0 0 "
            "0.0651606003619 0.0983375893477 -0.168700151630 0.0989042645364",
            "0.583216068937 -0.318159124512 0.0439309387012 -0.0249628651396 0.0141503971656 "
            "0.119262293937 0.179741318254 -0.309769524371 0.180158227221",
        ],
    ),
}


@pytest.mark.thorough
@pytest.mark.parametrize("scale", ["column", "unit"])
@pytest.mark.parametrize("name", SHAPES)
def test_grpreg_of_other_shapes(name, scale):
    """``grpreg(X, y, g, penalty="grMCP", ...)``: in least squares both scales are its."""
    make, expected = SHAPES[name]
    penalty = GroupLasso(GROUP, shape=make(scale=scale))
    path = fit_path(LinearCCD(penalty=penalty, tol=1e-10), X, Y, alphas=[0.1, 0.05])
    np.testing.assert_allclose(path.coefs.T, numbers(expected), atol=1e-9)


def test_skglm():
    """Columns of other units, and weights of its own for every group."""
    penalty = GroupLasso(GROUP, weights={0: 1.0, 1: 2.0, 2: 1.5})
    path = fit_path(LogisticCCD(penalty=penalty, tol=1e-10), X * UNITS, Y > 0, alphas=[0.05, 0.02])
    expected = [
        "0.80420888 -0.1588725 0.43034281 0 0 -0.05148739 0.22611309 -0.21234117 0.14316079",
        "1.07890929 -0.21069241 0.71895796 -0.00257223 0.00943358 "
        "-0.06630601 0.49773257 -0.60217288 0.28615245",
    ]
    np.testing.assert_allclose(path.coefs.T, numbers(expected), atol=2e-8)
    assert path.at(1).intercept_ == pytest.approx(0.21805750213544975, abs=1e-8)
