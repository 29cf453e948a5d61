"""Cross-validation against a loop over fits of subsets, through the public interface alone.

The log-likelihood of rows at given coefficients is that of a fit without a coefficient whose offset
is their linear predictor: a penalty so large that nothing moves.
"""

import numpy as np
import pytest
from faces import CODE, COUNT, EXPOSURE, FACES, IS_CASE, OFFSET, STRATA, SUBJECT, TIME, N, X
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, ShuffleSplit
from sklearn.preprocessing import MaxAbsScaler

from sksurvgpu import (
    CaseSeriesCCD,
    CaseSeriesCV,
    ConditionalLogisticCCD,
    ConditionalLogisticCV,
    ConditionalPoissonCCD,
    ConditionalPoissonCV,
    CoxLassoCCD,
    CoxLassoCV,
    FineGrayCCD,
    FineGrayCV,
    LinearCCD,
    LinearCV,
    LogisticCCD,
    LogisticCV,
    PoissonCCD,
    PoissonCV,
    SurvivalKFold,
    fit_path,
    make_pipeline,
    surv,
)
from sksurvgpu.datasets import simulate_cox, simulate_ehr
from sksurvgpu.selection.cv import CrossValidated
from sksurvgpu.solver.way import Way

# The fits of the loop may select nothing, and say so.
pytestmark = pytest.mark.filterwarnings("ignore::sksurvgpu.exceptions.NothingSelectedWarning")

ALPHAS = [0.05, 0.02, 0.005]
HUGE = 1e6
STRONG = simulate_cox(400, 20, density=0.3, random_state=0)  # something to learn from
# Name of a face, classes, parameters of the model, names of arguments of `fit`.
CASES = {
    "cox": ("cox", CoxLassoCV, CoxLassoCCD, {}, ()),
    "cox, all arguments": (
        "cox",
        CoxLassoCV,
        CoxLassoCCD,
        {"ties": "efron", "l1_ratio": 0.5},
        ("sample_weight", "offset", "strata"),
    ),
    "cox, time-varying": ("cox", CoxLassoCV, CoxLassoCCD, {"time_varying": {0: [20.0]}}, ()),
    "fine-gray": ("fine-gray", FineGrayCV, FineGrayCCD, {"penalty_factor": {0: 0.0}}, ()),
    "fine-gray, all arguments": (
        "fine-gray",
        FineGrayCV,
        FineGrayCCD,
        {},
        ("sample_weight", "offset", "strata", "censoring_groups"),
    ),
    "case series": ("case series", CaseSeriesCV, CaseSeriesCCD, {}, ("sample_weight", "offset")),
    "conditional logistic": (
        "conditional logistic",
        ConditionalLogisticCV,
        ConditionalLogisticCCD,
        {},
        ("strata",),
    ),
    "logistic": ("logistic", LogisticCV, LogisticCCD, {}, ("sample_weight", "offset")),
    "logistic, no intercept": ("logistic", LogisticCV, LogisticCCD, {"fit_intercept": False}, ()),
    "poisson": ("poisson", PoissonCV, PoissonCCD, {}, ("sample_weight", "exposure", "offset")),
    "conditional poisson": (
        "conditional poisson",
        ConditionalPoissonCV,
        ConditionalPoissonCCD,
        {},
        ("strata", "exposure"),
    ),
    "linear": ("linear", LinearCV, LinearCCD, {}, ("sample_weight", "offset")),
}


def pairs_of(face, n_splits=3, seed=1):
    groups = np.arange(N) if face.groups is None else face.groups
    codes = np.unique(groups, return_inverse=True)[1]
    fold = np.random.default_rng(seed).integers(0, n_splits, codes.max() + 1)[codes]
    return [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(n_splits)]


