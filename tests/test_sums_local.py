"""Partitions that evaluate rows alone: their sums are what the CPU backend finds of all rows."""

import numpy as np
import pytest
from links import Overdispersed, Probit
from models import MODELS, draw_columns, open_session

from sksurvgpu.backends.sums.messages import Arrange, Ask, Coef, Evaluate, Recipe, Slopes, Weigh
from sksurvgpu.backends.sums.part import Part, PartRows
from sksurvgpu.data.design.columns import build_design
from sksurvgpu.data.outcomes.counts import GroupedOutcome
from sksurvgpu.patterns.rows.intercept import InterceptSearch

NAMES = [name for name in MODELS if name.startswith(("cond", "log", "poi", "gau"))]
GIVEN = Recipe()


class Custom:
    """A model of the table under a likelihood of one's own."""

    def __init__(self, model, likelihood):
        self.model, self.likelihood = model, likelihood

    def __getattr__(self, name):
        return getattr(self.model, name)

    def problem(self, sample):
        return type(self.model).problem(self, sample)


OWN = {
    "probit": Custom(MODELS["logistic"], Probit()),
    "overdispersed": Custom(MODELS["poisson"], Overdispersed()),
}


def cut(model, sample, n_parts):
    """Parts of a sample, whole groups in one, the second without rows."""
    rng = np.random.default_rng(n_parts)
    _, *group = sample.y.values()
    label = np.unique(group[0], return_inverse=True)[1] if group else np.arange(sample.n)
    part = rng.permutation(label.max() + 1)[label] % n_parts
    part[part == 1] = 0
    return [open_part(model, sample, np.flatnonzero(part == k)) for k in range(n_parts)]


def open_part(model, sample, keep):
    value, *group = (values[keep] for values in sample.y.values())
    group = [np.unique(group[0], return_inverse=True)[1]] if group else []
    p = sample.X.shape[1]
    rows = PartRows(
        build_design(sample.X)[keep],
        GroupedOutcome(value, *group),
        None if sample.weights is None else sample.weights[keep],
        None if sample.offset is None else sample.offset[keep],
        model.likelihood,
        np.arange(p),
        np.tile([[0, 1]], (p, 1)),
    )
    part = Part(dict, lambda text, arguments: rows)
    part.answer(Arrange("", {"part": np.zeros(1)}, "plan"))
    return part


def ask(parts, request):
    return [part.answer(Ask("plan", (request,))).of[0] for part in parts]


def total(answers):
    tables = [answer.tables for answer in answers]
    return {name: sum(table[name] for table in tables) for name in tables[0]}


def find_intercept(parts, coef):
    search = InterceptSearch(0.0)
    while not search.found:
        found = total(ask(parts, Evaluate(GIVEN, Coef.of(coef), center=search.center)))
        search.read(found["loglik"][0], found["score"], found["curvature"])
    return search.intercept, search.loglik


def check_close(found, expected):
    expected = np.asarray(expected)
    tolerance = 1e-12 * np.abs(expected).max(initial=1e-3)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=tolerance)


def check_sums(model, sample, n_parts):
    p, parts = sample.X.shape[1], cut(model, sample, n_parts)
    coef, origin = 0.4 * np.random.default_rng(1).normal(size=(2, p))
    coef[2] = 0.0
    session, loglik, _ = open_session(model, sample, coef)
    intercept = 0.0
    has_intercept = getattr(model.likelihood, "intercept", False)
    if has_intercept:
        intercept, found = find_intercept(parts, coef)
        check_close(intercept, session.baseline())
    else:
        found = sum(answer.loglik for answer in ask(parts, Evaluate(GIVEN, Coef.of(coef))))
    check_close(found, loglik)

    columns = np.array([3, 0, 4])
    want = ("gradient", "size", "curvature", "gram")
    request = Slopes(GIVEN, Coef.of(coef), {}, 0.0, intercept, want=want, columns=columns)
    answers = ask(parts, request)
    sums = total(answers)
    check_close(sum(answer.loglik for answer in answers), loglik)
    every = np.arange(p)
    size = session.rounding() / (4.0 * np.finfo(float).eps)
    # residuals cancel: their unit is what they are the difference of
    slack = 1e-12 * size.max()
    np.testing.assert_allclose(sums["gradient"], session.gradient(every), rtol=0, atol=slack)
    check_close(sums["size"], size)
    curvature, of_h = session.curvature(every)
    gram = session.matrix(every, 0)[np.ix_(columns, columns)]
    check_close(sums["total"], [of_h])
    if has_intercept:
        loads, inverse = sums["loads"], 1.0 / sums["total"]
        check_close(sums["curvature"], curvature[:, 1])
        check_close(sums["curvature"] - (loads**2 * inverse)[:, 0], curvature[:, 0])
        check_close(sums["gram"] - loads[columns] @ (inverse * loads[columns].T), gram)
    else:
        check_close(sums["curvature"], curvature)
        check_close(sums["gram"], gram)

    moved = ask(parts, Evaluate(GIVEN, Coef.of(coef), Coef.of(origin)))
    session.start(origin)
    reach = max(answer.high for answer in moved) - min(answer.low for answer in moved)
    check_close(reach, session.step(coef))
    check_weights(sample, session.pattern, ask(parts, Weigh(GIVEN)))


def check_weights(sample, pattern, found):
    check_close(sum(answer.total for answer in found), sample.sample_weight.sum())
    assert sum(answer.rows for answer in found) == np.count_nonzero(sample.sample_weight)
    check_close(sum(answer.events for answer in found), pattern.weighted.events().sum())
    check_close(sum(answer.largest for answer in found), pattern.largest_loglik())
    check_close(sum(answer.error_weight for answer in found), pattern.error_weight())


@pytest.mark.thorough(but=r"-2")
@pytest.mark.parametrize("n_parts", [1, 2, 7])
@pytest.mark.parametrize("name", NAMES)
def test_sums_are_those_of_all_rows(name, n_parts):
    model = MODELS[name]
    check_sums(model, model.sample(7, p=5), n_parts)


@pytest.mark.thorough
@pytest.mark.parametrize("name", OWN)
def test_likelihoods_of_ones_own(name):
    check_sums(OWN[name], OWN[name].sample(8, p=5), 3)


@pytest.mark.parametrize("name", ["gaussian", "conditional_logistic"])
def test_dense_columns_without_weights_and_offsets(name):
    """So many that they are multiplied as a matrix, of no rows in one partition."""
    sample = MODELS[name].sample(9, weights=False, offset=False)
    X = draw_columns(np.random.default_rng(3), sample.n, 20, "dense")
    check_sums(MODELS[name], sample.with_(X=X), 3)


def test_answers_depend_on_messages_alone():
    """Also those of kernels that begin where the evaluation before has ended."""
    rng = np.random.default_rng(4)
    for name in NAMES:
        model = MODELS[name]
        sample = model.sample(7, p=5)
        near, far = (Coef.of(scale * rng.normal(size=5)) for scale in (0.3, 3.0))
        fresh, used = (open_part(model, sample, np.arange(sample.n)) for _ in range(2))
        requests = [Evaluate(GIVEN, near, far, center=0.2), Slopes(GIVEN, near, {}, intercept=0.3)]
        for part, before in ((fresh, []), (used, [Evaluate(GIVEN, far, center=9.0)])):
            for request in before:
                ask([part], request)
        for request in requests:
            [a], [b] = ask([fresh], request), ask([used], request)
            assert np.array_equal(a.loglik, b.loglik, equal_nan=True)
            for key, values in a.tables.items():
                np.testing.assert_array_equal(values, b.tables[key])
