"""Figures of intervals: forest plots, bootstraps, profile likelihoods, calibration."""

from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from grids import thin
from results import (
    LONG_NAME,
    Bootstrap,
    Result,
    awkward_table,
    bootstrap_result,
    interval_table,
    profile_result,
)
from scipy.stats import chi2
from sksurv.datasets import load_veterans_lung_cancer
from sksurv.functions import StepFunction

from sksurvgpu import (
    BayesianLasso,
    BayesianMultinomialLogistic,
    BootstrapDisplay,
    CalibrationDisplay,
    CoefficientDisplay,
    CoxLassoCCD,
    CumulativeIncidenceDisplay,
    LinearCCD,
    PathDisplay,
    ProfileDisplay,
    SchoenfeldDisplay,
    SurvivalDisplay,
    proportional_hazards_test,
    surv,
)
from sksurvgpu.datasets import simulate_cox
from sksurvgpu.plotting._forest import Forest, number

pyplot = pytest.importorskip("matplotlib.pyplot")
Text = pytest.importorskip("matplotlib.text").Text
pytestmark = pytest.mark.usefixtures("layout_if_asked")


def drawn_names(display):
    return [text.get_text() for text in display.ax_.get_yticklabels()]


def segments(collection):
    """(lower, upper, height) of every line."""
    return [(line[0, 0], line[1, 0], line[0, 1]) for line in collection.get_segments()]


def texts(display):
    return [tuple(text.get_text() for text in pair) for pair in display.numbers_]


@pytest.mark.layout
def test_forest_with_columns_beside_it():
    result = Result(interval_table(3))
    result.intervals["p_value"] = [0.2, 0.0004, 0.034]
    counts = pd.DataFrame({"n": [12_345, 7, 8], "kind": ["a", "b", "c"]}, result.intervals.index)
    of_result = CoefficientDisplay.from_result(result, beside=["p_value"], sort=None)
    assert [text.get_text() for text in of_result.beside_["p_value"]] == [
        "0.20",
        "< 0.001",
        "0.034",
    ]
    given = CoefficientDisplay.from_result(result, beside=counts[::-1], sort=None)
    assert [text.get_text() for text in given.beside_["n"]] == ["12,345", "7", "8"]
    given.figure_.draw_without_rendering()
    boxes = [text.get_window_extent() for text in given.ax_.texts]
    assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])
    with pytest.raises(ValueError, match="`beside` has 'p'; the columns of the result's summary"):
        CoefficientDisplay.from_result(result, beside="p")
    with pytest.raises(ValueError, match="`beside` has no line 'drug 0'"):
        CoefficientDisplay.from_result(result, beside=counts[1:])
    with pytest.raises(ValueError, match="`beside` is for one result"):
        CoefficientDisplay.from_result({"a": result, "b": result}, beside=["p_value"])


def test_forest_draws_ratios_from_the_largest():
    table = interval_table(6)
    display = CoefficientDisplay.from_result(Result(table))
    ordered = table.sort_values("coef", ascending=False)
    assert drawn_names(display) == ordered.index.tolist()
    offsets = display.points_[""].get_offsets()
    np.testing.assert_allclose(offsets[:, 0], np.exp(ordered["coef"]))
    np.testing.assert_array_equal(offsets[:, 1], np.arange(6))
    expected = np.column_stack([np.exp(ordered[["lower", "upper"]]), np.arange(6)])
    np.testing.assert_allclose(segments(display.intervals_[""]), expected)
    assert display.ax_.get_xscale() == "log" and display.ax_.yaxis_inverted()
    assert display.ax_.get_xlabel() == "hazard ratio"
    assert display.ax_.lines[0].get_xdata()[0] == 1.0
    assert not display.arrows_


@pytest.mark.layout
def test_forest_writes_the_numbers_in_columns():
    table = pd.DataFrame(
        {"coef": [2.5, 0.28, -1.0], "lower": [2.0, 0.1, -1.5], "upper": [3.0, 0.46, -0.5]},
        index=["a", "b", "c"],
    )
    display = CoefficientDisplay.from_result(Result(table))
    assert texts(display) == [
        ("12.18", "(7.39, 20.09)"),
        ("1.32", "(1.11, 1.58)"),
        ("0.37", "(0.22, 0.61)"),
    ]
    assert [text.get_text() for text in display.ax_.texts if "%" in text.get_text()] == [
        "95 % interval"
    ]
    display.figure_.draw_without_rendering()
    boxes = [[Text.get_window_extent(text) for text in pair] for pair in display.numbers_]
    ends = [pair[0].x1 for pair in boxes]
    starts = [pair[1].x0 for pair in boxes]
    assert np.ptp(ends) < 1.5 and np.ptp(starts) < 1.5  # pixels
    assert display.ax_.bbox.x1 < min(pair[0].x0 for pair in boxes) and max(ends) < min(starts)
    assert max(pair[1].x1 for pair in boxes) <= display.figure_.bbox.x1
    rows = display.ax_.transData.transform([(1.0, height) for height in range(3)])[:, 1]
    middles = [(pair[1].y0 + pair[1].y1) / 2 for pair in boxes]
    np.testing.assert_allclose(middles, rows, atol=3)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.316, "1.32"),
        (-0.4, "−0.40"),
        (156.4, "156"),
        (1234.5, "1,234"),
        (3.2e7, "3e+07"),
        (np.inf, "∞"),
        (-np.inf, "−∞"),
        (0.0, "0"),
        (np.nan, "–"),
    ],
)
def test_number(value, text):
    assert number(value) == text


