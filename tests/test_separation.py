"""Infinite coefficients: the decision against all pairs of rows, and what a fit says of them."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from grids import thin
from models import MODELS
from oracles import reference_separation as reference
from sklearn.exceptions import ConvergenceWarning

from sksurvgpu import (
    ConditionalLogisticCCD,
    CoxLassoCCD,
    FineGrayCCD,
    LogisticCCD,
    PoissonCCD,
    competing_risks,
    fit_path,
    matched,
    profile_likelihood,
    surv,
    wald,
)
from sksurvgpu.estimators import _separation as separation
from sksurvgpu.estimators._finite import proves_maximum
from sksurvgpu.estimators._preparing import prepare
from sksurvgpu.estimators._report import fit_card
from sksurvgpu.estimators._separation import find_infinite

INFINITE = "Coefficients of unpenalized columns are infinite, because the columns separate the"


def pairs_of(name, model, sample):
    given = sample.X, sample.y, sample.sample_weight
    if model.name == "fine_gray":
        first = "events first" in name or "one curve" in name
        return reference.pairs_fine_gray(*given, "events_first" if first else "together")
    pairs = {
        "cox": reference.pairs_cox,
        "conditional_poisson": reference.pairs_conditional_poisson,
        "conditional_logistic": reference.pairs_conditional_logistic,
    }.get(model.name)
    if pairs is None:
        return reference.pairs_glm(*given, model.name, model.likelihood.intercept)
    return pairs(*given)


def draw_columns(rng, n):
    """Few columns: indicators, signs, numbers or rare codes; now and then the last is collinear."""
    p = rng.integers(1, 5)
    kinds = (
        rng.integers(0, 2, (n, p)),
        rng.integers(-1, 2, (n, p)),
        rng.normal(size=(n, p)),
        rng.integers(1, 4, (n, p)) * (rng.random((n, p)) < 0.15),
    )
    X = kinds[rng.integers(len(kinds))].astype(float)
    if p > 1 and rng.random() < 0.15:
        X[:, -1] = 2 * X[:, 0] - 3
    return X


def small_sample(model, seed):
    """Few rows, so that about a third of the data sets are separated; some weights are 0."""
    rng = np.random.default_rng(seed)
    sample = model.sample(seed, weights=seed % 2 == 0, offset=False)
    if model.groups == "group":
        labels = rng.permutation(np.unique(sample.y["group"]))
        sample = sample.rows(np.isin(sample.y["group"], labels[: rng.integers(1, len(labels))]))
    else:
        sample = sample.rows(rng.permutation(sample.n)[: rng.integers(5, 45)])
    return sample.with_(X=draw_columns(rng, sample.n))


def is_a_fit(model, sample):
    """Whether an estimator would take the data: with an intercept, outcomes that bound it."""
    counts = sample.sample_weight > 0
    if model.name in ("logistic", "poisson") and model.likelihood.intercept:
        value = sample.y["value"][counts]
        return value.any() and (model.name == "poisson" or not value.all())
    return counts.any()


def check_decisions(name, seeds):
    model, verdicts = MODELS[name], []
    for seed in seeds:
        sample = small_sample(model, seed)
        if not is_a_fit(model, sample):
            continue
        p = sample.X.shape[1]
        given = model.problem(sample), sample.sample_weight, np.ones(p, bool)
        found = find_infinite(*given)
        for spread in (0.0, 3.0):  # a point may prove something or lie in D, and nothing else
            point = None, spread * np.random.default_rng(seed).normal(size=p)
            np.testing.assert_array_equal(find_infinite(*given, point), found, str(seed))
        is_separated, columns = reference.decide(pairs_of(name, model, sample), p)
        assert found.any() == is_separated, seed
        if columns is not None:
            np.testing.assert_array_equal(found, columns, str(seed))
        verdicts.append(is_separated)
    assert not all(verdicts) and any(verdicts) == (model.name != "gaussian")


@pytest.mark.thorough(but=r"curves|logistic")
@pytest.mark.parametrize("name", thin(3, MODELS))
def test_decision_is_that_of_all_pairs(name):
    check_decisions(name, range(12))


@pytest.mark.thorough(but=r"\[logistic")
@pytest.mark.parametrize("name", ["cox, efron", "conditional_logistic", "logistic"])
def test_programs_decide_from_few_pairs(name, monkeypatch):
    """Two pairs to begin with and two from every pass, and no proof without a program."""
    monkeypatch.setattr(separation, "FEWEST_PAIRS", 2)
    for of_many in ("FIRST_PAIRS", "MORE_PAIRS", "FEW_ROUNDS", "MORE_ROUNDS"):
        monkeypatch.setattr(separation, of_many, 0)
    check_decisions(name, range(30))


def test_coefficients_that_change_over_time():
    """The expanded columns of every pair are those of the event's time."""
    verdicts = []
    for seed in range(20):
        sample = small_sample(MODELS["cox, breslow"], seed)
        X, y, n = sample.X, sample.y, sample.n
        outcome = surv(y["event"], y["time"], start=y["start"], stratum=y["strata"])
        if not (y["event"] & (sample.sample_weight > 0)).any():
            continue
        model = CoxLassoCCD(alpha=0, time_varying={0: [2.0, 4.0]})
        prepared = prepare(model, X, outcome, sample.weights)
        p = X.shape[1] + 2

        def at(t, X=X, n=n):
            early = np.zeros((n, 3))
            early[:, int(t > 2) + int(t > 4)] = X[:, 0]
            return np.column_stack([early, X[:, 1:]])

        found = find_infinite(prepared.problem, prepared.weight, np.ones(p, bool))
        pairs = reference.pairs_cox(at, y, sample.sample_weight)
        is_separated, columns = reference.decide(pairs, p)
        assert found.any() == is_separated, seed
        if columns is not None:
            np.testing.assert_array_equal(found, columns, str(seed))
        verdicts.append(is_separated)
    assert any(verdicts) and not all(verdicts)


