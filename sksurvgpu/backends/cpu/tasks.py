"""Work in tasks: over blocks of rows or cells by threads, and what has to be alone in between.

A kernel of tasks ends with the arguments ``(sizes, task, low, high)``: it does a task on its blocks
[low, high), and if these are `ALL` those that follow it, too; it returns which is next.  One thread
does all tasks in one call, and so does whatever has one block; of several threads each takes blocks
of the same task.

Blocks are those of the plan, whatever the number of threads, and what they sum up is added in
their order: results have the same bits for any.
"""

import numpy as np

from ..._compile import BOUND, kernel, part_of_loop, specialize
from ..formulas import restored, two_sum

add_terms = BOUND

BLOCK = 2**15  # rows or cells
ALL = 2**62  # blocks


def cut(size):
    """Edges of blocks of a range, of which there is one at least."""
    n_blocks = max(1, -(-size // BLOCK))
    return np.arange(n_blocks + 1) * size // n_blocks


def cut_groups(ptr):
    """Edges of blocks of groups with offsets of rows or cells; a longer group is in one block."""
    edges = np.searchsorted(ptr, cut(int(ptr[-1])))
    edges[0], edges[-1] = 0, len(ptr) - 1
    return edges[np.append(True, edges[1:] > edges[:-1])]


@part_of_loop
def rows_in(low, high):
    """Range of rows, which are unsigned: signed ones may count from the end, and are asked."""
    return range(np.uint64(low), np.uint64(high))


def run(threads, compiled, arguments, sizes):
    """Do all tasks, which have so many blocks, 1 where a task is alone."""
    if threads.n_threads == 1 or sizes.max() == 1:
        compiled(*arguments, sizes, 0, 0, ALL)
        return
    task = 0
    while task < len(sizes):

        def work(low, high, task=task):
            return compiled(*arguments, sizes, task, low, high)

        if sizes[task] == 1:
            task = work(0, 1)
        else:
            threads.over_blocks(work, int(sizes[task]))
            task += 1


def run_blocks(threads, edges, compiled, *arguments):
    """Call ``compiled(*arguments, low, high)`` on ranges of what has been cut at edges."""

    def work(low, high):
        compiled(*arguments, int(edges[low]), int(edges[high]))

    threads.over_blocks(work, len(edges) - 1)


def _add_blocks(given, eta, u, edges, parts, low, high):
    for b in range(low, high):
        part, lost = add_terms(given, eta, u, edges[b], edges[b + 1])
        parts[b, 0], parts[b, 1] = part, lost


@kernel
def join(parts):
    """Sum of the compensated sums of blocks, each beside what it has lost."""
    total, lost = 0.0, 0.0
    for b in range(len(parts)):
        total, error = two_sum(total, parts[b, 0])
        lost += error + parts[b, 1]
    return restored(total, lost)


def adder(add_terms):
    """Kernel for `add_up`; ``add_terms(given, eta, u, low, high)`` is compiled.

    It returns a sum of terms of the log-likelihood and what that has lost, and writes their u.
    """
    return specialize(_add_blocks, add_terms=add_terms)


def add_up(threads, compiled, given, eta, u, edges):
    """Log-likelihood, which is a sum over what has been cut at edges; writes u."""
    parts = np.empty((len(edges) - 1, 2))

    def work(low, high):
        compiled(given, eta, u, edges, parts, low, high)

    threads.over_blocks(work, len(parts))
    return join(parts)