@pytest.mark.parametrize(("ratio", "text"), [(0.0341, "0.034"), (0.1, "0.10"), (0.0, "0")])
def test_small_ratios_have_a_decimal_more(ratio, text):
    assert number(ratio, is_ratio=True) == text


def test_forest_bounds_beyond_the_axis_are_arrows():
    table = awkward_table(12)
    display = CoefficientDisplay.from_result(Result(table), sort=None)
    low, high = display.ax_.get_xlim()
    assert 0.05 < low < 1 < high < 20
    lower, upper = display.arrows_["", "lower"], display.arrows_["", "upper"]
    np.testing.assert_allclose(lower.get_xydata(), [[low, 2]])
    np.testing.assert_allclose(upper.get_xydata(), [[high, 1], [high, 3]])
    lines = segments(display.intervals_[""])
    coef = np.exp(table["coef"].to_numpy())
    np.testing.assert_allclose(lines[0], [coef[0], coef[0], 0])  # no bounds, no line
    np.testing.assert_allclose(lines[1], [np.exp(table["lower"].iloc[1]), high, 1])
    np.testing.assert_allclose(lines[2], [low, np.exp(table["upper"].iloc[2]), 2])
    np.testing.assert_allclose(lines[4][0], coef[4])
    shown = dict(enumerate(texts(display)))
    assert shown[0][1] == "" and shown[1][1].endswith(", ∞)")
    assert shown[2][1].startswith("(0, ") and shown[4][1].startswith("(–, ")
    assert shown[3][1].endswith(", 8,103)")


@pytest.mark.parametrize("effect", ["hazard_ratio", None])
@pytest.mark.parametrize("coef", [-0.35, 0.0], ids=["off centre", "centred"])
def test_forest_shows_ordinary_intervals_whole(effect, coef):
    """Columns in small units have narrow intervals, beside which others look wide."""
    table = pd.DataFrame({"coef": [0.02, 0.15, coef, 0.01, 0.03]})
    half = np.array([0.01, 0.03, 0.25, 0.02, 0.01])  # exp(-0.35 - 0.25) to exp(-0.35 + 0.25)
    table = table.assign(lower=table["coef"] - half, upper=table["coef"] + half)
    display = CoefficientDisplay.from_result(Result(table, effect=effect), sort=None)
    assert not display.arrows_
    shown = np.exp if effect else np.asarray
    ends = np.array(segments(display.intervals_[""]))[:, :2]
    np.testing.assert_allclose(ends, shown(table[["lower", "upper"]].to_numpy()))
    table.loc[4, "upper"] = 7.0  # orders of magnitude beyond the rest
    display = CoefficientDisplay.from_result(Result(table, effect=effect), sort=None)
    assert list(display.arrows_) == [("", "upper")]
    np.testing.assert_array_equal(display.arrows_["", "upper"].get_ydata(), [4])
    assert display.ax_.get_xlim()[1] < shown(0.5)


def test_forest_limits_may_be_given():
    table = interval_table(4)
    display = CoefficientDisplay.from_result(Result(table), xlim=(0.9, 1.1))
    np.testing.assert_allclose(display.ax_.get_xlim(), (0.9, 1.1))
    ordered = np.exp(table.sort_values("coef", ascending=False))
    beyond = np.flatnonzero(ordered["upper"] > 1.1)
    np.testing.assert_array_equal(display.arrows_["", "upper"].get_ydata(), beyond)
    inside = ordered["coef"].between(0.9, 1.1)
    assert len(display.points_[""].get_offsets()) == inside.sum() < 4
    for wrong in [(0.0, 2.0), (2.0, 1.0), 5, (1.0,)]:
        with pytest.raises(ValueError, match="must be two numbers, positive and ascending"):
            CoefficientDisplay.from_result(Result(table), xlim=wrong)


@pytest.mark.parametrize("effect", [None, "odds_ratio"])
@pytest.mark.parametrize("ratio", [True, False])
def test_forest_shows_ratios_where_there_are(effect, ratio):
    table = interval_table(3)
    result = Result(table, effect=effect)
    display = CoefficientDisplay.from_result(result, ratio=ratio, sort=None)
    is_ratio = bool(effect) and ratio
    expected = np.exp(table["coef"]) if is_ratio else table["coef"]
    np.testing.assert_allclose(display.points_[""].get_offsets()[:, 0], expected)
    assert display.ax_.get_xlabel() == ("odds ratio" if is_ratio else "coefficient")
    assert display.ax_.lines[0].get_xdata()[0] == (1.0 if is_ratio else 0.0)


