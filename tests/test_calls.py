"""Calls as the release before had them, and calls that other packages have."""

import importlib
import warnings
from inspect import getattr_static, isclass, isfunction, signature
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import sksurvgpu
from sksurvgpu import (
    BalanceDisplay,
    LogisticCCD,
    competing_risks,
    false_discovery,
    surv,
    to_json,
    to_sklearn,
    warm_up,
)
from sksurvgpu.cohort import incidence_rate, time_at_risk
from sksurvgpu.metrics import auc, brier_score, calibration, concordance, concordance_competing
from sksurvgpu.nonparametric import aalen_johansen, kaplan_meier, log_rank, restricted_mean

EVENT, TIME = np.array([1, 0, 1, 1, 0]), np.array([2.0, 3.0, 3.0, 5.0, 6.0])
RISK = np.array([0.5, 0.4, 0.3, 0.2, 0.1])
Y, SEVERAL = surv(EVENT, TIME), competing_risks(EVENT, TIME)

PERSONS = pd.DataFrame(
    {
        "id": [1, 2, 3],
        "treatment": [1, 0, 1],
        "who": ["a", "a", "b"],
        "first": 10,
        "index_date": 20,
        "observation_start": 0,
        "observation_end": 50,
    }
)
STROKES = pd.DataFrame({"id": [1, 2], "who": ["a", "b"], "date": [25, 30], "found": [40, 30]})
DIFFERENCES = SimpleNamespace(
    table=pd.DataFrame({"std_diff_before": [0.1, 0.3, 0.2]}, index=["x0", "x1", "x2"])
)


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 3))
    y = X[:, 0] > rng.normal(size=80)
    return LogisticCCD(alpha=0.05).fit(X, y), X, y


def follow(**names):
    return time_at_risk(PERSONS, STROKES, **names).table[["event", "time"]].to_numpy().tolist()


def labels(display):
    return [label.get_text() for label in display.ax_.get_yticklabels()]


# Name -> (call with arguments, its old name, its new one, what is passed).
RENAMED = {
    "calibration": (
        lambda **a: calibration(Y, RISK, n_groups=1, **a).observed,
        "time",
        "horizon",
        4,
    ),
    "time_at_risk, date of index": (follow, "index", "index_date", "first"),
    "time_at_risk, day of events": (follow, "date", "day", "found"),
    "time_at_risk, persons": (follow, "person", "subject", "who"),
    "from_result": (
        lambda **a: labels(BalanceDisplay.from_result(DIFFERENCES, **a)),
        "n",
        "n_top",
        2,
    ),
    "plot": (lambda **a: labels(BalanceDisplay(DIFFERENCES).plot(**a)), "n", "n_top", 2),
}


def both_names(call, old, new, value):
    expected = call(**{new: value})
    with pytest.warns(FutureWarning, match=rf"^`{old}` of \w+ is now `{new}`") as caught:
        result = call(**{old: value})
    assert {warning.filename for warning in caught} == {__file__}
    with pytest.raises(TypeError, match=rf"got `{new}` and `{old}`, which is its old name"):
        call(**{new: value, old: value})
    return result, expected


@pytest.mark.parametrize("case", RENAMED)
def test_old_names_of_arguments_warn_and_do_the_same(case):
    call, old, new, value = RENAMED[case]
    result, expected = both_names(call, old, new, value)
    assert result == expected
    if case != "plot":  # the value matters
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert case == "calibration" or call() != expected


def test_old_names_of_fitted_estimators(fitted):
    model, X, y = fitted
    for call, old in [
        (to_json, "model"),
        (lambda **given: to_sklearn(**given).coef_.tolist(), "model"),
        (lambda **given: false_discovery(X=X, y=y, **given).to_dict(), "fitted"),
    ]:
        result, expected = both_names(call, old, "estimator", model)
        assert result == expected
    with (
        pytest.warns(FutureWarning, match="`models` of warm_up is now `estimators`"),
        pytest.raises(ValueError, match="`estimators` has 1"),
    ):
        warm_up(models=[1])


def test_names_of_positional_arguments_do_not_matter():
    assert calibration(Y, RISK, 4, n_groups=1).observed == pytest.approx(1 - 4 / 5 * 3 / 4)


def test_old_names_of_attributes_warn():
    result = calibration(Y, RISK, 4.0, n_groups=1)
    with pytest.warns(FutureWarning, match=r"`Calibration\.time` is now `horizon`"):
        assert result.time == result.horizon == 4.0
    test = log_rank(Y, ["a", "a", "b", "b", "b"])
    with pytest.warns(FutureWarning, match=r"`LogRank\.chi_square` is now `statistic`"):
        assert test.chi_square == test.statistic > 0.0


ARRAYS = {
    "positions": lambda metric, *rows, **given: metric(*rows, **given),
    "names": lambda metric, event, time, risk, **given: metric(
        event=event, time=time, risk=risk, **given
    ),
    "both": lambda metric, event, time, risk, **given: metric(event, time, risk=risk, **given),
}


