"""
Straight, curved or out: smooth functions
=========================================

Is the hazard linear in age, in body mass, in blood pressure? Most models
never ask. Splines whose first column is a straight line, and whose others
are what bends it, let a group lasso answer for each variable.
"""

# %%
# 500 patients of Worcester after an infarction of the heart, of whom 215
# died, from scikit-survival.

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
# Of ten knots ``smooth=True`` makes eleven columns a variable. They are
# uncorrelated; the line and the first bend have a standard deviation of 1,
# and what winds more has less, so that a penalty asks more for it. Any
# number of knots makes the same function, if there are enough.

columns = SplineColumns(n_knots=10, smooth=True).fit(X)
made = columns.transform(X).describe()
made.loc[columns.groups_ == "age curved", ["mean", "sd"]].head(4).round(3)

# %%
# ``groups_`` has the line and the bends of a variable apart. The penalty of
# all of them is chosen by cross-validation.

penalty = GroupLasso(columns.groups_, weights="equal")
model = make_pipeline(
    columns, CoxLassoCV(penalty=penalty, cv=5, random_state=0)
).fit(X, y)
size = pd.Series(abs(model[-1].coef_)).groupby(columns.groups_).sum()
size.to_frame("coefficients").round(2)

# %%
# What to see: age and heart rate are straight lines on the scale of the
# logarithm, which nobody has asked for. Body mass is not: the hazard is
# lowest around 30 kg/m², and the slim fare worst. Intervals are of a
# bootstrap that chooses lines and bends anew, at the same penalty.

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
# ``CoxLassoCV(l1_ratio=0.0)``, with ``penalty_factor={"age": 0}`` where the
# line of age is to be free (:doc:`/guide/additive`).
#
# Not shown: whether body mass does harm. Slim patients may be ill for other
# reasons, of which the table knows nothing.
