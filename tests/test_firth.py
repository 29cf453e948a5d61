"""Firth's penalty: optima by brute force, tables by hand, and R's logistf, coxphf and brglm2."""

import pickle
from functools import partial

import numpy as np
import pandas as pd
import pytest
from engine import dense, make_batch
from models import MODELS
from oracles.cases import load
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from sksurvgpu import (
    ConditionalLogisticCCD,
    CoxLassoCCD,
    Firth,
    LinearCCD,
    LogisticCCD,
    LogisticCV,
    PoissonCCD,
    bootstrap,
    fit_path,
    likelihood_ratio_test,
    matched,
    profile_likelihood,
    surv,
    wald,
)
from sksurvgpu.backends import cpu
from sksurvgpu.estimators.fitted import fitted_of
from sksurvgpu.routes.firth import MOST_COLUMNS, JeffreysRoute
from sksurvgpu.solver.fits import Fits

PUBLISHED = load("firth.json")
CASES = {case["name"]: case for case in PUBLISHED["cases"]}
DATASETS = {
    **PUBLISHED["datasets"], **load("coxph.json")["datasets"], **load("glm.json")["datasets"]
}  # fmt: skip
CLASSES = {"logistic": LogisticCCD, "poisson": PoissonCCD, "cox": CoxLassoCCD}


def read(case):
    """Class, columns, outcome, and what else the fit takes."""
    data, uses = DATASETS[case["dataset"]], case["uses"]
    X = np.column_stack(list(data["X"].values())).astype(float)
    names = {"weights": "sample_weight", "offset": "offset"}
    rows = {name: np.array(data[use]) for use, name in names.items() if use in uses}
    if case["model"] == "cox":
        entry = {"start": data["start"]} if "start" in uses else {}
        y = surv(np.array(data["event"], bool), data["time"], **entry)
    else:
        y = np.array(data["y"])
    return CLASSES[case["model"]], X, y, rows


def penalized(model, sample, columns, coef):
    """The oracle's penalized log-likelihood, and the information."""
    eta = columns @ coef + (0.0 if sample.offset is None else sample.offset)
    information = columns.T @ model.exact_hessian(sample, eta) @ columns
    sign, log_det = np.linalg.slogdet(information)
    if sign <= 0:
        return -np.inf, information
    return model.reference(sample, eta).loglik + 0.5 * log_det, information


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("name", [n for n in MODELS if "gaussian" not in n])
def test_no_coefficients_are_better(name, seed):
    model, p = MODELS[name], 4
    sample = model.sample(seed, p=p)
    route, batch = JeffreysRoute(np.zeros(p, bool), np.arange(p)), make_batch(sample, 0.0)
    [[solution]] = route.solve(Fits(model.problem(sample), batch, cpu))
    columns, coef = dense(sample.X), solution.coef
    if name in ("logistic", "poisson"):  # an intercept is a coefficient
        columns = np.column_stack([columns, np.ones(sample.n)])
        coef, model = np.append(coef, solution.baseline), MODELS[f"{name}, origin"]

    def value(coef):
        return penalized(model, sample, columns, coef)[0]

    found, information = penalized(model, sample, columns, coef)
    assert solution.converged
    assert solution.objective == pytest.approx(-found, rel=1e-12)
    errors = 1.0 / np.sqrt(np.diagonal(information))
    slope = [(value(coef + d) - value(coef - d)) / 2e-4 for d in np.diag(1e-4 * errors)]
    assert np.abs(slope).max() < 1e-7  # standard errors
    moves = np.random.default_rng(seed).normal(size=(5, len(coef))) * errors
    assert all(value(coef + size * move) < found for move in moves for size in (0.01, 1.0))


@pytest.mark.parametrize(("events", "exposed"), [((8, 0), (40, 10)), ((3, 5), (20, 9))])
def test_tables_have_half_an_event_more(events, exposed):
    """In saturated models the penalty is half an event in every cell of the table."""
    x = np.repeat([0.0, 1.0], exposed)
    y = np.concatenate([np.arange(n) < m for n, m in zip(exposed, events, strict=True)])
    model = LogisticCCD(penalty=Firth()).fit(x[:, None], y)
    case, total = np.array(events) + 0.5, np.array(exposed) + 1.0
    odds = np.log(case / (total - case))
    np.testing.assert_allclose([model.intercept_, model.coef_[0]], [odds[0], odds[1] - odds[0]])
    assert not model.infinite_.any()
    rate = PoissonCCD(penalty=Firth()).fit(
        np.array([[0.0], [1.0]]), np.array(events), offset=np.log(exposed)
    )
    log_rate = np.log(case / np.array(exposed))
    difference = log_rate[1] - log_rate[0]
    np.testing.assert_allclose([rate.intercept_, rate.coef_[0]], [log_rate[0], difference])


