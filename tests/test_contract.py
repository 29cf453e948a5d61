"""Backends keep to `sksurvgpu.backends.contract`: against one that is written from its text."""

import ast
import inspect
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from engine import make_problem, use_bins
from grids import thin
from models import FORMS, MODELS, make_batch, use_form
from numpy_backend import NumpyBackend
from numpy_backend import Session as NumpySession

from sksurvgpu import LogisticCCD
from sksurvgpu.backends import BACKENDS, Entry, choose_sampling, cpu
from sksurvgpu.backends.contract import Operations, Room, serve
from sksurvgpu.backends.cpu.session import Session as CpuSession
from sksurvgpu.backends.cpu.threads import Threads
from sksurvgpu.penalties import BoundedElasticNet, ElasticNet
from sksurvgpu.penalties.groups import GroupFamily
from sksurvgpu.solver.fits import Fits, Options
from sksurvgpu.solver.problem import Batch

P = 6
PIECES = "cox, pieces"
BY_CYCLES = ["cox, efron", "fine_gray, strata", "logistic"]
BY_CYCLES += ["conditional_logistic", "conditional_poisson", "gaussian"]
NAMED = {name: operation for name, operation in vars(Operations).items() if name[0] != "_"}
PENALTY = ElasticNet(0.7)
ALIKE = 3.0  # bound of M by a matrix of the same trace that simplifies it


def draw(name, seed=3):
    """Sample and problem of a model; Cox's with entries, strata, ties and three pieces of time."""
    if name != PIECES:
        sample = MODELS[name].sample(seed, p=P)
        return sample, MODELS[name].problem(sample)
    sample = MODELS["cox, efron"].sample(seed, p=P)
    source = np.array([0, 1, 1, 1, 2, 3, 3, 4, 5])
    pieces = [[0, 3], [0, 1], [1, 2], [2, 3], [0, 3], [0, 2], [2, 3], [0, 3], [1, 3]]
    y = SimpleNamespace(**sample.y, X=sample.X)
    return sample, make_problem(y, "efron", (3.0, 6.5), source, np.array(pieces))


def folds(name, sample):
    """Weights of three fits: all rows, and two without some of the groups."""
    grouped = name in MODELS and MODELS[name].weighs_groups
    label = sample.y["group"] % 4 if grouped else np.arange(sample.n) % 4
    return sample.weights[:, None] * np.column_stack([label >= 0, label != 1, label != 2])


def check_solutions(found, expected, gap=1e-8):
    for own, others in zip(found, expected, strict=True):
        for solution, other in zip(own, others, strict=True):
            assert solution.converged and other.converged
            np.testing.assert_allclose(solution.coef, other.coef, rtol=1e-8, atol=1e-8)
            np.testing.assert_allclose(solution.objective, other.objective, rtol=1e-10)
            np.testing.assert_allclose(solution.gap, other.gap, atol=gap)
            np.testing.assert_allclose(solution.lam_max, other.lam_max, rtol=1e-8)
            if other.baseline is not None:
                np.testing.assert_allclose(
                    np.exp(solution.baseline), np.exp(other.baseline), rtol=1e-7
                )


SMALL = {"bytes": 1e8, "counts": False}
ROOMS = {  # by the operation that takes the only base which fits may have there
    "curvature": Room(0.0),
    "sample": Room(**SMALL, bases=("sample",)),
    "matrix": Room(**SMALL, bases=("matrix",)),
    "factor": Room(**SMALL, bases=("matrix",), terms=0.0),
}
TAKEN = {"curvature", "sample", "matrix", "factor"}


