"""The figure of stability selection."""

import numpy as np
import pytest
from results import stability_result

from sksurvgpu import StabilityDisplay

pyplot = pytest.importorskip("matplotlib.pyplot")
pytestmark = pytest.mark.usefixtures("layout_if_asked")


def test_what_is_drawn():
    result = stability_result(n_selected=(0.5, 1.2, 9.0, 30.0))
    display = StabilityDisplay.from_result(result)
    assert result.alpha_min == 0.1
    assert [line.get_label() for line in display.lines_] == ["age", "sex", "site"]
    for line, values in zip(display.lines_, result.probabilities, strict=False):
        np.testing.assert_array_equal(line.get_xdata(), result.alphas)
        np.testing.assert_array_equal(line.get_ydata(), values)
    assert {label.get_text() for label in display.labels_} == {"age", "sex"}
    assert len({line.get_color() for line in display.lines_}) == 3
    assert set(display.threshold_.get_ydata()) == {0.75}
    assert display.beyond_.get_x() == 0.1
    assert display.ax_.get_xlim()[0] > 0.2
    pyplot.close(display.figure_)


def test_where_nothing_or_all_counts():
    nothing = StabilityDisplay.from_result(stability_result(n_selected=(30.0,) * 4))
    assert not nothing.labels_ and nothing.beyond_.get_x() == nothing.ax_.get_xlim()[0]
    every = StabilityDisplay.from_result(stability_result(n_selected=(0.1,) * 4), n_labels=1)
    assert every.beyond_ is None and [label.get_text() for label in every.labels_] == ["age"]
    _, ax = pyplot.subplots()
    alone = StabilityDisplay(stability_result((0.1,), (0.2,))).plot(ax)
    assert alone.ax_ is ax and alone.lines_[0].get_marker() == "o"
    pyplot.close("all")


def test_what_has_no_figure():
    with pytest.raises(TypeError, match="`result` is of type dict; pass a StabilityResult"):
        StabilityDisplay.from_result({})
    with pytest.raises(ValueError, match="leave it out of `alphas`"):
        StabilityDisplay.from_result(stability_result(alphas=(0.2, 0.1, 0.05, 0.0)))
