"""Damaged vectors: outcomes, weights, offsets, labels and factors in every disguise."""

import numpy as np
import pandas as pd
import polars as pl
import scipy.sparse as sp

from sksurvgpu import (
    CaseSeriesCCD,
    ConditionalLogisticCCD,
    ConditionalPoissonCCD,
    CoxLassoCCD,
    FineGrayCCD,
    LinearCCD,
    LogisticCCD,
    PoissonCCD,
    case_series,
    competing_risks,
    matched,
    surv,
)

from .judge import MEANINGLESS, judge
from .matrices import pick

N, P = 24, 3
ODD_NUMBERS = (np.nan, np.inf, -np.inf, -1.0, 0.0, -0.0, 0.5, 1.0, 2.0, 1e-300, 1e300, 2.0**53)


def _base():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(N, P))
    group = np.repeat(np.arange(N // 4), 4)
    return X, {
        "event": rng.random(N) < 0.6,
        "code": rng.integers(0, 3, N),
        "time": rng.integers(1, 9, N) / 2,
        "start": np.zeros(N),
        "count": rng.poisson(2.0, N),
        "length": rng.integers(1, 5, N) * 1.0,
        "group": group,
        "case": np.arange(N) % 4 == 0,
        "number": rng.normal(size=N),
        "label": np.array(["no", "yes"])[(rng.random(N) < 0.5).astype(int)],
        "sample_weight": 1.0 + group % 3,
        "offset": rng.normal(size=N) / 4,
        "strata": np.array(["a", "b", "c"])[group % 3],
        "penalty_factor": np.array([1.0, 0.5, 2.0]),
    }


X, VECTORS = _base()
ROWS = ("sample_weight", "offset")
# What y is made of and how, the estimator, and what else its fit takes.
MODELS = {
    "cox": (("event", "time", "start"), lambda e, t, s: surv(e, t, start=s), CoxLassoCCD,
            (*ROWS, "strata")),
    "cox strata": (("event", "time", "strata"), lambda e, t, s: surv(e, t, stratum=s), CoxLassoCCD,
                   ROWS),
    "cox subject": (("event", "time", "group"), lambda e, t, g: surv(e, t, subject=g), CoxLassoCCD,
                    ROWS),
    "fine-gray": (("code", "time"), competing_risks, FineGrayCCD, (*ROWS, "strata")),
    "case series": (("count", "length", "group"), case_series, CaseSeriesCCD, ROWS),
    "matched": (("case", "group"), matched, ConditionalLogisticCCD, ROWS),
    "conditional poisson": (("count",), lambda c: c, ConditionalPoissonCCD, (*ROWS, "strata")),
    "logistic": (("label",), lambda y: y, LogisticCCD, ROWS),
    "poisson": (("count",), lambda c: c, PoissonCCD, ROWS),
    "linear": (("number",), lambda y: y, LinearCCD, ROWS),
}  # fmt: skip
LABELS = ("group", "strata", "label")


def _disguised(rng, vector):
    """The same entries in another container."""
    changes = (
        lambda: vector.tolist(),
        lambda: tuple(vector.tolist()),
        lambda: pd.Series(vector, index=rng.permutation(N)[: vector.size] + 100),
        lambda: pl.Series(vector),
        lambda: pd.array(vector),
        lambda: np.repeat(vector, 2)[::2],
        lambda: vector[::-1].copy()[::-1],
        lambda: vector.astype(vector.dtype.newbyteorder(">")),
        lambda: np.ma.array(vector),
        lambda: pd.Series(vector.tolist(), dtype=object),
        lambda: pd.Series(vector.tolist(), dtype="category"),
        lambda: np.array(vector.tolist(), dtype=object),
        lambda: pd.Series(pd.arrays.SparseArray(vector)) if vector.dtype.kind in "if" else vector,
        lambda: np.frombuffer(vector.tobytes(), vector.dtype),
    )
    return changes[rng.integers(len(changes))]()


def _meaningless(rng, vector):
    """What has no reading: other shapes and lengths, missing and infinite entries, other things."""
    k, size = rng.integers(vector.size), vector.size
    odd = pick(rng, (None, np.nan, pd.NA, pd.NaT, 1j, {}, [1, 2], object()))
    with_odd = np.array(vector.tolist(), dtype=object)
    with_odd[k] = odd
    is_number = vector.dtype.kind in "if"
    numbers = vector.astype(float) if is_number else np.arange(float(size))
    with_hole = np.where(np.arange(size) == k, pick(rng, (np.nan, np.inf, -np.inf)), numbers)
    series = pd.Series(vector).convert_dtypes()
    series[k] = pd.NA
    changes = (
        lambda: vector[: rng.integers(size)],
        lambda: np.concatenate([vector, vector[: 1 + k]]),
        lambda: vector[:, None],
        lambda: vector[None],
        lambda: np.stack([vector, vector], axis=1),
        lambda: vector[k],
        lambda: with_odd,
        lambda: list(with_odd),
        lambda: with_hole,
        lambda: pl.Series(with_hole.tolist(), strict=False),
        lambda: pl.Series([None if i == k else entry for i, entry in enumerate(vector.tolist())]),
        lambda: series,
        lambda: np.ma.array(vector, mask=np.arange(size) == k),
        lambda: numbers.astype(complex),
        lambda: numbers.astype("M8[D]"),
        lambda: numbers.astype("m8[s]"),
        lambda: pd.Series(numbers.astype("M8[ns]")),
        lambda: iter(vector),
        lambda: {"a": vector},
        lambda: sp.csr_array(numbers[None]),
        lambda: pd.DataFrame({"a": vector, "b": vector}),
        lambda: [*vector.tolist()[:-1], vector.tolist()],
        lambda: "vector",
        lambda: b"vector",
        lambda: np.array(object()),
        lambda: numbers.view([("a", "f8")]),
    )
    return changes[rng.integers(len(changes))]()


def _changed(rng, vector):
    """Other entries, which may suit or not."""
    if vector.dtype.kind not in "iuf":
        return vector[rng.permutation(vector.size)]
    vector = vector.astype(float)
    vector[rng.random(vector.size) < rng.choice([0.05, 0.5, 1.0])] = pick(rng, ODD_NUMBERS)
    return vector


def damage_vector(rng, vector):
    """Return a vector as a user might pass it, and in its plainest form or `MEANINGLESS`."""
    choice = rng.integers(4)
    if choice == 0:
        return _meaningless(rng, vector), MEANINGLESS
    plain = _changed(rng, vector) if choice == 1 else vector
    if plain.dtype.kind == "f" and not np.isfinite(plain).all():
        return _disguised(rng, plain), MEANINGLESS
    return _disguised(rng, plain), plain


def attack_vectors(rng):
    """One attempt with a vector of a model that fits small data."""
    fields, build, cls, rows = MODELS[pick(rng, list(MODELS))]
    options = (*fields, *rows, "penalty_factor")
    target = pick(rng, options)
    asked = {name for name in rows if rng.random() < 0.3} | {target}

    def run(vector):
        given = {**VECTORS, target: vector}
        extra = {name: given[name] for name in rows if name in asked}
        factor = given["penalty_factor"] if "penalty_factor" in asked else None
        y = build(*(given[name] for name in fields))
        return cls(alpha=0.05, penalty_factor=factor).fit(X, y, **extra).coef_

    damaged, plain = damage_vector(rng, VECTORS[target])
    if target == "label" and isinstance(damaged, np.ndarray) and damaged.shape == (N, 1):
        plain = damaged.ravel()  # as scikit-learn has it, with a warning
    return judge(run, damaged, plain)
