"""
From a benign protein to a malignancy, and to death
===================================================

A person with a monoclonal protein in the blood may live on with it, develop
a malignancy of plasma cells, or die, with or without the malignancy. A
multi-state model estimates the rates of all three transitions, and from
these the probability of each state at any time, and the years in each
state.
"""

# %%
# The data are 241 persons of the Mayo Clinic with such a protein, followed
# for up to 40 years, from SurvSet. A row is the time of a person in one
# state: those who had a malignancy have two rows.

import numpy as np
import pandas as pd
from sksurvgpu import multi_state, transition_table
from SurvSet.data import SurvLoader

table = SurvLoader().load_dataset("mgus")["df"]
died = np.where(table["event"] == 1, "dead", "")
malignant = table["num_pctime"].notna()
first = pd.DataFrame(
    {
        "person": table["pid"],
        "decades over 60": (table["num_age"] - 60) / 10,
        "male": (table["fac_sex"] == "male").astype(float),
        "state": "protein",
        "entered": np.where(malignant, "malignancy", died),
        "start": 0.0,
        "end": table["num_pctime"].fillna(table["time"]) / 365.25,
    }
)
second = first.assign(
    state="malignancy",
    entered=died,
    start=first["end"],
    end=table["time"] / 365.25,
)[malignant]
rows = pd.concat([first, second]).query("start < end")
y = multi_state(
    rows["state"],
    rows["entered"],
    rows["start"],
    rows["end"],
    rows["person"],
    allowed={
        "protein": ["malignancy", "dead"],
        "malignancy": ["dead"],
    },
)
transition_table(y)

# %%
# Age raises the rate of death without a malignancy, and has little effect
# on the rate of the malignancy itself.

from sksurvgpu import CoxLassoCCD, MultiStateCox

X = rows[["decades over 60", "male"]]
model = MultiStateCox(CoxLassoCCD(alpha=0)).fit(X, y)
model.summary()["hazard_ratio"].unstack("feature").round(2)

# %%
# Predictions for two men, of 50 and 70 years. The coloured areas are those
# with a malignancy and the dead, the grey one those who live with the
# protein. Most men like the older one die before they have a malignancy.

from sksurvgpu import StackedIncidenceDisplay

men = pd.DataFrame(
    {"decades over 60": [-1.0, 1.0], "male": 1.0},
    index=["aged 50", "aged 70"],
)
display = StackedIncidenceDisplay.from_estimator(model, men)

# %%
# Expected years of the next 20 in each state:

model.predict_expected_time(men, 20).round(1)

# %%
# If the malignancy is there after ten years, the probability of being dead
# two and five years later:

model.predict_state_probabilities(
    men, [12, 15], state="malignancy", start=10
)["dead"].round(2)

# %%
# This model ignores when the malignancy began: only the time since the
# protein was found counts. With ``clock="reset"`` time counts from the
# malignancy, and paths are simulated instead of multiplying matrices.

since = MultiStateCox(CoxLassoCCD(alpha=0), clock="reset").fit(X, y)
since.predict_state_probabilities(men, [2, 5], state="malignancy")[
    "dead"
].round(2)

# %%
# Intervals of these probabilities account for the errors of all
# coefficients and hazards. Here the probability of a malignancy by twenty
# years:

from sksurvgpu import probability_intervals

probability_intervals(model, X, y, men, 20, of="malignancy").to_frame()

# %%
# Not shown: laboratory values, and the calibration of the probabilities.
