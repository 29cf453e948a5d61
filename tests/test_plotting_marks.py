"""What is drawn on and beside curves: ticks, medians, tests, colours, stacks, histograms."""

import numpy as np
import pandas as pd
import pytest
from results import profile_result
from sksurv.functions import StepFunction

from sksurvgpu import (
    CalibrationDisplay,
    CoxLassoCCD,
    CumulativeIncidenceDisplay,
    EmpiricalNullDisplay,
    FineGrayCCD,
    ProfileDisplay,
    PropensityDisplay,
    StackedIncidenceDisplay,
    SurvivalDisplay,
    competing_risks,
    surv,
)
from sksurvgpu.metrics import calibration
from sksurvgpu.nonparametric import aalen_johansen, kaplan_meier, log_rank

pyplot = pytest.importorskip("matplotlib.pyplot")
from matplotlib.colors import to_rgb  # noqa: E402

pytestmark = pytest.mark.usefixtures("layout_if_asked")

RNG = np.random.default_rng(0)
TIME = RNG.permutation(np.linspace(1.0, 60.0, 90))  # no two alike
EVENT = RNG.random(90) < 0.6
GROUP = np.array(["old", "new"])[(TIME + 250 * RNG.random(90) > 155).astype(int)]
KIND = np.where(EVENT, RNG.integers(1, 3, 90), 0)
Y, RISKS = surv(EVENT, TIME), competing_risks(KIND, TIME)
FAR = np.array([0.0, 10.0]), np.array([1.0, 0.5])


def p_of(display):
    return display.test_.get_text()


def said(p):
    """A p-value as it is written, from its definition."""
    return "p < 0.001" if p < 0.001 else f"p = {p:.2f}" if p >= 0.1 else f"p = {p:.2g}"


@pytest.mark.parametrize("beside_model", [False, True])
def test_every_censored_row_has_a_tick_on_its_curve(beside_model):
    if beside_model:
        display = SurvivalDisplay([StepFunction(*FAR)]).plot(kaplan_meier=Y, groups=GROUP)
        curves = display.observed_
    else:
        display = SurvivalDisplay.from_result(kaplan_meier(Y, groups=GROUP))
        curves = {line.get_label(): line for line in display.lines_}
    assert set(display.censored_) == {"old", "new"}
    for key, ticks in display.censored_.items():
        expected = np.sort(TIME[(key == GROUP) & ~EVENT])
        time, height = ticks.get_data()
        np.testing.assert_array_equal(time, expected)
        x, y = curves[key].get_data()
        np.testing.assert_array_equal(height, y[np.searchsorted(x, time, side="right") - 1])
        assert ticks.get_color() == curves[key].get_color()
        assert ticks.get_linestyle() == "None" and ticks.get_marker() == "|"
    assert "censored" in [text.get_text() for text in display.legend_.get_texts()]


@pytest.mark.layout
def test_ticks_can_be_left_out_and_ones_that_touch_are_drawn_once():
    without = SurvivalDisplay.from_result(kaplan_meier(Y), censor_marks=False)
    assert not without.censored_
    assert "censored" not in [text.get_text() for text in without.legend_.get_texts()]
    assert not SurvivalDisplay.from_result(kaplan_meier(surv(np.ones(9, bool), TIME[:9]))).censored_
    n = 20_000
    many = kaplan_meier(surv(np.arange(n) % 2 == 0, 1.0 + np.arange(n)))
    display = SurvivalDisplay.from_result(many)
    [ticks] = display.censored_.values()
    width = display.ax_.get_window_extent().width * 72 / display.figure_.dpi
    assert width / 3 < len(ticks.get_xdata()) <= width / 1.5 + 1


def test_a_subject_that_goes_on_has_no_tick():
    y = surv([False, True, False], [3.0, 8.0, 5.0], start=[0.0, 3.0, 0.0], subject=["a", "a", "b"])
    display = SurvivalDisplay([StepFunction(*FAR)]).plot(kaplan_meier=y)
    assert display.censored_["all"].get_xdata().tolist() == [5.0]


