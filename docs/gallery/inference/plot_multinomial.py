"""
Three classes with uncertain probabilities
==========================================

This example shows the uncertainty of predicted class probabilities. A
Bayesian multinomial regression draws many models from their posterior:
their mean is the probability, and their spread its uncertainty, which grows
far from the data.
"""

# %%
# The data are 178 wines of three growers, from scikit-learn, by two of
# their measurements.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.colors import ListedColormap
from sklearn.datasets import load_wine
from sklearn.preprocessing import StandardScaler
from sksurvgpu import BayesianMultinomialLogistic

data = load_wine(as_frame=True)
table = data.data[["alcohol", "color_intensity"]]
grower = data.target.map({0: "first", 1: "second", 2: "third"})
scale = StandardScaler().set_output(transform="pandas").fit(table)
model = BayesianMultinomialLogistic(
    n_tune=300, n_draws=500, reference="second", random_state=0
)
model = model.fit(scale.transform(table), grower)
model.summary()[["mean", "lower", "upper", "r_hat"]].round(2)

# %%
# Coefficients are differences from the second grower, per standard
# deviation of a column: wines of the first have more alcohol, those of the
# third a deeper colour.
#
# The map shows the most probable grower on the left and, on the right, the
# width of the 90 % interval of this probability.

alcohol, color = np.meshgrid(
    np.linspace(10.5, 15.5, 60), np.linspace(0, 14, 60)
)
grid = pd.DataFrame(
    {"alcohol": alcohol.ravel(), "color_intensity": color.ravel()}
)
probability = model.predict_proba(scale.transform(grid))
best = probability.argmax(axis=1)
interval = model.predict_interval(scale.transform(grid), level=0.9)
width = (interval[..., 1] - interval[..., 0])[np.arange(len(grid)), best]

figure, axes = plt.subplots(
    1, 2, figsize=(9.5, 4.2), sharey=True, layout="constrained"
)
colors, marks = ["#0072b2", "#e69f00", "#009e73"], ["o", "s", "^"]
areas = best.reshape(alcohol.shape)
axes[0].pcolormesh(
    alcohol,
    color,
    areas,
    cmap=ListedColormap(colors),
    alpha=0.25,
    linewidth=0,
)
shades = axes[1].contourf(
    alcohol, color, width.reshape(alcohol.shape), 8, cmap="Greys"
)
figure.colorbar(shades, ax=axes[1], label="width of the interval")
for ax, title in zip(
    axes,
    ["most probable grower", "uncertainty of its probability"],
    strict=True,
):
    for label, tint, mark in zip(
        model.classes_, colors, marks, strict=True
    ):
        own = table[grower == label]
        ax.scatter(
            *own.to_numpy().T,
            s=14,
            color=tint,
            marker=mark,
            label=f"{label} grower",
        )
    ax.set(xlabel="alcohol (%)", title=title)
axes[0].set_ylabel("color intensity")
legend = axes[0].legend(loc="upper left", fontsize=8)

# %%
# Borders are straight, as the model is linear. Uncertainty is largest along
# them, above all where there are no wines; it is small in the middle of the
# wines of a grower.
#
# Not shown: uncertainty about the model itself: if true borders are not
# straight, the model is wrong and certain.