@pytest.mark.parametrize("name", CASES)
def test_coefficients_of_r(name, check_close):
    cls, X, y, rows = read(CASES[name])
    model = cls(penalty=Firth()).fit(X, y, **rows)
    found = np.append(model.coef_, getattr(model, "intercept_", []))
    check_close(found, CASES[name]["coefficients"], "other package")
    assert model.converged_
    assert not model.infinite_.any()


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if "held" in case])
def test_tests_and_intervals_of_r(name):
    case = CASES[name]
    cls, X, y, rows = read(case)
    full, p = cls(penalty=Firth()).fit(X, y, **rows), X.shape[1]
    for held, expected in zip((list(range(p)), case["held"]), case["statistics"], strict=True):
        restricted = cls(penalty=Firth(hold=held)).fit(X, y, **rows)
        test = likelihood_ratio_test(restricted, full)
        assert test.df == len(held)
        assert test.statistic == pytest.approx(expected, rel=1e-10)
    result = profile_likelihood(cls(penalty=Firth()), X, y, list(range(p)), **rows)
    np.testing.assert_allclose(result.p_values, case["p_values"], rtol=1e-8)
    for side in ("lower", "upper") if "lower" in case else ():
        np.testing.assert_allclose(result.intervals[side], case[side], rtol=1e-6)


RNG = np.random.default_rng(3)
X = np.column_stack([RNG.random((90, 2)) < 0.3, RNG.normal(size=(90, 2))]).astype(float)
TIME, EVENT = np.ceil(8 * RNG.exponential(size=90)), RNG.random(90) < 0.4
FIRTH = {"penalty": Firth()}


def test_coefficients_that_change_are_those_of_split_rows():
    model = CoxLassoCCD(**FIRTH, time_varying={0: [4.0]}).fit(X, surv(EVENT, TIME))
    late = TIME > 4
    start = np.r_[np.zeros(90), np.full(late.sum(), 4.0)]
    time = np.r_[np.minimum(TIME, 4.0), TIME[late]]
    event = np.r_[EVENT & ~late, EVENT[late]]
    split = np.vstack([X, X[late]])
    split = np.insert(split, 1, np.where(start > 0, split[:, 0], 0.0), axis=1)
    split[start > 0, 0] = 0.0
    other = CoxLassoCCD(**FIRTH).fit(split, surv(event, time, start=start))
    np.testing.assert_allclose(model.coef_, other.coef_, rtol=1e-7)
    assert model.objective_ * fitted_of(model).total_weight == pytest.approx(
        other.objective_ * len(split)
    )


def test_a_weight_of_two_is_the_row_twice():
    weight, twice = np.where(EVENT, 2.0, 1.0), np.r_[np.arange(90), np.flatnonzero(EVENT)]
    for model, y in ((CoxLassoCCD(**FIRTH), surv(EVENT, TIME)), (LogisticCCD(**FIRTH), TIME > 5)):
        by_weight = clone(model).fit(X, y, sample_weight=weight)
        np.testing.assert_allclose(by_weight.coef_, model.fit(X[twice], y[twice]).coef_, rtol=1e-7)


@pytest.mark.parametrize("model", [LogisticCCD(**FIRTH), PoissonCCD(**FIRTH)])
def test_units_and_origins_of_columns_do_not_matter(model):
    y = (TIME > 6).astype(float)
    plain = clone(model).fit(X, y)
    moved = model.fit(X * [1.0, 1e3, 1e-4, 1.0] + [0.0, 0.0, 0.0, 2000.0], y)
    np.testing.assert_allclose(moved.coef_ * [1.0, 1e3, 1e-4, 1.0], plain.coef_, rtol=1e-6)
    assert moved.intercept_ == pytest.approx(plain.intercept_ - 2000.0 * moved.coef_[3], rel=1e-6)


def test_blocks_of_columns_change_nothing(monkeypatch):
    y, expected = surv(EVENT, TIME), []
    for most in (2**25, 250):
        monkeypatch.setattr("sksurvgpu.information.rows.MOST_NUMBERS", most)
        fits = CoxLassoCCD(**FIRTH).fit(X, y), LogisticCCD(**FIRTH).fit(X, TIME > 6)
        expected.append(np.concatenate([fit.coef_ for fit in fits]))
    np.testing.assert_allclose(*expected, rtol=1e-8)


@pytest.mark.parametrize("ties", ["exact", "efron"])
def test_separated_sets_have_finite_coefficients(ties):
    make = partial(ConditionalLogisticCCD, **FIRTH, ties=ties)
    group, case = np.repeat(np.arange(30), 3), np.tile([1, 0, 0], 30)
    exposed = np.where(case == 1, 1.0, RNG.random(90) < 0.3)[:, None]
    y = matched(case, group)
    model = make().fit(exposed, y)
    assert model.converged_
    assert 2.0 < model.coef_[0] < 8.0
    result = profile_likelihood(make(), exposed, y, 0)
    assert result.intervals["lower"].iloc[0] > 0
    assert np.isfinite(result.intervals).all(axis=None)


def test_curves_belong_to_the_coefficients():
    model = CoxLassoCCD(**FIRTH).fit(X, surv(EVENT, TIME))
    empty, known = np.zeros((90, 1)), X @ model.coef_
    known = CoxLassoCCD(alpha=0.0, tol=1e-9).fit(empty, surv(EVENT, TIME), offset=known)
    times = [2.0, 10.0]
    expected = known.predict_survival_function(np.zeros((1, 1)))[0](times)
    found = model.predict_survival_function(np.zeros((1, 4)))[0](times)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("cls", [LogisticCCD, PoissonCCD])
