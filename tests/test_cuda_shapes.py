"""Sizes of blocks, teams and data in the CUDA backend: none may matter.

What an evaluation and the quadratic model give is compared with the CPU, under another
order of threads each time.
"""

from dataclasses import replace

import models
import numpy as np
import pytest
from grids import thin
from models import MODELS

pytest.importorskip("numba_cuda")
pytest.importorskip("greenlet")

from gpu.cupy import stand_in
from gpu.device import SimulatedDevice

from sksurvgpu.backends.cpu.session import Session as CpuSession
from sksurvgpu.backends.cpu.threads import Threads
from sksurvgpu.backends.cuda.layout import Layout
from sksurvgpu.backends.cuda.session import Session
from sksurvgpu.penalties import ElasticNet

P = 3
LOGLIK, DERIVATIVE = 1e-10, 1e-9


def draw_groups(n, value, draw):
    """Outcomes in groups of up to five rows, of which the first has an event."""

    def draw_some(rng):
        sizes = rng.integers(1, 6, n)
        sizes = np.diff(np.minimum(np.cumsum(np.r_[0, sizes]), n))
        group = models.draw_labels(rng, sizes[sizes > 0])
        values = draw(rng, n)
        values[np.argmax(group == 0)] = 1.0
        return {value: values, "group": group}

    return draw_some


def draw_half(n):
    """Both outcomes: else an intercept has no optimum."""

    def draw(rng):
        value = (rng.random(n) < 0.4).astype(float)
        value[:2] = 0.0, 1.0
        return {"value": value}

    return draw


# Name and form of a model; outcomes by the number of rows.
FAMILIES = [
    ("cox, breslow", "few", lambda n: models.draw_survival(n, 3)),
    ("cox, efron", "one a stratum", lambda n: models.draw_survival(n, 3)),
    ("fine_gray, curves", "few", lambda n: models.draw_competing(n, 0, 3)),
    ("conditional_poisson", "many", lambda n: draw_groups(n, "count", draw_counts)),
    ("conditional_logistic", "many", lambda n: draw_groups(n, "case", draw_cases)),
    ("logistic", "one", lambda n: draw_half(max(n, 2))),
    ("poisson, origin", "one", lambda n: models.draw_responses("poisson", n)),
]


def draw_counts(rng, n):
    return rng.poisson(0.7, n).astype(float)


def draw_cases(rng, n):
    return (rng.random(n) < 0.4).astype(float)


def settings():
    """(seed, family, threads, members, rows, fits): every family meets all of the first two."""
    for seed in range(21):
        family, turn = seed % 7, seed // 7
        members = (1, 2, 4)[(turn + family // 3) % 3]
        rows = (1, 31, 32, 33, 100)[(2 * turn + family) % 5]
        yield seed, family, (32, 64, 128)[seed % 3], members, rows, 1 + seed % 2


def open_sessions(problem, sample, members, threads, n_fits, seed):
    """A session of some fits on the device, one each on the CPU, and coefficients."""
    rng, n = np.random.default_rng(seed), sample.n
    device = SimulatedDevice(seed, n_multiprocessors=members * n_fits)
    layout = Layout(device, problem, threads, max(n // members, 1))
    weights, offsets = sample.weights[:, None] * np.ones(n_fits), rng.normal(size=(n, n_fits))
    rows, formulas = (weights, offsets, n_fits, np.dtype(float)), ElasticNet.formulas
    session = Session(layout, problem, *rows, formulas)
    on_cpu = [
        CpuSession(problem, weights[:, fit], offsets[:, fit], Threads(1), formulas)
        for fit in range(n_fits)
    ]
    return session, on_cpu, list(0.5 * rng.normal(size=(n_fits, P)))


def close(found, expected, tolerance):
    found, expected = np.asarray(found), np.asarray(expected)
    size = max(1.0, np.abs(expected).max())
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance * size)


def each(sessions, name, *arguments):
    """An operation of every session; arguments are those of all."""
    return [getattr(session, name)(*arguments) for session in sessions]


@pytest.mark.parametrize(
    ("seed", "family", "threads", "members", "n", "n_fits"), thin(4, settings())
)
def test_shape(seed, family, threads, members, n, n_fits, monkeypatch):
    name, form, draw = FAMILIES[family]
    models.use_form(form, monkeypatch)
    stand_in(monkeypatch, SimulatedDevice())  # of CuPy, which matrices need
    model = replace(MODELS[name], draw=draw(n))
    sample = model.sample(seed, p=P)
    sample = sample.with_(
        weights=np.ones(sample.n) if model.weighs_groups else sample.weights + 0.5
    )
    problem = model.problem(sample)
    session, on_cpu, coefs = open_sessions(problem, sample, members, threads, n_fits, seed)
    fits, every = np.arange(n_fits), np.arange(P)

    def compare(name, tolerance, *arguments):
        found = session.serve(name, fits, n_fits * [arguments])
        close(found, each(on_cpu, name, *arguments), tolerance)

    found = session.serve("start", fits, [(coef,) for coef in coefs])
    close(found, [one.start(coef) for one, coef in zip(on_cpu, coefs, strict=True)], LOGLIK)
    compare("gradient", DERIVATIVE, every)

    def compare_curvatures(columns):
        found = session.serve("curvature", fits, n_fits * [(columns,)])
        expected = each(on_cpu, "curvature", columns)
        close(*([own for own, _ in pairs] for pairs in (found, expected)), DERIVATIVE)
        close(*([total for _, total in pairs] for pairs in (found, expected)), DERIVATIVE)

    compare_curvatures(np.array([2, 0]))
    # the device measures steps over all rows, the CPU within groups: a bound of what it needs
    tried = session.serve("attempt", fits, n_fits * [(0.5 * coefs[0], np.arange(0), np.inf)])
    reach = [own for own, _ in tried]
    assert (np.array(reach) >= 0.999 * np.array(each(on_cpu, "step", 0.5 * coefs[0]))).all()
    compare("evaluate_trial", LOGLIK)
    session.serve("accept", fits, n_fits * [()])
    each(on_cpu, "accept")
    compare_curvatures(every)
    compare("gradient", DERIVATIVE, every)
    for room in session.serve("room", fits, n_fits * [()]):
        assert (room.bytes > 0.0) == problem.plan.few
    for found, cpu in zip(session.serve("count", fits, n_fits * [(every,)]), on_cpu, strict=True):
        pairs = found.entries**2 / (2.0 * max(found.rows, 1))  # as of independent columns
        assert found == cpu.count(every)._replace(pairs=pairs, products=0.0)
