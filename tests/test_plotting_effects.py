"""Figures of the effects of additive models."""

import numpy as np
import pandas as pd
import pytest

from sksurvgpu import (
    CoxLassoCCD,
    EffectsDisplay,
    LinearCCD,
    PrepareColumns,
    SplineColumns,
    StepColumns,
    bootstrap,
    make_pipeline,
    surv,
)
from sksurvgpu.exceptions import NothingSelectedWarning

pyplot = pytest.importorskip("matplotlib.pyplot")

N = 300


@pytest.fixture(autouse=True)
def close():
    yield
    pyplot.close("all")


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    columns = {"age": rng.uniform(20, 80, N), "noise": rng.normal(size=N)}
    return pd.DataFrame(columns | {"drug": rng.integers(0, 2, N)})


@pytest.fixture(scope="module")
def y(frame):
    rng = np.random.default_rng(1)
    return surv(np.full(N, True), rng.exponential(np.exp(-1.5 * (frame["age"] > 50))))


def test_steps_are_drawn_where_they_are(frame, y):
    pipe = make_pipeline(StepColumns(), CoxLassoCCD(alpha=0.08)).fit(frame, y)
    result = bootstrap(
        pipe[-1], pipe[0].transform(frame), y, n_replicates=10, level=0.9, random_state=0
    )
    display = EffectsDisplay.from_estimator(pipe, frame, result=result, reference={"age": 30})
    [curve], [area] = display.curves_, display.areas_  # and none of noise
    table = pipe[0].effects(result, reference={"age": 30}).query("variable == 'age'")
    x, ratio = curve.get_data()
    assert curve.get_drawstyle() == "steps-post"
    np.testing.assert_array_equal(x[1:-1], table["value"][1:])
    assert (x[0], x[-1]) == (frame["age"].min(), frame["age"].max())
    np.testing.assert_allclose(ratio[:-1], np.exp(table["effect"]))
    corners = area.get_paths()[0].vertices
    np.testing.assert_allclose(corners[:, 1].max(), np.exp(table["upper"].max()))
    [ax] = display.axes_
    assert ax.get_yscale() == "log" and ax.get_title() == "age"
    assert display.figure_._supylabel.get_text() == "hazard ratio"
    ticks = [float(text.get_text()) for text in ax.get_yticklabels()]
    np.testing.assert_allclose(ax.get_yticks(), ticks)
    low, high = ax.get_ylim()
    assert 3 <= np.sum((low <= ax.get_yticks()) & (ax.get_yticks() <= high)) <= 6


def test_curves_of_variables_have_one_scale(frame, y):
    pipe = make_pipeline(
        PrepareColumns(min_count=1), SplineColumns(smooth=True), CoxLassoCCD(alpha=0.01)
    ).fit(frame, y)
    display = EffectsDisplay.from_estimator(pipe, frame, columns=["noise", "age"], ratio=False)
    assert [ax.get_title() for ax in display.axes_] == ["noise", "age"]
    assert display.axes_[0].get_ylim() == display.axes_[1].get_ylim()
    assert display.areas_ == [] and display.axes_[0].get_yscale() == "linear"
    table = pipe[1].effects(pipe[-1].coef_).query("variable == 'age'")
    np.testing.assert_array_equal(display.curves_[1].get_ydata(), table["effect"])
    assert repr(display) == "<EffectsDisplay of 2 variables>"
    _, axes = pyplot.subplots(1, 2)
    assert list(display.plot(axes).axes_) == list(axes)
    counts, *_ = axes[1].patches[-1].get_data()
    expected = np.histogram(frame["age"], 40)[0]
    np.testing.assert_allclose(counts / counts.max(), expected / expected.max())


def test_effects_of_a_table_and_of_models_without_ratios(frame):
    pipe = make_pipeline(StepColumns(columns=["age"]), LinearCCD(alpha=0.1))
    pipe.fit(frame, (frame["age"] > 40) * 3.0)
    display = EffectsDisplay.from_estimator(pipe, frame)
    assert display.effect is None
    alone = EffectsDisplay(pipe[0].effects(pipe[1].coef_)).plot()
    assert not alone.axes_[0].patches  # no histogram


def test_effects_that_cannot_be_drawn(frame, y):
    model = CoxLassoCCD(alpha=0.05).fit(frame, y)
    with pytest.raises(TypeError, match="`estimator` is of type CoxLassoCCD; pass a pipeline with"):
        EffectsDisplay.from_estimator(model, frame)
    pipe = make_pipeline(PrepareColumns(min_count=1), CoxLassoCCD(alpha=0.05)).fit(frame, y)
    with pytest.raises(TypeError, match="`estimator` is of type Pipeline; pass a pipeline with"):
        EffectsDisplay.from_estimator(pipe, frame)
    none = make_pipeline(StepColumns(), CoxLassoCCD(alpha=10.0))
    with pytest.warns(NothingSelectedWarning):
        none.fit(frame, y)
    with pytest.raises(ValueError, match="there are 0 variables with an effect"):
        EffectsDisplay.from_estimator(none, frame)
    with pytest.raises(ValueError, match="`columns` has 'hair'"):
        EffectsDisplay.from_estimator(none, frame, columns=["hair"])
    with pytest.raises(ValueError, match="a table without the column 'effect'"):
        EffectsDisplay(frame.assign(variable="age", value=1.0))
