"""
Breast cancer: a lasso with an unpenalized treatment
====================================================

The German Breast Cancer Study Group followed 686 women from surgery to a
recurrence. A lasso selects among the measurements of tumour and patient,
but must not shrink the effect of the hormone therapy, the question of such
a study. A penalty factor of 0 leaves the therapy unpenalized.
"""

# %%
# The data ship with scikit-survival. Counts and assays are skewed and get
# logarithms; categories are encoded. All columns except the therapy are
# standardized, since a penalty treats a coefficient per year of age and one
# per unit of a receptor assay alike.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.preprocessing import StandardScaler
from sksurv.datasets import load_gbsg2
from sksurv.preprocessing import OneHotEncoder
from sksurvgpu import (
    CoefficientDisplay,
    CoxLassoCV,
    PathDisplay,
    fit_path,
    profile_likelihood,
)

table, y = load_gbsg2()
skewed = ["pnodes", "estrec", "progrec"]
table[skewed] = np.log1p(table[skewed])
X = OneHotEncoder().fit_transform(table)
measured = X.columns.drop("horTh=yes")
X[measured] = StandardScaler().fit_transform(X[measured])

# %%
# Cross-validation chooses the penalty of the other columns. The coefficient
# of ``horTh=yes``, which was not scaled, is the log hazard ratio of women
# with the therapy against women without.

model = CoxLassoCV(cv=10, rule="1se", penalty_factor={"horTh=yes": 0}).fit(
    X, y
)
model.summary().round(2)

# %%
# The path shows the coefficients as the penalty falls. That of the therapy
# is nonzero from the left end on, and hardly moves; all others begin at
# zero. The number of affected lymph nodes and the progesterone receptor
# enter first. The dashed line is the chosen penalty: the largest whose
# score is within one standard error of the best.

chosen = model.refit_model()
path = fit_path(chosen, X, y, n_alphas=60, alpha_min_ratio=0.003)
figure, ax = plt.subplots(figsize=(7.5, 4.5), layout="constrained")
display = PathDisplay.from_path(
    path, highlight=model.alpha_, n_labels=6, ax=ax
)

# %%
# A column without a penalty can have an interval. The profile likelihood
# refits all other coefficients at each value of this one. With the therapy,
# recurrences come at about 0.7 times the rate.

profile = profile_likelihood(chosen, X, y, "horTh=yes")
figure, ax = plt.subplots(figsize=(7.5, 1.6), layout="constrained")
forest = CoefficientDisplay.from_result(profile, ax=ax)

# %%
# Not shown: the choice of the penalty. The interval takes the choice of the
# penalty as given, and a lasso that shrinks confounders leaves a part of
# the confounding in the effect (:doc:`/guide/resampling`).
