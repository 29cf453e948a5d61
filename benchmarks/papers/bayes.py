"""Paper E: Bayesian lasso and multinomial logistic regression."""

from __future__ import annotations

import time

import numpy as np
from threadpoolctl import threadpool_limits

import sksurvgpu
from sksurvgpu.backends.cpu.sampling import Sampling
from sksurvgpu.bayes.multinomial import MultinomialGibbs, MultinomialHmc, collapse_rows
from sksurvgpu.bayes.priors import Lasso
from sksurvgpu.bayes.reduction import reduce_rows
from sksurvgpu.bayes.regression import SAMPLERS
from sksurvgpu.bayes.softmax import CategoriesPrior, SoftmaxTarget, find_mode

from .figures import draw_bars, draw_lines, panels, series_of
from .rig import SEED, item, timed

N_ROWS, N_CLASSES = 425, 9
PRIOR = {"shape": 1.0, "rate": 1e-4}
NOISE = (1.0, 1.0)
TUNED = 100  # sweeps at most
EXACT = "three-step"  # the published sampler of the lasso


def linear(p, n=N_ROWS):
    """71 correlated columns resampled up to p with noise, as published; ten of them matter."""
    rng = np.random.default_rng(SEED)
    base = (
        rng.standard_normal((n, 71))
        @ np.linalg.cholesky(0.5 ** np.abs(np.subtract.outer(np.arange(71), np.arange(71)))).T
    )
    X = base[:, np.arange(p) % 71] + 0.3 * rng.standard_normal((n, p))
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    coef = np.zeros(p)
    coef[np.linspace(0, p - 1, min(p, 10)).astype(int)] = np.resize([1.0, -1.0], min(p, 10))
    return X, X @ coef + rng.standard_normal(n)


def labels(n, p=56, n_classes=N_CLASSES):
    """Normal columns and Gumbel labels."""
    rng = np.random.default_rng(SEED)
    X = rng.standard_normal((n, p))
    coef = rng.standard_normal((p, n_classes)) * (1.5 / np.sqrt(p))
    coef[:, -1] = 0.0
    return X, np.argmax(X @ coef + rng.gumbel(size=(n, n_classes)), axis=1)


def lasso_chain(kind, X, y):
    """One chain of the Gaussian model."""
    rows = reduce_rows(X, y[None])
    return SAMPLERS[kind](Sampling(SEED, np.array([0])), rows, Lasso(**PRIOR), NOISE)


def multinomial_chain(kind, X, y, n_classes=N_CLASSES):
    """One chain of the multinomial model, about its mode."""
    shape = n_classes - 1, X.shape[1]
    prior = CategoriesPrior(np.zeros(shape), np.ones(shape))
    rows = collapse_rows(X, np.eye(n_classes, dtype=np.int64)[y])
    sampling = Sampling(SEED, np.array([0]))
    mode, factor = find_mode(sampling, SoftmaxTarget(rows.put(sampling), prior))
    chain = {"gibbs": MultinomialGibbs, "hmc": MultinomialHmc}[kind]
    return chain(sampling, rows.put(sampling), prior, mode, factor)


def sweep_ms(chain, seconds, fewest=3):
    """Median milliseconds of a sweep after tuning, in processor time of one thread."""
    times, tuned, begin = [], 0, time.process_time()
    with threadpool_limits(1):
        while tuned < TUNED and (not tuned or time.process_time() - begin < seconds):
            chain.sampling.random.iteration += 1
            chain.sweep(True)
            tuned += 1
        while len(times) < fewest or sum(times) < seconds:
            chain.sampling.random.iteration += 1
            begin = time.process_time()
            chain.sweep(False)
            times.append(time.process_time() - begin)
    return 1e3 * float(np.median(times))


def plain_lasso_ms(X, y, seconds):
    """The published three steps in NumPy, with a Cholesky factor of p columns a sweep."""
    with threadpool_limits(1):
        return _plain_lasso_ms(X, y, seconds)


