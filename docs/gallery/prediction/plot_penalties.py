"""
Four penalties, one path each
=============================

The lasso selects and shrinks at once. Other penalties keep the selection
and let go of large coefficients, or take columns that belong together only
as a whole. Their paths, on the same data, say it better than formulas.
"""

# %%
# 2,982 women with breast cancer of Rotterdam, from the package SurvSet, and
# their survival. The number of affected nodes enters as pieces of a spline,
# the size of the tumour as levels: columns that mean something only
# together.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.preprocessing import (
    OneHotEncoder,
    SplineTransformer,
    StandardScaler,
)
from sksurvgpu import (
    MCP,
    Adaptive,
    CoxLassoCCD,
    GroupLasso,
    PathDisplay,
    fit_path,
    groups_from,
    surv,
)
from SurvSet.data import SurvLoader

frame = SurvLoader().load_dataset(ds_name="rott2")["df"]
y = surv(frame["event"] == 1, frame["time"])
table = frame.drop(
    columns=["pid", "event", "time", "fac_recent", "num_year"]
)
table = table.rename(columns=lambda name: name.split("_")[1])
table[["progesterone", "estrogen"]] = np.log1p(
    table[["progesterone", "estrogen"]]
)
splines = SplineTransformer(
    n_knots=4, degree=1, knots="quantile", include_bias=False
)
columns = make_column_transformer(
    (OneHotEncoder(drop="first", sparse_output=False), ["tsize"]),
    (splines, ["nodes"]),
    (
        OneHotEncoder(drop="first", sparse_output=False),
        ["meno", "grade", "hormon", "chemo"],
    ),
    (StandardScaler(), ["age", "progesterone", "estrogen"]),
    verbose_feature_names_out=False,
).set_output(transform="pandas")
X = columns.fit_transform(table)
groups = groups_from(columns)
[
    (name, label)
    for name, label in zip(X.columns, groups, strict=True)
    if label
][:4]

# %%
# A penalty is an argument of the estimator, and a path starts, for each of
# them, at the least ``alpha`` that selects nothing.

penalties = {
    "lasso": None,
    "adaptive lasso": Adaptive(),
    "MCP": MCP(gamma=3),
    "group lasso": GroupLasso(groups),
}
paths = {
    name: fit_path(
        CoxLassoCCD(penalty=penalty),
        X,
        y,
        n_alphas=30,
        alpha_min_ratio=0.02,
    )
    for name, penalty in penalties.items()
}

# %%
# What to see: under the lasso coefficients grow slowly, and are shrunken as
# long as there is a penalty. MCP lets the large ones go: they reach values
# that no longer change, those of a fit without a penalty, and get there in
# a leap where two of them belong together. The adaptive lasso keeps all but
# the largest out for longer. Under the group lasso the pieces of a spline
# begin at the same penalty.

figure, axes = plt.subplots(2, 2, figsize=(10, 7), layout="constrained")
for ax, (name, path) in zip(axes.flat, paths.items(), strict=True):
    PathDisplay.from_path(path, n_labels=6, ax=ax)
    ax.set_title(name)

# %%
# ``alpha`` has another meaning under each penalty, so that fits are
# compared at the same number of coefficients. The largest log-likelihood
# that each path reaches with at most eight of them, beside that of a fit
# without a penalty:

reached = {
    name: path.log_likelihood[path.df <= 8].max()
    for name, path in paths.items()
}
reached["no penalty, all columns"] = (
    CoxLassoCCD(alpha=0).fit(X, y).log_likelihood_
)
pd.Series(reached).round(1)

# %%
# Not shown: MCP is not convex. Where its paths end is a local minimum, of
# which :func:`~sksurvgpu.certificate` says what is known
# (:doc:`/guide/nonconvex`).
