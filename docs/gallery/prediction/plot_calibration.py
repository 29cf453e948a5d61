"""
Calibration of risks in later patients
======================================

This example fits a model to women operated on until 1987 and judges its
risks in women operated on from 1988 on. At fixed horizons: do as many die
as predicted (calibration), do those who die have the higher risks (AUC),
and how far are risks from outcomes (Brier score)?
"""

# %%
# The data are 2,982 women with breast cancer of Rotterdam, from the package
# SurvSet; times are months.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder
from sksurvgpu import CalibrationDisplay, CoxLassoCCD, make_pipeline, surv
from sksurvgpu.metrics import auc, brier_score, calibration
from SurvSet.data import SurvLoader

frame = SurvLoader().load_dataset(ds_name="rott2")["df"]
early = frame["fac_recent"] == "1978-1987"
y = surv(frame["event"] == 1, frame["time"])
skewed = ["num_nodes", "num_progesterone", "num_estrogen"]
columns = make_column_transformer(
    (OneHotEncoder(drop="first"), ["fac_tsize", "fac_grade", "fac_meno"]),
    (FunctionTransformer(np.log1p, feature_names_out="one-to-one"), skewed),
    ("passthrough", ["num_age"]),
)
model = make_pipeline(columns, CoxLassoCCD(alpha=0.0005)).fit(
    frame[early], y[early]
)

# %%
# A table of risks has a column for each horizon. Nothing is extrapolated: a
# risk beyond the follow-up of the fit is NaN.

horizons = np.array([24.0, 60.0, 96.0])
risk = model.predict_risk(frame[~early], horizons)
risk.head(3).round(2)

# %%
# AUC and Brier score weight women by the inverse probability of not being
# censored, estimated in the first outcome. A Brier score means little
# alone; compare it with that of one risk for all.

alike = CoxLassoCCD(alpha=0).fit(np.zeros((early.sum(), 1)), y[early])
one_risk = alike.predict_risk(np.zeros((len(risk), 1)), horizons)
later = y[~early]
scores = pd.DataFrame(
    {
        "AUC": auc(later, later, risk),
        "Brier score": brier_score(later, later, risk),
        "of one risk": brier_score(later, later, one_risk),
    }
)
scores.round(3)

# %%
# Discrimination is best for early deaths. The figure shows calibration:
# points are tenths of the women by their predicted risk, with the observed
# risk by the Kaplan-Meier estimate. On the dashed line, as many die as
# predicted. Here most points lie below it, because women operated on later
# die less often than a model of earlier ones predicts.

figure, axes = plt.subplots(1, 2, figsize=(9, 4.4), layout="constrained")
for ax, months in zip(axes, (60.0, 96.0), strict=True):
    result = calibration(later, risk, months)
    CalibrationDisplay.from_result(result, ax=ax)
    ax.set(
        xlabel="predicted risk",
        title=f"death within {months / 12:.0f} years",
    )

# %%
# Calibration in the large is the ratio of observed to expected deaths:

ratios = [
    calibration(later, risk, months).summary().rename(months)
    for months in horizons
]
pd.DataFrame(ratios).round(2)

# %%
# Not shown: other countries, where the result may differ. The censoring of
# later women is assumed not to depend on their covariates.
