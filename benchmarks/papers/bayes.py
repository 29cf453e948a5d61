"""Paper E: Bayesian lasso and multinomial logistic regression."""

from __future__ import annotations

import time
from functools import partial

import numpy as np
from threadpoolctl import threadpool_limits

import sksurvgpu

from .. import samplers
from ..mixing import time_sweeps
from ..processes import least
from ..processes import timed as timed_both
from ..samplers import (
    LASSO_PRIOR,
    Driven,
    Linear,
    PublishedLasso,
    lasso_sampler,
    multinomial_sampler,
    new_sampling,
)
from .figures import draw_bars, draw_lines, series_of
from .grouped import series
from .rig import SEED, item, timed

N_ROWS, N_CLASSES = 425, 9
TUNED = 100  # sweeps at most
EXACT = "three-step"  # the published sampler of the lasso


def linear(p, n=N_ROWS):
    """71 correlated columns resampled up to p with noise, as published; ten of them matter."""
    rng = np.random.default_rng(SEED)
    distance = np.abs(np.subtract.outer(np.arange(71), np.arange(71)))
    base = rng.standard_normal((n, 71)) @ np.linalg.cholesky(0.5**distance).T
    X = base[:, np.arange(p) % 71] + 0.3 * rng.standard_normal((n, p))
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    coef = np.zeros(p)
    coef[np.linspace(0, p - 1, min(p, 10)).astype(int)] = np.resize([1.0, -1.0], min(p, 10))
    return Linear(X, X @ coef + rng.standard_normal(n), coef)


def sweep_ms(sampler, seconds):
    """Median milliseconds of a sweep after tuning, in processor time of one thread."""
    with threadpool_limits(1):
        return time_sweeps(sampler, time.process_time(), seconds, TUNED)["ms"]


def driven(make):
    """A chain of ours, of which nothing is recorded."""
    return Driven(make, SEED, lambda state: [0.0])


@item("E", "Bayesian lasso over p, n = 425")
def lasso(run):
    columns = run.pick((12, 20), (71, 250, 500, 1_000), (71, 250, 500, 1_000, 2_000, 3_000))
    seconds = run.pick(0.01, 1.0, 3.0)
    run.show("sampler=solver | p:,d | ms a sweep=ms:.3g | of collapsed=ratio:.1f")
    for p in columns:
        problem = linear(p)
        found = {
            f"ours, {kind}": sweep_ms(driven(lasso_sampler(kind, problem)), seconds)
            for kind in ("collapsed", "two-block", EXACT)
        }
        plain = PublishedLasso(problem.X, problem.y, LASSO_PRIOR, SEED)
        found["published three steps, NumPy"] = sweep_ms(plain, seconds)
        for name, ms in found.items():
            run.add(solver=name, p=p, ms=ms, ratio=ms / found["ours, collapsed"])
    run.note(f"one chain, one thread; exact here: {EXACT}, the published Gibbs sampler in our code")
    _draw(run, "p", "columns", "Bayesian lasso, 425 rows; published: up to 150 x their core")


def _draw(run, x, xlabel, title):
    with run.figure() as [ax]:
        look = {"xlabel": xlabel, "ylabel": "ms a sweep", "title": f"{title}, on a GPU"}
        draw_lines(ax, series_of(run.rows, x, "ms"), **look)


@item("E", "Bayesian multinomial logistic regression over n, 56 predictors, 9 classes")
def multinomial(run):
    rows = run.pick((60,), (2_000, 10_000, 40_000), (10_000, 50_000, 200_000, 506_450))
    p, seconds = run.pick(3, 56, 56), run.pick(0.01, 2.0, 5.0)
    run.show("sampler=solver | n:,d | ms a sweep=ms:.3g | of hmc=ratio:.2f | start s=start:.2f")
    for n in rows:
        problem, unit = samplers.multinomial(n, p, N_CLASSES, seed=SEED), None
        for kind, name in (("hmc", "ours, Hamiltonian"), ("gibbs", "exact: Polya-Gamma Gibbs")):
            start, chain = timed(lambda kind=kind: driven(multinomial_sampler(kind, problem)))  # noqa: B023
            ms = sweep_ms(chain, seconds)
            unit = unit or ms
            run.add(solver=name, n=n, ms=ms, ratio=ms / unit, start=start)
    run.note(
        "a Hamiltonian sweep is a trajectory whose draws are nearly independent; a Gibbs sweep "
        "is not, so that times of sweeps do not compare by themselves (see convergence)"
    )
    _draw(run, "n", "rows", "56 predictors, 9 classes; published: up to 100 x their core")


