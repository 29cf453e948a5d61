"""An outcome of a study with all exposures, by each of its case series: one part of the folder.

Its tables have the names and columns of the results model of SelfControlledCaseSeries 6, or more.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import chain, count

import numpy as np
from pandas import DataFrame, Index, Series, concat
from scipy.optimize import brentq
from scipy.special import ndtri

from .._warnings import keep_warnings
from ..cohort import case_series_diagnostics
from ..estimators.case_series import CaseSeriesCCD
from ..inference.outcomes import fit_outcomes
from ..inference.profile import profile_likelihood
from ..inference.wald import wald
from .document import outcomes_of
from .effects import describe_profiles, llr_of, number_of
from .windows import END_OF_OBSERVATION, LAST_DAYS, make_rows, sort_windows

__all__ = ["COUNTS", "CaseSeries", "detectable_ratio"]

COUNTS = ["outcome_subjects", "outcome_events", "outcome_observation_periods", "observed_days"]
COUNTS += ["covariate_subjects", "covariate_days", "covariate_eras", "covariate_outcomes"]
ENDS = {"coef": "rr", "lower": "ci_95_lb", "upper": "ci_95_ub"}
OF_LINES = [*ENDS, "standard_error", "p_value", "status", "message"]
# Numbers of covariates: of windows from FIRST on, and of what depends on time.
FIRST = 1_000
OF_TIME = {"age spline": 100, "age": 150, "season spline": 200, "calendar spline": 300}
WEEKS = np.arange(-26, 26)  # around the first exposure
MONTH = 365.25 / 12.0


class CaseSeries:
    """An outcome of a study in a database; arguments are those of `Comparison`."""

    def __init__(self, study, database, number, n_jobs=None, events=None):
        self.study, self._database, self._n_jobs = study, database, n_jobs
        self._number, (self.name, self._of) = number, [*outcomes_of(study).items()][number]
        self._held, self._drawn = {} if events is None else events, {}
        self.label = "", "", f"case series of {self.name}"

    def parts(self):
        """Name of the only part, with the function that computes it."""
        yield f"series-{self._number:04d}", self.describe

    def describe(self):
        """Tables of all exposures and case series."""
        found, is_whole = defaultdict(list), True
        for number, (name, series) in enumerate(self.study["case_series"].items(), 1):
            for exposure in series["exposures"]:
                try:
                    tables = self._analyse(series, exposure)
                except Exception as error:  # of this exposure alone
                    kind = "" if isinstance(error, ValueError) else f"{type(error).__name__}: "
                    is_whole &= not kind  # others may not come again
                    lines = DataFrame({"window": sort_windows(series)[0], "status": "failed"})
                    tables = {"lines": lines.assign(message=f"{kind}{error}")}
                lines, position = tables["lines"], [*series["windows"]].index
                lines["covariate_id"] = FIRST + lines["window"].map(position)
                era_id = self.study["exposures"][exposure]["id"]
                key = {"exposure": exposure, "outcome": self.name, "analysis": name}
                key |= {"analysis_id": number, "exposure_id": era_id, "outcome_id": self._of["id"]}
                key["exposures_outcome_set_id"] = number_of(f"{self._of['id']} NA {era_id}")
                for table, content in tables.items():
                    found[table].append(content.assign(**key))
        tables = {key: concat(t, ignore_index=True) for key, t in found.items()}
        return tables | {"facts": DataFrame({"is_whole": [is_whole]})}

    def _draw(self, gap):
        if self.name not in self._held:
            of = self._of
            self._held[self.name] = self._database.events(of["concepts"], **of["options"])
        if gap not in self._drawn:
            exposures = {name: d["concepts"] for name, d in self.study["exposures"].items()}
            self._drawn[gap] = self._database.eras(exposures, self._held[self.name], gap=gap)
        return self._drawn[gap]

    def _analyse(self, series, exposure):
        tables, (windows, before) = self._draw(series["gap"]), sort_windows(series)
        data, model = make_rows(series, exposure, tables), CaseSeriesCCD(alpha=0.0)
        options = {"columns": windows, "n_jobs": self._n_jobs}
        result = fit_outcomes(model, data.X, {self.name: data.y}, **options)
        lines = result.table[OF_LINES].reset_index(drop=True)
        lines.insert(0, "window", windows)
        if result.curves is not None:
            lines["llr"] = llr_of(result.curves, "feature").reindex(windows).to_numpy()
        with keep_warnings():  # which the lines have
            fit = wald(model.fit(data.X, data.y), data.X, data.y)
        columns = fit.summary()[[*ENDS]]
        columns.loc[windows] = lines[[*ENDS]].to_numpy()
        checks = case_series_diagnostics(data, fit, before=before)
        told = _add_limits(checks.table, model, data, columns.loc[columns["lower"].isna()].index)
        person = tables["periods"].set_index("id")["person_id"]
        eras = tables["eras"][tables["eras"]["era"] == exposure]
        lines = lines.join(DataFrame([_count(data, name, person, eras) for name in windows]))
        share = self._held[self.name]["id"].nunique()
        share /= getattr(self._database, "n_persons", np.nan)
        rare = {"rare_outcome_prevalence": share}
        rare["first_outcomes"] = share if series.get("first_outcome_only") else 0.0
        profiles = describe_profiles(result.curves, "feature", windows)
        profiles["window"] = [windows[int(k)] for k in profiles["feature"]]
        found = {
            "lines": lines.assign(**rare, **_read_checks(told)),
            "covariate": self._name_columns(series, exposure, columns),
            "likelihood_profile": profiles,
            "attrition": _describe_attrition(data, person),
            "spline": _describe_knots(data, columns["coef"]),
            "time_trend": _describe_months(checks.months),
            "time_to_event": _describe_weeks(data.days, eras),
            **_describe_spans(data.days, tables["periods"]),
        }
        if data.endings is not None:
            law, of = data.endings.index[0]
            model_type = f"{law.capitalize()}-{of.capitalize()}"
            values = [*enumerate(data.endings.iloc[0, 1:], 1)]
            table = DataFrame(values, columns=["parameter_id", "parameter_value"])
            found["censor_model"] = table.assign(model_type=model_type)
        return found

    def _name_columns(self, series, exposure, columns):
        """Ratios of all columns with their numbers, and those of their windows and exposures."""
        ids = {name: d["id"] for name, d in self.study["exposures"].items()}
        free, found = {name: count(first) for name, first in OF_TIME.items()}, []
        windows, own = [*series["windows"]], [*chain(*sort_windows(series))]
        for column in columns.index:
            window, _, era = (column, "", "") if column in windows else column.partition(": ")
            if window in windows:
                k, id = windows.index(window), ids[era or exposure]
                id = id if era or window in own else 0
                found.append((FIRST * (k + 2) + id if era else FIRST + k, k + 1, id))
            elif column == END_OF_OBSERVATION:
                found.append((LAST_DAYS, LAST_DAYS, 0))
            else:
                found.append((next(free[column.rpartition(" ")[0]]), np.nan, 0))
        table = DataFrame(found, columns=["covariate_id", "covariate_analysis_id", "era_id"])
        with np.errstate(over="ignore"):
            ratios = {name: np.exp(columns[of].to_numpy()) for of, name in ENDS.items()}
        return table.assign(covariate_name=columns.index, **ratios)


def _count(data, window, person, eras):
    """Counts of cases and of those in a window, and the smallest ratio that would be found."""
    days, subject, line = data.days, data.y["subject"], data.columns.loc[window]
    rows = data.X.to_scipy().tocsc()[:, [[*data.X.names].index(window)]].nonzero()[0]
    who = np.unique(subject[rows])
    is_own = np.isin(subject, who)  # rows, which a control window leaves out most days of
    total, n_events = data.y["length"][is_own].sum(), int(data.y["count"][is_own].sum())
    if data.endings is not None:  # whose lengths are weights
        total = (days.end - days.start + 1)[np.isin(days.label, who)].sum()
    periods, events, observed = data.attrition.iloc[-1]
    counts = [person.loc[np.unique(subject)].nunique(), events, periods, observed]
    counts += [person.loc[who].nunique(), line["days"], eras["id"].isin(who).sum(), line["events"]]
    told = {"own_periods": len(who), "own_events": n_events, "own_days": int(total)}
    told["mdrr"] = detectable_ratio(line["days"] / max(total, 1), n_events)
    return dict(zip(COUNTS, counts, strict=True)) | told


def detectable_ratio(share, n_events):
    """Smallest rate ratio found with a power of 80%, where a share of days is at risk.

    By the signed root likelihood ratio, formula 7 of Musonda, Farrington and Whitaker (2006).
    """
    if not (0 < share < 1 and n_events >= 1):
        return np.inf

    def lacks(b):
        total = np.exp(b) * share + 1.0 - share
        risk = np.exp(b) * share / total
        a = 2.0 * (risk * b - np.log(total))
        spread = b * np.sqrt(risk * (1.0 - risk) / a)
        return (np.sqrt(n_events * a) - ndtri(0.975)) / spread - ndtri(0.8)

    least, most = 1e-4, 10.0  # logarithms, as far as R's package looks
    if lacks(most) <= 0.0:
        return np.inf
    return float(np.exp(brentq(lacks, least, most))) if lacks(least) < 0.0 else 1.0


def _add_limits(table, model, data, infinite):
    """Limits of rates before exposures and at the end without an event, which have no error."""
    table = table.copy()
    titles = {f"event-dependent exposure: {name}": name for name in infinite}
    titles["event-dependent observation"] = END_OF_OBSERVATION
    titles = {title: n for title, n in titles.items() if title in table.index and n in infinite}
    if titles:
        names = [*titles.values()]
        found = profile_likelihood(model, data.X, data.y, names).intervals.loc[names]
        found = found[["lower", "upper"]].to_numpy(copy=True)
        found[np.isinf(found).all(axis=1)] = np.nan  # nobody tells these rates
        with np.errstate(over="ignore"):
            table.loc[[*titles], ["lower", "upper"]] = np.exp(found)
    return table


def _read_checks(table):
    """Tests of assumptions: rates before exposures and at the end, and stability in time."""
    table = table.assign(nearest=np.maximum(table["lower"], 1.0 / table["upper"]).clip(lower=1.0))
    before = table[table.index.str.startswith("event-dependent exposure")]
    before = before.sort_values("nearest", ascending=False).iloc[0]
    end, found = table.loc["event-dependent observation"], {}
    for name, line in (("exposure", before), ("observation", end)):
        found |= {f"event_{name}_lb": line["lower"], f"event_{name}_ub": line["upper"]}
    found |= {"before_exposure": before["nearest"], "end_of_observation": end["nearest"]}
    return found | {"time_stability_p": table.loc["stability in time", "p_value"]}


def _describe_attrition(data, person):
    """Steps with persons, of whom some have several periods of observation."""
    of_step = {"outcome in observation": data.days.label, "covariates vary": data.y["subject"]}
    table, n_persons, found = data.attrition.reset_index(), person.nunique(), []
    table.columns = ["description", "outcome_observation_periods", *COUNTS[1:4:2]]
    for step, n_periods in zip(table.iloc[:, 0], table.iloc[:, 1], strict=True):
        if step in of_step:
            n_persons = person.loc[np.unique(of_step[step])].nunique()
        found.append(min(n_persons, n_periods))
    return table.assign(outcome_subjects=found)


def _describe_knots(data, coef):
    """Knots of splines with their ratios; that of season which is left out is 1."""
    found = [DataFrame({"spline_type": [], "knot_month": [], "rr": []})]
    for variable, knots in data.knots.items():
        values = coef[coef.index.str.startswith(f"{variable} spline ")].to_numpy()
        if variable == "season":  # whose last knot is the first one
            knots, values = knots[:-1], [0.0, *values]
        table = {"knot_month": knots / MONTH if variable == "age" else knots, "rr": np.exp(values)}
        name = "calendar time" if variable == "calendar" else variable
        found.append(DataFrame(table).assign(spline_type=name))
    return concat(found[1:] or found, ignore_index=True)


def _describe_months(months):
    date, observed = months.index, months["observed"]
    ratios = {"ratio": months["constant"], "adjusted_ratio": months["expected"]}
    ratios = {name: (observed / e.where(e > 0)).fillna(0.0) for name, e in ratios.items()}
    table = months.assign(calendar_year=date.year, calendar_month=date.month, **ratios)
    return table.assign(observed_subjects=months["subjects"].round()).reset_index(drop=True)


def _describe_weeks(days, eras):
    """Cases and outcomes in the weeks around the first exposure in observation."""
    unit, begin = Index(days.label).get_indexer(eras["id"]), _days_of(eras["start"])
    is_in = (unit >= 0) & (begin >= days.start[unit]) & (begin < days.end[unit])
    first = Series(begin[is_in]).groupby(unit[is_in]).min()
    since, until = (ends[first.index] - first.to_numpy() for ends in (days.start, days.end))
    day, begins = days.day - first.reindex(days.unit).to_numpy(), 7 * WEEKS[:, None]
    observed = ((until >= begins) & (since < begins + 7)).sum(axis=1)
    events = ((day >= begins) & (day < begins + 7)).sum(axis=1)
    table = DataFrame({"week": WEEKS, "observed_subjects": observed, "outcomes": events})
    return table[table["observed_subjects"] > 0]


def _days_of(dates):
    return dates.to_numpy().astype("datetime64[D]").astype(np.int64)


def _describe_spans(days, periods):
    """Cases observed in a month of age, or of the calendar, the one before and the one after."""
    born, found = _days_of(periods.set_index("id")["birth"].loc[days.label]), {}
    ages = [(end - born) // MONTH for end in days[:2]]
    months = [end.astype("datetime64[D]").astype("datetime64[M]").astype(int) for end in days[:2]]
    for name, (first, last) in (("age", ages), ("calendar_time", months)):
        inside = [np.arange(*ends) for ends in zip(first + 1, last, strict=True)]
        month, n = np.unique(np.concatenate(inside).astype(int), return_counts=True)
        table = {"age_month": month, "calendar_year": 1970 + month // 12}
        table |= {"calendar_month": month % 12 + 1, "cover_before_after_subjects": n}
        found[f"{name}_spanning"] = DataFrame(table)
    return found
