"""Problems: data, how they are drawn without the package, and the files that drivers read.

Designs are the published ones. Indicators are Bernoulli sequences drawn through their geometric
gaps; coefficients are zero but for a fifth, which is normal. In files, every array is there twice,
as .npy for Python and as raw little-endian .bin for R.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.sparse import csc_array
from scipy.special import expit

ENTRIES_A_BLOCK = 1 << 22  # bounds the temporary values of indicators
CELLS_A_BLOCK = 1 << 28
ZERO_SHARE = 0.8
INCIDENCE = 0.5  # of the event of interest at a linear predictor of zero
ERAS_A_SUBJECT, LONGEST_ERA = 25, 60
SHARE_OF_OWN_ERAS = 0.5  # eras in which a subject takes a drug that it ever takes


@dataclass(frozen=True, eq=False)
class Data:
    """Columns of X in CSC form and the outcome; `values` is None where all are ones.

    ============= ===============================================================
    model         arrays of the outcome
    ============= ===============================================================
    cox           time, event (0, 1), stratum or none
    fine-gray     time, event (0 censored, 1 of interest, 2 competing)
    logistic      y (0, 1)
    poisson       y (counts), exposure or none
    linear        y
    case-series   y (counts), exposure (length of an era), group (subject)
    matched       y (0, 1), group (matched set); `ties` "exact" or "breslow"
    ============= ===============================================================
    """

    shape: tuple[int, int]
    indptr: np.ndarray
    indices: np.ndarray
    values: np.ndarray | None
    outcome: dict
    model: str = "cox"
    intercept: bool = False  # an unpenalized one
    ties: str = "breslow"

    @classmethod
    def of(cls, simulated):
        """Take over a simulated data set of survival times."""
        X = csc_array(simulated.X)
        indptr, indices = X.indptr.astype(np.int32), X.indices.astype(np.int32)
        values = None if np.all(X.data == 1.0) else np.asarray(X.data, float)
        time, event = (np.ascontiguousarray(simulated.y[name]) for name in ("time", "event"))
        outcome = {"time": time, "event": event.astype(np.int32), "stratum": simulated.strata}
        return cls(X.shape, indptr, indices, values, outcome)

    def __getitem__(self, name):
        """One array of the outcome, or None."""
        return self.outcome.get(name)

    @property
    def n_nonzeros(self):
        return len(self.indices)

    @property
    def n_events(self):
        """Events of interest; None where the outcome has none."""
        if self.model == "linear":
            return None
        events = self["event"] == 1 if self.model in ("cox", "fine-gray") else self["y"]
        return int(events.sum())

    @property
    def n_groups(self):
        """Strata, subjects or matched sets."""
        labels = self["stratum"] if self.model == "cox" else self["group"]
        return 1 if labels is None else len(np.unique(labels))

    def table(self):
        """X in SciPy's form."""
        values = np.ones(self.n_nonzeros) if self.values is None else self.values
        return csc_array((values, self.indices, self.indptr), self.shape)

    def _blocks(self):
        """Ranges of columns, each with its part of X."""
        first, n_columns = 0, self.shape[1]
        while first < n_columns:
            last = np.searchsorted(self.indptr, self.indptr[first] + ENTRIES_A_BLOCK, "right") - 1
            end = int(min(max(last, first + 1), n_columns))
            low, high = self.indptr[first], self.indptr[end]
            values = np.ones(high - low) if self.values is None else self.values[low:high]
            indptr = self.indptr[first : end + 1] - low
            shape = (self.shape[0], end - first)
            yield slice(first, end), csc_array((values, self.indices[low:high], indptr), shape)
            first = end

    def times(self, coef):
        """X coef."""
        out = np.zeros(self.shape[0])
        for columns, block in self._blocks():
            if coef[columns].any():
                out += block @ coef[columns]
        return out

    def transposed_times(self, u):
        """X'u."""
        out = np.empty(self.shape[1])
        for columns, block in self._blocks():
            out[columns] = block.T @ u
        return out


