"""Deliberate faults in the CUDA backend's kernels: the simulator must show every one of them.

Launches of every kernel that synchronizes are recorded once and run again without one barrier or
fence, or with rows cut wrongly, under many orders of threads.  Blocks have two warps, else block
barriers would not matter; teams two members with several fits each, so that scratch is used again.
"""

from dataclasses import replace
from functools import partial
from typing import NamedTuple

import models
import numpy as np
import pytest
import scipy.sparse as sp
from engine import draw_outcome, make_problem
from models import MODELS

pytest.importorskip("numba_cuda")
pytest.importorskip("greenlet")

from gpu.launches import SITES, FaultyMachine, Recorder

from sksurvgpu.backends.cuda import cuts, predictor
from sksurvgpu.backends.cuda import layout as layouts
from sksurvgpu.backends.cuda.columns import Columns, entries, my_tiles
from sksurvgpu.backends.cuda.session import Session
from sksurvgpu.backends.cuda.team import part_of
from sksurvgpu.patterns.subsets import cuda as subsets
from sksurvgpu.penalties import ElasticNet
from sksurvgpu.penalties.elastic_net import Strengths

pytestmark = pytest.mark.slow

SEEDS = range(1, 25)
N_FITS, THREADS = 2, 64
# Rows do not fit into shared memory that is no more than what is reserved.
NO_SHARED = layouts.RESERVED_SHARED

# Sites that no thread comes to, and those that may go without anything going wrong: why they stay.
UNMET = {
    "team.begin, grid 1": "makes the launch a cooperative one, where it stands; nobody comes there",
}
KEPT = {
    "model._add_to_bins, syncwarp 1": "orders stores of a warp, whose lanes meet there once more",
    "model._spend, syncwarp 1": "the same",
    "products._is_last, fence 2": "keeps loads behind an atomic that comes right after a fence",
}


class Case(NamedTuple):
    """A model whose launches are recorded: those whose names begin as `kernels` do."""

    model: models.Model
    form: str
    kernels: tuple
    members: int = 2
    shared_bytes: int = 48 * 1024
    spread: float = 1.0  # of predictors
    width: int = 1  # of workers on matched sets
    tile: int = 1_000  # rows, at most
    sparse: bool = False  # X, so that a thread has other rows in every column


def draw_survival(n_strata, start=True):
    """More times than `models.draw_survival` has, and so more cells than a block has threads."""
    draw = models.draw_survival(90, n_strata, start)

    def draw_finer(rng):
        y = draw(rng)
        return {**y, "time": y["time"] + rng.integers(0, 8, len(y["time"])) / 8.0}

    return draw_finer


def model_of(name, draw):
    return replace(MODELS[name], draw=draw)


# Members have more rows of groups than threads: warps read what others have written.
SURVIVAL, COUNTS = draw_survival(2), models.draw_counts(45)
MATCHED = model_of("conditional_logistic", models.draw_sets(16))
SETS = ("pattern.evaluate_subsets", "subsets.")
CASES = {
    "risk sets": Case(
        model_of("cox, breslow", SURVIVAL),
        "few",
        ("pattern.evaluate_risk_sets", "model.load_few", "products."),
        tile=13,
    ),
    "one member": Case(
        model_of("cox, efron", SURVIVAL), "few", ("pattern.evaluate_risk_sets",), members=1
    ),
    "own cells": Case(
        model_of("cox, efron", draw_survival(2, start=False)),
        "few",
        ("risk_sets.cycle",),
        sparse=True,
        tile=23,
    ),
    "own cells, many strata": Case(
        model_of("cox, breslow", draw_survival(9, start=False)),
        "one a stratum",
        ("risk_sets.cycle",),
        sparse=True,
    ),
    "many strata": Case(
        model_of("cox, efron", draw_survival(9)),
        "one a stratum",
        ("pattern.evaluate_risk_sets", "model.load_groups"),
    ),
    "logarithms": Case(
        model_of("cox, efron", draw_survival(2, start=False)),
        "few",
        ("pattern.evaluate_risk_sets_in_logs",),
        spread=1e4,
    ),
    "carried": Case(
        model_of("fine_gray, strata and curves", models.draw_competing(90, 2, 2)),
        "one a stratum",
        ("pattern.evaluate_carried", "weights.find_curves"),
    ),
    "carried, logarithms": Case(
        model_of("fine_gray, strata and curves", models.draw_competing(90, 2, 2)),
        "one a stratum",
        ("pattern.evaluate_carried_in_logs",),
        spread=1e4,
    ),
    "counts": Case(
        model_of("conditional_poisson", COUNTS),
        "many",
        ("pattern.evaluate_groups",),
        shared_bytes=NO_SHARED,
    ),
    "sets by warps": Case(MATCHED, "many", SETS, width=32),
    "sets by blocks": Case(MATCHED, "few", SETS, width=THREADS),
    "rows": Case(
        model_of("logistic", models.draw_responses("logistic", 90)),
        "one",
        ("pattern.evaluate_",),
        shared_bytes=NO_SHARED,
    ),
}


