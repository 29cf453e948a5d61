"""Every estimator as scikit-learn sees it; `faces.py` has their data."""

import copy
import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pytest
from faces import COUNT, FACES, IS_CASE, STRATA, SUBJECT, TIME, N, P, X, same_predictions
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.utils import check_array
from sklearn.utils.estimator_checks import parametrize_with_checks

from sksurvgpu import (
    CaseSeriesCCD,
    ConditionalLogisticCCD,
    ConditionalPoissonCCD,
    FineGrayCCD,
    LinearCCD,
    LogisticCCD,
    PoissonCCD,
    case_series,
    competing_risks,
    matched,
)
from sksurvgpu.data.design.columns import build_design
from sksurvgpu.solver.fits import Fits

FRAME = pd.DataFrame(X.toarray(), columns=[f"code{j}" for j in range(P)])


@pytest.fixture(params=FACES)
def face(request):
    return FACES[request.param]


def positive(y):
    """The plain numbers that the checks pass for y, made positive; None stays None."""
    if y is None:
        return None
    y = check_array(y, ensure_2d=False, input_name="y").ravel()
    return y - y.min(initial=0.0) + 1.0


class Competing(FineGrayCCD):
    """Takes numbers as times; the kind of event follows from the number."""

    def fit(self, X, y, sample_weight=None):
        build_design(X)
        return super().fit(X, self.read(y), sample_weight=sample_weight)

    def score(self, X, y):
        return super().score(X, self.read(y))

    @staticmethod
    def read(y):
        y = positive(y)
        return y if y is None else competing_risks(np.where(np.floor(3 * y) % 3 == 2, 2, 1), y)


class Eras(CaseSeriesCCD):
    """Takes numbers as counts in the eras of one subject."""

    def fit(self, X, y, sample_weight=None):
        build_design(X)
        return super().fit(X, self.read(y), sample_weight=sample_weight)

    def score(self, X, y):
        return super().score(X, self.read(y))

    @staticmethod
    def read(y):
        y = positive(y)
        return y if y is None else case_series(np.ceil(y), np.ones(len(y)), np.zeros(len(y), int))


class Counts(ConditionalPoissonCCD):
    """Takes numbers as counts in one stratum."""

    def fit(self, X, y, sample_weight=None):
        build_design(X)
        return super().fit(X, positive(y), sample_weight=sample_weight)

    def score(self, X, y):
        return super().score(X, positive(y))


class OneSet(ConditionalLogisticCCD):
    """Takes numbers above the mean as the cases of one set."""

    def fit(self, X, y, sample_weight=None):
        build_design(X)
        return super().fit(X, self.read(y), sample_weight=sample_weight)

    def score(self, X, y):
        return super().score(X, self.read(y))

    @staticmethod
    def read(y):
        y = positive(y)
        return y if y is None else matched(y > y.mean(), np.zeros(len(y), int))


# Check -> why it cannot pass.
OF_GROUPS = "the check weighs rows, the model wants one weight for all rows of a subject or set"
WITHIN_GROUPS = {
    "check_fit2d_1sample": "a single row is an error with a message of its own",
    "check_sample_weights_not_overwritten": OF_GROUPS,
    "check_sample_weight_equivalence_on_dense_data": OF_GROUPS,
    "check_sample_weight_equivalence_on_sparse_data": OF_GROUPS,
}
ONE_ROW = {"check_fit2d_1sample": WITHIN_GROUPS["check_fit2d_1sample"]}
EXPECTED_FAILURES = {"Eras": WITHIN_GROUPS, "OneSet": WITHIN_GROUPS, "Counts": ONE_ROW}


@parametrize_with_checks(
    [
        LogisticCCD(tol=1e-10),
        PoissonCCD(tol=1e-10),
        LinearCCD(tol=1e-10),
        Competing(tol=1e-10),
        Eras(tol=1e-10),
        Counts(tol=1e-10),
        OneSet(tol=1e-10),
    ],
    expected_failed_checks=lambda estimator: EXPECTED_FAILURES.get(type(estimator).__name__, {}),
)
# With the default penalty, of tiny data, some select nothing.
@pytest.mark.filterwarnings("ignore::sksurvgpu.exceptions.NothingSelectedWarning")
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_kinds_of_estimators():
    kinds = {name: (is_classifier(f.make()), is_regressor(f.make())) for name, f in FACES.items()}
    assert [name for name in kinds if kinds[name][0]] == ["logistic"]
    assert [name for name in kinds if kinds[name][1]] == ["poisson", "linear"]


