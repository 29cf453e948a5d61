"""Results as figures read them, with known numbers; what makes real ones is tested elsewhere."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from sksurvgpu import StabilityResult

LONG_NAME = "acetylsalicylic acid 100 mg, enteric-coated tablets, twice daily"


@dataclass
class Result:
    """Intervals on the scale of the coefficients."""

    intervals: pd.DataFrame
    level: float = 0.95
    effect: str | None = "hazard_ratio"

    def summary(self):
        table = self.intervals.copy()
        if self.effect:
            with np.errstate(over="ignore"):
                table[self.effect] = np.exp(table["coef"])
                table[f"{self.effect}_lower"] = np.exp(table["lower"])
                table[f"{self.effect}_upper"] = np.exp(table["upper"])
        return table


@dataclass
class Bootstrap(Result):
    selection_frequency: pd.Series = None


@dataclass
class Profile(Result):
    curves: pd.DataFrame = None


def interval_table(n_rows, seed=0):
    rng = np.random.default_rng(seed)
    coef = rng.normal(0, 0.5, n_rows)
    names = [f"drug {j}" for j in range(n_rows)]
    lower, upper = coef - rng.uniform(0.1, 0.4, n_rows), coef + rng.uniform(0.1, 0.4, n_rows)
    return pd.DataFrame(
        {"coef": coef, "lower": lower, "upper": upper}, index=pd.Index(names, name="feature")
    )


def awkward_table(n_rows):
    """Endless, missing and very wide intervals, and a long name."""
    table = interval_table(n_rows)
    table.iloc[0, 1:] = np.nan
    table.iloc[1, 2] = np.inf
    table.iloc[2, 1] = -np.inf
    table.iloc[3, 2] = 9.0
    table.iloc[4, 1] = np.nan
    return table.rename(index={"drug 5": LONG_NAME})


def bootstrap_result(n_rows, **kwargs):
    table = interval_table(n_rows, seed=1)
    frequency = pd.Series(np.linspace(1.0, 0.0, n_rows), index=table.index)
    table.iloc[-1] = 0.0  # never selected
    return Bootstrap(table, selection_frequency=frequency, **kwargs)


def profile_result(n_rows, **kwargs):
    """Parabolas, whose bounds are Wald's."""
    table, curves = interval_table(n_rows, seed=2), []
    for name, row in table.iterrows():
        error = 0.1 + 0.1 * abs(row["coef"])
        value = row["coef"] + error * np.linspace(-3, 3, 31)
        curves.append(
            pd.DataFrame(
                {
                    "feature": name,
                    "value": value,
                    "log_likelihood_ratio": ((value - row["coef"]) / error) ** 2,
                }
            )
        )
        table.loc[name, ["lower", "upper"]] = row["coef"] + error * 1.959964 * np.array([-1, 1])
    return Profile(table, curves=pd.concat(curves, ignore_index=True), **kwargs)


def score_table(n_rows, seed=0):
    """Scores that are negative and rise before they fall."""
    alpha = np.geomspace(0.2, 0.001, n_rows)
    place = np.log(alpha / 0.02)
    table = pd.DataFrame(
        {
            "alpha": alpha,
            "mean_score": -540.0 - 2.0 * place**2,
            "standard_error": np.full(n_rows, 3.0),
            "n_nonzero": np.arange(n_rows) * 3,
        }
    )
    return table.assign(split0_score=table["mean_score"] - 1, split1_score=table["mean_score"] + 1)


def stability_result(n_selected=(0.5, 2.0, 9.0, 30.0), alphas=(0.2, 0.1, 0.05, 0.02)):
    """Two stable coefficients, one that is seen, one that never is, and one without a penalty."""
    probabilities = np.array(
        [[0.4, 0.9, 1.0, 1.0], [0.1, 0.8, 0.9, 1.0], [0.0, 0.1, 0.8, 0.9], [0.0] * 4, [1.0] * 4]
    )
    return StabilityResult(
        alphas=np.array(alphas),
        probabilities=probabilities[:, : len(alphas)],
        n_selected=np.array(n_selected),
        n_subsamples=100,
        sampling="complementary",
        threshold=0.75,
        max_errors=1.5,
        assumption="none",
        is_penalized=np.array([True] * 4 + [False]),
        feature_names=np.array(["age", "sex", "site", "ward", "arm"], dtype=object),
    )
