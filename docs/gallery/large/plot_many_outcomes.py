"""
One exposure, many outcomes: free light chains and causes of death
==================================================================

Free light chains in the blood foretell death. Of what? The same model is
fitted to each cause in one call; the rows of the covariates are read once,
and what goes wrong with one outcome is said in its line.
"""

# %%
# 7,874 persons of Olmsted County, from scikit-survival, with the chapter of
# the International Classification of Diseases for those who died
# (Dispenzieri and others 2012).

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
# What to see: persons with twice the light chains die of nearly everything
# more often, of infections four times as often, but not of external causes
# such as accidents, of which blood should not tell. Causes with few deaths
# (their number is in brackets) have wide intervals, which end in an arrow
# where they leave the figure.

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
# Not shown: that intervals hold all at once. Each holds by itself, and
# among sixteen one may miss. Kidneys that fail raise light chains, and are
# not in the model.