def write_problem(directory, data, penalty, penalty_max, tolerance, path=()):
    """Write what a driver reads: minimize -loglik + penalty * sum|b|.

    `tolerance` bounds the KKT residual relative to `penalty_max`, for solvers that can be asked
    for one. A `path` has penalties that end with `penalty`.
    """
    directory = Path(directory)
    shape = {"n": data.shape[0], "p": data.shape[1], "lambda": float(penalty)}
    shape |= {"lambda_max": float(penalty_max), "tol": tolerance}
    shape |= {"path": [float(each) for each in path]} if len(path) else {}
    shape |= {"model": data.model, "intercept": data.intercept, "ties": data.ties}
    (directory / "shape.json").write_text(json.dumps(shape))
    columns = {"X_indptr": data.indptr, "X_indices": data.indices, "X_data": data.values}
    for name, array in {**columns, **data.outcome}.items():
        if array is not None:
            kind = "<f8" if array.dtype.kind == "f" else "<i4"
            array.astype(kind, copy=False).tofile(directory / f"{name}.bin")
            np.save(directory / f"{name}.npy", array)


def draw_fine_gray(n_samples, n_features, *, density=0.05, random_state):
    """Fine and Gray's subdistribution with a competing event of opposite effects.

    Incidence of the event of interest 1 - (1 - p(1 - exp(-t)))^exp(eta), its time by inverting it;
    competing events exponential with rate exp(-eta); censoring uniform on (0, 1).
    """
    rng = np.random.default_rng(random_state)
    data, eta = _design(n_samples, n_features, density, 1.0, rng)
    survivors = np.log1p(-INCIDENCE) * np.exp(eta)  # log P(never the event of interest)
    first = rng.random(n_samples) < -np.expm1(survivors)
    share = -rng.random(n_samples) * np.expm1(survivors)  # of the incidence, at the event
    inner = -np.expm1(np.log1p(-share) * np.exp(-eta)) / INCIDENCE
    of_interest = -np.log1p(-np.minimum(inner, 1.0 - 1e-12))
    time = np.where(first, of_interest, rng.exponential(size=n_samples) * np.exp(eta))
    censored = rng.random(n_samples)
    event = np.where(time <= censored, np.where(first, 1, 2), 0)
    outcome = {"time": np.minimum(time, censored), "event": event.astype(np.int32)}
    return Data(*data, outcome, "fine-gray")


def draw_logistic(n_samples, n_features, *, density=0.05, intercept=True, random_state):
    """Labels with coefficients of variance 2."""
    rng = np.random.default_rng(random_state)
    data, eta = _design(n_samples, n_features, density, np.sqrt(2.0), rng)
    y = (rng.random(n_samples) < expit(eta - 1.0 if intercept else eta)).astype(float)
    return Data(*data, {"y": y}, "logistic", intercept)


def draw_poisson(n_samples, n_features, *, density=0.05, exposure=False, random_state):
    """Counts, with coefficients of standard deviation 0.3; exposures are uniform on (0.5, 2)."""
    rng = np.random.default_rng(random_state)
    data, eta = _design(n_samples, n_features, density, 0.3, rng)
    exposures = rng.uniform(0.5, 2.0, n_samples) if exposure else None
    y = rng.poisson(np.exp(eta - 1.0) * (1.0 if exposures is None else exposures)).astype(float)
    return Data(*data, {"y": y, "exposure": exposures}, "poisson", intercept=True)


def draw_linear(n_samples, n_features, *, density=0.05, random_state):
    """Half of the variance is noise, or about that."""
    rng = np.random.default_rng(random_state)
    data, eta = _design(n_samples, n_features, density, 1.0, rng)
    noise = rng.normal(size=n_samples) * max(eta.std(), 0.1)
    return Data(*data, {"y": 2.0 + eta + noise}, "linear", intercept=True)


def draw_matched(
    n_samples, n_features, *, density=0.05, set_size=5, n_cases=1, ties="exact", random_state
):
    """Sets of `set_size` rows, of which `n_cases` are drawn by their odds without replacement."""
    rng = np.random.default_rng(random_state)
    data, eta = _design(n_samples, n_features, density, 1.0, rng)
    group = np.arange(n_samples, dtype=np.int32) // set_size
    sets = (eta + rng.gumbel(size=n_samples)).reshape(-1, set_size)
    y = np.zeros(sets.shape)
    np.put_along_axis(y, np.argsort(-sets, axis=1)[:, :n_cases], 1.0, axis=1)
    return Data(*data, {"y": y.ravel(), "group": group}, "matched", ties=ties)