@item("E", "Polya-Gamma draws")
def polya_gamma(run):
    n, repeats = run.pick(500, 1_000_000, 10_000_000), run.pick(1, 5, 5)
    random, rng = new_sampling(SEED).random, np.random.default_rng(SEED)
    ones = np.ones(n, np.int64)
    run.show("draws=what | million a second=rate:.2f | mean:.5f | expected:.5f | z score=z:.1f")
    for name, z in (
        ("PG(1, 0)", np.zeros(n)),
        ("PG(1, z), z ~ N(0, 1)", rng.normal(size=n)),
        ("PG(1, z), z ~ N(0, 4)", 2.0 * rng.normal(size=n)),
        ("PG(1, 20)", np.full(n, 20.0)),
    ):
        draw = partial(random.polya_gamma, 0, ones, z[None])
        seconds = least(draw, repeats, "cpu_seconds")
        drawn = np.asarray(draw()).ravel()
        half = np.maximum(np.abs(z), 1e-8) / 2.0
        expected = np.tanh(half) / (4.0 * half)
        off = (drawn - expected).mean() / ((drawn - expected).std() / np.sqrt(n))
        means = {"mean": float(drawn.mean()), "expected": float(expected.mean())}
        run.add(what=name, rate=n / seconds / 1e6, z=float(off), **means)
    seconds, _ = timed(rng.standard_normal, n)
    run.note(
        f"NumPy's normal draws: {n / seconds / 1e6:.1f} million a second; "
        "one thread; z score: of the mean, about N(0, 1)"
    )
    with run.figure(width=6.5, height=2.6) as [ax]:
        names, rates = zip(*((row["what"], row["rate"]) for row in run.rows), strict=True)
        look = {"xlabel": "million draws a second, one thread", "title": "Polya-Gamma draws"}
        draw_bars(ax, names, rates, **look)


class Clocked:
    """An object whose calls are timed by their name."""

    def __init__(self, inner, names, spent):
        self._inner, self._names, self._spent = inner, names, spent

    def __getattr__(self, name):
        value = getattr(self._inner, name)
        if name not in self._names:
            return value

        def call(*args, **kwargs):
            begin = time.process_time()
            result = value(*args, **kwargs)
            self._spent[name] = self._spent.get(name, 0.0) + time.process_time() - begin
            return result

        return call


@item("E", "shares of a Gibbs sweep by component")
def components(run):
    run.note("processor time, one thread")
    run.show("model | component=part | ms a sweep=ms:.3g | share:.1%")
    p, n = run.pick(20, 500, 2_000), run.pick(80, 10_000, 506_450)
    drawn = samplers.multinomial(n, run.pick(3, 56, 56), N_CLASSES, seed=SEED)
    jobs = {
        f"lasso, {EXACT}, p = {p:,}": lasso_sampler(EXACT, linear(p)),
        f"multinomial, n = {n:,}": multinomial_sampler("gibbs", drawn),
    }
    for name, make in jobs.items():
        for part, ms, share in _shares(make(new_sampling(SEED)), run.pick(2, 10, 5)):
            run.add(model=name, part=part, ms=ms, share=share)
    with run.figure(2) as axes:
        for ax, name in zip(axes, jobs, strict=True):
            rows = [row for row in run.rows if row["model"] == name]
            names, shares = zip(*((r["part"], 100.0 * r["share"]) for r in rows), strict=True)
            draw_bars(ax, names, shares, xlabel="% of a sweep", title=name, form="{:.1f}")


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
    random = sampling.random
    sampling.random = Clocked(random, RANDOM, spent)
    sampling.linalg = Clocked(sampling.linalg, ALGEBRA, spent)
    if hasattr(chain, "_rows"):
        chain._rows = Clocked(chain._rows, ROWS, spent)
    with threadpool_limits(1):
        begin = time.process_time()
        for _ in range(n_sweeps):
            random.iteration += 1
            chain.sweep(False)
        total = time.process_time() - begin
    named = {}
    for name, seconds in spent.items():
        part = f"{RANDOM[name]} draws" if name in RANDOM else name.replace("_", " ")
        named[part] = named.get(part, 0.0) + seconds
    named["the rest"] = max(total - sum(named.values()), 0.0)
    ordered = sorted(named.items(), key=lambda pair: -pair[1])
    return [(part, 1e3 * s / n_sweeps, s / total) for part, s in ordered if s > 0]


R_HAT = 1.01  # within which chains must be; a fit beyond it warns


CONVERGED = (
    "model | seconds:.3g | CPU s=cpu_seconds:.3g | draws:,d | worst R-hat=r_hat:.4f | "
    "within 1.01=within | least ESS=ess:,.0f | ESS a second=rate:,.1f"
)


