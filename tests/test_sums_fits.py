"""Whole fits whose rows are in partitions: they reach the optimum of the pooled rows."""

from dataclasses import replace

import numpy as np
import pytest
from engine import make_batch
from models import MODELS, codes, fit, largest_gradient, objective, violation

from sksurvgpu.backends import cpu
from sksurvgpu.backends.sums.coordinator import Coordinator
from sksurvgpu.backends.sums.messages import Ask, Evaluate
from sksurvgpu.backends.sums.opening import describe, open_problem
from sksurvgpu.backends.sums.part import Part, PartRows
from sksurvgpu.backends.sums.recipes import Recipes, count_units, for_part, make_weight
from sksurvgpu.data.design.columns import build_design
from sksurvgpu.data.outcomes.counts import GroupedOutcome
from sksurvgpu.data.outcomes.survival import Outcome
from sksurvgpu.solver.solve import Options, solve

TIGHT = {"tol": 1e-9, "max_iter": 2000}


class Loop:
    """An engine that asks one part after the other, in any order, and may lose what parts keep."""

    def __init__(self, parts, order=None, forgets=False):
        self.parts, self.n_parts = parts, len(parts)
        self._order, self._forgets = order, forgets
        self.asked, self.messages = 0, []

    def ask(self, messages):
        self.asked += 1
        self.messages.append(messages)
        for k in (
            sorted(messages) if self._order is None else self._order.permutation(list(messages))
        ):
            if self._forgets and isinstance(messages[k], Ask) and self.asked % 3 == 0:
                self.parts[k].__init__(self.parts[k]._load, self.parts[k]._read)
            yield int(k), self.parts[k].answer(messages[k])

    def cancel(self):
        pass


def labelled(values, name):
    """Codes of some rows' labels, and the labels."""
    if values is None:
        return {}
    labels, code = np.unique(values, return_inverse=True)
    return {name: code, f"{name}_labels": labels}


def outcome_of(y):
    """What an estimator would make of the outcome of some rows."""
    if "time" not in y:
        value, *group = y.values()
        return GroupedOutcome(value, **labelled(*group, "group") if group else {})
    strata = labelled(y["strata"], "stratum")
    if "event" in y:
        return Outcome(y["event"].astype(bool), y["time"], y["start"], **strata)
    status = y["status"].astype(np.uint8)
    curves = labelled(y["curve"], "censoring_group")
    curves = {name.replace("group_labels", "labels"): values for name, values in curves.items()}
    return Outcome(status == 1, y["time"], status=status, **strata, **curves)


def cut(model, sample, n_parts, rng):
    """Rows of every part, some of which have none; whole groups where these are of no time."""
    unit = np.arange(sample.n)
    if "time" not in sample.y and model.groups:
        unit = codes(sample.y[model.groups])
    part = rng.integers(0, n_parts, unit.max() + 1)[unit]
    return [np.flatnonzero(part == k) for k in range(n_parts)]


def open_parts(model, sample, n_parts, seed=0, **engine):
    """Problem of a sample whose rows are in parts."""
    p, carrying = sample.X.shape[1], getattr(model.plan(sample.y), "carrying", None)
    maps = np.arange(p), np.tile([[0, 1]], (p, 1))

    def part(rows):
        some = sample.rows(rows)
        outcome = outcome_of(some.y)
        read = PartRows(
            build_design(some.X),
            outcome,
            some.weights,
            some.offset,
            model.likelihood,
            *maps,
            unit=outcome.unit,
        )
        return Part(dict, lambda text, arguments: read)

    rows = cut(model, sample, n_parts, np.random.default_rng(seed))
    engine = Loop([part(some) for some in rows], **engine)
    events_first = carrying is not None and carrying.events_first
    found = describe(engine, "model")
    return open_problem(
        engine,
        "model",
        model.likelihood,
        (),
        *maps,
        found,
        events_first=events_first,
    )


def fit_parts(model, sample, lam, n_parts, backend=None, **named):
    """Solution of a fit, its problem and its backend."""
    problem = open_parts(model, sample, n_parts, **named)
    backend = Coordinator() if backend is None else backend
    batch = replace(make_batch(sample, lam), weight=None, offset=None)
    return solve(problem, batch, backend, Options(**TIGHT))[0][0], problem, backend


def draw(name, p=8, **changes):
    model = replace(MODELS[name], **changes)
    sample = model.sample(3, p=p)
    return model, sample, 0.1 * largest_gradient(model, sample)


OF_TIME = [name for name in MODELS if name.startswith(("cox", "fine"))]


