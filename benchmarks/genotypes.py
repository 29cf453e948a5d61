"""Lasso paths of a Cox model of genotypes in a PLINK file, beside adelie's on the same file."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

from .processes import call, memory_mb, timed
from .report import Option, columns, lines, read, save

N_ALPHAS, RATIO, LINKED, AT_ONCE = 10, 0.3, 20, 1_000
TOLERANCES = (1e-7, 1e-9, 1e-12)  # of adelie, the first by default
GENOTYPES = np.array([2, -9, 1, 0], dtype=np.int8)  # of the codes of a .bed file; -9 is missing
SHOWN = columns(
    "solver | tolerance:.0e | CPU s=cpu_seconds:.1f | seconds:.1f | peak MB=peak:,.0f | "
    "KKT / penalty=kkt:.1e | difference:.1e | nonzero:,.0f"
)


def main_genotypes(arguments=None):
    """Ten penalties down to 0.3 of the largest, on one thread, each solver in its own process.

    Variants are drawn in correlated blocks of 20, 200 of them have an effect, 0.2 % of genotypes
    are missing and get their variant's mean. Penalties are on columns as they are.
    """
    options = read(
        "genotypes",
        main_genotypes.__doc__,
        arguments,
        rows=Option(10_000, quick=400),
        columns=Option(20_000, quick=1_000),
        adelie=Option(str, "interpreter that has it; left out without"),
    )
    with tempfile.TemporaryDirectory() as folder:
        draw(folder, options.rows, options.columns)
        found = [{"solver": "sksurvgpu", **_call("ours", folder)}]
        for tolerance in TOLERANCES if options.adelie else ():
            facts = _call("adelie", folder, options.adelie, tolerance=tolerance)
            found.append({"solver": "adelie", "tolerance": tolerance, **facts})
            save(options, rows=options.rows, columns=options.columns, results=found)
    save(options, rows=options.rows, columns=options.columns, results=found)
    print(lines(SHOWN, found))


def _call(solver, folder, python=None, **arguments):
    arguments = {"folder": folder, **arguments}
    facts = call("benchmarks.genotypes", solver, arguments, n_threads=1, python=python)
    return {**facts, **_judge(folder, solver)}


def draw(folder, n_rows, n_columns):
    """Write x.bed with its tables, and y.npz, times and events."""
    rng, stem = np.random.default_rng(0), Path(folder, "x")
    effects = np.zeros(n_columns)
    effects[rng.choice(n_columns, 200, replace=False)] = rng.normal(0, 0.08, 200)
    eta = np.zeros(n_rows)
    with open(f"{stem}.bed", "wb") as file:
        file.write(b"\x6c\x1b\x01")
        for first in range(0, n_columns, LINKED):
            shared, frequency = rng.random((2, n_rows)), rng.uniform(0.05, 0.5)
            for effect in effects[first : first + LINKED]:
                own = np.where(rng.random((2, n_rows)) < 0.9, shared, rng.random((2, n_rows)))
                counts = np.sum(own < frequency, axis=0)
                eta += effect * counts
                codes = np.where(rng.random(n_rows) < 0.002, 1, np.array([3, 2, 0])[counts])
                codes = np.pad(codes, (0, -n_rows % 4)).reshape(-1, 4)
                file.write((codes << [0, 2, 4, 6]).sum(axis=1).astype(np.uint8).tobytes())
    names = "".join(f"1 v{j} 0 {j + 1} A G\n" for j in range(n_columns))
    Path(f"{stem}.bim").write_text(names)
    Path(f"{stem}.fam").write_text("".join(f"0 p{i} 0 0 0 -9\n" for i in range(n_rows)))
    time, end = rng.exponential(np.exp(eta.mean() - eta)), rng.exponential(2.0, n_rows)
    np.savez(Path(folder, "y.npz"), time=np.minimum(time, end), event=time <= end)


def ours(folder):
    """Path of this package, whose penalties are those of all."""
    from sksurvgpu import CoxLassoCCD, fit_path, read_bed, surv

    y = np.load(Path(folder, "y.npz"))
    X, y = read_bed(Path(folder, "x"), n_threads=1).X, surv(y["event"], y["time"])
    how = {"n_alphas": N_ALPHAS, "alpha_min_ratio": RATIO}
    model = CoxLassoCCD(n_jobs=1)
    fit_path(model, X[:300, :50], y[:300], n_alphas=2, alpha_min_ratio=0.9)  # compiles or loads
    path, facts = timed(lambda: fit_path(model, X, y, **how))
    coefs = path.coefs if len(path.coefs) == N_ALPHAS else path.coefs.T
    np.savez(Path(folder, "ours.npz"), coefs=coefs, alphas=path.alphas)
    return {**facts, "peak": memory_mb()}


def adelie(folder, tolerance):
    """Path of adelie, whose files of genotypes are written first, which is not timed."""
    import adelie as ad

    y, alphas = np.load(Path(folder, "y.npz")), np.load(Path(folder, "ours.npz"))["alphas"]
    blocks = []
    for k, genotypes in enumerate(_blocks(folder)):
        file = Path(folder, f"{k}.snpdat")
        if not file.exists():
            ad.io.snp_unphased(str(file)).write(np.asfortranarray(genotypes), n_threads=1)
        blocks.append(ad.matrix.snp_unphased(ad.io.snp_unphased(str(file)), n_threads=1))
    X = ad.matrix.concatenate(blocks, axis=1, n_threads=1)
    status, start = y["event"].astype(float), np.full(len(y["time"]), -1.0)
    family = ad.glm.cox(start=start, stop=y["time"], status=status, tie_method="breslow")
    # never stop because enough deviance is explained, or after 1e5 steps
    how = {"tol": tolerance, "irls_tol": tolerance, "max_iters": 10**8, "irls_max_iters": 10**6}
    how |= {"adev_tol": 1.0, "early_exit": False, "intercept": False, "progress_bar": False}
    state, facts = timed(lambda: ad.grpnet(X, family, lmda_path=alphas, n_threads=1, **how))
    np.savez(Path(folder, "adelie.npz"), coefs=np.asarray(state.betas.todense()))
    return {**facts, "peak": memory_mb()}


def _blocks(folder):
    """Genotypes in blocks of columns, bytes."""
    n_rows = len(np.load(Path(folder, "y.npz"))["time"])
    codes = np.memmap(Path(folder, "x.bed"), np.uint8, "r", 3).reshape(-1, -(-n_rows // 4))
    for first in range(0, len(codes), AT_ONCE):
        own = codes[first : first + AT_ONCE, :, None] >> np.array([0, 2, 4, 6], np.uint8)
        yield GENOTYPES[(own & 3).reshape(len(own), -1)[:, :n_rows]].T


def _judge(folder, solver):
    """Largest violation of optimality over its penalty, and the distance from this package's."""
    from .judge import Cox

    y = dict(np.load(Path(folder, "y.npz")))
    known = np.load(Path(folder, "ours.npz"))
    coefs, alphas = np.load(Path(folder, f"{solver}.npz"))["coefs"], known["alphas"][:, None]

    def imputed():
        for genotypes in _blocks(folder):
            found = np.where(genotypes < 0, np.nan, genotypes)
            yield np.where(genotypes < 0, np.nanmean(found, axis=0), found)

    ends = [min(k + AT_ONCE, coefs.shape[1]) for k in range(0, coefs.shape[1], AT_ONCE)]
    parts = np.split(coefs, ends[:-1], axis=1)
    etas = sum(own @ part.T for own, part in zip(imputed(), parts, strict=True))
    likelihood = Cox({**y, "stratum": None})
    u = np.column_stack([likelihood.evaluate(eta)[1] for eta in etas.T])
    gradient = np.concatenate([own.T @ u for own in imputed()]).T / len(etas)
    free = np.abs(gradient - alphas * np.sign(coefs))
    off = np.where(coefs != 0, free, np.maximum(np.abs(gradient) - alphas, 0.0)) / alphas
    difference = float(np.abs(coefs - known["coefs"]).max())
    return {
        "kkt": float(off.max()),
        "difference": difference,
        "nonzero": int(np.count_nonzero(coefs[-1])),
    }
