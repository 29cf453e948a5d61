"""
Heart transplants: a changing covariate and immortal time
=========================================================

Of 103 patients in the Stanford programme, those with a transplant lived
longer. But they had to survive until a heart was available: this time, in
which none of them could die, is *immortal*. With the transplant as a
covariate that begins when it happens, little is left of the difference.
"""

# %%
# The data of Crowley and Hu (1977) come from the package SurvSet with a row
# for each interval in which nothing changes. ``start`` is the beginning of
# the interval; ``subject`` tells the patient.

import matplotlib.pyplot as plt
import pandas as pd
from sksurvgpu import (
    CoefficientDisplay,
    CoxLassoCCD,
    profile_likelihood,
    surv,
)
from SurvSet.data import SurvLoader

rows = (
    SurvLoader()
    .load_dataset(ds_name="heart")["df"]
    .rename(columns={"time": "start"})
)
rows = rows.astype({"fac_surgery": int, "fac_transplant": int})
rows[["pid", "start", "time2", "event", "fac_transplant"]].head(5)

# %%
# The third patient waited a day, the fourth for 36 days. The figure has a
# line for each of 40 patients: grey while waiting, blue with the new heart,
# with a dot at the death. Most who died early died waiting: to get a heart,
# one had to survive until there was one.

some = rows[rows["pid"] <= 40]
figure, ax = plt.subplots(figsize=(7.5, 6), layout="constrained")
for transplanted, color, label in [
    (0, "0.65", "waiting"),
    (1, "#0072b2", "with transplant"),
]:
    part = some[some["fac_transplant"] == transplanted]
    ax.hlines(
        part["pid"],
        part["start"],
        part["time2"],
        color=color,
        linewidth=3,
        label=label,
    )
died = some[some["event"] == 1]
ax.plot(
    died["time2"],
    died["pid"],
    "o",
    color="#d55e00",
    markersize=5,
    label="died",
)
ax.set(
    xlabel="days since acceptance",
    ylabel="patient",
    xlim=(-5, 400),
    ylim=(41, 0),
)
legend = figure.legend(loc="outside upper center", ncols=3, frameon=False)

# %%
# The wrong analysis counts a patient with a transplant as treated from the
# first day on.

given = {
    "age": rows["num_age"] / 10,
    "earlier surgery": rows["fac_surgery"],
}
changing = pd.DataFrame(given | {"transplant": rows["fac_transplant"]})
ever = rows.groupby("pid")["fac_transplant"].transform("max")
last = ~rows.duplicated("pid", keep="last")
fixed = changing.assign(transplant=ever)[last]

model = CoxLassoCCD(alpha=0, ties="efron")
y_fixed = surv(rows["event"][last], rows["time2"][last])
y = surv(
    rows["event"], rows["time2"], start=rows["start"], subject=rows["pid"]
)
names = list(changing)
results = {
    "transplant as if from day 0": profile_likelihood(
        model, fixed, y_fixed, names
    ),
    "transplant when it happens": profile_likelihood(
        model, changing, y, names
    ),
}
figure, ax = plt.subplots(figsize=(8, 3.2), layout="constrained")
display = CoefficientDisplay.from_result(results, ax=ax)

# %%
# The hazard ratio of the transplant, a fifth in the wrong analysis, is
# about 1 in the right one. That of age, per ten years, changes as well.
#
# Not shown: confounding. Patients who were given a heart may have differed
# from those who still waited. The model also assumes that the transplant
# has the same effect from the first day on, operation included.
