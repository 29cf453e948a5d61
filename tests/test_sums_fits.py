"""Whole fits whose rows are in partitions: they reach the optimum of the pooled rows."""

from dataclasses import replace

import numpy as np
import pytest
from engine import make_batch
from models import MODELS, codes, draw_survival, fit, largest_gradient, objective, violation

from sksurvgpu.backends import cpu
from sksurvgpu.backends.sums.coordinator import PartitionsBackend
from sksurvgpu.backends.sums.messages import Arrange, Ask, Evaluate
from sksurvgpu.backends.sums.opening import describe, open_problem
from sksurvgpu.backends.sums.part import Part, PartRows
from sksurvgpu.backends.sums.recipes import Recipes, count_units, for_part, make_weight
from sksurvgpu.data.design.columns import build_design
from sksurvgpu.data.outcomes.counts import GroupedOutcome
from sksurvgpu.data.outcomes.survival import Outcome
from sksurvgpu.patterns.risk_sets import plan as row_plans
from sksurvgpu.patterns.risk_sets.plan import plan_rows
from sksurvgpu.solver.fits import Fits, Options
from sksurvgpu.solver.problem import Problem

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
        parts = sorted(messages)
        for k in parts if self._order is None else self._order.permutation(parts):
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


def open_parts(model, sample, n_parts, seed=0, cuts=(), maps=None, **engine):
    """Problem of a sample whose rows are in parts."""
    p, carrying = sample.X.shape[1], getattr(model.plan(sample.y), "carrying", None)
    maps = (np.arange(p), np.tile([[0, 1]], (p, 1))) if maps is None else maps

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
            cuts,
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
        cuts,
        *maps,
        found,
        events_first=events_first,
    )


