"""
Negative controls measure the bias of a study
=============================================

A blood thinner cannot cause ingrown nails. If a study finds that it does,
the study is biased, and so are its estimates of the outcomes of interest.
Some thirty such outcomes measure the bias, so that the estimates can be
corrected.
"""

# %%
# The data are simulated claims of a new and an old drug, so that the truth
# is known: hazard ratios of stroke, bleeding and infarction, and 30
# outcomes on which neither drug acts. Each log hazard ratio has a
# systematic error, as by unrecorded confounding.

import matplotlib.pyplot as plt
import numpy as np
from sksurvgpu import (
    CoefficientDisplay,
    CoxLassoCCD,
    EmpiricalNullDisplay,
    LogisticCV,
    calibrate,
    fit_outcomes,
    from_long,
    surv,
)
from sksurvgpu.cohort import Cohort, stratify, time_at_risk
from sksurvgpu.datasets import simulate_claims

claims = simulate_claims(
    6_000,
    200,
    n_records=150_000,
    systematic_error=(0.25, 0.1),
    random_state=0,
)
persons = claims.persons
data = from_long(
    persons,
    claims.records,
    row_id="id",
    covariate_id="code",
    day="date",
    windows={"last year": (-365, -1)},
    duplicates="present",
    min_count=50,
)

# %%
# The study has a propensity score, five strata of it, and a Cox model of
# each outcome with a baseline hazard for each stratum, all in one call.
# :doc:`/examples/cohort_study` explains these steps.

propensity = LogisticCV(cv=5, n_alphas=15, alpha_min_ratio=0.01).fit(
    data.X, persons["treatment"]
)
score = propensity.predict_proba(data.X)[:, 1]
stratified = stratify(Cohort.of(persons.assign(score=score)), n_strata=5)
followed = {
    name: time_at_risk(
        stratified, lines, risk_start=1, competing="death_date"
    )
    for name, lines in claims.outcomes.groupby("outcome")
}
result = fit_outcomes(
    CoxLassoCCD(alpha=0),
    persons[["treatment"]],
    {
        name: surv(c.table["event"] == 1, c.table["time"])
        for name, c in followed.items()
    },
    columns="treatment",
    at_risk={name: c.rows for name, c in followed.items()},
    strata=stratified.spread("stratum"),
)

# %%
# Each point is an outcome, its estimate over its standard error. Controls
# should scatter around 1; they scatter around a larger ratio. Outside the
# dashed lines an estimate differs from 1 by its standard error; in the
# shaded area it does not differ from the controls.

of_interest = ["stroke", "bleeding", "infarction"]
estimates = result.estimates
calibrated = calibrate(
    estimates.loc[of_interest], estimates.loc[claims.negative_controls]
)
figure, ax = plt.subplots(figsize=(7, 4.5), layout="constrained")
display = EmpiricalNullDisplay.from_result(calibrated, ax=ax)
calibrated

# %%
# Calibrated intervals are shifted and wider. Crosses are the truth.

bounds = {
    "calibrated_coef": "coef",
    "calibrated_lower": "lower",
    "calibrated_upper": "upper",
}
tables = {
    "as estimated": result.table.loc[
        of_interest, ["coef", "lower", "upper"]
    ],
    "calibrated": calibrated.table[list(bounds)].rename(columns=bounds),
}
figure, ax = plt.subplots(figsize=(8, 3), layout="constrained")
forest = CoefficientDisplay(tables, effect="hazard ratio", level=0.95).plot(
    ax=ax
)
truth = np.exp(claims.log_hazard_ratios[of_interest])
points = ax.plot(truth, [0, 1, 2], "x", color="black")

# %%
# Not shown: the choice of controls. The method assumes that the errors of
# the controls are of the same kind as those of the other outcomes. No
# computation can check this; controls have to be chosen by persons who know
# the drugs.
