"""Every kernel of the CUDA backend compiles for all architectures, without slow memory.

The launches are those of the host code, on a device that runs nothing: whatever the numbers are,
the kernels and their argument types are the same.
"""

import os
from types import SimpleNamespace

import numpy as np
import pytest
from engine import draw_outcome, make_problem
from gpu.backend import ROWS_PER_RANGE, THREADS
from models import MODELS, Sample, use_form

pytest.importorskip("numba_cuda")
pytest.importorskip("cuda.bindings.nvjitlink")

from gpu.compiler import (
    CAPABILITIES,
    RecordingDevice,
    compile_launched,
    compile_ptx,
    differences,
    read_table,
    slow_memory,
    target_of,
    write_table,
)
from gpu.cupy import simulate_sampling, stand_in
from gpu.sources import digests_of, read_digests, write_digests

from sksurvgpu.backends import choose_sampling
from sksurvgpu.backends.cuda import team
from sksurvgpu.backends.cuda._cuda import device, kernel
from sksurvgpu.backends.cuda.layout import Layout
from sksurvgpu.backends.cuda.session import Session
from sksurvgpu.penalties import ElasticNet
from sksurvgpu.penalties.elastic_net import Strengths

# Models whose kernels are not those of another one.
NAMES = [
    "cox, breslow",
    "cox, efron",
    "no entries, cox, breslow",
    "no entries, cox, efron",
    "fine_gray, curves",
    "fine_gray, strata",
    "conditional_poisson",
    "conditional_poisson, many",
    "conditional_logistic, many",
    "sets of all sizes",
    "logistic",
    "logistic, origin",
    "poisson",
    "gaussian",
    "copies of rows in many strata",
]


class IdleDevice(RecordingDevice):
    """Notes launches and runs none: arrays keep what they had, and what comes back is lost."""

    def __init__(self, is_finite=True, **settings):
        super().__init__(**settings)
        self._machine = SimpleNamespace(run=lambda *launch: 0)
        self._number = 1.0 if is_finite else np.nan

    def download(self, array):
        number = self._number if np.issubdtype(array.dtype, np.floating) else 1
        return np.full(array.shape, number, array.dtype)


def sets_of_all_sizes():
    """Matched sets that a thread, a warp and a block work on."""
    sizes = np.repeat([4, 40, 600], [70, 2, 1])
    group = np.repeat(np.arange(len(sizes)), sizes)
    case = (np.arange(len(group)) % 3 == 0).astype(float)
    return {"case": case, "group": group}


def copies_in_many_strata():
    """Coefficients that change over time."""
    data = draw_outcome(np.random.default_rng(0), 60, start=True, n_strata=9)
    data = data.with_(X=np.arange(240).reshape(60, 4) % 3 == 0)
    pieces = np.array([[0, 2], [0, 1], [1, 2], [0, 2]])
    with pytest.MonkeyPatch.context() as patch:
        use_form("one a stratum", patch)
        problem = make_problem(data, "breslow", np.array([5.0]), np.arange(4), pieces)
        assert not problem.plan.few
    return problem


def draw_problem(name):
    """A problem, and weights of its rows."""
    if name == "copies of rows in many strata":
        return copies_in_many_strata(), np.ones(60)
    model = MODELS.get(name.removeprefix("no entries, "), MODELS["conditional_logistic"])
    if name == "sets of all sizes":
        y = sets_of_all_sizes()
        n = len(y["case"])
        X = (np.arange(4 * n).reshape(n, 4) % 5 == 0).astype(float)
        sample = Sample(X, y, weights=np.ones(n))
    else:
        sample = model.sample(0, p=4)
    if name.startswith("no entries, "):
        sample = sample.with_y(start=None)
    return model.problem(sample), sample.weights


def extend_matrices(session, fits, columns):
    """Take rows of matrices, and more of them."""
    session.matrix(fits, [own[:2] for own in columns], [0, 0])
    session.matrix(fits, columns, [2, 2])


def ask_everything(session, p, has_exact_steps):
    """Every operation that a solver may ask for, of two fits."""
    fits, columns = np.arange(2, dtype=np.int32), [np.arange(p)] * 2
    zeros, ones = [np.zeros(p)] * 2, [np.ones(p)] * 2
    penalties = [Strengths(np.zeros(p), np.zeros(p))] * 2
    session.start(fits, zeros)
    session.gradient(fits, columns)
    session.rounding(fits)
    session.largest_loglik(fits)
    session.error_weight(fits)
    session.curvature(fits, columns)
    if session.pattern.few:
        extend_matrices(session, fits, columns)
    session.attempt(fits, ones, columns, [1.0, 1.0])
    session.shorten(fits, [0.5, 0.5])
    session.evaluate_trial(fits)
    session.accept(fits)
    if has_exact_steps:
        session.cycle(fits, columns, zeros, penalties, ones)


