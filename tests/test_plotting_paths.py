"""Figures over the penalty, and what all figures share."""

import sys
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from results import LONG_NAME, score_table
from scipy.optimize import minimize
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

from sksurvgpu import CoxLassoCCD, CVDisplay, PathDisplay, fit_path
from sksurvgpu.datasets import simulate_cox
from sksurvgpu.plotting._labels import spread
from sksurvgpu.plotting._style import COLOURS, shorten

pyplot = pytest.importorskip("matplotlib.pyplot")
Text = pytest.importorskip("matplotlib.text").Text
pytestmark = pytest.mark.usefixtures("layout_if_asked")


@pytest.fixture(scope="module")
def path():
    data = simulate_cox(400, 20, density=0.3, random_state=0)
    return fit_path(CoxLassoCCD(), data.X, data.y, n_alphas=12, alpha_min_ratio=0.02)


def fake_path(coefs, alphas, names=None):
    coefs = np.asarray(coefs, dtype=float)
    names = [f"x{j}" for j in range(len(coefs))] if names is None else names
    return SimpleNamespace(alphas=np.asarray(alphas), coefs=coefs, feature_names=np.array(names))


def top_counts(display):
    """{position: text} of the axis on top."""
    ticks = display.top_axis_.get_xticks()
    return dict(
        zip(ticks, (t.get_text() for t in display.top_axis_.get_xticklabels()), strict=True)
    )


def boxes(texts):
    """Where texts are, without their leaders."""
    texts[0].figure.draw_without_rendering()
    return [Text.get_window_extent(text) for text in texts]


def test_path_draws_every_selected_coefficient(path):
    display = PathDisplay.from_path(path)
    selected = np.flatnonzero(np.any(path.coefs != 0, axis=1))
    assert [line.get_label() for line in display.lines_] == path.feature_names[selected].tolist()
    for line, k in zip(display.lines_, selected, strict=True):
        np.testing.assert_array_equal(line.get_xdata(), path.alphas)
        np.testing.assert_array_equal(line.get_ydata(), path.coefs[k])
    assert display.ax_.get_xscale() == "log" and display.ax_.xaxis_inverted()
    assert display.figure_ is display.ax_.figure and display.highlight_ is None


def test_path_over_the_norm(path):
    display = PathDisplay.from_path(path, x="norm", highlight=path.alphas[5])
    norm = [sum(abs(c) for c in path.coefs[:, i]) for i in range(len(path))]
    np.testing.assert_allclose(display.lines_[0].get_xdata(), norm)
    assert display.highlight_.get_xdata()[0] == pytest.approx(norm[5])
    between = PathDisplay.from_path(path, x="norm", highlight=path.alphas[4:6].mean())
    assert norm[4] < between.highlight_.get_xdata()[0] < norm[5]


@pytest.mark.parametrize("x", ["alpha", "norm"])
def test_numbers_of_coefficients_are_on_top(path, x):
    display = PathDisplay.from_path(path, x=x)
    position = path.alphas if x == "alpha" else np.abs(path.coefs).sum(axis=0)
    counts = top_counts(display)
    assert {position[0], position[-1]} <= set(counts)
    for place, text in counts.items():
        assert int(text) == path.df[np.flatnonzero(position == place)[0]]


def test_path_names_what_ends_largest(path):
    display = PathDisplay.from_path(path, n_labels=4)
    largest = np.argsort(-np.abs(path.coefs[:, -1]))[:4]
    assert [text.get_text() for text in display.labels_] == path.feature_names[largest].tolist()
    coloured = [line.get_label() for line in display.lines_ if line.get_color() in COLOURS]
    assert set(coloured) == set(path.feature_names[largest])
    for text, k in zip(display.labels_, largest, strict=True):
        assert tuple(text.xy) == (path.alphas[-1], path.coefs[k, -1])
    assert not PathDisplay.from_path(path, n_labels=0).labels_


def test_path_names_what_came_back_last():
    path = fake_path([[0, 5, 0.1], [0, 1, 1], [0, 2, 0], [0, 3, 0]], [0.3, 0.2, 0.1])
    display = PathDisplay.from_path(path)
    assert [text.get_text() for text in display.labels_] == ["x1", "x0", "x3", "x2"]


