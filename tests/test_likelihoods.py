"""The risk-set pattern against the definition: log-likelihood, u, h, and the quadratic model."""

from itertools import chain, combinations

import numpy as np
import pytest
import scipy.sparse as sp
from engine import (
    BINS,
    Data,
    draw_outcome,
    fit,
    gradient,
    make_problem,
    open_rows,
    open_session,
    reference,
    use_bins,
)
from grids import thin
from oracles.reference_likelihoods import (
    Atom,
    baseline,
    bin_hessian,
    cox_direct,
    duality_gap,
    exact_hessian,
    kkt,
    model_hessian,
    split_rows,
)

from sksurvgpu.likelihoods.cox import Cox
from sksurvgpu.patterns.risk_sets import plan as row_plans

# Rows (start, time, event), by the pattern of ties that they make.
PATTERNS = [
    [(0, 1, 1)],  # an event alone, first
    [(0, 2, 1), (1, 2, 1)],  # tied events, one entering at the first event time
    [(1, 3, 1), (0, 3, 0)],  # an event and a censoring tied
    [(0, 4, 0), (2, 4, 0)],  # tied censorings
    [(2, 5, 1)],  # entry at a tied event time
    [(0, 6, 1), (3, 6, 1), (5, 6, 1), (0, 6, 0)],  # many tied events, one entering just before
    [(6, 7, 0)],  # entry at the last tied event time, at risk at nothing if nothing follows
    [(3, 8, 1)],  # the last event
]
SUBSETS = list(chain.from_iterable(combinations(range(8), k) for k in range(1, 9)))
STRATA = {
    "none": lambda n, rng: None,
    "few": lambda n, rng: np.resize([2, 0, 1], n),
    "many": lambda n, rng: np.arange(n)[::-1] // 2,
}


def rows_of(subset):
    rows = np.array([row for k in subset for row in PATTERNS[k]], float)
    return rows[:, 0], rows[:, 1], rows[:, 2]


def compare(data, eta, ties, check_close, context=""):
    """Evaluate both ways; the session at the point."""
    session, loglik = open_rows(data, eta, ties)
    expected = reference(data, eta if data.offset is None else eta + data.offset, ties)
    check_close(loglik, expected.loglik, "loglik", context=context)
    check_close(gradient(session), expected.u, "u", context=context)
    return session, expected


@pytest.mark.thorough(but="few")
@pytest.mark.parametrize(
    ("strata", "is_weighted", "is_delayed", "ties"),
    thin(5, STRATA, [False, True], [False, True], ["breslow", "efron"]),
)
def test_every_tie_pattern(is_delayed, is_weighted, strata, ties, check_close):
    rng = np.random.default_rng(1)
    for subset in SUBSETS:
        start, time, event = rows_of(subset)
        n = len(time)
        data = Data(
            X=None,
            time=time,
            event=event,
            start=start if is_delayed else None,
            strata=STRATA[strata](n, rng),
            weights=rng.choice([0.0, 0.5, 1.0, 3.3], size=n) if is_weighted else None,
        )
        if is_weighted and not data.weights.any():
            data.weights[0] = 1.0
        compare(data, rng.normal(size=n), ties, check_close, f"patterns {subset}")


def test_exact_steps_have_the_derivatives_of_a_cell(ties):
    """Slope and curvature of a cell's term, along one column: those of its logarithm."""
    rng, is_dead = np.random.default_rng(2), np.arange(7) < 3
    w, x = rng.uniform(0.2, 3.0, size=7), rng.normal(size=7)
    likelihood, death_weight, n_dead = Cox(ties), 2.5, 3.0

    def term(step):
        moved = w * np.exp(step * x)
        sums = moved.sum(), moved[is_dead].sum()
        return likelihood.jump_formula(*sums, death_weight, n_dead)[0]

    moments = [[(w * x**k)[rows].sum() for k in range(3)] for rows in (slice(None), is_dead)]
    found = likelihood.coordinate_formula(*moments[0], *moments[1], death_weight, n_dead)
    h = 1e-4
    slope = (term(h) - term(-h)) / (2 * h)
    curvature = (term(h) - 2 * term(0.0) + term(-h)) / h**2
    np.testing.assert_allclose(found, [slope, curvature], rtol=1e-6)


CASES = [
    (start, n_strata, weights, n_times)
    for start in (False, True)
    for n_strata in (0, 3, 110)
    for weights in (False, True)
    for n_times in (None, 8)
]


