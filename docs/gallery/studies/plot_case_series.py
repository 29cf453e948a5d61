"""
A case series: ten children, their vaccination and meningitis
=============================================================

Is meningitis more frequent in the weeks after a vaccination against
measles, mumps and rubella? A self-controlled case series needs only
children who fell ill, and compares each child with itself: in the weeks at
risk, and at all other times. Everything that is constant in a child
cancels.
"""

# %%
# The data are ten children of Oxford in their second year of life, a
# classic example of the method (Farrington 1995; Whitaker and others 2006):
# days of age at the vaccination and at the diagnosis. The weeks at risk are
# days 15 to 35 after the dose.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sksurvgpu import CaseSeriesCCD, ProfileDisplay, profile_likelihood
from sksurvgpu.cohort import RiskWindow, eras_to_intervals

vaccinated = np.array([458, 392, 429, 433, 432, 395, 470, 496, 428, 716])
diagnosed = np.array([398, 413, 449, 455, 472, 474, 485, 524, 700, 399])
child = np.arange(1, 11)

# %%
# The figure has a line for each child, shaded in the weeks at risk. Five of
# ten diagnoses fall into these, which are a small part of the year.

figure, ax = plt.subplots(figsize=(7.5, 4), layout="constrained")
ax.hlines(child, 366, 730, color="0.75", linewidth=1.5)
end = np.minimum(vaccinated + 35, 730)
ax.hlines(
    child,
    vaccinated + 15,
    end,
    color="#56b4e9",
    linewidth=9,
    label="days 15 to 35",
)
ax.plot(
    vaccinated,
    child,
    "|",
    color="black",
    markersize=12,
    label="vaccination",
)
ax.plot(
    diagnosed, child, "o", color="#d55e00", markersize=6, label="diagnosis"
)
ax.set(xlabel="age (days)", ylabel="child", yticks=child)
ax.invert_yaxis()
legend = figure.legend(loc="outside upper center", ncols=3, frameon=False)

# %%
# Three tables (who is observed, who is exposed, who fell ill) become one
# row for each interval in which nothing changes. Age affects meningitis and
# changes within a child, so it enters the model, in two groups.

periods = pd.DataFrame({"id": child, "start": 366, "end": 730})
doses = pd.DataFrame(
    {"id": child, "era": "mmr", "start": vaccinated, "end": vaccinated}
)
events = pd.DataFrame({"id": child, "day": diagnosed})
data = eras_to_intervals(
    periods,
    doses,
    events,
    windows={"weeks at risk": RiskWindow(15, 35)},
    age_groups=[548],
)
data.to_frame().head(4)

# %%
# The rate of meningitis is about twelve times that of other weeks, as
# published. With so few children the interval is wide and not symmetric, as
# the profile likelihood shows.

profile = profile_likelihood(
    CaseSeriesCCD(alpha=0), data.X, data.y, [0, 1], n_points=60
)
profile.summary()[
    ["rate_ratio", "rate_ratio_lower", "rate_ratio_upper"]
].round(2)

# %%
# The interval ends where a curve crosses the line of the chi-squared
# quantile.

display = ProfileDisplay.from_result(profile)

# %%
# Not shown: postponed vaccinations. The model assumes that the illness does
# not postpone the vaccination. If it did, the rate in the weeks before a
# dose would be too low, and a risk window before it (``RiskWindow(-30,
# -1)``) would show this.