class TestFits:
    """Solutions of the NumPy backend, in rounds, are the CPU's."""

    @pytest.mark.parametrize(("name", "base"), thin(2, [*MODELS, PIECES], ROOMS))
    def test_paths_of_folds(self, name, base):
        sample, problem = draw(name)
        batch = Batch(
            np.outer([3.0, 1.0], [1.0, 0.8, 0.9]),
            PENALTY,
            factor=np.where(np.arange(problem.n_columns) == 1, 0.0, 1.0),
            weight=folds(name, sample),
            offset=sample.offset[:, None],
        )
        backend, options = NumpyBackend(ROOMS[base]), Options(tol=1e-10)
        check_solutions(
            Fits(problem, batch, backend, options).solve(),
            Fits(problem, batch, cpu, options).solve(),
        )
        assert base in backend.served
        assert not backend.served & TAKEN - {base, "curvature"}

    @pytest.mark.parametrize("name", BY_CYCLES)
    def test_exact_algorithm(self, name):
        sample, problem = draw(name)
        batch = make_batch(sample, [3.0, 1.0], penalty=PENALTY)
        options = Options(tol=1e-10, algorithm="exact")
        check_solutions(
            Fits(problem, batch, NumpyBackend(), options).solve(),
            Fits(problem, batch, cpu, options).solve(),
        )

    @pytest.mark.parametrize(
        ("name", "algorithm"), [("cox, efron", "majorized"), ("logistic", "exact")]
    )
    def test_bounds(self, name, algorithm):
        sample, problem = draw(name)
        lower, upper = np.full(P, -0.05), np.where(np.arange(P) == 2, 0.0, np.inf)
        batch = make_batch(sample, [1.0, 0.1], penalty=BoundedElasticNet(0.7, lower, upper))
        options = Options(tol=1e-10, algorithm=algorithm)
        expected = Fits(problem, batch, cpu, options).solve()
        assert expected[0][-1].coef.min() == -0.05
        check_solutions(Fits(problem, batch, NumpyBackend(), options).solve(), expected)

    @pytest.mark.parametrize("base", ROOMS)
    @pytest.mark.parametrize("name", ["cox, efron", "fine_gray, strata", "logistic", PIECES])
    def test_groups(self, name, base):
        sample, problem = draw(name)
        group = np.arange(problem.n_columns) % 3 - 1
        sizes = np.bincount(group[group >= 0])
        penalty = GroupFamily(group, np.sqrt(sizes), 0.7)
        batch = make_batch(sample, [3.0, 1.0], penalty=penalty)
        backend, options = NumpyBackend(ROOMS[base]), Options(tol=1e-10)
        expected = Fits(problem, batch, cpu, options).solve()
        check_solutions(Fits(problem, batch, backend, options).solve(), expected, gap=1e-6)
        assert base in backend.served
        assert expected[0][-1].n_iter > 0

    @pytest.mark.parametrize("base", ROOMS)
    @pytest.mark.parametrize("name", ["cox, efron", "conditional_logistic", "logistic"])
    def test_loans(self, name, base):
        sample, problem = draw(name)
        backend, options = NumpyBackend(ROOMS[base]), Options(tol=1e-10)
        first = make_batch(sample, 1.0, penalty=PENALTY)
        solutions, loan = Fits(problem, first, backend, options).solve_and_lend(100)
        assert loan is not None
        weight, alone = folds(name, sample)[:, 1:], solutions[0]
        share = weight.sum(axis=0) / sample.weights.sum()
        batch = replace(first, lambdas=np.ones((1, 2)), weight=weight)
        batch = replace(batch, coef=alone.coef[:, None], null=(alone.null,), share=share)
        borrowed = Fits(problem, replace(batch, loan=loan), backend, options).solve()
        check_solutions(borrowed, Fits(problem, batch, cpu, options).solve())


def open_both(name, penalty=PENALTY):
    """A session of the CPU's and the NumPy backend's on the same rows, coefficients, a penalty."""
    sample, problem = draw(name)
    rows, formulas = (sample.weights, sample.offset), penalty.formulas
    sessions = (
        CpuSession(problem, *rows, Threads(1), formulas, 1e8),
        NumpySession(problem, *rows, formulas, 1e8),
    )
    rng, p = np.random.default_rng(8), problem.n_columns
    strengths = penalty.at(0.3, np.ones(p), np.zeros(p, bool)).columns
    return *sessions, 0.4 * rng.normal(size=(2, p)), strengths


def near(found, expected, rtol=1e-10):
    scale = np.abs(expected).max(initial=1.0)
    np.testing.assert_allclose(found, expected, rtol=0, atol=rtol * scale)


