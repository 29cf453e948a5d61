"""How often intervals hold the truth, in simulated data sets whose seeds are their own.

`main_coverage`: bootstrap percentiles and profile likelihood of a treatment's coefficient, 0.5 and
never penalized. In "small" designs nothing is penalized; in "lasso" designs the nuisance columns
are, at a fixed penalty. Treatment depends on the first nuisance columns, which have a modest
effect, but for "randomized".

`main_debiased`: all coefficients by the debiased lasso, and Wald beside it. Normal columns whose
correlation halves with every step of their distance, four of which have an effect. The penalty is
the path's with the least AIC, or BIC where there are more columns than rows.
"""

from __future__ import annotations

import sys
import warnings

import numpy as np
from scipy.linalg import toeplitz
from scipy.special import expit

from .cases import SEED
from .processes import timed
from .report import lines, number, parser, read, save


def _percent(name):
    return lambda result: f"{100 * result[name]:.1f} %"


def _run(name, doc, designs, columns, counts, measure, arguments):
    """Measure the chosen designs, print a table, write JSON.

    `counts` are options that have a full and a quick number.
    """
    quick = ", ".join(f"{few} {option}" for option, (_, few) in counts.items())
    found = parser(name, doc, quick.replace("_", " "))
    found.add_argument("--designs", nargs="+", choices=designs, default=list(designs))
    for option, (many, _) in counts.items():
        found.add_argument(f"--{option.replace('_', '-')}", type=int, help=f"by default {many}")
    options, results = read(found, arguments, name), []
    numbers = [getattr(options, option) or pair[options.quick] for option, pair in counts.items()]
    for design in options.designs:
        print(design, file=sys.stderr, flush=True)
        results += measure(design, *numbers)
        save(options, results=results)
    print(lines(columns, results, n_left=2))


def _share_error(share, count):
    return float(np.sqrt(share * (1.0 - share) / count))


# -- one coefficient --------------------------------------------------------------------------

EFFECT, NUISANCE, N_ACTIVE, LEVEL = 0.5, 0.25, 4, 0.95
# name -> (model, rows, nuisance columns, alpha, whether treatment depends on the nuisance)
DESIGNS = {
    "cox-small": ("cox", 300, 4, 0.0, True),
    "cox-lasso": ("cox", 300, 30, 0.05, True),
    "cox-lasso-randomized": ("cox", 300, 30, 0.05, False),
    "logistic-small": ("logistic", 300, 4, 0.0, True),
    "logistic-lasso": ("logistic", 300, 30, 0.03, True),
    "logistic-lasso-randomized": ("logistic", 300, 30, 0.03, False),
}
COLUMNS = (
    ("design", "design", None),
    ("interval", "interval", None),
    ("covered", "covered", "d"),
    ("of", "of", "d"),
    ("coverage", _percent("coverage"), None),
    ("error", _percent("error"), None),
    ("below", "below", "d"),
    ("above", "above", "d"),
    ("width", "width", ".3g"),
)


def main_coverage(arguments=None):
    """Simulate, print a table, write JSON."""
    counts = {"data_sets": (200, 20), "replicates": (100, 40)}
    _run("coverage", __doc__, DESIGNS, COLUMNS, counts, measure_treatment, arguments)


def measure_treatment(name, n_data_sets, n_replicates):
    """Coverage of both intervals."""
    from sksurvgpu import CoxLassoCCD, LogisticCCD, bootstrap, profile_likelihood

    model, _, _, alpha, _ = DESIGNS[name]
    cls = {"cox": CoxLassoCCD, "logistic": LogisticCCD}[model]
    estimator = cls(alpha=alpha, penalty_factor={0: 0.0}, n_jobs=1, backend="cpu")
    found = {"bootstrap": [], "profile": []}
    spent = dict.fromkeys(found, 0.0)
    for seed in range(n_data_sets):
        X, y = draw_treatment(name, np.random.default_rng([SEED, seed]))
        drawn = {"n_replicates": n_replicates, "random_state": seed}
        calls = {
            "bootstrap": lambda: bootstrap(estimator, X, y, level=LEVEL, **drawn),  # noqa: B023
            "profile": lambda: profile_likelihood(estimator, X, y, 0, level=LEVEL),  # noqa: B023
        }
        for kind, call in calls.items():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                result, seconds = timed(call)
            spent[kind] += seconds["seconds"]
            found[kind].append(result.intervals.iloc[0, 1:].tolist())
    return [
        {"design": name, "interval": kind, "replicates": n_replicates, "seconds": spent[kind]}
        | _judge_treatment(np.array(intervals))
        for kind, intervals in found.items()
    ]


def draw_treatment(name, rng):
    """One data set: the treatment and the nuisance columns, and the outcome."""
    from sksurvgpu import surv

    model, n_rows, n_nuisance, _, confounded = DESIGNS[name]
    nuisance = rng.normal(size=(n_rows, n_nuisance))
    score = NUISANCE * nuisance[:, :N_ACTIVE].sum(axis=1)
    treated = rng.random(n_rows) < (expit(score) if confounded else 0.5)
    eta = EFFECT * treated + score
    X = np.column_stack([treated, nuisance])
    if model == "logistic":
        return X, rng.random(n_rows) < expit(eta - 0.5)
    time_of_event = rng.exponential(size=n_rows) * np.exp(-eta)
    censored = rng.uniform(0.0, 2.0, n_rows)
    return X, surv(time_of_event <= censored, np.minimum(time_of_event, censored))