def names_of(model, X, y, **arguments):
    """Columns that a fit calls infinite, and that its warning names."""
    frame = pd.DataFrame(X).add_prefix("c")
    prepared = prepare(model, frame, y, **arguments)
    is_free = model.alpha * prepared.batch.factor == 0
    return np.flatnonzero(find_infinite(prepared.problem, prepared.weight, is_free)).tolist()


def many_rows(n=3_000, p=30):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(n, p))
    X[:, 10:20] = rng.random((n, 10)) < 0.02
    time = rng.exponential(size=n) * np.exp(-X[:, :3].sum(axis=1))
    return X, rng.random(n) < 0.6, time


@pytest.mark.thorough
def test_one_row_decides_among_many():
    X, event, time = many_rows()
    none = np.flatnonzero(~event & (time > np.median(time)))[:9]
    X[:, 12] = 0.0
    X[none, 12] = 1.0
    assert names_of(CoxLassoCCD(alpha=0), X, surv(event, time)) == [12]
    event[none[4]] = True
    assert names_of(CoxLassoCCD(alpha=0), X, surv(event, time)) == []
    weight = np.ones(len(X))
    weight[none[4]] = 0.0
    assert names_of(CoxLassoCCD(alpha=0), X, surv(event, time), sample_weight=weight) == [12]
    weight[none[4]] = 1e-3
    assert names_of(CoxLassoCCD(alpha=0), X, surv(event, time), sample_weight=weight) == []