def test_forest_order_and_columns():
    table = interval_table(5)
    table["coef"] = [0.1, -0.9, 0.5, 0.0, -0.2]

    def order(**kwargs):
        return [
            int(name.split()[1])
            for name in drawn_names(CoefficientDisplay.from_result(Result(table), **kwargs))
        ]

    assert order() == [2, 0, 3, 4, 1]
    assert order(sort="magnitude") == [1, 2, 4, 0, 3]
    assert order(sort=None) == [0, 1, 2, 3, 4]
    assert order(sort=None, columns=["drug 4", 0, -2]) == [4, 0, 3]
    assert order(columns="drug 1") == [1]
    assert order(columns=["drug 1", 1, 1]) == [1]


def test_forest_side_by_side():
    first, second = interval_table(4), interval_table(6, seed=1)
    display = CoefficientDisplay.from_result(
        {"bootstrap": Result(first), "profile": Result(second)}
    )
    names = first.sort_values("coef", ascending=False).index
    assert drawn_names(display) == names.tolist()
    for key, table in (("bootstrap", first), ("profile", second)):
        offsets = display.points_[key].get_offsets()
        np.testing.assert_allclose(offsets[:, 0], np.exp(table.loc[names, "coef"]))
    heights = {key: points.get_offsets()[:, 1] for key, points in display.points_.items()}
    np.testing.assert_allclose(heights["bootstrap"] + heights["profile"], 2 * np.arange(4))
    assert (heights["bootstrap"] < heights["profile"]).all()
    assert [text.get_text() for text in display.ax_.get_legend().get_texts()] == [*heights]
    colours = {tuple(points.get_facecolor()[0]) for points in display.points_.values()}
    assert len(colours) == 2
    # one line of numbers for each, from the top
    expected = [
        number(np.exp(table.loc[name, "coef"])) for name in names for table in (first, second)
    ]
    assert [pair[0] for pair in texts(display)] == expected


@pytest.mark.layout
def test_a_legend_of_long_names_takes_several_lines():
    table = pd.DataFrame({"coef": [0.2], "lower": [0.1], "upper": [0.3]}, index=["drug"])
    tables = {f"a rather long name of the method {k}": table for k in range(4)}
    display = CoefficientDisplay(tables, effect="hazard ratio", level=0.95).plot()
    display.figure_.canvas.draw()
    legend = display.ax_.get_legend().get_window_extent()
    assert legend.x1 <= display.figure_.bbox.x1
    assert legend.y1 <= display.figure_.bbox.y1
    low = CoefficientDisplay({"a": table, "b": table}, effect=None, level=0.95).plot()
    assert low.ax_.get_legend()._ncols == 2


def test_forest_leaves_blank_what_a_result_does_not_have():
    first, second = interval_table(2), interval_table(4, seed=1)
    both = {"profile": Result(first), "bootstrap": Result(second)}
    display = CoefficientDisplay.from_result(both, columns=["drug 3", "drug 0"], sort=None)
    assert len(display.points_["profile"].get_offsets()) == 1
    assert len(display.points_["bootstrap"].get_offsets()) == 2
    assert len(display.numbers_) == 3


@pytest.mark.filterwarnings("ignore::sksurvgpu.exceptions.NothingSelectedWarning")
def test_forest_of_an_estimator():
    data = simulate_cox(400, 30, density=0.3, random_state=0)
    model = CoxLassoCCD(alpha=0.005).fit(data.X, data.y)
    display = CoefficientDisplay.from_estimator(model, n_top=5)
    largest = np.sort(model.coef_[np.argsort(-np.abs(model.coef_))[:5]])[::-1]
    np.testing.assert_allclose(display.points_[""].get_offsets()[:, 0], np.exp(largest))
    stems = np.array(segments(display.intervals_[""]))
    np.testing.assert_allclose(stems[:, 0], np.minimum(np.exp(largest), 1))
    np.testing.assert_allclose(stems[:, 1], np.maximum(np.exp(largest), 1))
    assert all(interval == "" for _, interval in texts(display))
    with pytest.raises(ValueError, match="all coefficients are 0"):
        CoefficientDisplay.from_estimator(CoxLassoCCD(alpha=5.0).fit(data.X, data.y))
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 3))
    linear = LinearCCD(alpha=0.01).fit(X, X @ [1.0, -2.0, 3.0])
    assert CoefficientDisplay.from_estimator(linear).ax_.get_xlabel() == "coefficient"


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("model", [BayesianLasso, BayesianMultinomialLogistic])
def test_fits_with_a_posterior_have_intervals(model):
    random = np.random.default_rng(0)
    X, y = random.normal(size=(40, 17)), random.integers(0, 3, 40)
    params = {"n_chains": 1, "n_tune": 5, "n_draws": 8}
    fitted = model(**params).fit(X, y)
    display = CoefficientDisplay.from_estimator(fitted, n_top=3, ratio=False)
    intervals = fitted.posterior_.intervals
    largest = intervals["coef"].abs().nlargest(3).index
    expected = intervals.loc[largest].sort_values("coef", ascending=False)
    assert display.tables[""].index.tolist() == expected.index.tolist()
    np.testing.assert_array_equal(display.tables[""], expected)
    assert display.level == 0.95 and len(texts(display)) == 3
    with pytest.raises(ValueError, match='cannot be computed: keep="summary" has kept'):
        CoefficientDisplay.from_estimator(model(**params, keep="summary").fit(X, y))


