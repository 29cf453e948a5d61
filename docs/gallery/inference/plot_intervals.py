"""
Three intervals: Wald, profile likelihood, bootstrap
====================================================

This example compares three intervals of a hazard ratio. Wald's interval is
a formula, the profile likelihood refits the other coefficients at each
value of the one of interest, and the bootstrap draws patients at random.
They agree if there are many events.
"""

# %%
# The data are 500 patients of Worcester after a myocardial infarction, of
# whom 215 died, from scikit-survival.

import pandas as pd
from sksurv.datasets import load_whas500
from sksurvgpu import (
    CoefficientDisplay,
    CoxLassoCCD,
    ProfileDisplay,
    bootstrap,
    profile_likelihood,
    wald,
)

table, y = load_whas500()
X = pd.DataFrame(
    {
        "age, 10 years": table["age"] / 10,
        "body mass, 5 kg/m²": table["bmi"] / 5,
        "heart rate, 10/min": table["hr"] / 10,
        "heart failure": table["chf"].astype(float),
        "shock": table["sho"].astype(float),
        "heart block": table["av3"].astype(float),
    }
)
(X[["heart failure", "shock", "heart block"]]).sum()

# %%
# Few patients have a shock or a complete heart block.

model = CoxLassoCCD(alpha=0).fit(X, y)
profiles = profile_likelihood(model, X, y, list(X.columns), n_points=40)
results = {
    "Wald": wald(model, X, y),
    "profile likelihood": profiles,
    "bootstrap": bootstrap(model, X, y, n_replicates=400, random_state=0),
}
forest = CoefficientDisplay.from_result(results)

# %%
# For age and heart rate the three intervals are the same. For shock and
# heart block they differ: the profile reaches farther down than Wald's
# interval, because with few patients the likelihood is not a parabola. The
# bootstrap differs again, as some draws have hardly a patient with a block.

pd.concat(
    {
        name: result.intervals.loc["heart block"]
        for name, result in results.items()
    },
    axis=1,
)

# %%
# The profile likelihoods, on a logarithmic axis of the ratio: that of age
# is a parabola, and that of heart block is skewed.

display = ProfileDisplay.from_result(
    profiles, columns=["age, 10 years", "shock", "heart block"]
)

# %%
# Not shown: penalties. With a penalty, Wald's formula does not hold, and
# the other intervals answer a narrower question: see
# :doc:`/guide/resampling`.