def _judge_treatment(intervals):
    lower, upper = intervals.T
    n, above, below = len(intervals), int((lower > EFFECT).sum()), int((upper < EFFECT).sum())
    coverage = 1.0 - (above + below) / n
    return {
        "covered": n - above - below,
        "of": n,
        "coverage": coverage,
        "error": _share_error(coverage, n),
        "below": below,
        "above": above,
        "width": float(np.median(upper - lower)),
    }


# -- all coefficients -------------------------------------------------------------------------

EFFECTS = (0.5, -0.5, 0.3, 0.8)
KINDS = ("wald", "inverse", "quadratic")
# name -> (model, rows, columns, intervals)
WIDTHS = {
    "cox-20": ("cox", 400, 20, KINDS),
    "cox-40": ("cox", 400, 40, KINDS),
    "cox-500": ("cox", 400, 500, KINDS[-1:]),
    "logistic-20": ("logistic", 400, 20, KINDS),
    "logistic-40": ("logistic", 400, 40, KINDS),
    "logistic-500": ("logistic", 400, 500, KINDS[-1:]),
    "linear-40": ("linear", 400, 40, KINDS),
    "linear-500": ("linear", 400, 500, KINDS[-1:]),
}
DEBIASED_COLUMNS = (
    ("design", "design", None),
    ("interval", "interval", None),
    ("effects", _percent("effects"), None),
    ("others", _percent("others"), None),
    ("bias", "bias", ".3g"),
    ("error", _percent("error"), None),
    ("width", "width", ".3g"),
    ("seconds", lambda result: number(result["seconds"]), None),
)


def main_debiased(arguments=None):
    """Simulate, print a table, write JSON."""
    counts = {"data_sets": (100, 10)}
    _run("debiased", __doc__, WIDTHS, DEBIASED_COLUMNS, counts, measure_all, arguments)


def measure_all(name, n_data_sets):
    """Coverage of all intervals."""
    model, n_rows, n_columns, kinds = WIDTHS[name]
    found = {kind: [] for kind in kinds}
    spent = dict.fromkeys(kinds, 0.0)
    for seed in range(n_data_sets):
        cls, X, y, coef = draw_correlated(
            model, n_rows, n_columns, np.random.default_rng([SEED, seed])
        )
        for kind in kinds:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                intervals, seconds = timed(lambda kind=kind: _intervals(cls, X, y, kind))  # noqa: B023
            spent[kind] += seconds["cpu_seconds"]
            found[kind].append(intervals.to_numpy())
    shared = {"design": name, "data_sets": n_data_sets}
    return [
        {**shared, "interval": kind, "seconds": spent[kind], **_judge_all(np.array(tables), coef)}
        for kind, tables in found.items()
    ]


def draw_correlated(model, n_rows, n_columns, rng):
    """Estimator, columns, outcome and coefficients of one data set."""
    from sksurvgpu import CoxLassoCCD, LinearCCD, LogisticCCD, surv

    factor = np.linalg.cholesky(toeplitz(0.5 ** np.arange(n_columns)))
    X = rng.normal(size=(n_rows, n_columns)) @ factor.T
    coef = np.zeros(n_columns)
    coef[np.arange(len(EFFECTS)) * (n_columns // len(EFFECTS))] = EFFECTS
    eta = X @ coef
    if model == "linear":
        return LinearCCD, X, eta + rng.normal(size=n_rows), coef
    if model == "logistic":
        return LogisticCCD, X, rng.random(n_rows) < expit(eta), coef
    event, censored = rng.exponential(size=n_rows) * np.exp(-eta), 2 * rng.exponential(size=n_rows)
    return CoxLassoCCD, X, surv(event <= censored, np.minimum(event, censored)), coef


def _intervals(cls, X, y, kind):
    from sksurvgpu import debiased, fit_path, wald

    if kind == "wald":
        return wald(cls(alpha=0.0, n_jobs=1).fit(X, y), X, y).intervals
    path = fit_path(cls(n_jobs=1), X, y, n_alphas=20, alpha_min_ratio=0.05)
    chosen = path.best("bic" if X.shape[1] > len(X) else "aic")
    return debiased(chosen, X, y, method=kind).intervals


def _judge_all(tables, coef):
    estimate, lower, upper = np.moveaxis(tables, 2, 0)
    is_held, has_effect = (lower <= coef) & (coef <= upper), coef != 0
    towards = ((estimate - coef) * np.sign(coef))[:, has_effect]
    effects = is_held[:, has_effect]
    return {
        "effects": float(effects.mean()),
        "error": _share_error(float(effects.mean()), effects.size),
        "others": float(is_held[:, ~has_effect].mean()),
        "bias": float(towards.mean()),  # away from zero
        "width": float(np.median(upper - lower)),
    }