def log_likelihood(model, face, rows, arguments):
    """Log-likelihood of rows at a fitted model."""
    at = model.get_params() | {"alpha": HUGE, "l1_ratio": 1.0, "penalty_factor": None}
    at.pop("time_varying", None)
    arguments = {name: values[rows] for name, values in arguments.items()}
    eta = X[rows] @ model.coef_ + arguments.pop("offset", np.zeros(len(rows)))
    if "fit_intercept" in at:
        eta, at["fit_intercept"] = eta + model.intercept_, False
    null = type(model)(**at).fit(X[rows], face.y[rows], offset=eta, **arguments)
    assert not null.coef_.any()
    return null.log_likelihood_


def loop(case, score, pairs):
    """Scores of a plain loop, and the number of events held out, or of rows."""
    face, _, single, params, names = case
    face = FACES[face]
    arguments = face.arguments(names)
    weight = arguments.get("sample_weight", np.ones(N))
    counts = {"cox": CODE == 1, "fine-gray": CODE == 1, "logistic": np.ones(N)}
    counts |= {"case series": COUNT, "poisson": COUNT, "conditional logistic": IS_CASE}
    counts |= {"conditional poisson": COUNT, "linear": np.ones(N)}
    found = np.empty((len(ALPHAS), len(pairs)))
    for b, (train, test) in enumerate(pairs):
        for i, alpha in enumerate(ALPHAS):
            model = single(**params, alpha=alpha, tol=1e-11)
            model.fit(X[train], face.y[train], **face.arguments(names, train))
            if score == "held_out":
                found[i, b] = log_likelihood(model, face, test, arguments)
            else:
                both = log_likelihood(model, face, np.arange(N), arguments)
                found[i, b] = both - log_likelihood(model, face, train, arguments)
    events = weight * counts[case[0]]
    return found, np.array([events[test].sum() for _, test in pairs])


@pytest.fixture
def loans(monkeypatch):
    """Every fit is lent the model of all rows, however few they are; counts the loans."""
    monkeypatch.setattr("sksurvgpu.selection.evaluation.FEWEST_BORROWERS", 1)
    monkeypatch.setattr("sksurvgpu.selection.evaluation.WIDE_STEP", 1.0)
    monkeypatch.setattr("sksurvgpu.solver.costs.ITERATIONS_OF_BORROWER", np.inf)
    taken, take = [], Way.borrow
    monkeypatch.setattr(Way, "borrow", lambda *call: taken.append(take(*call)))
    return taken


@pytest.mark.thorough(but=r"all arguments|conditional logistic-held|poisson-van")
@pytest.mark.parametrize("scoring", ["van_houwelingen", "held_out"])
@pytest.mark.parametrize("name", [name for name in CASES if "varying" not in name])
def test_scores_are_those_of_a_loop(name, scoring, request):
    loans = request.getfixturevalue("loans") if scoring == "held_out" else None
    case = CASES[name]
    face, many, _, params, names = case
    face = FACES[face]
    pairs = pairs_of(face)
    model = many(**params, alphas=ALPHAS, cv=pairs, scoring=scoring, tol=1e-11)
    model.fit(X, face.y, **face.arguments(names))
    if loans is not None:
        assert len(loans) >= 2 * len(pairs)  # the largest penalty may select nothing
    expected, events = loop(case, scoring, pairs)
    results = model.cv_results_
    found = results[[f"split{b}_score" for b in range(3)]].to_numpy()
    np.testing.assert_allclose(found, expected / events, rtol=1e-6)
    np.testing.assert_allclose(results["mean_score"], expected.sum(axis=1) / events.sum())
    deviation = expected - results["mean_score"].to_numpy()[:, None] * events
    error = np.sqrt(3 / 2 * np.sum(deviation**2, axis=1)) / events.sum()
    np.testing.assert_allclose(results["standard_error"], error, rtol=1e-5)


