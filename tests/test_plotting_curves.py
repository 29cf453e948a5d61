"""Figures of curves over time: survival, cumulative incidence, and what was observed."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sksurv.functions import StepFunction

from sksurvgpu import (
    CoxLassoCCD,
    CumulativeIncidenceDisplay,
    FineGrayCCD,
    LinearCCD,
    SurvivalDisplay,
    surv,
)
from sksurvgpu.datasets import simulate_cox, simulate_fine_gray
from sksurvgpu.nonparametric import aalen_johansen, kaplan_meier

pyplot = pytest.importorskip("matplotlib.pyplot")
pytestmark = pytest.mark.usefixtures("layout_if_asked")


@pytest.fixture(scope="module")
def data():
    return simulate_cox(120, 5, density=0.4, random_state=0)


@pytest.fixture(scope="module")
def model(data):
    return CoxLassoCCD(alpha=0.01).fit(data.X, data.y)


def product_limit(event, time, start, at):
    """Kaplan-Meier estimate at one time, from its definition."""
    survival = 1.0
    for t in np.unique(time[event & (time <= at)]):
        at_risk = ((start < t) & (time >= t)).sum()
        survival *= 1 - (event & (time == t)).sum() / at_risk
    return survival


def value_at(line, time):
    """Value of a drawn step curve."""
    x, y = line.get_data()
    assert line.get_drawstyle() == "steps-post"
    return y[np.searchsorted(x, time, side="right") - 1]


def legend(display):
    return [text.get_text() for text in display.legend_.get_texts()]


def test_survival_of_rows(data, model):
    display = SurvivalDisplay.from_estimator(model, data.X[:3])
    functions = model.predict_survival_function(data.X[:3])
    for line, function in zip(display.lines_, functions, strict=True):
        for time in np.linspace(0, function.domain[1], 17):
            assert value_at(line, time) == function(time)
    assert legend(display) == ["row 0", "row 1", "row 2"]
    assert display.ax_.get_ylim()[0] == 0.0 and display.ax_.get_xlim()[0] == 0.0
    assert not display.observed_ and not display.at_risk_


def test_steps_begin_at_time_zero_and_may_be_scaled():
    function = StepFunction(np.array([2.0, 3.0]), np.array([0.4, 0.2]), a=2.0, b=0.1)
    display = SurvivalDisplay.from_functions([function], labels=["a"])
    np.testing.assert_allclose(display.lines_[0].get_xydata(), [[0, 1], [2, 0.9], [3, 0.5]])
    display = CumulativeIncidenceDisplay.from_functions(function, labels="b")
    np.testing.assert_allclose(display.lines_[0].get_xydata(), [[0, 0], [2, 0.9], [3, 0.5]])


def test_rows_of_a_frame_have_names(data):
    frame = pd.DataFrame(data.X.toarray(), columns=list("abcde"))
    model = CoxLassoCCD(alpha=0.01).fit(frame, data.y)
    few = frame.iloc[:2].set_axis(["smith", "jones"])
    assert legend(SurvivalDisplay.from_estimator(model, few)) == ["smith", "jones"]
    named = SurvivalDisplay.from_estimator(model, few, labels=["one", "two"])
    assert legend(named) == ["one", "two"]


def test_strata_are_passed_on():
    data = simulate_cox(200, 5, density=0.4, n_strata=2, random_state=0)
    model = CoxLassoCCD(alpha=0.01).fit(data.X, data.y, strata=data.strata)
    strata = data.strata[:4]
    display = SurvivalDisplay.from_estimator(model, data.X[:4], strata=strata)
    functions = model.predict_survival_function(data.X[:4], strata)
    for line, function in zip(display.lines_, functions, strict=True):
        assert line.get_ydata()[-1] == function.y[-1]


@pytest.mark.parametrize("entry", [False, True])
def test_kaplan_meier_and_numbers_at_risk(data, entry):
    rng = np.random.default_rng(0)
    event, time = data.y["event"], np.ceil(10 * data.y["time"] / data.y["time"].max())
    start = np.where(rng.random(120) < 0.4, 0.5 * time, 0.0) if entry else np.zeros(120)
    start = np.where(time == time.min(), 0.0, start)
    y = surv(event, time, start=start) if entry else surv(event, time)
    group = rng.choice(["treated", "control"], 120)
    display = SurvivalDisplay.from_estimator(
        CoxLassoCCD(alpha=0.01).fit(data.X, y),
        data.X[:2],
        labels=["treated", "other"],
        kaplan_meier=y,
        groups=group,
        at_risk=True,
    )
    assert set(display.observed_) == {"treated", "control"}
    for key, line in display.observed_.items():
        rows = group == key
        for at in range(11):
            expected = product_limit(event[rows], time[rows], start[rows], at)
            assert value_at(line, at) == pytest.approx(expected)
        counts = []
        for at in display.at_risk_times_:
            there = (start[rows] < at) | (start[rows] == 0)
            counts.append((there & (time[rows] >= at)).sum())
        assert display.at_risk_[key] == counts
        assert f"{counts[0]:,}" in [text.get_text() for text in display.ax_.texts]
    assert display.at_risk_times_[0] == 0.0 and len(display.at_risk_times_) > 3
    assert set(display.at_risk_times_[1:]) <= set(time)  # who leaves then is still counted
    # a group that is called as a row has its colour
    assert display.observed_["treated"].get_color() == display.lines_[0].get_color()
    others = {line.get_color() for line in display.lines_}
    assert display.observed_["control"].get_color() not in others
    expected = ["treated", "other", "control (Kaplan-Meier)", "Kaplan-Meier", "censored"]
    assert legend(display) == expected


def test_one_group(model, data):
    display = SurvivalDisplay.from_estimator(model, data.X[:1], kaplan_meier=data.y, at_risk=True)
    assert display.at_risk_["all"][0] == 120
    assert legend(display) == ["row 0", "Kaplan-Meier", "censored"]
    assert display.test_ is None
    assert "all" not in [text.get_text() for text in display.ax_.texts]


def test_longer_follow_up_is_shown(model, data):
    longer = surv(data.y["event"], 3 * data.y["time"])
    display = SurvivalDisplay.from_estimator(model, data.X[:1], kaplan_meier=longer)
    assert display.ax_.get_xlim()[1] > 3 * data.y["time"].max()


@pytest.mark.layout
def test_numbers_at_risk_have_room_below_the_axis(model, data):
    with pyplot.rc_context({"figure.figsize": (3.5, 2.8)}):
        display = SurvivalDisplay.from_estimator(
            model, data.X[:2], kaplan_meier=data.y[np.arange(20_000) % 120], at_risk=True
        )
    display.figure_.draw_without_rendering()
    below = display.ax_.xaxis.get_tightbbox().y0
    boxes = [text.get_window_extent() for text in display.ax_.texts]
    assert all(display.figure_.bbox.y0 <= box.y0 and box.y1 <= below + 1 for box in boxes)
    assert not any(one.overlaps(other) for i, one in enumerate(boxes) for other in boxes[:i])


@pytest.mark.layout
def test_many_curves_are_named_beside_the_axes(model, data):
    with pyplot.rc_context({"figure.figsize": (3.5, 2.8)}):
        display = SurvivalDisplay.from_estimator(model, data.X[:20])
    display.figure_.draw_without_rendering()
    assert display.legend_.get_window_extent().x0 >= display.ax_.bbox.x1
    styles = {(line.get_color(), line.get_linestyle()) for line in display.lines_}
    assert len(legend(display)) == len(styles) == 20


def test_incidence_of_rows():
    data = simulate_fine_gray(200, 5, density=0.4, random_state=0)
    model = FineGrayCCD(alpha=0.01).fit(data.X, data.y)
    display = CumulativeIncidenceDisplay.from_estimator(model, data.X[:2])
    functions = model.predict_cumulative_incidence_function(data.X[:2])
    for line, function in zip(display.lines_, functions, strict=True):
        for time in np.linspace(0, function.domain[1], 17):
            assert value_at(line, time) == function(time)
    assert display.ax_.get_ylabel() == "cumulative incidence"
    assert legend(display) == ["row 0", "row 1"]


def test_curves_refuse(model, data):
    with pytest.raises(ValueError, match=r"120 rows, .* at most 20; pass a few .* X\[:5\]"):
        SurvivalDisplay.from_estimator(model, data.X)
    with pytest.raises(TypeError, match="LinearCCD, which has no `predict_survival_function`"):
        SurvivalDisplay.from_estimator(LinearCCD(), data.X[:2])
    with pytest.raises(TypeError, match="has no `predict_cumulative_incidence_function`"):
        CumulativeIncidenceDisplay.from_estimator(model, data.X[:2])
    with pytest.raises(ValueError, match=r"1 entries for 2 curve\(s\)"):
        SurvivalDisplay.from_estimator(model, data.X[:2], labels=["a"])
    functions = model.predict_survival_function(data.X[:21])
    with pytest.raises(ValueError, match="21 curves, a figure shows at most 20"):
        SurvivalDisplay.from_functions(functions)
    with pytest.raises(ValueError, match="there is no curve"):
        CumulativeIncidenceDisplay.from_functions([])
    with pytest.raises(ValueError, match="`at_risk` needs an outcome"):
        SurvivalDisplay.from_functions(functions[:2], at_risk=True)
    with pytest.raises(ValueError, match="`groups` needs an outcome"):
        SurvivalDisplay.from_functions(functions[:2], groups=[1, 2])
    with pytest.raises(ValueError, match="`groups` has 2 entries"):
        SurvivalDisplay.from_functions(functions[:2], kaplan_meier=data.y, groups=[1, 2])
    assert not pyplot.get_fignums()


def test_kaplan_meier_without_events_is_flat_and_groups_are_few():
    curve = StepFunction(np.array([1.0, 2.0]), np.array([0.9, 0.5]))
    y = surv([False] * 30, np.arange(30) + 1.0)
    display = SurvivalDisplay.from_functions([curve], kaplan_meier=y)
    assert set(display.observed_["all"].get_ydata()) == {1.0}
    with pytest.raises(ValueError, match=r"`groups` has 30 groups, a figure shows .* at most 20"):
        SurvivalDisplay.from_functions([curve], kaplan_meier=y, groups=np.arange(30))
    with pytest.raises(TypeError, match="`kaplan_meier` is of type list"):
        SurvivalDisplay.from_functions([curve], kaplan_meier=[1, 2])


LEVELS = ["low", "medium", "high", "never seen"]
SEEN = np.array(["high", "low", "medium"] * 4)


@pytest.mark.parametrize(
    ("groups", "expected"),
    [
        (pd.Categorical(SEEN, LEVELS, ordered=True), LEVELS[:3]),
        (pd.Series(pd.Categorical(SEEN, LEVELS)), LEVELS[:3]),
        (pl.Series(SEEN, dtype=pl.Enum(LEVELS)), LEVELS[:3]),
        (pd.Categorical([30, 10, 20] * 4, [20, 30, 10]), ["20", "30", "10"]),
        (np.array([10, 9, 30] * 4), ["9", "10", "30"]),
        (pd.Series([True, False] * 6), ["False", "True"]),
        (SEEN, ["high", "low", "medium"]),
        (pl.Series(SEEN), ["high", "low", "medium"]),
    ],
    ids=["ordered", "pandas", "polars", "of numbers", "numbers", "flags", "strings", "text"],
)
def test_groups_come_in_their_order(groups, expected):
    curve = StepFunction(np.array([1.0, 2.0]), np.array([0.9, 0.5]))
    y = surv(np.ones(12, bool), np.arange(12) + 1.0)
    display = SurvivalDisplay.from_functions([curve], kaplan_meier=y, groups=groups, at_risk=True)
    assert list(display.observed_) == list(display.at_risk_) == expected
    assert legend(display)[1:] == [f"{key} (Kaplan-Meier)" for key in expected]


def area_at(area, time):
    """Lower and upper end of a drawn area of steps."""
    vertices = area.get_paths()[0].vertices
    inside = vertices[np.abs(vertices[:, 0] - time) == np.abs(vertices[:, 0] - time).min(), 1]
    return inside.min(), inside.max()


def test_curves_of_a_result(data):
    groups = np.where(data.X[:, [0]].toarray().ravel() > 0, "new", "old")
    result = kaplan_meier(data.y, groups=groups, interval="log-log", band="hall-wellner")
    display = SurvivalDisplay.from_result(result, at_risk=True)
    assert legend(display) == [*result.groups, "censored", "95 % interval"]
    assert not display.observed_
    for line, area, label in zip(display.lines_, display.areas_, result.groups, strict=True):
        own = result.table[(result.table["group"] == label) & result.table["lower"].notna()]
        for _, row in own.iloc[3:20].iterrows():
            assert value_at(line, row["time"]) == row["survival"]
            lower, upper = area_at(area, row["time"])
            assert lower <= row["lower"] + 1e-9 and upper >= row["upper"] - 1e-9
        expected = result.at(display.at_risk_times_)["n_at_risk"].loc[label]
        assert display.at_risk_[label] == expected.tolist()
        assert area.get_facecolor()[0][:3] == pytest.approx(
            pyplot.matplotlib.colors.to_rgb(line.get_color())
        )
    assert sum(counts[0] for counts in display.at_risk_.values()) == len(data.y)
    wide = SurvivalDisplay.from_result(result, limits="band", labels=["a", "b"])
    assert legend(wide) == ["a", "b", "censored", "95 % band"] and len(wide.areas_) == 2
    assert not SurvivalDisplay.from_result(result, limits=None).areas_


def test_incidences_of_a_result():
    data = simulate_fine_gray(150, 5, density=0.4, random_state=0)
    result = aalen_johansen(data.y, groups=np.arange(150) % 2)
    display = CumulativeIncidenceDisplay.from_result(result, at_risk=True)
    curves = ["0, event 1", "0, event 2", "1, event 1", "1, event 2"]
    assert legend(display) == [*curves, "95 % interval"]
    assert display.at_risk_["0"][0] == 75 and len(display.areas_) == 4
    for line, (key, function) in zip(display.lines_, result.functions.items(), strict=True):
        assert value_at(line, 0.3) == function(0.3), key
    one = CumulativeIncidenceDisplay.from_result(result, events=1, limits=None)
    assert legend(one) == ["0", "1"] and not one.areas_
    single = CumulativeIncidenceDisplay.from_result(aalen_johansen(data.y))
    assert legend(single) == ["event 1", "event 2", "95 % interval"]


def test_one_minus_survival_in_colours_of_the_user(data):
    result = kaplan_meier(data.y, groups=np.arange(120) % 2)
    usual = SurvivalDisplay.from_result(result, medians=True)
    options = {"colors": ["black", "crimson"], "legend_title": "arm", "medians": True}
    display = SurvivalDisplay.from_result(result, complement=True, **options)
    for line, other, colour in zip(display.lines_, usual.lines_, ["black", "crimson"], strict=True):
        np.testing.assert_allclose(line.get_ydata(), 1.0 - np.asarray(other.get_ydata()))
        assert line.get_color() == colour
    for area, other in zip(display.areas_, usual.areas_, strict=True):
        lower, upper = area_at(area, 5.0)
        np.testing.assert_allclose([1 - upper, 1 - lower], area_at(other, 5.0), atol=1e-12)
    assert display.legend_.get_title().get_text() == "arm"
    assert display.ax_.get_ylim()[0] == 0.0 and display.ax_.get_ylabel() == "1 − survival"
    with pytest.raises(ValueError, match="`colors` has 'blu', which is no colour"):
        SurvivalDisplay.from_result(result, colors=["black", "blu"])
    with pytest.raises(ValueError, match="`colors` is empty"):
        SurvivalDisplay.from_result(result, colors=[])


@pytest.mark.thorough
@pytest.mark.layout
@pytest.mark.parametrize(
    "shape",
    [(1, 1), (1, 2), pytest.param((2, 2), marks=pytest.mark.thorough)],
)
def test_nothing_is_cut_off_in_plain_subplots(data, shape):
    result = kaplan_meier(data.y, groups=np.where(np.arange(120) % 2, "hormone therapy", "none"))
    figure, axes = pyplot.subplots(*shape)
    for ax in np.ravel(axes):
        SurvivalDisplay.from_result(result, at_risk=True, ax=ax)
    figure.draw_without_rendering()
    for ax in np.ravel(axes):
        box = ax.get_tightbbox()
        assert box.x0 >= 0 and box.y0 >= 0 and box.x1 <= figure.bbox.x1
        assert not any(box.overlaps(other.bbox) for other in np.ravel(axes) if other is not ax)
    assert figure.get_layout_engine() is None


@pytest.mark.layout
def test_figures_that_have_room_or_a_layout_stay(data):
    result = kaplan_meier(data.y)
    figure, ax = pyplot.subplots()
    before = ax.get_position().bounds
    SurvivalDisplay.from_result(result, ax=ax)
    assert ax.get_position().bounds == before
    figure, ax = pyplot.subplots(layout="tight")
    engine = figure.get_layout_engine()
    SurvivalDisplay.from_result(result, ax=ax, at_risk=True)
    assert figure.get_layout_engine() is engine


@pytest.mark.layout
def test_large_counts_do_not_touch_the_names_of_groups(data):
    y = np.repeat(data.y, 200)
    result = kaplan_meier(y, groups=np.arange(len(y)) % 2)
    display = SurvivalDisplay.from_result(result, at_risk=True)
    display.figure_.draw_without_rendering()
    boxes = {text.get_text(): text.get_window_extent() for text in display.ax_.texts}
    names = [text for text in display.ax_.texts if text.get_text() in ("0", "1")]
    names = [text for text in names if text.get_ha() == "right"]
    counts = boxes["12,000"]
    assert len(names) == 2
    assert all(name.get_window_extent().x1 < counts.x0 - 1.0 for name in names)


def test_areas_of_any_functions():
    step = StepFunction(np.array([0.0, 1.0, 2.0]), np.array([1.0, 0.8, 0.5]))
    area = ([0.0, 1.0, 2.0], [1.0, 0.7, 0.3], [1.0, 0.9, 0.7])
    display = SurvivalDisplay([step, step], areas=[area, None]).plot()
    assert len(display.areas_) == 1 and area_at(display.areas_[0], 2.0) == (0.3, 0.9)


def test_curves_that_no_display_draws(data):
    survival = kaplan_meier(data.y)
    risks = aalen_johansen(simulate_fine_gray(150, 5, density=0.4, random_state=0).y)
    with pytest.raises(
        TypeError, match=r"pass what sksurvgpu\.nonparametric\.kaplan_meier returns"
    ):
        SurvivalDisplay.from_result(risks)
    with pytest.raises(TypeError, match=r"nonparametric\.aalen_johansen returns"):
        CumulativeIncidenceDisplay.from_result(survival)
    with pytest.raises(ValueError, match="`limits` is 'band', but the curves have none"):
        SurvivalDisplay.from_result(survival, limits="band")
    with pytest.raises(ValueError, match="`limits` is 'both'"):
        SurvivalDisplay.from_result(survival, limits="both")
    with pytest.raises(ValueError, match=r"`events` is \[3\]; the curves are of \[1, 2\]"):
        CumulativeIncidenceDisplay.from_result(risks, events=3)
    with pytest.raises(ValueError, match="`at_risk` needs an outcome: pass it as `aalen_johansen`"):
        CumulativeIncidenceDisplay(risks.functions.values()).plot(at_risk=True)
    with pytest.raises(ValueError, match="those of a result"):
        SurvivalDisplay.from_result(survival).plot(kaplan_meier=data.y)


def test_labels_and_events_come_in_the_order_of_the_events():
    data = simulate_fine_gray(200, 2, density=0.5, random_state=0)
    curves = aalen_johansen(data.y)
    display = CumulativeIncidenceDisplay.from_result(curves, events=[2, 1], labels=["two", "one"])
    for line, event in zip(display.lines_, (2, 1), strict=True):
        assert line.get_label() == {1: "one", 2: "two"}[event]
        assert line.get_ydata()[-1] == curves.functions["all", event].y[-1]


def test_test_of_a_result_is_that_of_counts(data):
    group, count = data.X[:, [0]].toarray().ravel(), np.arange(120) % 3
    curves = kaplan_meier(data.y, groups=group, sample_weight=count)
    assert SurvivalDisplay.from_result(curves).test_ is not None
    for weight in (count + 0.5, count / 7.0):
        curves = kaplan_meier(data.y, groups=group, sample_weight=weight, robust=False)
        assert SurvivalDisplay.from_result(curves).test_ is None


def test_numbers_at_risk_of_small_weights_are_not_zero(data):
    curves = kaplan_meier(data.y, sample_weight=np.full(120, 1 / 120.0))
    display = SurvivalDisplay.from_result(curves, at_risk=True)
    numbers = display.at_risk_["all"]
    assert numbers[0] == 1.0 and 0 < numbers[1] < 1
    curves = kaplan_meier(data.y, sample_weight=np.full(120, 2.51))
    assert SurvivalDisplay.from_result(curves, at_risk=True).at_risk_["all"][0] == 301


@pytest.mark.filterwarnings("ignore:Attempting to set identical")
def test_times_that_are_all_zero_are_at_risk_once():
    curves = kaplan_meier(surv([True, False, True], np.zeros(3)))
    assert SurvivalDisplay.from_result(curves, at_risk=True).at_risk_times_[0] == 0.0


def test_event_of_observed_curves_is_that_of_the_model_unless_given():
    data = simulate_fine_gray(200, 2, density=0.5, random_state=0)
    model, curves = FineGrayCCD(event_of_interest=2).fit(data.X, data.y), aalen_johansen(data.y)
    for options, event in (({}, 2), ({"event_of_interest": 1}, 1)):
        display = CumulativeIncidenceDisplay.from_estimator(
            model, data.X[:1], aalen_johansen=data.y, **options
        )
        assert display.observed_["all"].get_ydata()[-1] == curves.functions["all", event].y[-1]
