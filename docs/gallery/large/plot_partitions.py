"""
Files larger than memory: 51,319 hard drives
============================================

Write a table that does not fit into memory to a folder of partitions, batch
by batch, and fit the model from there. Each partition answers with sums
over its rows, and the model equals that of all rows.
"""

# %%
# The data are hard drives of a data centre (Backblaze), from the package
# SurvSet. They would fit into memory, so that both ways can be compared.
# Batches come from a generator, as from monthly files.

import tempfile

import matplotlib.pyplot as plt
import pandas as pd
from sksurvgpu import CoxLassoCCD, SurvivalDisplay, surv, write_partitions
from SurvSet.data import SurvLoader

frame = SurvLoader().load_dataset(ds_name="hdfail")["df"]
frame = frame[frame["time"] <= 2_000]
brands = ["Hitachi", "HGST", "ST", "WDC"]


def prepare(batch):
    """Make columns and outcome of some rows."""
    X = {
        f"brand {name}": (batch["fac_brand"] == name).astype(float)
        for name in brands[1:]
    }
    X["temperature, 10 °C"] = batch["num_temp"] / 10
    return pd.DataFrame(X), surv(batch["event"] == 1, batch["time"])


def batches():
    """Yield 5,000 drives at a time."""
    for first in range(0, len(frame), 5_000):
        yield prepare(frame.iloc[first : first + 5_000])


folder = tempfile.mkdtemp()
data = write_partitions(f"{folder}/drives.parts", batches(), rows=16_384)
data.X

# %%
# ``data.X`` and ``data.y`` are handles, which estimators take in place of
# arrays.

model = CoxLassoCCD(alpha=0.0001).fit(data.X, data.y)
X, y = prepare(frame)
in_memory = CoxLassoCCD(alpha=0.0001).fit(X, y)
both = {
    "in parts": model.summary()["coef"],
    "in memory": in_memory.summary()["coef"],
}
pd.DataFrame(both).round(4)

# %%
# A fitted model contains no rows and predicts for any table. The figure
# shows predicted survival of a drive of each brand at a mean temperature,
# beside the Kaplan-Meier estimate (dashed). Brands differ much, in the
# observed order. Where full and dashed lines differ, as for drives of WDC
# that fail early, hazards are not proportional.

rows = pd.DataFrame(0.0, index=brands, columns=X.columns)
for name in brands[1:]:
    rows.loc[name, f"brand {name}"] = 1.0
rows["temperature, 10 °C"] = X["temperature, 10 °C"].mean()
figure, ax = plt.subplots(figsize=(7, 4.5), layout="constrained")
groups = frame["fac_brand"].astype(str).to_numpy()
SurvivalDisplay.from_estimator(
    model, rows, kaplan_meier=y, groups=groups, ax=ax
)
_ = ax.set(
    xlabel="days in operation",
    ylabel="share of drives that work",
    ylim=(0.6, 1.0),
)

# %%
# Not shown: the causes of these differences: the temperature is the last
# reading, and drives of one brand are of many models.
# :doc:`/guide/partitions` has costs, and how to use clusters.