def test_lines_lead_to_the_medians_that_are_reached():
    group = np.array(["reached", "not"])[np.arange(40) % 2]
    y = surv((np.arange(40) % 2 == 0) | (np.arange(40) < 6), np.arange(40) + 1.0)
    result = kaplan_meier(y, groups=group)
    display = SurvivalDisplay.from_result(result, medians=True)
    assert list(display.medians_) == ["reached"]
    median = result.median.loc["reached", "quantile"]
    x, y = display.medians_["reached"].get_data()
    assert list(x) == [0.0, median, median] and list(y) == [0.5, 0.5, 0.0]
    assert display.medians_["reached"].get_color() == display.lines_[0].get_color()
    assert not SurvivalDisplay.from_result(result).medians_


@pytest.mark.parametrize("n_groups", [2, 3])
@pytest.mark.parametrize("weight", [None, "counts"])
def test_p_value_is_that_of_the_log_rank_test(n_groups, weight):
    group = np.arange(90) % n_groups
    weight = None if weight is None else 1.0 + np.arange(90) % 3
    expected = log_rank(Y, group, sample_weight=weight).p_value
    display = SurvivalDisplay.from_result(kaplan_meier(Y, groups=group, sample_weight=weight))
    assert p_of(display) == f"log-rank {said(expected)}"
    if weight is None:
        beside = SurvivalDisplay([StepFunction(*FAR)]).plot(kaplan_meier=Y, groups=group)
        assert p_of(beside) == f"log-rank {said(expected)}"


def test_p_values_of_all_sizes():
    group = np.where(TIME > 30, "late", "early")
    display = SurvivalDisplay.from_result(kaplan_meier(Y, groups=group))
    assert p_of(display) == "log-rank p < 0.001"
    for p in (0.73, 0.1234, 0.0321, 0.00456):
        chosen = log_rank(Y, GROUP)
        object.__setattr__(chosen, "p_value", p)
        display = SurvivalDisplay.from_result(kaplan_meier(Y, groups=GROUP), log_rank=chosen)
        assert p_of(display) == f"log-rank {said(p)}"


def test_strata_of_an_outcome_stratify_the_test():
    stratum = np.arange(90) % 5 // 2
    y = surv(EVENT, TIME, stratum=stratum)
    expected, plain = log_rank(y, GROUP).p_value, log_rank(Y, GROUP).p_value
    assert said(expected) != said(plain)
    beside = SurvivalDisplay([StepFunction(*FAR)]).plot(kaplan_meier=y, groups=GROUP)
    assert p_of(beside) == f"stratified log-rank {said(expected)}"
    # curves of a result do not know the strata, so no test is made up
    assert SurvivalDisplay.from_result(kaplan_meier(y, groups=GROUP)).test_ is None
    # where strata are the groups, they are compared
    assert p_of(SurvivalDisplay.from_result(kaplan_meier(y))) == (
        f"log-rank {said(log_rank(Y, stratum).p_value)}"
    )


def test_no_test_where_the_curves_do_not_have_it():
    late = surv(EVENT, TIME, start=np.where(np.arange(90) % 2, 0.0, 0.5))
    for result in (
        kaplan_meier(late, groups=GROUP),
        kaplan_meier(Y, groups=GROUP, sample_weight=0.5 + RNG.random(90)),
        kaplan_meier(Y),
        kaplan_meier(surv(np.zeros(90, bool), TIME), groups=GROUP),
    ):
        assert SurvivalDisplay.from_result(result).test_ is None
    beside = SurvivalDisplay([StepFunction(*FAR)]).plot(kaplan_meier=late, groups=GROUP)
    assert p_of(beside) == f"log-rank {said(log_rank(late, GROUP).p_value)}"
    assert SurvivalDisplay.from_result(kaplan_meier(Y, groups=GROUP), log_rank=False).test_ is None


def test_a_test_can_be_passed():
    weighted = log_rank(Y, GROUP, rho=1.0)
    display = SurvivalDisplay.from_result(kaplan_meier(Y, groups=GROUP), log_rank=weighted)
    assert p_of(display) == f"weighted log-rank {said(weighted.p_value)}"
    with pytest.raises(TypeError, match="`log_rank` is of type float; pass True, False, or what"):
        SurvivalDisplay.from_result(kaplan_meier(Y, groups=GROUP), log_rank=0.03)


RATES = {"high": (0.001, 0.003), "low": (0.3, 0.5), "everywhere": (0.003, 0.01, 0.03, 0.1, 1.0)}


