"""Weights on a simulated device: what they decide of a plan is what `Pattern.weigh` says."""

from operator import attrgetter

import numpy as np
import pytest
from gpu.backend import ROWS_PER_RANGE, THREADS
from gpu.device import SimulatedDevice
from models import MODELS
from numpy.testing import assert_allclose, assert_array_equal
from test_cuda_risk_sets import draw_cox

from sksurvgpu import CoxLassoCCD, LogisticCCD
from sksurvgpu.backends.cuda.layout import Layout
from sksurvgpu.backends.cuda.weights import spread
from sksurvgpu.data.by_fit import ColumnsOnDemand, Marks, columns_of
from sksurvgpu.data.outcomes.survival import Outcome
from sksurvgpu.data.vectors import inverse_of
from sksurvgpu.inference._replicates import DRAWS, Replicates
from sksurvgpu.patterns.carried import CarriedPattern
from sksurvgpu.patterns.groups import GroupPattern
from sksurvgpu.patterns.risk_sets import RiskSetPattern
from sksurvgpu.patterns.rows import RowPattern
from sksurvgpu.patterns.subsets import SubsetPattern
from sksurvgpu.selection.folds import Splits

# By pattern: numbers of `Weighted`, and where the device has them.
NUMBERS = {
    RowPattern: {},
    GroupPattern: {"total": "_groups.total"},
    SubsetPattern: {"cases": "_sets.cases"},
    RiskSetPattern: {
        "deaths": "_state.sets.deaths",
        "death_weight": "_state.sets.death_weight",
        "bin_inverse": "_state.sets.bin_inverse",
    },
    CarriedPattern: {
        "deaths": "_state.sets.deaths",
        "death_weight": "_state.sets.death_weight",
        "bin_inverse": "_state.sets.bin_inverse",
        "inverse": "_state.sets.inverse",
        "survival": "_state.sets.survival",
    },
}


def open_pattern(problem, weights, n_fits, seed=0):
    device = SimulatedDevice(seed)
    layout = Layout(device, problem, threads=THREADS, rows_per_range=ROWS_PER_RANGE)
    return problem.likelihood.pattern.on_device(layout, problem, weights, n_fits)


def check(problem, on_device, weights):
    """Compare all numbers of a pattern with the plan under every vector of weights."""
    download, pattern = on_device.layout.device.download, problem.likelihood.pattern
    live, found = download(on_device.live), download(on_device.rows.weight)
    for b, weight in enumerate(weights.T):
        expected = pattern.weigh(problem.plan, weight)
        assert_array_equal(found[b], expected.weights())
        assert_array_equal(live[b] > 0, expected.live)
        for field, where in NUMBERS[pattern].items():
            numbers = download(attrgetter(where)(on_device))
            assert_allclose(numbers[b], getattr(expected, field), rtol=1e-13, err_msg=field)
        if pattern is GroupPattern:
            inverse = inverse_of(expected.total)
            assert_allclose(download(on_device.new_model(float).inverse)[b], inverse, rtol=1e-13)
        largest = pattern.largest_loglik(problem.likelihood, expected)
        assert on_device.largest_loglik(b) == pytest.approx(largest, rel=1e-12, abs=1e-12)
        errors = expected.weights().sum() if getattr(problem.likelihood, "is_quadratic", 0) else 0.0
        assert on_device.error_weight(b) == pytest.approx(errors, rel=1e-13)


def draw_weights(model, sample, rng, n_fits):
    """Weights of fits: random ones, folds, only zeros."""
    group = np.arange(sample.n)
    if model.weighs_groups:
        group = sample.y[model.groups]
    own = rng.choice([0.0, 0.5, 1.0, 3.3], size=(group.max() + 1, n_fits))
    own[:, -1] = 0.0
    return own[group]


@pytest.mark.mostly_slow(but="efron|gray, strat|conditional|logistic|gaussian")
@pytest.mark.parametrize("name", MODELS)
def test_what_weights_decide(name):
    model = MODELS[name]
    sample = model.sample(3, p=2)
    problem = model.problem(sample)
    weights = draw_weights(model, sample, np.random.default_rng(0), 3)
    check(problem, open_pattern(problem, weights, 3), weights)


