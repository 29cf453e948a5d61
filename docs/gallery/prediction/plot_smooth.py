"""
Smooth functions: straight, curved or absent
============================================

This example checks whether the hazard is linear in age, body mass and blood
pressure. The first column of each spline is a straight line, and the others
bend it; a group lasso then makes each function straight, curved or absent.
"""

# %%
# The data are 500 patients of Worcester after a myocardial infarction, of
# whom 215 died, from scikit-survival.

import pandas as pd
from sksurv.datasets import load_whas500
from sksurvgpu import (
    CoxLassoCV,
    EffectsDisplay,
    GroupLasso,
    SplineColumns,
    bootstrap,
    make_pipeline,
)

table, y = load_whas500()
X = pd.DataFrame(
    {
        "age": table["age"],
        "body mass": table["bmi"],
        "heart rate": table["hr"],
        "systolic": table["sysbp"],
        "diastolic": table["diasbp"],
        "heart failure": table["chf"].astype(float),
    }
).astype(float)

# %%
# With ten knots ``smooth=True`` makes eleven columns per variable. They are
# uncorrelated. The line and the first bend have a standard deviation of 1,
# and columns with more bends have less, so that they are penalized more.
# Any sufficient number of knots gives the same function.

columns = SplineColumns(n_knots=10, smooth=True).fit(X)
made = columns.transform(X).describe()
made.loc[columns.groups_ == "age curved", ["mean", "sd"]].head(4).round(3)

# %%
# ``groups_`` separates the line and the bends of a variable.
# Cross-validation chooses one penalty for all groups.

penalty = GroupLasso(columns.groups_, weights="equal")
model = make_pipeline(
    columns, CoxLassoCV(penalty=penalty, cv=5, random_state=0)
).fit(X, y)
size = pd.Series(abs(model[-1].coef_)).groupby(columns.groups_).sum()
size.to_frame("coefficients").round(2)

# %%
# Age and heart rate are straight lines on the log scale, although the model
# allowed curves. Body mass is not: the hazard is lowest around 30 kg/m²,
# and highest for slim patients. Intervals are of a bootstrap that selects
# lines and bends anew, at the same penalty.

intervals = bootstrap(
    model[-1].refit_model(),
    model[:-1].transform(X),
    y,
    n_replicates=100,
    random_state=0,
)
display = EffectsDisplay.from_estimator(model, X, result=intervals)

# %%
# A ridge in place of the group lasso keeps all variables, and smooths:
# ``CoxLassoCV(l1_ratio=0.0)``, with ``penalty_factor={"age": 0}`` to leave
# the line of age unpenalized (:doc:`/guide/additive`).
#
# Not shown: a causal effect of body mass. Slim patients may be ill for
# reasons that are not in the table.