def test_direction_of_two_columns():
    """Rows where one is 1 and the other is not have no event; each by itself says nothing."""
    X, event, time = many_rows()
    none = np.flatnonzero(~event & (X[:, 12] == 0) & (time > np.median(time)))[:5]
    X[:, 15] = X[:, 12]
    X[none, 15] = 1.0
    for mixed in (X[:, 12], X[:, 12] + 3 * X[:, 15]):
        X[:, 12] = mixed
        assert names_of(CoxLassoCCD(alpha=0), X, surv(event, time)) == [12, 15]
        free = CoxLassoCCD(penalty_factor={k: 0.0 for k in range(30) if k != 12})
        assert names_of(free, X, surv(event, time)) == []


def test_strata_and_entries_separate_what_is_not_separated_without():
    """A death is compared with rows of its own stratum, and with those that have entered."""
    x = np.array([[1.0], [0.0], [1.0], [0.0]])
    event, time = np.array([True, False, False, True]), np.array([1.0, 5.0, 5.0, 6.0])
    model = CoxLassoCCD(alpha=0)
    assert names_of(model, x, surv(event, time)) == [0]  # the second death is alone
    time[3] = 2.0
    assert names_of(model, x, surv(event, time)) == []  # it has a rival with a larger value
    assert names_of(model, x, surv(event, time), strata=[0, 0, 1, 2]) == [0]
    assert names_of(model, x, surv(event, time, start=[0, 0, 2.0, 0])) == [0]  # enters after it
    assert names_of(model, x, surv(event, time, start=[0, 0, 1.5, 0])) == []


def test_rows_are_carried_while_their_censoring_curve_is_positive():
    """After the last of its group was censored, a row with a competing event has no weight."""
    x = np.array([[0.0], [1.0], [0.0], [-1.0]])
    y = competing_risks([1, 2, 0, 0], [3.0, 1.0, 2.0, 4.0])
    model = FineGrayCCD(alpha=0)
    assert names_of(model, x, y) == []
    assert names_of(model, x, y, censoring_groups=[1, 0, 0, 1]) == [0]


@pytest.mark.parametrize("ties", ["breslow", "efron"])
def test_tied_deaths_are_rivals(ties):
    x, time = np.array([[2.0], [1.0], [0.0]]), np.array([1.0, 1.0, 2.0])
    model = CoxLassoCCD(alpha=0, ties=ties)
    assert names_of(model, x, surv([True, True, False], time)) == []
    x[0] = 1.0
    assert names_of(model, x, surv([True, True, False], time)) == [0]


def test_intercepts():
    """A shift makes it a separation, which only an intercept can do."""
    x, y = np.array([[5.0], [6.0], [7.0], [8.0]]), [0, 0, 1, 1]
    assert names_of(LogisticCCD(alpha=0), x, y) == [0]
    assert names_of(LogisticCCD(alpha=0, fit_intercept=False), x, y) == []
    assert names_of(LogisticCCD(alpha=0, fit_intercept=False), x - 6.5, y) == [0]
    # zeros where the column is below its value in all rows with a count
    x, y = np.array([[1.0], [2.0], [3.0], [3.0]]), [0, 0, 1, 4]
    assert names_of(PoissonCCD(alpha=0), x, y) == [0]
    assert names_of(PoissonCCD(alpha=0, fit_intercept=False), x, y) == []
    assert names_of(PoissonCCD(alpha=0, fit_intercept=False), x - 3.0, y) == [0]


