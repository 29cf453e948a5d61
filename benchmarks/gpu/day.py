"""The calls of the day, how the parts of one share its minutes, and how much is measured.

A part is a module with `ITEM_LIMIT` (seconds of one item), ``jobs(sizes)`` (its items, in tuples
that share a process), ``measure(item, sizes)`` (a dictionary for JSON), `COLUMNS` of its table
(header, key of the result, format) and, where a result says more than one line, ``lines(item,
result)`` that gives dictionaries instead.  A result with "error", or whose "passed" is False, is a
failure; its "note" ends the line.  `footer(results)`, where there is one, is text after the table.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
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
            Part("passes", 0.1),
            Part("variants", 0.15),
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


# -- sizes ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sizes:
    """Numbers of the day itself, a short one, or a simulated one; a part reads its own."""

    # ceilings: numbers copied, gathered (64 KiB of shared memory), and how often
    copied: int = 2**27
    meetings: int = 2_000
    launches: int = 500
    gathered: int = 2**13
    gathers: int = 2**16
    rounds: int = 32
    blocks: int = 512
    threads: int = 256
    repeats: int = 5
    teams: tuple = (1, 8, 32, 128)
    # parity: shapes are threads of a block and rows of a range, for teams of one block and of many
    seeds: int = 20
    rows: tuple = (40, 97, 256, 600)
    columns: int = 6
    shapes: tuple = ((256, 2_048), (256, 16), (64, 16), (128, 33))
    batch: int = 7
    many_fits: int = 700
    large: tuple = (200_000, 300)
    parity_max_iter: int = 1_000
    max_iter: int = 1_000
    # timings: the papers' prior variance of 1 is this penalty on the sum; `shrink` divides the rows
    # of a problem, `width` replaces its columns
    penalty: float = 2**0.5
    shrink: int = 1
    width: int | None = None
    most_nonzeros: float = 1.1e8
    fits: int = 100
    penalties: int = 20
    crossing_rows: tuple = (1_000, 10_000, 100_000, 1_000_000)
    crossing_fits: tuple = (1, 10, 100)
    most_work: float = 1e8  # nonzeros times fits that the CPU is asked for
    cells: tuple = (100_000, 177_828, 316_228, 562_341, 1_000_000)
    coordinates: int = 200
    # samplers: chains, rows, columns; rows, columns, categories
    draws: int = 2**26
    compared_draws: int = 100_000
    lasso: tuple = (64, 425, 2_000)
    multinomial: tuple = (506_450, 56, 9)
    parity_lasso: tuple = (2, 60, 100)
    parity_multinomial: tuple = (2_000, 5, 4)
    parity_iterations: int = 50
    iterations: int = 20


FULL = Sizes()
SMALL = replace(
    FULL,
    copied=2**24,
    meetings=200,
    launches=100,
    repeats=3,
    seeds=2,
    many_fits=300,
    large=(20_000, 100),
    shrink=20,
    most_nonzeros=1e7,
    fits=10,
    penalties=5,
    crossing_rows=(1_000, 10_000),
    cells=(100_000,),
    coordinates=20,
    draws=2**20,
    compared_draws=10_000,
    lasso=(8, 60, 100),
    multinomial=(5_000, 10, 4),
    iterations=5,
)
TINY = Sizes(
    copied=2**8,
    meetings=2,
    launches=2,
    gathered=64,
    gathers=64,
    rounds=2,
    blocks=1,
    threads=32,
    repeats=1,
    teams=(1, 2, 4),
    seeds=1,
    rows=(40,),
    columns=2,
    shapes=((32, 12),),
    batch=2,
    many_fits=3,
    large=(60, 3),
    max_iter=1,
    penalty=0.1,
    shrink=10**6,
    width=2,
    fits=2,
    penalties=2,
    crossing_rows=(60,),
    crossing_fits=(1,),
    cells=(70,),
    coordinates=1,
    draws=8,
    compared_draws=6,
    lasso=(2, 4, 6),
    multinomial=(12, 2, 3),
    parity_lasso=(2, 4, 6),
    parity_multinomial=(12, 2, 3),
    parity_iterations=4,
    iterations=1,
)
SIZES = {"full": FULL, "small": SMALL, "tiny": TINY}


def name_of(sizes):
    return next(name for name, known in SIZES.items() if known == sizes)
