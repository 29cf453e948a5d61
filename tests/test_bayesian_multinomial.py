"""The estimator of multinomial logistic models: outcomes, priors, predictions, scikit-learn."""

import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from mistakes import changed, check
from scipy.special import softmax
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics import accuracy_score
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from sksurvgpu import BayesianMultinomialLogistic, make_pipeline

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

RNG = np.random.default_rng(0)
N, P, K = 80, 3, 3
X = np.round(RNG.normal(size=(N, P)), 1) * (RNG.random((N, P)) < 0.6)
COUNTS = np.array(
    [RNG.multinomial(2, p) for p in softmax(X @ RNG.normal(size=(P, K)), axis=1)], np.int64
)
LABELS = np.array(["blue", "green", "red"])[COUNTS.argmax(axis=1)]
ONE_HOT = (LABELS[:, None] == np.unique(LABELS)).astype(int)


def make(**params):
    short = {"n_chains": 2, "n_tune": 5, "n_draws": 20, "n_jobs": 1}
    return BayesianMultinomialLogistic(**{**short, **params})


@pytest.fixture(scope="module")
def fitted():
    return make().fit(X, LABELS)


def same_draws(model, other):
    for name, draws in model.posterior_.draws.items():
        np.testing.assert_allclose(draws, other.posterior_.draws[name], rtol=1e-8, atol=1e-10)


@parametrize_with_checks([make(n_chains=1, n_tune=50)])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_attributes(fitted):
    assert fitted.classes_.tolist() == ["blue", "green", "red"]
    assert fitted.reference_ == "red"
    draws = fitted.posterior_.draws
    assert draws["coef"].shape == (2, 20, 2, 3)
    np.testing.assert_allclose(fitted.coef_, draws["coef"].mean(axis=(0, 1)))
    np.testing.assert_allclose(fitted.intercept_, draws["intercept"].mean(axis=(0, 1)))
    labels = [f"coef[{label}, x{j}]" for label in ("blue", "green") for j in range(3)]
    table = fitted.summary()
    assert table.index.tolist() == [*labels, "intercept[blue]", "intercept[green]"]
    np.testing.assert_allclose(table["odds_ratio"][:6], np.exp(fitted.coef_.ravel()))


def test_long_chains_find_the_mode_and_the_truth():
    """The mode solves the equations of the penalized likelihood; means lie near it."""
    model = make(n_tune=100, n_draws=200, prior_precision=4.0).fit(X, COUNTS)
    full = np.column_stack([X, np.ones(N)])
    coef = np.column_stack([model.mode_coef_, model.mode_intercept_])
    p = softmax(np.column_stack([full @ coef.T, np.zeros(N)]), axis=1)
    gradient = (COUNTS - 2 * p)[:, :2].T @ full - coef * [4.0, 4.0, 4.0, 0.01]
    assert abs(gradient).max() < 1e-3
    sd = model.posterior_.sd("coef")
    assert (abs(model.coef_ - model.mode_coef_) < sd).all()


@pytest.mark.parametrize("sampler", ["hmc", "gibbs"])
def test_outcomes_that_say_the_same(sampler):
    model = make(sampler=sampler).fit(X, LABELS)
    same_draws(model, make(sampler=sampler).fit(X, ONE_HOT))
    same_draws(model, make(sampler=sampler).fit(sp.csr_array(X), LABELS))
    weight = RNG.integers(1, 4, N)
    many = make(sampler=sampler).fit(X, LABELS, weight)
    order = RNG.permutation(N)
    for table, y in (
        (np.repeat(X, weight, axis=0), np.repeat(LABELS, weight)),
        (X[order], (ONE_HOT * weight[:, None])[order]),
    ):
        same_draws(many, make(sampler=sampler).fit(table, y))


