"""What every figure owes its reader: legends that cover nothing, colours seen on any ground."""

import numpy as np
import pandas as pd
import pytest
from grids import thin
from results import (
    Result,
    bootstrap_result,
    interval_table,
    profile_result,
    score_table,
    stability_result,
)
from sksurv.functions import StepFunction

from sksurvgpu import (
    AttritionDisplay,
    BalanceDisplay,
    BootstrapDisplay,
    CalibrationDisplay,
    CoefficientDisplay,
    CoxLassoCCD,
    CumulativeIncidenceDisplay,
    CVDisplay,
    EffectsDisplay,
    EmpiricalNullDisplay,
    PathDisplay,
    ProfileDisplay,
    PropensityDisplay,
    SchoenfeldDisplay,
    StabilityDisplay,
    StackedIncidenceDisplay,
    SurvivalDisplay,
    TraceDisplay,
    competing_risks,
    proportional_hazards_test,
    surv,
)
from sksurvgpu.cohort import balance, trim
from sksurvgpu.nonparametric import aalen_johansen, kaplan_meier

pyplot = pytest.importorskip("matplotlib.pyplot")
from matplotlib import colors  # noqa: E402
from matplotlib.collections import Collection, PolyCollection, QuadMesh  # noqa: E402
from matplotlib.lines import Line2D  # noqa: E402
from matplotlib.patches import FancyArrowPatch, StepPatch  # noqa: E402
from matplotlib.text import Text  # noqa: E402

pytestmark = pytest.mark.usefixtures("layout_if_asked")

TIMES = np.arange(40.0)
OBSERVED = surv(np.arange(60) % 3 > 0, np.arange(60) + 1.0)
GROUP = np.array(["a", "b", "c"])[np.arange(60) % 3]


def rng(seed=0):
    return np.random.default_rng(seed)


def survival(*rates):
    return [StepFunction(TIMES, np.exp(-rate * TIMES)) for rate in rates]


def incidence(*rates):
    return [StepFunction(TIMES, -np.expm1(-rate * TIMES)) for rate in rates]


def groups(shift=0.0):
    observed = np.array([0.1, 0.2, 0.3, 0.45])
    table = {"predicted": observed, "observed": observed + shift}
    return pd.DataFrame({**table, "lower": 0.9 * observed + shift, "upper": 1.1 * observed + shift})


def estimates(n):
    coef, error = np.linspace(-1, 2, n), np.linspace(0.1, 0.6, n)
    return pd.DataFrame({"coef": coef, "standard_error": error})