def test_parameters_are_kept_as_given(face):
    factor = {0: 0.0}
    model = face.make(alpha=0.5, penalty_factor=factor, max_iter=7, n_jobs=2)
    assert model.get_params()["penalty_factor"] is factor
    assert clone(model).get_params() == model.get_params()
    assert face.cls(**model.get_params()).get_params() == model.get_params()
    assert model.set_params(alpha=0.25) is model and model.alpha == 0.25
    assert repr(face.cls(alpha=0.5, verbose=2)) == f"{face.cls.__name__}(alpha=0.5, verbose=2)"
    with pytest.raises(TypeError):
        face.cls(0.5)


def test_defaults_are_those_of_all_models(face):
    shared = {
        "alpha": 0.01,
        "l1_ratio": 1.0,
        "penalty_factor": None,
        "bounds": None,
        "prior_mean": None,
        "penalty": None,
        "relax": None,
        "standardize": False,
        "algorithm": "majorized",
        "tol": 1e-6,
        "max_iter": 1000,
        "warm_start": False,
        "backend": "auto",
        "precision": "float64",
        "device": 0,
        "n_jobs": None,
        "verbose": 0,
    }
    own = {
        "CoxLassoCCD": {"ties": "breslow", "time_varying": None},
        "FineGrayCCD": {"event_of_interest": 1, "censoring_ties": "crr"},
        "ConditionalLogisticCCD": {"ties": "exact"},
        "LogisticCCD": {"fit_intercept": True, "class_weight": None},
        "PoissonCCD": {"fit_intercept": True},
        "LinearCCD": {"fit_intercept": True},
    }
    assert face.cls().get_params() == shared | own.get(face.cls.__name__, {})


def test_a_fit_forgets_the_names_of_the_one_before(face):
    model = face.fit(FRAME)
    assert model.feature_names_in_.tolist() == list(FRAME)
    model.fit(X, face.y, **face.arguments())
    assert not hasattr(model, "feature_names_in_")


def test_storage_does_not_matter(face):
    expected = face.fit()
    assert not hasattr(expected, "feature_names_in_")
    assert expected.n_features_in_ == P and expected.coef_.shape == (P,)
    assert 0 < np.count_nonzero(expected.coef_) < P
    tables = {
        "csc": X.tocsc(),
        "dense": X.toarray(),
        "float32": FRAME.astype({"code1": np.float32}),
        "sparse frame": FRAME.astype(pd.SparseDtype(float, 0.0)),
        "pandas": FRAME,
        "polars": pl.from_pandas(FRAME),
    }
    for name, table in tables.items():
        model = face.fit(table)
        np.testing.assert_allclose(model.coef_, expected.coef_, atol=1e-9, err_msg=name)
        same_predictions(face, model, expected, table)
    assert model.feature_names_in_.tolist() == FRAME.columns.tolist()
    assert model.summary().index.tolist() == FRAME.columns.tolist()
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(FRAME.rename(columns={"code1": "code0", "code0": "code1"}))


@pytest.mark.parametrize(
    "face",
    [face for face in FACES.values() if face.y.dtype.names is None],
    ids=lambda f: f.cls.__name__,
)
def test_outcomes_in_other_containers(face):
    expected = face.fit()
    for y in (face.y.tolist(), pd.Series(face.y, index=range(N, 0, -1)), pl.Series(face.y)):
        rows = {name: pd.Series(v, index=range(N, 0, -1)) for name, v in face.arguments().items()}
        np.testing.assert_array_equal(face.make().fit(X, y, **rows).coef_, expected.coef_)


