"""Names of columns through transformers, and what pipelines can do beside fit and predict."""

import inspect
import json
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn import config_context
from sklearn.base import BaseEstimator, clone
from sklearn.compose import make_column_transformer
from sklearn.exceptions import NotFittedError, UnsetMetadataPassedError
from sklearn.feature_selection import SelectKBest
from sklearn.impute import SimpleImputer
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline as PlainPipeline
from sklearn.preprocessing import FunctionTransformer, MaxAbsScaler, OneHotEncoder, StandardScaler

import sksurvgpu
from sksurvgpu import (
    BayesianLasso,
    CoefficientDisplay,
    CoxLassoCCD,
    CoxLassoCV,
    CumulativeIncidenceDisplay,
    CVDisplay,
    Design,
    FineGrayCCD,
    LogisticCCD,
    LogLikelihoodScorer,
    NamedColumns,
    Pipeline,
    PoissonCCD,
    SurvivalDisplay,
    TraceDisplay,
    average_risk,
    bootstrap,
    certificate,
    competing_risks,
    curve_intervals,
    debiased,
    false_discovery,
    fit_outcomes,
    fit_path,
    information_criteria,
    likelihood_ratio_test,
    local_false_discovery,
    make_pipeline,
    posterior,
    profile_likelihood,
    proportional_hazards_test,
    residuals,
    stability_selection,
    surv,
    to_json,
    to_sklearn,
    wald,
)
from sksurvgpu.data.simulate.draw import generator
from sksurvgpu.estimators.pipelines import OF_PLAIN_PIPELINES
from sksurvgpu.federated import Coordinator

# Fits of a search may select nothing, and say so.
pytestmark = pytest.mark.filterwarnings("ignore::sksurvgpu.exceptions.NothingSelectedWarning")

N = 200
RNG = np.random.default_rng(0)
TABLE = pd.DataFrame(
    {"age": RNG.normal(60, 9, N), "drug": RNG.choice(["a", "b", "c"], N), "dose": RNG.random(N)}
)
EVENT, TIME = RNG.integers(0, 3, N), 1.0 + RNG.integers(0, 40, N)
COLUMNS = make_column_transformer((OneHotEncoder(), ["drug"]), (StandardScaler(), ["age"]))
NAMES = ["onehotencoder__drug_a", "onehotencoder__drug_b", "onehotencoder__drug_c"]
NAMES += ["standardscaler__age"]


def test_columns_keep_their_names_and_stay_sparse():
    design = NamedColumns(COLUMNS).fit_transform(TABLE)
    assert isinstance(design, Design) and design.names.tolist() == NAMES
    np.testing.assert_array_equal(
        design.to_scipy().toarray(), np.asarray(COLUMNS.fit_transform(TABLE))
    )
    encoded = NamedColumns(OneHotEncoder()).fit_transform(TABLE[["drug"]])
    assert encoded.indptr[-1] == N and (encoded.kind == 0).all()


def test_named_columns_are_a_frame_where_one_is_asked_for():
    table = TABLE.set_axis(TABLE.index + 7)
    for columns in (COLUMNS, OneHotEncoder()):
        given = table if columns is COLUMNS else table[["drug"]]
        design = NamedColumns(columns).fit_transform(given)
        framed = make_pipeline(NamedColumns(columns)).set_output(transform="pandas")
        frame = framed.fit_transform(given)
        assert frame.index.equals(table.index) and frame.columns.tolist() == design.names.tolist()
        np.testing.assert_array_equal(frame.to_numpy(), design.to_scipy().toarray())
    assert frame.sparse.density < 0.5
    with pytest.raises(ValueError, match=r"polars have no sparse columns.*of NamedColumns"):
        NamedColumns(COLUMNS).set_output(transform="polars").fit_transform(table)


def test_a_model_knows_columns_by_name():
    y, free = surv(EVENT == 1, TIME), {"standardscaler__age": 0.0}
    model = make_pipeline(NamedColumns(COLUMNS), CoxLassoCCD(alpha=0.5, penalty_factor=free))
    model.fit(TABLE, y)
    assert model[-1].summary().index.tolist() == NAMES
    assert np.flatnonzero(model[-1].coef_).tolist() == [3]
    pickle.loads(pickle.dumps(model)).predict(TABLE)
    grid = {"coxlassoccd__alpha": [0.1, 0.01]}
    search = GridSearchCV(model, grid, cv=3).fit(TABLE, y)
    assert search.best_estimator_[-1].feature_names_in_.tolist() == NAMES
    with pytest.raises(ValueError, match="feature names"):
        model[-1].predict(NamedColumns(COLUMNS).fit(TABLE).transform(TABLE)[:, [0, 1, 3, 2]])