def check_evaluation(found, expected, p):
    """Two sessions are at the same evaluation."""
    for columns in (np.arange(p), np.array([p - 1, 1]), np.empty(0, int)):
        near(found.gradient(columns), expected.gradient(columns))
    near(found.rounding() * 1e15, expected.rounding() * 1e15)
    baselines = [session.baseline() for session in (found, expected)]
    if baselines[1] is None:
        assert baselines[0] is None
    else:
        near(*map(np.exp, baselines))


def matrix_of_factor(session, columns):
    """The matrix that a factor stands for, taken in two parts."""
    first, sign, size = session.factor(columns[:2], 0)
    session.attempt(np.ones(len(columns)), columns, np.inf)  # it stays where it was taken
    session.evaluate_trial()
    rest, _, more = session.factor(columns, 2)
    rows = np.vstack([first, rest])
    matrix = (rows * sign) @ rows.T
    near(np.diag(matrix), np.append(size, more))
    session.evaluate()
    return matrix


def least_eigenvalue(matrix):
    """... in units of its largest entry."""
    return np.linalg.eigvalsh(matrix).min() / max(np.abs(matrix).max(), 1e-300)


BY_FORM = pytest.mark.parametrize(("name", "form"), [*FORMS, (PIECES, "every death")])


class TestOperations:
    """Results of the CPU session are those of the definition."""

    @pytest.mark.parametrize("name", [*MODELS, PIECES])
    def test_evaluations(self, name):
        session, oracle, (here, there), _ = open_both(name)
        every = np.arange(len(here))
        near(session.start(here), oracle.start(here))
        check_evaluation(session, oracle, len(here))
        near(session.largest_loglik(), oracle.largest_loglik())
        near(session.error_weight(), oracle.error_weight())
        (reach, found), (least, expected) = (
            each.attempt(there, every, np.inf) for each in (session, oracle)
        )
        near(found, expected)
        check_evaluation(session, oracle, len(here))
        assert reach >= least * (1 - 1e-10)
        if name != PIECES:  # the range over all pieces is a looser bound
            near(reach, least)
        for share in (0.5, 0.3):
            for each in (session, oracle):
                each.shorten(share)
        near(session.evaluate_trial(), oracle.evaluate_trial())
        check_evaluation(session, oracle, len(here))
        near(session.evaluate(), oracle.evaluate())
        check_evaluation(session, oracle, len(here))
        session.evaluate_trial(), oracle.evaluate_trial()
        session.accept(), oracle.accept()
        check_evaluation(session, oracle, len(here))
        direct = oracle.start(here + 0.15 * (there - here))
        near([session.evaluate(), oracle.evaluate()], direct)

    @pytest.mark.parametrize("name", MODELS)
    def test_long_attempts_are_not_evaluated(self, name):
        session, _, (here, there), _ = open_both(name)
        every = np.arange(len(here))
        session.start(here)
        reach, loglik = session.attempt(there, every, np.inf)
        gradient = session.gradient(every)
        if reach > 0.0:
            session.evaluate()
            again, nothing = session.attempt(there, every, 0.9 * reach)
            assert again == reach and np.isnan(nothing)
            near(session.evaluate_trial(), loglik)
            near(session.gradient(every), gradient)

    @BY_FORM
    def test_models(self, name, form, monkeypatch):
        """The Hessian where it is said to be that; no less, or no less than half of it, else."""
        use_form(form, monkeypatch)
        session, oracle, (here, _), _ = open_both(name)
        p = len(here)
        order = np.roll(np.arange(p), 3)
        for each in (session, oracle):
            each.start(here)
        (found, total), (expected, expected_total) = (
            each.curvature(order) for each in (session, oracle)
        )
        M, H = session.matrix(order, 0), oracle.matrix(order, 0)
        near(np.diag(M), found[:, 0])
        near(M, M.T)
        session.matrix(order[:2], 0)
        near(session.matrix(order, 2), M[2:])
        near(session.matrix(order[::-1], 0), M[::-1, ::-1])
        if np.isfinite(session.room().terms):
            near(matrix_of_factor(session, order), M)
            near(matrix_of_factor(oracle, order), H)
        nothing, same = session.curvature(order[:0])
        assert nothing.shape == (0, 2) and same == total
        times = 2.0 if name in MODELS and MODELS[name].twice else 1.0
        assert np.linalg.eigvalsh(times * M - H).min() >= -1e-10 * np.abs(H).max()
        assert (found[:, 1] >= found[:, 0]).all()
        is_exact = session.count(order).is_exact
        if name == PIECES or not (is_exact and MODELS[name].exact):
            return
        assert form not in ("few", "one a stratum") or not MODELS[name].by_bins
        near(found, expected)
        near(M, H)
        near(total, expected_total)

    @BY_FORM
    def test_samples(self, name, form, monkeypatch):
        """Of some rows, without negative eigenvalues; of all, nearly M, however simplified."""
        use_form(form, monkeypatch)
        *sessions, (here, _), _ = open_both(name)
        columns = np.roll(np.arange(len(here)), 2)
        for session in sessions:
            session.start(here)
            M = session.matrix(columns, 0)
            for n_rows in (1, 10, 30, 10**6):
                S = session.sample(columns, n_rows)
                near(S, S.T)
                assert S.shape == M.shape and least_eigenvalue(S) >= -1e-12
            S *= np.trace(M) / np.trace(S)
            assert least_eigenvalue(ALIKE * S - M) >= -1e-12
            np.testing.assert_array_equal(session.sample(columns, 30), session.sample(columns, 30))
            assert session.sample(columns[:0], 30).shape == (0, 0)

    @pytest.mark.parametrize("name", BY_CYCLES)
    def test_cycles(self, name):
        session, oracle, (here, _), c = open_both(name)
        reach = np.full(P, 0.2)
        for each in (session, oracle):
            each.start(here)
        # an intercept moves along by its slope only, and is exact for the first column
        stop = 1 if name == "logistic" else P
        for first in range(0, P, stop):
            session.start(here), oracle.start(here)
            columns = np.arange(first, first + stop)
            own = type(c)(*(part[columns] for part in c))
            request = columns, here[columns], own, reach[columns]
            for found, expected in zip(
                session.cycle(*request), oracle.cycle(*request), strict=True
            ):
                near(found, expected)