@pytest.fixture(
    params=thin(5, [(case,) for case in CASES]),
    ids=lambda case: "start{:d}-strata{}-weights{:d}-times{}".format(*case),
)
def random_data(request):
    start, n_strata, weights, n_times = request.param
    rng = np.random.default_rng([20, CASES.index(request.param)])
    n = 130 if n_strata > 3 else 60
    return draw_outcome(
        rng, n, start=start, n_strata=n_strata, weights=weights, n_times=n_times, offset=True
    )


def rows_and_pairs(n):
    """Columns e_i and e_i + e_j, and the i and j of the pairs.

    Polarization needs nothing but the curvature of a column, so it reads binned and grouped models
    alike.
    """
    first, second = np.triu_indices(n, 1)
    pairs = sp.csc_array(
        (
            np.ones(2 * len(first)),
            (np.concatenate([first, second]), np.tile(np.arange(len(first)), 2)),
        )
    )
    return sp.hstack([sp.eye_array(n), pairs], format="csc"), first, second


@pytest.mark.parametrize("bins", [*BINS[:2], pytest.param(BINS[2], marks=pytest.mark.slow)])
def test_model_majorizes(random_data, bins, ties, check_close, tolerance, monkeypatch):
    use_bins(bins, monkeypatch)
    n = random_data.n
    eta = np.random.default_rng(3).normal(size=n)
    expected = reference(random_data, eta + random_data.offset, ties)
    columns, first, second = rows_and_pairs(n)
    problem = make_problem(random_data.with_(X=columns), ties)
    session, _ = open_session(problem, random_data, eta)
    curvature, _ = session.curvature(np.arange(problem.n_columns))
    check_close(curvature[:n, 1], expected.h, "h")
    model, along = np.diag(curvature[:n, 0]), curvature[:, 0]
    model[first, second] = 0.5 * (along[n:] - along[first] - along[second])
    model += np.triu(model, 1).T

    check_close(model, expected_model(problem, expected), "curvature")
    gap = np.linalg.eigvalsh(model - exact_hessian(expected))
    assert gap.min() >= -tolerance("curvature") * np.abs(model).max()
    is_exact = bins == "every death" and ties == "breslow"
    assert not is_exact or gap.max() <= tolerance("curvature") * np.abs(model).max()


def expected_model(problem, evaluation):
    """The oracle's model for the bins of the problem."""
    plan = problem.plan
    stratum_of_cell = np.repeat(np.arange(plan.n_strata), np.diff(plan.cell_ptr))
    bin_of = {
        (s, t): k
        for s, t, k in zip(stratum_of_cell, plan.cell_time, problem.plan.bins.cell_bin, strict=True)
    }
    return bin_hessian(
        evaluation.atoms, [bin_of[atom.stratum, atom.time] for atom in evaluation.atoms]
    )


def test_numbers_of_bins(monkeypatch):
    rng = np.random.default_rng(4)

    def bins(n, n_strata):
        data = draw_outcome(rng, n, n_strata=n_strata)
        return make_problem(data.with_(X=np.ones((n, 1)))), data

    problem, data = bins(60, 3)
    assert problem.plan.bins.few
    assert len(problem.plan.bins.start) == data.event.sum()
    monkeypatch.setattr(row_plans, "SMALL_DEATHS", 0)
    assert not problem.plan.beside(60).bins.is_exact and problem.plan.beside(61).bins.is_exact
    monkeypatch.setattr(row_plans, "SMALL_ROWS", 0)
    problem, _ = bins(400, 0)
    assert problem.plan.bins.few
    assert len(problem.plan.bins.start) == max(row_plans.BINS_PER_STRATUM)
    problem, data = bins(300, 110)
    assert not problem.plan.bins.few
    assert len(problem.plan.bins.start) == np.unique(data.strata).size > row_plans.FEW_BINS


@pytest.mark.parametrize("n_strata", [0, 3])
@pytest.mark.parametrize("spread", [300, 14_000])
def test_predictors_of_any_range(spread, n_strata, ties, check_close):
    """300 fits into floating point, 14,000 does not."""
    rng = np.random.default_rng(8)
    data = draw_outcome(rng, 200, n_strata=n_strata, n_times=40, weights=True)
    eta = rng.uniform(-spread / 2, spread / 2, size=200)
    compare(data, eta, ties, check_close)


@pytest.mark.parametrize("spread", [300, 14_000])
def test_steps_decrease_whatever_the_range(spread, ties):
    """The model without a common scale is looser, and still a bound."""
    rng = np.random.default_rng(9)
    data = draw_outcome(rng, 60, n_times=20, weights=True)
    eta = 0.5 * spread * rng.integers(-1, 2, size=60) + rng.normal(size=60)
    problem = make_problem(data.with_(X=np.eye(60)), ties)
    session, _ = open_session(problem, data, eta)
    matrix = session.matrix(np.arange(60), 0)
    hessian = exact_hessian(reference(data, eta, ties))
    assert np.linalg.eigvalsh(matrix - hessian).min() >= -1e-9


