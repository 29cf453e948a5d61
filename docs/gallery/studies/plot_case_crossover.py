"""
A case-crossover study: falls after sleeping pills
==================================================

Does a sleeping pill lead to falls in the same night? A case-crossover study
compares, for each person who fell, the pill of that day with the pills of
the same person some weeks earlier. Each person is their own control, as in
a case series, and nothing after the fall is needed.
"""

# %%
# The data are simulated, because none ship with Python packages: 1,500
# persons observed for 120 days, each of whom takes pills and vitamins often
# or seldom. A fall is three times as likely on a day with a pill. Persons
# who like pills also fall more often, with or without a pill.

# sphinx_gallery_thumbnail_number = 2
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sksurvgpu import (
    CoefficientDisplay,
    ConditionalLogisticCCD,
    LogisticCCD,
    wald,
)
from sksurvgpu.cohort import case_crossover_windows

rng = np.random.default_rng(0)
n, n_days = 1_500, 120
habit = rng.beta(1, 4, size=(n, 1))
taken = {
    "pill": rng.random((n, n_days)) < habit,
    "vitamin": rng.random((n, n_days)) < 0.3,
}
fell = rng.random((n, n_days)) < 0.004 * np.exp(
    4 * habit + np.log(3) * taken["pill"]
)


def days_of(happened):
    """List persons and days."""
    person, day = np.nonzero(happened)
    return pd.DataFrame({"id": person, "day": day})


periods = pd.DataFrame({"id": range(n), "start": 0, "end": n_days - 1})
eras = pd.concat(
    [days_of(days).assign(era=name) for name, days in taken.items()]
)
eras = eras.assign(start=eras["day"], end=eras["day"]).drop(columns="day")
falls = days_of(fell)

# %%
# The window of the case is the day of the fall. The control windows are the
# same weekday one, two and three weeks earlier. Falls of the first weeks
# lose the controls that were not observed.

controls = [(-7, -7), (-14, -14), (-21, -21)]
data = case_crossover_windows(
    periods, eras, falls, case=(0, 0), controls=controls
)
data.attrition

# %%
# The conditional model compares falls with earlier days of the same person.
# A logistic regression of all days of all persons is beside it; it takes
# the habit of some persons for an effect of the pill.

within = ConditionalLogisticCCD(alpha=0).fit(data.X, data.y)
X_all = pd.DataFrame(
    {name: days.ravel().astype(float) for name, days in taken.items()}
)
across = LogisticCCD(alpha=0).fit(X_all, fell.ravel())
results = {
    "same person, earlier days": wald(within, data.X, data.y),
    "all persons, all days": wald(across, X_all, fell.ravel()),
}
figure, ax = plt.subplots(figsize=(8, 2.8), layout="constrained")
display = CoefficientDisplay.from_result(results, ax=ax)

# %%
# If the window of the case is moved to earlier days, it shows no effect:
# the odds ratio (with its 95 % interval, on a logarithmic axis) is 1 except
# on the day of the fall, where the dashed line is the truth.

ratios = []
for days in range(6):
    moved = case_crossover_windows(
        periods, eras, falls, case=(-days, -days), controls=controls
    )
    fit = ConditionalLogisticCCD(alpha=0).fit(moved.X, moved.y)
    ratios.append(np.exp(wald(fit, moved.X, moved.y).intervals.loc["pill"]))
ratio = pd.DataFrame(ratios)
figure, ax = plt.subplots(figsize=(7, 3.5), layout="constrained")
bars = np.abs(ratio[["lower", "upper"]].sub(ratio["coef"], axis=0)).T
ax.errorbar(range(6), ratio["coef"], bars, fmt="o")
ax.axhline(1, color="0.5", linewidth=1)
ax.axhline(3, color="0.5", linewidth=1, linestyle="--")
ax.set(
    xlabel="days before the fall",
    ylabel="odds ratio of the pill",
    yscale="log",
)
_ = ax.set_yticks([1, 1.5, 2, 3], labels=["1", "1.5", "2", "3"])

# %%
# Not shown: trends. If pills become more frequent with time for everybody,
# earlier days are no fair controls, and the ratio is too large.