def test_units_and_distance_do_not_matter():
    """Columns in other units, far from zero, and one that is all noise of rounding."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 3))
    y = x @ [1.0, -2.0, 0.0] > 0.3
    units = np.array([1e-8, 1e6, 1.0])
    for X in (x, x * units, x + 1e5):
        assert names_of(LogisticCCD(alpha=0), X, y) == [0, 1, 2]
        overlap = y.copy()
        overlap[np.argmin(np.abs(x @ [1.0, -2.0, 0.0] - 0.3))] ^= True
        far = overlap.copy()
        far[np.argmax(x[:, 0])] ^= True
        assert names_of(LogisticCCD(alpha=0), X, far) == []


def test_of_a_full_set_of_indicators_one_is_named():
    """They are collinear in a Cox model: what all levels but one do is what that one does."""
    rng = np.random.default_rng(1)
    level, event = rng.integers(0, 5, 200), rng.random(200) < 0.7
    event[level == 3] = False
    X = np.column_stack([level[:, None] == np.arange(5), rng.normal(size=200)]).astype(float)
    y = surv(event, rng.exponential(size=200))
    assert names_of(CoxLassoCCD(alpha=0), X, y) == [3]
    assert names_of(CoxLassoCCD(alpha=0), X[:, 1:], y) == [2]
    assert names_of(CoxLassoCCD(alpha=0), X[:, [0, 1, 2, 4, 5]], y) == [0, 1, 2, 3]
    merged = X[:, :5].copy()
    merged[:, 2] += merged[:, 3]
    assert names_of(CoxLassoCCD(alpha=0), merged[:, [0, 1, 2, 4]], y) == []
    sides = np.column_stack([level == 3, level != 3, X[:, 5]])  # not that of all events
    assert names_of(CoxLassoCCD(alpha=0), sides, y) == [0]
    assert names_of(CoxLassoCCD(alpha=0), sides[:, [1, 0, 2]], y) == [1]


def test_levels_without_events_need_no_rounds_in_a_full_set(monkeypatch):
    monkeypatch.setattr(separation.Search, "_is_bounded", None)  # asking would be an error
    level, event = np.arange(3000) % 150, np.arange(3000) % 7 < 2
    event[level < 20] = False
    assert names_of(LogisticCCD(alpha=0), np.eye(150)[level], event) == [*range(20)]


RNG = np.random.default_rng(2)
TIME = RNG.permutation(60) + 1.0
EVENT = RNG.random(60) < 0.5
NEVER = np.zeros(60)  # nobody with this column has an event
NEVER[np.flatnonzero(~EVENT & (TIME > 20))[:6]] = 1.0
FRAME = pd.DataFrame({"never": NEVER, "age": RNG.normal(size=60), "dose": RNG.normal(size=60)})
Y = surv(EVENT, TIME)


@pytest.fixture(scope="module")
def model():
    with pytest.warns(ConvergenceWarning, match=rf"{INFINITE} events: `never` \(-[\d.]+\), with"):
        return CoxLassoCCD(alpha=0).fit(FRAME, Y)


def test_fit_keeps_what_it_reached(model):
    assert model.infinite_.tolist() == [True, False, False]
    assert np.isfinite(model.coef_).all()
    table = model.summary()
    assert table.columns.tolist() == ["coef", "hazard_ratio", "is_infinite"]
    assert table["is_infinite"].tolist() == [True, False, False]
    card = fit_card(model)
    assert "is infinite" in card and (card.count(">yes<"), card.count(">no<")) == (2, 2)


def test_standard_errors_are_those_of_the_limit(model):
    """Of the others, as if the rows with the column were gone; NaN of the column itself."""
    with pytest.warns(UserWarning, match="the coefficients of `never` are infinite, because") as w:
        table = wald(model, FRAME, Y).summary()
    assert w[0].filename == __file__ and len(w) == 1
    assert table.loc["never"].drop(["coef", "hazard_ratio"]).isna().all()
    rest = CoxLassoCCD(alpha=0, tol=1e-10).fit(FRAME[["age", "dose"]][NEVER == 0], Y[NEVER == 0])
    limit = wald(rest, FRAME[["age", "dose"]][NEVER == 0], Y[NEVER == 0]).summary()
    np.testing.assert_allclose(table.loc[["age", "dose"]], limit, rtol=1e-3)
    bounds = profile_likelihood(CoxLassoCCD(alpha=0), FRAME, Y, "never").intervals.loc["never"]
    assert bounds["lower"] == -np.inf and np.isfinite(bounds["upper"])


def test_a_penalty_makes_coefficients_finite(model):
    assert not CoxLassoCCD(alpha=0.01).fit(FRAME, Y).infinite_.any()
    factor = {"never": 0.0, "age": 0.0}
    message = "^2 of 2 fits of the path, first at alpha=0.1: Coefficients of unp.*: `never` "
    with pytest.warns(ConvergenceWarning, match=message):
        path = fit_path(CoxLassoCCD(penalty_factor=factor), FRAME, Y, alphas=[0.1, 0.0])
    assert [path.at(k).infinite_.tolist() for k in range(2)] == [[True, False, False]] * 2
    with pytest.warns(ConvergenceWarning, match="^1 of 2 fits of the path, first at alpha=0: Coef"):
        path = fit_path(CoxLassoCCD(penalty_factor={"age": 0.0}), FRAME, Y, alphas=[0.1, 0.0])
    assert [path.at(k).infinite_.any() for k in range(2)] == [False, True]


def encode_survset(table):
    """Indicators without the first level, medians for what is missing, unit variances."""
    factors = [name for name in table if name.startswith("fac_")]
    numbers = [name for name in table if name.startswith("num_")]
    X = pd.get_dummies(table[numbers + factors], columns=factors, drop_first=True, dtype=float)
    X = X.fillna(X.median())
    X = X.loc[:, X.std() > 0]
    return (X - X.mean()) / X.std()


VERDICTS = json.loads((Path(__file__).parent / "oracles/published/separation.json").read_text())


@pytest.mark.filterwarnings("ignore:numpy.core:DeprecationWarning")  # pickles of NumPy 1
@pytest.mark.parametrize("name", VERDICTS)
def test_verdicts_of_coxph(name):
    """`survival::coxph` warns of infinite coefficients in the first two."""
    loader = pytest.importorskip("SurvSet.data", reason="SurvSet has the data").SurvLoader()
    table = loader.load_dataset(name)["df"]
    X, start = encode_survset(table), table["time"] if "time2" in table else None
    y = surv(table["event"], table["time2" if "time2" in table else "time"], start=start)
    prepared = prepare(CoxLassoCCD(alpha=0), X, y)
    found = find_infinite(prepared.problem, prepared.weight, np.ones(X.shape[1], bool))
    assert bool(found.any()) == VERDICTS[name]["warns"]
    if name == "d.oropha.rec":
        assert X.columns[found].tolist() == ["fac_cond_4"]


def test_a_level_without_events_leaves_the_fit_of_the_others():
    """Steps of a nearly singular model lead far beyond, and most of a step is no use."""
    rng = np.random.default_rng(2)
    event, W = rng.random(400) < 0.5, rng.normal(size=(400, 4))
    time = rng.exponential(np.exp(-W[:, 0]))
    cause = np.where(event, rng.choice(8, 400, p=rng.dirichlet(np.ones(8))), 8)
    X = np.column_stack([W, cause[:, None] == np.arange(1, 9)])
    X = X[:, X.any(axis=0)] / X.std(axis=0)[X.any(axis=0)]
    with pytest.warns(ConvergenceWarning, match=INFINITE):
        model = CoxLassoCCD(alpha=0).fit(X, surv(event, time))
    others = CoxLassoCCD(alpha=0).fit(X[event, :-1], surv(event[event], time[event]))
    assert model.converged_
    assert np.flatnonzero(model.infinite_).tolist() == [X.shape[1] - 1]
    assert model.log_likelihood_ == pytest.approx(others.log_likelihood_, abs=1e-3)
    np.testing.assert_allclose(model.coef_[:-1], others.coef_, atol=1e-3)


@pytest.mark.parametrize("seed", [34, 202])
def test_late_entries_whose_matrix_has_lost_its_digits_find_the_way_down(seed):
    """The matrix of such a fit is indefinite, beyond rounding, and leads up, not down."""
    rng = np.random.default_rng(seed)
    n = rng.choice([30, 100, 400])
    event, time = rng.random(n) < 0.3, rng.exponential(size=n)
    start = 0.9 * time * rng.random(n)
    level = rng.choice(6, n, p=rng.dirichlet(np.ones(6))) + 6 * event
    level = np.where(rng.random(n) < 0.95, level, rng.integers(0, 12, n))
    X = np.column_stack([level[:, None] == np.arange(1, 12), 10 * rng.normal(size=(n, 2))])
    X = X[:, X.std(axis=0) > 0]
    with pytest.warns(ConvergenceWarning, match=INFINITE):
        model = CoxLassoCCD(alpha=0).fit(X, surv(event, time, start=start))
    assert model.converged_ and model.log_likelihood_ > -1e-4


def test_a_failed_program_is_said(monkeypatch):
    class Failure:
        x, message = None, "numerical trouble"

    monkeypatch.setattr(separation, "linprog", lambda *arguments, **options: Failure)
    with pytest.warns(ConvergenceWarning, match=r"could not be decided: numerical trouble"):
        assert not separation.solve_program(np.ones(1), np.ones((2, 1))).any()


@pytest.fixture(scope="module")
def rare():
    """Two ordinary columns, and a code that nobody with an event has."""
    rng = np.random.default_rng(12)
    X = rng.normal(size=(150, 3))
    event = rng.random(150) < 0.6
    X[:, 2] = ~event & (rng.random(150) < 0.4)
    y = surv(event, rng.exponential(np.exp(-0.5 * X[:, 0])))
    with pytest.warns(ConvergenceWarning, match="are infinite"):
        return X, y, CoxLassoCCD(alpha=0).fit(X, y)


def test_replicates_of_infinite_coefficients_have_no_interval(rare):
    from sksurvgpu import bootstrap

    X, y, model = rare
    with pytest.warns(ConvergenceWarning, match=r"coefficients of `x2` are infinite, .* NaN"):
        result = bootstrap(model, X, y, n_replicates=20, random_state=0)
    assert result.infinite.tolist() == [False, False, True]
    assert result.summary()[["lower", "upper", "standard_error"]].isna().any(axis=1).tolist() == [
        False,
        False,
        True,
    ]


def test_infinite_coefficients_are_no_degree_of_freedom(rare):
    from sksurvgpu import proportional_hazards_test

    X, y, model = rare
    with pytest.warns(UserWarning, match="are infinite"):
        found = proportional_hazards_test(model, X, y).table.loc["GLOBAL"]
    kept = X[:, 2] == 0  # the limit of the fit
    limit = CoxLassoCCD(alpha=0, tol=1e-9).fit(X[kept, :2], y[kept])
    expected = proportional_hazards_test(limit, X[kept, :2], y[kept]).table.loc["GLOBAL"]
    assert found["df"] == expected["df"] == 2
    assert found["chisq"] == pytest.approx(expected["chisq"], rel=0.05)


def no_proof(search, most_rounds):
    """Stand in for tries without a program, which decide where columns are few."""
    search._grown = np.zeros(len(search.idx))
    return False


# One model a pattern; the others have many more linear programs of the same kinds.
PROVED = ("cox, breslow", "fine_gray", "conditional_logistic", "conditional_poisson", "logistic")


@pytest.mark.thorough(but=r"\[logistic\]|breslow")
@pytest.mark.parametrize(
    "name",
    [n if n in PROVED else pytest.param(n, marks=pytest.mark.thorough) for n in MODELS],
)
def test_a_proof_is_never_of_what_separates(name):
    model, n_proofs = MODELS[name], 0
    for seed in range(40):
        sample = small_sample(model, seed)
        if not is_a_fit(model, sample):
            continue
        problem = model.problem(sample)
        n_columns, n_rows = problem.n_columns, len(sample.X)
        weight = sample.sample_weight
        everywhere, rng = np.ones(n_columns, bool), np.random.default_rng(seed)
        is_infinite = find_infinite(
            problem, np.ones(n_rows) if weight is None else weight, everywhere
        )
        for scale in (0.0, 1.0, 5.0):
            point = weight, None, scale * rng.normal(size=n_columns)
            proved = proves_maximum(problem, *point, everywhere)
            n_proofs += proved
            assert not (proved and is_infinite.any())
    assert n_proofs


def test_wide_fits_are_proved_without_a_program(monkeypatch):
    def never(*arguments):
        raise AssertionError("a linear program was asked for")

    monkeypatch.setattr(separation, "balance", never)
    monkeypatch.setattr(separation, "solve_program", never)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1000, 110))
    y = rng.random(1000) < 1.0 / (1.0 + np.exp(-X[:, :20].sum(axis=1) / 4.0))
    assert not LogisticCCD(alpha=0.0).fit(X, y).infinite_.any()
    time = rng.exponential(np.exp(-X[:, 0]))
    assert not CoxLassoCCD(alpha=0.0).fit(X, surv(rng.random(1000) < 0.6, time)).infinite_.any()


@pytest.mark.parametrize("rank", [3, 30])
@pytest.mark.parametrize("is_separated", [False, True])
def test_of_columns_that_outnumber_the_rows_few_are_searched(rank, is_separated, monkeypatch):
    """Others follow from these; what a fit has reached is said in these, too."""
    sizes, rng = [], np.random.default_rng(3)
    few, n, p = rng.normal(size=(30, rank)), 30, 90
    time, event = rng.permutation(n) + 1.0, np.arange(n) % 2 == 0
    if is_separated:
        few[:, 0] = -time
    X = few @ rng.normal(size=(rank, p))
    balance = separation.balance
    monkeypatch.setattr(
        separation, "balance", lambda pairs: sizes.append(pairs.shape[1]) or balance(pairs)
    )
    problem = prepare(CoxLassoCCD(), X, surv(event, time)).problem
    every = np.ones(p, bool)
    most = min(rank, n - 1)
    for point in (None, (None, rng.normal(size=p))):
        found, n_constant = separation.find_directions(problem, np.ones(n), every, point)
        assert n_constant == p - most
        assert found.sum() == (most if is_separated or rank == n else 0)
        assert not found.any() or np.linalg.matrix_rank(X[:, found]) == found.sum()
    assert set(sizes) == {most}
    assert not separation.is_determined(problem, np.ones(n), every)
    X[:, 2:] = 1.0  # columns that do not vary do not count
    problem = prepare(CoxLassoCCD(), X, surv(event, time)).problem
    assert separation.is_determined(problem, np.ones(n), every)
    found, n_constant = separation.find_directions(problem, np.ones(n), np.arange(p) > 1, point)
    assert n_constant == p - 2 and not found.any()


def test_a_search_that_is_given_up_says_so_and_names_single_columns(monkeypatch):
    monkeypatch.setattr(separation, "MOST_WORK", 0.0)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 8))
    X[:, 3] = rng.random(300) < 0.05
    y = (rng.random(300) < 0.5) | (X[:, 3] > 0)
    monkeypatch.setattr(separation.Search, "_is_bounded", no_proof)
    with pytest.warns(ConvergenceWarning) as told:
        model = LogisticCCD(alpha=0.0).fit(X, y)
    assert np.flatnonzero(model.infinite_).tolist() == [3]
    for text in ("not searched to its end", INFINITE):
        assert any(text in str(warning.message) for warning in told)


@pytest.mark.filterwarnings("ignore:Coefficients of unpenalized columns are infinite")
def test_columns_that_separate_by_themselves_need_no_program(monkeypatch):
    """The second does once the rows are gone along which the first rises; copies ask for one."""

    def never(*arguments):
        raise AssertionError("a linear program was asked for")

    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 6))
    y = rng.random(400) < 0.5
    X[:, 1] = ~y & (rng.random(400) < 0.1)
    X[:, 4] = ~y * np.where(X[:, 1] == 1, 1.0, -1.0 * (rng.random(400) < 0.1))
    copied = np.column_stack([X, X[:, 1]])
    assert LogisticCCD(alpha=0.0).fit(copied, y).infinite_[[1, 4, 6]].sum() == 2
    monkeypatch.setattr(separation, "solve_program", never)
    for model, outcome in (
        (LogisticCCD(), y),
        (CoxLassoCCD(), surv(y, 1.0 + np.arange(400.0) % 7)),
    ):
        fitted = model.set_params(alpha=0.0).fit(X, outcome)
        assert np.flatnonzero(fitted.infinite_).tolist() == [1, 4]


def test_curvature_that_vanishes_overflows_nothing():
    """Predictors of -700 leave a separating column a curvature that has no inverse."""
    rng = np.random.default_rng(5)
    X, code = rng.normal(size=(60, 8)), rng.random(60) < 0.1
    y = surv((rng.random(60) < 0.4) & ~code, rng.exponential(size=60).round(2) + 0.01)
    model = CoxLassoCCD(penalty_factor={0: 0.0, 1: 0.0})
    with pytest.warns(ConvergenceWarning, match=INFINITE) as caught:
        fit_path(model, np.column_stack([code, X]), y, n_alphas=20)
    assert {warning.category for warning in caught} == {ConvergenceWarning}


def test_sparse_columns_are_proved_where_dense_ones_are_too_many(monkeypatch):
    """Their information is that of pairs of entries in a row, cheaper than tries without it."""
    rng = np.random.default_rng(0)
    X, y = (rng.random((2000, 40)) < 0.02).astype(float), rng.random(2000) < 0.3
    monkeypatch.setattr(separation, "MOST_OF_PROOF", 0.0)
    monkeypatch.setattr(separation, "FEW_ROUNDS", 0)
    monkeypatch.delattr(separation, "balance")
    assert not LogisticCCD(alpha=0).fit(X, y).infinite_.any()


@pytest.mark.filterwarnings("ignore:Coefficients of unpenalized columns are infinite")
@pytest.mark.parametrize("seed", [0, 1])
def test_levels_without_events_hold_no_others_up(seed):
    """Along these, secants of the unpenalized fit are rounding: a lasso beside them stood still."""
    rng = np.random.default_rng(seed)
    level = rng.integers(0, 200, 4000)
    time = rng.exponential(np.exp(-rng.normal(size=200)[level]))
    y = surv((rng.random(4000) < 0.3) & (level >= 30), time)
    factor = np.where(np.arange(200) < 60, 0.0, 1.0)
    model = CoxLassoCCD(alpha=1e-3, penalty_factor=factor).fit(np.eye(200)[level], y)
    assert model.converged_ and model.n_iter_ <= 16
    assert np.flatnonzero(model.infinite_).tolist() == list(range(30))


@pytest.mark.filterwarnings("ignore:Coefficients of unpenalized columns are infinite")
def test_rows_beside_a_separating_column_keep_their_part():
    """Censoring curves are of all rows, and the weight of a matched row is that of its set."""
    X = np.array([[0, 1], [0, 0], [1, 0], [0, 0], [0, 1.0]])
    y = competing_risks([2, 0, 0, 1, 1], [1.0, 3, 10, 5, 2])
    model = FineGrayCCD(alpha=0).fit(X, y, censoring_groups=[0, 0, 0, 1, 1])
    assert model.infinite_.tolist() == [True, False]
    X = np.array([[1, 0], [1, 0], [0, 0], [0, 1], [1, 1], [1, 0.0]])
    model = ConditionalLogisticCCD(alpha=0).fit(X, matched([0, 1, 0, 0, 1, 1], [0] * 6))
    assert model.infinite_.tolist() == [True, True]