def check_optimum(model, sample, lam, solution):
    """The solution is that of the pooled rows, and its certificate is theirs."""
    expected = fit(model, sample, lam, **TIGHT)
    assert solution.converged
    pooled = objective(model, sample, solution.coef, lam)
    np.testing.assert_allclose(solution.objective, pooled, rtol=1e-11)
    np.testing.assert_allclose(solution.objective, expected.objective, rtol=1e-10)
    assert violation(model, sample, solution.coef, lam).max() < 1e-6 * lam
    assert solution.gap < 1e-6 * abs(pooled)
    return expected


@pytest.mark.parametrize("level", ["full", "sample", "diagonal"])
@pytest.mark.parametrize("name", [name for name in MODELS if name not in OF_TIME])
def test_fits_without_time_reach_the_optimum_of_all_rows(name, level):
    model, sample, lam = draw(name)
    solution, _, _ = fit_parts(model, sample, lam, 4, Coordinator(level))
    baseline = check_optimum(model, sample, lam, solution).baseline
    assert solution.baseline == (
        baseline if baseline is None else pytest.approx(baseline, rel=1e-8)
    )


def test_where_nothing_is_joined_gradients_come_with_evaluations():
    model, sample, lam = draw("conditional_poisson")
    _, problem, backend = fit_parts(model, sample, lam, 3)
    asks = [m[0] for m in problem.engine.messages if isinstance(m.get(0), Ask)]
    moves = [ask.requests for ask in asks if isinstance(ask.requests[0], Evaluate)][1:]
    assert all([request.want for request in after] == [("gradient",)] for _, *after in moves)
    # beside moves: arrange, weigh, start, gradient and what is measured there, at most two models
    assert backend.counts.exchanges <= len(moves) + 8


@pytest.mark.parametrize("n_parts", [1, 2, 7])
@pytest.mark.parametrize("name", OF_TIME)
def test_fits_reach_the_optimum_of_all_rows(name, n_parts):
    model, sample, lam = draw(name)
    solution, _, _ = fit_parts(model, sample, lam, n_parts)
    baseline = check_optimum(model, sample, lam, solution).baseline
    changes = np.append(True, baseline[1:] != baseline[:-1])  # events without weight have no cell
    np.testing.assert_allclose(solution.baseline, baseline[changes], rtol=1e-6, atol=1e-6)


def draw_recipes(kind, model, sample, problem, n_parts):
    """Recipes of three fits, and the weights that they are, of all rows."""
    parts = [part.rows_of("model") for part in problem.engine.parts]
    units = [count_units(rows) for rows in parts]
    recipes = Recipes.of(kind, range(3), 7, sample.n, units, of=3 if kind == "train" else 0)
    weight = np.zeros((sample.n, 3))
    where = cut(model, sample, n_parts, np.random.default_rng(0))
    for b in range(3):
        for k, rows in enumerate(parts):
            weight[where[k], b] = make_weight(for_part(recipes[:, b], k), rows, k)
    return recipes, weight


@pytest.mark.parametrize("kind", ["train", "multinomial", "exponential"])
@pytest.mark.parametrize("name", ["logistic", "conditional_logistic", "cox, efron", "fine_gray"])
def test_folds_and_replicates_are_fits_under_their_weights(name, kind):
    model, sample, lam = draw(name)
    problem, backend = open_parts(model, sample, 4), Coordinator()
    recipes, weight = draw_recipes(kind, model, sample, problem, 4)
    batch = make_batch(sample, lam)
    batch = replace(batch, lambdas=np.full((1, 3), lam), offset=np.tile(batch.offset, 3))
    expected = solve(model.problem(sample), replace(batch, weight=weight), cpu, Options(**TIGHT))
    batch = replace(batch, weight=recipes, offset=None)
    known = backend.weigh(problem, [recipes[:, b] for b in range(3)])
    np.testing.assert_allclose([some.total for some in known], weight.sum(axis=0), rtol=1e-14)
    for [found], [wanted] in zip(
        solve(problem, batch, backend, Options(**TIGHT)), expected, strict=True
    ):
        assert found.converged
        np.testing.assert_allclose(found.objective, wanted.objective, rtol=1e-11)
        np.testing.assert_allclose(found.coef, wanted.coef, atol=1e-6)
    coefs = np.stack([found.coef for [found] in expected])
    values = backend.open_evaluator(problem, batch).evaluate(coefs)
    batch = replace(batch, weight=weight, offset=np.tile(sample.offset[:, None], 3))
    of_all = cpu.open_evaluator(model.problem(sample), batch).evaluate(coefs)
    np.testing.assert_allclose(values[0], of_all[0], rtol=1e-11)
    np.testing.assert_allclose(values[1], of_all[1], atol=1e-10 * weight.sum())