@pytest.mark.layout
@pytest.mark.parametrize(("width", "n_rows"), thin(5, [3.5, 7.0], [60, 1, 6]))
def test_forest_is_legible(n_rows, width):
    table = awkward_table(n_rows) if n_rows > 5 else interval_table(n_rows)
    with pyplot.rc_context({"figure.figsize": (width, 3.0)}):
        display = CoefficientDisplay.from_result(Result(table))
    figure = display.figure_
    figure.draw_without_rendering()
    labels = [text.get_window_extent() for text in display.ax_.get_yticklabels()]
    assert display.ax_.get_yticklabels()[0].get_size() == 8.0
    assert all(figure.bbox.x0 <= box.x0 and box.x1 <= display.ax_.bbox.x0 for box in labels)
    assert all(one.y0 >= other.y1 for one, other in pairwise(labels))
    assert display.ax_.bbox.width > 0.25 * figure.bbox.width
    ticks = [tick for tick in display.ax_.get_xticklabels() if tick.get_text()]
    low, high = display.ax_.bbox.x0, display.ax_.bbox.x1
    inside = [b for b in (t.get_window_extent() for t in ticks) if low <= (b.x0 + b.x1) / 2 <= high]
    assert len(inside) >= 2
    assert all(one.x1 < other.x0 for one, other in pairwise(inside))


@pytest.mark.layout
def test_forest_that_is_too_low_has_smaller_text():
    _, ax = pyplot.subplots(figsize=(5, 3))
    display = CoefficientDisplay.from_result(Result(interval_table(60)), ax=ax)
    assert display.ax_ is ax
    assert 1.0 < ax.get_yticklabels()[0].get_size() < 5.0


def test_forest_all_infinite_and_no_numbers():
    table = interval_table(3).assign(lower=-np.inf, upper=np.inf)
    display = CoefficientDisplay.from_result(Result(table), numbers=False)
    assert display.numbers_ == [] and not display.ax_.texts
    assert len(display.arrows_["", "lower"].get_xdata()) == 3


def test_forest_refuses():
    table = interval_table(3)
    with pytest.raises(TypeError, match="`result` is of type DataFrame, which has no table"):
        CoefficientDisplay.from_result(table)
    with pytest.raises(ValueError, match="empty dictionary"):
        CoefficientDisplay.from_result({})
    with pytest.raises(ValueError, match=r"'drug 9', which is no coefficient.*mean 'drug \d'"):
        CoefficientDisplay.from_result(Result(table), columns=["drug 9"])
    with pytest.raises(ValueError, match="position 3, there are 3 coefficients"):
        CoefficientDisplay.from_result(Result(table), columns=[3])
    with pytest.raises(ValueError, match="`columns` is empty"):
        CoefficientDisplay.from_result(Result(table), columns=[])
    with pytest.raises(ValueError, match="`sort` is 'alpha', must be"):
        CoefficientDisplay.from_result(Result(table), sort="alpha")
    with pytest.raises(ValueError, match=r"101 coefficients, .* at most 100; choose some"):
        CoefficientDisplay.from_result(Result(interval_table(101)))
    with pytest.raises(ValueError, match=r"different levels: 0\.9, 0\.95"):
        CoefficientDisplay.from_result({"a": Result(table), "b": Result(table, level=0.9)})
    with pytest.raises(ValueError, match="different kinds of ratio: None, hazard ratio"):
        CoefficientDisplay.from_result({"a": Result(table), "b": Result(table, effect=None)})
    other = Result(table.rename(index=str.upper))
    with pytest.raises(ValueError, match="no coefficient in common"):
        CoefficientDisplay.from_result({"a": Result(table), "b": other})
    with pytest.raises(TypeError, match="`estimator` is of type dict"):
        CoefficientDisplay.from_estimator({})
    assert not pyplot.get_fignums()


def test_bootstrap_ranks_and_shades():
    result = bootstrap_result(40)
    display = BootstrapDisplay.from_result(result)
    ordered = result.intervals.iloc[:-1].sort_values("coef")
    assert display.table.index.tolist() == ordered.index.tolist()
    offsets = display.points_.get_offsets()
    np.testing.assert_allclose(offsets[:, 0], np.exp(ordered["coef"]))
    np.testing.assert_array_equal(offsets[:, 1], np.arange(39))
    expected = np.column_stack([np.exp(ordered[["lower", "upper"]]), np.arange(39)])
    low, high = display.ax_.get_xlim()
    np.testing.assert_allclose(
        segments(display.intervals_), expected.clip([low, low, 0], [high, high, 40])
    )
    frequency = result.selection_frequency[ordered.index].to_numpy()
    np.testing.assert_array_equal(display.intervals_.get_array(), frequency)
    shades = display.intervals_.to_rgba(display.intervals_.get_array())
    darkness = 1 - shades[:, :3].mean(axis=1)
    assert (np.diff(darkness[np.argsort(frequency)]) >= -1e-3).all() and np.ptp(darkness) > 0.3
    assert display.intervals_.get_clim() == (0.0, 1.0)
    assert display.colorbar_.mappable is display.intervals_