@pytest.mark.layout
@pytest.mark.parametrize("at_risk", [False, True])
@pytest.mark.parametrize("rates", RATES)
@pytest.mark.parametrize("width", [3.5, 6.4])
def test_names_and_p_values_cover_nothing(rates, at_risk, width):
    """Neither each other nor a curve, on a figure or on a column of one."""
    grid = np.arange(60.0)
    functions = [StepFunction(grid, np.exp(-rate * grid)) for rate in RATES[rates]]
    with pyplot.rc_context({"figure.figsize": (width, 2.6)}):
        display = SurvivalDisplay(functions).plot(kaplan_meier=Y, groups=GROUP, at_risk=at_risk)
    display.figure_.draw_without_rendering()
    boxes = [item.get_window_extent() for item in (display.test_, display.legend_)]
    assert not boxes[0].overlaps(boxes[1])
    for line in (*display.lines_, *display.observed_.values()):
        path = line.get_transform().transform_path(line.get_path())
        assert not any(path.intersects_bbox(box, filled=False) for box in boxes)
    whole = display.figure_.bbox
    assert all(whole.x0 <= box.x0 and box.x1 <= whole.x1 + 1 for box in boxes)
    assert all(whole.y0 <= box.y0 and box.y1 <= whole.y1 + 1 for box in boxes)


def contrast(one, other):
    light = [np.array(to_rgb(c)) ** 2.2 @ [0.2126, 0.7152, 0.0722] + 0.05 for c in (one, other)]
    return max(light) / min(light)


@pytest.mark.parametrize("style", ["default", "dark_background"])
def test_names_at_risk_have_the_hue_of_their_curves(style):
    groups = np.array(list("abcdef"))[np.arange(90) % 6]
    with pyplot.style.context(style):
        display = SurvivalDisplay.from_result(kaplan_meier(Y, groups=groups), at_risk=True)
    ground = display.ax_.get_facecolor()
    names = {text.get_text(): text for text in display.ax_.texts}
    for line in display.lines_:
        colour, text = to_rgb(line.get_color()), to_rgb(names[line.get_label()].get_color())
        hues = [np.array(parts) / max(parts) for parts in (text, colour)]
        np.testing.assert_allclose(*hues, atol=0.02)
        assert contrast(text, ground) >= 4.4
    assert len({names[g].get_color() for g in "abcdef"}) == 6


def test_names_at_risk_beside_a_model_have_the_colours_of_observed_curves():
    display = SurvivalDisplay([StepFunction(*FAR)], ["new"]).plot(
        kaplan_meier=Y, groups=GROUP, at_risk=True
    )
    names = {text.get_text(): text.get_color() for text in display.ax_.texts}
    assert names["new"] == display.lines_[0].get_color() == display.observed_["new"].get_color()
    assert names["old"] != names["new"]


@pytest.mark.layout
@pytest.mark.parametrize("n_groups", [2, 9])
def test_figures_grow_with_those_at_risk(n_groups):
    """Curves of many groups keep their height; in axes of the user nothing grows."""
    result = kaplan_meier(Y, groups=np.arange(90) % n_groups)
    with pyplot.rc_context({"figure.figsize": (3.5, 2.6)}):
        display = SurvivalDisplay.from_result(result, at_risk=True)
        figure, ax = pyplot.subplots(layout="constrained")
        SurvivalDisplay.from_result(result, at_risk=True, ax=ax)
    display.figure_.draw_without_rendering()
    assert display.ax_.get_window_extent().height / display.figure_.dpi > 1.2
    assert figure.get_figheight() == 2.6
    assert display.figure_.get_figwidth() == 3.5


def test_observed_incidences_stand_beside_predicted_ones():
    X = pd.DataFrame({"is_new": (GROUP == "new").astype(float)})
    for event in (1, 2):
        model = FineGrayCCD(alpha=0.0, event_of_interest=event).fit(X, RISKS)
        display = CumulativeIncidenceDisplay.from_estimator(
            model,
            pd.DataFrame({"is_new": [1.0]}, index=["new"]),
            aalen_johansen=RISKS,
            groups=GROUP,
            at_risk=True,
        )
        result = aalen_johansen(RISKS, groups=GROUP)
        assert set(display.observed_) == {"new", "old"}
        for key, line in display.observed_.items():
            function = result.functions[key, event]
            np.testing.assert_array_equal(line.get_xydata(), np.c_[function.x, function.y])
            assert display.at_risk_[key][0] == (key == GROUP).sum()
            assert line.get_linestyle() == "--"
        assert display.observed_["new"].get_color() == display.lines_[0].get_color()
        assert [text.get_text() for text in display.legend_.get_texts()] == [
            "new",
            "old (Aalen-Johansen)",
            "Aalen-Johansen",
        ]
    function = StepFunction(np.array([0.0, 1.0]), np.array([0.0, 0.5]))
    with pytest.raises(ValueError, match=r"`event_of_interest` is 3; .* the events \[1, 2\]"):
        CumulativeIncidenceDisplay([function]).plot(aalen_johansen=RISKS, event_of_interest=3)
    with pytest.raises(ValueError, match="`groups` needs an outcome: pass it as `aalen_johansen`"):
        CumulativeIncidenceDisplay([function]).plot(groups=GROUP)
    with pytest.raises(TypeError, match="`aalen_johansen` is of type list"):
        CumulativeIncidenceDisplay([function]).plot(aalen_johansen=[1])
    with pytest.raises(ValueError, match="those of a result"):
        CumulativeIncidenceDisplay.from_result(result).plot(aalen_johansen=RISKS)


