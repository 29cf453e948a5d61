"""
A federated fit of four hospital groups
=======================================

Four hospital groups fit one model without exchanging rows. Each adds its
part to sums over all rows, from which each fits the same model. The result
is the fit of all rows, not an average of four fits.
"""

# %%
# The data are 6,805 patients who began dialysis in one of 67 centres of Rio
# de Janeiro, from the package SurvSet, with months until death. The centres
# are combined into four groups.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sksurvgpu import CoefficientDisplay, CoxLassoCCD, surv, wald
from sksurvgpu.federated import Coordinator, Rules, Site
from SurvSet.data import SurvLoader

frame = SurvLoader().load_dataset(ds_name="Dialysis")["df"]
diseases = ["diabetes", "renal", "congen", "other"]
X = pd.DataFrame(
    {
        name: (frame["fac_disease"] == name).astype(float)
        for name in diseases
    }
)
X["age, 10 years"] = frame["num_age"] / 10 - 5
y = surv(frame["event"] == 1, frame["time"])
group = np.unique(frame["fac_center"], return_inverse=True)[1] % 4
members = {f"group {k + 1}": np.flatnonzero(group == k) for k in range(4)}
{name: len(rows) for name, rows in members.items()}

# %%
# Each site has rules: here it sends no sum over fewer than ten rows, and
# each row has a secret weight of about one (`blur`), so that nothing can be
# counted. Follow-up times are rounded up to a grid that all sites can
# serve, which is agreed on without looking at single rows.

estimator = CoxLassoCCD(alpha=0)
rules = Rules(min_rows=10)
sites = {
    name: Site(X.iloc[rows], y[rows], rules=rules)
    for name, rows in members.items()
}
send = {name: site.answer for name, site in sites.items()}
coordinator = Coordinator(
    estimator, send, grid=np.arange(1.0, 45.0), rows_per_time=10
)
federated = coordinator.fit()
print(len(coordinator.grid_), "times")
print(coordinator.n_exchanges_, "messages to every site")

# %%
# Compare with the fit of all rows, which nobody could make in practice. The
# remaining difference comes from the coarser times and the blur:

pooled = CoxLassoCCD(alpha=0).fit(X, y)
pd.DataFrame(
    {"of sums": federated.coef_, "of all rows": pooled.coef_}, X.columns
).round(3)

# %%
# Single groups have wide intervals, and estimates on both sides of the
# dashed lines, which are the federated fit. Diseases are compared with high
# blood pressure.

alone = {}
for name, rows in members.items():
    model = CoxLassoCCD(alpha=0).fit(X.iloc[rows], y[rows])
    alone[name] = wald(model, X.iloc[rows], y[rows])
figure, ax = plt.subplots(figsize=(8, 5.5), layout="constrained")
display = CoefficientDisplay.from_result(alone, sort=None, ax=ax)
for row, ratio in enumerate(np.exp(federated.coef_)):
    ax.plot(
        [ratio, ratio],
        [row - 0.45, row + 0.45],
        "--",
        color="black",
        linewidth=1,
    )

# %%
# Not shown: the protection of rows. Nobody has seen a sum of one group. The
# parts of each group were covered by random numbers that cancel in the sum
# of all, and the coordinator could not choose what was summed.
# :doc:`/guide/federated` says who learns what, and what is not protected.
