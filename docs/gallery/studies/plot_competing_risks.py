"""
Competing risks: two models, two questions
==========================================

A person who dies of another cause cannot die of circulatory disease. The
cause-specific hazard ratio is the effect of a covariate on the rate of
circulatory deaths among those alive; Fine and Gray's ratio is the effect on
the proportion who ever die of it. Both are right, and they differ.
"""

# %%
# The data are 7,874 persons of Olmsted County whose free light chains were
# measured, from scikit-survival. Circulatory deaths are event 1, all others
# event 2.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sksurv.datasets import load_flchain
from sksurvgpu import (
    CoefficientDisplay,
    CoxLassoCCD,
    FineGrayCCD,
    as_sksurv,
    competing_risks,
    wald,
)
from sksurvgpu.nonparametric import aalen_johansen

table, dead = load_flchain()
code = np.where(
    dead["death"], np.where(table["chapter"] == "Circulatory", 1, 2), 0
)
y = competing_risks(code, dead["futime"] / 365.25)
X = pd.DataFrame(
    {
        "age, 10 years": table["age"] / 10,
        "male": (table["sex"] == "M").astype(float),
        "kappa, doubled": np.log2(table["kappa"]),
        "lambda, doubled": np.log2(table["lambda"]),
    }
)

# %%
# The model of Fine and Gray predicts cumulative incidences. The figure
# stacks its curves of both causes, one model each: coloured are the dead,
# white those alive. Lines are the Aalen-Johansen estimate, without a model.
# Over ten years both agree. Among the oldest the models, which have one
# ratio for all times, predict too few early deaths and too many late ones.

models = {
    cause: FineGrayCCD(alpha=0, event_of_interest=cause).fit(X, y)
    for cause in (1, 2)
}
ages = {
    "under 65": table["age"] < 65,
    "65 to 79": table["age"].between(65, 79),
}
ages["80 and over"] = table["age"] >= 80
times = np.linspace(0, 13, 100)
figure, axes = plt.subplots(
    1, 3, figsize=(9, 3.6), sharey=True, layout="constrained"
)
for ax, (name, members) in zip(axes, ages.items(), strict=True):
    risks = [
        model.predict_risk(X[members], times[1:]).mean()
        for model in models.values()
    ]
    heart, other = (np.append(0, risk) for risk in risks)
    ax.stackplot(
        times,
        heart,
        other,
        colors=["#d55e00", "#f0c9a8"],
        labels=["heart", "other"],
    )
    seen = aalen_johansen(y[members]).functions
    observed = np.array(
        [[seen["all", cause](t) for t in times] for cause in (1, 2)]
    )
    ax.plot(
        times,
        observed.cumsum(axis=0).T,
        color="black",
        linewidth=1,
        label="_",
    )
    ax.set(
        title=f"{name} ({members.sum():,})",
        xlabel="years",
        ylim=(0, 1),
        xlim=(0, 13),
        xticks=[0, 5, 10],
    )
axes[0].set_ylabel("share of persons who died of it")
legend = axes[0].legend(
    loc="upper left", title="predicted; lines: observed", frameon=False
)

# %%
# The hazard ratios of both kinds of models, with Wald's intervals; those of
# Fine and Gray's account for the estimation of the censoring.

heart_only = as_sksurv(y, event_of_interest=1)
cause_specific = CoxLassoCCD(alpha=0).fit(X, heart_only)
intervals = {
    "cause-specific": wald(cause_specific, X, heart_only),
    "Fine-Gray": wald(models[1], X, y, robust=True),
}
figure, ax = plt.subplots(figsize=(8, 3.6), layout="constrained")
display = CoefficientDisplay.from_result(intervals, ax=ax)

# %%
# All ratios of Fine and Gray's model are nearer to 1, above all that of
# lambda chains: they raise the rate of all deaths, and a person who dies of
# another cause cannot die of circulatory disease. Reports should give both.
#
# Not shown: a joint model. Subdistribution hazards cannot be proportional
# for both causes at once, so that the two stacked models are a description,
# not one model.