@pytest.mark.parametrize("form", ARRAYS)
@pytest.mark.parametrize(
    ("metric", "y", "old", "new"),
    [
        (concordance, Y, {}, {}),
        (concordance, surv(EVENT, TIME, start=TIME - 2), {"start": TIME - 2}, {}),
        (concordance, Y, {"strata": [0, 0, 1, 1, 1]}, {"strata": [0, 0, 1, 1, 1]}),
        (concordance_competing, SEVERAL, {}, {}),
        (concordance_competing, SEVERAL, {"tau": 3}, {"horizon": 3}),
    ],
)
def test_events_and_times_by_themselves_warn_and_do_the_same(metric, y, old, new, form):
    risk = [0.5, 0.1, 0.3, 0.4, 0.2]
    with pytest.warns(FutureWarning, match=rf"call {metric.__name__}\(y, risk") as caught:
        result = ARRAYS[form](metric, EVENT, TIME, risk, **old)
    assert caught[0].filename == __file__ and len(caught) == 1
    assert result == metric(y, risk, **new)


TABLE = pd.DataFrame({4.0: RISK}).rename_axis(columns="time")
# What is called -> the remedy.
CALLS = {
    "two arrays": (lambda: kaplan_meier(EVENT, TIME), r"call kaplan_meier\(surv\(event, time\)"),
    "named arrays": (lambda: kaplan_meier(event=EVENT, time=TIME), r"call kaplan_meier\(surv\("),
    "arrays and groups": (
        lambda: kaplan_meier(TIME, EVENT, groups=EVENT),
        r"call kaplan_meier\(surv\(event, time\), groups=...\)",
    ),
    "times alone": (lambda: kaplan_meier(TIME), r"build it with sksurvgpu.surv\(event, time\)"),
    "several kinds": (
        lambda: aalen_johansen(EVENT, TIME),
        r"call aalen_johansen\(competing_risks\(event, time\)",
    ),
    "test of arrays": (
        lambda: log_rank(EVENT, TIME, EVENT),
        r"call log_rank\(surv\(event, time\), groups\)",
    ),
    "test of groups by name": (lambda: log_rank(EVENT, TIME, groups=EVENT), r"log_rank\(surv\("),
    "test of arrays without groups": (lambda: log_rank(EVENT, TIME), r"sksurvgpu.surv\(event, ti"),
    "means": (lambda: restricted_mean(EVENT, TIME, 4), r"call restricted_mean\(surv\(event, time"),
    "means by a name": (lambda: restricted_mean(EVENT, TIME, horizon=4), r"\(surv\(event, time"),
    "means of arrays": (lambda: restricted_mean(EVENT, TIME), r"sksurvgpu.surv\(event, time\)"),
    "rates": (lambda: incidence_rate(Y), r"call incidence_rate\(y\['event'\], y\['time'\]"),
    "calibration of arrays": (
        lambda: calibration(EVENT, TIME, RISK, 4),
        r"call calibration\(y, risk, horizon\), with y = surv\(event, time\)",
    ),
    "concordance of arrays": (lambda: concordance(EVENT, TIME), r"sksurvgpu.surv\(event, time\)"),
    "one outcome": (lambda: auc(Y, RISK), r"call auc\(y_train, y_test, risk, times\)"),
    "one outcome with times": (lambda: brier_score(Y, RISK, 4), "pass it twice"),
    "one outcome and a table": (lambda: auc(Y, TABLE, 4), "pass it twice"),
    "survival in R's order": (
        lambda: surv(TIME - 1, TIME, EVENT),
        r"call surv\(event, time, start",
    ),
    "entry of lifelines": (lambda: surv(EVENT, TIME, entry=TIME - 1), r"'entry'; call surv\(event"),
    "a slip": (lambda: kaplan_meier(Y, group=EVENT), r"'group'; call kaplan_meier\(surv"),
}


@pytest.mark.parametrize("case", CALLS)
def test_calls_of_other_kinds_tell_the_right_one(case):
    call, remedy = CALLS[case]
    with pytest.raises(TypeError, match=remedy):
        call()


def public_functions():
    """Functions and methods of the package that users call, by name."""
    modules = ["", "cohort", "datasets", "federated", "metrics", "nonparametric"]
    for name in modules:
        module = importlib.import_module(f"sksurvgpu.{name}".rstrip("."))
        for item in (getattr(module, public) for public in module.__all__):
            if isfunction(item):
                yield item.__qualname__, item
            elif isclass(item) and not issubclass(item, Exception):
                own = {n: getattr_static(item, n) for n in dir(item) if not n.startswith("_")}
                own = {n: getattr(method, "__func__", method) for n, method in own.items()}
                yield item.__qualname__, item
                yield from ((m.__qualname__, m) for m in own.values() if isfunction(m))


# docs/developers.rst has the words to take in their place.
SYNONYMS = {"tau", "fitted", "model", "models", "person", "persons", "date", "conf_level", "seed"}


def test_one_thing_has_one_name():
    found = {name: SYNONYMS & {*signature(item).parameters} for name, item in public_functions()}
    assert len(found) > 300
    # a table of all, beside those of records and outcomes, and of variants; the name of a kind
    assert {name: words for name, words in found.items() if words} == {
        "SimulatedClaims": {"persons"},
        "Genotypes": {"persons"},
        "expected_time": {"model"},
    }
    assert "horizon" in signature(sksurvgpu.metrics.calibration).parameters
