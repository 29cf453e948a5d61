"""
Survival by district with random intercepts
===========================================

Do patients of some districts live longer? Coefficients of a factor of
districts are noisy, most for districts with few patients, and so are the
extremes of a league table. Random intercepts have one estimated variance
for all districts, and are shrunk towards the middle, more with fewer
patients.
"""

# %%
# The data are 1,043 adults with acute myeloid leukaemia in the North West
# of England, 1982 to 1998, and the 24 districts they lived in, from
# SurvSet. Deprivation is Townsend's index of the ward, higher for poorer
# ones.

import numpy as np
import pandas as pd
from sksurvgpu import CoxLassoCCD, RandomIntercepts, surv
from SurvSet.data import SurvLoader

table = SurvLoader().load_dataset("LeukSurv")["df"]
district = table["fac_district"].astype(str)
X = pd.DataFrame(
    {
        "decades over 60": (table["num_age"] - 60) / 10,
        "log white cells": np.log1p(table["num_wbc"]),
        "deprivation": table["num_tpi"],
    }
)
y = surv(table["event"] == 1, table["time"] / 365.25)

model = RandomIntercepts(CoxLassoCCD(alpha=0)).fit(X, y, district)
model.wald()

# %%
# Districts differ, but little: the standard deviation of their log hazards
# is 0.17, as much as six points of deprivation, or half a decade of age.

pd.Series(
    {
        "standard deviation": np.sqrt(model.variance_),
        "p-value of none": model.variance_p_value_,
    }
).round(3)

# %%
# The coefficients of a factor, relative to their mean, spread nearly three
# times as far:

levels = pd.get_dummies(district).astype(float)
both = X.join(levels.iloc[:, 1:])
factor = CoxLassoCCD(alpha=0).fit(both, y).coef_[X.shape[1] :]
found = pd.DataFrame(
    {
        "factor": np.append(0.0, factor),
        "random": model.cluster_effects_.reindex(levels.columns),
        "patients": levels.sum().astype(int),
    }
)
found["factor"] -= np.average(found["factor"], weights=found["patients"])
found[["factor", "random"]].std().round(2)

# %%
# The figure shows the coefficient and the random intercept of each
# district, by its number of patients. Districts with few patients are
# shrunk most.

import matplotlib.pyplot as plt

figure, axes = plt.subplots(figsize=(6.4, 4))
axes.vlines(
    found["patients"], found["factor"], found["random"], color="0.75"
)
axes.plot(
    found["patients"], found["factor"], "o", color="0.6", label="factor"
)
axes.plot(found["patients"], found["random"], "o", label="random intercept")
axes.axhline(0.0, color="0.3", linewidth=0.8)
axes.set(xlabel="patients of a district", ylabel="log hazard ratio")
legend = axes.legend(frameon=False)

# %%
# The risk of death within a year in the best and the worst district, and in
# a new one:

ends = model.cluster_effects_.agg(["idxmin", "idxmax"])
patient = pd.concat([X.median().to_frame().T] * 3)
patient.index = ["lowest", "highest", "a new district"]
model.predict_risk(patient, 1.0, cluster=[*ends, "elsewhere"]).round(2)

# %%
# Not shown: similarity of neighbouring districts, and unrecorded
# differences of their patients.