@pytest.mark.thorough(but=r"cox, time|all arguments|logistic")
@pytest.mark.parametrize("name", CASES)
def test_the_chosen_fit_is_the_plain_one(name):
    face, many, single, params, names = CASES[name]
    face = FACES[face]
    arguments = face.arguments(names)
    model = many(**params, n_alphas=12, cv=3, tol=1e-11).fit(X, face.y, **arguments)
    assert model.n_splits_ == 3
    plain = single(**params, alpha=model.alpha_, tol=1e-11).fit(X, face.y, **arguments)
    np.testing.assert_array_equal(model.coef_, plain.coef_)
    assert model.alpha == model.alpha_ == model.cv_results_["alpha"][model.best_index_]
    assert model.best_score_ == model.cv_results_["mean_score"].max()
    assert model.alpha_max_ == plain.alpha_max_


@pytest.mark.parametrize("lacks", [False, True])
def test_loans_change_no_result(lacks, loans, monkeypatch):
    """Correlated columns, of which a loan may lack some."""
    data = simulate_ehr(800, 60, random_state=0)
    params = {"alphas": [0.01, 0.004, 0.0015], "cv": 6, "tol": 1e-9}
    with monkeypatch.context() as patch:
        if lacks:
            patch.setattr("sksurvgpu.solver.way.NEAR_LATER", 1.1)
        lent = CoxLassoCV(**params).fit(data.X, data.y)
    assert len(loans) == 18
    monkeypatch.setattr("sksurvgpu.selection.evaluation.FEWEST_BORROWERS", 100)
    alone = CoxLassoCV(**params).fit(data.X, data.y)
    assert len(loans) == 18
    columns = [name for name in lent.cv_results_ if "score" in name]
    np.testing.assert_allclose(lent.cv_results_[columns], alone.cv_results_[columns], rtol=1e-9)
    np.testing.assert_array_equal(lent.cv_results_["n_nonzero"], alone.cv_results_["n_nonzero"])


def test_larger_penalties_are_lent_again_after_one_at_which_loans_were_slow(loans, monkeypatch):
    monkeypatch.setattr("sksurvgpu.selection.evaluation.QUICK", 0)
    data = simulate_ehr(800, 60, random_state=0)
    CoxLassoCV(alphas=[0.01, 0.004, 0.0015], cv=6).fit(data.X, data.y)
    assert len(loans) == 6
    model = CoxLassoCV(search="auto", start_variance=0.1, cv=6).fit(data.X, data.y)
    is_larger = model.cv_results_["variance"] < 0.1
    assert is_larger.any()
    assert len(loans) >= 6 + 6 * 2


def test_the_default_score_suits_the_model():
    pairs = pairs_of(FACES["cox"])
    for face, many, default in (
        ("cox", CoxLassoCV, "van_houwelingen"),
        ("logistic", LogisticCV, "held_out"),
    ):
        first, second = (
            many(alphas=ALPHAS, cv=pairs, scoring=scoring).fit(X, FACES[face].y)
            for scoring in ("loglik", default)
        )
        assert first.cv_results_.equals(second.cv_results_)


@pytest.mark.parametrize("name", ["cox", "cox, time-varying", "fine-gray"])
def test_concordance_is_that_of_score(name):
    face, many, single, params, _ = CASES[name]
    face, pairs = FACES[face], pairs_of(FACES[face])
    model = many(**params, alphas=ALPHAS, cv=pairs, scoring="concordance").fit(X, face.y)
    for b, (train, test) in enumerate(pairs):
        for i, alpha in enumerate(ALPHAS):
            plain = single(**params, alpha=alpha).fit(X[train], face.y[train])
            expected = plain.score(X[test], face.y[test])
            assert model.cv_results_[f"split{b}_score"][i] == pytest.approx(expected, abs=1e-4)


def test_concordance_of_classes_is_the_area_under_the_curve():
    face, pairs = FACES["logistic"], pairs_of(FACES["logistic"])
    model = LogisticCV(alphas=ALPHAS, cv=pairs, scoring="concordance").fit(X, face.y)
    train, test = pairs[2]
    plain = LogisticCCD(alpha=ALPHAS[1]).fit(X[train], face.y[train])
    expected = roc_auc_score(face.y[test], plain.decision_function(X[test]))
    assert model.cv_results_["split2_score"][1] == pytest.approx(expected, abs=1e-4)