def love():
    X, exposed = rng().normal(size=(200, 4)), np.arange(200) % 2 == 0
    return balance(X + exposed[:, None], exposed, strata=np.arange(200) // 2 % 4)


def proportional_hazards():
    x, y = rng().normal(size=(50, 2)), surv(np.ones(50), np.arange(50) + 1.0)
    return proportional_hazards_test(CoxLassoCCD(alpha=0).fit(x, y), x, y)


def persons(seed=0):
    score = rng(seed).beta(2, 3, 300)
    is_treated = rng(seed + 1).random(300) < score
    return pd.DataFrame({"id": range(300), "score": score, "treatment": is_treated})


def effects_table():
    """Of steps of one variable and of a curve of another, with intervals."""
    value = np.r_[-np.inf, 1.0, 2.0, np.linspace(0.0, 1.0, 5)]
    table = pd.DataFrame({"variable": list("aaabbbbb"), "value": value, "effect": np.arange(8.0)})
    return table.assign(lower=table["effect"] - 1.0, upper=table["effect"] + 1.0)


def risks():
    """Calibration of two models with histograms."""
    bins = pd.DataFrame({"lower": [0, 0.2], "upper": [0.2, 0.4], "n": [30, 10]})
    tables = {"a": groups(), "b": groups(0.1)}
    return CalibrationDisplay(tables, dict.fromkeys(tables, bins))


INCIDENCES = aalen_johansen(competing_risks(np.arange(60) % 3, np.arange(60) + 1.0), groups=GROUP)
DISPLAYS = {
    "balance": lambda: BalanceDisplay.from_result(love()),
    "attrition": lambda: AttritionDisplay.from_result(trim(persons(), bounds=(0.3, 0.7))),
    "balance, scatter": lambda: BalanceDisplay.from_result(love(), kind="scatter"),
    "calibration, histograms": lambda: risks().plot(),
    "groups": lambda: SurvivalDisplay.from_result(
        kaplan_meier(OBSERVED, groups=GROUP), at_risk=True, medians=True
    ),
    "incidence of groups": lambda: CumulativeIncidenceDisplay.from_result(INCIDENCES, at_risk=True),
    "propensity": lambda: PropensityDisplay.from_cohort(persons(), before=persons(7)),
    "stability": lambda: StabilityDisplay.from_result(stability_result()),
    "stack": lambda: StackedIncidenceDisplay.from_result(INCIDENCES, at_risk=True),
    "bootstrap": lambda: BootstrapDisplay.from_result(bootstrap_result(20)),
    "calibration": lambda: CalibrationDisplay({"a": groups(), "b": groups(0.1)}).plot(),
    "coefficients": lambda: CoefficientDisplay.from_result(
        {"a": Result(interval_table(5).assign(upper=np.inf)), "b": Result(interval_table(5))}
    ),
    "effects": lambda: EffectsDisplay(effects_table(), {"a": rng().normal(size=50)}).plot(),
    "empirical null": lambda: EmpiricalNullDisplay(estimates(20), estimates(3), 0.3, 0.2).plot(),
    "incidence": lambda: CumulativeIncidenceDisplay(incidence(0.01, 0.1)).plot(),
    "path": lambda: PathDisplay([0.1, 0.01], np.outer([-1, 1, 2], [0, 1]), list("abc")).plot(
        highlight=0.05, n_labels=2
    ),
    "profile": lambda: ProfileDisplay.from_result(profile_result(2)),
    "Schoenfeld": lambda: SchoenfeldDisplay.from_result(proportional_hazards()),
    "scores": lambda: CVDisplay(score_table(12), 0.2).plot(),
    "scores, band": lambda: CVDisplay(score_table(60), 0.2).plot(),
    "survival": lambda: SurvivalDisplay(survival(0.01), ["a"]).plot(
        kaplan_meier=OBSERVED, groups=GROUP, at_risk=True
    ),
    "trace": lambda: TraceDisplay({"a": rng().normal(size=(4, 50))}).plot(),
    "trace, ranks": lambda: TraceDisplay({"a": rng().normal(size=(4, 50))}).plot(kind="rank"),
}


def luminance(colour):
    parts = np.array(colors.to_rgb(colour))
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return linear @ [0.2126, 0.7152, 0.0722]


def contrast(colour, ground):
    """Of WCAG 2, from 1 to 21; a colour lets the ground shine through."""
    *colour, opacity = colors.to_rgba(colour)
    colour = opacity * np.array(colour) + (1 - opacity) * np.array(colors.to_rgb(ground))
    low, high = sorted((luminance(colour), luminance(ground)))
    return (high + 0.05) / (low + 0.05)


def colours(artist):
    """Colours in which a line, a text, a collection or a leader is drawn."""
    if isinstance(artist, Collection) and artist.get_array() is not None:
        return artist.to_rgba(np.linspace(*artist.get_clim(), 9))
    if isinstance(artist, Collection):
        return [*artist.get_edgecolors(), *artist.get_facecolors()]
    if isinstance(artist, Line2D):
        return [artist.get_color(), artist.get_markerfacecolor()]
    if isinstance(artist, FancyArrowPatch | StepPatch):
        return [artist.get_edgecolor()]
    return [artist.get_color()] if isinstance(artist, Text) and artist.get_text() else []


@pytest.mark.layout
@pytest.mark.parametrize(("name", "style"), thin(3, DISPLAYS, ["default", "dark_background"]))
def test_everything_is_seen_on_its_ground(name, style):
    with pyplot.style.context(style):
        figure = DISPLAYS[name]().figure_
        figure.draw_without_rendering()
    ground, n_seen = figure.axes[0].get_facecolor(), 0
    for artist in figure.findobj(lambda artist: artist.get_visible()):
        if isinstance(artist, QuadMesh):  # the colours of a colour bar, which stand side by side
            continue
        is_area = isinstance(artist, PolyCollection | StepPatch)
        least = 1.2 if is_area else 2.0
        for colour in colours(artist):
            if colors.to_rgba(colour)[3] > 0:
                n_seen += 1
                assert contrast(colour, ground) > least, (artist, colour)
    assert n_seen > 20


CURVES = {
    "far apart": (0.001, 0.3),
    "high": (0.001, 0.003),
    "low": (0.3, 0.5),
    "everywhere": (0.003, 0.01, 0.02, 0.05, 0.1, 0.3, 1.0),
}


def covered(legend, line):
    """Whether some of many points along a step curve lies under the legend."""
    box = legend.get_window_extent()
    x, y = line.get_data()
    steps = np.column_stack([np.repeat(x, 2)[1:], np.repeat(y, 2)[:-1]])
    share = np.linspace(0, len(steps) - 1, 20_000)
    dense = [np.interp(share, np.arange(len(steps)), column) for column in steps.T]
    return box.count_contains(line.axes.transData.transform(np.column_stack(dense))) > 0


@pytest.mark.layout
@pytest.mark.parametrize("curves", CURVES)
@pytest.mark.parametrize("kind", ["survival", "at risk", "incidence"])
def test_legends_of_curves_cover_none(kind, curves):
    with pyplot.rc_context({"figure.figsize": (3.5, 2.5)}):
        if kind == "incidence":
            display = CumulativeIncidenceDisplay(incidence(*CURVES[curves])).plot()
            lines = display.lines_
        else:
            display = SurvivalDisplay(survival(*CURVES[curves])).plot(
                kaplan_meier=OBSERVED, groups=GROUP, at_risk=kind == "at risk"
            )
            lines = [*display.lines_, *display.observed_.values()]
    display.figure_.draw_without_rendering()
    box = display.legend_.get_window_extent()
    assert not any(covered(display.legend_, line) for line in lines)
    assert not any(box.overlaps(text.get_window_extent()) for text in display.ax_.texts)
    assert display.figure_.bbox.y0 <= box.y0 and box.x1 <= display.figure_.bbox.x1


@pytest.mark.layout
def test_legends_stand_inside_where_there_is_room():
    display = SurvivalDisplay(survival(*CURVES["high"])).plot()
    display.figure_.draw_without_rendering()
    inside = display.ax_.get_window_extent()
    box = display.legend_.get_window_extent()
    assert inside.x0 <= box.x0 and box.x1 <= inside.x1
    assert inside.y0 <= box.y0 and box.y1 <= inside.y0 + 0.5 * inside.height


@pytest.mark.layout
@pytest.mark.parametrize("shifts", [(0.0, 0.1), (0.3, -0.05), (0.4, 0.0, -0.05)])
def test_legends_of_calibration_cover_nothing(shifts):
    names = ["a model of a rather long name", "b", "c"]
    tables = {name: groups(shift) for name, shift in zip(names, shifts, strict=False)}
    with pyplot.rc_context({"figure.figsize": (3.5, 2.8)}):
        display = CalibrationDisplay(tables).plot()
    display.figure_.draw_without_rendering()
    box, ax = display.ax_.get_legend().get_window_extent(), display.ax_
    for key, points in display.points_.items():
        assert not box.count_contains(ax.transData.transform(points.get_offsets()))
        for bar in display.intervals_[key].get_segments():
            dense = np.linspace(*bar, 50)
            assert not box.count_contains(ax.transData.transform(dense))


@pytest.mark.parametrize("name", DISPLAYS)
def test_displays_say_what_they_are(name):
    display = DISPLAYS[name]()
    cls = type(display).__name__
    assert repr(display).startswith(f"<{cls} of ") and repr(display).endswith(">")
    assert any(character.isdigit() or character in "ab" for character in repr(display))


@pytest.mark.layout
def test_legends_of_propensity_cover_no_bar():
    for size in ((3.5, 2.6), (6.4, 4.8)):
        with pyplot.rc_context({"figure.figsize": size}):
            display = DISPLAYS["propensity"]()
        display.figure_.draw_without_rendering()
        box = display.ax_.get_legend().get_window_extent()
        for stairs in (*display.areas_.values(), *display.before_.values()):
            values, edges, _ = stairs.get_data()
            for height, *ends in zip(values, edges[:-1], edges[1:], strict=True):
                corners = display.ax_.transData.transform([(ends[0], 0.0), (ends[1], height)])
                inside = box.x0 < corners[1, 0] and corners[0, 0] < box.x1
                assert not (inside and box.y0 < corners[1, 1] and corners[0, 1] < box.y1)


@pytest.mark.layout
@pytest.mark.parametrize("name", ["bootstrap", "path", "stability", "balance", "coefficients"])
def test_long_names_leave_room_for_what_they_name(name):
    """On a column of 3.5 inches; whole names are kept."""
    long = "acetylsalicylic acid 100 mg, enteric-coated tablets, twice daily, "
    with pyplot.rc_context({"figure.figsize": (3.5, 2.6)}):
        display = LONG_NAMES[name](long)
    display.figure_.draw_without_rendering()
    share = display.ax_.get_window_extent().width / display.figure_.bbox.width
    assert share > (0.2 if name == "coefficients" else 0.3)
    texts = [text.get_text() for text in display.figure_.findobj(Text)]
    shortened = [text for text in texts if text.startswith("acety") and "…" in text]
    assert len(set(shortened)) >= 2


def path_of(names):
    return PathDisplay([0.1, 0.01], np.outer([-1, 1, 2], [0, 1]), names).plot()


def balance_of(long):
    X, exposed = rng().normal(size=(200, 3)), np.arange(200) % 2 == 0
    table = pd.DataFrame(X, columns=[long + c for c in "abc"])
    return BalanceDisplay.from_result(balance(table, exposed, strata=np.arange(200) // 2 % 4))


def stability_of(long):
    result = stability_result(n_selected=(0.5, 1.2, 9.0, 30.0))
    result.feature_names[:] = [long + c for c in "abcde"]
    return StabilityDisplay.from_result(result)


def bootstrap_of(long):
    result = bootstrap_result(20)
    result.intervals.index = [f"{long}{i:02d}" for i in range(20)]
    return BootstrapDisplay.from_result(result)


LONG_NAMES = {
    "path": lambda long: path_of([long + c for c in "abc"]),
    "balance": balance_of,
    "stability": stability_of,
    "bootstrap": bootstrap_of,
    "coefficients": lambda long: CoefficientDisplay.from_result(
        Result(interval_table(5).set_axis([long + c for c in "abcde"]))
    ),
}


@pytest.mark.layout
@pytest.mark.parametrize("n_penalties", [12, 60])
@pytest.mark.parametrize("width", [3.5, 6.4])
def test_legends_of_scores_cover_nothing(n_penalties, width):
    with pyplot.rc_context({"figure.figsize": (width, 2.8)}):
        display = CVDisplay(score_table(n_penalties), 0.2).plot()
    display.figure_.draw_without_rendering()
    ax, box = display.ax_, display.ax_.get_legend().get_window_extent()
    for line in (display.line_, display.best_, display.one_se_):
        path = line.get_transform().transform_path(line.get_path())
        assert not path.intersects_bbox(box, filled=False)
    for path in display.errors_.get_paths():
        assert not ax.transData.transform_path(path).intersects_bbox(box, filled=True)
    whole = display.figure_.bbox
    assert whole.x0 <= box.x0 and box.x1 <= whole.x1 and whole.y0 <= box.y0