def fit_parts(model, sample, lam, n_parts, backend=None, **named):
    """Solution of a fit, its problem and its backend."""
    problem = open_parts(model, sample, n_parts, **named)
    backend = PartitionsBackend() if backend is None else backend
    batch = replace(make_batch(sample, lam), weight=None, offset=None)
    return Fits(problem, batch, backend, Options(**TIGHT)).solve()[0][0], problem, backend


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
    solution, _, _ = fit_parts(model, sample, lam, 4, PartitionsBackend(level))
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
    problem, backend = open_parts(model, sample, 4), PartitionsBackend()
    recipes, weight = draw_recipes(kind, model, sample, problem, 4)
    batch = make_batch(sample, lam)
    batch = replace(batch, lambdas=np.full((1, 3), lam), offset=np.tile(batch.offset, 3))
    expected = Fits(
        model.problem(sample), replace(batch, weight=weight), cpu, Options(**TIGHT)
    ).solve()
    batch = replace(batch, weight=recipes, offset=None)
    known = backend.weigh(problem, [recipes[:, b] for b in range(3)])
    np.testing.assert_allclose([some.total for some in known], weight.sum(axis=0), rtol=1e-14)
    for [found], [wanted] in zip(
        Fits(problem, batch, backend, Options(**TIGHT)).solve(), expected, strict=True
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


def large(seed=5, **changes):
    """A Cox model of 600 rows whose columns are related: a sample of them is no more than that."""
    model = replace(MODELS["cox, efron"], draw=draw_survival(600))
    sample = model.sample(seed, p=24)
    X = sample.X + sample.X[:, :1] - 0.5 * sample.X[:, 5:6]
    sample = sample.with_(X=X, **changes)
    return model, sample, 0.05 * largest_gradient(model, sample)


@pytest.mark.parametrize(("level", "most"), [("full", 32), ("sample", 60), ("diagonal", 95)])
def test_levels_of_the_matrix_lead_to_one_optimum(level, most):
    model, sample, lam = large()
    backend = PartitionsBackend(level=level, highest=level)
    solution, problem, _ = fit_parts(model, sample, lam, 10, backend)
    check_optimum(model, sample, lam, solution)
    counts = backend.counts
    assert counts.exchanges == problem.engine.asked - 1 <= most  # less the description
    requests = [r for m in problem.engine.messages for a in m.values() for r in requests_of(a)]
    assert any("gram" in getattr(r, "want", ()) for r in requests) == (level != "diagonal")
    if level == "sample":
        asked = [
            sum("gram" in getattr(r, "want", ()) for a in m.values() for r in requests_of(a))
            for m in problem.engine.messages
        ]
        assert 0 < max(asked) < 10
    assert 0 < counts.passes <= counts.exchanges
    assert counts.bytes_up > 0


def requests_of(message):
    return getattr(message, "requests", ())


def test_strata_too_many_for_loads_are_centred_where_they_lie(monkeypatch):
    monkeypatch.setattr(row_plans, "SMALL_ROWS", 0)
    model = replace(MODELS["cox, breslow"], draw=draw_survival(600, n_strata=80))
    sample = model.sample(5, p=8)
    lam = 0.05 * largest_gradient(model, sample)
    solution, problem, _ = fit_parts(model, sample, lam, 3)
    assert not problem.plan.few
    check_optimum(model, sample, lam, solution)


def borrow(seed):
    """What replicates cost that borrow the model of the whole fit, and those that do not."""
    model, sample, lam = large(seed)
    problem = open_parts(model, sample, 4)
    batch = replace(make_batch(sample, lam), weight=None, offset=None)
    [leader], loan = Fits(problem, batch, PartitionsBackend(), Options(**TIGHT)).solve_and_lend(3)
    units = [description.rows for description in problem.descriptions]
    recipes = Recipes.of("exponential", range(3), 1, sample.n, units)
    alone = replace(batch, lambdas=np.full((1, 3), lam), weight=recipes, null=(leader.null,))
    alone = replace(alone, coef=leader.coef[:, None])
    counts = []
    for fits in (replace(alone, loan=loan), alone):
        backend = PartitionsBackend()
        found = Fits(problem, fits, backend, Options(**TIGHT)).solve()
        assert all(solution.converged for [solution] in found)
        counts.append([backend.counts.exchanges, backend.counts.bytes_up])
    return counts


def test_replicates_borrow_the_model_of_the_whole_fit():
    with_loan, alone = np.sum([borrow(seed) for seed in (5, 6, 7, 8)], axis=0)
    assert with_loan[0] <= alone[0]
    assert with_loan[1] < 0.8 * alone[1]  # often nobody else's matrix


def test_neither_order_of_arrival_nor_losses_change_a_bit():
    model, sample, lam = large()
    solution, _, backend = fit_parts(model, sample, lam, 6)
    shuffled, _, _ = fit_parts(model, sample, lam, 6, order=np.random.default_rng(1))
    np.testing.assert_array_equal(shuffled.coef, solution.coef)
    lossy = PartitionsBackend()
    lost, again, _ = fit_parts(model, sample, lam, 6, lossy, forgets=True)
    np.testing.assert_array_equal(lost.coef, solution.coef)
    assert lost.objectives == solution.objectives
    arranged = sum(isinstance(next(iter(m.values())), Arrange) for m in again.engine.messages)
    assert arranged > 1
    # a loss takes two: the plan once more, and the request
    assert lossy.counts.exchanges == backend.counts.exchanges + 2 * (arranged - 1)


def test_a_batch_takes_the_exchanges_of_its_slowest_fit():
    model, sample, lam = large()
    problem = open_parts(model, sample, 5)
    batch = replace(make_batch(sample, lam), weight=None, offset=None)
    strengths = np.array([[8.0, 3.0, 1.0, 0.4]]) * lam
    alone = []
    for strength in strengths[0]:
        backend = PartitionsBackend()
        one = replace(batch, lambdas=np.array([[strength]]))
        alone.append((Fits(problem, one, backend, Options(**TIGHT)).solve()[0][0], backend.counts))
    backend = PartitionsBackend()
    fits = Fits(problem, replace(batch, lambdas=strengths), backend, Options(**TIGHT)).solve()
    for (solution,), (expected, _) in zip(fits, alone, strict=True):
        np.testing.assert_array_equal(solution.coef, expected.coef)
    # the first fit has arranged and weighed for all
    assert backend.counts.exchanges == max(counts.exchanges for _, counts in alone[1:])
    assert backend.counts.passes < sum(counts.passes for _, counts in alone)


def test_pieces_of_time_and_columns_far_from_zero():
    model, sample, _ = large(weights=None)
    sample.X[:, 2] = 1e6 + sample.X[:, 2]
    cuts, p = (3.0, 6.0), sample.X.shape[1]
    source = np.append(np.arange(p), [2, 3])
    piece_ptr = np.tile([[0, 3]], (p + 2, 1))
    piece_ptr[[2, p]] = [[0, 1], [1, 3]]
    piece_ptr[[3, p + 1]] = [[0, 2], [2, 3]]
    y, batch = sample.y, make_batch(sample, 1.0)
    problem = open_parts(model, sample, 5, cuts=cuts, maps=(source, piece_ptr))
    plan = plan_rows(outcome_of(y), cuts)
    pooled = Problem.build(build_design(sample.X), plan, model.likelihood, source, piece_ptr)
    np.testing.assert_allclose(problem.center, pooled.center, rtol=1e-14)
    [[expected]] = Fits(pooled, batch, cpu, Options(**TIGHT)).solve()
    far = replace(batch, offset=None)
    [[solution]] = Fits(problem, far, PartitionsBackend(), Options(**TIGHT)).solve()
    np.testing.assert_allclose(solution.objective, expected.objective, rtol=1e-11)
    np.testing.assert_allclose(solution.coef, expected.coef, rtol=1e-5, atol=1e-7)
    baseline = problem.baseline_of(solution.baseline, solution.coef)
    given = pooled.baseline_of(expected.baseline, expected.coef)
    np.testing.assert_allclose(baseline, given, rtol=1e-5)


def test_predictors_of_any_range_are_summed_in_logarithms():
    model, sample, _ = draw("cox, efron")
    sample = sample.with_y(start=None).with_(
        offset=900.0 * sample.X[:, 1] - 40.0 * sample.y["time"]
    )
    batch, coef = make_batch(sample, 1.0), np.linspace(-2.0, 2.0, 8)[None]
    expected = cpu.open_evaluator(model.problem(sample), batch).evaluate(coef)
    problem = open_parts(model, sample, 4)
    far = replace(batch, weight=None, offset=None)
    for numbers, others in zip(
        PartitionsBackend().open_evaluator(problem, far).evaluate(coef), expected, strict=True
    ):
        np.testing.assert_allclose(numbers, others, rtol=1e-11)
    requests = [r for m in problem.engine.messages for r in requests_of(m[0])]
    assert any(getattr(r, "in_logs", False) for r in requests)


def test_entries_in_one_part_cancel_exits_in_another():
    model, sample, _ = draw("cox, breslow")
    late = sample.y["start"] >= 2.0
    sample = sample.with_(offset=30.0 * late + sample.offset, weights=None)
    # exits and entries of the rows that weigh most lie after the first risk sets
    problem, far = open_parts(model, sample, 3), replace(make_batch(sample, 1.0), offset=None)
    coef = np.zeros((1, sample.X.shape[1]))
    [loglik], [gradient] = PartitionsBackend().open_evaluator(problem, far).evaluate(coef)
    reference = model.reference_at(sample, coef[0])
    np.testing.assert_allclose(loglik, reference.loglik, rtol=1e-12)
    np.testing.assert_allclose(gradient, sample.X.T @ reference.u, rtol=1e-10)


def test_evaluators_find_log_likelihoods_and_gradients():
    model, sample, lam = draw("fine_gray")
    batch = replace(make_batch(sample, lam), lambdas=np.full((1, 3), lam), weight=None, offset=None)
    coefs = np.random.default_rng(0).normal(size=(3, sample.X.shape[1]))
    evaluator = PartitionsBackend().open_evaluator(open_parts(model, sample, 3), batch)
    logliks, gradients = evaluator.evaluate(coefs)
    for b, coef in enumerate(coefs):
        reference = model.reference_at(sample, coef)
        np.testing.assert_allclose(logliks[b], reference.loglik, rtol=1e-12)
        np.testing.assert_allclose(gradients[b], sample.X.T @ reference.u, atol=1e-10)


def test_what_partitions_cannot_serve_is_refused():
    model, sample, lam = draw("cox, breslow")
    problem = open_parts(model, sample, 2)
    batch = replace(make_batch(sample, lam), weight=None, offset=None)
    with pytest.raises(ValueError, match=r"exact.*majorized"):
        Fits(problem, batch, PartitionsBackend(), Options(algorithm="exact")).solve()
    with pytest.raises(ValueError, match="`offset` in partitions"):
        Fits(problem, make_batch(sample, lam), PartitionsBackend(), Options()).solve()
    with pytest.raises(ValueError, match="`level` is 'half'"):
        PartitionsBackend(level="half")
    for change in (problem.uncentred, problem.without_intercept, problem.with_own_intercept):
        with pytest.raises(ValueError, match="rows of X are in partitions"):
            change()


def test_partitions_that_do_not_fit_together_are_named():
    model, sample, _ = draw("conditional_poisson")

    def open_with(*changes):
        problem = open_parts(model, sample, 2)
        found = [replace(d, **c) for d, c in zip(problem.descriptions, changes, strict=True)]

        class Engine:
            n_parts = 2

            def ask(self, messages):
                return enumerate(found)

        answers = describe(Engine(), "model")
        return open_problem(
            Engine(), "model", model.likelihood, (), problem.source, problem.piece_ptr, answers
        )

    names = tuple("abcdefgh")
    other = {"names": ("a", "z", *names[2:])}
    with pytest.raises(ValueError, match=r"column 1 of partition 1 of `X` is 'z'.* is 'b'"):
        open_with({"names": names}, other)
    with pytest.raises(ValueError, match="partition 1 of `X` has 3 columns and partition 0 has 8"):
        open_with({}, {"columns": np.zeros((3, 5))})
    with pytest.raises(ValueError, match=r"group 7 has rows in partitions 0 and 1.*`group="):
        open_with({"tables": {"labels": np.array([5, 7])}}, {"tables": {"labels": np.array([7])}})
    with pytest.raises(ValueError, match="`X` has no row in any of 2 partitions"):
        open_with({"rows": 0}, {"rows": 0})