def test_splits_may_leave_rows_out():
    face = FACES["cox"]
    splitter = ShuffleSplit(3, train_size=0.5, test_size=0.3, random_state=0)
    model = CoxLassoCV(alphas=ALPHAS, cv=splitter, tol=1e-11).fit(X, face.y)
    train, test = list(splitter.split(X))[1]
    both = np.union1d(train, test)
    plain = CoxLassoCCD(alpha=ALPHAS[2], tol=1e-11).fit(X[train], face.y[train])
    expected = log_likelihood(plain, face, both, {}) - log_likelihood(plain, face, train, {})
    expected /= (CODE[test] == 1).sum()
    assert model.cv_results_["split1_score"][2] == pytest.approx(expected, rel=1e-6)


def test_masks_are_rows():
    face, rows = FACES["cox"], np.arange(N)
    given = [(rows[rows % 3 != k], rows[rows % 3 == k]) for k in range(3)]
    masks = [(rows % 3 != k, rows % 3 == k) for k in range(3)]
    first, second = (CoxLassoCV(alphas=ALPHAS, cv=cv).fit(X, face.y) for cv in (given, masks))
    assert first.cv_results_.equals(second.cv_results_)


@pytest.mark.thorough
@pytest.mark.parametrize("search", ["grid", "auto"])
def test_threads_and_chunks_change_nothing(search, monkeypatch):
    face = FACES["cox"]
    model = CoxLassoCV(search=search, cv=4, n_repeats=2, n_alphas=15, n_jobs=1).fit(X, face.y)
    monkeypatch.setattr("sksurvgpu.selection.evaluation.CHUNK_BYTES", 8 * X.shape[1] * 10 * 3)
    other = clone(model).set_params(n_jobs=2).fit(X, face.y)
    assert model.cv_results_.equals(other.cv_results_)
    np.testing.assert_array_equal(model.coef_, other.coef_)


def test_folds_are_those_of_the_splitter():
    face = FACES["cox"]
    folds = SurvivalKFold(4, n_repeats=2, random_state=3)
    first = CoxLassoCV(alphas=ALPHAS, cv=4, n_repeats=2, random_state=3).fit(X, face.y)
    second = CoxLassoCV(alphas=ALPHAS, cv=folds).fit(X, face.y)
    columns = [f"split{b}_score" for b in range(8)]
    np.testing.assert_allclose(first.cv_results_[columns], second.cv_results_[columns], rtol=1e-12)


def test_a_seed_decides():
    face = FACES["cox"]
    tables = [
        CoxLassoCV(alphas=ALPHAS, cv=3, random_state=seed).fit(X, face.y).cv_results_
        for seed in (0, 0, 1)
    ]
    assert tables[0].equals(tables[1])
    assert not tables[0].equals(tables[2])


@pytest.mark.slow
def test_repeats_do_not_shrink_the_standard_error():
    cvs = [CoxLassoCV(alphas=ALPHAS, cv=5, n_repeats=n).fit(STRONG.X, STRONG.y) for n in (10, 40)]
    few, many = (cv.cv_results_["standard_error"] for cv in cvs)
    np.testing.assert_allclose(few, many, rtol=0.3)


def test_the_one_standard_error_rule_takes_a_sparser_model():
    rules = ("best", "1se")
    best, sparse = (CoxLassoCV(cv=5, n_alphas=20, rule=r).fit(STRONG.X, STRONG.y) for r in rules)
    results = best.cv_results_
    bound = best.best_score_ - results["standard_error"][best.best_index_]
    assert sparse.alpha_ == results["alpha"][results["mean_score"] >= bound].max() > best.alpha_
    assert sparse.best_score_ < best.best_score_


