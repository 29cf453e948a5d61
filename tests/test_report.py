"""What a fit shows of itself: the table of coefficients with bounds, the card in notebooks."""

import re
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from results import Result
from sklearn.base import BaseEstimator
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from sksurvgpu import (
    CoxLassoCCD,
    CoxLassoCV,
    LinearCCD,
    bootstrap,
    fit_path,
    make_pipeline,
    profile_likelihood,
    wald,
)
from sksurvgpu.datasets import simulate_cox
from sksurvgpu.estimators._report import fit_card
from sksurvgpu.exceptions import NothingSelectedWarning

shows_the_fit = pytest.mark.skipif(
    not hasattr(BaseEstimator, "_get_fitted_attr_html"),
    reason="scikit-learn before 1.9 does not ask for attributes",
)


@pytest.fixture(scope="module")
def frame():
    data = simulate_cox(300, 8, density=0.4, random_state=0)
    names = ["<b>bold</b> & co", *(f"x{j}" for j in range(1, 8))]
    return pd.DataFrame(data.X.toarray(), columns=names), data.y


@pytest.fixture(scope="module")
def model(frame):
    return CoxLassoCCD(alpha=0.02).fit(*frame)


def bounds(model, columns=slice(None)):
    table = model.summary()[["coef"]]
    table = table.assign(lower=table["coef"] - 0.1, upper=table["coef"] + 0.2)
    return table.iloc[columns]


def test_summary_with_intervals(model):
    table = model.summary(intervals=Result(bounds(model)))
    assert table.columns.tolist() == [
        "coef",
        "lower",
        "upper",
        "hazard_ratio",
        "hazard_ratio_lower",
        "hazard_ratio_upper",
    ]
    np.testing.assert_allclose(table["lower"], model.coef_ - 0.1)
    np.testing.assert_allclose(table["hazard_ratio_lower"], np.exp(model.coef_ - 0.1))
    np.testing.assert_allclose(table["hazard_ratio_upper"], np.exp(model.coef_ + 0.2))
    pd.testing.assert_frame_equal(table[["coef", "hazard_ratio"]], model.summary())


def test_summary_with_intervals_beside_columns_that_are_left_out(frame):
    X, y = frame
    wide = X.assign(sum=X["x1"] + X["x2"])
    few, many = (CoxLassoCCD(alpha=0, tol=1e-10).fit(columns, y) for columns in (X, wide))
    with pytest.warns(UserWarning, match="do not determine the coefficients of `sum`"):
        result = wald(many, wide, y)
    table = many.summary(intervals=result)
    assert table.loc["sum"].isna().all()
    expected = few.summary(intervals=wald(few, X, y))
    pd.testing.assert_frame_equal(table.drop(index="sum"), expected, rtol=1e-6)
    wide["x3"] = wide["x3"].to_numpy()[::-1]
    with pytest.raises(ValueError, match="`intervals` belongs to another fit: its coefficient of"):
        CoxLassoCCD(alpha=0).fit(wide, y).summary(intervals=result)


def test_summary_with_intervals_of_some_columns_in_another_order(model):
    table = model.summary(intervals=Result(bounds(model, [5, 2])))
    assert np.flatnonzero(table["upper"].notna()).tolist() == [2, 5]
    assert table["upper"].iloc[5] == pytest.approx(model.coef_[5] + 0.2)
    assert table["hazard_ratio_upper"].iloc[[0, 1]].isna().all()


def test_summary_without_ratio():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2))
    model = LinearCCD(alpha=0.01).fit(X, X @ [1.0, 2.0])
    table = model.summary(intervals=Result(bounds(model), effect=None))
    assert table.columns.tolist() == ["coef", "lower", "upper"]


def test_summary_with_endless_bounds(model):
    endless = bounds(model).assign(lower=-np.inf, upper=np.inf)
    table = model.summary(intervals=Result(endless))
    assert (table["hazard_ratio_lower"] == 0).all() and np.isinf(table["hazard_ratio_upper"]).all()


