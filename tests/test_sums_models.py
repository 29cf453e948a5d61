"""Quadratic models whose rows are in partitions: those of the pooled rows, in few exchanges."""

from dataclasses import replace

import numpy as np
import pytest
from engine import make_batch
from models import MODELS
from test_sums_fits import cut, large, open_parts

from sksurvgpu.backends import cpu
from sksurvgpu.backends.contract import Operations, ask
from sksurvgpu.backends.sums.coordinator import PartitionsBackend
from sksurvgpu.backends.sums.messages import Ask, Slopes

P, N_PARTS = 6, 4
FIRST, REST = np.array([4, 0, 1]), np.array([5, 2])
CLOSE = {"rtol": 1e-9, "atol": 1e-9}


def run(problem, sample, fit, backend):
    """What a coroutine returns; rows in partitions have their weights and offsets there."""
    batch = make_batch(sample, 1.0)
    if backend is not cpu:
        batch = replace(batch, weight=None, offset=None)
    return backend.run(problem, batch, [fit], 1)[0]


def move(coef):
    """Coroutine: a step that is accepted."""
    every = np.arange(len(coef))
    yield from ask(Operations.attempt, coef, every, np.inf)
    yield from ask(Operations.accept)
    return (yield from ask(Operations.gradient, every))


def models_on_the_way(coef):
    """Coroutine: curvatures and matrices at two points, one of which stays behind."""
    found = [(yield from ask(Operations.start, coef))]
    found += [(yield from ask(Operations.gradient, np.arange(P)))]
    found += [*(yield from ask(Operations.curvature, FIRST))]
    found += [(yield from ask(Operations.matrix, FIRST, 0))]
    yield from move(0.5 * coef)
    found += [(yield from ask(Operations.matrix, np.concatenate([FIRST, REST]), len(FIRST)))]
    found += [*(yield from ask(Operations.curvature, REST))]
    found += [(yield from ask(Operations.matrix, REST, 0))]
    return found


@pytest.mark.parametrize("name", MODELS)
def test_models_are_those_of_all_rows(name):
    model = MODELS[name]
    sample = model.sample(3, p=P)
    coef = np.random.default_rng(1).normal(0, 0.3, P)
    problems = (
        (model.problem(sample), cpu),
        (open_parts(model, sample, N_PARTS), PartitionsBackend()),
    )
    expected, found = (
        run(problem, sample, models_on_the_way(coef), backend) for problem, backend in problems
    )
    for own, others in zip(found, expected, strict=True):
        np.testing.assert_allclose(own, others, **CLOSE)
    first, grown = found[4], found[5]
    np.testing.assert_array_equal(np.diagonal(first), found[2][:, 0])
    assert grown.shape == (len(REST), len(FIRST) + len(REST))


def at(coef, columns, n_rows):
    """Coroutine: a sample, and curvatures beside it."""
    yield from ask(Operations.start, coef)
    sample = yield from ask(Operations.sample, columns, n_rows)
    matrix = yield from ask(Operations.matrix, columns, 0)
    return sample, (yield from ask(Operations.curvature, columns))[0], matrix


@pytest.mark.parametrize("name", ["logistic", "logistic, origin"])
def test_a_sample_is_centred_by_its_own_rows(name):
    model = MODELS[name]
    sample = model.sample(3, p=P)
    coef = np.random.default_rng(1).normal(0, 0.3, P)
    problem = open_parts(model, sample, N_PARTS)
    found, *_ = run(problem, sample, at(coef, FIRST, 1), PartitionsBackend(sample=(1, 3)))
    rows = np.concatenate(
        [cut(model, sample, N_PARTS, np.random.default_rng(0))[k] for k in (1, 3)]
    )
    expected = dense(model, sample, coef, rows)[np.ix_(FIRST, FIRST)]
    np.testing.assert_allclose(found, expected, **CLOSE)


@pytest.mark.parametrize("name", MODELS)
def test_samples_are_positive(name):
    """Even of one partition, beside a column that is constant there; that of all is the matrix."""
    model = MODELS[name]
    sample = model.sample(3, p=P)
    rows = cut(model, sample, N_PARTS, np.random.default_rng(0))[2]
    sample.X[rows, 3] = 2.0
    coef = np.random.default_rng(1).normal(0, 0.3, P)
    problem, every = open_parts(model, sample, N_PARTS), np.arange(P)
    found, *_ = run(problem, sample, at(coef, every, 1), PartitionsBackend(sample=(2,)))
    assert np.linalg.eigvalsh(found)[0] > -1e-12 * np.trace(found)
    if model.problem(sample).ignores_shifts:
        assert not found[3].any() and not found[:, 3].any()
    whole, curvature, matrix = run(problem, sample, at(coef, every, 10**6), PartitionsBackend())
    np.testing.assert_allclose(np.diagonal(matrix), curvature[:, 0], rtol=1e-12)
    np.testing.assert_allclose(whole, matrix, rtol=1e-8, atol=1e-8)


def test_models_at_a_new_point_take_one_exchange():
    model, sample, _ = large()
    problem, backend = open_parts(model, sample, 10), PartitionsBackend()
    p = sample.X.shape[1]
    every, coef = np.arange(p), np.full(p, 0.02)
    took = {}

    def count(name, operation, *arguments):
        before = backend.counts.exchanges
        yield from ask(operation, *arguments)
        took[name] = backend.counts.exchanges - before

    def fit():
        yield from count("start", Operations.start, 0.0 * coef)
        yield from count("gradient", Operations.gradient, every)
        yield from count("rounding", Operations.rounding)
        yield from count("curvature", Operations.curvature, every)
        yield from count("sample", Operations.sample, every, 60)
        yield from move(coef)
        yield from count("new sample", Operations.sample, every[:5], 60)
        yield from count("its curvature", Operations.curvature, every)
        yield from count("back", Operations.start, 0.0 * coef)
        yield from count("gradient there", Operations.gradient, every)
        yield from move(2.0 * coef)
        yield from count("new matrix", Operations.matrix, every[:5], 0)
        yield from count("curvature of all", Operations.curvature, every)

    run(problem, sample, fit(), backend)
    free = {"rounding", "curvature", "its curvature", "back", "gradient there", "curvature of all"}
    assert took == {name: int(name not in free) for name in took}
    asked = [message for messages in problem.engine.messages for message in messages.values()]
    slopes = [
        [r.want for r in message.requests if isinstance(r, Slopes)]
        for message in asked
        if isinstance(message, Ask)
    ]
    assert [("gram",), ("curvature",)] in slopes  # of a partition in the sample
    assert [("curvature",)] in slopes  # and of others
    assert [("curvature", "gram")] in slopes


def dense(model, sample, coef, rows):
    """X' diag(h) X of some rows of a logistic model, less the part of their mean."""
    intercept = 0.0
    if model.likelihood.intercept:
        intercept = run(model.problem(sample), sample, baseline(coef), cpu)
    eta = sample.X @ coef + intercept
    eta = eta if sample.offset is None else eta + sample.offset
    h = np.exp(-np.abs(eta)) / (1.0 + np.exp(-np.abs(eta))) ** 2
    h = (h if sample.weights is None else h * sample.weights)[rows]
    X = sample.X[rows]
    matrix = (X.T * h) @ X
    if model.likelihood.intercept:
        matrix -= np.outer(h @ X, h @ X) / h.sum()
    return matrix


def baseline(coef):
    """Coroutine: the intercept."""
    yield from ask(Operations.start, coef)
    return (yield from ask(Operations.baseline))
