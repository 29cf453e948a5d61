"""Every estimator in pipelines, searches and paths: what belongs to rows goes where they go."""

import numpy as np
import pytest
import sklearn
from faces import CODE, COUNT, FACES, STRATA, SUBJECT, TIME, P, X, same_predictions
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, cross_val_score
from sklearn.preprocessing import MaxAbsScaler
from sksurv.metrics import (
    as_concordance_index_ipcw_scorer,
    as_cumulative_dynamic_auc_scorer,
    as_integrated_brier_score_scorer,
)

from sksurvgpu import (
    CoxLassoCCD,
    CoxLassoCV,
    FineGrayCCD,
    SurvivalKFold,
    as_sksurv,
    competing_risks,
    fit_path,
    make_pipeline,
    surv,
)


@pytest.fixture(params=FACES)
def face(request):
    return FACES[request.param]


def folds_of(face):
    """Splits that keep subjects whole where the model compares rows within them."""
    if face.groups is None:
        return KFold(3, shuffle=True, random_state=0), {}
    return GroupKFold(3), {"groups": face.groups}


@pytest.mark.thorough(but=r"\[(cox|conditional logistic|linear)\]")
def test_rows_are_routed_to_fit_and_score(face):
    folds, groups = folds_of(face)
    alphas, step = [0.005, 0.01], face.cls.__name__.lower()
    with sklearn.config_context(enable_metadata_routing=True):
        model = make_pipeline(MaxAbsScaler(), face.make())
        search = GridSearchCV(model, {f"{step}__alpha": alphas}, cv=folds)
        search.fit(X, face.y, **face.rows, **groups)
        single = make_pipeline(MaxAbsScaler(), face.make(alpha=0.005))
        params = face.rows | groups
        scores = cross_val_score(single, X, face.y, cv=folds, params=params)
    scaled = X / np.abs(X).max(axis=0).toarray()
    for alpha, mean in zip(alphas, search.cv_results_["mean_test_score"], strict=True):
        by_hand = []
        for train, test in folds.split(X, None, *groups.values()):
            size = np.abs(X[train]).max(axis=0).toarray()
            fitted = face.make(alpha=alpha)
            fitted.fit(X[train].toarray() / size, face.y[train], **face.arguments(face.rows, train))
            scored = face.arguments(face.scored, test)
            by_hand.append(fitted.score(X[test].toarray() / size, face.y[test], **scored))
        assert mean == pytest.approx(np.mean(by_hand), rel=1e-7)
        if alpha == 0.005:
            np.testing.assert_allclose(scores, by_hand, rtol=1e-7)
    refitted = face.make(alpha=search.best_params_[f"{step}__alpha"])
    refitted.fit(scaled, face.y, **face.rows)
    np.testing.assert_allclose(search.best_estimator_[-1].coef_, refitted.coef_, atol=1e-8)


def test_requests_can_be_taken_back(face):
    with sklearn.config_context(enable_metadata_routing=True):
        default = face.make().get_metadata_routing()
        assert default.fit.requests == dict.fromkeys(face.rows, True)
        assert default.score.requests == dict.fromkeys(face.scored, True)
        model = face.make().set_fit_request(**dict.fromkeys(face.rows, False))
        model.set_score_request(sample_weight=False)
        assert set(model.get_metadata_routing().fit.requests.values()) == {False}
        assert model.get_metadata_routing().score.requests["sample_weight"] is False


def test_exposure_is_routed_to_predict():
    face = FACES["poisson"]
    with sklearn.config_context(enable_metadata_routing=True):
        model = make_pipeline(face.make()).fit(X, COUNT, exposure=face.rows["exposure"])
        mean = model.predict(X, exposure=face.rows["exposure"])
    np.testing.assert_allclose(mean, face.rows["exposure"] * model.predict(X), rtol=1e-12)


@pytest.mark.thorough(but=r"\[(cox|conditional logistic)-")
@pytest.mark.parametrize("l1_ratio", [1.0, 0.4])
def test_a_path_has_the_estimators_own_fits(face, l1_ratio):
    params = {"l1_ratio": l1_ratio, "penalty_factor": {2: 0.5}}
    model = face.make(**params, alpha=7.0)
    path = fit_path(model, X, face.y, n_alphas=4, alpha_min_ratio=0.02, **face.rows)
    assert model.alpha == 7.0 and not hasattr(model, "coef_")
    assert path.converged.all() and len(path) == 4
    for i in (1, 3):
        at = path.at(i)
        single = face.fit(alpha=path.alphas[i], names=face.rows, **params)
        assert at.alpha == path.alphas[i]
        assert path.alpha_max == pytest.approx(single.alpha_max_, rel=1e-9)
        np.testing.assert_allclose(at.coef_, single.coef_, atol=1e-7)
        same_predictions(face, at, single, atol=1e-6)
        for name in ("objective_", "log_likelihood_"):
            assert getattr(at, name) == pytest.approx(getattr(single, name), rel=1e-9)
        scored = face.arguments(face.scored)
        assert at.score(X, face.y, **scored) == pytest.approx(single.score(X, face.y, **scored))
    assert path.feature_names.tolist() == [f"x{j}" for j in range(P)]