def test_delayed_entry_is_right_or_refused(ties):
    """Where entries cancel more digits than there are, no log-likelihood may look like one."""
    rng = np.random.default_rng(16)
    for _ in range(20):
        data = draw_outcome(rng, 200, start=True, n_strata=3, n_times=40, weights=True)
        eta = rng.uniform(-150, 150, size=200)
        _, loglik = open_rows(data, eta, ties)
        expected = reference(data, eta, ties).loglik
        assert not np.isfinite(loglik) or abs(loglik - expected) <= 1e-9 * abs(expected)


def test_a_stratum_may_be_shifted_by_anything(ties, check_close):
    rng = np.random.default_rng(10)
    data = draw_outcome(rng, 100, n_strata=3, n_times=20)
    eta = rng.normal(size=100)
    _, loglik = open_rows(data, eta, ties)
    _, shifted = open_rows(data, eta - 2000.0 * data.strata, ties)
    check_close(shifted, loglik, "loglik")


def test_a_common_shift_changes_nothing(random_data, ties, check_close):
    eta = np.random.default_rng(11).normal(size=random_data.n)
    session, loglik = open_rows(random_data, eta, ties)
    moved, shifted = open_rows(random_data, eta + 2.0**20, ties)
    np.testing.assert_allclose(shifted, loglik, rtol=1e-9)
    np.testing.assert_allclose(gradient(moved), gradient(session), atol=1e-8)


def late_and_heavy(heavy):
    """Rows of large weight that enter after many risk sets: (data, eta, which rows)."""
    rng = np.random.default_rng(12)
    data = draw_outcome(rng, 400, start=True, n_times=60)
    late = rng.random(400) < 0.1
    time, start = data.time.copy(), data.start.copy()
    start[late], time[late] = np.ceil(time.max() * 0.3), time.max() + 1
    data = data.with_(time=time, start=start, event=data.event & ~late)
    return data, rng.normal(size=400) + np.log(heavy) * late, late


# Of sums whose digits are kept, and of those that go on as logarithms.
@pytest.mark.thorough(but="breslow")
@pytest.mark.parametrize("heavy", [1e9, 1e14])
def test_delayed_entries_do_not_cancel(heavy, ties):
    """A difference of sums would lose 14 digits of the risk sets before the entries."""
    data, eta, late = late_and_heavy(heavy)
    session, loglik = open_rows(data, eta, ties)
    exact = reference(data, eta.astype(np.longdouble), ties)
    assert abs(loglik - exact.loglik) <= 1e-12 * abs(exact.loglik)
    error = np.abs(gradient(session) - exact.u.astype(float))
    assert error[~late].max() <= 1e-10


# Of sums whose digits are kept, and of those that go on as logarithms.
@pytest.mark.thorough(but="breslow")
@pytest.mark.parametrize("heavy", [1e9, 1e14])
def test_hazards_after_an_entry_do_not_cancel(heavy, ties):
    """The same for the hazard of rows that enter late, small against the one before."""
    data, eta, late = late_and_heavy(heavy)
    session, _ = open_rows(data, eta, ties)
    exact = reference(data, eta.astype(np.longdouble), ties)
    assert np.abs(gradient(session) - exact.u.astype(float))[late].max() <= 1e-10


def test_a_start_that_is_not_finite_is_said(ties):
    data = draw_outcome(np.random.default_rng(13), 30).with_(X=np.ones((30, 1)))
    with pytest.raises(ValueError, match="not finite"):
        fit(data.with_(offset=np.full(30, np.nan)), 1.0, ties)


@pytest.mark.parametrize("start", [False, True], ids=["from zero", "delayed"])
@pytest.mark.parametrize("n_strata", [0, 3])
def test_pieces_are_split_rows(start, n_strata, ties, check_close):
    """A column a (row, piece): u of every episode, against the data set split by hand."""
    rng = np.random.default_rng(14)
    data = draw_outcome(rng, 70, start=start, n_strata=n_strata, n_times=12, weights=True)
    cuts = np.array([2.0, 4.5, 9.0])
    n, n_pieces = data.n, 4
    source = np.tile(np.arange(n), n_pieces)
    piece_ptr = np.repeat([[b, b + 1] for b in range(n_pieces)], n, axis=0)
    row, piece, low, high, death = split_rows(data.time, data.event, cuts, data.start)
    eta = rng.normal(size=(n_pieces, n))
    session, loglik = open_rows(
        data, eta.ravel(), ties, cuts=cuts, source=source, piece_ptr=piece_ptr
    )
    strata = None if data.strata is None else data.strata[row]
    expected = cox_direct(eta[piece, row], high, death, low, strata, data.weights[row], ties)
    u = np.zeros((n_pieces, n))
    u[piece, row] = expected.u
    check_close(loglik, expected.loglik, "loglik")
    check_close(gradient(session).reshape(n_pieces, n), u, "u")