class WholeTeams(layouts.Layout):
    """Teams have all members that they can have, however many fits wait."""

    def shape_of_teams(self, kernel, n_fits, arguments, shared_bytes=0, size=None, most=None):
        whole = kernel, n_fits, arguments, shared_bytes, self.n_ranges
        return super().shape_of_teams(*whole)


def draw_problem(case, p=3):
    """Sample and problem of a case: rows at the cuts have entries, the last row moves most."""
    sample, rng = case.model.sample(0, p=p), np.random.default_rng(1)
    X, weights = np.array(sample.X), np.maximum(sample.weights, 0.5)
    X[:, 0] = rng.random(sample.n) < 0.8
    last = case.model.problem(sample).plan.order[-1]
    X[last, 1] = 9.0
    sample = sample.with_(X=sp.csc_array(X) if case.sparse else X, weights=weights)
    return sample, case.model.problem(sample)


def record(case):
    """Launches of a case."""
    (sample, problem), rng = draw_problem(case), np.random.default_rng(2)
    device = Recorder(n_multiprocessors=case.members, shared_bytes=case.shared_bytes)
    layout = WholeTeams(device, problem, THREADS, sample.n // case.members)
    weights = sample.weights[:, None] * np.ones(N_FITS)
    offsets = case.spread * rng.normal(size=(sample.n, N_FITS))
    rows = weights, offsets, N_FITS, np.dtype(float)
    session = Session(layout, problem, *rows, ElasticNet.formulas)
    coefs = [0.5 * rng.normal(size=problem.n_columns) for _ in range(N_FITS)]
    ask(session, coefs, case.kernels)
    chosen = {one.name: one for one in device.launches if one.name.startswith(case.kernels)}
    return list(chosen.values())


def ask(session, coefs, kernels):
    """Have a session launch the kernels of its model that are asked for, and others."""
    fits, p = np.arange(N_FITS, dtype=np.int32), len(coefs[0])
    ones, columns = (N_FITS * [a] for a in (np.ones(p), np.arange(p)))
    session.start(fits, coefs)
    session.curvature(fits, columns)
    if "products." in kernels:
        session.attempt(fits, [0.5 * coef for coef in coefs], columns, N_FITS * [np.inf])
    if "risk_sets.cycle" in kernels:
        coefs = [0.5 * coef for coef in coefs]
        session.start(fits, coefs)  # else exchanges would hold what they are to hold
        penalties = N_FITS * [Strengths(np.full(p, 0.1), np.zeros(p))]
        session.cycle(fits, columns, coefs, penalties, ones)


def record_lists():
    """Launches that list the entries of rows, of which the first one is long."""
    device, X = Recorder(), np.eye(9, 200)
    X[0, 1:150] = 1.0
    problem = MODELS["logistic"].problem(models.Sample(X, {"value": np.arange(9) % 2.0}))
    layouts.Layout(device, problem, THREADS, rows_per_range=9)
    return device.launches


def record_copies():
    """The launch of curvatures in many strata, by one warp, where coefficients change over time."""
    rng, device, fits = np.random.default_rng(6), Recorder(n_multiprocessors=1), np.arange(N_FITS)
    data = draw_outcome(rng, 90, n_strata=9, start=False).with_(X=rng.normal(size=(90, 3)))
    pieces = np.array([[0, 2], [0, 1], [1, 2]])
    with pytest.MonkeyPatch.context() as patch:
        models.use_form("one a stratum", patch)
        problem = make_problem(data, "breslow", np.array([4.0]), np.array([0, 1, 1]), pieces)
        layout = layouts.Layout(device, problem, THREADS, rows_per_range=90)
        session = Session(layout, problem, None, None, N_FITS, np.dtype(float))
    session.start(fits, [0.3 * rng.normal(size=3) for _ in fits])
    session.curvature(fits, [np.arange(3)] * N_FITS)
    return [one for one in device.launches if one.name == "model.load_copies"]


@pytest.fixture(scope="module")
def launches():
    """All launches that synchronize, by case and kernel."""
    found = {}
    for name, case in CASES.items():
        with pytest.MonkeyPatch.context() as patch:
            models.use_form(case.form, patch)
            patch.setattr(layouts, "BLOCKS_PER_MULTIPROCESSOR", 1)
            patch.setattr(predictor, "TILES_AT_ONCE", 1)
            patch.setattr(cuts, "rows_of_tile", lambda *given, n=case.tile: n)
            patch.setattr(subsets, "MOST_ROWS", {case.width: 10**6})
            recorded = record(case)
        names = {launch.name for launch in recorded}
        assert all(any(one.startswith(kernel) for one in names) for kernel in case.kernels)
        found.update({f"{name}: {launch.name}": launch for launch in recorded if launch.met})
    others = [*record_lists(), *record_copies()]
    return found | {f"others: {launch.name}": launch for launch in others if launch.met}


def seed_that_notices(launches, make_machine, change=None, seeds=SEEDS):
    """The first order of threads in which a fault shows in one of some launches, or None."""
    machines = [make_machine() for _ in launches]
    for seed in seeds:
        for launch, machine in zip(launches, machines, strict=True):
            if not launch.is_right(seed, machine, change):
                return seed
    return None


def unnoticed(launches, make_machine, change=None):
    """Names of launches, out of those given, in which a fault never shows."""
    return [
        name
        for name, launch in launches.items()
        if seed_that_notices([launch], make_machine, change) is None
    ]


def test_every_site_of_the_backend_is_met(launches):
    met = set().union(*(launch.met for launch in launches.values()))
    assert met.isdisjoint(UNMET)
    assert met | UNMET.keys() == set(SITES.values())


@pytest.mark.parametrize("site", sorted(set(SITES.values()) - UNMET.keys() - KEPT.keys()))
def test_removed_site_is_noticed(site, launches):
    meeting = [launch for launch in launches.values() if site in launch.met]
    assert seed_that_notices(meeting, partial(FaultyMachine, {site})) is not None


@pytest.mark.parametrize("fence", [1, 2])
def test_missing_fence_is_noticed_in_every_kernel_of_teams(fence, launches):
    """Before the arrival at the team's barrier, and after it: only late stores show them."""
    site = f"team.barrier, fence {fence}"
    meeting = {name: launch for name, launch in launches.items() if site in launch.met}
    assert len(meeting) == 12
    assert unnoticed(meeting, partial(FaultyMachine, {site})) == []


def drop_last_position(size, exchange):
    low, high = part_of(size, exchange)
    return low, high - 1


def overlap_positions(size, exchange):
    low, high = part_of(size, exchange)
    return max(low - 4, 0), high


def overlap_tiles(X, exchange):
    first, end = my_tiles(X, exchange)
    return max(first - 1, 0), end


def read_beyond(X, j, tile):
    span = entries(X, j, tile)
    return span._replace(high=span.high + 1)


# Parts are of evaluations; ranges of exact cycles; entries beside these of loads, products and
# matrices.
WRONG = [
    (part_of, drop_last_position, 8),
    (part_of, overlap_positions, 8),
    (my_tiles, overlap_tiles, 2),
    (entries, read_beyond, 6),
]
# Of members that own their cells, only the largest predictor is found by parts: it is a scale.
OWN_CELLS = ("own cells: ", "own cells, many strata: ")


@pytest.mark.parametrize(("right", "wrong", "n_kernels"), WRONG)
def test_wrong_range_is_noticed_in_every_kernel(right, wrong, n_kernels, launches):
    concerned = {
        name: launch
        for name, launch in launches.items()
        if launch.members != 1 and launch.calls(right)
        if right is not part_of or not name.startswith(OWN_CELLS)
    }
    assert len(concerned) == n_kernels
    make_machine = partial(FaultyMachine, replaced={right: wrong})
    assert unnoticed(concerned, make_machine) == []


def move_cut(argument):
    """A row of the second member's is the first one's, but tiles are as they were."""
    if not isinstance(argument, Columns):
        return argument
    cut = argument.cut.copy()
    cut[1:-1] += 1
    return argument._replace(cut=cut)


def test_moved_cut_is_noticed_in_every_kernel_with_rows_of_members(launches):
    concerned = {
        name: launch
        for name, launch in launches.items()
        if launch.members > 1 and any(isinstance(a, Columns) for a in launch.arguments)
    }
    assert len(concerned) == 2
    assert unnoticed(concerned, FaultyMachine, move_cut) == []