@pytest.mark.layout
def test_names_do_not_overlap_and_stay_in_the_figure():
    ends = [0.5, 0.501, 0.502, 0.503, -0.2, -0.2, 0.0001, 1.0]
    path = fake_path(np.outer(ends, [0, 1]), [0.1, 0.01], [LONG_NAME, *"abcdefg"])
    with pyplot.rc_context({"figure.figsize": (3.5, 2.5)}):
        display = PathDisplay.from_path(path, n_labels=8)
    found = boxes(display.labels_)
    for i, one in enumerate(found):
        assert not any(one.overlaps(other) for other in found[:i])
        assert display.figure_.bbox.x1 >= one.x1 and one.x0 > display.ax_.bbox.x1
        assert display.ax_.bbox.y0 - 1 <= one.y0 and one.y1 <= display.ax_.bbox.y1 + 1
    # in the order of the ends
    by_end = sorted(range(8), key=lambda i: display.labels_[i].xy[1])
    assert sorted(by_end, key=lambda i: found[i].y0) == by_end


@pytest.mark.layout
def test_names_without_room_are_left_out_least_first():
    path = fake_path(np.outer(np.arange(1, 41), [0, 1]), [0.1, 0.01])
    with pyplot.rc_context({"figure.figsize": (3.5, 2.0)}):
        display = PathDisplay.from_path(path, n_labels=40)
    assert 5 < len(display.labels_) < 40
    assert [text.get_text() for text in display.labels_[:2]] == ["x39", "x38"]


@pytest.mark.thorough(but=r"alpha")
@pytest.mark.layout
@pytest.mark.parametrize(
    ("coefs", "alphas"),
    [
        ([[0.0, 0.0], [0.0, 0.0]], [0.2, 0.1]),
        ([[0.5], [0.0]], [0.1]),
        ([[0.0, 0.5, 0.0]], [0.3, 0.2, 0.1]),
        ([[0.1, 0.2]], [0.02, 0.0199]),
    ],
    ids=["all zero", "one penalty", "back to zero", "narrow"],
)
@pytest.mark.parametrize("x", ["alpha", "norm"])
def test_awkward_paths(coefs, alphas, x):
    display = PathDisplay.from_path(fake_path(coefs, alphas), x=x, highlight=alphas[0])
    display.figure_.draw_without_rendering()
    assert len(display.lines_) == np.any(np.array(coefs) != 0, axis=1).sum()
    assert np.all(np.isfinite(display.ax_.get_xlim())) and np.ptp(display.ax_.get_xlim()) > 0


@pytest.mark.thorough(but=r"1\.8-0\.02|7\.0-1e-05")
@pytest.mark.layout
@pytest.mark.parametrize("least", [0.19, 0.02, 1e-5, 1e-12])
@pytest.mark.parametrize("width", [1.8, 7.0])
def test_numbers_of_penalties_do_not_overlap(least, width):
    _, ax = pyplot.subplots(figsize=(width, 2.5), layout="constrained")
    display = PathDisplay.from_path(fake_path([[0.0, 0.3]], [0.2, least]), ax=ax)
    display.figure_.draw_without_rendering()
    places = [tick for tick in ax.get_xticks() if ax.get_xlim()[1] <= tick <= ax.get_xlim()[0]]
    texts = dict(zip(ax.get_xticks(), ax.get_xticklabels(), strict=True))
    assert 1 <= len(places) <= 6
    assert all(texts[place].get_text() == f"{place:g}" for place in places)
    boxes = sorted((texts[place].get_window_extent() for place in places), key=lambda b: b.x0)
    assert all(one.x1 < other.x0 for one, other in pairwise(boxes))


def test_path_refuses():
    path = fake_path([[0.0, 1.0]], [0.1, 0.0])
    with pytest.raises(ValueError, match=r'alpha 0, which has no place.* pass x="norm"'):
        PathDisplay.from_path(path)
    with pytest.raises(ValueError, match="`x` is 'lambda', must be"):
        PathDisplay.from_path(path, x="lambda")
    with pytest.raises(ValueError, match=r"`highlight` is 0.3, outside .* 0 to 0.1"):
        PathDisplay.from_path(path, x="norm", highlight=0.3)
    with pytest.raises(TypeError, match="`path` is of type ndarray; pass a Path"):
        PathDisplay.from_path(path.coefs)
    assert not pyplot.get_fignums()


class FakeCV(BaseEstimator):
    """What is read of an estimator that has chosen its penalty."""

    def __init__(self, scoring="loglik"):
        self.scoring = scoring

    def fit(self, table, alpha):
        self.cv_results_, self.alpha_ = table, alpha
        return self


def fake_cv(table, alpha, scoring="loglik"):
    return FakeCV(scoring).fit(table, alpha)


def one_standard_error(table):
    best = max(table.itertuples(), key=lambda row: row.mean_score)
    enough = best.mean_score - best.standard_error
    return best.alpha, max(row.alpha for row in table.itertuples() if row.mean_score >= enough)


