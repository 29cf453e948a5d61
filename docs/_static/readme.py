"""Draw the picture of the README, docs/_static/readme.png: python docs/_static/readme.py."""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from PIL import Image
from sklearn.model_selection import train_test_split
from sksurv.datasets import load_gbsg2
from sksurv.preprocessing import OneHotEncoder

from sksurvgpu import CoxLassoCCD, CoxLassoCV, PathDisplay, SurvivalDisplay, fit_path

HALVES = ["lower risk", "higher risk"]


def main() -> None:
    """Coefficients along the path, and predicted beside observed survival of women not seen."""
    table, y = load_gbsg2()
    X = OneHotEncoder().fit_transform(table)
    X = (X - X.mean()) / X.std()
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.5, random_state=0)
    model = CoxLassoCV(cv=5).fit(X_train, y_train)
    path = fit_path(CoxLassoCCD(), X_train, y_train, alpha_min_ratio=0.003)
    group = pd.qcut(model.predict(X_test), 2, labels=HALVES)
    average = X_test.groupby(group, observed=True).mean()
    plt.rcParams.update({"font.size": 8, "axes.linewidth": 0.6})
    figure, axes = plt.subplots(1, 2, figsize=(9.0, 3.4), layout="constrained", dpi=130)
    PathDisplay.from_path(path, highlight=model.alpha_, ax=axes[0], n_labels=9)
    axes[0].set_title("Cox lasso, chosen by cross-validation", fontsize=9)
    SurvivalDisplay.from_estimator(model, average, kaplan_meier=y_test, groups=group, ax=axes[1])
    axes[1].set_xlabel("days since surgery")
    axes[1].set_title("predicted and observed, women not in the fit", fontsize=9)
    figure.canvas.draw()
    picture = Image.fromarray(np.asarray(figure.canvas.buffer_rgba())[..., :3].copy())
    picture.quantize(48).save(Path(__file__).with_name("readme.png"), optimize=True)


if __name__ == "__main__":
    main()
