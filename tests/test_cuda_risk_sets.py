"""Risk sets on a simulated CUDA device against the CPU: evaluation, quadratic model, baseline."""

from dataclasses import dataclass, replace

import engine
import models
import numpy as np
import pytest
from grids import thin

pytest.importorskip("numba_cuda")
pytest.importorskip("greenlet")

from gpu.device import SimulatedDevice
from gpu.grouped import model_of
from gpu.launches import Recorder

from sksurvgpu.backends.cpu.session import Session as CpuSession
from sksurvgpu.backends.cpu.threads import Threads
from sksurvgpu.backends.cuda.layout import RESERVED_SHARED, Layout
from sksurvgpu.backends.cuda.session import Session
from sksurvgpu.solver.problem import Problem

pytestmark = pytest.mark.slow  # kernels in the simulator

N_COLUMNS = 6


@dataclass
class Fits:
    """Fits that share a problem, on the device and each on the CPU, at the same coefficients."""

    device: Session
    cpu: list
    logliks: tuple  # of the device and of the CPU
    problem: Problem
    coefs: list

    @property
    def fits(self):
        return np.arange(len(self.cpu), dtype=np.int32)

    def curvature(self):
        """Of columns in another order, with sums of h: on the device, on the CPU."""
        columns = np.roll(np.arange(self.problem.n_columns), -2)
        found = self.device.curvature(self.fits, [columns] * len(self.cpu))
        expected = [session.curvature(columns) for session in self.cpu]
        return [[np.append(own, total) for own, total in pairs] for pairs in (found, expected)]

    def rows(self, name):
        """A number a row of every fit: on the device, on the CPU."""
        download = self.device.device.download
        if name == "h":
            return download(self.device.model.h), [model_of(session)[0] for session in self.cpu]
        return download(self.device.rows.u), np.array([session.u for session in self.cpu])


