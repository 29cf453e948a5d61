"""One outcome of many: who is at risk of it, its fit, and what is kept of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from numbers import Integral
from types import SimpleNamespace
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from ..backends import explain
from ..backends.cpu.threads import fits_at_once
from ..data.by_column import find_columns
from ..data.design.units import check_magnitudes, find_centers, moved
from ..data.options import choice
from ..data.outcomes.classes import TwoClasses
from ..data.outcomes.fields import pack
from ..data.partitioned import index_of
from ..data.vectors import as_vector, check_labels, check_order, check_row_values, encode
from ..estimators._columns import read_columns
from ..estimators._partition import to_memory
from ..estimators._preparing import devices_of
from ..estimators.models.base import model_of
from ..selection.cv import CrossValidated
from ..selection.grid import open_copy
from ._alike import kinds_of_rows, merge_rows
from ._rows import require_absent
from .profile import profile_likelihood
from .wald import wald

INTERVALS = ("profile", "wald", "robust", None)
COUNTS = ("n_at_risk", "n_events", "n_exposed", "n_events_exposed")
ESTIMATES = ("coef", "standard_error", "lower", "upper", "p_value")
NO_MAXIMUM = "`{}` has no finite estimate: the likelihood does not fall for ever larger effects."
# Arguments of fits that are numbers, with the least there may be; all others are labels.
NUMBERS = {"sample_weight": 0.0, "exposure": 0.0, "offset": None}
GROUPS = ("stratum", "subject")  # fields of outcomes by which plans order rows


@dataclass
class Effects:
    """Results of an outcome: an entry for each feature, and points of their profiles."""

    counts: np.ndarray  # (n_features, len(COUNTS)); NaN where they have no meaning
    estimates: np.ndarray  # (n_features, len(ESTIMATES))
    alpha: float
    status: list[str]
    message: list[str]
    curve_names: list[str]  # columns of the points; the first is the number of a feature
    curve: np.ndarray  # (n_points, n_columns)

    @classmethod
    def none(cls, n_features):
        """Effects of an outcome that was not fitted."""
        nothing = np.full((n_features, len(ESTIMATES)), np.nan)
        return cls(
            counts=nothing[:, : len(COUNTS)].copy(),
            estimates=nothing,
            alpha=np.nan,
            status=["failed"] * n_features,
            message=[""] * n_features,
            curve_names=[],
            curve=np.empty((0, 0)),
        )

    def pack(self) -> dict[str, np.ndarray]:
        """Arrays for a file."""
        return {name: np.array(value) for name, value in vars(self).items()}

    @classmethod
    def unpack(cls, arrays):
        """Effects from the arrays that `pack` has made of them."""
        kept = ("counts", "estimates", "curve")
        return cls(**{k: v if k in kept else v.tolist() for k, v in arrays.items()})


class SharedInput:
    """Input that all outcomes share; X is in the order of the strata, if all have the same ones."""

    def __init__(self, estimator, X, columns, intervals, level, given):
        fit_params = {key: value for key, value in given.items() if key != "at_risk"}
        self._index = index_of(X)  # which no Design has
        # outcomes share X, so that transformers do not learn from them
        opened = open_copy(estimator, X, None, "fit_outcomes", fit_params, may_choose=True)
        self.model, _, X = opened
        _check_model(self.model, intervals)
        self.intervals, self._level = intervals, level
        self._open(X)
        self._given = {
            key: value if isinstance(value, Mapping) else to_memory(value=value)[0]
            for key, value in given.items()
        }
        n_rows, n_columns, names = self._shape
        _check_shared(self._given, n_rows)
        self._check_order(self._given)
        labels = [f"x{j}" for j in range(n_columns)] if names is None else names.tolist()
        listed = [columns] if isinstance(columns, str | Integral) else columns
        columns = [*dict.fromkeys(find_columns(listed, "columns", n_columns, labels))]
        if not columns:
            raise ValueError("`columns` is empty; name one or more columns of X.")
        outline = model_of(self.model).outline(n_columns, names)
        source, all_names = outline.terms.source, outline.terms.names(labels)
        self.coefs = np.array([k for j in columns for k in np.flatnonzero(source == j)])
        self.features = [all_names[k] for k in self.coefs]
        self.columns = source[self.coefs]  # of X
        self._values = [self._column(j) for j in self.columns]
        self._are_flags = [np.isin(values, (0.0, 1.0)).all() for values in self._values]
        likelihood, pattern = outline.likelihood, outline.likelihood.pattern
        self._ignores_shifts = pattern.is_conditional or likelihood.intercept
        self._may_leave = pattern.has("on_device")
        self._order = self._kinds = None

    def _open(self, X):
        """Take X in."""
        self.X, _ = read_columns(X)
        check_magnitudes(self.X)
        self._shape = self.X.n_rows, self.X.n_columns, self.X.names

    def _column(self, j):
        """Values of a column in all rows."""
        return self.X.select([j]).dot([1.0])

    @property
    def most_at_once(self):
        """Outcomes that threads may fit side by side."""
        return fits_at_once(self.X)

    def describe(self):
        """X, as a description of the call has it."""
        return self.X

    def arrange(self, first, n_threads):
        """Put X into an order in which all outcomes can have it, `first` being one of them."""
        X, strata = self.X, self._given.get("strata")
        if strata is None and isinstance(first, np.ndarray) and first.dtype.names:
            fields = [name for name in GROUPS if name in first.dtype.names]
            strata = first[fields[0]] if fields else None
        if strata is not None and not isinstance(strata, Mapping) and len(strata) == X.n_rows:
            codes, _ = encode(check_labels(strata, "strata", X.n_rows))
            self._order = np.argsort(codes, kind="stable").astype(np.int32)
            X = X.reordered(self._order, n_threads=n_threads)
            self._values = [values[self._order] for values in self._values]
        if self._ignores_shifts and (center := find_centers(X)).any():
            X = moved(X, -center, in_place=X is not self.X)
        asked, device = self.model.backend, devices_of(self.model)
        backend, _ = explain(asked, X.n_entries, device, may_leave=self._may_leave and not X.blocks)
        self.model.set_params(backend=backend)
        self.X = replace(X, keeps_order=backend == "cpu")
        may_merge = self.intervals != "robust" and not isinstance(self.model, CrossValidated)
        self._kinds = kinds_of_rows(self.X) if may_merge else None

    def read(self, name, y) -> dict[str, Any]:
        """Arguments of ``fit`` beside X, rows in its order; those not at risk have no weight."""
        given = {"y": y} | {
            key: value.get(name) if isinstance(value, Mapping) else value
            for key, value in self._given.items()
        }
        n_rows, *_ = self._shape
        given = dict(zip(given, to_memory(**given), strict=True))
        self._check_order(given)
        rows = _rows_at_risk(given.pop("at_risk", None), n_rows)
        if rows is not None:
            self._check_order(given, rows)
        given = {
            key: self._spread(as_vector(value, key, keep_objects=key != "y"), key, rows)
            for key, value in given.items()
            if value is not None or key == "y"
        }
        if rows is not None:
            at_risk = np.zeros(n_rows)
            at_risk[rows] = 1.0
            at_risk = at_risk if self._order is None else at_risk.take(self._order)
            given["y"] = _apart(given["y"], at_risk == 0.0)
            given["sample_weight"] = given.get("sample_weight", 1.0) * at_risk
        return given

    def _check_order(self, given, rows=None):
        """Refuse values of all rows, or of those at risk, in another order than X has them."""
        if hasattr(index := self._index, "equals"):
            some = index if rows is None or len(rows) == len(index) else index[rows]
            check_order(X=SimpleNamespace(index=some), **given)

    def _spread(self, values, key, rows):
        """Values of all rows, given for these or for rows at risk."""
        n_rows, *_ = self._shape
        if len(values) != n_rows:
            if rows is None or len(values) != len(rows):
                raise _other_length(key, values, n_rows)
            # an event of a row without a weight would still have a place in time
            first = values[values.dtype.names[0]] if values.dtype.names else np.zeros(1)
            spread = np.full(n_rows, values[np.argmin(first)])
            spread[rows] = values
            values = spread
        return values if self._order is None else values.take(self._order)

    def fit(self, found, given, warned):
        """Fit an outcome; `warned` is a list to which the warnings of this thread are added."""
        rest = {key: value for key, value in given.items() if key != "y"}
        weight = rest.get("sample_weight")
        counted = np.ones(self._shape[0], bool) if weight is None else weight > 0
        found.counts, outcome = self.count(given["y"], rest, counted)
        if (varies := self.find_varying(found, counted)).any():
            X, y, rest = self._rows(outcome, given["y"], rest)
            self.estimate(found, np.flatnonzero(varies), X, y, rest, warned)

    def find_varying(self, found, counted):
        """Whether each column varies in the rows that count; says so of those that do not."""
        varies = np.array([np.ptp(values[counted]) > 0 for values in self._values])
        for k in np.flatnonzero(~varies):
            value = self._values[k][counted][0]
            found.message[k] = f"`{self.features[k]}` is {value:g} in all rows at risk."
        return varies

    def _rows(self, outcome, y, rest):
        """X, y and further arguments as a fit takes them."""
        if self._kinds is None:
            return self.X, y, rest
        model = model_of(self.model, may_lack=True)
        return merge_rows(model, outcome, self._kinds, self.X, y, rest)

    def count(self, y, rest, counted):
        """Rows, events, and those where a column of zeros and ones is one; the outcome."""
        beside = {k: v for k, v in rest.items() if k not in ("sample_weight", "offset")}
        model = model_of(self.model, may_lack=True)  # without an event the fit will say so
        outcome = model.read_outcome(y, self._shape[0], **beside)
        counts = np.full((len(self.features), len(COUNTS)), np.nan)
        counts[:, 0] = np.count_nonzero(counted)
        events = outcome.value if isinstance(outcome, TwoClasses) else outcome.n_events
        has_events = isinstance(outcome, TwoClasses) or outcome.event is not None
        if has_events:
            counts[:, 1] = events[counted].sum()
        for k, values in enumerate(self._values):
            if self._are_flags[k]:
                exposed = counted & (values == 1.0)
                counts[k, 2] = np.count_nonzero(exposed)
                if has_events:
                    counts[k, 3] = events[exposed].sum()
        return counts, outcome

    def estimate(self, found, some, X, y, rest, warned):
        """Effects of some of the features."""
        model, chooses = clone(self.model), isinstance(self.model, CrossValidated)
        if chooses or self.intervals != "profile":
            model.fit(X, y, **rest)
        found.alpha = float(model.alpha)
        if chooses:
            model = model.refit_model()
        read = self._profile if self.intervals == "profile" else self._read_fit
        estimates, towards = read(found, some, model, X, y, rest)
        estimates[towards != 0, :2] = np.nan
        is_known = np.abs(towards) == 1
        estimates[is_known, 0] = towards[is_known] * np.inf
        found.estimates[some] = estimates
        told = [str(warning) for warning in warned]
        has_failed = any(isinstance(warning, ConvergenceWarning) for warning in warned)
        for k, coef, towards_k in zip(some, estimates[:, 0], towards, strict=True):
            found.status[k] = "not converged" if has_failed else "ok"
            if np.isnan(coef):  # of a column that depends on others
                found.status[k] = "failed"
            found.message[k] = " ".join(told)
            if towards_k != 0:
                found.status[k] = "infinite"
                found.message[k] = " ".join([NO_MAXIMUM.format(self.features[k]), *told])

    def _profile(self, found, some, model, X, y, rest):
        """Estimates from profiles; 1 or -1 where they are infinite, NaN where they may be both."""
        names = [self.features[k] for k in some]
        result = profile_likelihood(model, X, y, names, level=self._level, **rest)
        low, high = result.intervals["lower"].to_numpy(), result.intervals["upper"].to_numpy()
        falls = np.isfinite(low), np.isfinite(high)
        towards = np.where(falls[0] | falls[1], falls[0] * 1.0 - falls[1], np.nan)
        with np.errstate(invalid="ignore"):
            error = (high - low) / (2.0 * np.sqrt(result.thresholds.to_numpy()))
        points = result.curves
        number = dict(zip(names, some, strict=True))
        found.curve_names = points.columns.tolist()
        found.curve = points.assign(feature=points["feature"].map(number)).to_numpy(float)
        estimates = result.intervals["coef"], error, low, high, result.p_values
        return np.column_stack(estimates), towards

    def _read_fit(self, found, some, model, X, y, rest):
        """Estimates of the fit itself, with Wald intervals where these are wanted."""
        coefs = self.coefs[some]
        estimates = np.full((len(some), len(ESTIMATES)), np.nan)
        towards = np.where(model.infinite_[coefs], np.sign(model.coef_[coefs]), 0.0)
        if self.intervals is None:
            estimates[:, 0] = model.coef_[coefs]
        else:
            robust = self.intervals == "robust"
            result = wald(model, X, y, level=self._level, robust=robust, **rest)
            estimates[:] = result.summary()[list(ESTIMATES)].to_numpy()[coefs]
        estimates[towards != 0] = np.nan
        return estimates, towards


def message_of(error):
    """Text of an error, for the line of an outcome."""
    kind = "" if type(error) is ValueError else f"{type(error).__name__}: "
    return kind + str(error)


def _check_model(model, intervals):
    """Refuse what can be refused before any outcome is read."""
    choice(intervals, "intervals", INTERVALS)
    if intervals == "profile":
        require_absent(model, "profile_likelihood")
    chooses = isinstance(model, CrossValidated)
    if chooses and model.folder is not None:
        raise ValueError(
            "`estimator` has a `folder`, which serves one fit; leave it out, and name a folder for "
            "fit_outcomes."
        )
    factor = model.penalty_factor
    factor = list(factor.values()) if isinstance(factor, Mapping) else factor
    is_penalized = chooses or (model.alpha > 0 and (factor is None or np.any(factor)))
    if intervals in ("wald", "robust") and is_penalized:
        raise ValueError(
            f"`intervals` is {intervals!r}, which is for fits without a penalty (alpha=0); take "
            "intervals='profile'."
        )


def _check_shared(given, n_rows):
    """Check once what all outcomes share: else each of them would fail of it."""
    at_risk = given.get("at_risk")
    if not isinstance(at_risk, Mapping):
        at_risk = {"all": _rows_at_risk(at_risk, n_rows)}
    for key, values in given.items():
        if key == "at_risk" or values is None or isinstance(values, Mapping):
            continue
        if key in NUMBERS:
            values = check_row_values(values, key, minimum=NUMBERS[key])
        else:
            values = check_labels(values, key)
        if len(values) != n_rows and len(values) not in map(_count_rows, at_risk.values()):
            raise _other_length(key, values, n_rows)


def _count_rows(rows):
    """Number of rows, given by their numbers or as a mask."""
    rows = np.asarray([] if rows is None else rows)
    return np.count_nonzero(rows) if rows.dtype.kind == "b" else rows.size


def _other_length(key, values, n_rows):
    return ValueError(
        f"`{key}` has {len(values):,} entries, `X` has {n_rows:,} rows; pass one per row, or one "
        "per row at risk."
    )


def _apart(y, is_apart):
    """Outcome of subjects or sets in which rows that do not count have groups of their own."""
    first, *_ = y.dtype.names or [None]
    field = {"count": "subject", "case": "stratum"}.get(first)
    if field is None:
        return y
    codes, labels = encode(y[field])
    codes[is_apart] = len(labels) + np.arange(np.count_nonzero(is_apart))
    return pack({name: codes if name == field else y[name] for name in y.dtype.names})


def _rows_at_risk(given, n_rows):
    """Numbers of rows, given so or as a mask; None for all rows."""
    if given is None:
        return None
    rows = as_vector(given, "at_risk")
    if rows.dtype.kind == "b":
        if len(rows) != n_rows:
            raise ValueError(
                f"`at_risk` has {len(rows):,} entries, `X` has {n_rows:,} rows; pass one per row, "
                "or the numbers of the rows at risk."
            )
        rows = np.flatnonzero(rows)
    elif rows.dtype.kind not in "iu":
        raise TypeError(f"`at_risk` has dtype {rows.dtype}; pass a mask, or numbers of rows.")
    if not len(rows):
        raise ValueError("`at_risk` has no rows; nobody can have the outcome.")
    if rows.min() < 0 or rows.max() >= n_rows:
        raise ValueError(
            f"`at_risk` has the row {rows[(rows < 0) | (rows >= n_rows)][0]:,}; `X` has rows 0 to "
            f"{n_rows - 1:,}."
        )
    if np.bincount(rows, minlength=n_rows).max() > 1:
        raise ValueError("`at_risk` has some row more than once; name each one once.")
    return rows
