"""How much is measured: the day itself, a short one, and one for a simulated device."""

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Sizes:
    """Numbers of everything; a part reads its own."""

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
    rows=(16,),
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