def test_reference_changes_the_prior_only():
    flat = {"prior_precision": 0.0, "intercept_precision": 0.0}
    last, first = make(**flat).fit(X, LABELS), make(reference="blue", **flat).fit(X, LABELS)
    assert first.reference_ == "blue"
    assert first.classes_.tolist() == last.classes_.tolist()
    of_last = np.vstack([last.mode_coef_, np.zeros(P)])
    np.testing.assert_allclose(first.mode_coef_, (of_last - of_last[0])[1:], atol=1e-5)
    np.testing.assert_allclose(first.predict_proba(X), last.predict_proba(X), atol=0.2)


def test_priors_of_all_shapes():
    diagonal = np.array([[1.0, 2.0, 3.0], [1.0, 2.0, 3.0]])
    model = make(prior_precision=[1.0, 2.0, 3.0], prior_mean=[0.5, 0.0, -0.5]).fit(X, LABELS)
    mean = np.tile([0.5, 0.0, -0.5], (2, 1))
    for precision in (diagonal, np.diag(diagonal[0])[None], [np.diag(row) for row in diagonal]):
        same_draws(model, make(prior_precision=precision, prior_mean=mean).fit(X, LABELS))
    strong = make(prior_precision=1e8, prior_mean=mean, fit_intercept=False).fit(X, LABELS)
    np.testing.assert_allclose(strong.coef_, mean, atol=1e-3)
    assert strong.intercept_.tolist() == [0.0, 0.0]
    held = make(intercept_precision=[1e8, 0.01]).fit(X, LABELS)
    assert abs(held.intercept_[0]) < 1e-3 < abs(held.intercept_[1])


def test_an_absent_class_needs_a_prior_of_its_own():
    prior = {"prior_precision": [[0.0] * 3, [1.0] * 3], "intercept_precision": [0.0, 0.01]}
    counts = COUNTS * [1, 0, 1] + [1, 0, 1]
    assert np.isfinite(make(**prior).fit(X, counts).coef_).all()


def test_float32_and_files(tmp_path):
    model = make(keep="float32", folder=tmp_path / "draws").fit(X, LABELS)
    assert model.posterior_.draws["coef"].dtype == np.float32
    assert model.predict_proba(X).dtype == np.float64


def probabilities(model, table):
    """Of all draws by plain means, (n_draws, n_rows, k)."""
    draws = model.posterior_.draws
    coef, intercept = draws["coef"].reshape(-1, 2, P), draws["intercept"].reshape(-1, 2)
    pairs = zip(coef, intercept, strict=True)
    eta = [np.column_stack([table @ b.T + a, np.zeros(len(table))]) for b, a in pairs]
    return softmax(np.array(eta), axis=2)


@pytest.mark.parametrize("reference", [None, "green"])
def test_predictions_are_averages_over_draws(reference, monkeypatch):
    model = make(reference=reference).fit(X, LABELS)
    columns = [0, 1, 2] if reference is None else [0, 2, 1]
    expected = probabilities(model, X)[:, :, columns]
    for block, at_once in ((2**22, 256), (500, 7)):
        monkeypatch.setattr("sksurvgpu.estimators._bayes.BLOCK", block)
        monkeypatch.setattr("sksurvgpu.estimators._bayes.DRAWS_AT_ONCE", at_once)
        found = model.predict_proba(X)
        np.testing.assert_allclose(found, expected.mean(axis=0), rtol=1e-12)
        lower, upper = np.moveaxis(model.predict_interval(X, level=0.8), -1, 0)
        np.testing.assert_allclose(lower, np.quantile(expected, 0.1, axis=0), rtol=1e-12)
        np.testing.assert_allclose(upper, np.quantile(expected, 0.9, axis=0), rtol=1e-12)
    np.testing.assert_allclose(model.predict_log_proba(X), np.log(found), rtol=1e-12)
    np.testing.assert_array_equal(model.predict(X), model.classes_[found.argmax(axis=1)])
    np.testing.assert_allclose(model.predict_proba(sp.csr_array(X)), found, rtol=1e-12)


