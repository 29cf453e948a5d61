"""Posteriors: what they tell of their draws, in memory, in files and in summary."""

import sys
from types import ModuleType

import numpy as np
import pandas as pd
import pytest

from sksurvgpu import CoefficientDisplay, Posterior
from sksurvgpu.bayes.chains import Schedule
from sksurvgpu.bayes.diagnostics import diagnose
from sksurvgpu.bayes.doubts import badness
from sksurvgpu.bayes.draws import Draws
from sksurvgpu.bayes.moments import RunningMoments
from sksurvgpu.bayes.run import Sampled

FEATURES = ["age", "sex", "a|b"]


def make(arrays, names=None, moments=None, doubts=(), **options):
    moments = moments or {}
    some = next(iter(arrays.values()))
    schedule = Schedule(n_chains=some.shape[0], n_tune=500, n_draws=some.shape[1])
    sampled = Sampled(Draws(arrays, moments), schedule, some.shape[1], 1.5, list(doubts))
    return Posterior(sampled, {"coef": FEATURES} if names is None else names, **options)


def draw(seed=0, n_draws=400):
    random = np.random.default_rng(seed)
    return {
        "coef": random.standard_normal((4, n_draws, 3)) * [1.0, 2.0, 3.0] + [0.0, 1.0, -1.0],
        "sigma2": random.standard_exponential((4, n_draws)),
    }


def test_summary_is_that_of_all_draws():
    arrays = draw()
    table = make(arrays, level=0.8).summary()
    assert table.index.tolist() == ["coef[age]", "coef[sex]", "coef[a|b]", "sigma2"]
    assert table.index.name == "parameter"
    pooled = np.column_stack([arrays["coef"].reshape(-1, 3), arrays["sigma2"].ravel()])
    found = [diagnose(arrays[name]) for name in ("coef", "sigma2")]
    expected = {
        "mean": pooled.mean(axis=0),
        "sd": pooled.std(axis=0, ddof=1),
        "lower": np.quantile(pooled, 0.1, axis=0),
        "upper": np.quantile(pooled, 0.9, axis=0),
        **{
            key: np.concatenate([np.ravel(getattr(part, key)) for part in found])
            for key in ("r_hat", "ess_bulk", "ess_tail")
        },
    }
    assert list(table.columns) == list(expected)
    for key, values in expected.items():
        np.testing.assert_allclose(table[key], values, rtol=1e-12, err_msg=key)
    narrow = make(arrays).summary(0.5)
    np.testing.assert_allclose(narrow["upper"], np.quantile(pooled, 0.75, axis=0), rtol=1e-12)


def test_ratios_are_those_of_coefficients():
    posterior = make(draw(), effect="hazard_ratio")
    table, intervals = posterior.summary(), posterior.intervals
    for key in ("lower", "upper"):
        np.testing.assert_allclose(
            table[f"hazard_ratio_{key}"], [*np.exp(intervals[key]), np.nan], rtol=1e-14
        )
    np.testing.assert_allclose(table["hazard_ratio"][:3], np.exp(intervals["coef"]), rtol=1e-14)
    assert "coef" not in table and table["mean"].notna().all()