def test_a_grid_ends_early_unless_told_otherwise():
    face = FACES["cox"]
    short = CoxLassoCV(cv=3, n_alphas=60).fit(X, face.y)
    full = CoxLassoCV(cv=3, n_alphas=60, early_stopping=False).fit(X, face.y)
    n_short = len(short.cv_results_)
    assert n_short % 10 == 0
    assert n_short < len(full.cv_results_) == 60
    assert short.alpha_ == full.alpha_
    path = fit_path(CoxLassoCCD(), X, face.y, n_alphas=60)
    np.testing.assert_allclose(full.cv_results_["alpha"], path.alphas, rtol=1e-12)
    np.testing.assert_allclose(
        short.cv_results_["mean_score"], full.cv_results_["mean_score"][:n_short], rtol=1e-6
    )


@pytest.mark.thorough
def test_the_search_scores_a_prior_of_the_sum():
    face = FACES["cox"]
    pairs = pairs_of(face)
    model = CoxLassoCV(search="auto", cv=pairs, tol=1e-11, start_variance=0.1).fit(X, face.y)
    results = model.cv_results_
    assert 2 < len(results) < 20
    np.testing.assert_allclose(results["variance"], 2 / (N * results["alpha"]) ** 2, rtol=1e-12)
    row = model.best_index_
    train, test = pairs[0]
    alpha = np.sqrt(2 / results["variance"][row]) / len(train)
    plain = CoxLassoCCD(alpha=alpha, tol=1e-11).fit(X[train], face.y[train])
    expected = log_likelihood(plain, face, np.arange(N), {}) - plain.log_likelihood_
    expected /= (CODE[test] == 1).sum()
    assert results["split0_score"][row] == pytest.approx(expected, rel=1e-6)
    # the grid finds nothing better
    grid = CoxLassoCV(cv=pairs, n_alphas=100, early_stopping=False).fit(X, face.y)
    assert model.best_score_ > grid.best_score_ - 0.1 * grid.cv_results_["standard_error"].min()


def test_a_ridge_has_a_normal_prior():
    face = FACES["cox"]
    model = CoxLassoCV(search="auto", l1_ratio=0.0, cv=3).fit(X, face.y)
    results = model.cv_results_
    np.testing.assert_allclose(results["variance"], 1 / (N * results["alpha"]), rtol=1e-12)


@pytest.mark.thorough
def test_cross_validation_inside_other_tools():
    pipe = make_pipeline(MaxAbsScaler(), CoxLassoCV(cv=3, n_alphas=8)).fit(STRONG.X, STRONG.y)
    assert pipe.score(STRONG.X, STRONG.y) > 0.6
    grid = {"l1_ratio": [0.5, 1.0]}
    search = GridSearchCV(CoxLassoCV(cv=3, n_alphas=8), grid, cv=KFold(3)).fit(STRONG.X, STRONG.y)
    assert search.best_estimator_.alpha_ > 0
    model = CoxLassoCV(cv=3, n_alphas=8).fit(STRONG.X, STRONG.y)
    assert clone(model).get_params() == model.get_params()
    assert "alpha" not in model.get_params()
    assert len(model.summary()) == STRONG.X.shape[1]
    assert model.predict_survival_function(STRONG.X[:2]).shape == (2,)


