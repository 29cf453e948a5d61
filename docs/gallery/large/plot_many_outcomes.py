"""
One exposure, many outcomes: free light chains and causes of death
==================================================================

High free light chains in the blood predict death. This example fits the
same model to each cause of death in one call. The rows of the covariates
are read once, and errors with one outcome are reported in its line.
"""

# %%
# The data are 7,874 persons of Olmsted County, from scikit-survival, with
# the chapter of the International Classification of Diseases for those who
# died (Dispenzieri and others 2012).

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sksurv.datasets import load_flchain
from sksurvgpu import CoefficientDisplay, CoxLassoCCD, fit_outcomes, surv

table, dead = load_flchain()
X = pd.DataFrame(
    {
        "light chains": np.log2(table["kappa"] + table["lambda"]),
        "age": (table["age"] - 65) / 10,
        "male": (table["sex"] == "M").astype(float),
    }
)
chapter = table["chapter"].astype(object).where(dead["death"])
chapter.value_counts()

# %%
# For each chapter, deaths of other causes count as censored: the hazard is
# one among those alive.

days = dead["futime"]
outcomes = {
    name: surv(chapter == name, days)
    for name in chapter.value_counts().index
}
result = fit_outcomes(
    CoxLassoCCD(alpha=0), X, outcomes, columns="light chains"
)
result.table[["n_events", "hazard_ratio", "p_value", "status"]].round(
    3
).head()

# %%
# Persons with twice the light chains die more often of nearly all causes,
# of infections four times as often, but not of external causes such as
# accidents, which blood should not predict. Causes with few deaths (numbers
# in brackets) have wide intervals, which end in an arrow at the edge of the
# figure.

table = result.table[["coef", "lower", "upper"]].sort_values(
    "coef", ascending=False
)
table.index = [
    f"{name} ({result.table.loc[name, 'n_events']})" for name in table.index
]
figure, ax = plt.subplots(figsize=(8, 6), layout="constrained")
display = CoefficientDisplay(table, effect="hazard ratio", level=0.95).plot(
    ax=ax, xlim=(0.25, 10)
)

# %%
# Not shown: multiple testing. Each interval holds by itself, not all at
# once: among sixteen one may miss. Kidney failure raises light chains, and
# is not in the model.
