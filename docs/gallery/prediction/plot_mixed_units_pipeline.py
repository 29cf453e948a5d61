"""
From a raw table to a model: a pipeline and a search
====================================================

Raw tables have different units, categories and missing values. A
``ColumnTransformer`` of scikit-learn turns them into columns, an estimator
of this package models these, and a pipeline makes both one object for
searches, scores and storage.
"""

# %%
# The data are SUPPORT: 9,105 seriously ill patients of five hospitals, from
# the package SurvSet, with 24 measurements and 11 categories. Some
# laboratory values are missing in half of the patients.

import matplotlib.pyplot as plt
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sksurvgpu import (
    CoefficientDisplay,
    CoxLassoCCD,
    LogLikelihoodScorer,
    NamedColumns,
    SurvivalKFold,
    make_pipeline,
    surv,
)
from SurvSet.data import SurvLoader

frame = SurvLoader().load_dataset(ds_name="support2")["df"]
y = surv(frame["event"] == 1, frame["time"])
table = frame.drop(columns=["pid", "event", "time"])
# Risks that the study's own model had predicted, a copy of a column, and
# what is only known later: who was able to walk after two months, orders.
left_out = [
    "num_surv2m",
    "num_surv6m",
    "fac_num_co",
    "fac_sfdm2",
    "fac_dnr",
]
table = table.drop(columns=left_out)
table.isna().mean().nlargest(4).round(2)

# %%
# ``NamedColumns`` keeps names of sparse columns, so that the model can
# report them.

numbers = make_pipeline(
    SimpleImputer(strategy="median", add_indicator=True), StandardScaler()
)
columns = make_column_transformer(
    (numbers, make_column_selector("^num_")),
    (OneHotEncoder(handle_unknown="ignore"), make_column_selector("^fac_")),
    verbose_feature_names_out=False,
)
pipe = make_pipeline(NamedColumns(columns), CoxLassoCCD())
X_train, X_test, y_train, y_test = train_test_split(
    table, y, random_state=0
)
grid = {
    "coxlassoccd__alpha": [0.002, 0.005, 0.01, 0.02],
    "coxlassoccd__l1_ratio": [0.5, 1.0],
}
folds = SurvivalKFold(3, random_state=0)
search = GridSearchCV(
    pipe, grid, cv=folds, scoring=LogLikelihoodScorer()
).fit(X_train, y_train)
search.best_params_

# %%
# Imputation and scaling took place within the folds. The best pipeline is
# judged by the concordance in patients that neither the fit nor the search
# has seen. With the two columns known only later it would be above 0.8, and
# worthless.

round(search.best_estimator_.score(X_test, y_test), 3)

# %%
# The largest coefficients, per standard deviation of measurements and per
# level of categories. Worse physiology (``sps``), coma and age raise the
# hazard; ``missingindicator`` columns show that a missing measurement is
# itself predictive.

figure, ax = plt.subplots(figsize=(7, 4.5), layout="constrained")
display = CoefficientDisplay.from_estimator(
    search.best_estimator_[-1], n_top=15, ax=ax
)

# %%
# The pipeline predicts from raw tables, here the risk of death within half
# a year and two years:

search.best_estimator_.predict_risk(X_test.head(3), [182, 730]).round(2)

# %%
# Not shown: better imputation and causes. A median may be a poor guess of a
# missing value. Coefficients are those of a prediction, shrunken, and not
# causal.
