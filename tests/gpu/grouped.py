"""Models of groups on a simulated device and on the CPU, at the same coefficients."""

import models
import numpy as np

from sksurvgpu.backends.cpu.session import Session as CpuSession
from sksurvgpu.backends.cpu.threads import Threads
from sksurvgpu.data.design.columns import build_design
from sksurvgpu.likelihoods import LIKELIHOODS
from sksurvgpu.patterns.groups.plan import plan_groups
from sksurvgpu.penalties import ElasticNet
from sksurvgpu.solver.problem import Problem

from .device import SimulatedDevice

N_COLUMNS = 5
TEAMS = ((1, 32), (2, 64), (4, 32))  # members, threads of each


def make_problem(name, value, group, X):
    return Problem.build(build_design(X), plan_groups(value, group), LIKELIHOODS[name]())


def draw_fits(rng, group, n_fits):
    """Weights, one a group, offsets and coefficients of some fits; the first fit has all groups."""
    weights = rng.choice([0.0, 0.5, 1.0, 3.3], size=(group.max() + 1, n_fits))[group]
    weights[:, 0] = 1.0
    coefs = list(0.5 * rng.normal(size=(n_fits, N_COLUMNS)))
    return weights, rng.normal(size=(len(group), n_fits)), coefs


def model_of(cpu):
    """h of every row at the last evaluation, and 1 / N of every bin, by the CPU."""
    h = np.zeros(len(cpu.eta))
    centring = cpu.pattern.refer(cpu.eta, cpu.u, h)
    return h, centring.bins.inverse


class Fits:
    """Sessions of some fits: one on the device, and one each on the CPU."""

    def __init__(self, problem, weights, offsets, coefs, team=2, threads=32, seed=0, **options):
        from sksurvgpu.backends.cuda.layout import Layout
        from sksurvgpu.backends.cuda.session import Session

        device = SimulatedDevice(seed, n_multiprocessors=team, shared_bytes=64 * 1024, **options)
        per_range = max(problem.plan.n_rows // team, 1)
        layout = Layout(device, problem, threads=threads, rows_per_range=per_range)
        rows = weights, offsets, len(coefs), np.dtype(float)
        self.session = Session(layout, problem, *rows, ElasticNet.formulas)
        self.fits = np.arange(len(coefs), dtype=np.int32)
        self.problem, self.coefs, self.download = problem, coefs, device.download

        def own(values, fit):
            return None if values is None else values[:, fit if values.shape[1] > 1 else 0]

        self.cpu = [
            CpuSession(
                problem, own(weights, fit), own(offsets, fit), Threads(1), ElasticNet.formulas
            )
            for fit in self.fits
        ]

    def start(self):
        """Log-likelihoods: device, CPU."""
        expected = [cpu.start(coef) for cpu, coef in zip(self.cpu, self.coefs, strict=True)]
        return self.session.start(self.fits, self.coefs), expected

    def u(self):
        return self.download(self.session.rows.u), [cpu.u for cpu in self.cpu]

    def move(self):
        """Go elsewhere."""
        nothing, longest = [np.arange(0)] * len(self.cpu), [np.inf] * len(self.cpu)
        away = [0.7 * coef for coef in self.coefs]
        self.session.attempt(self.fits, away, nothing, longest)
        self.session.accept(self.fits)
        for cpu, coef in zip(self.cpu, away, strict=True):
            cpu.attempt(coef, np.arange(0), np.inf)
            cpu.accept()

    def curvature(self):
        """Curvatures and sums of h, in one row a fit."""
        columns = np.roll(np.arange(N_COLUMNS), 2)
        found = self.session.curvature(self.fits, [columns] * len(self.cpu))
        expected = [cpu.curvature(columns) for cpu in self.cpu]
        return [[np.append(own, total) for own, total in pairs] for pairs in (found, expected)]

    def h(self):
        return self.download(self.session.model.h), [model_of(cpu)[0] for cpu in self.cpu]

    def inverse(self):
        return self.download(self.session.model.inverse), [model_of(cpu)[1] for cpu in self.cpu]


def check(fits, check_equal):
    """Everything that an evaluation and the quadratic model leave behind."""
    check_equal(*fits.start())
    check_equal(*fits.u())
    check_equal(*fits.curvature())
    check_equal(*fits.h())
    check_equal(*fits.inverse())
    fits.move()
    check_equal(*fits.curvature())


def close(found, expected, rtol=1e-11):
    """Relative to the largest number of each fit; what is no number is none in both."""
    for one, other in zip(np.asarray(found), np.asarray(expected), strict=True):
        finite = np.isfinite(other)
        np.testing.assert_array_equal(np.isfinite(one), finite)
        size = np.abs(other[finite]).max(initial=0.0)
        np.testing.assert_allclose(one[finite], other[finite], rtol=0, atol=rtol * max(size, 1e-3))


def open_model(name, form, seed, monkeypatch, **options):
    """Two fits of one of `MODELS`, on its random data."""
    models.use_form(form, monkeypatch)
    model = models.MODELS[name]
    sample = model.sample(seed, p=N_COLUMNS)
    drawn = draw_fits(np.random.default_rng(seed), sample.y["group"], 2)
    return Fits(model.problem(sample), *drawn, seed=seed, **options)


def open_groups(name, rng, value, group, n_fits=2, X=None, weights=None, offsets=None, **options):
    """Fits of the given outcomes; what is not given is drawn."""
    if X is None:
        X = models.draw_columns(rng, len(group), N_COLUMNS)
    *drawn, coefs = draw_fits(rng, group, n_fits)
    weights = drawn[0] if weights is None else weights
    offsets = drawn[1] if offsets is None else offsets
    return Fits(make_problem(name, value, group, X), weights, offsets, coefs, **options)
