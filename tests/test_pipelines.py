"""Names of columns through transformers, and what pipelines can do beside fit and predict."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from sksurvgpu import (
    CoxLassoCCD,
    Design,
    FineGrayCCD,
    LogisticCCD,
    NamedColumns,
    competing_risks,
    surv,
)

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
    assert fine_gray.predict_quantile(TABLE, 0.1).index.tolist() == list(range(N))


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