@pytest.mark.parametrize(
    "name", ["cox, efron", "fine_gray, curves", "conditional_poisson", "gaussian"]
)
def test_no_weights_are_ones(name):
    model = MODELS[name]
    sample = model.sample(4, p=2)
    problem = model.problem(sample)
    pattern = open_pattern(problem, None, 2)
    assert pattern.n_weights == 1
    check(problem, pattern, np.ones((sample.n, 1)))


def folds(n, rng, n_folds):
    return np.array_split(rng.permutation(n), n_folds)


N = 300
SPLITS = {
    "folds": lambda rng: (folds(N, rng, 7) + folds(N, rng, 4), [None] * 11),
    "a row a fold": lambda rng: (folds(N, rng, N), [None] * N),
    "tests overlap": lambda rng: ([rng.choice(N, 90, replace=False) for _ in range(3)], [None] * 3),
    "both sides given": lambda rng: (
        [rng.choice(N, 90, replace=False) for _ in range(3)],
        [rng.choice(N, 80, replace=False), None, np.arange(N)],
    ),
}


@pytest.mark.parametrize("case", SPLITS)
@pytest.mark.parametrize("side", ["train", "test", "both"])
def test_marks_of_splits(case, side):
    """A byte a row says the same as vectors of weights."""
    rng = np.random.default_rng(0)
    base = rng.choice([0.0, 0.3, 1.0], N)
    tests, trains = SPLITS[case](rng)
    columns = getattr(Splits(base, tests, trains), side)
    some = [2, 0, 2]
    for values, fits in ((columns, range(len(tests))), (columns_of(columns, some), some)):
        marks = values.marks()
        layers = {layer: marks.make(layer) for layer in np.unique(marks.layer)}
        assert case != "folds" or len(layers) <= 2
        for k, b in enumerate(fits):
            found = marks.base * marks.times[k, layers[marks.layer[k]]]
            assert_array_equal(found, columns[:, b])
            assert_array_equal(values[:, k], columns[:, b])


@pytest.mark.parametrize("kind", DRAWS)
@pytest.mark.parametrize("grouped", [False, True])
def test_marks_of_replicates(kind, grouped):
    rng, n = np.random.default_rng(0), 40
    outcome = Outcome(rng.random(n) < 0.5, np.arange(1.0, n + 1))
    base, unit = (rng.random(n), np.arange(n) // 3) if grouped else (None, None)
    numbers = [4, 0, 3]
    columns = Replicates(CoxLassoCCD(), outcome, base, unit, kind, 1).columns(numbers)
    for k, number in enumerate(numbers):
        plain = Replicates(CoxLassoCCD(), outcome, base, unit, kind, 1).weight(number)
        assert_array_equal(columns[:, k], plain)
        if kind != "exponential":
            marks = columns.marks()
            assert_array_equal(marks.base * marks.times[k, marks.make(marks.layer[k])], plain)
    balanced = LogisticCCD(class_weight="balanced")
    assert Replicates(balanced, outcome, base, unit, kind, 1).columns(numbers).marks is None
    assert (columns.marks is None) == (kind == "exponential")


@pytest.mark.parametrize("cuts", [0, 2])
def test_marks_on_a_device(cuts):
    """Marks and vectors of weights give the same bits, copies in later pieces included."""
    problem, rng = draw_cox(5, 60, 9, cuts, "efron", n_strata=0 if cuts else 3, start=True)
    n, layout = 60, Layout(SimulatedDevice(1), problem, THREADS, ROWS_PER_RANGE)
    layers = rng.integers(0, 4, (2, n)).astype(np.uint8)
    layer, times = np.array([0, 1, 0]), rng.normal(size=(3, 4))
    marks = Marks(rng.random(n), layers.__getitem__, layer, times)
    expected = np.stack([marks.base * times[b, layers[layer[b]]] for b in range(3)], axis=1)
    plan = problem.plan
    for values in (ColumnsOnDemand((n, 3), None, lambda: marks), expected):
        found = layout.device.download(spread(layout, values))
        assert_array_equal(found, [plan.per_copy(column[plan.order]) for column in expected.T])
    weights = np.abs(expected) * (expected > 0.1)
    check(problem, RiskSetPattern.on_device(layout, problem, weights, 3), weights)