# Precision, shared memory of a block, and whether log-likelihoods are finite.
SETTINGS = [
    ("float64", 48 * 1024, True),
    ("float32", 48 * 1024, True),
    ("float64", 4 * 1024, True),
    ("float64", 48 * 1024, False),
]


def launches(name, precision, shared_bytes, is_finite):
    """Kernels by name and signature that a model's fits may launch."""
    device = IdleDevice(is_finite, shared_bytes=shared_bytes)
    problem, weights = draw_problem(name)
    layout = Layout(device, problem, threads=THREADS, rows_per_range=ROWS_PER_RANGE)
    weights = weights[:, None] * np.ones(2)
    with np.errstate(all="ignore"), pytest.MonkeyPatch.context() as patch:
        stand_in(patch, device)
        rows = weights, weights, 2, np.dtype(precision)
        session = Session(layout, problem, *rows, ElasticNet.formulas)
        ask_everything(session, 4, name.startswith("no entries, "))
    return device.launched


def launches_of_samplers():
    """Kernels by name and signature that samplers may launch."""
    device = IdleDevice()
    with pytest.MonkeyPatch.context() as patch:
        simulate_sampling(patch, device)
        sampling = choose_sampling("cuda")(0, np.arange(2))
        draws, ones = sampling.random, sampling.put(np.ones((2, 4)))
        count = sampling.put(np.ones(4, np.int64))
        for draw in (draws.normal, draws.uniform):
            draw(0, 4)
        for draw in (draws.gamma, draws.log_gamma):
            draw(0, ones)
        draws.inverse_gaussian(0, ones, ones)
        draws.polya_gamma(0, count, ones)
        sampling.linalg.weighted_gram(sampling.put(np.ones((4, 3))), ones)
        coef, y = np.ones((2, 2, 3)), sampling.put(np.ones((1, 2, 4)))
        rows = sampling.softmax_rows(sampling.put(np.ones((4, 3))), y, count)
        rows.place(sampling.put(coef))
        rows.offset(0)
        rows.probability(coef)
        rows.value_and_gradient(coef)
    return device.launched


@pytest.fixture(scope="module")
def launched():
    found = launches_of_samplers()
    each = [launches(name, *settings) for name in NAMES for settings in SETTINGS]
    for launched_by_one in each:
        for key, kernels in launched_by_one.items():
            known = found.setdefault(key, [])
            known += [k for k in kernels if not any(k is other for other in known)]
    return found


def test_teams_are_launched_together():
    """The grid barrier, which nobody waits for, is not optimized away."""

    @kernel
    def run():
        team.begin()

    for ptx in compile_ptx(run, (), CAPABILITIES).values():
        assert "cudaCGSynchronize" in ptx


PARTS = 4  # of the kernels, by name: each is compiled for its architectures at once


# "write" the table, in one process, as several would overwrite what others wrote; or compare "all".
WANTED = os.environ.get("KERNEL_FIGURES", "")
SOME = (8, 0), (9, 0, "a")  # otherwise every kernel for one of these


@pytest.fixture(scope="module")
def table():
    """As it is before any part writes it: what parts there are follows from it."""
    return read_table()


def test_a_kernel_has_changed_where_what_it_calls_has():
    def digest(step):
        @device
        def add(number):
            return number + step

        @kernel
        def run(out):
            out[0] = add(out[0])

        return digests_of({("run", ()): [run]})

    assert digest(1) == digest(1) != digest(2)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_figures_of_all_kernels(part, launched, table):
    targets = CAPABILITIES if WANTED else (SOME[part % len(SOME)],)
    digests, known = digests_of(launched), read_digests()
    names = sorted({name for name, _ in launched} | set(table))[part::PARTS]
    if not WANTED:
        names = [n for n in names if n not in known or known[n] != digests.get(n)]
    found = compile_launched({key: launched[key] for key in launched if key[0] in names}, targets)
    assert not slow_memory(found)
    if WANTED == "write":
        others = {name: own for name, own in read_table().items() if name not in names}
        write_table(others | found)
        write_digests(
            {n: d for n, d in known.items() if n in table and n not in names}
            | {n: digests[n] for n in names if n in digests}
        )
        return
    expected = {name: table[name] for name in names if name in table}
    some = list(map(target_of, targets))
    expected = {name: {t: own[t] for t in some if t in own} for name, own in expected.items()}
    assert not differences(found, expected)