@pytest.mark.parametrize(
    ("face", "many", "params", "error", "message"),
    [
        ("cox", CoxLassoCV, {"cv": 1}, ValueError, "'cv' parameter"),
        ("cox", CoxLassoCV, {"cv": N + 1}, ValueError, f"{N} rows only"),
        ("cox", CoxLassoCV, {"rule": "2se"}, ValueError, "'rule' parameter"),
        ("cox", CoxLassoCV, {"cv": KFold(3), "n_repeats": 2}, ValueError, "`n_repeats`"),
        ("cox", CoxLassoCV, {"cv": "5"}, ValueError, "'5', must be a number of folds, a splitter"),
        ("cox", CoxLassoCV, {"cv": []}, ValueError, "no split"),
        ("cox", CoxLassoCV, {"cv": [([0.5], [1])]}, ValueError, "row numbers"),
        ("cox", CoxLassoCV, {"cv": [([0], [N])]}, ValueError, "row numbers"),
        ("cox", CoxLassoCV, {"cv": [([0, 1, 1], [2])]}, ValueError, "a row twice in a split; name"),
        ("cox", CoxLassoCV, {"cv": np.arange(N) % 3}, ValueError, r"PredefinedSplit\(cv\)"),
        ("cox", CoxLassoCV, {"alphas": [-1.0]}, ValueError, "`alphas`"),
        ("cox", CoxLassoCV, {"alphas": [0.1], "search": "auto"}, ValueError, "search="),
        ("cox", CoxLassoCV, {"start_variance": 0.0}, ValueError, "'start_variance'"),
        ("poisson", PoissonCV, {"scoring": "concordance"}, ValueError, "does not exist"),
        ("case series", CaseSeriesCV, {"cv": KFold(3)}, ValueError, "both sides"),
        (
            "cox",
            CoxLassoCV,
            {"cv": [(np.flatnonzero(CODE != 1), np.flatnonzero(CODE == 1))]},
            ValueError,
            "split 0 of `cv` leaves nothing to fit",
        ),
    ],
)
@pytest.mark.filterwarnings("ignore:The groups parameter is ignored")
def test_bad_parameters_are_named(face, many, params, error, message):
    with pytest.raises(error, match=message):
        many(**params).fit(X, FACES[face].y)


def test_a_path_wants_a_model_with_one_penalty():
    with pytest.raises(TypeError, match="refit_model"):
        fit_path(CoxLassoCV(), X, FACES["cox"].y)


def test_unknown_parameters_are_refused():
    with pytest.raises(TypeError, match="alfas"):
        CoxLassoCV(alfas=[1.0])
    with pytest.raises(TypeError, match="positional"):
        CoxLassoCV(10)


def test_failed_fits_are_counted():
    with pytest.warns(ConvergenceWarning, match=r"of the 9 fits of the cross-validation"):
        CoxLassoCV(alphas=ALPHAS, cv=3, max_iter=1, tol=1e-12).fit(X, FACES["cox"].y)


def test_splits_without_events_still_count():
    """Van Houwelingen's score of rows without events is not 0, nor is Poisson's likelihood."""
    rows = np.arange(N)
    quiet = np.flatnonzero(CODE != 1)[:5]
    pairs = [(np.setdiff1d(rows, quiet), quiet), *pairs_of(FACES["cox"])]
    face = FACES["cox"]
    model = CoxLassoCV(alphas=ALPHAS, cv=pairs, tol=1e-11).fit(X, face.y)
    expected, events = loop(CASES["cox"], "van_houwelingen", pairs)
    assert (expected[:, 0] != 0).all()
    assert events[0] == 0
    np.testing.assert_allclose(
        model.cv_results_["mean_score"], expected.sum(axis=1) / events.sum(), rtol=1e-6
    )
    assert model.cv_results_["split0_score"].isna().all()
    silent = np.flatnonzero(COUNT == 0)[:5]
    pairs = [(np.setdiff1d(rows, silent), silent), *pairs_of(face)]
    model = PoissonCV(alphas=ALPHAS[:1], cv=pairs, tol=1e-11).fit(X, COUNT)
    total = 0.0
    for train, test in pairs:
        plain = PoissonCCD(alpha=ALPHAS[0], tol=1e-11).fit(X[train], COUNT[train])
        mean = plain.predict(X[test])
        total += np.sum(COUNT[test] * np.log(mean) - mean)
    expected = total / sum(COUNT[test].sum() for _, test in pairs)
    assert model.cv_results_["mean_score"][0] == pytest.approx(expected, rel=1e-6)


