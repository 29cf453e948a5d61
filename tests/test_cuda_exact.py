"""Cycles of exact steps on a simulated CUDA device, against the CPU's; what a column costs."""

import engine
import models
import numpy as np
import pytest
from grids import thin

pytest.importorskip("numba_cuda")
pytest.importorskip("greenlet")

from gpu.device import SimulatedDevice
from gpu.launches import FaultyMachine

from sksurvgpu.backends.cpu.session import Session as CpuSession
from sksurvgpu.backends.cpu.threads import Threads
from sksurvgpu.backends.cuda import cuts, team
from sksurvgpu.backends.cuda.layout import Layout
from sksurvgpu.backends.cuda.session import Session
from sksurvgpu.penalties import ElasticNet
from sksurvgpu.penalties.elastic_net import Strengths

pytestmark = pytest.mark.slow  # kernels in the simulator

P, REACH = 5, 0.3
ORDER = np.roll(np.arange(P), 1)


def draw_problem(seed, ties="efron", n=70, ones=False, edit=None, **shape):
    """A Cox problem and the random numbers that follow."""
    rng = np.random.default_rng(seed)
    data = engine.draw_outcome(rng, n, **{"n_times": None, "n_strata": 0, "start": False, **shape})
    X = models.draw_columns(rng, n, P)
    data = data.with_(X=(rng.random((n, P)) < 0.4).astype(float) if ones else X)
    return engine.make_problem(data if edit is None else edit(data), ties), rng


