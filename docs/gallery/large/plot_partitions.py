"""
Files larger than memory: 51,319 hard drives, in parts
======================================================

A table that does not fit into memory is written to a folder once, batch by
batch, and fitted from there: each part answers with sums over its rows. The
model is the one of all rows.
"""

# %%
# Hard drives of a data centre (Backblaze), from the package SurvSet. They
# would fit into memory, so that both ways can be compared. Batches come
# from a generator, as they would from files of months.

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
# A fitted model has no rows, and predicts for anything. Predicted survival
# of a drive of each brand at a mean temperature, beside Kaplan and Meier's
# estimate, dashed. What to see: brands differ much, in the order in which
# they are observed. Where full and dashed lines part, as in drives of WDC
# that fail early, hazards are not proportional, whatever the memory in
# which they were fitted.

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
# Not shown: why. The temperature is the last that was read, and drives of
# one brand are of many models. What partitions cost, and how clusters serve
# them, is in :doc:`/guide/partitions`.