@pytest.mark.parametrize("session", [CpuSession, NumpySession])
def test_names_and_parameters(session):
    for name, operation in NAMED.items():
        expected = list(inspect.signature(operation).parameters)
        assert list(inspect.signature(getattr(session, name)).parameters) == expected, name


def test_names_of_a_device_s_session():
    """Its methods take the fits, and each argument for all of them."""
    folder, methods = Path(cpu.__file__).parents[1] / "cuda", {}
    for file, of_rows in (("predictor.py", "Predictors"), ("session.py", "Session")):
        body = ast.parse((folder / file).read_text(encoding="utf-8")).body
        (session,) = (node for node in body if getattr(node, "name", "") == of_rows)
        methods |= {n.name: n.args.args for n in session.body if isinstance(n, ast.FunctionDef)}
    for name, operation in NAMED.items():
        if name in ("sample", "factor"):  # which no backend is asked for that holds matrices
            continue
        taken = [argument.arg for argument in methods[name]]
        assert taken[:2] == ["self", "fits"], name
        assert len(taken) == len(inspect.signature(operation).parameters) + 1, name


def spoil(value):
    """Overwrite all arrays in a value."""
    if isinstance(value, np.ndarray):
        value[...] = np.nan if value.dtype.kind == "f" else -7
    elif isinstance(value, tuple):
        for part in value:
            spoil(part)


class Distrustful:
    """A session whose caller overwrites, at once, what it has given and what it was given."""

    def __init__(self, session, served):
        self._session, self._served = session, served

    def __getattr__(self, name):
        def call(*arguments):
            self._served.add(name)
            given = deepcopy(arguments)
            result = getattr(self._session, name)(*given)
            np.testing.assert_equal(given, arguments)
            kept = deepcopy(result)
            spoil(given)
            spoil(result)
            return kept

        return call