class Cycles:
    """Sessions of two fits on a device, whose weights, offsets and coefficients differ."""

    def __init__(self, problem, rng, team=2, threads=32, weighted=True):
        self.problem, self.device = problem, {}
        self.settings = {"n_multiprocessors": 2 * team, "shared_bytes": 64 * 1024}
        self.team, self.threads, n = team, threads, problem.plan.n_base
        self.offsets = rng.normal(size=(n, 2))
        self.weights = np.ones((n, 2))
        if weighted:
            self.weights = rng.choice([0.0, 0.5, 1.0, 3.3], size=(n, 2))
        self.coefs = [0.5 * rng.normal(size=P), np.zeros(P)]

    def open(self, seed=0):
        """A session at its start."""
        device = SimulatedDevice(seed, **self.settings)
        per_range = max(self.problem.plan.n_rows // self.team, 1)
        layout = Layout(device, self.problem, self.threads, per_range)
        rows = self.weights, self.offsets, 2, np.dtype(float)
        session = Session(layout, self.problem, *rows, ElasticNet.formulas)
        session.start(np.arange(2, dtype=np.int32), self.coefs)
        return session

    def run(self, session, columns=ORDER, l1=None):
        """Coefficients and reaches after a cycle."""
        numbers = self.numbers(columns, l1)
        coefs = [coef[columns] for coef in self.coefs]
        asked = ([value] * 2 for value in numbers)
        found = session.cycle(np.arange(2, dtype=np.int32), [columns] * 2, coefs, *asked)
        return np.array(found)

    @staticmethod
    def numbers(columns, l1=None):
        size = len(columns)
        l1 = np.linspace(0.0, 1.0, size) if l1 is None else np.full(size, l1)
        return Strengths(l1, np.linspace(0.3, 0.0, size)), np.full(size, REACH)

    def expected(self, columns=ORDER):
        found = []
        for fit, coef in enumerate(self.coefs):
            rows = self.weights[:, fit], self.offsets[:, fit]
            cpu = CpuSession(self.problem, *rows, Threads(1), ElasticNet.formulas)
            cpu.start(coef)
            found.append(cpu.cycle(columns, coef[columns], *self.numbers(columns)))
        return np.array(found)


def check(cycles, seed=0):
    found = cycles.run(cycles.open(seed))
    np.testing.assert_allclose(found, cycles.expected(), rtol=0, atol=1e-11)


SHAPES = {"no ties": {}, "ties": {"n_times": 6}, "strata": {"n_times": 5, "n_strata": 4}}


@pytest.mark.parametrize(
    ("ties", "shape", "members"), thin(5, ["breslow", "efron"], SHAPES, [1, 2, 4])
)
@pytest.mark.parametrize("ones", [False, True])
def test_risk_sets(ties, shape, members, ones, monkeypatch):
    models.use_form("few" if ones else "one a stratum", monkeypatch)
    number = list(SHAPES).index(shape) + members
    problem, rng = draw_problem(number, ties, ones=ones, **SHAPES[shape])
    threads = (32, 64)[number % 2]
    check(Cycles(problem, rng, members, threads), seed=number)


@pytest.mark.parametrize("ties", ["breslow", "efron"])
def test_members_have_several_tiles(ties, monkeypatch):
    """Cells go on from one to the next."""
    monkeypatch.setattr(cuts, "rows_of_tile", lambda device, given: 9)
    problem, rng = draw_problem(2, ties, n_times=6)
    check(Cycles(problem, rng, team=2), seed=2)


@pytest.mark.parametrize(("ties", "dead"), thin(3, ["breslow", "efron"], [0.1, 0.9]))
def test_one_time_for_most_rows(ties, dead):
    """A cell, and its tied deaths, are larger than what a member has."""

    def end_together(data):
        late = np.arange(len(data.time)) % 10 > 1
        rng = np.random.default_rng(3)
        event = np.where(late, rng.random(len(late)) < dead, data.event)
        return data.with_(time=np.where(late, 99.0, data.time), event=event)

    problem, rng = draw_problem(1, ties, edit=end_together)
    check(Cycles(problem, rng, team=4))


@pytest.mark.parametrize("n", [2, 3, 31, 33])
def test_numbers_of_rows(n):
    problem, rng = draw_problem(n, n=n)
    check(Cycles(problem, rng, team=2, weighted=False))


class CountingMachine(FaultyMachine):
    """Counts calls of the team's barrier."""

    def __init__(self, threads):
        super().__init__()
        meet, self.calls, self._threads = self._rebinding.function(team.barrier.py_func), 0, threads

        def count(exchange):
            self.calls += 1
            meet(exchange)

        self._rebinding._replaced[id(team.barrier)] = count

    @property
    def barriers(self):
        """Of one team."""
        return self.calls / self._threads


def barriers_of(cycles, columns, l1):
    """Team barriers in a cycle of each fit."""
    session = cycles.open()
    machine = CountingMachine(2 * cycles.threads * cycles.team)
    session.device._machine = machine
    found = cycles.run(session, columns, l1)
    return machine.barriers, found


def test_barriers_of_a_column():
    """Two, and none of the step that it takes."""
    cycles = Cycles(*draw_problem(5), team=2)
    cycles.coefs = [np.zeros(P)] * 2
    every, first = np.arange(3), np.arange(1)
    once, _ = barriers_of(cycles, first, 1e6)  # no coefficient leaves zero
    resting, found = barriers_of(cycles, every, 1e6)
    assert not found[:, 0].any()
    assert resting - once == 2 * (len(every) - 1)
    moving, found = barriers_of(cycles, every, 0.0)
    assert np.count_nonzero(found[:, 0], axis=1).min() > 1
    assert moving == resting


def test_order_of_threads_changes_no_bit():
    """In all that a step leaves behind."""
    cycles, runs = Cycles(*draw_problem(5), team=2, threads=64), []
    for seed in range(2):
        session = cycles.open()
        session.device.seed = seed
        eta = session.settle(np.arange(2))
        runs.append((cycles.run(session, ORDER[:2]), session.device.download(eta)))
    for found, other in zip(*runs, strict=True):
        np.testing.assert_array_equal(found, other)


def test_step_that_is_no_number_is_none_to_the_edge():
    """From where fits go back, and on with shorter steps."""
    cycles, nothing = Cycles(*draw_problem(0)), np.full(P, np.nan)
    cycles.numbers = lambda columns, l1: (Strengths(np.zeros(P), nothing), np.full(P, REACH))
    for coef, reach in cycles.run(cycles.open()):
        assert np.isnan(coef[0]) and np.isfinite(reach).all()
