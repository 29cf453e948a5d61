"""The figures of balance and of who was left out."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from sksurvgpu import AttritionDisplay, BalanceDisplay
from sksurvgpu.cohort import Cohort

pyplot = pytest.importorskip("matplotlib.pyplot")
pytestmark = pytest.mark.usefixtures("layout_if_asked")


@pytest.fixture
def result():
    """Differences as `cohort.balance` returns them, one infinite."""
    names = ["age", "$sex$", "code", "drug"]
    before, after = [0.1, -0.4, 0.2, np.inf], [0.05, 0.0, -0.3, -0.1]
    table = {"std_diff_before": before, "std_diff_after": after}
    return SimpleNamespace(table=pd.DataFrame(table, index=names))


def test_love_plot(result):
    display = BalanceDisplay.from_result(result, n_top=3, threshold=0.15)
    labels = [label.get_text() for label in display.ax_.get_yticklabels()]
    assert labels == ["drug", "$sex$", "code"]
    points = {name: drawn.get_offsets() for name, drawn in display.points_.items()}
    np.testing.assert_array_equal(points["before"], [[0.4, 1], [0.2, 2]])
    np.testing.assert_array_equal(points["after"], [[0.1, 0], [0.0, 1], [0.3, 2]])
    [arrow] = display.beyond_
    assert arrow.get_ydata() == [0] and arrow.get_xdata() == [display.ax_.get_xlim()[1]]
    assert set(display.threshold_.get_xdata()) == {0.15}
    assert display.ax_.yaxis_inverted()


def test_love_plot_before_an_adjustment(result):
    result.table = result.table[["std_diff_before"]]
    display = BalanceDisplay.from_result(result, threshold=None)
    assert list(display.points_) == ["before"] and display.threshold_ is None
    assert display.ax_.get_legend() is None
    with pytest.raises(ValueError, match="`result` has no adjustment"):
        display.plot(kind="scatter")


def test_scatter(result):
    _, ax = pyplot.subplots()
    display = BalanceDisplay.from_result(result, kind="scatter", ax=ax)
    drawn = display.points_["columns"].get_offsets()
    np.testing.assert_array_equal(drawn, [[0.1, 0.05], [0.4, 0.0], [0.2, 0.3]])
    assert display.ax_ is ax and display.beyond_[0].get_ydata() == [0.1]
    assert ax.get_xlim() == ax.get_ylim()


@pytest.mark.parametrize("kind", ["love", "scatter"])
def test_thresholds_beyond_all_differences_are_seen(result, kind):
    display = BalanceDisplay.from_result(result, kind=kind, threshold=0.6)
    assert display.ax_.get_xlim()[1] > 0.6


def test_what_has_no_figure(result):
    with pytest.raises(TypeError, match="`result` is of type dict; pass a BalanceResult"):
        BalanceDisplay.from_result({})
    with pytest.raises(ValueError, match="`kind` is 'bars', must be one of love, scatter"):
        BalanceDisplay.from_result(result, kind="bars")


@pytest.mark.parametrize(
    "options", [{"n_top": 0}, {"n_top": 2.5}, {"n_top": "a"}, {"threshold": "x"}]
)
def test_options_are_checked(options):
    result = SimpleNamespace(table=pd.DataFrame({"std_diff_before": [0.2, 0.1]}))
    with pytest.raises((TypeError, ValueError), match=f"`{next(iter(options))}` is"):
        BalanceDisplay.from_result(result, **options)


def test_steps_that_left_somebody_out_have_a_box_of_their_own():
    persons = pd.DataFrame({"id": range(4), "treatment": [1, 0, 0, 1]})
    cohort = Cohort.of(persons).keep(np.ones(4, bool), "all").keep([True, False, True, True], "odd")
    display = AttritionDisplay.from_result(cohort)
    counts = [box.get_text().partition("\n") for box in display.boxes_]
    assert [rows for rows, _, _ in counts] == ["4 rows", "3 rows"]
    assert counts[-1][2] == "(2 treated, 1 comparators)"
    assert [box.get_text() for box in display.left_out_] == ["1 left out:\nodd"]
    drawn = AttritionDisplay(cohort.attrition.drop(columns="left_out")).plot()
    assert [box.get_text() for box in drawn.left_out_] == ["1 left out:\nodd"]
    with pytest.raises(TypeError, match="`result` is of type DataFrame, which has no `attrition`"):
        AttritionDisplay.from_result(persons)
