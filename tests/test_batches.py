"""Fits of a batch side by side: the same bits for any number of threads, and how many there are."""

import threading

import numpy as np
import pytest
import scipy.sparse as sp
from models import MODELS

from sksurvgpu import CoxLassoCCD, CoxLassoCV, bootstrap, fit_outcomes, profile_likelihood
from sksurvgpu.backends import contract, cpu
from sksurvgpu.backends.cpu import threads
from sksurvgpu.data.design.columns import build_design
from sksurvgpu.datasets import simulate_cox
from sksurvgpu.solver.fits import Fits, Options
from sksurvgpu.solver.problem import Batch

# As they are outside of tests, where a fixture lets small problems have threads.
MEASURED = {name: getattr(threads, name) for name in ("FEWEST_ENTRIES", "LOCKED")}
DATA = simulate_cox(300, 12, density=0.3, random_state=0)
OUTCOMES = {str(k): simulate_cox(300, 12, random_state=k).y for k in range(5)}
N_FITS = 5


@pytest.fixture
def as_measured(monkeypatch):
    for name, value in MEASURED.items():
        monkeypatch.setattr(threads, name, value)


def replicates(model, sample):
    """Weights of fits: units are drawn, some of them not."""
    unit = sample.y[model.groups] if model.weighs_groups else np.arange(sample.n)
    times = np.random.default_rng(1).choice([0.0, 1.0, 2.5], size=(unit.max() + 1, N_FITS))
    return sample.sample_weight[:, None] * times[unit]


def in_full(solutions):
    """All numbers of solutions, as bytes."""
    numbers = [
        (s.coef.tobytes(), np.asarray(s.baseline, float).tobytes(), s.objectives, s.loglik, s.gap)
        for s in solutions
    ]
    return repr(numbers)


@pytest.mark.thorough(but=r"efron|conditional_logistic|\[logistic, origin")
@pytest.mark.parametrize("name", MODELS)
def test_a_fit_has_the_same_bits_alone_and_in_a_batch(name):
    model = MODELS[name]
    sample = model.sample(0, p=7)
    problem, weight = model.problem(sample), replicates(model, sample)
    lambdas = np.outer([2.0, 0.5], np.linspace(1.0, 1.5, N_FITS))
    batch = Batch(lambdas, weight=weight, offset=sample.offset[:, None])
    alone = [
        in_full(Fits(problem, batch.of([b]), cpu, Options()).solve()[0]) for b in range(N_FITS)
    ]
    for n_threads in (1, 2, 4):
        found = Fits(problem, batch, cpu, Options(), n_threads).solve()
        assert [in_full(solutions) for solutions in found] == alone


def cox(n_jobs):
    return CoxLassoCCD(alpha=0.01, n_jobs=n_jobs)


def chosen(n_jobs):
    model = CoxLassoCV(cv=4, n_alphas=8, random_state=0, n_jobs=n_jobs).fit(DATA.X, DATA.y)
    return np.append(model.coef_, model.alpha_)


CALLS = {
    "bootstrap": lambda k: bootstrap(cox(k), DATA.X, DATA.y, n_replicates=9, random_state=0).coefs,
    "cross-validation": chosen,
    "outcomes": lambda k: fit_outcomes(cox(k), DATA.X, OUTCOMES, columns=[0, 1]).table["upper"],
    "profile": lambda k: profile_likelihood(cox(k), DATA.X, DATA.y, [0, 1]).intervals,
}


@pytest.mark.thorough(but="cross|profile|bootstrap")
@pytest.mark.parametrize("name", CALLS)
def test_calls_have_the_same_bits_for_any_number_of_threads(name):
    one, two, four = (np.asarray(CALLS[name](n_jobs), float) for n_jobs in (1, 2, 4))
    assert one.tobytes() == two.tobytes() == four.tobytes()


def design(n_rows, n_entries):
    """A design of so many ones, in a few columns."""
    is_one = np.arange(n_rows * (n_entries // n_rows + 1)) < n_entries
    return build_design(sp.csc_array(is_one.reshape(-1, n_rows).T.astype(float)))


@pytest.mark.parametrize(
    ("n_rows", "n_entries", "n_fits", "n_threads", "expected"),
    [
        (1_000, 2_500, 1_000, 2, (1, 1)),  # Python alone has a thread's time
        (9_000, 5_000, 1_000, 2, (1, 1)),
        (10_000, 25_000, 1_000, 2, (2, 1)),
        (10_000, 25_000, 1_000, 64, (2, 1)),  # ... or half of two threads' time
        (30_000, 75_000, 1_000, 64, (4, 1)),
        (30_000, 75_000, 3, 64, (3, 1)),  # no more than fits
        (1_000, 500_000, 1_000, 64, (7, 1)),
        (1_000, 500_000, 1, 64, (1, 64)),  # threads within a single fit
        (1_000, 499_999, 1, 64, (1, 1)),
        (100_000, 25_000, 1, 64, (1, 1)),
        (100_000, 25_000, 40, 1, (1, 1)),
    ],
)
def test_threads_by_work(as_measured, n_rows, n_entries, n_fits, n_threads, expected):
    made = design(n_rows, n_entries)
    assert made.n_entries == n_entries
    assert threads.share_out(made, n_fits, n_threads) == expected


@pytest.mark.parametrize(("n_rows", "expected"), [(400, 1), (20_000, 2)])
@pytest.mark.parametrize("call", ["bootstrap", "outcomes"])
def test_small_fits_take_turns(as_measured, monkeypatch, n_rows, expected, call):
    data, served, serve = simulate_cox(n_rows, 5, random_state=0), {}, contract.serve
    meeting = threading.Barrier(expected)

    def meet(session, fit):
        """Let no thread do all of the work before the other has begun."""
        if threading.get_ident() not in served:
            served[threading.get_ident()] = True
            if expected > 1 and threading.current_thread() is not threading.main_thread():
                meeting.wait(60.0)
        return serve(session, fit)

    monkeypatch.setattr(cpu, "serve_fit", meet)
    model = CoxLassoCCD(alpha=0.05, n_jobs=2)
    if call == "bootstrap":
        bootstrap(model, data.X, data.y, n_replicates=4, random_state=0)
    else:
        outcomes = {str(k): data.y for k in range(4)}
        fit_outcomes(model, data.X, outcomes, columns=[0], intervals=None)
    beside = [k for k in served if k != threading.main_thread().ident]
    assert len(beside) == (expected if expected > 1 else 0)


@pytest.mark.parametrize(("n_columns", "looks"), [(400, False), (500, True)])
def test_free_memory_is_looked_at_for_matrices_that_may_not_fit(n_columns, looks, monkeypatch):
    looked = []
    monkeypatch.setattr(cpu, "available", lambda: looked.append(1) or 2.0**40)
    data = simulate_cox(50, n_columns, random_state=0)
    CoxLassoCCD(alpha=0.1, n_jobs=1).fit(data.X, data.y)
    assert bool(looked) == looks