def open_device(
    problem,
    weights,
    offsets,
    coefs,
    *,
    team=4,
    threads=32,
    row_type=float,
    shared=65_536,
    **settings,
):
    """Session of as many fits as there are coefficients, and their log-likelihoods."""
    kind = settings.pop("kind", SimulatedDevice)
    device = kind(n_multiprocessors=team, shared_bytes=shared, **settings)
    rows_per_range = max(problem.plan.n_rows // team, 1)
    layout = Layout(device, problem, threads=threads, rows_per_range=rows_per_range)
    session = Session(layout, problem, weights, offsets, len(coefs), np.dtype(row_type))
    return session, session.start(np.arange(len(coefs), dtype=np.int32), coefs)


def open_batch(problem, weights, offsets, coefs, **settings):
    """Sessions on the device and on the CPU; weights and offsets: a column a fit."""
    session, found = open_device(problem, weights, offsets, coefs, **settings)

    def own(values, fit):
        return None if values is None else values[:, fit if values.shape[1] > 1 else 0]

    fits = range(len(coefs))
    sessions = [CpuSession(problem, own(weights, f), own(offsets, f), Threads(1)) for f in fits]
    expected = [s.start(c) for s, c in zip(sessions, coefs, strict=True)]
    return Fits(session, sessions, (np.array(found), np.array(expected)), problem, coefs)


def assert_close(found, expected, rtol=1e-12, size=0.0):
    """Close relative to the largest number, or to what the numbers are differences of."""
    found, expected = np.asarray(found), np.asarray(expected)
    finite = np.isfinite(expected)
    np.testing.assert_array_equal(np.isfinite(found), finite)
    size = np.abs(expected[finite]).max(initial=size)
    np.testing.assert_allclose(found[finite], expected[finite], rtol=0, atol=rtol * size)


def assert_same(batch, rtol=1e-12):
    """Everything that an evaluation and its quadratic model leave behind.

    Where there is no log-likelihood (delayed entry and sums that underflow) nothing else counts.
    """
    found, expected = batch.logliks
    assert_close(found, expected, rtol=1e-12)
    is_known = np.isfinite(expected)

    def compare(pair, rtol, size=0.0):
        for a, b, known in zip(*pair, is_known, strict=True):
            if known:
                assert_close(a, b, rtol, size)

    compare(batch.rows("u"), rtol, size=1.0)  # of an event
    # in the model, and without bins: the one is a difference of numbers like the other
    compare(batch.curvature(), 1e-10)
    compare(batch.rows("h"), rtol)
    baselines = [batch.device.baseline([fit])[0] for fit in batch.fits]
    compare((baselines, [session.baseline() for session in batch.cpu]), rtol)


def draw_batch(rng, n, n_fits, weights):
    """Weights, offsets and coefficients of some fits."""
    offsets = rng.normal(size=(n, n_fits))
    coefs = list(0.5 * rng.normal(size=(n_fits, N_COLUMNS)))
    if not weights:
        return None, offsets, coefs
    return rng.choice([0.0, 0.5, 1.0, 3.3], size=(n, n_fits)), offsets, coefs


def open_model(name, form, seed, monkeypatch, *, n_fits=2, weights=True, **kwargs):
    models.use_form(form, monkeypatch)
    model = models.MODELS[name]
    sample = model.sample(seed, p=N_COLUMNS)
    drawn = draw_batch(np.random.default_rng(seed), sample.n, n_fits, weights)
    return open_batch(model.problem(sample), *drawn, seed=seed, **kwargs)


NAMES = [name for name, model in models.MODELS.items() if model.by_bins]
TEAMS = ((1, 32), (2, 64), (4, 32))  # members, threads of each


@pytest.mark.parametrize(("name", "form"), thin(4, NAMES, models.BINS))
def test_models(name, form, monkeypatch):
    number = NAMES.index(name)
    team, threads = TEAMS[(number + models.BINS.index(form)) % len(TEAMS)]
    size = {"team": team, "threads": threads}
    assert_same(open_model(name, form, number, monkeypatch, **size))


def draw_cox(seed, n, n_times, cuts, ties, **kwargs):
    """Problem with entries and strata as asked for; two columns that change at the cuts."""
    rng = np.random.default_rng(seed)
    data = engine.draw_outcome(rng, n, n_times=n_times, **kwargs)
    data = data.with_(X=models.draw_columns(rng, n, N_COLUMNS))
    if not cuts:
        return engine.make_problem(data, ties), rng
    cuts = np.quantile(data.time, np.arange(1, cuts + 1) / (cuts + 1))
    last = len(cuts) + 1
    source = np.array([0, 1, 2, 3, 4, 4], np.int64)
    pieces = np.array([[0, last], [0, 1], [1, last], [0, last], [0, 1], [1, last]], np.int64)
    return engine.make_problem(data, ties, cuts, source, pieces), rng


@pytest.mark.parametrize(
    ("ties", "cuts", "start"), thin(3, ["breslow", "efron"], [0, 2], [False, True])
)
def test_ties_entries_strata_and_pieces(ties, cuts, start, monkeypatch):
    shapes = {"n_times": 9 if start else None, "n_strata": 0 if cuts else 4, "start": start}
    for seed, form in enumerate(models.BINS[:2]):
        models.use_form(form, monkeypatch)
        problem, rng = draw_cox(seed, 70, cuts=cuts, ties=ties, **shapes)
        assert problem.plan.n_pieces == cuts + 1
        assert (problem.plan.enter_idx is not None) == start
        batch = open_batch(problem, *draw_batch(rng, 70, 2, seed == 0), team=4, seed=seed)
        assert_same(batch)


@pytest.mark.parametrize("start", [False, True])
@pytest.mark.parametrize("team", [1, 4])
def test_copies_of_rows_in_many_strata(team, start, monkeypatch):
    """Rows of a stratum are no neighbours; there are more columns than warps, and fewer."""
    models.use_form("one a stratum", monkeypatch)
    problem, rng = draw_cox(3, 90, None, 2, "efron", n_strata=9, start=start)
    assert not problem.plan.few and problem.plan.n_pieces == 3
    batch = open_batch(problem, *draw_batch(rng, 90, 2, True), team=team)
    centred, plain = np.array(batch.curvature()[1])[:, :-1].reshape(2, -1, 2).T
    assert (centred < 0.9 * plain).any()
    assert_same(batch)
    assert_same(batch)  # nothing is left in the sums of warps


@pytest.mark.parametrize("n", thin(3, [2, 31, 32, 33, 3, 65]))
def test_numbers_of_rows(n):
    problem, rng = draw_cox(n, n, None, 0, "efron", start=n % 2 == 0)
    assert_same(open_batch(problem, *draw_batch(rng, n, 3, n > 3), team=2))


@pytest.mark.parametrize(
    ("name", "draw", "n_warps"),
    [
        ("cox, efron", models.draw_survival(130, 2), 1),
        ("fine_gray, strata", models.draw_competing(130, 2), 3),
    ],
)
def test_loads_by_as_many_warps_as_have_shared_memory(name, draw, n_warps):
    """In more bins than a warp has lanes."""
    model, rng = replace(models.MODELS[name], draw=draw), np.random.default_rng(0)
    sample = model.sample(0, p=N_COLUMNS)
    time = sample.y["time"] + rng.random(130)
    problem = model.problem(sample.with_y(time=time))
    assert problem.plan.few and problem.plan.n_bins > 40
    shared = RESERVED_SHARED + n_warps * 3 * 8 * problem.plan.n_bins
    drawn = draw_batch(rng, 130, 2, True)
    assert_same(open_batch(problem, *drawn, team=2, threads=128, shared=shared))


def test_more_fits_than_teams_and_one_weight_for_all():
    problem, rng = draw_cox(0, 40, 12, 0, "efron", n_strata=3)
    weights, offsets, coefs = draw_batch(rng, 40, 5, True)
    batch = open_batch(problem, weights[:, :1], offsets, coefs, team=2)
    assert_same(batch)
    # some fits leave the others as they are
    before, _ = batch.rows("u")
    found = batch.device.start(np.array([3, 1], np.int32), [coefs[0], coefs[3]])
    after, _ = batch.rows("u")
    np.testing.assert_array_equal(after[[0, 2, 4]], before[[0, 2, 4]])
    assert_close(found, [batch.cpu[3].start(coefs[0]), batch.cpu[1].start(coefs[3])])
    assert_close(after[[3, 1]], [batch.cpu[3].u, batch.cpu[1].u])


@pytest.mark.parametrize(("ties", "seed"), thin(5, ["breslow", "efron"], range(4)))
def test_predictors_of_any_range(ties, seed):
    """Fits whose sums underflow continue in logarithms, the others of the batch do not."""
    problem, rng = draw_cox(seed, 40, 12, 0, ties, n_strata=2)
    weights, offsets, coefs = draw_batch(rng, 40, 3, True)
    scales = 1e4, 1.0, 1e5
    wide = [scale * coef for scale, coef in zip(scales, coefs, strict=True)]
    batch = open_batch(problem, weights, offsets, wide, team=4, seed=seed)
    assert [session.pattern._in_logs for session in batch.cpu] == [True, False, True]
    assert_same(batch, rtol=1e-10)  # logarithms as large as 1e5 are good to 1e-11
    if seed == 0:  # and return
        found = batch.device.start(batch.fits, coefs)
        expected = [session.start(coef) for session, coef in zip(batch.cpu, coefs, strict=True)]
        assert_close(found, expected)
        assert_close(*batch.rows("u"))


@pytest.mark.parametrize("form", models.BINS[:2])
@pytest.mark.parametrize("name", ["fine_gray, one curve", "fine_gray, strata"])
def test_carried_rows_of_any_range(name, form, monkeypatch):
    """Strata are far from each other, which changes nothing, or all rows are."""
    models.use_form(form, monkeypatch)
    model, rng = models.MODELS[name], np.random.default_rng(3)
    sample = model.sample(2, p=N_COLUMNS)
    weights, offsets, coefs = draw_batch(rng, sample.n, 3, True)
    near = open_batch(model.problem(sample), weights, offsets, coefs, team=4)
    coefs[0] = 1e5 * coefs[0]
    offsets[:, 2] -= 900.0 * np.unique(sample.y["strata"], return_inverse=True)[1]
    far = open_batch(model.problem(sample), weights, offsets, coefs, team=4)
    assert [session.pattern._in_logs for session in far.cpu] == [True, False, True]
    assert_same(far, rtol=1e-10)
    for expected, found in zip(near.curvature(), far.curvature(), strict=True):
        assert_close(found[2], expected[2], 1e-10)


def test_digits_that_cancel():
    """One row of tiny w dies before the others enter: D and A are differences of large numbers."""
    rng = np.random.default_rng(5)
    data = engine.draw_outcome(rng, 60, n_strata=2)
    time, start = data.time + 1.0, np.full(60, 0.9)
    first = [np.flatnonzero(data.strata == s)[0] for s in range(2)]
    time[first], start[first] = 0.5, 0.0
    offsets = rng.normal(size=(60, 2))
    offsets[first] -= 25.0
    event = data.event | np.isin(np.arange(60), first)
    X = models.draw_columns(rng, 60, N_COLUMNS)
    data = data.with_(time=time, start=start, event=event, X=X)
    for ties in ("breslow", "efron"):
        coefs = list(0.3 * rng.normal(size=(2, N_COLUMNS)))
        batch = open_batch(engine.make_problem(data, ties), None, offsets, coefs)
        assert_close(*batch.logliks)
        assert_close(*batch.rows("u"))
        batch.curvature()
        assert_close(*batch.rows("h"))


@pytest.mark.parametrize("start", [False, True])
def test_no_predictor_is_a_number(start):
    problem, rng = draw_cox(2, 40, 12, 0, "breslow", start=start)
    _, offsets, coefs = draw_batch(rng, 40, 2, False)
    offsets[:, 0] = np.nan
    batch = open_batch(problem, None, offsets, coefs, team=2)
    assert np.isnan(batch.logliks[0][0])
    assert_same(batch)


@pytest.mark.parametrize("name", ["cox, efron", "fine_gray"])
def test_short_rows(name, monkeypatch):
    """The model's rows may be short numbers, of which sums are as always."""
    batch = open_model(name, "few", 0, monkeypatch, row_type=np.float32)
    assert_close(*batch.curvature(), rtol=1e-6)
    assert_close(*batch.rows("h"), rtol=1e-7)


@pytest.mark.parametrize("start", [False, True])
def test_absent_rows_may_lie_anywhere(start):
    """Rows of no weight, and such that no risk set holds."""
    problem, rng = draw_cox(6, 60, None, 0, "efron", n_strata=6, start=start)
    weights, offsets, coefs = draw_batch(rng, 60, 2, True)
    order, live = problem.plan.order, np.empty((60, 2), bool)
    for fit in range(2):
        live[order, fit] = CpuSession(problem, weights[:, fit], None, Threads(1)).pattern.live
    assert (~live & (weights > 0)).sum() > 0
    offsets[~live] = rng.choice([800.0, np.inf], size=(~live).sum())
    assert_same(open_batch(problem, weights, offsets, coefs))


def draw_model(name, scale=1.0, start=True):
    """Problem of a model, and a batch for it of one fit."""
    model = models.MODELS[name]
    sample = model.sample(1, p=N_COLUMNS)
    if not start:
        sample = sample.with_y(start=None)
    weights, offsets, coefs = draw_batch(np.random.default_rng(1), sample.n, 1, True)
    return model.problem(sample), weights, offsets, [scale * coef for coef in coefs]


@pytest.mark.parametrize("name", ["cox, efron", "fine_gray, strata and curves"])
def test_bits_do_not_depend_on_the_order_of_threads(name):
    def evaluate(seed):
        problem = draw_model(name, scale=0.0)  # of evaluations, given a predictor
        session, loglik = open_device(*problem, team=2, threads=64, seed=seed)
        arrays = session.rows.u, session.pattern._state.cells.hazard
        return [np.array(loglik), *map(session.device.download, arrays)]

    first = evaluate(0)
    for seed in (1, 2):
        for one, other in zip(first, evaluate(seed), strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    ("name", "scale", "start", "kernel", "barriers"),
    [
        ("cox, efron", 1.0, True, "pattern.evaluate_risk_sets_efron", 5),
        ("cox, efron", 1.0, False, "pattern.evaluate_risk_sets_efron", 5),
        ("cox, efron", 1e4, False, "pattern.evaluate_risk_sets_in_logs", 4),
        ("fine_gray", 1.0, False, "pattern.evaluate_carried", 7),
    ],
)
def test_how_often_an_evaluation_waits(name, scale, start, kernel, barriers):
    problem = draw_model(name, scale, start)
    session, _ = open_device(*problem, team=2, kind=Recorder)
    launches = [one for one in session.device.launches if one.name.startswith(kernel)]
    assert [one.barriers for one in launches] == [barriers]


@pytest.mark.parametrize("name", ["cox, breslow", "fine_gray"])
def test_nobody_is_at_risk(name):
    """A fit whose weights are zero has nothing to say."""
    model = models.MODELS[name]
    sample = model.sample(0, p=N_COLUMNS)
    weights, offsets, coefs = draw_batch(np.random.default_rng(0), sample.n, 2, True)
    weights[:, 0] = 0.0
    batch = open_batch(model.problem(sample), weights, offsets, coefs)
    assert batch.logliks[0][0] == 0.0
    assert_same(batch)


def test_nobody_dies():
    rng = np.random.default_rng(3)
    data = engine.draw_outcome(rng, 20, n_strata=2)
    data = data.with_(event=np.zeros(20, bool), X=models.draw_columns(rng, 20, N_COLUMNS))
    batch = open_batch(engine.make_problem(data), *draw_batch(rng, 20, 2, True))
    assert batch.logliks[0].tolist() == [0.0, 0.0]
    assert_same(batch)