def test_pipelines_predict_risks():
    transformed = COLUMNS.fit_transform(TABLE)
    cox = make_pipeline(COLUMNS, CoxLassoCCD(alpha=0.01)).fit(TABLE, surv(EVENT == 1, TIME))
    own = cox[-1].predict_risk(transformed, [10, 20])
    assert cox.predict_risk(TABLE, [10, 20]).equals(own)
    np.testing.assert_array_equal(
        cox.predict_median(TABLE), cox.predict_quantile(TABLE, 0.5).to_numpy()[:, 0]
    )
    assert cox.log_likelihood(TABLE, surv(EVENT == 1, TIME)) == cox[-1].log_likelihood_
    y = competing_risks(EVENT, TIME)
    fine_gray = make_pipeline(COLUMNS, FineGrayCCD(alpha=0.01)).fit(TABLE, y)
    found = fine_gray.predict_cumulative_incidence_function(TABLE, return_array=True)
    np.testing.assert_array_equal(
        found,
        fine_gray[-1].predict_cumulative_incidence_function(transformed, return_array=True),
    )
    alone = make_pipeline(CoxLassoCCD(alpha=0.01)).fit(transformed, surv(EVENT == 1, TIME))
    assert alone.predict_risk(transformed, 10).equals(alone[-1].predict_risk(transformed, 10))
    assert not hasattr(make_pipeline(COLUMNS, LogisticCCD()), "predict_risk")
    some = TABLE.sample(20, random_state=0)  # by whose index what is predicted is joined
    for found in (fine_gray.predict_quantile(some, 0.1), cox.predict_risk(some, [10, 20])):
        assert found.index.equals(some.index)
    np.testing.assert_array_equal(found, cox.predict_risk(TABLE, [10, 20]).loc[some.index])
    assert cox.predict_risk(some, 10).join(some).notna().all(axis=None)


@pytest.mark.parametrize("model", [PoissonCCD(), CoxLassoCCD()], ids=lambda m: type(m).__name__)
def test_scores_get_arguments_with_and_without_routing(model):
    y = EVENT if isinstance(model, PoissonCCD) else surv(EVENT == 1, TIME)
    name, of_row = ("exposure", TIME) if y is EVENT else ("strata", TABLE["drug"].to_numpy())
    step = type(model).__name__.lower()
    pipe = make_pipeline(COLUMNS, model.set_params(alpha=0.001))
    pipe.fit(TABLE, y, **{f"{step}__{name}": of_row})
    wanted = pipe[-1].score(COLUMNS.fit_transform(TABLE), y, **{name: of_row})
    given = {name: of_row, "sample_weight": np.ones(N)}
    assert pipe.score(TABLE, y, **given) == pytest.approx(wanted, rel=1e-12)
    with config_context(enable_metadata_routing=True):
        assert pipe.score(TABLE, y, **given) == pytest.approx(wanted, rel=1e-12)
    with pytest.raises(TypeError, match="unexpected keyword argument 'exposures'"):
        pipe.score(TABLE, y, exposures=of_row)


def test_pipelines_have_all_methods_that_predict():
    kinds = (getattr(sksurvgpu, name) for name in sksurvgpu.__all__)
    kinds = [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseEstimator)]
    names = {name for kind in kinds for name in dir(kind)}
    names = {name for name in names if name.startswith(("predict", "sample_predictive"))}
    assert names <= {*dir(Pipeline)}


def test_plain_pipelines_keep_their_methods_and_name_the_remedy():
    y = surv(EVENT == 1, TIME)
    ours = make_pipeline(COLUMNS, CoxLassoCCD(alpha=0.01)).fit(TABLE, y)
    assert isinstance(ours, Pipeline) and isinstance(ours, PlainPipeline)
    plain = PlainPipeline(ours.steps)
    with pytest.warns(FutureWarning, match=r"`predict_risk` of .* sksurvgpu.make_pipeline, or"):
        assert plain.predict_risk(TABLE, 10).equals(ours.predict_risk(TABLE, 10))
    with pytest.warns(FutureWarning, match=r"`summary` of"):
        assert plain.summary().equals(ours.summary())
    one_hot = PlainPipeline([("scale", StandardScaler()), ("ridge", Ridge())])
    assert not any(hasattr(one_hot, name) for name in OF_PLAIN_PIPELINES)
    for name in OF_PLAIN_PIPELINES:
        with pytest.raises(AttributeError, match=f"'Pipeline' has no attribute '{name}'"):
            getattr(one_hot, name)
        assert getattr(PlainPipeline, name).__doc__ == getattr(Pipeline, name).__doc__
    assert type(to_sklearn(ours)) is PlainPipeline  # converters know no others
    loaded = pickle.loads(pickle.dumps(ours))
    for name in ("predict_survival_function", "predict_cumulative_hazard_function"):
        curves = getattr(ours, name)(TABLE, return_array=True)
        np.testing.assert_array_equal(getattr(plain, name)(TABLE, return_array=True), curves)
        np.testing.assert_array_equal(getattr(loaded, name)(TABLE, return_array=True), curves)
    assert type(clone(ours)) is Pipeline and type(ours[:-1]) is Pipeline