def test_summary_refuses(model):
    table = bounds(model)
    with pytest.raises(TypeError, match="`intervals` is of type DataFrame, which has no table"):
        model.summary(intervals=table)
    with pytest.raises(TypeError, match="columns coef, lower and upper"):
        model.summary(intervals=Result(table.drop(columns="upper")))
    with pytest.raises(ValueError, match="the feature 'x9', which is no coefficient of this fit"):
        model.summary(intervals=Result(table.rename(index={"x3": "x9"})))
    changed = table.copy()
    changed.loc["x3", "coef"] += 0.5
    with pytest.raises(ValueError, match="another fit: its coefficient of 'x3' is"):
        model.summary(intervals=Result(changed))


def test_summary_refuses_small_coefficients_of_another_fit():
    rng = np.random.default_rng(1)
    X = 1_000.0 * rng.normal(size=(60, 2))  # coefficients and intervals of thousandths
    model, other = (LinearCCD(alpha=0).fit(X, rng.normal(size=60)) for _ in range(2))
    assert np.abs([model.coef_, other.coef_]).max() < 1e-2
    with pytest.raises(ValueError, match="belongs to another fit"):
        model.summary(intervals=Result(bounds(other).assign(lower=-1e-4, upper=1e-4)))


def test_summary_with_intervals_of_wald(frame):
    model = CoxLassoCCD(alpha=0).fit(*frame)
    result = wald(model, *frame)
    table = model.summary(intervals=result)
    pd.testing.assert_frame_equal(table[["coef", "lower", "upper"]], result.intervals)


def test_summary_with_profiles_of_penalized_columns(frame):
    model = CoxLassoCCD(alpha=0.02, penalty_factor={1: 0.0}).fit(*frame)
    result = profile_likelihood(model, *frame, [1, 2])
    table = model.summary(intervals=result)
    np.testing.assert_array_equal(table["coef"], model.coef_)
    assert abs(result.intervals.loc["x2", "coef"] - model.coef_[2]) > 0.01
    assert table.loc["x2", "upper"] == result.intervals.loc["x2", "upper"]
    other = CoxLassoCCD(alpha=0.2, penalty_factor={1: 0.0}).fit(*frame)
    with pytest.raises(ValueError, match="another fit: its coefficient of 'x1'"):
        other.summary(intervals=result)


class Tables(HTMLParser):
    """Cells of all tables, a list a row."""

    def __init__(self, html):
        super().__init__()
        self.rows, self.is_cell, self.open_tags = [], False, []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
            self.is_cell = True

    def handle_endtag(self, tag):
        self.is_cell = self.is_cell and tag not in ("td", "th")

    def handle_data(self, data):
        if self.is_cell:
            self.rows[-1][-1] += data


def cells(html):
    return {row[0].strip(): row[1:] for row in Tables(html).rows if row}


@shows_the_fit
def test_card_of_a_fit(model):
    found = cells(model._repr_html_())
    n_nonzero = np.count_nonzero(model.coef_)
    assert 0 < n_nonzero < 8
    assert found["alpha"] == ["0.02"]
    assert found["nonzero coefficients"] == [f"{n_nonzero} of 8"]
    assert found["log-likelihood"] == [f"{model.log_likelihood_:,.4f}"]
    assert found["KKT residual"] == [f"{model.kkt_:.2g}"]
    assert found["iterations"] == [str(model.n_iter_)]
    assert found["converged"] == ["yes"] and found["backend"] == ["cpu"]
    largest = np.argsort(-np.abs(model.coef_))[:5]
    names = model.feature_names_in_[largest]
    for name, coef in zip(names, model.coef_[largest], strict=True):
        if coef != 0:
            assert found[name] == [f"{coef:.4g}", f"{np.exp(coef):.4g}"]
    assert found["feature"] == ["coef", "hazard ratio"]
    assert model._repr_mimebundle_()["text/html"].count("Largest coefficients") == 1


@shows_the_fit
def test_card_escapes_names(frame):
    model = CoxLassoCCD(alpha=0.001).fit(*frame)
    html = model._repr_html_()
    assert "<b>bold" not in html
    assert "&lt;b&gt;bold&lt;/b&gt; &amp; co" in html
    assert len(re.findall("<table", html)) == len(re.findall("</table>", html)) >= 3


