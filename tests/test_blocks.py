"""Evaluations by blocks of rows: the same bits for any number of threads, whatever crosses a block.

`tasks.BLOCK` is lowered, so that data of the tests are many blocks.
"""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from engine import Data, draw_outcome, make_problem, reference
from models import MODELS, draw_survival

from sksurvgpu.backends.cpu import tasks
from sksurvgpu.backends.cpu.session import Session
from sksurvgpu.backends.cpu.threads import Threads

COX = ("cox, breslow", "cox, efron")
SHAPES = {
    name + label: replace(MODELS[name], draw=draw_survival(**shape))
    for name in COX
    for label, shape in {
        ", no entries": {"start": False},
        ", one stratum": {"start": False, "n_strata": 0},
        ", one stratum, entries": {"n_strata": 0},
        ", strata of a few rows": {"start": False, "n_strata": 25},
    }.items()
}
ALL = MODELS | SHAPES


@pytest.fixture(params=[1, 7, 40])
def block(request, monkeypatch):
    monkeypatch.setattr(tasks, "BLOCK", request.param)
    return request.param


def evaluate(problem, weights, eta, n_threads):
    """Everything that a pattern says at a predictor, rows in the order of the plan."""
    with Threads(n_threads) as threads:
        session = Session(problem, weights, None, threads)
        pattern, plan = session.pattern, session.plan
        eta = plan.per_copy(eta[plan.order])
        other = eta + np.random.default_rng(8).normal(size=len(eta))
        found = {"other": pattern.evaluate(other, session.u), "loglik": None}
        found["loglik"] = pattern.evaluate(eta, session.u)
        h = np.empty(len(eta))
        pattern.refer(eta, session.u, h)
        found |= {"u": session.u.copy(), "h": h}
        found["sizes"] = pattern.sizes(eta, session.u)
        found["reach"] = pattern.reach(other, eta)
        found["baseline"] = pattern.baseline()
        found["order"] = plan.order
    return found


def same(found, expected):
    for name, value in expected.items():
        if value is not None:
            np.testing.assert_array_equal(found[name], value, err_msg=name)


def problem_of(model, sample):
    return model.problem(sample.with_(X=sp.csc_array((sample.n, 1))))


def check_bits(problem, weights, eta):
    found = evaluate(problem, weights, eta, 1)
    for n_threads in (2, 4):
        same(evaluate(problem, weights, eta, n_threads), found)
    return found


@pytest.mark.thorough(but=r"\[7-.*weights")
@pytest.mark.parametrize("weights", [False, True], ids=["plain", "weights"])
@pytest.mark.parametrize("name", ALL)
def test_threads_leave_the_bits(name, weights, block, check_close):
    model = ALL[name]
    for seed in range(3):
        sample = model.sample([11, seed], weights=weights, offset=False)
        eta = 1.5 * np.random.default_rng(seed).normal(size=sample.n)
        found = check_bits(problem_of(model, sample), sample.weights, eta)
        expected, context = model.reference(sample, eta), f"seed {seed}"
        check_close(found["loglik"], expected.loglik, "loglik", context=context)
        check_close(found["u"], expected.u[found["order"]], "u", context=context)


@pytest.mark.parametrize("name", ALL)
def test_blocks_are_one_evaluation(name, monkeypatch, check_close):
    sample = ALL[name].sample(12, offset=False)
    eta = np.random.default_rng(3).normal(size=sample.n)
    problem = problem_of(ALL[name], sample)
    whole = evaluate(problem, sample.weights, eta, 1)
    monkeypatch.setattr(tasks, "BLOCK", 5)
    parts = evaluate(problem, sample.weights, eta, 2)
    for key, kind in {"loglik": "loglik", "u": "u", "h": "u", "reach": "u"}.items():
        check_close(parts[key], whole[key], kind, context=key)


@pytest.mark.thorough(but=r"\[7-")
@pytest.mark.parametrize("ties", ["breslow", "efron"])
@pytest.mark.parametrize("n_times", [1, 2, 5])
@pytest.mark.parametrize("start", [False, True])
def test_exits_that_many_blocks_share(ties, n_times, start, block, check_close):
    rng = np.random.default_rng(n_times)
    data = draw_outcome(rng, 90, n_times=n_times, start=start, weights=True)
    data = data.with_(X=sp.csc_array((90, 1)))
    eta = rng.normal(size=90)
    found = check_bits(make_problem(data, ties), data.weights, eta)
    expected = reference(data, eta, ties)
    check_close(found["loglik"], expected.loglik, "loglik")
    check_close(found["u"], expected.u[found["order"]], "u")