def test_bootstrap_chooses_rows():
    result = bootstrap_result(40)
    often = BootstrapDisplay.from_result(result, min_frequency=0.5).table
    assert set(often.index) == {f"drug {j}" for j in range(20)}
    share = float(result.selection_frequency.iloc[9])
    some = BootstrapDisplay.from_result(result, min_frequency=share).table
    assert set(some.index) == {f"drug {j}" for j in range(10)}
    top = BootstrapDisplay.from_result(result, n_top=7).table
    assert set(top.index) == {*result.intervals["coef"].abs().nlargest(7).index}
    assert top["coef"].is_monotonic_increasing


@pytest.mark.layout
def test_bootstrap_names_the_outermost_on_their_side():
    result = bootstrap_result(300)
    with pyplot.rc_context({"figure.figsize": (3.5, 3.0)}):
        display = BootstrapDisplay.from_result(result, n_labels=10)
    outermost = result.intervals["coef"].abs().nlargest(10).index
    assert {text.get_text() for text in display.labels_} == set(outermost)
    display.figure_.draw_without_rendering()
    boxes = {text.get_text(): Text.get_window_extent(text) for text in display.labels_}
    for name, box in boxes.items():
        is_left = box.x1 < display.ax_.bbox.x0
        assert is_left == (result.intervals["coef"][name] < 0)
        assert is_left or box.x0 > display.ax_.bbox.x1
        assert not any(box.overlaps(other) for key, other in boxes.items() if key != name)


@pytest.mark.layout
@pytest.mark.parametrize(("width", "n_rows"), thin(3, [3.5, 7.0], [2, 500]))
def test_bootstrap_with_endless_intervals(n_rows, width):
    result = bootstrap_result(n_rows)
    result.intervals.iloc[0, 1:] = [-np.inf, np.inf]
    result.intervals.iloc[0, 0] = 0.5
    with pyplot.rc_context({"figure.figsize": (width, 4.0)}):
        display = BootstrapDisplay.from_result(result)
    display.figure_.draw_without_rendering()
    low, high = display.ax_.get_xlim()
    assert 0.01 < low < 1 < high < 100
    row = display.table.index.get_loc("drug 0")
    np.testing.assert_allclose(segments(display.intervals_)[row], [low, high, row])


def test_bootstrap_refuses():
    result = bootstrap_result(5)
    with pytest.raises(TypeError, match="which has no `selection_frequency`"):
        BootstrapDisplay.from_result(Result(result.intervals))
    with pytest.raises(ValueError, match="`min_frequency` is 2, must lie"):
        BootstrapDisplay.from_result(result, min_frequency=2)
    with pytest.raises(ValueError, match="`n_top` is 0, must be"):
        BootstrapDisplay.from_result(result, n_top=0)
    never = Bootstrap(result.intervals, selection_frequency=result.selection_frequency * 0)
    with pytest.raises(ValueError, match="all coefficients are 0 in all replicates"):
        BootstrapDisplay.from_result(never)
    assert not pyplot.get_fignums()


def schoenfeld_test(transform="km", **groups):
    """Of the 137 men of survival's veteran."""
    data, y = load_veterans_lung_cancer()
    X = data[["Karnofsky_score", "Age_in_years"]].div(10).set_axis(["karno", "age"], axis=1)
    X["test"] = (data["Treatment"] == "test").astype(float)
    for cell in ("smallcell", "adeno", "squamous"):
        X[cell] = (data["Celltype"] == cell).astype(float)
    y = surv(y["Status"], y["Survival_in_days"])
    model = CoxLassoCCD(alpha=0, ties="efron", tol=1e-10).fit(X, y)
    return proportional_hazards_test(model, X, y, transform=transform, **groups)


def test_schoenfeld_curves():
    """predict(lm(residuals ~ splines::ns(x, df = 3)), interval = "confidence") of R 4.2."""
    result = schoenfeld_test()
    display = SchoenfeldDisplay.from_result(result)
    names = ["karno", "age", "test", "smallcell", "adeno", "squamous"]
    ends = ["< 0.001", "0.17", "0.59", "0.046", "0.01", "0.06"]
    expected = [f"{name}, p {end}" for name, end in zip(names, ends, strict=True)]
    assert [ax.get_title() for ax in display.axes_] == expected
    x, y = display.curves_[0].get_data()
    expected = [-0.5902743820, -0.5476353729, -0.2922370446]
    np.testing.assert_allclose(y[[0, 50, 199]], expected, rtol=1e-8)
    corners = display.areas_[0].get_paths()[0].vertices
    lower = np.interp(x[[0, 50, 199]], *corners[1:201].T)
    expected = [-0.9372278186, -0.7371981120, -0.6653803015]
    np.testing.assert_allclose(lower, expected, rtol=1e-6)
    points = display.points_[3].get_offsets()
    np.testing.assert_array_equal(points[:, 0], result.transformed_time)
    np.testing.assert_array_equal(points[:, 1], result.residuals[:, 3])
    assert display.constants_[3].get_ydata()[0] == pytest.approx(0.454008179)  # the coefficient


