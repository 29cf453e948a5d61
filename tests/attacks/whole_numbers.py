"""Whole numbers n >= 0 of which sums A n are known to some digits: rows by kind, from sums.

A sum over 30 rows of 32 kinds is one of some 2^60, and told to 50 bits; two of them have one
solution.  It is found by a short basis of the lattice of all n with A n near 0 (Lenstra, Lenstra
and Lovasz, 1982) and the point of a coset next to what is expected (Babai, 1986).
"""

from functools import cache

import numpy as np
from numba import njit

__all__ = ["determined", "solve_whole"]

SWAP = 0.99  # Lovasz' condition
EXACT = 1e15  # of floats
MOST_STEPS = 300  # times the square of the size; floats may go round in a circle
STEP = 8.0  # by which equations weigh more from one reduction to the next


@cache
def _compiled():
    return njit(_reduce)


def _reduce(basis, equations, weight, swap):
    """Reduce rows of integers, in place, by their length with `weight` times the equations.

    In loops: arrays of a row each would take ten seconds to compile.
    """
    n, m = basis.shape[0], equations.shape[0]
    size = n + m
    rows = np.empty((n, size))
    for i in range(n):
        for c in range(n):
            rows[i, m + c] = basis[i, c]
        for c in range(m):
            rows[i, c] = weight * np.dot(equations[c], basis[i])
    star, mu, norm = np.zeros((n, size)), np.zeros((n, n)), np.zeros(n)
    k = n_steps = 0
    while k < n and n_steps < MOST_STEPS * n * n:
        for _ in range(3):  # until the coefficients, found in floats, are small
            for c in range(size):
                star[k, c] = rows[k, c]
            for j in range(k):
                mu[k, j] = np.dot(rows[k], star[j]) / norm[j]
                for c in range(size):
                    star[k, c] -= mu[k, j] * star[j, c]
            changed = False
            for j in range(k - 1, -1, -1):
                turns = np.rint(mu[k, j])
                if turns != 0.0:
                    for c in range(n):
                        basis[k, c] -= turns * basis[j, c]
                    for c in range(j):
                        mu[k, c] -= turns * mu[j, c]
                    mu[k, j] -= turns
                    changed = True
            if not changed:
                break
            for c in range(n):
                rows[k, m + c] = basis[k, c]
            for c in range(m):
                rows[k, c] = weight * np.dot(equations[c], basis[k])
        norm[k] = np.dot(star[k], star[k])
        if k > 0 and norm[k] < (swap - mu[k, k - 1] ** 2) * norm[k - 1]:
            for c in range(n):
                basis[k, c], basis[k - 1, c] = basis[k - 1, c], basis[k, c]
            for c in range(size):
                rows[k, c], rows[k - 1, c] = rows[k - 1, c], rows[k, c]
            k -= 1
        else:
            k += 1
        n_steps += 1


def short_basis(equations, digits):
    """Short integer vectors that span all, all but the last of which nearly solve the equations."""
    basis, weight = np.eye(equations.shape[1]), 1.0
    equations = np.ascontiguousarray(equations)
    while weight < digits:
        weight = min(weight * STEP, digits)
        _compiled()(basis, equations, weight, SWAP)
    return basis


def _length_of(equations, digits):
    """Typical length of a short basis: how far apart whole numbers with the same sums are."""
    size = np.linalg.svd(equations, compute_uv=False) * digits
    return float(np.exp(np.log(np.hypot(1.0, size)).sum() / equations.shape[1]))


def _digits_for(equations, most):
    """As many digits as floats hold in products of a basis with the equations."""
    tried = np.geomspace(most, 10.0, 60)
    return next(digits for digits in tried if _length_of(equations, digits) * digits < EXACT)


def solve_whole(equations, sums, expected, digits):
    """Whole numbers next to those that are expected, by column of `sums`, that give them.

    Returns
    -------
    found : ndarray of shape (n_unknowns, n_systems)
    fits : ndarray of bool
        Whether a solution has no negative number and the sums that were told.
    """
    if len(equations) > equations.shape[1]:
        turned, size, rest = np.linalg.svd(equations, full_matrices=False)
        equations, sums = size[:, None] * rest, turned.T @ sums
    digits = _digits_for(equations, digits)
    basis = short_basis(equations, digits)
    rows = np.hstack([digits * basis @ equations.T, basis])
    star = np.linalg.qr(rows.T)[0]
    found = np.zeros(expected.shape)
    for c in range(sums.shape[1]):
        aim = np.concatenate([digits * sums[:, c], expected[:, c]])
        chosen = np.zeros(len(expected))
        for j in 4 * [*range(len(basis) - 1, -1, -1)]:  # again, as products are rounded
            left = aim - np.concatenate([digits * equations @ chosen, chosen])
            turns = np.rint((left @ star[:, j]) / (rows[j] @ star[:, j]))
            chosen += turns * basis[j]
        found[:, c] = chosen
    misfit = abs(equations @ found - sums).max(axis=0) * digits
    return found, (found >= 0.0).all(axis=0) & (misfit < np.sqrt(len(expected)) + 2.0)


def determined(equations, digits):
    """Rank of equations, and which unknowns follow from them, whole numbers or not."""
    _, size, turned = np.linalg.svd(equations)
    rank = int(np.count_nonzero(size * digits > 1.0))
    share = (turned[:rank] ** 2).sum(axis=0)
    return rank, share > 1.0 - 1e-6