@pytest.mark.parametrize("spread", [2, 1_400])
def test_baseline(spread, ties):
    rng = np.random.default_rng(17)
    data = draw_outcome(rng, 80, start=spread == 2, n_strata=3, n_times=15, weights=True)
    eta = rng.uniform(0, spread, size=80)
    session, _ = open_rows(data, eta, ties)
    plan = make_problem(data.with_(X=np.eye(80)), ties).plan
    evaluation = reference(data, eta, ties)
    for s in range(3):
        cells = slice(plan.cell_ptr[s] + 1, plan.cell_ptr[s + 1])
        expected = baseline(evaluation, s, plan.cell_time[cells])
        np.testing.assert_allclose(np.exp(session.baseline()[cells]), expected, rtol=1e-9)


def test_a_baseline_beyond_floating_point_is_infinite(ties):
    """Far from every row a hazard has no number; that is no reason to warn about a fit."""
    data = draw_outcome(np.random.default_rng(18), 80, n_times=15)
    session, loglik = open_rows(data, np.full(80, -2000.0), ties)
    assert np.isfinite(loglik)
    assert session.baseline()[-1] > 1900.0


class TestOracle:
    """The reference itself, on numbers worked out by hand."""

    time = np.array([1.0, 2.0, 2.0, 3.0])
    event = np.array([1, 1, 1, 0])

    def test_breslow_at_zero(self):
        evaluation = cox_direct(np.zeros(4), self.time, self.event)
        assert evaluation.loglik == pytest.approx(-np.log(4) - 2 * np.log(3))
        np.testing.assert_allclose(evaluation.h, [1 / 4, 11 / 12, 11 / 12, 11 / 12])
        np.testing.assert_allclose(baseline(evaluation, 0, [0.5, 1, 2.5]), [0, 1 / 4, 11 / 12])

    def test_efron_at_zero(self):
        evaluation = cox_direct(np.zeros(4), self.time, self.event, ties="efron")
        assert evaluation.loglik == pytest.approx(-np.log(4) - np.log(3) - np.log(2))
        np.testing.assert_allclose(evaluation.h, [1 / 4, 5 / 6, 5 / 6, 13 / 12])

    def test_entry_at_an_event_time_is_too_late(self):
        start = np.array([0.0, 0.0, 1.0, 2.0])
        evaluation = cox_direct(np.zeros(4), self.time, self.event, start)
        assert evaluation.loglik == pytest.approx(-np.log(2) - 2 * np.log(2))

    def test_bins_of_one_atom_are_exact(self):
        data = draw_outcome(np.random.default_rng(15), 20, n_times=6)
        evaluation = reference(data, np.zeros(20))
        exact = exact_hessian(evaluation)
        np.testing.assert_allclose(
            bin_hessian(evaluation.atoms, np.arange(len(evaluation.atoms))), exact, atol=1e-12
        )
        whole = bin_hessian(evaluation.atoms, np.zeros(len(evaluation.atoms)))
        np.testing.assert_allclose(
            whole, model_hessian(evaluation.h, evaluation.stratum), atol=1e-12
        )
        assert isinstance(evaluation.atoms[0], Atom)

    def test_split_rows(self):
        row, piece, low, high, death = split_rows(self.time, self.event, [2.0])
        assert row.tolist() == [0, 1, 2, 3, 3]
        assert piece.tolist() == [0, 0, 0, 0, 1]
        assert low.tolist() == [-np.inf] * 4 + [2.0]
        assert high.tolist() == [1, 2, 2, 2, 3]
        assert death.tolist() == [True, True, True, False, False]

    def test_kkt_and_gap_vanish_at_a_known_optimum(self):
        X = np.array([[1.0], [0.0], [1.0], [0.0]])
        evaluation = cox_direct(np.zeros(4), self.time, self.event)
        gradient = float(X[:, 0] @ evaluation.u)
        assert kkt(X, evaluation.u, np.zeros(1), abs(gradient))[0] == 0.0
        assert kkt(X, evaluation.u, np.zeros(1), 0.0)[0] == pytest.approx(abs(gradient))
        assert duality_gap(X, evaluation, np.zeros(1), abs(gradient)) == pytest.approx(0.0)
        assert duality_gap(X, evaluation, np.zeros(1), abs(gradient) / 2) > 0.0