def test_fitted_numbers_belong_together(face):
    model = face.fit(names=face.rows, l1_ratio=0.7, tol=1e-6)
    coef = model.coef_
    penalty = 0.02 * (0.7 * np.abs(coef).sum() + 0.15 * (coef**2).sum())
    mean = -model.log_likelihood_ / face.rows["sample_weight"].sum() + penalty
    assert model.objective_ == pytest.approx(mean, rel=1e-12)
    assert model.converged_ is True and 0 <= model.dual_gap_ < 1e-5 and model.n_iter_ > 0
    assert model.kkt_ <= 1e-6 * model.alpha_max_
    assert model.backend_ == "cpu" and "takes the CPU" in model.backend_reason_


def test_every_row_argument_matters(face):
    """None is dropped on the way to the problem."""
    full = face.fit(names=face.rows)
    for name in face.rows:
        if name not in face.needed:
            fewer = face.fit(names=[other for other in face.rows if other != name])
            assert np.abs(full.coef_ - fewer.coef_).max() > 1e-4, name


@pytest.mark.filterwarnings("ignore::sksurvgpu.exceptions.NothingSelectedWarning")
def test_alpha_max_is_the_least_alpha_without_coefficients(face):
    top = face.fit(alpha=1.0, penalty_factor={3: 2.0}, names=face.rows).alpha_max_
    for factor, expected in ((1.001, 0), (0.98, 1)):
        model = face.fit(alpha=factor * top, penalty_factor={3: 2.0}, names=face.rows)
        assert np.count_nonzero(model.coef_) == expected


@pytest.mark.parametrize("l1_ratio", [1.0, 0.3])
def test_both_algorithms_find_one_optimum(face, l1_ratio):
    params = {"l1_ratio": l1_ratio, "penalty_factor": {0: 0.0, 3: 2.0}, "names": face.rows}
    params["alpha"] = 0.005
    majorized, exact = (face.fit(algorithm=a, **params) for a in ("majorized", "exact"))
    np.testing.assert_allclose(majorized.coef_, exact.coef_, atol=1e-7)
    assert majorized.coef_[0] != 0
    if hasattr(majorized, "intercept_"):
        assert majorized.intercept_ == pytest.approx(exact.intercept_, abs=1e-7)


def test_weight_is_the_number_of_copies(face):
    """Of the sum, too: the mean is over copies."""
    copies = np.random.default_rng(1).integers(0, 3, N)
    if face.groups is not None:
        copies = np.random.default_rng(1).integers(0, 2, N)[face.groups]
    names = [name for name in face.rows if name != "sample_weight"]
    weighted = face.make().fit(X, face.y, copies.astype(float), **face.arguments(names))
    rows = np.repeat(np.arange(N), copies)
    copied = face.make().fit(X[rows], face.y[rows], **face.arguments(names, rows))
    np.testing.assert_allclose(weighted.coef_, copied.coef_, atol=1e-7)
    assert weighted.log_likelihood_ == pytest.approx(copied.log_likelihood_, rel=1e-9)
    assert weighted.objective_ == pytest.approx(copied.objective_, rel=1e-9)


def test_offset_acts_like_a_fixed_column(face):
    params = {"alpha": 0.0, "tol": 1e-10}
    names = [name for name in face.rows if name != "offset"]
    table = X.toarray()
    full = face.fit(table, names=names, **params)
    rest = face.make(**params)
    offset = full.coef_[0] * table[:, 0]
    rest.fit(table[:, 1:], face.y, offset=offset, **face.arguments(names))
    np.testing.assert_allclose(rest.coef_, full.coef_[1:], atol=1e-6)


def test_columns_without_information_get_zero(face):
    table = X.toarray()
    table[:, 4], table[:, 7] = 0.0, 3.0
    intercept = {"fit_intercept": True} if "fit_intercept" in face.make().get_params() else {}
    for alpha in (0.0, 0.02):
        model = face.fit(table, alpha=alpha, tol=1e-6, **intercept)
        assert model.coef_[4] == model.coef_[7] == 0.0
        assert model.converged_


