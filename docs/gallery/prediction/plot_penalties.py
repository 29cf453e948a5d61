"""
Four penalties, one path each
=============================

The lasso selects and shrinks at once. Other penalties select but shrink
large coefficients less, or select groups of columns as a whole. This
example compares their paths on the same data.
"""

# %%
# The data are 2,982 women with breast cancer of Rotterdam, from the package
# SurvSet, and their survival. The number of affected nodes enters as pieces
# of a spline, the size of the tumour as levels of a factor.

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
# A penalty is an argument of the estimator. Each path starts at the
# smallest ``alpha`` that selects nothing.

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
# Under the lasso coefficients grow slowly, and are shrunken as long as
# there is a penalty. Under MCP the large ones reach the values of a fit
# without a penalty and no longer change, with a leap where two of them
# belong together. The adaptive lasso keeps all but the largest out for
# longer. Under the group lasso the pieces of a spline enter at the same
# penalty.

figure, axes = plt.subplots(2, 2, figsize=(10, 7), layout="constrained")
for ax, (name, path) in zip(axes.flat, paths.items(), strict=True):
    PathDisplay.from_path(path, n_labels=6, ax=ax)
    ax.set_title(name)

# %%
# ``alpha`` means something else under each penalty, so compare fits with
# the same number of coefficients. The table has the largest log-likelihood
# of each path with at most eight of them, beside that of a fit without a
# penalty:

reached = {
    name: path.log_likelihood[path.df <= 8].max()
    for name, path in paths.items()
}
reached["no penalty, all columns"] = (
    CoxLassoCCD(alpha=0).fit(X, y).log_likelihood_
)
pd.Series(reached).round(1)

# %%
# Not shown: local minima. MCP is not convex, and its paths end at local
# minima; :func:`~sksurvgpu.certificate` checks these
# (:doc:`/guide/nonconvex`).