@pytest.mark.parametrize("base", ROOMS)
@pytest.mark.parametrize("name", BY_CYCLES)
def test_nobody_writes_to_what_is_not_its_own(name, base):
    """Results are bit for bit those of a caller who overwrites nothing."""
    sample, problem = draw(name)
    batch = make_batch(sample, [3.0, 0.3], penalty=PENALTY)
    served = set()

    def solve_by(wrap, algorithm):
        def run(problem, batch, coroutines, n_threads):
            rows = sample.weights, sample.offset, Threads(1)
            session = CpuSession(problem, *rows, PENALTY.formulas)
            session.room = lambda: ROOMS[base]
            return [serve(wrap(session), coroutines[0])]

        options = Options(tol=1e-10, algorithm=algorithm)
        return Fits(problem, batch, SimpleNamespace(run=run), options).solve()[0]

    for algorithm in ("majorized", "exact"):
        plain = solve_by(lambda session: session, algorithm)
        found = solve_by(lambda session: Distrustful(session, served), algorithm)
        for one, other in zip(found, plain, strict=True):
            np.testing.assert_array_equal(one.coef, other.coef)
            np.testing.assert_array_equal(one.baseline, other.baseline)
            assert one.objective == other.objective
    rare = {"shorten", "evaluate", "evaluate_trial"}
    assert served | rare >= (set(NAMED) - TAKEN - {"count"}) | {base, "curvature"}


@BY_FORM
def test_a_matrix_stays_as_it_was_taken(name, form, monkeypatch):
    """Whatever is evaluated, and whenever columns join."""
    use_form(form, monkeypatch)

    def take(look_elsewhere):
        session, _, (here, there), _ = open_both(name)
        every, half = np.arange(len(here)), len(here) // 2

        def look():
            if look_elsewhere:
                session.attempt(there, every, np.inf)
                session.gradient(every)
                session.accept()
                session.curvature(every)
                session.sample(every, 10)
                session.baseline()
                session.start(here + 1.0)

        session.start(here)
        first = session.matrix(every[:half], 0)
        look()
        second = session.matrix(every[:-1], half)
        look()
        third = session.matrix(every, len(every) - 1)
        session.start(here)
        return first, second, third, session.curvature(every)[0], session.gradient(every)

    for found, expected in zip(take(True), take(False), strict=True):
        near(found, expected, 1e-12)


@pytest.mark.parametrize("name", [*MODELS, PIECES])
def test_an_accepted_trial_is_a_start(name, monkeypatch):
    use_bins("few", monkeypatch)
    results = []
    for by_step in (True, False):
        session, _, (here, there), _ = open_both(name)
        every = np.arange(len(here))
        if by_step:
            session.start(here)
            session.attempt(there, every, np.inf)
            session.accept()
        else:
            session.start(there)
        results.append([session.gradient(every), session.matrix(every, 0), session.rounding()])
        results[-1].append(session.curvature(every)[0])
    for found, expected in zip(*results, strict=True):
        near(found, expected, 1e-12)


def test_a_backend_is_registered_by_one_entry(monkeypatch):
    backend, rng = NumpyBackend(), np.random.default_rng(1)
    X, y = rng.normal(size=(60, 3)), rng.integers(0, 2, 60)
    model = LogisticCCD(alpha=0.01, backend="numpy", tol=1e-10)
    with pytest.raises(ValueError, match=r"'backend' parameter .* must be a str among"):
        model.fit(X, y)
    monkeypatch.setitem(BACKENDS, "numpy", Entry(lambda precision, device: backend))
    model.fit(X, y)
    assert model.backend_ == "numpy" and model.backend_reason_ == 'asked for with backend="numpy"'
    assert {"start", "gradient", "curvature"} <= backend.served
    expected = LogisticCCD(alpha=0.01, tol=1e-10).fit(X, y)
    np.testing.assert_allclose(model.coef_, expected.coef_, atol=1e-8)
    with pytest.raises(ValueError, match=r'backend="numpy" draws no samples; pass backend="cpu"'):
        choose_sampling("numpy")


@pytest.mark.parametrize("name", ["cox, efron", "conditional_logistic"])
def test_evaluators(name):
    sample, problem = draw(name)
    batch = Batch(np.empty((0, 3)), weight=folds(name, sample), offset=sample.offset[:, None])
    coefs = np.random.default_rng(5).normal(size=(3, P))
    evaluators = [backend.open_evaluator(problem, batch) for backend in (cpu, NumpyBackend())]
    for found, expected in zip(*(each.evaluate(coefs) for each in evaluators), strict=True):
        near(found, expected)