def test_pickled_models_predict(face):
    model = face.fit(names=face.rows)
    loaded = pickle.loads(pickle.dumps(model))
    for kept, restored in zip(face.predict(model), face.predict(loaded), strict=True):
        np.testing.assert_array_equal(kept, restored)
    scored = face.arguments(face.scored)
    assert loaded.score(X, face.y, **scored) == model.score(X, face.y, **scored)
    pd.testing.assert_frame_equal(loaded.summary(), model.summary())


def test_unfitted_models_say_so(face):
    for method in ("predict", "score", "summary"):
        arguments = {"predict": (X,), "score": (X, face.y)}.get(method, ())
        with pytest.raises(NotFittedError, match=f"^This {face.cls.__name__} instance is not"):
            getattr(face.make(), method)(*arguments)


def test_warm_start_begins_where_the_last_fit_ended(face):
    model = face.make(warm_start=True, alpha=0.005)
    cold = model.fit(X, face.y, **face.arguments()).n_iter_
    coef = model.coef_
    assert model.fit(X, face.y, **face.arguments()).n_iter_ < max(cold, 1)
    np.testing.assert_allclose(model.coef_, coef, atol=1e-8)
    model.fit(X[:, :7], face.y, **face.arguments())
    assert len(model.coef_) == 7


def test_not_converging_warns_with_the_numbers(face):
    message = (
        rf"^{face.cls.__name__}\(alpha=0\.001\) did not converge in 1 iteration\(s\): the "
        r"largest violation of the optimality conditions is \S+ standard errors \(kkt_se_\), where "
        r"tol=1e-10 allows \S+, or \S+ in units of alpha \(kkt_\), of which 1 % is allowed; "
        r"raise max_iter=1\.$"
    )
    algorithm = "exact" if face is FACES["linear"] else "majorized"  # one step solves least squares
    with pytest.warns(ConvergenceWarning, match=message) as caught:
        model = face.fit(alpha=0.001, max_iter=1, algorithm=algorithm, names=face.rows)
    assert model.converged_ is False and len(caught) == 1


@pytest.mark.thorough(but=r"\[(cox|logistic|poisson)\]")
def test_the_warning_points_at_the_caller(face):
    model = face.make(alpha=0.001, max_iter=1, algorithm="exact")
    with pytest.warns(ConvergenceWarning) as caught:
        model.fit(X, face.y, **face.arguments(face.rows))
    assert caught[0].filename == __file__


def test_verbose(face, capsys):
    face.fit()
    assert capsys.readouterr().out == ""
    face.fit(verbose=1)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1 and lines[0].startswith(("alpha 0.02 ", "alpha 0.02: "))
    iterations = face.fit(verbose=2).n_iter_
    printed = capsys.readouterr().out
    assert printed.count("objective") >= iterations and "KKT" in printed


def test_threads_change_no_bit(face):
    one, three = (face.fit(names=face.rows, n_jobs=n) for n in (1, 3))
    np.testing.assert_array_equal(one.coef_, three.coef_)
    assert one.log_likelihood_ == three.log_likelihood_ and one.kkt_ == three.kkt_
    for values, others in zip(face.predict(one), face.predict(three), strict=True):
        np.testing.assert_array_equal(values, others)


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_a_failed_refit_leaves_the_model_whole(face, monkeypatch, error):
    model = face.fit(FRAME, names=face.rows)
    before, names = face.predict(model, FRAME), set(vars(model))
    numbers = {name: copy.deepcopy(vars(model)[name]) for name in ("coef_", "n_features_in_")}

    def fail(*arguments):
        raise error

    monkeypatch.setattr("sksurvgpu.solver.fits.Fits.solve", fail)
    half = np.isin(SUBJECT, np.arange(30))
    fewer = face.arguments(face.needed, half)
    y = np.where(face.y == "yes", "b", "a") if face is FACES["logistic"] else face.y
    with pytest.raises(error):
        model.fit(X[half][:, :7], y[half], **fewer)
    assert set(vars(model)) == names
    for kept, expected in zip(face.predict(model, FRAME), before, strict=True):
        np.testing.assert_array_equal(kept, expected)
    for name, value in numbers.items():
        np.testing.assert_array_equal(vars(model)[name], value)
    monkeypatch.undo()
    model.fit(X[half][:, :7], y[half], **fewer)
    assert model.n_features_in_ == 7 and not hasattr(model, "feature_names_in_")


