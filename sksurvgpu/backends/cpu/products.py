"""Sums over rows that steps are measured by, and slopes along whole columns."""

from ..._compile import kernel
from .columns import dot


@kernel
def gradient_of_columns(X, columns, u, out):
    """out_a = x_a'u for the given columns."""
    for a in range(len(columns)):
        out[a] = dot(X, columns[a], u)