def test_unknown_arguments_of_a_path(face):
    known = [n for n in ("sample_weight", "strata", "exposure") if n in face.rows] + ["offset"]
    known += ["censoring_groups"] if "censoring_groups" in face.rows else []
    with pytest.raises(TypeError) as raised:
        fit_path(face.make(), X, face.y, groups=SUBJECT)
    assert str(raised.value) == (
        f"`groups` is no argument of fit_path and {face.cls.__name__}.fit; the latter takes "
        f"{', '.join(known)}."
    )


TIMES = [10.0, 20.0, 30.0]
END, KIND = np.minimum(TIME, 40.0), CODE * (TIME <= 40.0)  # somebody is left in every fold
PLAIN, CHANGING = surv(KIND == 1, END), {"time_varying": {0: [20.0]}}
SCORERS = {
    "concordance": as_concordance_index_ipcw_scorer,
    "auc": lambda model: as_cumulative_dynamic_auc_scorer(model, times=TIMES),
    "brier": lambda model: as_integrated_brier_score_scorer(model, times=TIMES),
}
OUTCOMES = {
    "a field 'stratum'": surv(KIND == 1, END, stratum=STRATA),
    "a field 'start'": surv(KIND == 1, END, start=0.5 * END),
    "a field 'subject'": surv(KIND == 1, END, subject=np.arange(len(TIME))),
}
BY_ITSELF = "Take the estimator without a scorer around it: its own `score` is"


def cross_validated(model, y=PLAIN, **options):
    return cross_val_score(model, X, y, cv=3, error_score="raise", **options)


@pytest.mark.thorough(but=r"stratum-brier|start-concordance|subject-auc")
@pytest.mark.parametrize("scorer", SCORERS)
@pytest.mark.parametrize("of_more", OUTCOMES)
def test_scorers_say_what_to_take_for_outcomes_they_cannot_read(of_more, scorer):
    y = OUTCOMES[of_more]
    for model in (
        CoxLassoCCD(),
        CoxLassoCV(cv=2, n_alphas=3),
        make_pipeline(MaxAbsScaler(), CoxLassoCCD()),
    ):
        with pytest.raises(ValueError, match=rf"`y` has {of_more}, too\. {BY_ITSELF}"):
            cross_validated(SCORERS[scorer](model), y)
        assert np.isfinite(cross_validated(model, y)).all()
    wrapped = SCORERS[scorer](CoxLassoCCD())
    with pytest.raises(ValueError, match=BY_ITSELF):  # of a search, too, where no score is left
        GridSearchCV(wrapped, {"estimator__alpha": [0.02, 0.01]}, cv=3).fit(X, y)
    assert np.isfinite(cross_validated(wrapped, as_sksurv(y))).all()


@pytest.mark.parametrize("scorer", ["concordance", "auc"])
def test_scorers_of_several_kinds_of_event(scorer):
    y = competing_risks(KIND, END)
    with pytest.raises(ValueError, match=rf"codes of several in 'event'\. {BY_ITSELF}"):
        cross_validated(SCORERS[scorer](FineGrayCCD()), y)
    assert np.isfinite(cross_validated(FineGrayCCD(), y)).all()


@pytest.mark.parametrize("scorer", ["concordance", "auc"])
def test_scorers_of_coefficients_that_change(scorer):
    model = CoxLassoCCD(alpha=0.01, **CHANGING)
    with pytest.raises(ValueError, match=r"cannot pass `time`.*as_integrated_brier_score_scorer"):
        cross_validated(SCORERS[scorer](model))
    with pytest.warns(UserWarning, match=f"(?s)Scoring failed.*{BY_ITSELF}"):
        assert np.isnan(cross_val_score(SCORERS[scorer](model), X, PLAIN, cv=3)).all()
    assert np.isfinite(cross_validated(model)).all()
    assert np.isfinite(cross_validated(SCORERS["brier"](model))).all()


def test_scorers_of_strata_that_are_passed():
    strata = {"params": {"strata": STRATA}}
    for name in ("concordance", "auc"):
        assert np.isfinite(cross_validated(SCORERS[name](CoxLassoCCD()), **strata)).all()
    with pytest.raises(ValueError, match=rf"cannot pass `strata`.* {BY_ITSELF}"):
        cross_validated(SCORERS["brier"](CoxLassoCCD()), **strata)


def test_groups_are_routed_to_folds():
    y, folds = surv(CODE > 0, TIME), SurvivalKFold(3, random_state=0)
    group = np.arange(len(y)) // 4
    expected = cross_val_score(CoxLassoCCD(), X, y, cv=list(folds.split(X, y, group)))
    with sklearn.config_context(enable_metadata_routing=True):
        found = cross_val_score(CoxLassoCCD(), X, y, cv=folds, params={"groups": group})
        plain = cross_val_score(CoxLassoCCD(), X, y, cv=folds)
    np.testing.assert_array_equal(found, expected)
    assert (plain != expected).any()
