"""Outcomes, risks and horizons as the metrics of predicted risks read them.

Calibration leaves out rows with delayed entry: the mean risk of those who enter late, and have
survived until then, is not that of the population whose risk from the beginning is estimated.
"""

from dataclasses import dataclass

import numpy as np
from pandas import DataFrame

from ..data.checks import check_horizons
from ..data.outcomes.fields import (
    check_code,
    check_event_of_interest,
    labels_of,
    read_survival,
    status_of,
)
from ..data.vectors import as_array

NO_START = (
    "predicted risks cannot be judged by rows with delayed entry, who are not like those at the "
    "beginning; leave such rows out, then the field, as by y[['event', 'time']]."
)


@dataclass(frozen=True, eq=False)
class ObservedOutcome:
    """Time and kind of the end of each row."""

    status: np.ndarray  # (n_rows,), uint8: 0 censored, 1 event of interest, 2 competing event
    time: np.ndarray  # (n_rows,), float64
    name: str  # what the user calls the outcome
    start: np.ndarray | None = None  # (n_rows,), float64: entry times

    def check_follow_up(self, horizons, argument="times"):
        """Check that horizons lie before the last time."""
        last = self.time.max()
        if horizons[-1] >= last:
            late = horizons[np.argmax(horizons >= last)]
            raise ValueError(
                f"`{argument}` has {late:g}, must be before the last time of `{self.name}`, "
                f"{last:g}: from then on nobody is seen to be free of events; take an earlier "
                "horizon, however little."
            )

    def check_start(self, horizons):
        """Check that horizons do not lie before the first time."""
        first = self.time.min()
        if horizons[0] < first:
            raise ValueError(
                f"`times` has {horizons[0]:g}, before the first time of `{self.name}`, {first:g}; "
                "nothing has happened by then, take later horizons."
            )

    def check_events(self, horizon=np.inf):
        """Check that somebody has met the event of interest, by a horizon if one is given."""
        if (self.status[self.time <= horizon] == 1).any():
            return
        if horizon == np.inf:
            raise ValueError(
                f"`{self.name}` has no event ({self.time.size:,} rows); take more rows."
            )
        raise ValueError(
            f"`{self.name}` has no event of interest by the time {horizon:g}; take a later "
            "horizon or more rows."
        )


SUBJECTS = (
    "has persons of several rows, whose covariates change, so that their risks from the beginning "
    "are not those of rows; take those at risk at a time (a landmark), and risks from then on."
)


def read_observed(
    y, name, event_of_interest=None, *, may_be_flags=True, may_start=False
) -> ObservedOutcome:
    """Check an outcome of `surv`, or given the event of interest one of `competing_risks`.

    With an event of interest, those of `surv` are read as well unless `may_be_flags` is False.
    """
    kinds, otherwise = "b", "for several kinds of event there are the metrics named _competing"
    if event_of_interest is not None:
        kinds = "biu" if may_be_flags else "iu"
        otherwise = "take risks and a metric of a single kind"
    no_start = None if may_start else NO_START
    items = read_survival(y, kinds, otherwise, name=name, no_start=no_start)
    if items["start"] is not None and items["subject"] is not None:
        raise ValueError(f"`{name}` {SUBJECTS}")
    code, event = 1 if event_of_interest is None else event_of_interest, items["event"]
    code = check_code(code, event)
    if event_of_interest is not None and event.any():
        check_event_of_interest(code, event, name)
    return ObservedOutcome(status_of(event, code), items["time"], name, items["start"])


def has_horizons(risk):
    """Tell whether risks are a table as of ``predict_risk``, whose columns are its horizons."""
    is_table = isinstance(risk, DataFrame) and risk.columns.name == "time"
    return is_table and risk.columns.dtype.kind in "iuf"  # which have not been renamed


def read_risks(risk, times, n_rows, name):
    """Check risks of rows by horizons; return them, (n_rows, n_times), and the horizons."""
    if times is None and not has_horizons(risk):
        raise ValueError("`times` is missing; pass the horizon of each column of `risk`.")
    horizons = check_horizons(risk.columns.to_numpy() if times is None else times)
    if has_horizons(risk) and not np.array_equal(horizons, risk.columns):
        raise ValueError(
            f"`times` is {horizons.tolist()}, but the columns of `risk` are "
            f"{risk.columns.tolist()}{nearest_horizon(risk, horizons)}; leave out `times`, or "
            "select these columns of `risk`."
        )
    values = as_array(risk, "risk")
    if values.dtype.kind not in "iuf":
        raise TypeError(f"`risk` has dtype {values.dtype}; pass numbers.")
    values = values.reshape(len(values), 1) if values.ndim == 1 else values
    if values.shape != (n_rows, len(horizons)):
        raise ValueError(
            f"`risk` has shape {np.shape(risk)}, but there are {n_rows:,} rows of `{name}` and "
            f"{len(horizons):,} horizon(s); pass a risk for each row and each horizon."
        )
    _check_probabilities(values, horizons)
    check_rising(values)
    return values.astype(np.float64), horizons


def nearest_horizon(risk, horizons):
    """Words about the column of a table nearest to the first horizon that it has not."""
    columns = risk.columns.to_numpy(dtype=np.float64)
    absent = np.setdiff1d(horizons, columns)
    if not absent.size:
        return ""
    nearest = columns[np.argmin(np.abs(columns - absent[0]))]
    return f" (nearest to {float(absent[0])!r}: {float(nearest)!r})"


def is_competing(risk):
    """Tell whether risks say that they are of one event among competing ones."""
    return _event_of(risk) is not None


def _event_of(risk):
    return getattr(risk, "attrs", {}).get("event_of_interest")


def check_same_event(risk, event_of_interest, y):
    """Check that risks, where they say of which event they are, are those of this one."""
    codes = {label: code for code, label in labels_of(y[y.dtype.names[0]]).items()}
    predicted = _event_of(risk)
    # what a label stands for, only an outcome with labels says
    is_known = codes or event_of_interest is None or not isinstance(predicted, str)
    if predicted is None or not is_known:
        return
    if len({codes.get(e, e) for e in (predicted, event_of_interest)}) > 1:
        raise ValueError(
            f"`risk` was predicted for event {predicted}, `event_of_interest` is "
            f"{event_of_interest}; pass event_of_interest={predicted!r}, with outcomes of "
            "competing_risks, or risks of the other event."
        )


def _check_probabilities(risk, horizons):
    is_valid = (risk >= 0) & (risk <= 1)
    if is_valid.all():
        return
    row, column = np.argwhere(~is_valid)[0]
    found = risk[row, column]
    remedy = "pass probabilities, as predict_risk returns them, and no linear predictors"
    if np.isnan(found):
        remedy = "leave out horizons beyond the follow-up of the fit"
    raise ValueError(
        f"`risk` is {found:g} in row {row:,} for the time {horizons[column]:g}, must lie between 0 "
        f"and 1; {remedy}."
    )


def check_rising(risk):
    """Refuse what scikit-survival's scores take: probabilities of survival, which only fall."""
    steps = np.diff(risk, axis=1)
    if (steps < 0).any() and (steps <= 0).all():
        raise ValueError(
            "`risk` falls from horizon to horizon in all rows, as survival does; pass the "
            "probability that the event has happened, 1 minus that of survival."
        )