@item("E", "convergence at full size: R-hat and effective draws of four chains")
def convergence(run):
    run.show(CONVERGED)
    jobs = _chains(run)
    with run.figure(len(jobs), width=3.6, height=3.0) as axes:
        for ax, (name, (kind, data, n_tune, n_draws)) in zip(axes, jobs.items(), strict=True):
            make = sksurvgpu.BayesianLasso
            if name.startswith("multinomial"):
                make = sksurvgpu.BayesianMultinomialLogistic
            how = {"n_chains": 4, "random_state": SEED, "n_jobs": run.threads}
            model = make(sampler=kind, n_tune=n_tune, n_draws=n_draws, **how)
            model, times = timed_both(partial(model.fit, *data))
            table = model.posterior_.diagnostics
            if name.startswith("lasso"):
                is_one = [not str(label).startswith(("coef", "local")) for label in table.index]
                table = table[is_one]
            worst = _judge_chains(run, name, table, times, 4 * n_draws)
            _draw_chains(ax, model.posterior_, worst, name)
    run.note(
        "lasso: the scale of the prior and the noise, the slowest to mix; multinomial: all "
        f"coefficients; a fit without R-hat below {R_HAT} warns"
    )


@item("ours", "full Bayes of the smallest published series: Laplace priors, whose scale is drawn")
def full_bayes(run):
    problem = series(*run.pick((60, 10), (1_000, 200), (115_000, 1_224)))
    n_tune, n_draws, n_chains = *run.pick((20, 20), (300, 300), (200, 200)), 2
    model = sksurvgpu.CaseSeriesCCD(**run.how)
    how = {"n_chains": n_chains, "n_tune": n_tune, "n_draws": n_draws, "random_state": SEED}
    ask = partial(sksurvgpu.posterior, model, problem.X, problem.y, prior="laplace", **how)
    posterior, times = timed_both(ask)
    run.show(CONVERGED)
    name = f"{problem.size}, {len(np.unique(problem.y['subject'])):,} subjects"
    worst = _judge_chains(run, name, posterior.diagnostics, times, n_chains * n_draws)
    run.note(f"{n_chains} chains, {n_tune} sweeps of tuning each; all coefficients and the scale")
    with run.figure(2) as [left, right]:
        _draw_chains(left, posterior, worst, name)
        _draw_chains(right, posterior, "scale", "scale of the priors")


def _chains(run):
    """Name -> sampler, data, sweeps of tuning and draws of a chain.

    The published samplers mix slowly: at full size, that of the multinomial model runs on fewer
    rows, beside the other one.
    """
    p, n = run.pick(12, 1_000, 3_000), run.pick((60,), (3_000,), (10_000, 506_450))
    shape = run.pick((3, 3), (20, 5), (56, 9))
    sweeps = run.pick((20, 20), (300, 300), (500, 500))
    one = linear(p)
    jobs = {
        f"lasso, {kind}, p = {p:,}": (kind, (one.X, one.y), *sweeps)
        for kind in ("collapsed", EXACT)
    }
    sweeps = run.pick((20, 20), (300, 300), (150, 700))
    for rows in n:
        drawn = samplers.multinomial(rows, *shape, seed=SEED)
        for kind in ("hmc", "gibbs")[: 1 + (rows == n[0])]:
            name = f"multinomial, {kind}, n = {rows:,}"
            jobs[name] = (kind, (drawn.X, drawn.labels), *sweeps)
    return jobs


def _judge_chains(run, name, table, times, n_draws):
    """The row of a model from its diagnostics, and its quantity with the worst R-hat."""
    r_hat, ess = float(table["r_hat"].max()), float(table["ess_bulk"].min())
    row = {"model": name, **times, "draws": n_draws, "r_hat": r_hat, "ess": ess}
    run.add(**row, within="yes" if r_hat < R_HAT else "no", rate=ess / times["seconds"])
    return table["r_hat"].idxmax()


def _draw_chains(ax, posterior, name, title):
    for chain in _draws_of(posterior, name):
        ax.plot(chain, lw=0.5, alpha=0.8)
    ax.set(xlabel="draw", title=title.replace(", ", "\n", 1))
    ax.set_ylabel(f"{name}: R-hat {posterior.diagnostics.loc[name, 'r_hat']:.3f}", fontsize=8)


def _draws_of(posterior, worst):
    """Draws of one parameter by chain; its place is that among the labels of its quantity."""
    name = worst.split("[")[0]
    labels_ = [label for label in posterior.diagnostics.index if label.split("[")[0] == name]
    draws = np.asarray(posterior.draws[name])
    return draws.reshape(*draws.shape[:2], -1)[:, :, labels_.index(worst)]