def test_schoenfeld_columns_level_and_time():
    result, (_, axes) = schoenfeld_test("log"), pyplot.subplots(1, 2)
    display = SchoenfeldDisplay.from_result(result, columns=["adeno", 0], level=0.5, axes=axes)
    assert list(display.axes_) == list(axes)
    assert display.curves_[1].get_ydata()[0] != display.curves_[0].get_ydata()[0]
    labels = [float(text.get_text()) for text in axes[0].get_xticklabels()]
    np.testing.assert_allclose(np.exp(axes[0].get_xticks()), labels, rtol=0.005)
    wide = SchoenfeldDisplay.from_result(result, columns="adeno")
    height = [np.ptp(d.areas_[0].get_paths()[0].vertices[:, 1]) for d in (display, wide)]
    assert height[0] < height[1]


def test_schoenfeld_of_factors():
    result = schoenfeld_test(groups={"cell": ["smallcell", "adeno", "squamous"]})
    display = SchoenfeldDisplay.from_result(result, columns=["adeno", "age"])
    assert [ax.get_title() for ax in display.axes_] == ["adeno, p of cell 0.0019", "age, p 0.17"]
    np.testing.assert_array_equal(display.points_[0].get_offsets()[:, 1], result.residuals[:, 4])


def test_schoenfeld_refuses():
    result = schoenfeld_test()
    with pytest.raises(TypeError, match="pass what proportional_hazards_test returns"):
        SchoenfeldDisplay.from_result(Result(interval_table(2)))
    with pytest.raises(ValueError, match="did you mean 'karno'"):
        SchoenfeldDisplay.from_result(result, columns="karn")
    result.residuals[:, 2] = np.nan
    assert len(SchoenfeldDisplay(result).rows) == 5
    with pytest.raises(ValueError, match="there are 0 columns whose coefficients the data det"):
        SchoenfeldDisplay(result, "test")
    with pytest.raises(ValueError, match="`level` is 95"):
        SchoenfeldDisplay.from_result(result, level=95)
    pyplot.close("all")


@pytest.mark.parametrize("ratio", [True, False])
def test_profile_panels(ratio):
    result = profile_result(4, level=0.9)
    display = ProfileDisplay.from_result(result, ratio=ratio)
    shown = np.exp if ratio else np.asarray
    assert len(display.axes_) == 4
    assert [ax.get_title() for ax in display.axes_] == result.intervals.index.tolist()
    for i, (name, row) in enumerate(result.intervals.iterrows()):
        curve = result.curves[result.curves["feature"] == name]
        x, y = display.curves_[i].get_data()
        place = np.searchsorted(shown(curve["value"].to_numpy()), x - 1e-12)
        np.testing.assert_allclose(x, shown(curve["value"].to_numpy()[place]))
        np.testing.assert_allclose(y, curve["log_likelihood_ratio"].to_numpy()[place])
        assert y[0] > display.cut < y[-1]
        assert display.cuts_[i].get_ydata()[0] == pytest.approx(chi2.ppf(0.9, 1))
        points = display.bounds_[i].get_offsets()
        np.testing.assert_allclose(points[:, 0], shown(row[["lower", "upper"]].to_numpy()))
        np.testing.assert_allclose(points[:, 1], display.cut)


@pytest.mark.layout
def test_profile_endless_bounds_and_columns():
    result = profile_result(5)
    result.intervals.iloc[2, 1] = -np.inf
    _, axes = pyplot.subplots(1, 2)
    display = ProfileDisplay.from_result(result, columns=["drug 2", 0], axes=axes)
    assert list(display.axes_) == list(axes)
    assert [len(points.get_offsets()) for points in display.bounds_] == [1, 2]
    with pyplot.rc_context({"figure.figsize": (3.5, 3.0)}):
        narrow = ProfileDisplay.from_result(result)
    assert len(narrow.figure_.axes) == 5
    assert len({round(ax.get_position().x0, 2) for ax in narrow.axes_}) == 2


@pytest.mark.layout
def test_profile_long_names_fit_their_panel():
    result = profile_result(3)
    result.intervals = result.intervals.rename(index={"drug 1": LONG_NAME})
    result.curves = result.curves.replace({"feature": {"drug 1": LONG_NAME}})
    display = ProfileDisplay.from_result(result)
    display.figure_.draw_without_rendering()
    box = display.axes_[1].title.get_window_extent()
    assert box.width < 1.1 * display.axes_[1].bbox.width
    assert display.axes_[1].get_title().endswith("daily")


