"""Figures of chains: traces, densities and ranks."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import norm

from sksurvgpu import Posterior, TraceDisplay

pyplot = pytest.importorskip("matplotlib.pyplot")
pytestmark = pytest.mark.usefixtures("layout_if_asked")


def make_posterior(n_draws=300, **more):
    random = np.random.default_rng(3)
    draws = {
        "coef": random.standard_normal((4, n_draws, 5)),
        "sigma2": random.standard_exponential((4, n_draws)),
        **more,
    }
    draws["coef"][2, :, 3] += 1.0
    draws["sigma2"][0] += 0.5
    return Posterior.from_draws(draws, {"coef": ["age", "sex", "bmi", "dose $5", "x"]})


def test_the_worst_parameters_are_drawn():
    posterior = make_posterior()
    display = TraceDisplay.from_posterior(posterior, n_worst=2)
    assert list(display.draws) == posterior.worst(2).index.tolist() == ["coef[dose $5]", "sigma2"]
    assert display.axes_.shape == (2, 2)
    for row, values in enumerate((posterior.parameter("coef[dose $5]"), posterior.draws["sigma2"])):
        assert len(display.traces_[row]) == 4
        for line, chain in zip(display.traces_[row], values, strict=True):
            np.testing.assert_array_equal(line.get_xdata(), np.arange(1, 301))
            np.testing.assert_array_equal(line.get_ydata(), chain)
    titles = [ax.get_title(loc="left") for ax in display.axes_[:, 0]]
    assert titles == ["coef[dose $5]", "sigma2"]
    worst = posterior.worst()
    note = f"R-hat {worst['r_hat'].iloc[0]:#.3g}, bulk ESS {worst['ess_bulk'].iloc[0]:.0f}"
    assert display.axes_[0, 0].get_title(loc="right") == note
    assert [ax.get_xlabel() for ax in display.axes_[1]] == ["draw", "density"]
    display.figure_.canvas.draw()  # dollars are no mathematics


def test_densities_share_the_axis_of_the_traces():
    quantiles = norm.ppf((np.arange(1000) + 0.5) / 1000)
    display = TraceDisplay({"a": [quantiles, quantiles[::-1] + 3]}).plot()
    trace, beside = display.axes_[0]
    assert trace.get_ylim() == beside.get_ylim()
    for line, mode in zip(display.marginals_[0], (0, 3), strict=True):
        density, value = line.get_data()
        assert value[np.argmax(density)] == pytest.approx(mode, abs=0.05)
        area = np.sum((density[1:] + density[:-1]) * np.diff(value)) / 2
        assert area == pytest.approx(1.0, abs=0.01)
    assert beside.get_xlim()[0] == 0


def test_ranks_of_a_chain_that_lies_above():
    values = np.arange(400.0).reshape(2, 200)
    display = TraceDisplay({"a": values}).plot(kind="rank")
    low, high = (stairs.get_data() for stairs in display.marginals_[0])
    np.testing.assert_array_equal(low.values, [20] * 10 + [0] * 10)
    np.testing.assert_array_equal(high.values, [0] * 10 + [20] * 10)
    np.testing.assert_allclose(low.edges[[0, -1]], [0.5, 400.5])
    assert display.axes_[0, 1].lines[0].get_ydata()[0] == 10
    assert display.axes_[0, 1].get_xlabel() == "rank"


def test_columns_are_chosen_by_label_and_position():
    posterior = make_posterior()
    display = TraceDisplay.from_estimator(
        SimpleNamespace(posterior_=posterior), columns=["sigma2", 0], kind="rank"
    )
    assert list(display.draws) == ["sigma2", "coef[age]"]


def test_long_chains_are_thinned_and_constant_ones_drawn():
    random = np.random.default_rng(0)
    values = np.stack([random.standard_normal(5001), np.full(5001, 2.0)])
    display = TraceDisplay({"a": values}).plot()
    np.testing.assert_array_equal(display.traces_[0][0].get_ydata(), values[0, ::3])
    assert set(display.marginals_[0][1].get_ydata()) == {2.0}
    TraceDisplay({"a": values}).plot(kind="rank").figure_.canvas.draw()


def test_posteriors_without_diagnostics_are_drawn():
    posterior = Posterior.from_draws({"a": np.ones((2, 9)), "b": np.ones((2, 9))})
    display = TraceDisplay.from_posterior(posterior)
    assert list(display.draws) == ["a"]
    assert display.axes_[0, 0].get_title(loc="right") == ""


def test_own_axes():
    figure, axes = pyplot.subplots(2, 2)
    draws = {"a": np.eye(4), "b": np.eye(4)}
    display = TraceDisplay(draws).plot(axes)
    assert display.figure_ is figure and display.axes_[1, 0] is axes[1, 0]
    with pytest.raises(ValueError, match=r"`axes` has 4 axes for 1 parameter\(s\); pass two"):
        TraceDisplay({"a": np.eye(4)}).plot(axes)


@pytest.mark.parametrize(
    ("draw", "error", "match"),
    [
        (lambda: TraceDisplay.from_estimator(object()), TypeError, "has no `posterior_`; pass a"),
        (lambda: TraceDisplay.from_posterior(3), TypeError, "type int; pass a Posterior"),
        (
            lambda: TraceDisplay.from_posterior(make_posterior(), n_worst=0),
            ValueError,
            "is 0, must",
        ),
        (
            lambda: TraceDisplay.from_posterior(make_posterior(), columns=["coef[agee]"]),
            ValueError,
            r"did you mean 'coef\[age\]'",
        ),
        (
            lambda: TraceDisplay.from_posterior(make_posterior(), kind="hist"),
            ValueError,
            "`kind` is 'hist', must be",
        ),
        (lambda: TraceDisplay({"a": np.ones(3)}), ValueError, r"shape \(3,\); pass a row for"),
        (lambda: TraceDisplay({}).plot(), ValueError, "there are 0 parameters, a figure shows"),
    ],
)
def test_figures_that_cannot_be_drawn(draw, error, match):
    with pytest.raises(error, match=match):
        draw()
    assert not pyplot.get_fignums()


@pytest.mark.layout
def test_names_stand_above_their_notes_where_there_is_no_room_beside():
    name, note = "coef[tumour size]", "R-hat 1.00, bulk ESS 2,310"
    draws = {name: np.ones((2, 9)) * np.arange(9)}
    wide = TraceDisplay(draws, notes={name: note}).plot().axes_[0, 0]
    assert (wide.get_title(loc="left"), wide.get_title(loc="right")) == (name, note)
    with pyplot.rc_context({"figure.figsize": (3.5, 2.6)}):
        narrow = TraceDisplay(draws, notes={name: note}).plot().axes_[0, 0]
    assert (narrow.get_title(loc="left"), narrow.get_title(loc="right")) == (f"{name}\n{note}", "")