@pytest.mark.parametrize("n_alphas", [2, 12, 60])
def test_cv_draws_scores_in_any_order(n_alphas):
    table = score_table(n_alphas)
    shuffled = table.sample(frac=1.0, random_state=0)
    display = CVDisplay.from_estimator(fake_cv(shuffled, table["alpha"][1]))
    np.testing.assert_array_equal(display.line_.get_xdata(), table["alpha"])
    np.testing.assert_array_equal(display.line_.get_ydata(), table["mean_score"])
    best, within = one_standard_error(table)
    assert (display.alpha_best, display.alpha_one_se) == (best, within)
    assert display.best_.get_xdata()[0] == best and display.one_se_.get_xdata()[0] == within
    chosen = display.chosen_.get_xydata()[0]
    np.testing.assert_array_equal(chosen, table.loc[1, ["alpha", "mean_score"]])
    for place, text in top_counts(display).items():
        assert int(text) == table["n_nonzero"][table["alpha"] == place].item()


def test_cv_one_standard_error_is_not_the_best():
    best, within = one_standard_error(score_table(12))
    assert within > best


def test_cv_errors_are_bars_or_a_band():
    table = score_table(12)
    bars = CVDisplay(table, 0.2).plot().errors_.get_segments()
    low, high = table["mean_score"] - 3.0, table["mean_score"] + 3.0
    np.testing.assert_allclose([bar[0] for bar in bars], np.column_stack([table["alpha"], low]))
    np.testing.assert_allclose([bar[1, 1] for bar in bars], high)
    table = score_table(60)
    corners = CVDisplay(table, 0.2).plot().errors_.get_paths()[0].vertices
    assert corners[:, 1].max() == pytest.approx(table["mean_score"].max() + 3.0)
    assert corners[:, 1].min() == pytest.approx(table["mean_score"].min() - 3.0)


def test_cv_leaves_out_penalties_without_a_score():
    table = score_table(6)
    table.loc[5, "mean_score"] = -np.inf
    table.loc[0, "mean_score"] = np.nan
    table.loc[2, "standard_error"] = np.nan  # of a single fold
    display = CVDisplay(table, table["alpha"][3]).plot()
    np.testing.assert_array_equal(display.line_.get_xdata(), table["alpha"][1:5])


def test_cv_says_what_it_shows():
    table = score_table(12)
    display = CVDisplay.from_estimator(fake_cv(table, 0.2))
    texts = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    n_best = table["n_nonzero"][table["alpha"] == display.alpha_best].item()
    assert texts[0] == f"best: {display.alpha_best:.3g} ({n_best} nonzero)"
    assert texts[2] == "chosen"
    assert display.ax_.get_ylabel() == "mean held-out log-likelihood"
    other = CVDisplay.from_estimator(fake_cv(table, 0.2, scoring="concordance_index"))
    assert other.ax_.get_ylabel() == "mean concordance index"

    def my_score(*_):
        return 0.0

    own = CVDisplay.from_estimator(fake_cv(table, 0.2, scoring=my_score))
    assert own.ax_.get_ylabel() == "mean my score"


def test_cv_refuses():
    table = score_table(3)
    with pytest.raises(ValueError, match="no column 'n_nonzero'"):
        CVDisplay(table.drop(columns="n_nonzero"), 0.2)
    with pytest.raises(ValueError, match="no penalty has a finite mean score"):
        CVDisplay(table.assign(mean_score=np.nan), 0.2)
    with pytest.raises(ValueError, match=r"alpha 0, .*leave it out of `alphas`"):
        CVDisplay(table.assign(alpha=[0.2, 0.1, 0.0]), 0.2).plot()
    with pytest.raises(NotFittedError):
        CVDisplay.from_estimator(FakeCV())
    data = simulate_cox(50, 3, random_state=0)
    model = CoxLassoCCD(alpha=0.1).fit(data.X, data.y)
    with pytest.raises(TypeError, match="CoxLassoCCD, which has chosen no alpha"):
        CVDisplay.from_estimator(model)


@pytest.mark.layout
def test_settings_are_left_alone_and_the_users_win(path):
    before = dict(pyplot.rcParams)
    display = PathDisplay.from_path(path, n_labels=1)
    assert dict(pyplot.rcParams) == before
    assert not display.ax_.spines["top"].get_visible()
    assert display.labels_[0].get_size() == display.ax_.xaxis.label.get_size() == 8.0
    with pyplot.rc_context({"font.size": 13.0, "axes.linewidth": 2.0, "figure.figsize": (3, 2)}):
        display = PathDisplay.from_path(path, n_labels=1)
    assert display.labels_[0].get_size() == display.ax_.xaxis.label.get_size() == 13.0
    assert display.ax_.spines["left"].get_linewidth() == 2.0
    assert display.figure_.get_size_inches().tolist() == [3.0, 2.0]


