"""
A nested case-control study: 5 persons for each death
=====================================================

Measuring blood samples of a whole cohort is expensive. A nested
case-control study measures those who died and, for each of them, a few
persons who were alive at that time. Conditional logistic regression of such
matched sets estimates the hazard ratios of the whole cohort from a part of
the measurements.
"""

# %%
# The cohort has 7,874 persons whose free light chains were all measured, so
# that both designs can be compared. The data ship with scikit-survival.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sksurv.datasets import load_flchain
from sksurvgpu import (
    CoefficientDisplay,
    ConditionalLogisticCCD,
    CoxLassoCCD,
    matched,
    surv,
    wald,
)

table, outcome = load_flchain()
table = table.reset_index(drop=True)
dead, days = outcome["death"], outcome["futime"]
X = pd.DataFrame(
    {
        "kappa, doubled": np.log2(table["kappa"]),
        "lambda, doubled": np.log2(table["lambda"]),
        "MGUS": (table["mgus"] == "yes").astype(float),
    }
)

# %%
# For each death, draw five persons of the same sex and, within two years,
# age who were followed for longer. A drawn person may die later, and may be
# drawn again: leaving such persons out would bias the ratios.

rng = np.random.default_rng(0)
alike = (
    table["sex"].astype(str)
    + " "
    + (table["age"] // 2 * 2).astype(int).astype(str)
)
members = {
    label: index.to_numpy()
    for label, index in table.groupby(alike).groups.items()
}
rows, case, sets = [], [], []
for i in np.flatnonzero(dead):
    candidates = members[alike[i]]
    candidates = candidates[days[candidates] > days[i]]
    controls = rng.choice(
        candidates, min(5, len(candidates)), replace=False
    )
    rows += [i, *controls]
    case += [True] + [False] * len(controls)
    sets += [i] * (1 + len(controls))
len(sets), len(set(rows))

# %%
# The persons alive at a death are the risk set of a Cox model. The Cox
# model of the whole cohort has a stratum for each sex and age, so that it
# compares the same persons.

y = matched(case, sets)
sampled = ConditionalLogisticCCD(alpha=0).fit(X.iloc[rows], y)
y_cohort = surv(dead, days, stratum=alike)
cohort = CoxLassoCCD(alpha=0).fit(X, y_cohort)
results = {
    "cohort of 7,874 persons": wald(cohort, X, y_cohort),
    "matched sets": wald(sampled, X.iloc[rows], y),
}

# %%
# Both designs agree within their intervals; those of the matched sets are a
# little wider. The axis is the hazard ratio, which odds ratios within such
# sets estimate.

tables = {name: result.intervals for name, result in results.items()}
figure, ax = plt.subplots(figsize=(8, 3), layout="constrained")
display = CoefficientDisplay(
    tables, effect="hazard ratio", level=0.95
).plot(ax=ax)

# %%
# The width depends on the number of controls: with m of them, the variance
# is about (m + 1) / m times that of the cohort. Not shown: absolute risks,
# which matched sets alone do not give.