def test_everybody_is_censored_at_the_end(block, check_close):
    """Nearly all rows have one exit."""
    n, rng = 200, np.random.default_rng(4)
    time = np.where(rng.random(n) < 0.9, 365.0, np.ceil(365.0 * rng.random(n)))
    data = Data(sp.csc_array((n, 1)), time, time < 365.0)
    eta = rng.normal(size=n)
    found, expected = check_bits(make_problem(data), None, eta), reference(data, eta)
    check_close(found["loglik"], expected.loglik, "loglik")
    check_close(found["u"], expected.u[found["order"]], "u")


@pytest.mark.parametrize("n_strata", [0, 4])
def test_copies_of_rows(n_strata, block, check_close):
    """With strata, copies in later pieces are in no order of their exits."""
    rng = np.random.default_rng(5)
    data = draw_outcome(rng, 80, n_times=12, start=True, n_strata=n_strata, weights=True)
    data, eta = data.with_(X=sp.csc_array((80, 1))), rng.normal(size=80)
    problem = make_problem(data, cuts=(3.0, 7.0))
    assert problem.plan.is_in_order == (n_strata == 0)
    found = check_bits(problem, data.weights, eta)
    check_close(found["loglik"], reference(data, eta).loglik, "loglik")


@pytest.mark.thorough(but=r"\[7-")
@pytest.mark.parametrize("ties", ["breslow", "efron"])
@pytest.mark.parametrize("start", [False, True])
def test_logarithms(ties, start, block, check_close):
    """Sums that underflow leave the blocks, and go on as logarithms."""
    rng = np.random.default_rng(6)
    data = draw_outcome(rng, 60, n_times=9, start=start).with_(X=sp.csc_array((60, 1)))
    eta = -100.0 * data.time  # who stays longest weighs nothing beside who left
    found = check_bits(make_problem(data, ties), None, eta)
    expected = reference(data, eta, ties)
    check_close(found["loglik"], expected.loglik, "loglik")
    check_close(found["u"], expected.u[found["order"]], "u")


@pytest.mark.thorough(but=r"\[7-")
@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("name", [*COX, "fine_gray", "logistic", "conditional_poisson"])
def test_predictors_that_are_no_numbers(name, value, block):
    """None has a log-likelihood, and every number of threads ends."""
    sample = MODELS[name].sample(13, weights=False, offset=False)
    eta = np.zeros(sample.n)
    eta[5] = value
    with np.errstate(all="ignore"):
        found = [
            evaluate(problem_of(MODELS[name], sample), None, eta, n_threads) for n_threads in (1, 2)
        ]
    assert not any(np.isfinite(one["loglik"]) for one in found)


def test_ranges_of_blocks_are_all_of_them_once():
    for n_threads in (1, 2, 3):
        with Threads(n_threads) as threads:
            for n_blocks in range(12):
                seen = np.zeros(n_blocks, int)
                threads.over_blocks(
                    lambda low, high, seen=seen: np.add.at(seen, slice(low, high), 1), n_blocks
                )
                assert np.all(seen == 1)


def test_an_error_in_a_block_is_raised():
    def fail(low, high):
        raise ZeroDivisionError

    with Threads(2) as threads, pytest.raises(ZeroDivisionError):
        threads.over_blocks(fail, 8)


@pytest.mark.parametrize("sizes", [[], [0], [3], [0, 0, 5, 1, 0], [2, 9, 1, 1, 1, 7]])
def test_groups_are_cut_between_groups(sizes, monkeypatch):
    monkeypatch.setattr(tasks, "BLOCK", 3)
    ptr = np.concatenate([[0], np.cumsum(np.array(sizes, int))])
    edges = tasks.cut_groups(ptr)
    assert edges[0] == 0
    assert edges[-1] == len(sizes)
    assert np.all(np.diff(edges) > 0) or len(sizes) == 0
