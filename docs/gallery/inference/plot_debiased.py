"""
Debiased intervals after a lasso
================================

A lasso shrinks coefficients, so that intervals around them would be in the
wrong place. One step of Newton's method removes the bias and gives an
interval for each column, selected or not. Simulated data, where the truth
is known, show how often the intervals contain it.
"""

# %%
# The data are 500 rows of 40 correlated columns, of which 8 have an effect.
# The information criterion BIC chooses a penalty; pass the fit and its rows
# to :func:`~sksurvgpu.debiased`.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sksurvgpu import CoxLassoCCD, debiased, fit_path
from sksurvgpu.datasets import simulate_dense


def analyse(seed):
    """Return debiased intervals beside the lasso and the truth."""
    data = simulate_dense(500, 40, n_informative=8, random_state=seed)
    path = fit_path(
        CoxLassoCCD(), data.X, data.y, n_alphas=30, alpha_min_ratio=0.02
    )
    model = path.best("bic")
    result = debiased(model, data.X, data.y)
    return result.intervals.assign(lasso=model.coef_, truth=data.coef)


# %%
# Coverage, the proportion of intervals that contain the truth, in ten data
# sets:

tables = pd.concat(
    [analyse(seed) for seed in range(10)],
    keys=range(10),
    names=["data set"],
)
holds = tables["truth"].between(tables["lower"], tables["upper"])
kind = np.where(tables["truth"] == 0, "no effect", "effect")
holds.groupby(kind).agg(["mean", "size"]).round(3)

# %%
# The figure shows one of the data sets. Coefficients of the lasso (orange)
# lie between the truth (black) and zero. Debiased ones scatter around the
# truth, and their 95 % intervals contain it for most columns, also for
# those without an effect.

table = tables.loc[1].sort_values("truth").reset_index(drop=True)
figure, ax = plt.subplots(figsize=(8, 4.5), layout="constrained")
bars = np.abs(table[["lower", "upper"]].sub(table["coef"], axis=0)).T
ax.errorbar(
    table.index,
    table["coef"],
    bars,
    fmt="o",
    ms=4,
    lw=1,
    label="debiased, 95 %",
)
ax.plot(table["lasso"], "D", color="#d55e00", markersize=4, label="lasso")
ax.plot(
    table["truth"],
    "_",
    color="black",
    markersize=12,
    markeredgewidth=2,
    label="truth",
)
ax.axhline(0, color="0.7", linewidth=0.8, zorder=0)
ax.set(
    xlabel="columns, in the order of their true coefficients",
    ylabel="log hazard ratio",
)
ax.set_xticks([])
legend = ax.legend(frameon=False, loc="upper left")

# %%
# Not shown: hundreds of columns. There, intervals come from quadratic
# programs and cover less than they claim (:doc:`/guide/selection` has the
# figures). For a single exposure of interest, leave it out of the penalty.
