"""What threads bring to batches of fits, by size: the table from which their number is counted."""

from __future__ import annotations

import warnings

from .cases import SEED
from .processes import in_turn, timed
from .report import lines, parser, read, save

# (rows, columns, replicates), a second or two of each
SIZES = (
    (1_000, 50, 1_000),
    (3_000, 100, 500),
    (10_000, 50, 400),
    (10_000, 300, 400),
    (30_000, 50, 200),
    (30_000, 300, 150),
    (100_000, 100, 60),
)
ALPHA = 0.006
COLUMNS = (
    ("bootstrap", lambda found: f"{found['n']:,} x {found['p']:,}", None),
    ("entries", "entries", ",d"),
    ("fits", "fits", ",d"),
    ("ms / fit", lambda found: 1e3 * found["alone"] / found["fits"], ".2f"),
    ("threads", "threads", "d"),
    ("speed-up", lambda found: found["alone"] / found["beside"], ".2f"),
    ("CPU", lambda found: found["cpu_beside"] / found["cpu_alone"], ".2f"),
    ("most", "most", "d"),
)


def main_threads(arguments=None):
    """Bootstraps on one thread and on several, whatever `backends.cpu.threads` would give them.

    "most" is what it would. Speed-up and processor time are over those of one thread, the least
    seconds of several calls in turns; they mean nothing where other work runs.
    """
    found = parser("threads", main_threads.__doc__, "the smallest size, 20 replicates")
    found.add_argument("--threads", type=int, default=2)
    found.add_argument("--repeats", type=int, default=5)
    options = read(found, arguments, "threads")
    sizes = [(*SIZES[0][:2], 20)] if options.quick else SIZES
    shared = {"threads": options.threads, "repeats": options.repeats}
    jobs = [("measure_threads", {"n": n, "p": p, "fits": b, **shared}) for n, p, b in sizes]
    results = in_turn(__name__, jobs, lambda results: save(options, results=results))
    print(lines(COLUMNS, results))


def measure_threads(n, p, fits, threads, repeats):
    """Least seconds of a bootstrap on one thread and on several."""
    from sksurvgpu import CoxLassoCCD, bootstrap, datasets
    from sksurvgpu.backends.cpu import threads as chosen
    from sksurvgpu.data.design.columns import build_design

    data = datasets.simulate_cox(n, p, random_state=SEED)
    most = chosen.fits_at_once(build_design(data.X))
    chosen.LOCKED = 1.0  # nanoseconds: there is work for any number

    def run(n_jobs):
        model = CoxLassoCCD(alpha=ALPHA, n_jobs=n_jobs, backend="cpu")
        bootstrap(model, data.X, data.y, n_replicates=fits, random_state=0)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run(1)  # loads the kernels
        pairs = [[timed(lambda k=k: run(k))[1] for k in (1, threads)] for _ in range(repeats)]
    alone, beside = (
        {unit: min(seconds[unit] for seconds in side) for unit in ("seconds", "cpu_seconds")}
        for side in zip(*pairs, strict=True)
    )
    return {
        "n": n,
        "p": p,
        "entries": int(data.X.nnz),
        "fits": fits,
        "threads": threads,
        "alone": alone["seconds"],
        "beside": beside["seconds"],
        "cpu_alone": alone["cpu_seconds"],
        "cpu_beside": beside["cpu_seconds"],
        "most": most,
    }