def test_corrected_intercepts_predict_the_mean(cls):
    y, weight = (TIME > 12).astype(float), RNG.uniform(0.5, 2.0, 90)
    plain = cls(**FIRTH).fit(X, y, sample_weight=weight)
    model = cls(penalty=Firth(correct_intercept=True)).fit(X, y, sample_weight=weight)
    predictor = X @ model.coef_ + model.intercept_
    mean = np.exp(predictor) if cls is PoissonCCD else 1.0 / (1.0 + np.exp(-predictor))
    assert weight @ mean == pytest.approx(weight @ y)
    np.testing.assert_array_equal(model.coef_, plain.coef_)
    assert model.intercept_ < plain.intercept_  # of rare events


def test_it_is_a_parameter_like_others():
    model = LogisticCCD(penalty=Firth(hold="b"))
    assert repr(model) == "LogisticCCD(penalty=Firth(hold='b'))"
    assert model.get_params()["penalty__hold"] == "b"
    table = pd.DataFrame(X, columns=list("abcd"))
    fitted = pickle.loads(pickle.dumps(clone(model).fit(table, EVENT)))
    assert fitted.coef_[1] == 0.0
    assert (fitted.coef_ != 0).sum() == 3
    search = GridSearchCV(LogisticCCD(), {"penalty": [None, Firth()]}, cv=3).fit(X, EVENT)
    assert len(search.cv_results_["params"]) == 2


def test_it_says_where_it_was_fitted():
    model = LogisticCCD(**FIRTH).fit(X, EVENT)
    assert model.backend_ == "cpu"
    assert "Firth" in model.backend_reason_


def test_bootstrap_refits_it():
    result = bootstrap(
        LogisticCCD(**FIRTH), X, EVENT, n_replicates=5, kind="exponential", random_state=0
    )
    assert np.isfinite(result.coefs).all()


def test_it_stops_where_it_is_told():
    with pytest.warns(UserWarning, match="did not converge in 1 iteration"):
        model = LogisticCCD(**FIRTH, max_iter=1).fit(X, EVENT)
    assert not model.converged_


COLLINEAR = pd.DataFrame({"a": X[:, 0], "b": 1.0 - X[:, 0], "c": X[:, 2]})


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (lambda: LogisticCCD(**FIRTH, bounds=(0, 1)).fit(X, EVENT), "`bounds`"),
        (lambda: LogisticCCD(**FIRTH, l1_ratio=0.5).fit(X, EVENT), "`l1_ratio`"),
        (lambda: fit_path(LogisticCCD(**FIRTH), X, EVENT), r"Firth\(\).*fit_path"),
        (lambda: LogisticCV(**FIRTH).fit(X, EVENT), r"Firth\(\).*LogisticCV"),
        (lambda: LinearCCD(**FIRTH).fit(X, TIME), "Gaussian"),
        (lambda: LogisticCCD(**FIRTH).fit(COLLINEAR, EVENT), "singular.*`a`, `b`. They"),
        (lambda: CoxLassoCCD(**FIRTH).fit(X * [0, 1, 1, 1], surv(EVENT, TIME)), "`x0`. They"),
        (
            lambda: CoxLassoCCD(penalty=Firth(correct_intercept=True)).fit(X, surv(EVENT, TIME)),
            "no intercept",
        ),
        (lambda: LogisticCCD(penalty=Firth(hold="z")).fit(COLLINEAR, EVENT), "`hold`.*'z'"),
        (
            lambda: LogisticCCD(**FIRTH).fit(np.zeros((90, MOST_COLUMNS + 1)), EVENT),
            "1,001 coefficients",
        ),
        (
            lambda: wald(LogisticCCD(**FIRTH).fit(X, EVENT), X, EVENT),
            "`penalty`.*profile_likelihood",
        ),
        (
            lambda: likelihood_ratio_test(
                LogisticCCD(**FIRTH).fit(X[:, :2], EVENT), LogisticCCD(**FIRTH).fit(X, EVENT)
            ),
            "2 columns.*`hold`",
        ),
        (
            lambda: likelihood_ratio_test(*2 * [LogisticCCD(**FIRTH).fit(X, EVENT)]),
            "must hold all columns",
        ),
        (
            lambda: likelihood_ratio_test(
                LogisticCCD(alpha=0).fit(X[:, :2], EVENT), LogisticCCD(**FIRTH).fit(X, EVENT)
            ),
            "`penalty`",
        ),
    ],
)
def test_what_is_refused(action, message):
    with pytest.raises(ValueError, match=message):
        action()


def test_parameters_of_other_types_are_refused():
    for penalty, name in ((Firth(hold=0.5), "hold"), (Firth(correct_intercept=1), "correct_inter")):
        with pytest.raises(TypeError, match=f"`{name}"):
            LogisticCCD(penalty=penalty).fit(X, EVENT)