def test_numbers_come_in_the_shape_of_a_draw(monkeypatch):
    values = np.random.default_rng(1).standard_normal((2, 50, 3, 4))
    posterior = make({"coef": values}, {})
    pooled = values.reshape(100, 3, 4)
    monkeypatch.setattr("sksurvgpu.bayes.draws.READ_BYTES", 5 * 8 * 100)
    np.testing.assert_allclose(posterior.mean("coef"), pooled.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(posterior.sd("coef"), pooled.std(axis=0, ddof=1), rtol=1e-12)
    np.testing.assert_array_equal(
        posterior.quantile("coef", [0.2, 0.7]), np.quantile(pooled, [0.2, 0.7], axis=0)
    )
    assert posterior.quantile("coef", 0.5).shape == (3, 4)
    np.testing.assert_allclose(
        posterior.covariance("coef"), np.cov(pooled.reshape(100, 12).T), rtol=1e-12
    )
    assert posterior.labels[:2] == ["coef[0, 0]", "coef[0, 1]"]
    assert posterior.labels[-1] == "coef[2, 3]"
    np.testing.assert_array_equal(posterior.parameter("coef[1, 2]"), values[:, :, 1, 2])
    np.testing.assert_array_equal(posterior.parameter(11), values[:, :, 2, 3])
    assert repr(posterior).splitlines()[0] == "<Posterior of 2 chains, 50 draws each: coef (3 × 4)>"


def test_intervals_are_drawn_as_a_forest():
    posterior = make(draw(), effect="odds_ratio", level=0.9)
    assert posterior.intervals.index.tolist() == FEATURES
    assert posterior.intervals.index.name == "feature"
    display = CoefficientDisplay.from_result(posterior, sort=None)
    assert (display.effect, display.level) == ("odds ratio", 0.9)
    np.testing.assert_array_equal(display.tables[""], posterior.intervals)
    assert CoefficientDisplay.from_result(make(draw())).effect is None


def test_features_of_one_name_keep_their_rows():
    table = make(draw(), {"coef": ["x", "x", "y"]}, effect="rate_ratio").summary()
    assert table.index.tolist() == ["coef[x]", "coef[x]", "coef[y]", "sigma2"]
    assert table["mean"].iloc[1] > 0.5
    second = make(draw(), {"coef": ["x", "x", "y"]}).parameter(1)
    np.testing.assert_array_equal(second, draw()["coef"][:, :, 1])
    np.testing.assert_array_equal(make(draw()).parameter(3), draw()["sigma2"])


def test_draws_from_elsewhere():
    arrays = draw()
    posterior = Posterior.from_draws(arrays, {"coef": FEATURES}, level=0.9, effect="odds_ratio")
    expected = make(arrays, level=0.9, effect="odds_ratio").summary()
    assert posterior.summary().equals(expected)
    assert (posterior.n_chains, posterior.n_draws) == (4, 400)


def test_good_draws_leave_no_doubt():
    posterior = make(draw())
    assert posterior.doubts() == []
    assert len(posterior.worst(2)) == 2
    assert posterior.seconds == 1.5


def test_the_worst_parameter_is_named():
    arrays = draw()
    arrays["coef"][1, :, 1] += 2.0  # one chain elsewhere
    arrays["sigma2"] = np.repeat(arrays["sigma2"][:, ::10], 10, axis=1)  # draws ten times each
    posterior = make(arrays, doubts=["interrupted after 400 of 900 draws a chain."])
    interrupted, disagreement, dependence = posterior.doubts()
    assert interrupted.startswith("interrupted")
    table = posterior.summary()
    r_hat, ess = table.loc["coef[sex]", "r_hat"], table["ess_bulk"].min()
    assert f"{r_hat:.4g} for coef[sex]; raise n_tune=500 and n_draws=400" in disagreement
    assert f"R-hat is above 1.01 for {(table['r_hat'] > 1.01).sum()} of 4" in disagreement
    assert f"below 400 for 2 of 4 parameters, {ess:.3g} of 1,600 draws" in dependence
    assert posterior.worst(2).index.tolist() == ["coef[sex]", "sigma2"]
    assert posterior.worst().index.tolist() == ["coef[sex]"]
    assert f"draws for {table.index[table['ess_bulk'].argmin()]}; raise n_draws=400" in dependence


def test_badness_is_in_units_of_the_limits():
    table = pd.DataFrame({"r_hat": [1.02, 1.0, np.nan], "ess_bulk": [4000.0, 50.0, np.nan]})
    np.testing.assert_allclose(badness(table, 4), [2.0, 8.0, -np.inf], rtol=1e-12)


def test_constant_parameters_are_not_the_worst():
    arrays = draw()
    arrays["coef"][:, :, 0] = 7.0
    posterior = make(arrays)
    assert posterior.worst(4).index[-1] == "coef[age]"
    arrays = {name: values[:, :3] for name, values in draw().items()}
    assert make(arrays).doubts() == [
        "no parameter has diagnostics: they need four draws a chain, not all the same, and there "
        "are 3; raise n_draws=3."
    ]


@pytest.mark.parametrize("keep", ["draws", "summary"])
@pytest.mark.parametrize(
    ("value", "doubt"),
    [
        (np.nan, "draws are NaN or infinite: of 1 of 4 parameters, first of coef[sex]; rescale"),
        (np.inf, "draws are NaN or infinite: of 1 of 4 parameters, first of coef[sex]; rescale"),
        (1.1, "no chain moves: all draws are the same of 1 of 4 parameters, first of coef[sex];"),
    ],
)
def test_parameters_without_diagnostics_are_doubted(value, doubt, keep):
    arrays = draw()
    arrays["coef"][:, :, 1] = value
    with np.errstate(invalid="ignore"):
        posterior = summarized(arrays) if keep == "summary" else make(arrays)
    assert posterior.doubts()[0].startswith(doubt)


def summarized(arrays, full=True):
    size = arrays["coef"].shape[2]
    moments = RunningMoments(4, (size,))
    if not full:
        moments.scatters = np.zeros((4, size))
    for chain, rows in enumerate(arrays["coef"]):
        moments.add(chain, rows)
    return make({"sigma2": arrays["sigma2"]}, moments={"coef": moments})


@pytest.mark.parametrize("full", [True, False])
def test_summaries_say_what_they_do_not_know(full):
    arrays = draw()
    whole, posterior = make(arrays), summarized(arrays, full)
    assert posterior.labels == ["sigma2", *whole.labels[:3]]
    for name in ("coef", "sigma2"):
        np.testing.assert_allclose(posterior.mean(name), whole.mean(name), rtol=1e-12)
        np.testing.assert_allclose(posterior.sd(name), whole.sd(name), rtol=1e-12)
    table = posterior.summary()
    assert table.loc["sigma2"].notna().all()
    assert table.iloc[1:][["lower", "upper", "ess_bulk", "ess_tail"]].isna().all(axis=None)
    assert "<table" in posterior._repr_html_()
    plain = [np.sqrt(399 / 400 + m.var(ddof=1) / v.mean()) for m, v in columns_of(arrays["coef"])]
    np.testing.assert_allclose(table["r_hat"].iloc[1:], plain, rtol=1e-12)
    for ask in (
        lambda: posterior.quantile("coef", 0.5),
        lambda: posterior.intervals,
        lambda: posterior.parameter("coef[age]"),
    ):
        with pytest.raises(ValueError, match="has kept its mean and spread only; sample with"):
            ask()
    if full:
        expected = whole.covariance("coef")
        np.testing.assert_allclose(posterior.covariance("coef"), expected, rtol=1e-10)
    else:
        with pytest.raises(ValueError, match=r"covariance of 'coef' was not kept"):
            posterior.covariance("coef")


def columns_of(draws):
    return [
        (draws[:, :, k].mean(axis=1), draws[:, :, k].var(axis=1, ddof=1))
        for k in range(draws.shape[2])
    ]


@pytest.mark.parametrize(
    ("ask", "match"),
    [
        (lambda p: p.mean("beta"), "no quantity 'beta', but 'coef', 'sigma2'"),
        (lambda p: p.parameter("coef[9]"), r"no parameter 'coef\[9\]', but 'coef\[age\]'"),
        (lambda p: p.parameter(4), "no parameter 4"),
        (lambda p: p.parameter(True), "no parameter True"),
        (
            lambda p: Posterior.from_draws({"a": np.full((2, 9), np.inf)}),
            "`draws` has NaN or infinite numbers in 'a'; leave",
        ),
        (lambda p: p.quantile("coef", 1.5), "`q` is 1.5, must have probabilities between 0 and 1"),
        (lambda p: p.quantile("coef", [0.5, np.nan]), "must have probabilities"),
        (lambda p: p.summary(95), "`level` is 95, must lie between 0 and 1"),
        (lambda p: make(draw(), {"coef": ["a"]}), "'coef' has 1 labels for 3 numbers"),
        (lambda p: Posterior.from_draws({}), r"`draws` has arrays that begin with the shapes \[\]"),
        (
            lambda p: Posterior.from_draws({"a": np.ones((2, 9)), "b": np.ones((2, 8))}),
            r"shapes \[\(2, 8\), \(2, 9\)\]; pass arrays of one number of chains",
        ),
        (lambda p: Posterior.from_draws({"a": np.ones(9)}), r"shapes \[\(9,\)\]; pass arrays"),
    ],
)
def test_questions_without_an_answer(ask, match):
    with pytest.raises(ValueError, match=match):
        ask(make(draw()))


def test_notebooks_show_doubts_and_numbers():
    arrays = draw()
    arrays["coef"][1] += 5.0
    html = make(arrays, {"coef": ["<b>", "b", "c"]})._repr_html_()
    assert "coef[&lt;b&gt;]" in html and "<b>" not in html and "<Post" not in html
    assert "the chains disagree" in html and "r_hat" in html


def fake_arviz(name, from_dict):
    module = ModuleType(name)
    module.__spec__ = type(sys.__spec__)(name, None)
    module.from_dict = from_dict
    return module


def test_arviz_is_given_labels(monkeypatch):
    def old(posterior=None, *, coords=None, dims=None, **others):
        return posterior, coords, dims

    def new(data, *, coords=None, dims=None):
        return data["posterior"], coords, dims

    values = draw()
    values["grid"] = np.random.default_rng(0).standard_normal((4, 400, 2, 3))
    posterior = make(values)
    for name, from_dict in (("arviz", old), ("arviz_base", new)):
        monkeypatch.setitem(sys.modules, "arviz", None)
        monkeypatch.setitem(sys.modules, name, fake_arviz(name, from_dict))
        arrays, coords, dims = posterior.to_arviz()
        assert dims == {"coef": ["feature"], "grid": ["grid_label"]}
        assert coords["feature"] == FEATURES
        assert coords["grid_label"][:4] == ["0, 0", "0, 1", "0, 2", "1, 0"]
        np.testing.assert_array_equal(arrays["sigma2"], values["sigma2"])
        np.testing.assert_array_equal(arrays["grid"], values["grid"].reshape(4, 400, 6))


def test_arviz_may_be_missing(monkeypatch):
    for name in ("arviz", "arviz_base"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=r"to_arviz needs ArviZ, .* pip install arviz"):
        make(draw()).to_arviz()
