"""
Steps of a hazard by a lasso
============================

A single cut-off is easily chosen so that it looks good. Here all values of
a measurement are cut-offs at once; a lasso keeps those at which the hazard
changes, and the bootstrap gives intervals for the whole function.
"""

# %%
# The data are light chains of immunoglobulins in the blood of 7,874
# residents of Olmsted County from the age of 50 on, of whom 2,169 died;
# they ship with scikit-survival. Both kinds of chain are skewed, which does
# not matter to steps: they depend on the order of the values only.

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
# A hundred steps of each variable, at quantiles, are computed and not
# stored: a row has a byte for each variable. The penalty is the largest
# whose score is within one standard error of the best, which keeps few
# steps.

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
# The hazard rises with age all along, ninefold from 60 to 80. With the
# chains it is flat up to about 1.5 mg/dl, then rises for a while. Ratios
# compare with persons of 60, and with the median of either chain; at these
# values intervals vanish. Below is the distribution of the persons.

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
# The values of the figure as a table:

effects = steps.effects(intervals, reference={"age": 60})
chain = effects[effects["variable"] == "lambda"].set_index("value")
ratios = np.exp(chain[["effect", "lower", "upper"]])
ratios[ratios["effect"].diff() != 0].round(2)

# %%
# Not shown: the bias of the penalty. It shrinks every step, so that the
# function is flatter than in the data. The replicates have the same
# penalty, and vary around the shrunken function, not around the truth
# (:doc:`/guide/resampling`). :doc:`plot_smooth` draws curves in place of
# steps.
