"""
An effect that fades: the performance score in lung cancer
==========================================================

A Cox model has one hazard ratio for all times. In the trial of the
Veterans' Administration the performance score of a patient at entry
predicts deaths of the next three months and hardly any later ones. A test
detects this, and a model with a coefficient for each period describes it.
"""

# %%
# The data are 137 men with advanced lung cancer, from scikit-survival. The
# Karnofsky score goes from 10, hospitalized, to 90, able to care for
# oneself.

# sphinx_gallery_thumbnail_number = 2
import matplotlib.pyplot as plt
import pandas as pd
from sksurv.datasets import load_veterans_lung_cancer
from sksurvgpu import (
    CoefficientDisplay,
    CoxLassoCCD,
    SurvivalDisplay,
    proportional_hazards_test,
    wald,
)

table, y = load_veterans_lung_cancer()
X = pd.DataFrame(
    {
        "test drug": (table["Treatment"] == "test").astype(float),
        "earlier therapy": (table["Prior_therapy"] == "yes").astype(float),
        "Karnofsky, 10 points": table["Karnofsky_score"] / 10,
    }
)
constant = CoxLassoCCD(alpha=0, ties="efron").fit(X, y)
proportional_hazards_test(constant, X, y).table.round(4)

# %%
# Hazards are not proportional in the score. Cut points at 90 and 180 days
# give it three coefficients; rows are not split.

cuts = {"Karnofsky, 10 points": [90, 180]}
model = CoxLassoCCD(alpha=0, ties="efron", time_varying=cuts).fit(X, y)
figure, ax = plt.subplots(figsize=(8, 3), layout="constrained")
display = CoefficientDisplay.from_result(
    wald(model, X, y), sort=None, ax=ax
)

# %%
# Ten points more mean about 40 % less hazard in the first three months, and
# no detectable difference later. Predicted curves of a high and of a low
# score separate early, and then fall alike. A single coefficient (dashed)
# averages over all times.

rows = pd.DataFrame(0.0, index=["score 40", "score 80"], columns=X.columns)
rows["Karnofsky, 10 points"] = [4.0, 8.0]
figure, ax = plt.subplots(figsize=(7, 4.5), layout="constrained")
SurvivalDisplay.from_estimator(model, rows, ax=ax)
for line, curve in zip(
    ax.get_lines(), constant.predict_survival_function(rows), strict=False
):
    ax.step(
        curve.x,
        curve.y,
        where="post",
        color=line.get_color(),
        linestyle="--",
        linewidth=1,
    )
_ = ax.set(xlabel="days since randomization", xlim=(0, 400))

# %%
# Not shown: the choice of the cut points. They were chosen by others after
# they had looked at these data (the vignette on time-dependent covariates
# of R's ``survival``), which makes intervals too narrow.
