"""The calls of the day, and how the parts of one share its minutes.

A part is a module with `ITEM_LIMIT` (seconds of one item), ``jobs(sizes)`` (its items, in tuples
that share a process), ``measure(item, sizes)`` (a dictionary for JSON), `COLUMNS` of its table
(header, key of the result, format) and, where a result says more than one line, ``lines(item,
result)`` that gives dictionaries instead.  A result with "error", or whose "passed" is False, is a
failure; its "note" ends the line.  `footer(results)`, where there is one, is text after the table.
"""

from __future__ import annotations

from typing import NamedTuple


class Part(NamedTuple):
    """A module, its share of the minutes, and whether its processes run side by side."""

    module: str
    share: float
    side_by_side: bool = False


class Call(NamedTuple):
    minutes: float
    parts: tuple


CALLS = {
    "call0": Call(1.0, (Part("chip", 1.0),)),
    "call1": Call(
        8.0,
        (
            Part("smoke", 0.1),
            Part("ceilings", 0.1),
            Part("kernels", 0.2),
            Part("variants", 0.25),
            Part("host", 0.05),
            Part("start", 0.15),
            Part("profile", 0.15),
        ),
    ),
    "call2": Call(6.0, (Part("parity", 0.8, True), Part("samplers", 0.2))),
    "papers": Call(8.0, (Part("fusion", 0.1), Part("papers", 0.6), Part("crossover", 0.3))),
    "call3": Call(5.0, (Part("sanitizer", 1.0, True),)),
}
MARGIN = 0.05  # of the minutes, for starting, and ending what is late


def schedule(parts, begin, seconds):
    """Parts and when each must end; what an earlier one left of its share is the next one's."""
    scale = (1.0 - MARGIN) * seconds / sum(part.share for part in parts)
    passed = 0.0
    for part in parts:
        passed += part.share
        yield part, begin + scale * passed


def fails(result):
    """Whether an item was found wrong or ended in an error."""
    return "error" in result or result.get("passed") is False