def test_profile_refuses():
    result = profile_result(2)
    with pytest.raises(TypeError, match="which has no `curves`"):
        ProfileDisplay.from_result(Result(result.intervals))
    with pytest.raises(ValueError, match="without the column 'value'"):
        ProfileDisplay(result.curves.drop(columns="value"), result.intervals)
    with pytest.raises(ValueError, match="no rows for 'drug 1'"):
        ProfileDisplay(result.curves.iloc[:20], result.intervals)
    with pytest.raises(ValueError, match=r"1 axes for 2 coefficient\(s\)"):
        ProfileDisplay.from_result(result, axes=[None])
    with pytest.raises(ValueError, match="31 coefficients, a figure shows at most 30"):
        ProfileDisplay.from_result(profile_result(31))
    assert not pyplot.get_fignums()


def calibration(shift=0.0, horizon=5.0):
    groups = pd.DataFrame(
        {
            "n": [10, 20, 30],
            "predicted": [0.1, 0.2, 0.4],
            "observed": [0.12 + shift, np.nan, 0.35],
            "lower": [0.05, np.nan, 0.3],
            "upper": [0.2, np.nan, 0.45],
        }
    )
    return SimpleNamespace(groups=groups, horizon=horizon, level=0.95)


def test_calibration():
    display = CalibrationDisplay.from_result(calibration())
    np.testing.assert_allclose(display.points_[""].get_offsets(), [[0.1, 0.12], [0.4, 0.35]])
    ends = [(line[0, 1], line[1, 1]) for line in display.intervals_[""].get_segments()]
    np.testing.assert_allclose(ends, [(0.05, 0.2), (0.3, 0.45)])
    assert display.ax_.get_xlim() == display.ax_.get_ylim() == (0.0, pytest.approx(1.05 * 0.45))
    assert display.ax_.get_xlabel() == "predicted risk by time 5"
    both = CalibrationDisplay.from_result({"lasso": calibration(), "ridge": calibration(0.05)})
    assert [text.get_text() for text in both.ax_.get_legend().get_texts()] == ["lasso", "ridge"]
    places = [both.points_[key].get_offsets()[0, 0] for key in ("lasso", "ridge")]
    assert np.mean(places) == pytest.approx(0.1) and places[0] < places[1]


def test_calibration_refuses():
    with pytest.raises(TypeError, match="which has no table `groups`"):
        CalibrationDisplay.from_result(interval_table(3))
    with pytest.raises(ValueError, match="different times: 5, 6"):
        CalibrationDisplay.from_result({"a": calibration(), "b": calibration(horizon=6.0)})
    with pytest.raises(ValueError, match="empty dictionary"):
        CalibrationDisplay.from_result({})
    empty = calibration()
    empty.groups["observed"] = np.nan
    with pytest.raises(ValueError, match="no group has a known risk"):
        CalibrationDisplay.from_result(empty)


@pytest.mark.layout
@pytest.mark.parametrize("coef", [20.0, -441.0, 900.0])
@pytest.mark.parametrize("display", [CoefficientDisplay, BootstrapDisplay])
def test_ratios_beyond_floating_point(display, coef):
    table = interval_table(3)
    table.iloc[1] = coef, -np.inf if coef < 0 else -8_600.0, 8_600.0
    result = Result(table)
    if display is BootstrapDisplay:
        result = Bootstrap(table, selection_frequency=pd.Series(1.0, index=table.index))
    drawn = display.from_result(result)
    drawn.figure_.draw_without_rendering()
    assert np.isfinite(drawn.ax_.get_xlim()).all()
    if display is CoefficientDisplay:
        assert {side for _, side in drawn.arrows_} == {"lower", "upper"}


@pytest.mark.layout
def test_nothing_to_draw_leaves_no_figure(monkeypatch):
    before, table = pyplot.get_fignums(), interval_table(2)
    for empty in (table[:0], table * np.nan):
        with pytest.raises(ValueError, match=r"`result` has no .* there is nothing to draw"):
            CoefficientDisplay.from_result(Result(empty))
        with pytest.raises(ValueError, match=r"`tables` has no .* there is nothing to draw"):
            CoefficientDisplay(empty).plot()
    with pytest.raises(ValueError, match="`tables` has a table without the column 'lower'"):
        CoefficientDisplay(table[["coef"]])
    with monkeypatch.context() as patch:
        patch.delattr(Forest, "mark_axis")
        with pytest.raises(AttributeError, match="mark_axis"):
            CoefficientDisplay(table).plot()
    assert pyplot.get_fignums() == before
    assert drawn_names(CoefficientDisplay(table).plot()) == table.index.tolist()