def test_splits_that_cannot_be_compared_do_not_count():
    rows = np.arange(N)
    last = np.array([np.argmax(np.where(CODE == 1, TIME, 0.0))])
    quiet = np.flatnonzero(CODE != 1)[:5]
    face, pairs = FACES["cox"], pairs_of(FACES["cox"])
    more = [(np.setdiff1d(rows, last), last), (np.setdiff1d(rows, quiet), quiet), *pairs]
    for scoring in ("held_out", "concordance"):
        model = CoxLassoCV(alphas=ALPHAS, cv=more, scoring=scoring).fit(X, face.y)
        assert model.cv_results_["split1_score"].isna().all()
    other = CoxLassoCV(alphas=ALPHAS, cv=pairs, scoring="concordance").fit(X, face.y)
    assert model.cv_results_["split0_score"].isna().all()
    np.testing.assert_allclose(
        model.cv_results_["mean_score"], other.cv_results_["mean_score"], rtol=1e-3
    )
    with pytest.raises(ValueError, match="no split of `cv` can be scored"):
        CoxLassoCV(alphas=ALPHAS, cv=more[1:2], scoring="held_out").fit(X, face.y)


def test_the_standard_error_does_not_ask_who_made_the_folds():
    folds = SurvivalKFold(4, n_repeats=3, random_state=0)
    ours, given = (
        CoxLassoCV(alphas=ALPHAS, random_state=0, **cv).fit(X, FACES["cox"].y).cv_results_
        for cv in ({"cv": 4, "n_repeats": 3}, {"cv": folds})
    )
    np.testing.assert_allclose(ours["standard_error"], given["standard_error"], rtol=1e-9)


def test_predictions_beyond_floating_point_are_the_worst():
    rng = np.random.default_rng(0)
    table = rng.normal(size=(120, 3))
    count = rng.poisson(np.exp(0.5 * table[:, 0]))
    table[7, 0] = 5_000.0
    model = PoissonCV(alphas=[10.0, 0.001], cv=[(np.delete(np.arange(120), 7), np.arange(20))])
    results = model.fit(table, count).cv_results_
    assert results["mean_score"].tolist()[1] == -np.inf
    assert model.alpha_ == 10.0