def test_new_labels_have_the_predicted_probabilities(fitted):
    """Of 4,000 times 80 labels; shares of classes within 4.5 standard errors."""
    rows = np.repeat(X[:4], 1000, axis=0)
    labels = fitted.sample_predictive(rows, random_state=0)
    assert labels.shape == (40, 4000)
    share = (labels[:, :, None] == fitted.classes_).reshape(40, 4, 1000, 3).mean(axis=(0, 2))
    p = fitted.predict_proba(X[:4])
    assert (abs(share - p) < 4.5 * np.sqrt(p * (1 - p) / 40_000)).all()
    few = fitted.sample_predictive(X, n_draws=3, random_state=1)
    assert few.shape == (3, N)
    np.testing.assert_array_equal(few, fitted.sample_predictive(X, n_draws=3, random_state=1))


def test_score(fitted):
    weight = RNG.random(N)
    assert fitted.score(X, LABELS, weight) == pytest.approx(
        accuracy_score(LABELS, fitted.predict(X), sample_weight=weight)
    )
    assert fitted.score(X, ONE_HOT, weight) == pytest.approx(fitted.score(X, LABELS, weight))
    counted = make().fit(X, pd.DataFrame(COUNTS, columns=["a", "b", "c"]))
    assert counted.classes_.tolist() == ["a", "b", "c"]
    rows, codes = np.nonzero(COUNTS)
    names = counted.classes_[codes]
    assert counted.score(X, COUNTS) == pytest.approx(
        accuracy_score(names, counted.predict(X)[rows], sample_weight=COUNTS[rows, codes])
    )


def test_score_takes_counts_by_name(fitted):
    table = pd.DataFrame(ONE_HOT, columns=["blue", "green", "red"])
    assert fitted.score(X, table[["red", "blue", "green"]]) == fitted.score(X, LABELS)


def test_tools_of_scikit_learn():
    table = pd.DataFrame(X, columns=["a", "b", "c"])
    search = GridSearchCV(
        make_pipeline(StandardScaler().set_output(transform="pandas"), make()),
        {"bayesianmultinomiallogistic__prior_precision": [0.1, 10.0]},
        cv=2,
        scoring="neg_log_loss",
    ).fit(table, LABELS)
    best = search.best_estimator_[-1]
    assert best.feature_names_in_.tolist() == ["a", "b", "c"]
    assert "coef[blue, a]" in best.summary().index
    again = pickle.loads(pickle.dumps(best))
    np.testing.assert_array_equal(again.predict_proba(table), best.predict_proba(table))
    copy = clone(best)
    assert not hasattr(copy, "coef_")
    assert copy.get_params() == best.get_params()