def test_curves_say_where_they_end():
    y, strata = surv(EVENT == 1, TIME), np.where(TIME < 20, "early", "late")
    model = CoxLassoCCD(alpha=0.01).fit(TABLE[["age"]], y, strata=strata)
    [curve] = model.predict_survival_function(TABLE[["age"]][:1], strata=["early"])
    last = TIME[strata == "early"].max()
    assert curve.domain == (0.0, last) and 0 < curve(last) < 1
    message = rf"at 30, and the fit.s rows in stratum early end at {last:g}"
    with pytest.raises(ValueError, match=message):
        curve([1.0, 30.0])
    for other in (
        model.predict_cumulative_hazard_function(TABLE[["age"]][:1], strata=["early"])[0],
        pickle.loads(pickle.dumps(model.baseline_survival_["early"])),
    ):
        with pytest.raises(ValueError, match=message):
            other(30.0)


MISSING = TABLE.assign(age=TABLE["age"].where(RNG.random(N) > 0.1), dose=TABLE["dose"].round(1))
NUMBERS = make_pipeline(SimpleImputer(), StandardScaler())
RAW = make_column_transformer(
    (NUMBERS, ["age", "dose"]),
    (OneHotEncoder(drop="first", sparse_output=True), ["drug"]),
    verbose_feature_names_out=False,
    sparse_threshold=1.0,
)
RAW_NAMES = ["age", "dose", "drug_b", "drug_c"]
Y, CAUSES = surv(EVENT == 1, TIME), competing_risks(EVENT, TIME)
FREE, LASSO = CoxLassoCCD(alpha=0.0, tol=1e-9), CoxLassoCCD(alpha=0.01, tol=1e-9)
CV = CoxLassoCV(cv=3, n_alphas=10)
GRAY = FineGrayCCD(alpha=0.0, event_of_interest=2)
CHAINS = {"n_chains": 2, "n_tune": 40, "n_draws": 40, "level": 0.9}