def test_groups_have_colours_and_events_styles():
    display = CumulativeIncidenceDisplay.from_result(
        aalen_johansen(RISKS, groups=GROUP), at_risk=True
    )
    colours = [line.get_color() for line in display.lines_]
    styles = [line.get_linestyle() for line in display.lines_]
    assert colours[0] == colours[1] != colours[2] == colours[3]
    assert styles[0] == styles[2] != styles[1] == styles[3]
    names = {text.get_text(): text.get_color() for text in display.ax_.texts}
    assert names[display.lines_[0].get_label().partition(",")[0]] == colours[0]
    alone = CumulativeIncidenceDisplay.from_result(aalen_johansen(RISKS))
    assert len({line.get_color() for line in alone.lines_}) == 2
    many = aalen_johansen(competing_risks(np.ones(90, int), TIME), groups=np.arange(90) % 15)
    drawn = CumulativeIncidenceDisplay.from_result(many).lines_
    assert len({(line.get_color(), line.get_linestyle()) for line in drawn}) == 15


def edges(area):
    """Times, lower and upper ends of a drawn area of steps, at the times of its steps."""
    vertices = area.get_paths()[0].vertices
    times = np.unique(vertices[:, 0])
    middles = 0.5 * (times[1:] + times[:-1])
    found = []
    for middle in middles:
        crossed = (vertices[:-1, 0] < middle) != (vertices[1:, 0] < middle)
        heights = vertices[:-1, 1][crossed]
        found.append((heights.min(), heights.max()))
    return middles, *np.array(found).T


@pytest.mark.parametrize("grouped", [False, True])
def test_stacked_areas_sum_to_one(grouped):
    result = aalen_johansen(RISKS, groups=GROUP if grouped else None)
    display = StackedIncidenceDisplay.from_result(result, labels=["a", "b"], at_risk=True)
    assert set(display.areas_) == ({"old", "new"} if grouped else {"all"})
    for group in result.groups:
        areas = display.areas_[str(group)]
        assert len(areas) == 3
        total = 0.0
        for kind, area in zip((1, 2, None), areas, strict=True):
            time, lower, upper = edges(area)
            np.testing.assert_allclose(lower, total, atol=1e-12)  # on top of the one below
            if kind is not None:
                function = result.functions[group, kind]
                expected = function.y[np.searchsorted(function.x, time, side="right") - 1]
                np.testing.assert_allclose(upper - lower, expected, atol=1e-12)
            total = upper
        np.testing.assert_allclose(total, 1.0, atol=1e-12)
        own = group == GROUP if grouped else np.ones(90, bool)
        assert display.at_risk_[str(group)][0] == own.sum()
    assert [label.get_text() for label in display.labels_] == ["a", "b", "no event"]
    assert len(display.axes_) == len(result.groups)
    titles = [ax.get_title() for ax in display.axes_]
    assert titles == ([str(g) for g in result.groups] if grouped else [""])


