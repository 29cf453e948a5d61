"""
Where a risk steps up: the lasso of steps
=========================================

A cut-off is easily chosen so that it looks good. Here all values of a
measurement are cut-offs at once, a lasso keeps those where the hazard
steps, and the bootstrap says how sure one may be of the whole function.
"""

# %%
# The light chains of immunoglobulins in the blood of 7,874 residents of
# Olmsted County from the age of 50 on, of whom 2,169 died; the data ship
# with scikit-survival. Both kinds of chain are skewed. Steps do not mind:
# what counts is the order of the values.

import numpy as np
import pandas as pd
from sksurv.datasets import load_flchain
from sksurvgpu import (
    CoxLassoCV,
    EffectsDisplay,
    StepColumns,
    bootstrap,
    make_pipeline,
    surv,
)

table, outcome = load_flchain()
X = pd.DataFrame(
    {
        "age": table["age"],
        "kappa": table["kappa"],
        "lambda": table["lambda"],
        "man": (table["sex"] == "M").astype(float),
    }
)
y = surv(outcome["death"], np.maximum(outcome["futime"], 0.5))
X.describe().round(2)

# %%
# A hundred steps of each variable, at quantiles, stand in no table: a row
# has a byte for each variable. The penalty is the largest whose score is
# within one standard error of the best, which keeps few of them.

model = make_pipeline(
    StepColumns(), CoxLassoCV(cv=5, rule="1se", random_state=0)
).fit(X, y)
steps, cox = model
{
    name: f"{np.count_nonzero(cox.coef_[steps.groups_ == name])} of "
    f"{np.count_nonzero(steps.groups_ == name)}"
    for name in X
}

# %%
# What to see: the hazard rises with age all along, ninefold from 60 to 80.
# With the chains it does not: up to about 1.5 mg/dl it is flat, then it
# climbs for a while. Ratios compare with persons of 60, and with the median
# of either chain: intervals are of differences, and vanish where a value is
# compared with itself. Below are the persons.

intervals = bootstrap(
    cox.refit_model(),
    steps.transform(X),
    y,
    n_replicates=100,
    random_state=0,
)
display = EffectsDisplay.from_estimator(
    model, X, result=intervals, reference={"age": 60}
)
for ax in display.axes_[1:]:
    ax.set_xlim(0, 8)  # mg/dl; few persons have more

# %%
# The same as a table, to look up what the figure shows:

effects = steps.effects(intervals, reference={"age": 60})
chain = effects[effects["variable"] == "lambda"].set_index("value")
ratios = np.exp(chain[["effect", "lower", "upper"]])
ratios[ratios["effect"].diff() != 0].round(2)

# %%
# Not shown: the penalty shrinks every step, so that the function is flatter
# than the data say, and the replicates, which have the same penalty, are
# around it, not around the truth (:doc:`/guide/resampling`).
# :doc:`plot_smooth` draws curves in place of steps.