def from_posterior(estimator, X, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of short chains
        return posterior(estimator, X, y, **CHAINS).summary()


def to_curves(estimator, X, y):
    return curve_intervals(estimator, X, y, X[:3], times=[5, 20], band=True, random_state=0)


def plain(X):
    if isinstance(X, Design):
        return pd.DataFrame(X.to_scipy().toarray(), columns=X.names)
    return X


def y_of(lines):
    return np.concatenate([line.get_ydata() for line in lines])


# Name -> (model, function of an estimator and rows). All public functions that take an estimator,
# but for those that draw rows and refit, which have tests of their own.
TAKES = {
    "wald": (FREE, lambda m, X, y: wald(m, X, y, robust=True).summary()),
    "residuals": (FREE, lambda m, X, y: residuals(m, X, y, kind="dfbeta")),
    "proportional_hazards_test": (
        FREE,
        lambda m, X, y: proportional_hazards_test(m, X, y, ["drug_b", "age"]).table,
    ),
    "certificate": (LASSO, lambda m, X, y: certificate(m, X, y).curvature),
    "debiased": (LASSO, lambda m, X, y: debiased(m, X, y).summary()),
    "local_false_discovery": (LASSO, lambda m, X, y: local_false_discovery(m, X, y)),
    "false_discovery": (LASSO, lambda m, X, y: false_discovery(m, X, y)),
    "information_criteria": (LASSO, lambda m, X, y: information_criteria(m, X, y)),
    "likelihood_ratio_test": (
        FREE,
        lambda m, X, y: likelihood_ratio_test(FREE_OF_AGE.fit(MISSING[["dose"]], y), m).statistic,
    ),
    "average_risk": (LASSO, lambda m, X, y: average_risk(m, X, y, {"as it is": {}}, 20).risks),
    "curve_intervals": (FREE, lambda m, X, y: to_curves(m, X, y).to_frame()),
    "profile_likelihood": (LASSO, lambda m, X, y: profile_likelihood(m, X, y, "drug_b").summary()),
    "posterior": (LASSO, from_posterior),
    "fit_path": (LASSO, lambda m, X, y: fit_path(m, X, y, n_alphas=5).to_frame()),
    "fit_outcomes": (
        LASSO,
        lambda m, X, y: fit_outcomes(m, X, {"one": y}, columns="drug_c").estimates,
    ),
    "to_json": (LASSO, lambda m, X, y: to_json(m)),
    "to_sklearn": (LASSO, lambda m, X, y: to_sklearn(m).predict(plain(X))),
    "LogLikelihoodScorer": (LASSO, lambda m, X, y: LogLikelihoodScorer()(m, X, y)),
    "CoefficientDisplay": (LASSO, lambda m, X, y: CoefficientDisplay.from_estimator(m).tables[""]),
    "CVDisplay": (CV, lambda m, X, y: CVDisplay.from_estimator(m).table),
    "SurvivalDisplay": (
        LASSO,
        lambda m, X, y: y_of(SurvivalDisplay.from_estimator(m, X[:2]).lines_),
    ),
    "CumulativeIncidenceDisplay": (
        GRAY,
        lambda m, X, y: y_of(
            CumulativeIncidenceDisplay.from_estimator(m, X[:2], aalen_johansen=y).observed_.values()
        ),
    ),
    "TraceDisplay": (
        BayesianLasso(n_chains=2, n_tune=100, n_draws=200),
        lambda m, X, y: next(iter(TraceDisplay.from_estimator(m).draws.values())),
    ),
}
FREE_OF_AGE = clone(FREE)


def pipe_of(*steps):
    """Pipeline of copies, which no other test fits."""
    return make_pipeline(*(step if isinstance(step, str) else clone(step) for step in steps))


def fitted_forms(model, y):
    """A model fitted to the transformed table, a pipeline, and a search for the pipeline."""
    X = NamedColumns(RAW).fit_transform(MISSING)
    pipe = pipe_of(RAW, model)
    search = GridSearchCV(
        pipe, {f"{pipe.steps[-1][0]}__tol": [model.tol]} if hasattr(model, "tol") else {}, cv=2
    )
    return (
        (clone(model).fit(X, y), X),
        (pipe.fit(MISSING, y), MISSING),
        (search.fit(MISSING, y), MISSING),
    )


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.thorough(
    but="wald|certificate|ratio_test|curve_in|profile|path|json|Scorer|CoefficientD"
)
@pytest.mark.parametrize("name", TAKES)
def test_what_takes_an_estimator_takes_a_pipeline(name):
    model, function = TAKES[name]
    y = {"CumulativeIncidenceDisplay": CAUSES, "TraceDisplay": TIME}.get(name, Y)
    (own, X), *others = fitted_forms(model, y)
    expected = function(own, X, y)
    for other, table in others:
        found = function(other, table, y)
        assert_same(found, expected)


def assert_same(found, expected):
    if isinstance(expected, pd.DataFrame | pd.Series):
        testing = pd.testing
        compare = testing.assert_frame_equal if expected.ndim == 2 else testing.assert_series_equal
        compare(found, expected, rtol=1e-9)
    elif isinstance(expected, str):
        assert found == expected
    else:
        np.testing.assert_allclose(found, expected, rtol=1e-9)


def rows_of(result, number, n_units=N):
    """Units that a replicate draws, by the definition of their seed."""
    return np.sort(np.random.default_rng([result._draw[1], number]).integers(n_units, size=n_units))


def coefs_by_hand(pipe, table, y, rows, **given):
    """Coefficients of a pipeline that is fitted to drawn rows, by name."""
    other = clone(pipe).fit(table.iloc[rows], y[rows], **given)
    return other.summary()["coef"]


def test_bootstrap_fits_transformers_to_the_rows_of_each_replicate():
    pipe = pipe_of(RAW, LASSO)
    result = bootstrap(pipe, MISSING, Y, n_replicates=5, random_state=1)
    assert result.feature_names.tolist() == RAW_NAMES and not hasattr(pipe[-1], "coef_")
    np.testing.assert_allclose(result.coef, clone(pipe).fit(MISSING, Y)[-1].coef_, atol=1e-8)
    for number in range(5):
        expected = coefs_by_hand(pipe, MISSING, Y, rows_of(result, number))
        np.testing.assert_allclose(result.to_frame().loc[number], expected, atol=1e-7)
    # with transformers of all rows, they are others
    shared = bootstrap(LASSO, RAW.fit_transform(MISSING), Y, n_replicates=5, random_state=1)
    assert np.abs(shared.coefs - result.coefs).max() > 1e-3
    search = GridSearchCV(pipe, {"coxlassoccd__alpha": [0.01]}, cv=2).fit(MISSING, Y)
    again = bootstrap(search, MISSING, Y, n_replicates=5, random_state=1)
    np.testing.assert_array_equal(again.coefs, result.coefs)


def test_bootstrap_of_what_learns_nothing_is_that_of_weights():
    X = MISSING[["age"]].fillna(60.0).assign(dose=MISSING["dose"])
    options = {"n_replicates": 6, "random_state": 3, "groups": np.arange(N) // 2}
    expected = bootstrap(LASSO, X, Y, **options)
    for steps in (FunctionTransformer(), "passthrough"):
        result = bootstrap(pipe_of(steps, LASSO), X, Y, **options)
        np.testing.assert_allclose(result.coefs, expected.coefs, atol=1e-6)
        assert result.feature_names.tolist() == ["age", "dose"]
    assert result._columns is None  # without transformers all replicates are one batch
    with pytest.raises(ValueError, match=r"`kind` is 'exponential', must .* for a pipeline"):
        bootstrap(pipe_of(StandardScaler(), LASSO), X, Y, kind="exponential")


def test_bootstrap_chooses_the_penalty_behind_transformers():
    pipe = pipe_of(RAW, CV)
    result = bootstrap(pipe, MISSING, Y, n_replicates=3, random_state=0)
    assert len(set(result.alphas)) > 1
    number, drawn = 1, np.bincount(rows_of(result, 1), minlength=N)
    steps = clone(RAW).fit(MISSING.iloc[rows_of(result, number)])
    X = steps.transform(MISSING)  # in which all levels are there
    chosen = clone(CV).fit(X, Y, sample_weight=drawn)
    assert result.alphas[number] == pytest.approx(chosen.alpha_, rel=1e-9)
    np.testing.assert_allclose(result.coefs[:, number], chosen.coef_, atol=1e-6)


# The first to have an event, and the last one.
OF_RARE = [np.argmin(np.where(EVENT == 1, TIME, np.inf)), np.argmax(TIME)]
RARE = MISSING.assign(drug=np.where(np.isin(np.arange(N), OF_RARE), "rare", TABLE["drug"]))


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore:.*fits of the bootstrap did not converge")
@pytest.mark.parametrize("unknown", ["error", pytest.param("ignore", marks=pytest.mark.thorough)])
def test_a_level_that_was_not_drawn(unknown):
    coded = OneHotEncoder(sparse_output=True, handle_unknown=unknown)
    columns = make_column_transformer(
        (NUMBERS, ["age", "dose"]), (coded, ["drug"]), verbose_feature_names_out=False
    )
    pipe = make_pipeline(columns, clone(LASSO).set_params(alpha=0.001))
    result = bootstrap(pipe, RARE, Y, n_replicates=24, random_state=0)
    there = np.array([np.isin(OF_RARE, rows_of(result, k)).any() for k in range(24)])
    assert 0 < there.sum() < 24
    frame = result.to_frame()
    assert (frame.loc[~there, "drug_rare"] == 0).all() and (
        frame.loc[there, "drug_rare"] != 0
    ).any()
    for number in np.flatnonzero(~there):
        expected = coefs_by_hand(pipe, RARE, Y, rows_of(result, number))
        assert "drug_rare" not in expected
        np.testing.assert_allclose(frame.loc[number, expected.index], expected, atol=1e-7)
    # without a penalty nothing says what its coefficient is
    pipe.set_params(coxlassoccd__penalty_factor={"drug_rare": 0.0})
    with pytest.warns(UserWarning, match="lack a column without a penalty") as caught:
        result = bootstrap(pipe, RARE, Y, n_replicates=24, random_state=0)
    assert f"{(~there).sum()} of 24 replicates" in str(caught.pop(UserWarning).message)
    np.testing.assert_array_equal(np.isnan(result.to_frame()["drug_rare"]), ~there)
    assert np.isfinite(result.to_frame().drop(columns="drug_rare")).all(axis=None)
    assert np.isfinite(result.summary()["coef"]).all()


@pytest.mark.thorough
def test_curves_of_a_level_that_was_not_drawn():
    columns = make_column_transformer((OneHotEncoder(), ["drug"]), (NUMBERS, ["age", "dose"]))
    pipe = pipe_of(columns, LASSO).fit(RARE, Y)
    options = {"times": 20, "what": "risk"}
    result = bootstrap(pipe, RARE, Y, n_replicates=24, random_state=0)
    lacking = [not np.isin(OF_RARE, rows_of(result, k)).any() for k in range(24)]
    new = RARE.iloc[[OF_RARE[0], 1]]
    message = f"transformers of {sum(lacking)} replicates refuse `X_new`.*unknown categories"
    with pytest.warns(UserWarning, match=message):
        some = curve_intervals(pipe, RARE, Y, new, bootstrap=result, **options)
    assert np.isfinite(some.to_frame()).all(axis=None)
    known = curve_intervals(pipe, RARE, Y, new[1:], bootstrap=result, **options)
    assert known.lower[0] != some.lower[1]  # of all replicates


def first_by_variance(k):
    return SelectKBest(lambda X, y: np.var(X, axis=0), k=k)


def test_columns_that_only_a_replicate_selects():
    X = pd.DataFrame(RNG.normal(size=(N, 4)), columns=list("abcd"))
    pipe = pipe_of(first_by_variance(2), LASSO)
    result = bootstrap(pipe, X, Y, n_replicates=9, random_state=0)
    names = result.feature_names.tolist()
    assert names == pipe[0].fit(X, TIME).get_feature_names_out().tolist()
    others = 0
    for number in range(9):
        expected = coefs_by_hand(pipe, X, Y, rows_of(result, number))
        others += not set(expected.index) <= set(names)
        found = result.to_frame().loc[number]
        np.testing.assert_allclose(found, expected.reindex(names, fill_value=0.0), atol=1e-7)
    assert others
    # their curves are those of the whole pipelines
    model = clone(pipe).fit(X, Y)
    curves = curve_intervals(model, X, Y, X[:2], times=[5, 20], bootstrap=result, level=0.5)
    by_hand = []
    for number in range(9):
        rows = rows_of(result, number)
        [*functions] = clone(pipe).fit(X.iloc[rows], Y[rows]).predict_survival_function(X[:2])
        by_hand.append([[function(5), function(20)] for function in functions])
    # quartiles of nine lie on two of them: nothing is interpolated, on whatever scale
    lower, upper = np.quantile(by_hand, [0.25, 0.75], axis=0)
    np.testing.assert_allclose(curves.lower, lower, atol=1e-6)
    np.testing.assert_allclose(curves.upper, upper, atol=1e-6)


@pytest.mark.filterwarnings("ignore:more than max_errors")
def test_stability_selection_fits_transformers_to_the_rows_of_each_half():
    pipe, alphas = pipe_of(RAW, LASSO), [0.05, 0.02, 0.01]
    options = {"alphas": alphas, "n_subsamples": 6, "sampling": "half", "random_state": 0}
    result = stability_selection(pipe, MISSING, Y, **options)
    seed, counts = int(generator(0).integers(2**63)), np.zeros((len(RAW_NAMES), len(alphas)))
    for number in range(6):
        rows = np.sort(np.random.default_rng([seed, number]).permutation(N)[: N // 2])
        for k, alpha in enumerate(alphas):
            one = clone(pipe).set_params(coxlassoccd__alpha=alpha)
            counts[:, k] += coefs_by_hand(one, MISSING, Y, rows) != 0
    assert result.feature_names.tolist() == RAW_NAMES and 0 < counts.sum() < 6 * counts.size
    np.testing.assert_allclose(result.probabilities, counts / 6)


def test_bootstrap_goes_on_in_a_folder(tmp_path):
    pipe = pipe_of(RAW, LASSO)
    options = {"n_replicates": 4, "random_state": 0}
    expected = bootstrap(pipe, MISSING, Y, **options)
    first = bootstrap(pipe, MISSING, Y, folder=tmp_path, **options)
    (tmp_path / "replicate-2.npz").unlink()
    again = bootstrap(pipe, MISSING, Y, folder=tmp_path, **options)
    for result in (first, again, pickle.loads(pickle.dumps(again))):
        np.testing.assert_array_equal(result.coefs, expected.coefs)
    other = make_pipeline(clone(RAW).set_params(sparse_threshold=0.0), LASSO)
    with pytest.raises(FileExistsError, match="`steps` differs"):
        bootstrap(other, MISSING, Y, folder=tmp_path, **options)


def test_arguments_of_fits_are_those_of_the_model():
    strata, weight = np.where(TIME < 20, "a", "b"), RNG.integers(1, 3, N).astype(float)
    X = NamedColumns(RAW).fit_transform(MISSING)
    given = {"strata": strata, "sample_weight": weight}
    own = clone(FREE).fit(X, Y, **given)
    named = {f"coxlassoccd__{name}": value for name, value in given.items()}
    pipe = pipe_of(RAW, FREE).fit(MISSING, Y, **named)
    assert_same(wald(pipe, MISSING, Y, **given).summary(), wald(own, X, Y, **given).summary())
    with pytest.raises(TypeError, match="`stratum` is no argument"):
        wald(pipe, MISSING, Y, stratum=strata)
    result = bootstrap(pipe, MISSING, Y, n_replicates=3, random_state=0, **given)
    rows = rows_of(result, 2)
    by_hand = {name: values[rows] for name, values in named.items()}
    expected = coefs_by_hand(pipe, MISSING, Y, rows, **by_hand)
    np.testing.assert_allclose(result.coefs[:, 2], expected, atol=1e-6)


def test_transformers_get_what_they_request():
    weight = RNG.integers(1, 4, N).astype(float)
    X = MISSING[["age", "dose"]].fillna(60.0)
    with config_context(enable_metadata_routing=True):
        pipe = make_pipeline(StandardScaler().set_fit_request(sample_weight=True), LASSO)
        result = bootstrap(pipe, X, Y, n_replicates=2, random_state=0, sample_weight=weight)
        rows = rows_of(result, 1)
        expected = coefs_by_hand(pipe, X, Y, rows, sample_weight=weight[rows])
        path = fit_path(pipe, X, Y, alphas=[0.01], sample_weight=weight)
        scale = path.at(0)[:-1].transform(X)
        whole = clone(pipe).fit(X, Y, sample_weight=weight)
        columns = make_column_transformer((pipe[0], ["age", "dose"]))
        for steps in (pipe[0], columns):
            named = make_pipeline(NamedColumns(steps), LASSO).fit(X, Y, sample_weight=weight)
            np.testing.assert_array_equal(named[-1].coef_, whole[-1].coef_)
        with pytest.raises(UnsetMetadataPassedError, match="StandardScaler"):
            make_pipeline(NamedColumns(StandardScaler()), LASSO).fit(X, Y, sample_weight=weight)
    np.testing.assert_allclose(result.coefs[:, 1], expected, atol=1e-7)
    np.testing.assert_allclose(
        np.average(scale.to_scipy().toarray(), axis=0, weights=weight), 0, atol=1e-12
    )


def test_what_cannot_be_taken_says_what_can():
    wrong = pipe_of(RAW, Ridge()).fit(MISSING, TIME)
    remedy = r"Pipeline, which ends in Ridge; pass .* a pipeline that ends in one, or a search"
    search = GridSearchCV(pipe_of(RAW, LASSO), {}, cv=2)
    for call in (
        lambda m: wald(m, MISSING, Y),
        lambda m: bootstrap(m, MISSING, Y),
        lambda m: fit_path(m, MISSING, Y),
        to_json,
        to_sklearn,
        lambda m: CoefficientDisplay.from_estimator(m),
    ):
        with pytest.raises(TypeError, match=remedy if call is not to_sklearn else "Ridge; pass a"):
            call(wrong)
        with pytest.raises(TypeError, match=r"type GridSearchCV; pass .* for one after its fit"):
            call(search)
    with pytest.raises(NotFittedError):
        wald(pipe_of(RAW, FREE), MISSING, Y)
    with pytest.raises(TypeError, match="Of a pipeline that is its last step: sites transform"):
        Coordinator(pipe_of(RAW, LASSO), {"Bergen": print, "Oslo": print})


def test_names_that_a_fit_does_not_know_have_a_remedy():
    pipe = pipe_of(RAW, clone(LASSO).set_params(penalty_factor={"drug_b": 0.0}))
    with pytest.raises(ValueError, match=r"In a pipeline call set_output.*in NamedColumns"):
        pipe.fit(MISSING, Y)
    pipe_of(NamedColumns(RAW), pipe[-1]).fit(MISSING, Y)


def test_a_penalty_that_was_chosen_is_taken_by_refit_model():
    pipe = pipe_of(RAW, CV).fit(MISSING, Y)
    with pytest.raises(TypeError, match=r"`refit_model\(\)` of a .*, or of a fitted pipe"):
        profile_likelihood(pipe, MISSING, Y, "age")
    fixed = pipe.refit_model()
    assert isinstance(fixed[-1], CoxLassoCCD) and fixed[0] is pipe[0]
    np.testing.assert_array_equal(fixed.predict(MISSING), pipe.predict(MISSING))
    interval = profile_likelihood(fixed, MISSING, Y, "age").intervals
    assert interval.loc["age", "lower"] < interval.loc["age", "upper"]
    for other in (pipe_of(RAW), pipe_of(RAW, Ridge())):
        assert not hasattr(other, "refit_model") and not hasattr(other, "summary")


def test_transformers_of_a_pipeline_that_is_not_fitted_learn_from_the_rows():
    pipe = pipe_of(RAW, LASSO)
    expected = profile_likelihood(clone(pipe).fit(MISSING, Y), MISSING, Y, "dose").summary()
    assert_same(profile_likelihood(pipe, MISSING, Y, "dose").summary(), expected)
    assert not hasattr(pipe[0], "transformers_")
    path = fit_path(pipe, MISSING, Y, n_alphas=6)
    best = path.best("bic")
    alone = clone(pipe).set_params(coxlassoccd__alpha=best[-1].alpha).fit(MISSING, Y)
    np.testing.assert_allclose(best.predict(MISSING), alone.predict(MISSING), atol=1e-5)
    assert best.summary().index.tolist() == RAW_NAMES
    found = false_discovery(path, MISSING, Y)["n_selected"]
    assert found.tolist() == path.df.tolist()
    ridge = make_pipeline(RAW, clone(LASSO).set_params(l1_ratio=0.5))
    criteria = fit_path(ridge, MISSING, Y, n_alphas=3).information_criteria(MISSING, Y)
    assert (criteria["df"] < 4).all()


@pytest.mark.parametrize("output", ["pandas", "polars"])
def test_paths_of_pipelines_predict_whatever_transformers_return(output):
    pytest.importorskip(output)
    pipe, X = make_pipeline(StandardScaler(), LASSO), MISSING[["age", "dose"]].fillna(60.0)
    expected = fit_path(pipe, X, Y, alphas=[0.01]).at(0).predict(X)
    with config_context(transform_output=output):
        found = fit_path(pipe, X, Y, alphas=[0.01]).at(0).predict(X)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_pipelines_within_pipelines_and_searches():
    inner = GridSearchCV(clone(FREE), {"alpha": [0.0]}, cv=2)
    nested = pipe_of(RAW, make_pipeline("passthrough", MaxAbsScaler(), inner)).fit(MISSING, Y)
    flat = pipe_of(RAW, MaxAbsScaler(), FREE).fit(MISSING, Y)
    found, expected = (wald(m, MISSING, Y).summary() for m in (nested, flat))
    assert_same(found, expected)
    assert found.index.tolist() == RAW_NAMES
    plain = to_sklearn(nested)
    np.testing.assert_allclose(plain.predict(MISSING), flat.predict(MISSING), rtol=1e-9)
    named = pipe_of(NamedColumns(RAW), FREE).fit(MISSING, Y)
    np.testing.assert_allclose(to_sklearn(named).predict(MISSING), named.predict(MISSING))
    assert json.loads(to_json(nested))["features"] == RAW_NAMES


def takes_an_estimator(item):
    """Whether a public function, or a way to make a public class, takes a model."""
    calls = [item, *(getattr(item, name, None) for name in ("from_estimator", "score"))]
    names = {"estimator", "model", "fitted", "full"}
    return any(callable(c) and names & set(inspect.signature(c).parameters) for c in calls)


def test_the_table_has_all_that_takes_an_estimator():
    public = {name: getattr(sksurvgpu, name) for name in sksurvgpu.__all__ if name != "datasets"}
    named = {name for name, item in public.items() if callable(item) and takes_an_estimator(item)}
    for module in (sksurvgpu.cohort, sksurvgpu.metrics, sksurvgpu.nonparametric):
        items = {name: getattr(module, name) for name in module.__all__}
        named |= {name for name, item in items.items() if takes_an_estimator(item)}
    # those of a pipeline that ends otherwise, or that fit what they take
    others = {"EffectsDisplay", "ProductColumns", "StackedIncidenceDisplay"}
    others |= {"CauseSpecificCox", "MultiStateCox"}
    others |= {"RandomIntercepts", "probability_intervals"}
    others |= {"expected_time"}  # which takes the name of a model
    assert named == {*TAKES, "bootstrap", "stability_selection", *others}