@pytest.mark.thorough(but=r"cox-0\.5|logistic-1")
@pytest.mark.parametrize("ratio", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("name", ["logistic", "cox", "poisson"])
def test_loans_and_columns_without_effect(name, ratio, loans, monkeypatch):
    """Constant, duplicate and rare columns, some of them empty in a split, also unpenalized."""
    rng = np.random.default_rng(3)
    rare = np.zeros((N, 3))
    rare[:6, 0] = rare[[1, 3, 5], 1] = rare[:4, 2] = 1.0  # all within the first fold
    table = np.column_stack([X.toarray()[:, :6], np.ones(N), X.toarray()[:, 0], rare])
    fold = np.r_[np.zeros(6, int), rng.integers(0, 5, N - 6)]
    pairs = [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(5)]
    face, many = CASES[name][:2]
    params = {"l1_ratio": ratio, "penalty_factor": {8: 0.0}, "tol": 1e-9, "alphas": ALPHAS}
    lent = many(cv=pairs, **params).fit(table, FACES[face].y, offset=OFFSET)
    assert len(loans) == 15
    monkeypatch.setattr("sksurvgpu.selection.evaluation.FEWEST_BORROWERS", 100)
    alone = many(cv=pairs, **params).fit(table, FACES[face].y, offset=OFFSET)
    columns = [column for column in lent.cv_results_ if "score" in column]
    np.testing.assert_allclose(
        lent.cv_results_[columns], alone.cv_results_[columns], rtol=1e-6, atol=1e-7
    )


def test_verbose_tells_of_every_batch(capsys):
    CoxLassoCV(n_alphas=12, alpha_min_ratio=0.1, cv=3, verbose=1).fit(STRONG.X, STRONG.y)
    lines = capsys.readouterr().out.splitlines()
    told = [line.partition(":")[2].partition(",")[0] for line in lines]
    assert [told[k] for k in (0, 1, 3)] == [" 3 fits", " 3 fits", " 1 fit"]
    assert told[2].endswith(" iterations") and len(told) == 4
    assert lines[2].startswith("alpha 0.0")


def test_callbacks_see_every_fit():
    callback = pytest.importorskip("sklearn.callback", reason="scikit-learn 1.9 has callbacks")
    seen = []

    class Record:
        def setup(self, estimator, context):
            seen.append("setup")

        def on_fit_task_begin(self, estimator, context):
            pass

        def on_fit_task_end(self, estimator, context):
            seen.append(context.task_name.split()[0])

        def teardown(self, estimator, context):
            seen.append("teardown")

    assert isinstance(Record(), callback.FitCallback)
    model = CoxLassoCV(n_alphas=12, alpha_min_ratio=0.1, cv=3).set_callbacks(Record())
    model.fit(STRONG.X, STRONG.y)
    batch = ["fit", "fit", "fit", "cross-validation,"]
    assert seen == ["setup", *batch, *batch, "fit", "refit", "fit", "teardown"]


def test_subjects_and_sets_stay_whole():
    y = surv(CODE == 1, TIME, subject=SUBJECT)
    pairs = list(SurvivalKFold(5, random_state=0).split(X, y))
    for train, test in pairs:
        assert not np.intersect1d(SUBJECT[train], SUBJECT[test]).size
    model = CoxLassoCV(alphas=ALPHAS, cv=5).fit(X, y)
    other = CoxLassoCV(alphas=ALPHAS, cv=pairs).fit(X, y)
    np.testing.assert_allclose(
        model.cv_results_["split3_score"], other.cv_results_["split3_score"], rtol=1e-12
    )
    CaseSeriesCV(alphas=[0.01], cv=GroupKFold(4)).fit(X, FACES["case series"].y)


def test_the_constructor_is_that_of_the_model():
    class Own(CoxLassoCV):
        """A user's subclass."""

    assert Own(cv=3).get_params() == CoxLassoCV(cv=3).get_params()
    assert issubclass(CoxLassoCV, CrossValidated)
    assert EXPOSURE.shape == OFFSET.shape == STRATA.shape == (N,)


def test_a_folder_keeps_finished_fits_of_one_call(tmp_path, monkeypatch):
    model = CoxLassoCV(cv=5, n_repeats=4, alphas=[0.05, 0.04, 0.03], folder=tmp_path)
    expected = clone(model).set_params(folder=None).fit(STRONG.X, STRONG.y)
    first = clone(model).fit(STRONG.X, STRONG.y)
    parts = {path.name for path in tmp_path.glob("*.npz")}
    assert parts == {"0000-splits-0.npz", "0000-splits-16.npz"}  # whatever the number of threads

    def refuse(*given):
        raise AssertionError("a finished part was computed again")

    with monkeypatch.context() as patch:
        patch.setattr("sksurvgpu.selection.evaluation.Evaluation._fit", refuse)
        again = clone(model).set_params(n_jobs=1, verbose=0).fit(STRONG.X, STRONG.y)
    for fitted in (first, again):
        assert fitted.cv_results_.equals(expected.cv_results_)
        assert fitted.coef_.tobytes() == expected.coef_.tobytes()
    with pytest.raises(FileExistsError, match=r"`cv` differs; `X` differs; `y` differs\. To go on"):
        clone(model).fit(STRONG.X[:300], STRONG.y[:300])
    with pytest.raises(FileExistsError, match=r"`l1_ratio` is 1\.0 there and 0\.5 here"):
        clone(model).set_params(l1_ratio=0.5).fit(STRONG.X, STRONG.y)
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError, match="name a new folder"):
        clone(model).set_params(folder=tmp_path / "file").fit(STRONG.X, STRONG.y)