@pytest.mark.layout
def test_axes_of_the_user_keep_their_style(path):
    figure, axes = pyplot.subplots(1, 2)
    display = PathDisplay.from_path(path, ax=axes[1], n_labels=1)
    assert display.ax_ is axes[1] and display.figure_ is figure
    assert display.ax_.spines["right"].get_visible() and not axes[0].lines
    assert display.labels_[0].get_size() == 10.0
    assert pyplot.get_fignums() == [figure.number]


@pytest.mark.layout
def test_axes_of_a_subfigure(path):
    figure = pyplot.figure(layout="constrained")
    ax = figure.subfigures(1, 2)[0].subplots()
    display = PathDisplay.from_path(path, ax=ax)
    assert display.ax_ is ax and display.labels_
    figure.draw_without_rendering()


@pytest.mark.layout
def test_missing_matplotlib_is_named(path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r'need matplotlib.* pip install "sksurvgpu\[plot\]"'):
        PathDisplay.from_path(path)


@pytest.mark.parametrize("seed", range(5))
def test_spread_moves_as_little_as_possible(seed):
    rng = np.random.default_rng(seed)
    wanted, gap = rng.uniform(0, 1, 7), 0.1
    moved = spread(wanted, gap, 0.05, 0.95)
    order = np.argsort(wanted)
    assert np.diff(moved[order]).min() > gap - 1e-9
    assert moved.min() > 0.05 - 1e-9 and moved.max() < 0.95 + 1e-9
    rows = np.diff(np.eye(7)[order], axis=0)
    best = minimize(
        lambda x: ((x - wanted) ** 2).sum(),
        np.linspace(0.05, 0.95, 7)[np.argsort(order)],
        jac=lambda x: 2 * (x - wanted),
        bounds=[(0.05, 0.95)] * 7,
        constraints={"type": "ineq", "fun": lambda x: rows @ x - gap, "jac": lambda x: rows},
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    )
    np.testing.assert_allclose(moved, best.x, atol=1e-5)


def test_spread_leaves_what_is_apart():
    np.testing.assert_array_equal(spread([0.5, 0.1, 0.9], 0.2, 0.0, 1.0), [0.5, 0.1, 0.9])


def test_long_names_lose_their_middle():
    assert shorten(["short", "a" * 10 + "b" * 10], 12) == ["short", "aaaaaaaa…bbb"]
    assert shorten(["exactly 12 c"], 12) == ["exactly 12 c"]
    assert len(shorten([LONG_NAME], 20)[0]) == 20


def test_frame_names_reach_the_figure():
    data = simulate_cox(200, 4, density=0.4, random_state=0)
    frame = pd.DataFrame(data.X.toarray(), columns=["age", "sex", "dose", "site"])
    path = fit_path(CoxLassoCCD(), frame, data.y, n_alphas=4)
    display = PathDisplay.from_path(path)
    assert {line.get_label() for line in display.lines_} <= set(frame.columns)


@pytest.mark.parametrize(
    ("coefs", "match"),
    [
        (
            np.zeros((3, 2)),
            r"shape \(3, 2\); of 2 names and 3 penalties it is \(2, 3\)",
        ),
        ([[0.0, 1.0, np.nan], [0.0, 0.0, 1.0]], "`coefs` has values that are not finite"),
    ],
)
def test_path_of_other_shapes_is_refused(coefs, match):
    with pytest.raises(ValueError, match=match):
        PathDisplay([0.3, 0.2, 0.1], coefs, ["a", "b"])


def test_counts_of_folds_are_means():
    table = score_table(10).assign(n_nonzero=7.8)
    display = CVDisplay(table, table["alpha"].iloc[0]).plot()
    assert display.best_.get_label().endswith("(7.8 nonzero)")
    assert display.top_axis_.get_xlabel() == "mean nonzero coefficients"


@pytest.mark.parametrize("relax", [0.0, 0.5, 1.0])
def test_scores_are_those_of_the_relaxation_that_was_chosen(relax):
    gammas = (0.0, 0.5, 1.0)
    tables = [score_table(5, seed).assign(gamma=gamma) for seed, gamma in enumerate(gammas)]
    estimator = BaseEstimator()
    estimator.cv_results_, estimator.alpha_ = pd.concat(tables), tables[0]["alpha"][0]
    estimator.relax_, estimator.fit = relax, None
    display = CVDisplay.from_estimator(estimator)
    expected = tables[round(2 * relax)].sort_values("alpha", ascending=False)["mean_score"]
    assert display.line_.get_ydata().tolist() == expected.tolist()
