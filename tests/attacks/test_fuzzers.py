"""`scaling` and `differential`, in slow tests: a few attempts, and a tenth of ``ATTACKS``.

A failure prints the seed that repeats it.
"""

import itertools

import numpy as np
import pytest
from oracles.reference_likelihoods import kkt

from attacks import differential, n_attempts, problems, scaling
from attacks.campaign import Result, run_campaign
from attacks.optimum import IllPosedError, find_optimum

FUZZERS = pytest.mark.parametrize(
    "fuzzer", [scaling, differential], ids=["scaling", "differential"]
)
MOST_UNCONVERGED, MOST_SKIPPED = 0.02, 0.3


def check(tally):
    assert not tally.failures, "\n".join(tally.failures)
    assert tally.n_unconverged <= MOST_UNCONVERGED * tally.n_compared + 1, tally.report()
    assert tally.n_compared >= (1.0 - MOST_SKIPPED) * tally.attempts, tally.report()


def few(fuzzer):
    """Seeds of problems whose kernels other tests have: exact steps with weights."""

    def is_shared(seed):
        drawn = fuzzer.draw(seed)
        problem = next(one for one in drawn if isinstance(one, problems.Problem))
        return problem.algorithm != "exact" or problem.sample.weights is not None

    return list(itertools.islice(filter(is_shared, itertools.count()), 12))


@FUZZERS
@pytest.mark.slow
def test_few_attempts(fuzzer):
    check(run_campaign(fuzzer.attempt, few(fuzzer)))


@FUZZERS
@pytest.mark.weekly
def test_many_attempts(fuzzer):
    check(run_campaign(fuzzer.attempt, range(1000, 1000 + n_attempts(0.1))))


@FUZZERS
@pytest.mark.slow
def test_wrong_numbers_are_found(fuzzer, monkeypatch):
    params = problems.Problem.params.fget
    loose = property(lambda problem: {**params(problem), "tol": 0.1})
    monkeypatch.setattr(problems.Problem, "params", loose)
    tally = run_campaign(fuzzer.attempt, few(fuzzer))
    assert len(tally.failures) > 3
    assert all("off by" in failure for failure in tally.failures)


@pytest.mark.parametrize("name", problems.FACES)
def test_references_are_optima(name):
    for seed in range(20):
        problem = problems.draw_problem(np.random.default_rng(seed), [name])
        try:
            optimum = find_optimum(problem)
        except IllPosedError:
            continue
        u = problem.at(optimum.coef).u
        violation = kkt(problem.sample.X, u, optimum.coef, *problem.terms)
        assert (violation / optimum.unit).max() <= 1e-8
        return
    pytest.fail("no problem is well-posed")


def test_a_campaign_counts_and_goes_on():
    def attempt(seed):
        if seed == 7:
            raise ArithmeticError("seven")
        result = Result(["a model"], "a problem", skipped="it is odd" if seed % 2 else "")
        result.require(seed != 8, "it is eight")
        result.unconverged = ["a fit"] if seed == 10 else []
        return result

    tally = run_campaign(attempt, range(5, 11))
    assert (tally.attempts, tally.n_compared, tally.n_unconverged) == (6, 4, 1)
    assert [failure.split()[1] for failure in tally.failures] == ["7:", "8:"]
    assert "ArithmeticError" in tally.failures[0] and "it is eight" in tally.failures[1]
    assert "6 attempts: 4 compared" in tally.report() and "2 because it is odd" in tally.report()