def draw_matched_dense(n_samples, n_features, *, set_size=20, n_cases=8, effect=0.3, random_state):
    """Gaussian columns that all have an effect."""
    rng = np.random.default_rng(random_state)
    X = rng.normal(size=(n_samples, n_features))
    eta = X @ (effect * rng.normal(size=n_features))
    sets = (eta + rng.gumbel(size=n_samples)).reshape(-1, set_size)
    y = np.zeros(sets.shape)
    np.put_along_axis(y, np.argsort(-sets, axis=1)[:, :n_cases], 1.0, axis=1)
    outcome = {"y": y.ravel(), "group": np.arange(n_samples, dtype=np.int32) // set_size}
    return Data(*dense_columns(X), outcome, "matched", ties="exact")


def draw_cox_dense(n_samples, n_features, *, effect=0.1, random_state):
    """Gaussian columns that all have an effect; times without ties, a third of them censored."""
    rng = np.random.default_rng(random_state)
    X = rng.normal(size=(n_samples, n_features))
    time = rng.exponential(np.exp(-X @ (effect * rng.normal(size=n_features))))
    censored = rng.exponential(2.0, n_samples)
    outcome = {"time": np.minimum(time, censored), "event": (time <= censored).astype(np.int32)}
    return Data(*dense_columns(X), outcome)


def draw_wide(n_samples, n_features, *, model="cox", n_factors=20, correlation=0.5, random_state):
    """Dense columns in blocks that share a factor; twenty of them have an effect."""
    rng = np.random.default_rng(random_state)
    factors = rng.normal(size=(n_samples, n_factors))
    X = np.sqrt(correlation) * factors[:, rng.integers(0, n_factors, n_features)]
    X += np.sqrt(1.0 - correlation) * rng.normal(size=X.shape)
    coef, n_effects = np.zeros(n_features), min(20, n_features)
    coef[rng.choice(n_features, n_effects, replace=False)] = 0.5 * rng.normal(size=n_effects)
    eta = X @ coef
    time, censored = rng.exponential(np.exp(-eta)), rng.exponential(2.0, n_samples)
    event = (time <= censored).astype(np.int32)
    outcomes = {
        "cox": {"time": np.minimum(time, censored) + 1e-9, "event": event},
        "logistic": {"y": (rng.random(n_samples) < expit(eta)).astype(float)},
        "linear": {"y": eta + rng.normal(size=n_samples)},
    }
    return Data(*dense_columns(X), outcomes[model], model, intercept=model != "cox")


def read_genes(name):
    """A cohort of the package SurvSet, with its complete numeric columns standardized."""
    from SurvSet.data import SurvLoader

    frame = SurvLoader().load_dataset(ds_name=name)["df"]
    X = frame.filter(regex="^num_").dropna(axis=1).to_numpy(dtype=float)
    X = X[:, X.std(axis=0) > 0]
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    time, event = frame["time"].to_numpy(float), frame["event"].to_numpy()
    return Data(*dense_columns(X), {"time": time, "event": (event > 0).astype(np.int32)})


def dense_columns(X):
    """Shape, indptr, indices and values of a matrix without zeros."""
    n_rows, n_columns = X.shape
    indptr = np.arange(n_columns + 1, dtype=np.int32) * np.int32(n_rows)
    indices = np.tile(np.arange(n_rows, dtype=np.int32), n_columns)
    return X.shape, indptr, indices, X.ravel(order="F")


def draw_case_series(n_samples, n_features, *, density=0.005, random_state):
    """Eras of subjects with at least one event; a subject takes few drugs, in half of its eras.

    Drugs differ in popularity, log-uniformly over a factor of 20. A subject's events are
    multinomial over its eras, by length and drugs.
    """
    rng = np.random.default_rng(random_state)
    n_subjects = max(2, n_samples // ERAS_A_SUBJECT)
    inner = np.sort(rng.choice(np.arange(1, n_samples), n_subjects - 1, replace=False))
    edges = np.concatenate([[0], inner, [n_samples]])
    group = np.repeat(np.arange(n_subjects, dtype=np.int32), np.diff(edges))
    popularity = 20.0 ** rng.random(n_features)
    popularity *= density / SHARE_OF_OWN_ERAS / popularity.mean()
    columns = [_eras_of_a_drug(edges, share, rng) for share in np.minimum(popularity, 1.0)]
    indptr = np.cumsum([0, *map(len, columns)]).astype(np.int32)
    indices = np.concatenate(columns)
    length = rng.integers(1, LONGEST_ERA + 1, n_samples).astype(float)
    data = Data((n_samples, n_features), indptr, indices, None, {})
    z = data.times(_coefficients(n_features, 1.0, rng)) + np.log(length)
    # The Gumbel maxima of a subject's eras are multinomial draws; one to a few a subject.
    n_events = 1 + rng.poisson(0.5, n_subjects)
    y = np.zeros(n_samples)
    for k in range(n_events.max()):
        noisy = z + rng.gumbel(size=n_samples)
        highest = np.maximum.reduceat(noisy, edges[:-1])
        y += (noisy == highest[group]) & (n_events[group] > k)
    outcome = {"y": y, "exposure": length, "group": group}
    return Data(data.shape, indptr, indices, None, outcome, "case-series")


def _eras_of_a_drug(edges, share, rng):
    """Rows in which a drug is taken: half of the eras of those who take it."""
    takes = rng.random(len(edges) - 1) < share
    eras = np.flatnonzero(np.repeat(takes, np.diff(edges)))
    return eras[rng.random(len(eras)) < SHARE_OF_OWN_ERAS].astype(np.int32)


def _design(n_samples, n_features, density, spread, rng):
    """Shape, indptr, indices, values of independent indicators; the rows' centred predictor."""
    counts, rows = [np.zeros(1, int)], []
    columns_a_block = max(1, CELLS_A_BLOCK // n_samples)
    for first in range(0, n_features, columns_a_block):
        width = min(columns_a_block, n_features - first)
        ones = _ones(width * n_samples, density, rng)
        rows.append((ones % n_samples).astype(np.int32))
        counts.append(np.bincount(ones // n_samples, minlength=width))
    indptr, indices = np.cumsum(np.concatenate(counts)).astype(np.int32), np.concatenate(rows)
    shape = (n_samples, n_features)
    eta = Data(shape, indptr, indices, None, {}).times(_coefficients(n_features, spread, rng))
    return (shape, indptr, indices, None), eta - eta.mean()


def _ones(n_cells, density, rng):
    """Cells of a Bernoulli sequence that are one."""
    expected = n_cells * density
    gaps = rng.geometric(density, int(expected + 6 * np.sqrt(expected) + 20))
    cells = np.cumsum(gaps) - 1
    while cells[-1] < n_cells:  # hardly ever
        cells = np.append(cells, cells[-1] + rng.geometric(density))
    return cells[: np.searchsorted(cells, n_cells)]


def _coefficients(n_features, spread, rng):
    coef = spread * rng.normal(size=n_features)
    coef[rng.permutation(n_features)[: int(ZERO_SHARE * n_features)]] = 0.0
    return coef


BATCH_DENSITY = 0.05
EFFECT_SHARE, EFFECT_SPREAD = 0.1, 0.2  # columns that have an effect, and of which size
FOLLOW_UP = 500  # days


def draw_batches(n_rows, n_columns, rows=65_536, seed=20_240):
    """Batches (X, y) of survival times in whole days under exponential hazards."""
    from sksurvgpu import surv

    effects = np.random.default_rng(seed)
    coef = effects.normal(0.0, EFFECT_SPREAD, n_columns)
    coef *= effects.random(n_columns) < EFFECT_SHARE
    for number, first in enumerate(range(0, n_rows, rows)):
        random = np.random.default_rng([seed, number])
        X = _indicators(random, min(rows, n_rows - first), n_columns)
        rate = np.exp(X @ coef - BATCH_DENSITY * coef.sum()) / (2.0 * FOLLOW_UP)
        failed = random.exponential(1.0 / rate)
        lost = random.uniform(0.0, 2.0 * FOLLOW_UP, len(rate))
        end = np.minimum(lost, FOLLOW_UP)
        time = np.ceil(np.minimum(failed, end))
        yield X, surv(failed <= end, time)


def _indicators(random, n_rows, n_columns):
    ones = _ones(n_rows * n_columns, BATCH_DENSITY, random)
    column, row = np.divmod(ones, n_rows)
    indptr = np.searchsorted(column, np.arange(n_columns + 1))
    values = np.ones(len(row), np.int8)
    return csc_array((values, row.astype(np.int32), indptr), shape=(n_rows, n_columns))
