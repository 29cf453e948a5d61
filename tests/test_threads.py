"""Threads whose work ends with their caller: what Ctrl-C leaves of fits that are under way."""

import threading

import pytest

from sksurvgpu import CoxLassoCCD, CoxLassoCV, bootstrap, fit_outcomes, profile_likelihood
from sksurvgpu._threads import Abandoned, Pool, go_on
from sksurvgpu.backends import contract, cpu
from sksurvgpu.backends.cpu.threads import Threads
from sksurvgpu.datasets import simulate_cox

MOST = 10**7  # steps after which work ends by itself, so that a test that fails ends, too
DATA = simulate_cox(400, 6, density=0.3, random_state=0)


class Work:
    """Steps until its caller has left; says how it ended."""

    def __init__(self):
        self.has_begun, self.end = threading.Event(), None

    def run(self):
        self.has_begun.set()
        try:
            for _ in range(MOST):
                go_on()
            self.end = "by itself"
        except Abandoned:
            self.end = "left"
            raise

    def fail_beside(self):
        self.has_begun.wait()
        raise KeyboardInterrupt


def test_work_ends_where_the_call_was_interrupted():
    work = Work()

    def call():
        with Pool(2) as pool:
            pool.submit(work.run)
            work.fail_beside()

    with pytest.raises(KeyboardInterrupt):
        call()
    assert work.end == "left"


def test_a_time_out_of_the_work_itself_is_raised():
    def work(number):
        if number == 2:
            raise TimeoutError("of a disk")
        return number

    with Pool(2) as pool:
        assert pool.map(work, [0, 1]) == [0, 1]
        with pytest.raises(TimeoutError, match="of a disk"):
            pool.map(work, [1, 2, 3])


def test_work_that_was_not_begun_is_not_begun():
    begun = []

    def call():
        with Pool(1) as pool:
            work = Work()
            pool.submit(work.run)
            pool.submit(begun.append, 1)
            work.fail_beside()

    with pytest.raises(KeyboardInterrupt):
        call()
    assert begun == []


def test_work_of_pools_within_pools_ends():
    work = Work()

    def inner():
        with Pool(1) as pool:
            pool.submit(work.run).result()

    def call():
        with Pool(1) as pool:
            pool.submit(inner)
            work.fail_beside()

    with pytest.raises(KeyboardInterrupt):
        call()
    assert work.end == "left"


def test_pools_of_other_callers_go_on():
    left = Pool(1)
    assert left.submit(go_on).result() is None
    left.__exit__(ZeroDivisionError, None, None)
    with Pool(1) as pool:
        assert pool.submit(go_on).result() is None
    go_on()


@pytest.mark.parametrize("in_rounds", [False, True])
def test_fits_end_where_one_fails(in_rounds):
    work = Work()

    def endless():
        for _ in range(MOST):
            yield contract.Request("step", ())
        work.end = "by itself"

    class Session:
        def step(self):
            work.has_begun.set()

    def serve_round(name, fits, arguments):
        return [getattr(Session(), name)() for _ in fits]

    def fit(k):
        if not k:
            work.fail_beside()
        elif in_rounds:
            contract.serve_in_rounds(serve_round, [endless()])
        else:
            contract.serve(Session(), endless())

    def call():
        with Threads(2) as threads:
            threads.map(fit, range(2))

    with pytest.raises(KeyboardInterrupt):
        call()
    assert work.end is None


MODEL = CoxLassoCCD(alpha=0.01, n_jobs=2)
OUTCOMES = {str(k): DATA.y for k in range(4)}
CALLS = {
    "cross-validation": lambda: CoxLassoCV(cv=4, n_alphas=20, n_jobs=2).fit(DATA.X, DATA.y),
    "bootstrap": lambda: bootstrap(MODEL, DATA.X, DATA.y, n_replicates=20, random_state=0),
    "profile": lambda: profile_likelihood(MODEL, DATA.X, DATA.y, [0, 1, 2]),
    "outcomes": lambda: fit_outcomes(MODEL, DATA.X, OUTCOMES, columns=[0], n_jobs=2),
}


@pytest.mark.parametrize("name", CALLS)
def test_no_thread_is_at_work_after_an_interrupted_call(name, monkeypatch):
    """The first request of a second thread is where Ctrl-C reaches the first one."""
    before, served, serve = threading.active_count(), set(), contract.serve

    def interrupted(session, fit):
        served.add(threading.get_ident())
        if len(served) > 1 or name == "outcomes":
            raise KeyboardInterrupt
        return serve(session, fit)

    monkeypatch.setattr(cpu, "serve_fit", interrupted)
    with pytest.raises(KeyboardInterrupt):
        CALLS[name]()
    assert threading.active_count() == before
