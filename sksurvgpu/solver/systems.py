"""Systems of Newton's steps: functions that solve them for right-hand sides."""

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotrs, dsytrf, dsytrs

REGULAR = 1e-10  # share of their curvature that holds columns back where the matrix is singular
HELD = 1e-6  # share by which a diagonal must hold a column, or terms of low rank lose its digits


def by_matrix(block):
    """Function that solves for right-hand sides, by a factor in the place of a symmetric matrix.

    None where the matrix is indefinite: a step has no end.
    """
    own = np.diagonal(block).copy()
    # LAPACK works in place, in one triangle; the other one is as it was
    for share, lower in ((0.0, 0), (REGULAR, 1)):
        np.fill_diagonal(block, (1.0 + share) * own)
        factor, failed = dpotrf(block.T, lower=lower, clean=0, overwrite_a=1)
        if not failed:
            return lambda right, lower=lower: dpotrs(factor, right, lower=lower)[0]
    return None


def by_terms(share, scale, rows, sign):
    """Solve with a diagonal, by its shares of a scale, and terms of low rank (Woodbury).

    Columns that the diagonal hardly holds would take the digits of all: as if it held them as their
    scale, terms of their own let them go.  None where the sum is indefinite, by inertia: the inner
    matrix has not as many negative eigenvalues as there are negative terms.
    """
    is_weak = share < HELD
    weak, root = np.flatnonzero(is_weak), 1.0 / np.sqrt(scale * np.where(is_weak, 1.0, share))
    unit = np.zeros((len(share), len(weak)))
    unit[weak, np.arange(len(weak))] = 1.0
    rows = np.hstack([(rows.T * root).T, unit])
    inverse = np.append(sign, 1.0 / (share[weak] + REGULAR - 1.0))
    if not len(inverse):
        return lambda right: (right.T * root**2).T
    inner, pivot, failed = dsytrf(np.diag(inverse) + rows.T @ rows, lower=1)
    alone = pivot > 0  # else two by two, one of which is negative
    n_negative = np.count_nonzero(np.diagonal(inner)[alone] < 0) + np.count_nonzero(~alone) / 2
    if failed or n_negative != np.count_nonzero(inverse < 0):
        return None

    def solve(right):
        right = (right.T * root).T
        return ((right - rows @ dsytrs(inner, pivot, rows.T @ right, lower=1)[0]).T * root).T

    return solve