@pytest.mark.layout
@pytest.mark.parametrize(("is_given", "name"), thin(3, [False, True], [r"$\frac{a$", "5$ to 9$"]))
def test_dollars_are_no_mathematics(name, is_given):
    def ax():
        return pyplot.subplots()[1] if is_given else None

    rename = {"drug 1": name}
    table = interval_table(3).rename(index=rename)
    profile = profile_result(1)
    profile.intervals = profile.intervals.rename(index=lambda _: name)
    profile.curves = profile.curves.assign(feature=name)
    curve = StepFunction(np.array([1.0, 2.0]), np.array([0.9, 0.5]))
    groups = pd.DataFrame(
        {"predicted": [0.1], "observed": [0.2], "lower": [0.1], "upper": [0.3]}, index=[1]
    )
    y = surv([True, False, True, True], [1.0, 2.0, 3.0, 4.0])
    drawn = [
        CoefficientDisplay({name: table, "other": table}, effect=name).plot(ax()),
        BootstrapDisplay(table, np.ones(3), effect="hazard ratio").plot(ax()),
        ProfileDisplay.from_result(profile, axes=[ax()] if is_given else None),
        CalibrationDisplay({name: groups, "other": groups}).plot(ax()),
        PathDisplay(np.array([1.0, 0.1]), np.array([[0.0, 1.0]]), [name]).plot(ax()),
        SurvivalDisplay([curve], [name]).plot(
            ax(), kaplan_meier=y, groups=[name, name, "b", "b"], at_risk=True
        ),
        CumulativeIncidenceDisplay([curve], [name]).plot(ax()),
    ]
    for display in drawn:
        display.figure_.draw_without_rendering()
        named = [text for text in display.figure_.findobj(Text) if "$" in text.get_text()]
        assert named, type(display)
        assert not any(text.get_parse_math() for text in named), type(display)


def test_tables_of_other_rows_are_drawn_at_their_names():
    one = pd.DataFrame({"upper": [1.0, 2.0], "coef": [0.5, 1.5], "lower": [0.0, 1.0]}, ["a", "b"])
    other = one.loc[["b", "a"]].rename(index={"a": "c"})
    display = CoefficientDisplay({"one": one, "other": other}).plot()
    heights = {
        name: dict(zip(points.get_offsets()[:, 0], points.get_offsets()[:, 1], strict=True))
        for name, points in display.points_.items()
    }
    assert [label.get_text() for label in display.ax_.get_yticklabels()] == ["a", "b", "c"]
    assert {x: round(y) for x, y in heights["one"].items()} == {0.5: 0, 1.5: 1}
    assert {x: round(y) for x, y in heights["other"].items()} == {1.5: 1, 0.5: 2}


@pytest.mark.parametrize(
    ("tables", "match"),
    [
        ({}, "`tables` is an empty dictionary"),
        (
            pd.DataFrame(0.0, range(101), ["coef", "lower", "upper"]),
            "101 coefficients",
        ),
        (
            {
                rows: pd.DataFrame(0.0, list(rows), ["coef", "lower", "upper"])
                for rows in ("aa", "ab")
            },
            "two rows of the same name",
        ),
    ],
)
def test_tables_that_cannot_be_drawn_are_refused(tables, match):
    with pytest.raises(ValueError, match=match):
        CoefficientDisplay(tables)


@pytest.mark.parametrize("n_top", [0, -1, 1.5])
def test_number_of_coefficients_is_checked(n_top):
    data = simulate_cox(100, 3, density=0.5, random_state=0)
    with pytest.raises(ValueError, match="must be a whole number of at least 1"):
        CoefficientDisplay.from_estimator(CoxLassoCCD().fit(data.X, data.y), n_top=n_top)


def test_profile_of_columns_that_are_numbers():
    value = np.linspace(-1.0, 1.0, 5)
    curves = pd.DataFrame({"feature": 0, "value": value, "log_likelihood_ratio": 4 * value**2})
    intervals = pd.DataFrame({"coef": 0.0, "lower": -0.98, "upper": 0.98}, index=[0])
    assert len(ProfileDisplay(curves, intervals).plot().intervals) == 1


@pytest.mark.parametrize(
    ("row", "texts"),
    [
        ((0.9892, 0.9801, 0.9983), ("0.989", "(0.980, 0.998)")),
        ((1.0002, 1.0001, 1.0004), ("1.00020", "(1.00010, 1.00040)")),
        ((1.31, 1.11, 1.55), ("1.31", "(1.11, 1.55)")),
        ((0.31, 0.0588, 1.61), ("0.31", "(0.059, 1.61)")),
        ((1.0, 1.0, 1.0), ("1.00", "(1.00, 1.00)")),
        ((1.004, 0.0, np.inf), ("1.004", "(0, ∞)")),
        ((1.004, np.nan, np.nan), ("1.004", "")),
    ],
)
def test_decimals_tell_bounds_apart(row, texts):
    with np.errstate(divide="ignore"):
        table = pd.DataFrame([np.log(row)], ["a"], ["coef", "lower", "upper"])
    display = CoefficientDisplay(table, effect="hazard ratio", level=0.95).plot()
    [shown] = display.numbers_
    assert tuple(text.get_text() for text in shown) == texts
