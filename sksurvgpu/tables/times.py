"""Days and times in columns of tables: numbers, or dates by the clocks of their time zone.

A calendar says what times are: None for numbers, "dates", "dates of Asia/Tokyo", and "" where there
are none so far. Only times of one calendar are compared. Dates are counted in days, of which each
is one day when clocks change, too.
"""

import narwhals as nw
import numpy as np
from pandas.api.types import infer_dtype

from .ids import whole_numbers

MICROSECONDS = 86_400_000_000  # of a day
INTEGERS = "integers"  # the calendar of `read_days`, where times are numbers
FROM_TEXT = (
    "convert text with pandas.to_datetime, polars.col(name).str.to_date(), or CAST(name AS DATE) "
    "in SQL"
)


def check_alike(label, calendar, others, their_calendar):
    """Check that times can be compared: all numbers, or all dates of one time zone."""
    if calendar == their_calendar or "" in (calendar, their_calendar):
        return
    kinds = [calendar or "numbers", their_calendar or "numbers"]
    remedy = "write all as dates, or all as whole numbers of days"
    if all(found.startswith("dates") for found in kinds):
        remedy = (
            "leave out the time zone, by series.dt.tz_localize(None) in pandas, by "
            "polars.col(name).dt.replace_time_zone(None) in polars, also of "
            "polars.scan_parquet(path), and by name AT TIME ZONE 'zone' in SQL, as of DuckDB"
        )
    raise TypeError(f"{label} has {kinds[0]}, {others} {kinds[1]}; {remedy}.")


def read_days(series: nw.Series, label: str):
    """Read whole days or dates, none missing, as int64 in the finest steps there are.

    Returns these moments and their calendar; `day_of` has the days.
    """
    dtype = series.dtype
    if dtype.is_integer() or dtype.is_float():
        return whole_numbers(series.to_numpy(), label, "days"), INTEGERS
    calendar, moments = _read_moments(series)
    if calendar is None:
        raise TypeError(
            f"{label} has dtype {dtype}; days are integers, dates or timestamps: {FROM_TEXT}."
        )
    return moments.astype(np.int64), calendar


def day_of(moments, calendar):
    """Days that moments of `read_days` are in."""
    return moments if calendar == INTEGERS else moments // MICROSECONDS


def read_times(series: nw.Series, label: str):
    """Read numbers or dates, maybe missing, as float64 with NaN; return them and their calendar."""
    calendar, moments = _read_moments(series)
    if calendar is not None:
        days = moments.astype(np.int64) / MICROSECONDS
        days[np.isnat(moments)] = np.nan
        return days, calendar
    if not series.dtype.is_numeric():
        raise TypeError(
            f"{label} has dtype {series.dtype}; times are numbers or dates: {FROM_TEXT}, spans of "
            "time to numbers."
        )
    values = series.to_numpy()
    if values.dtype.kind not in "iuf":
        values = series.cast(nw.Float64).to_numpy()
    return values.astype(np.float64, copy=False), None


class TimeReader:
    """Reader of columns whose times are all of one calendar.

    Messages call the columns before by `others`: "columns before it have". Where times are `by_day`
    the time of day of dates is cut off.
    """

    def __init__(self, others, by_day):
        self.calendar: str | None = ""
        self._others, self._by_day = others, by_day

    def read(self, series: nw.Series, label: str) -> np.ndarray:
        """Times of a column as float64, NaN where one is missing."""
        if series.null_count() == len(series):
            return np.full(len(series), np.nan)  # drivers give what has no entry any type
        times, calendar = read_times(series, label)
        check_alike(label, calendar, self._others, self.calendar)
        self.calendar = calendar
        return whole_days(times, calendar, label) if self._by_day else times


def whole_days(times, calendar, label):
    """Days as whole numbers, NaN where there is none; the time of day of dates is cut off."""
    days = np.floor(times)
    if calendar is None and (days < times).any():
        shown = times[np.argmax(days < times)]
        raise ValueError(f"{label} has {shown:g}; days are whole numbers, or dates.")
    return days


def show_time(time, calendar):
    """A time as its table has it."""
    if calendar is None:
        return f"{time:g}"
    moment = np.datetime64(round(time * MICROSECONDS), "us")
    return str(moment.astype("datetime64[D]") if time == np.floor(time) else moment)


def _read_moments(series):
    """Calendar and moments, datetime64[us], of dates or timestamps; None twice of others."""
    zone, values = _zone_of(series), None
    if zone:
        values = series.dt.replace_time_zone(None).to_numpy()
    elif series.dtype in (nw.Date, nw.Datetime) or _has_dates(series):
        values = series.to_numpy()
    if values is None:
        return None, None
    return f"dates of {zone}" if zone else "dates", values.astype("datetime64[us]")


def _zone_of(series):
    """Time zone of timestamps, also where narwhals cannot read its name (America/New_York)."""
    if isinstance(series.dtype, nw.Datetime):
        return series.dtype.time_zone
    zone = getattr(getattr(series.to_native(), "dtype", None), "tz", None)
    return None if zone is None else str(zone)


def _has_dates(series):
    """Whether objects are Python's dates, as drivers of databases return them."""
    if series.dtype != nw.Object:
        return False
    values = series.to_numpy()
    is_date = infer_dtype(values, skipna=True) in ("date", "datetime")
    return is_date and not any(getattr(value, "tzinfo", None) for value in values)