@shows_the_fit
def test_card_has_the_five_largest_in_order(frame):
    model = CoxLassoCCD(alpha=0.001).fit(*frame)
    assert np.count_nonzero(model.coef_) > 5
    order = np.argsort(-np.abs(model.coef_))[:5]
    names = list(cells(model._repr_html_()))
    start = names.index("feature") + 1
    assert names[start : start + 5] == model.feature_names_in_[order].tolist()
    assert not set(model.feature_names_in_[np.argsort(-np.abs(model.coef_))[5:]]) & set(names)


@shows_the_fit
def test_card_in_a_pipeline(frame):
    pipeline = make_pipeline(FunctionTransformer(), CoxLassoCCD(alpha=0.02))
    assert "KKT residual" not in pipeline._repr_html_()
    html = pipeline.fit(*frame)._repr_html_()
    assert cells(html)["converged"] == ["yes"]


@pytest.mark.filterwarnings("ignore::sksurvgpu.exceptions.NothingSelectedWarning")
@shows_the_fit
def test_card_without_a_coefficient(frame):
    html = CoxLassoCCD(alpha=10.0).fit(*frame)._repr_html_()
    assert cells(html)["nonzero coefficients"] == ["0 of 8"]
    assert "Largest coefficients" not in html


@shows_the_fit
def test_card_of_a_fit_with_a_chosen_penalty(frame):
    model = CoxLassoCV(cv=3, n_alphas=5, random_state=0).fit(*frame)
    found = cells(model._repr_html_())
    assert found["alpha (chosen)"] == [f"{model.alpha_:.4g}"]
    assert "alpha" not in cells(fit_card(model))


def test_unfitted_estimators_are_shown_by_scikit_learn():
    html = CoxLassoCCD()._repr_html_()
    assert "KKT residual" not in html and "CoxLassoCCD" in html


def test_a_fit_that_selects_nothing_says_so(frame):
    empty = CoxLassoCCD(alpha=5.0)
    with pytest.warns(NothingSelectedWarning) as warned:
        top = empty.fit(*frame).alpha_max_
    assert warned[0].filename == __file__
    assert str(warned[0].message) == (
        f"CoxLassoCCD(alpha=5) selects nothing: from alpha_max_={top:.3g} on, all coefficients are "
        "0; take a smaller alpha, or choose it by cross-validation."
    )
    factors = {"x1": 0.0}
    with pytest.warns(NothingSelectedWarning, match="on, all penalized coefficients are 0"):
        CoxLassoCCD(alpha=5.0, penalty_factor=factors).fit(*frame)
    X, y = frame
    for quiet in (
        CoxLassoCCD(alpha=top),
        CoxLassoCCD(alpha=5.0, l1_ratio=0.0),
        CoxLassoCCD(alpha=5.0, penalty_factor=dict.fromkeys(X, 0.0)),
        CoxLassoCV(alphas=[5.0, 4.0], cv=2),
    ):
        quiet.fit(X, y)
    CoxLassoCCD(alpha=5.0).fit(0.0 * X, y)  # of which no penalty would select anything
    fit_path(CoxLassoCCD(), X, y, alphas=[5.0, 4.0])
    search = GridSearchCV(CoxLassoCCD(), {"alpha": [5.0, 4.0, 0.5 * top]}, cv=2).fit(X, y)
    assert search.best_params_["alpha"] < top
    for steps in (CoxLassoCCD(alpha=5.0), make_pipeline(StandardScaler(), CoxLassoCCD(alpha=5.0))):
        cross_val_score(steps, X, y, cv=2, error_score="raise")
    with pytest.warns(NothingSelectedWarning) as warned:  # of what it chose
        GridSearchCV(CoxLassoCCD(), {"alpha": [5.0, 4.0]}, cv=2).fit(X, y)
    assert len(warned) == 1
    bootstrap(CoxLassoCCD(alpha=5.0), X, y, n_replicates=2)