def _plain_lasso_ms(X, y, seconds):
    rng = np.random.default_rng(SEED)
    gram, project, (n, p) = X.T @ X, X.T @ (y - y.mean()), X.shape
    coef, sigma2, tau2, lam2 = np.zeros(p), 1.0, np.ones(p), 1.0
    times = []
    while len(times) < 3 or sum(times) < seconds:
        begin = time.process_time()
        factor = np.linalg.cholesky(gram + np.diag(1.0 / tau2))
        mean = np.linalg.solve(factor.T, np.linalg.solve(factor, project))
        noise = np.linalg.solve(factor.T, rng.standard_normal(p))
        coef = mean + np.sqrt(sigma2) * noise
        residual = y - y.mean() - X @ coef
        rate = 1.0 + 0.5 * (residual @ residual + coef @ (coef / tau2))
        sigma2 = rate / rng.gamma(1.0 + 0.5 * (n - 1 + p))
        tau2 = 1.0 / rng.wald(np.sqrt(lam2 * sigma2) / np.maximum(np.abs(coef), 1e-12), lam2)
        lam2 = rng.gamma(p + PRIOR["shape"]) / (0.5 * tau2.sum() + PRIOR["rate"])
        times.append(time.process_time() - begin)
    return 1e3 * float(np.median(times))


# -- items ------------------------------------------------------------------------------------


@item("E", "Bayesian lasso over p, n = 425")
def lasso(run):
    columns = run.pick((12, 20), (71, 250, 500, 1_000), (71, 250, 500, 1_000, 2_000, 3_000))
    seconds = run.pick(0.01, 1.0, 10.0)
    run.show(
        ("sampler", "solver", ""),
        ("p", "p", ",d"),
        ("ms a sweep", "ms", ".3g"),
        ("of collapsed", "ratio", ".1f"),
    )
    for p in columns:
        X, y = linear(p)
        found = {
            f"ours, {kind}": sweep_ms(lasso_chain(kind, X, y), seconds)
            for kind in ("collapsed", "two-block", EXACT)
        }
        found["published three steps, NumPy"] = plain_lasso_ms(X, y, seconds)
        for name, ms in found.items():
            run.add(solver=name, p=p, ms=ms, ratio=ms / found["ours, collapsed"])
    run.note(f"one chain, one thread; exact here: {EXACT}, the published Gibbs sampler in our code")
    figure, [ax] = panels(1, width=8.0)
    draw_lines(
        ax,
        series_of(run.rows, "p", "ms"),
        xlabel="columns",
        ylabel="ms a sweep",
        title="Bayesian lasso, 425 rows; published: up to 150 x their core, on a GPU",
    )
    run.keep(figure)


@item("E", "Bayesian multinomial logistic regression over n, 56 predictors, 9 classes")
def multinomial(run):
    rows = run.pick((60,), (2_000, 10_000, 40_000), (10_000, 50_000, 200_000, 506_450))
    p, seconds = run.pick(3, 56, 56), run.pick(0.01, 2.0, 20.0)
    run.show(
        ("sampler", "solver", ""),
        ("n", "n", ",d"),
        ("ms a sweep", "ms", ".3g"),
        ("of hmc", "ratio", ".2f"),
        ("start s", "start", ".2f"),
    )
    for n in rows:
        X, y = labels(n, p)
        unit = None
        for kind, name in (("hmc", "ours, Hamiltonian"), ("gibbs", "exact: Polya-Gamma Gibbs")):
            start, chain = timed(multinomial_chain, kind, X, y)
            ms = sweep_ms(chain, seconds)
            unit = unit or ms
            run.add(solver=name, n=n, ms=ms, ratio=ms / unit, start=start)
    run.note(
        "a Hamiltonian sweep is a trajectory whose draws are nearly independent; a Gibbs sweep "
        "is not, so that times of sweeps do not compare by themselves (see convergence)"
    )
    figure, [ax] = panels(1, width=8.0)
    draw_lines(
        ax,
        series_of(run.rows, "n", "ms"),
        xlabel="rows",
        ylabel="ms a sweep",
        title="56 predictors, 9 classes; published: up to 100 x their core, on a GPU",
    )
    run.keep(figure)


