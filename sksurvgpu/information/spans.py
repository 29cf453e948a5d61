"""Sums over the cells between entry and exit of rows, of blocks of columns, without differences.

As `patterns.risk_sets.cpu_tree`, whose nodes these are, with a row of numbers each.
"""

from .._compile import device


@device
def copy_row(source, k, target, q):
    """Copy a row by a loop: an assignment of slices takes a second or two to compile."""
    for j in range(target.shape[1]):
        target[q, j] = source[k, j]


@device
def add_span(nodes, low, high, w, x):
    """Add w x to the cells [low, high)."""
    low, high = low + len(nodes) // 2, high + len(nodes) // 2
    while low < high:
        if low & 1:
            for j in range(len(x)):
                nodes[low, j] += w * x[j]
            low += 1
        if high & 1:
            high -= 1
            for j in range(len(x)):
                nodes[high, j] += w * x[j]
        low, high = low >> 1, high >> 1


@device
def sum_span(nodes, low, high, out):
    """Sums over the cells [low, high)."""
    low, high = low + len(nodes) // 2, high + len(nodes) // 2
    out[:] = 0.0
    while low < high:
        if low & 1:
            for j in range(len(out)):
                out[j] += nodes[low, j]
            low += 1
        if high & 1:
            high -= 1
            for j in range(len(out)):
                out[j] += nodes[high, j]
        low, high = low >> 1, high >> 1


@device
def push_down(nodes):
    for q in range(2, len(nodes)):
        for j in range(nodes.shape[1]):
            nodes[q, j] += nodes[q >> 1, j]


@device
def gather_up(nodes):
    for q in range(len(nodes) // 2 - 1, 0, -1):
        for j in range(nodes.shape[1]):
            nodes[q, j] = nodes[2 * q, j] + nodes[2 * q + 1, j]