IMPROPER = (
    "the posterior is improper with this prior: the likelihood rises for ever with the {}, because "
    "columns separate the class from others; pass a positive `prior_precision` and "
    "`intercept_precision`, or leave columns out."
)
COLLINEAR = (
    "the posterior is improper with this prior: as far as digits tell, the likelihood does not "
    "change with the coefficient of column 'x2' of class 'blue', because columns are constant or "
    "collinear; pass a positive `prior_precision` and `intercept_precision`, or leave columns out. "
    "Columns that hardly vary about a large mean must be centred."
)
FLAT = {"prior_precision": 0.0, "intercept_precision": 0.0}
SEPARATING = np.column_stack([X[:, :2], (LABELS == "blue") - 0.5])
NOT_COUNTS = "two dimensions are counts of categories, whole numbers of at least 0."
MATRIX = np.eye(3)[None]
PRIOR_SHAPES = "must be a number, shape (3,) or shape (2, 3), for the classes but the reference."
MISTAKES = {
    "one class": (lambda: make().fit(X, np.full(N, "red")), ValueError, "`y`...has one class"),
    "labels are measurements": (
        lambda: make().fit(X, X[:, 0] + 0.25),
        ValueError,
        "Unknown label type: continuous",
    ),
    "counts fractional": (
        lambda: make().fit(X, changed(COUNTS, (4, 1), 0.5)),
        ValueError,
        "`y`...0.5...row 4...whole numbers...at least 0",
    ),
    "counts negative": (
        lambda: make().fit(X, changed(COUNTS, (4, 1), -1)),
        ValueError,
        "`y`...-1...row 4...whole numbers...at least 0",
    ),
    "counts nan": (
        lambda: make().fit(X, changed(COUNTS * 1.0, (4, 1), np.nan)),
        ValueError,
        "`y`...nan...row 4",
    ),
    "counts all zero": (
        lambda: make().fit(X, changed(COUNTS, 4, 0)),
        ValueError,
        "`y` has counts of 0 only in row 4; leave out rows without an observation.",
    ),
    "counts too large": (
        lambda: make().fit(X, changed(COUNTS, (4, 1), 2**31)),
        ValueError,
        "the counts of `y`...row 4...2,147,483,647...several",
    ),
    "counts are text": (
        lambda: make().fit(X, np.full((N, 2), "red")),
        TypeError,
        "`y` has two dimensions...<U3...counts of categories",
    ),
    "counts of other rows": (
        lambda: make().fit(X, COUNTS[1:]),
        ValueError,
        "`y`...79 rows...one per row",
    ),
    "three dimensions": (lambda: make().fit(X, COUNTS[:, :, None]), ValueError, "`y`...(80, 3, 1)"),
    "weight fractional": (
        lambda: make().fit(X, LABELS, np.where(np.arange(N) == 4, 0.5, 1.0)),
        ValueError,
        "`sample_weight`...0.5...row 4...whole numbers",
    ),
    "weight too large": (
        lambda: make().fit(X, LABELS, np.full(N, 2.0**32)),
        ValueError,
        "`sample_weight`...row 0...2,147,483,647...several",
    ),
    "reference unknown": (
        lambda: make(reference="grey").fit(X, LABELS),
        ValueError,
        "`reference`...'grey'",
    ),
    "reference of another type": (
        lambda: make(reference=True).fit(X, COUNTS.argmax(axis=1)),
        ValueError,
        "`reference`...True",
    ),
    "references": (
        lambda: make(reference=np.array([1, 2])).fit(X, COUNTS.argmax(axis=1)),
        ValueError,
        "`reference`...array([1, 2])",
    ),
    "sparse counts": (lambda: make().fit(X, sp.csr_array(COUNTS)), TypeError, "`y`...sparse"),
    "too many trials for Gibbs": (
        lambda: make(sampler="gibbs").fit(np.zeros((4, 1)), np.full((4, 2), 2**26)),
        ValueError,
        "rows of `X`...536,870,912...268,435,456...sampler=",
    ),
    "precision negative": (
        lambda: make(prior_precision=[1.0, -2.0, 1.0]).fit(X, LABELS),
        ValueError,
        "`prior_precision`...at least 0",
    ),
    "intercept's precision negative": (
        lambda: make(intercept_precision=[1.0, -2.0]).fit(X, LABELS),
        ValueError,
        "`intercept_precision`...at least 0",
    ),
    "intercept's precision of a wrong shape": (
        lambda: make(intercept_precision=[1.0, 2.0, 3.0]).fit(X, LABELS),
        ValueError,
        "`intercept_precision`...(3,)",
    ),
    "precision nan": (
        lambda: make(prior_precision=[1.0, np.nan, 1.0]).fit(X, LABELS),
        ValueError,
        "`prior_precision`...NaN or infinite...finite number",
    ),
    "precision of text": (
        lambda: make(prior_precision=["a", "b", "c"]).fit(X, LABELS),
        TypeError,
        "`prior_precision`...['a', 'b', 'c']",
    ),
    "precision of a wrong shape": (
        lambda: make(prior_precision=[1.0, 2.0]).fit(X, LABELS),
        ValueError,
        "`prior_precision`...(2,)",
    ),
    "one matrix without its axis": (
        lambda: make(prior_precision=np.eye(3)).fit(X, LABELS),
        ValueError,
        "`prior_precision`...(3, 3)",
    ),
    "matrices of a wrong shape": (
        lambda: make(prior_precision=np.ones((3, 3, 3))).fit(X, LABELS),
        ValueError,
        "`prior_precision`...(3, 3, 3)",
    ),
    "matrix not symmetric": (
        lambda: make(prior_precision=changed(MATRIX, (0, 0, 1), 0.5)).fit(X, LABELS),
        ValueError,
        "`prior_precision`...not symmetric",
    ),
    "matrix indefinite": (
        lambda: make(prior_precision=changed(MATRIX, (0, 1, 1), -1.0)).fit(X, LABELS),
        ValueError,
        "`prior_precision`...matrix 0...-1...positive semidefinite",
    ),
    "mean of a wrong shape": (
        lambda: make(prior_mean=np.zeros((3, 3))).fit(X, LABELS),
        ValueError,
        "`prior_mean`...(3, 3)",
    ),
    "class absent": (
        lambda: make(intercept_precision=0.0).fit(X, COUNTS * [1, 0, 1] + [1, 0, 0]),
        ValueError,
        "improper...`prior_precision`",
    ),
    "reference absent": (
        lambda: make(**FLAT).fit(X, COUNTS * [1, 1, 0] + [1, 0, 0]),
        ValueError,
        "class 2 has no observations, and the prior is flat in some direction....",
    ),
    "class separated": (
        lambda: make(**FLAT).fit(SEPARATING, LABELS),
        ValueError,
        "column 'x2'...class 'blue'...separate...`prior_precision`",
    ),
    "collinear": (
        lambda: make(**FLAT).fit(np.column_stack([X[:, :2], 2 * X[:, 0]]), LABELS),
        ValueError,
        "column 'x2'...class 'blue'...collinear...`prior_precision`",
    ),
    "column of zeros": (
        lambda: make(**FLAT).fit(X * [1.0, 1.0, 0.0], LABELS),
        ValueError,
        "column 'x2'...class 'blue'...collinear...`prior_precision`",
    ),
    "few rows": (
        lambda: make(**FLAT).fit(X[:3], ["a", "b", "a"]),
        ValueError,
        "the prior is flat for 4 columns, the intercept's included, and `X` has 3...columns.",
    ),
    "huge": (
        lambda: make().fit(X * 1e200, LABELS),
        ValueError,
        "the squares of `X` are infinite; rescale it.",
    ),
    "level": (
        lambda: make().fit(X, LABELS).predict_interval(X, level=95),
        ValueError,
        "`level`...95...between 0 and 1",
    ),
    "too many draws": (
        lambda: make().fit(X, LABELS).sample_predictive(X, n_draws=41),
        ValueError,
        "`n_draws`...41",
    ),
    "no draws": (
        lambda: make(keep="summary").fit(np.tile(X, (1, 5)), LABELS).predict(np.tile(X, (1, 5))),
        ValueError,
        'coef...keep="summary"...keep="float64"',
    ),
    "not fitted": (lambda: make().predict(X), NotFittedError, "This"),
    "score of other counts": (
        lambda: make().fit(X, LABELS).score(X, COUNTS[:, :2] + 1),
        ValueError,
        "`y` has 2 columns of counts, the fit had 3 classes; pass the counts of the same classes.",
    ),
    "score of counts of other names": (
        lambda: make().fit(X, LABELS).score(X, pd.DataFrame(COUNTS, columns=["a", "b", "red"])),
        ValueError,
        "`y`...'blue'...`classes_`",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes(name):
    check(*MISTAKES[name])


def test_a_fit_that_fails_leaves_the_one_before_it():
    model = make().fit(X, LABELS)
    before = model.coef_
    with pytest.raises(ValueError, match="one class"):
        model.fit(X, np.full(N, "red"))
    assert model.coef_ is before