@item("E", "Polya-Gamma draws")
def polya_gamma(run):
    n, repeats = run.pick(500, 1_000_000, 10_000_000), run.pick(1, 5, 5)
    random, rng = Sampling(SEED, np.array([0])).random, np.random.default_rng(SEED)
    ones = np.ones(n, np.int64)
    run.show(
        ("draws", "what", ""),
        ("million a second", "rate", ".2f"),
        ("mean", "mean", ".5f"),
        ("expected", "expected", ".5f"),
        ("z score", "z", ".1f"),
    )
    for name, z in (
        ("PG(1, 0)", np.zeros(n)),
        ("PG(1, z), z ~ N(0, 1)", rng.normal(size=n)),
        ("PG(1, z), z ~ N(0, 4)", 2.0 * rng.normal(size=n)),
        ("PG(1, 20)", np.full(n, 20.0)),
    ):
        random.polya_gamma(0, ones[:10], z[None, :10])
        seconds = []
        for _ in range(repeats):
            one, drawn = timed(random.polya_gamma, 0, ones, z[None])
            seconds.append(one)
        drawn = np.asarray(drawn).ravel()
        half = np.maximum(np.abs(z), 1e-8) / 2.0
        expected = np.tanh(half) / (4.0 * half)
        off = (drawn - expected).mean() / ((drawn - expected).std() / np.sqrt(n))
        run.add(
            what=name,
            rate=n / min(seconds) / 1e6,
            mean=float(drawn.mean()),
            expected=float(expected.mean()),
            z=float(off),
        )
    seconds, _ = timed(rng.standard_normal, n)
    run.note(
        f"NumPy's normal draws: {n / seconds / 1e6:.1f} million a second; "
        "one thread; z score: of the mean, about N(0, 1)"
    )
    figure, [ax] = panels(1, width=6.5, height=2.6)
    draw_bars(
        ax,
        [row["what"] for row in run.rows],
        [row["rate"] for row in run.rows],
        xlabel="million draws a second, one thread",
        title="Polya-Gamma draws",
    )
    run.keep(figure)


class Clocked:
    """An object whose calls are timed by their name."""

    def __init__(self, inner, names, spent):
        self._inner, self._names, self._spent = inner, names, spent

    def __getattr__(self, name):
        value = getattr(self._inner, name)
        if name not in self._names:
            return value

        def call(*args, **kwargs):
            begin = time.perf_counter()
            result = value(*args, **kwargs)
            self._spent[name] = self._spent.get(name, 0.0) + time.perf_counter() - begin
            return result

        return call


@item("E", "shares of a Gibbs sweep by component")
def components(run):
    run.show(
        ("model", "model", ""),
        ("component", "part", ""),
        ("ms a sweep", "ms", ".3g"),
        ("share", "share", ".1%"),
    )
    p = run.pick(20, 500, 2_000)
    n = run.pick(80, 10_000, 506_450)
    X, y = labels(n, run.pick(3, 56, 56))
    jobs = (
        (f"lasso, {EXACT}, p = {p:,}", lasso_chain(EXACT, *linear(p))),
        (f"multinomial, n = {n:,}", multinomial_chain("gibbs", X, y)),
    )
    for name, chain in jobs:
        for part, ms, share in _shares(chain, run.pick(2, 10, 10)):
            run.add(model=name, part=part, ms=ms, share=share)
    figure, axes = panels(2)
    for ax, (name, _) in zip(axes, jobs, strict=True):
        rows = [row for row in run.rows if row["model"] == name]
        draw_bars(
            ax,
            [row["part"] for row in rows],
            [100.0 * row["share"] for row in rows],
            xlabel="% of a sweep",
            title=name,
            form="{:.1f}",
        )
    run.keep(figure)


RANDOM = {
    "polya_gamma": "Polya-Gamma",
    "inverse_gaussian": "inverse Gaussian",
    "normal": "normal",
    "gamma": "gamma",
    "log_gamma": "gamma",
    "uniform": "uniform",
}
ALGEBRA = ("weighted_gram", "cholesky", "solve_lower", "solve_upper", "product")
ROWS = ("offset", "predictor", "project", "move")