def test_stacks_of_predicted_curves_and_what_is_refused():
    times = np.array([1.0, 2.0, 5.0])
    one, two = StepFunction(times, times / 10), StepFunction(times[:2], times[:2] / 5)
    display = StackedIncidenceDisplay({"row": [one, two]}).plot()
    assert [label.get_text() for label in display.labels_] == ["event 1", "event 2", "no event"]
    _, lower, upper = edges(display.areas_["row"][1])
    assert upper[-1] - lower[-1] == pytest.approx(0.4)  # as of its last time
    wide = StepFunction(times, times / 4.9)
    over = StackedIncidenceDisplay({"row": [one, wide]}).plot()  # predicted apart
    assert over.axes_[0].get_ylim()[1] == pytest.approx(0.5 + 5 / 4.9)
    assert repr(display) == "<StackedIncidenceDisplay of 2 events in 1 group>"
    with pytest.raises(ValueError, match="different numbers of events"):
        StackedIncidenceDisplay({"a": [one], "b": [one, two]})
    with pytest.raises(ValueError, match="there are 0 groups"):
        StackedIncidenceDisplay({})
    with pytest.raises(ValueError, match="7 events, a figure shows at most 6; join some"):
        StackedIncidenceDisplay({"a": [one] * 7})
    with pytest.raises(ValueError, match="`at_risk` needs curves of rows"):
        display.plot(at_risk=True)
    with pytest.raises(TypeError, match=r"nonparametric\.aalen_johansen returns"):
        StackedIncidenceDisplay.from_result(kaplan_meier(Y))
    with pytest.raises(ValueError, match=r"`axes` has 2 axes for 1 group\(s\)"):
        display.plot(pyplot.figure().subplots(1, 2))


@pytest.mark.parametrize("effect", ["hazard_ratio", None])
def test_profiles_show_no_effect_unless_it_is_far(effect):
    result = profile_result(1, effect=effect)
    shift = -result.curves["value"].min()  # no effect is where the curve begins
    for far, is_shown in ((0.0, True), (0.2, True), (20.0, False)):
        moved = profile_result(1, effect=effect)
        moved.curves["value"] += shift + far
        moved.intervals[["coef", "lower", "upper"]] += shift + far
        [null] = ProfileDisplay.from_result(moved).nulls_
        assert (null is not None) == is_shown
        if is_shown:
            assert null.get_xdata()[0] == (1.0 if effect else 0.0)
            low, high = sorted(null.axes.get_xlim())
            assert low <= null.get_xdata()[0] <= high


@pytest.fixture(scope="module")
def calibrated():
    X = np.column_stack([RNG.normal(size=90), GROUP == "new"])
    model = CoxLassoCCD(alpha=0.01).fit(X, Y)
    risk = model.predict_risk(X, 30.0)
    return calibration(Y, risk, 30.0, n_groups=3), risk.to_numpy().ravel()


@pytest.mark.layout
def test_histogram_of_risks_stands_under_the_calibration(calibrated):
    result, risk = calibrated
    display = CalibrationDisplay.from_result({"a": result, "b": result})
    display.figure_.draw_without_rendering()
    assert list(display.histograms_) == ["a", "b"]
    bars = display.histograms_["a"].get_data()
    expected = np.histogram(risk, bars.edges)[0] / 90
    np.testing.assert_allclose(bars.values, expected)
    assert bars.edges[0] == 0.0 and bars.edges[-1] == risk.max()
    assert display.histograms_["a"].get_edgecolor() == pytest.approx(
        display.points_["a"].get_edgecolor()[0]
    )
    main, below = display.ax_.get_window_extent(), display.histograms_["a"].axes
    under = below.get_window_extent()
    assert under.y1 <= main.y0 + 1e-6  # covers no point
    assert below.get_xlim() == display.ax_.get_xlim()
    assert (under.x0, under.x1) == pytest.approx((main.x0, main.x1))
    numbers = display.ax_.xaxis.get_tightbbox()
    assert numbers.y1 <= under.y0 + 4 and numbers.y0 >= display.figure_.bbox.y0  # below them
    legend = display.ax_.get_legend().get_window_extent()
    assert not legend.overlaps(under)
    assert not CalibrationDisplay.from_result(result, histogram=False).histograms_
    assert repr(display) == "<CalibrationDisplay of 2 models>"
    assert result.distribution["n"].sum() == 90


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda t: CalibrationDisplay({"": t}), "`tables` has .* 'predicted'"),
        (lambda t: EmpiricalNullDisplay(t, t, 0.0, 1.0), "`controls` has .* 'coef'"),
        (lambda t: PropensityDisplay(t), "`bins` has .* 'lower'"),
        (lambda t: ProfileDisplay(t, t), "`curves` has .* 'feature'"),
    ],
)
def test_tables_without_a_column_are_refused(make, match):
    with pytest.raises(ValueError, match=f"{match}; it needs"):
        make(pd.DataFrame({"other": [1.0]}))