def test_data_are_not_changed(face):
    table, y = X.toarray(), face.y.copy()
    rows = {name: values.copy() for name, values in face.rows.items()}
    for array in (table, y, *rows.values()):
        array.setflags(write=False)
    face.make().fit(table, y, **rows)
    np.testing.assert_array_equal(y, face.y)


def test_summary(face):
    model = face.fit()
    table = model.summary()
    assert table.index.name == "feature" and table.index.tolist() == [f"x{j}" for j in range(P)]
    assert table.columns.tolist() == ["coef"] + ([face.ratio] if face.ratio else [])
    np.testing.assert_array_equal(table["coef"], model.coef_)
    if face.ratio is None:
        return
    np.testing.assert_allclose(table[face.ratio], np.exp(model.coef_), rtol=1e-15)
    model.coef_ = np.full(P, 1000.0)
    assert np.isinf(model.summary()[face.ratio]).all()


def separated(face):
    """A column whose coefficient is minus or plus infinity, and the name of its effect."""
    y = face.y.copy()
    hit = np.isin(SUBJECT, np.arange(15)) & (np.arange(N) % 2 == 0)
    if face is FACES["cox"]:
        y["event"][hit] = False
    elif face is FACES["fine-gray"]:
        y["event"][hit] = 0
    elif face is FACES["case series"]:
        y["count"][hit] = 0
    else:
        y[hit] = "no" if face is FACES["logistic"] else 0
    return hit.astype(float), y


@pytest.mark.parametrize(
    "face", [face for face in FACES.values() if face.ratio], ids=lambda face: face.cls.__name__
)
def test_infinite_coefficients_are_named(face):
    """Of all models but least squares, whose optimum is finite."""
    hit, y = separated(face)
    table = FRAME.assign(hit=hit)
    message = (
        r"Coefficients of unpenalized columns are infinite, because the columns separate the "
        r"events: `hit` \(-[\d.e+]+\), with what was reached when the fit stopped; penalize them "
        r"\(alpha, penalty_factor\), merge them with others, or leave them out\.$"
    )
    with pytest.warns(ConvergenceWarning, match=message) as caught:
        face.make(penalty_factor={"hit": 0.0}).fit(table, y, **face.arguments())
    assert len(caught) == 1 and caught[0].filename == __file__
    model = face.make(penalty_factor={"hit": 0.1}).fit(table, y, **face.arguments())
    assert -12 < model.coef_[-1] < 0


def test_stalling_is_not_a_lack_of_iterations(face, monkeypatch):
    solve = Fits.solve

    def stall(*arguments):
        return [[replace(solve(*arguments)[0][0], converged=False, n_iter=7)]]

    monkeypatch.setattr("sksurvgpu.solver.fits.Fits.solve", stall)
    with pytest.warns(ConvergenceWarning, match=r"the residual stopped falling, .*: raise tol="):
        face.fit()


def test_labels_of_strata_may_be_of_any_kind():
    face = FACES["conditional poisson"]
    expected = face.fit(names=["strata"]).coef_
    for labels in (SUBJECT.astype(str), pd.Series(SUBJECT, dtype="category"), SUBJECT * 1.0 - 7):
        model = face.make().fit(X, COUNT, strata=labels)
        np.testing.assert_allclose(model.coef_, expected, atol=1e-9)
    pairs = ConditionalLogisticCCD(tol=1e-10).fit(X, matched(IS_CASE, STRATA))
    given = ConditionalLogisticCCD(tol=1e-10).fit(X, IS_CASE, strata=STRATA)
    np.testing.assert_array_equal(pairs.coef_, given.coef_)
    in_y = FineGrayCCD().fit(
        X, competing_risks(FACES["fine-gray"].y["event"], TIME, stratum=STRATA)
    )
    apart = FineGrayCCD().fit(X, FACES["fine-gray"].y, strata=STRATA)
    np.testing.assert_array_equal(in_y.coef_, apart.coef_)