def _shares(chain, n_sweeps):
    """Component, milliseconds a sweep and share, largest first; what is left is the rest."""
    spent, sampling = {}, chain.sampling
    chain.sweep(True)
    random, linalg = sampling.random, sampling.linalg
    sampling.random, sampling.linalg = (
        Clocked(random, RANDOM, spent),
        Clocked(linalg, ALGEBRA, spent),
    )
    if hasattr(chain, "_rows"):
        chain._rows = Clocked(chain._rows, ROWS, spent)
    begin = time.perf_counter()
    for _ in range(n_sweeps):
        random.iteration += 1
        chain.sweep(False)
    total = time.perf_counter() - begin
    sampling.random, sampling.linalg = random, linalg
    named = {}
    for name, seconds in spent.items():
        part = f"{RANDOM[name]} draws" if name in RANDOM else name.replace("_", " ")
        named[part] = named.get(part, 0.0) + seconds
    named["the rest"] = max(total - sum(named.values()), 0.0)
    ordered = sorted(named.items(), key=lambda pair: -pair[1])
    return [(part, 1e3 * s / n_sweeps, s / total) for part, s in ordered if s > 0]


@item("E", "convergence at full size: R-hat and effective draws of four chains")
def convergence(run):
    p = run.pick(12, 1_000, 3_000)
    n_draws = run.pick(20, 300, 2_000)
    n = run.pick(60, 3_000, 506_450)
    run.show(
        ("model", "model", ""),
        ("seconds", "seconds", ".3g"),
        ("draws", "draws", ",d"),
        ("worst R-hat", "r_hat", ".4f"),
        ("least ESS", "ess", ",.0f"),
        ("ESS a second", "rate", ",.1f"),
    )
    X, y = linear(p)
    multi = labels(n, run.pick(3, 20, 56), run.pick(3, 5, 9))
    how = {"n_chains": 4, "random_state": SEED, "n_jobs": run.threads}
    how |= {"n_tune": n_draws, "n_draws": n_draws}
    jobs = {
        f"lasso, {kind}, p = {p:,}": (sksurvgpu.BayesianLasso(sampler=kind, **how), X, y)
        for kind in ("collapsed", EXACT)
    }
    for kind in ("hmc", "gibbs"):
        model = sksurvgpu.BayesianMultinomialLogistic(sampler=kind, **how)
        jobs[f"multinomial, {kind}, n = {n:,}"] = (model, *multi)
    traces = {}
    for name, (model, table, outcome) in jobs.items():
        seconds, _ = timed(model.fit, table, outcome)
        traces[name] = _judge_chains(run, name, model, seconds, 4 * n_draws)
    run.note(
        "lasso: the scale of the prior and the noise, the slowest to mix; multinomial: all "
        "coefficients; a fit without R-hat below 1.01 warns"
    )
    _draw_chains(run, traces)


def _judge_chains(run, name, model, seconds, n_draws):
    table = model.posterior_.diagnostics
    if name.startswith("lasso"):
        table = table[[not str(label).startswith(("coef", "local")) for label in table.index]]
    r_hat, ess = float(table["r_hat"].max()), float(table["ess_bulk"].min())
    run.add(model=name, seconds=seconds, draws=n_draws, r_hat=r_hat, ess=ess, rate=ess / seconds)
    return model.posterior_, table["r_hat"].idxmax()


def _draw_chains(run, traces):
    figure, axes = panels(len(traces), width=3.6, height=3.0)
    for ax, (name, (posterior, worst)) in zip(axes, traces.items(), strict=True):
        for chain in _draws_of(posterior, worst):
            ax.plot(chain, lw=0.5, alpha=0.8)
        ax.set(xlabel="draw", title=name.replace(", ", "\n", 1))
        ax.set_ylabel(f"{worst}: worst R-hat", fontsize=8)
    run.keep(figure)


def _draws_of(posterior, worst):
    """Draws of one parameter by chain; its place is that among the labels of its quantity."""
    name = worst.split("[")[0]
    labels_ = [label for label in posterior.diagnostics.index if label.split("[")[0] == name]
    draws = np.asarray(posterior.draws[name])
    return draws.reshape(*draws.shape[:2], -1)[:, :, labels_.index(worst)]
