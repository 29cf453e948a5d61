"""Effects of several sites: those of EvidenceSynthesis, of pooled rows, and of brute force."""

import io
import pickle

import numpy as np
import pandas as pd
import pytest
from scipy.integrate import quad
from scipy.stats import norm
from test_profile_grids import EVIDENCE

from sksurvgpu import CoxLassoCCD, combine_profiles, profile_likelihood
from sksurvgpu.datasets import simulate_cox
from sksurvgpu.inference import evidence
from sksurvgpu.inference._marginal import Marginal

FORMS = ["grid with gradients", "custom", "skew normal"]
LOG_RATIO = {"logRr": float, "lb": np.log, "ub": np.log}


def tables_of(form):
    """What EvidenceSynthesis makes of its simulated sites."""
    tables = EVIDENCE["sites"][form]["tables"]
    if form == "grid with gradients":
        return {f"site {k}": pd.DataFrame(table) for k, table in enumerate(tables, 1)}
    return pd.DataFrame(tables)


@pytest.fixture(scope="module")
def combined():
    return {form: combine_profiles(tables_of(form)) for form in FORMS}


@pytest.mark.parametrize("form", FORMS)
def test_fixed_effects_of_evidence_synthesis(form, combined):
    fixed = EVIDENCE["sites"][form]["fixed"]
    expected = [transform(fixed[name]) for name, transform in LOG_RATIO.items()]
    found = combined[form].table.loc["fixed effect", ["coef", "lower", "upper"]]
    np.testing.assert_allclose(found, expected, atol=2e-4)  # their search for the maximum
    assert combined[form].table.loc["fixed effect", "standard_error"] == pytest.approx(
        fixed["seLogRr"], rel=1e-4
    )
    pooled = [transform(EVIDENCE["pooled"]["fixed"][name]) for name, transform in LOG_RATIO.items()]
    within = 2e-3 if form == "grid with gradients" else 0.1
    np.testing.assert_allclose(found, pooled, atol=within)  # of the rows of all sites


def test_random_effects_are_those_that_markov_chains_draw(combined):
    """BEAST's 10,000 draws given the rows of all sites, of which some 500 are independent."""
    drawn = EVIDENCE["pooled"]["random"]
    table = combined["grid with gradients"].table
    error = 1.0 / np.sqrt(EVIDENCE["pooled"]["effective"])
    mean, spread = table.loc["mean"], table.loc["spread"]
    assert abs(mean["posterior_mean"] - drawn["mu"]) < 3 * error[0] * drawn["muSe"]
    assert abs(mean["standard_error"] / drawn["muSe"] - 1) < 3 * error[0]
    assert abs(spread["coef"] - drawn["tau"]) < 3 * error[1] * 1.25 * spread["standard_error"]
    for name, row in (("mu", mean), ("tau", spread)):
        for end, bound in (("Lb", "lower"), ("Ub", "upper")):
            off = abs(row[bound] - drawn[f"{name}95{end}"])
            assert off < 8 * error[0] * row["standard_error"], (name, end)


def mixture(effects, errors, prior_sd=(2.0, 0.5), n=4001):
    """Normal mixtures for mean and new effect, over a grid of spreads, in closed form."""
    tau = np.linspace(0.0, max(12 * prior_sd[1], np.ptp(effects)), n)
    variance = errors**2 + tau[:, None] ** 2
    precision = 1 / variance
    total = precision.sum(axis=1) + prior_sd[0] ** -2.0
    centre = (precision @ effects) / total
    log = 0.5 * np.log(precision).sum(axis=1) - 0.5 * np.log(total)
    log += 0.5 * centre**2 * total - 0.5 * precision @ effects**2
    weight = np.exp(log - log.max()) * norm.pdf(tau, scale=prior_sd[1])
    weight[[0, -1]] *= 0.5
    return tau, weight / weight.sum(), centre, 1 / np.sqrt(total)


@pytest.mark.parametrize(
    ("effects", "errors", "prior_sd"),
    [
        ([0.3, 0.1, 0.8], [0.1, 0.2, 0.3], (2.0, 0.5)),
        ([0.0, 3.0], [0.02, 0.01], (2.0, 0.5)),
        ([-0.4], [0.2], (2.0, 0.5)),
        (np.linspace(-1, 2, 40), np.linspace(0.05, 1.0, 40), (2.0, 0.5)),
        ([-2.0, 0.1, 2.5], [0.1, 0.1, 0.2], (0.3, 2.0)),  # new effects far beyond all means
        ([0.0, 2.0, 4.0, 6.0], [0.02, 0.02, 0.02, 0.02], (2.0, 0.05)),  # spread beyond its prior
    ],
)
def test_normal_likelihoods_have_a_posterior_in_closed_form(effects, errors, prior_sd):
    effects, errors = np.array(effects), np.array(errors)
    sites = pd.DataFrame({"logRr": effects, "seLogRr": errors})
    result = combine_profiles(sites, level=0.9, prior_sd=prior_sd)
    tau, weight, centre, width = mixture(effects, errors, prior_sd)
    table, unit = result.table, np.sqrt(weight @ (width**2 + centre**2) - (weight @ centre) ** 2)
    assert table.loc["mean", "posterior_mean"] == pytest.approx(weight @ centre, abs=1e-4 * unit)
    assert table.loc["mean", "standard_error"] == pytest.approx(unit, rel=1e-4)
    assert table.loc["spread", "posterior_mean"] == pytest.approx(weight @ tau, rel=1e-3)
    below = np.cumsum(weight) - 0.5 * weight
    median = np.interp(0.5, below, tau)
    assert table.loc["spread", "coef"] == pytest.approx(median, abs=2e-3)
    for name, scale in (("mean", width), ("new site", np.hypot(width, tau))):
        low, high = table.loc[name, ["lower", "upper"]]
        inside = weight @ (norm.cdf(high, centre, scale) - norm.cdf(low, centre, scale))
        assert inside == pytest.approx(0.9, abs=2e-4)
        heights = [weight @ norm.pdf(end, centre, scale) for end in (low, high)]
        assert heights[0] == pytest.approx(heights[1], rel=0.02)  # the shortest interval
        assert weight @ norm.cdf(table.loc[name, "coef"], centre, scale) == pytest.approx(
            0.5, abs=2e-4
        )
    precision = errors**-2.0
    fixed = precision @ effects / precision.sum()
    assert table.loc["fixed effect", "coef"] == pytest.approx(fixed, abs=1e-6)
    assert table.loc["fixed effect", "standard_error"] == pytest.approx(
        precision.sum() ** -0.5, rel=1e-6
    )
    statistic = precision @ (effects - fixed) ** 2
    assert result.heterogeneity["statistic"] == pytest.approx(statistic, rel=1e-5, abs=1e-9)


def smooth(x):
    return -4 * np.logaddexp(0, -x) - 9 * np.logaddexp(0, x - 0.5)


def slope(x):
    return 4 / (1 + np.exp(x)) - 9 / (1 + np.exp(0.5 - x))


POINT = np.linspace(-2.3, 2.3, 12)
LIKELIHOODS = {
    "normal": pd.DataFrame({"logRr": [0.3], "seLogRr": [0.1]}),
    "skew normal": pd.DataFrame({"mu": [0.3], "sigma": [0.4], "alpha": [2.0]}),
    "custom": pd.DataFrame({"mu": [0.3], "sigma": [0.5], "gamma": [0.2]}),
    "custom, left": pd.DataFrame({"mu": [0.3], "sigma": [0.5], "gamma": [-0.4]}),
    "no maximum": pd.DataFrame(
        {"point": POINT, "value": -3 * np.exp(POINT), "derivative": -3 * np.exp(POINT)}
    ),
    "cubics": pd.DataFrame({"point": POINT, "value": smooth(POINT), "derivative": slope(POINT)}),
    "lines": pd.DataFrame({"point": POINT, "value": smooth(POINT)}),
    "shallow": pd.DataFrame({"point": POINT, "value": np.interp(POINT, [-0.5, 0.5], [0.0, -0.7])}),
}


@pytest.mark.parametrize("name", list(LIKELIHOODS))
def test_integrals_over_a_normal_distribution(name):
    table = LIKELIHOODS[name]
    marginal = Marginal(evidence.read_row(evidence.form_of(table, name), table, name))
    assert not marginal.is_flat
    within = 5e-3 if name in ("lines", "no maximum", "shallow") else 1e-5  # corners at the points
    for mean in (-3.0, 0.3, 1.0):
        for spread in (0.001, 0.1, 0.3, 3.0):

            def product(x, mean=mean, spread=spread):
                return np.exp(marginal.value(x)) * norm.pdf(x, mean, spread)

            ends = mean - 9 * spread, mean + 9 * spread
            corners = [x for x in (*POINT, marginal.top) if ends[0] < x < ends[1]]
            expected, _ = quad(product, *ends, points=corners or None, limit=500, epsrel=1e-9)
            if expected > 1e-12:
                found = marginal.log(np.array([mean]), spread)[0]
                assert found == pytest.approx(np.log(expected), abs=within), (mean, spread)


def test_sites_add_up_to_the_stratified_model():
    """With one column, strata are sites: the profile of the pooled rows is the sum."""
    data = simulate_cox(600, 1, density=0.4, n_strata=3, random_state=0)
    model, window = CoxLassoCCD(alpha=0), {"bounds": (-2.3, 2.3), "tolerance": 1e-4}
    own = {
        f"{label}": profile_likelihood(
            model, data.X[data.strata == label], data.y[data.strata == label], 0,
            derivatives=True, **window
        )
        for label in np.unique(data.strata)
    }  # fmt: skip
    result = combine_profiles(own)
    pooled = profile_likelihood(model, data.X, data.y, 0, strata=data.strata)
    found = result.table.loc["fixed effect", ["coef", "lower", "upper"]]
    np.testing.assert_allclose(found, pooled.intervals.loc["x0"], atol=1e-4)
    for name, site in own.items():
        np.testing.assert_allclose(
            result.sites.loc[name, ["coef", "lower", "upper"]].astype(float),
            site.intervals.loc["x0"],
            atol=1e-3,
        )
    assert result.heterogeneity["df"] == 2
    curves = result.curves.pivot(index="value", columns="feature", values="log_likelihood")
    off = curves.drop(columns="fixed effect").sum(axis=1) - curves["fixed effect"]
    assert np.ptp(off) < 1e-9


WITHIN = dict(zip(evidence.FORMS, (1e-4, 0.02, 0.02, 0.05, 0.05, 0.05), strict=True))


@pytest.mark.parametrize("form", evidence.FORMS)
def test_tables_survive_a_file(form):
    data = simulate_cox(300, 1, density=0.4, random_state=1)
    result = profile_likelihood(
        CoxLassoCCD(alpha=0), data.X, data.y, 0, bounds=(-2.3, 2.3), derivatives=True
    )
    table = result.to_evidence_synthesis(approximation=form)
    file = io.StringIO()
    table.to_csv(file, index=False)
    file.seek(0)
    again = pd.read_csv(file)
    assert evidence.form_of(again, "the file") == form
    if form in evidence.COLUMNS:
        assert [*again.columns][-len(evidence.COLUMNS[form]) :] == [*evidence.COLUMNS[form]]
    found = combine_profiles({"one": again}).table.loc["fixed effect", ["coef", "lower", "upper"]]
    width = result.intervals["upper"] - result.intervals["lower"]
    off = (found - result.intervals.iloc[0]).abs() / width.iloc[0]
    assert off.max() < WITHIN[form]


@pytest.mark.parametrize("form", ["custom", "skew normal"])
def test_parametric_forms_are_those_of_evidence_synthesis(form):
    """Fitted to the curves of the sites that have a maximum."""
    point = np.linspace(np.log(0.1), np.log(10), 100)
    for k in (2, 5, 7):
        name = f"site {k + 1}"
        curve = evidence.read_row(
            "grid with gradients", tables_of("grid with gradients")[name], name
        )
        value = curve.log_likelihood(point)
        expected = pd.DataFrame(EVIDENCE["sites"][form]["tables"]).iloc[[k]]
        found = evidence._fitted(form, curve, 9)
        theirs, ours = (
            evidence.read_row(form, table, name).log_likelihood(point)
            for table in (expected, found)
        )
        weight = np.maximum(np.exp(value - value.max()), 1e-3)
        left = [
            weight @ (curve - curve.max() - value + value.max()) ** 2 for curve in (theirs, ours)
        ]
        assert left[1] < 1.001 * left[0]


def test_all_layouts_of_sites_are_one():
    tables = dict(list(tables_of("grid with gradients").items())[:2])
    expected = combine_profiles(tables).table
    below = pd.concat([table.assign(db=name) for name, table in tables.items()])
    for given in (list(tables.values()), below, below.set_index("db", drop=False)):
        pd.testing.assert_frame_equal(combine_profiles(given, site="db").table, expected)
    custom = tables_of("custom")
    named = combine_profiles(custom.assign(site=list("abcdefghij"))[:2])
    assert named.sites.index.to_list() == ["a", "b"]
    assert named.sites["form"].unique().tolist() == ["custom"]
    mixed = combine_profiles({"a": tables["site 1"], "b": custom.iloc[[1]]})
    assert mixed.sites["form"].to_list() == ["grid with gradients", "custom"]


def test_polars_tables():
    polars = pytest.importorskip("polars")
    table = polars.DataFrame({"logRr": [0.1, 0.2], "seLogRr": [0.1, 0.2], "site": ["a", "b"]})
    assert combine_profiles(table).sites.index.to_list() == ["a", "b"]


def test_flat_and_monotone_likelihoods():
    falling = LIKELIHOODS["no maximum"]
    flat = pd.DataFrame({"point": POINT, "value": 0.0})
    one = combine_profiles({"falling": falling})
    both = combine_profiles({"falling": falling, "flat": flat})
    pd.testing.assert_frame_equal(one.table, both.table)
    assert both.table.loc["fixed effect", "coef"] == -np.inf == both.sites.loc["falling", "lower"]
    assert both.sites.loc["flat", ["lower", "upper"]].to_list() == [-np.inf, np.inf]
    assert np.isnan(both.sites.loc["flat", "coef"])
    nothing = combine_profiles({"flat": flat}).table
    assert nothing.loc["mean", "standard_error"] == pytest.approx(2.0, rel=1e-3)  # the prior
    assert nothing.loc["spread", "posterior_mean"] == pytest.approx(
        0.5 * np.sqrt(2 / np.pi), rel=1e-3
    )


def test_sites_without_a_fit_are_named():
    table = pd.DataFrame(
        {"logRr": [0.1, np.nan, 0.3], "seLogRr": [0.1, 0.1, np.nan]}, index=["a", "b", "c"]
    )
    with pytest.warns(UserWarning, match=r"2 site\(s\) left out, see `left_out`: b, c"):
        result = combine_profiles(table)
    assert result.left_out.to_dict() == {"b": "no logRr", "c": "no seLogRr"}
    assert pickle.loads(pickle.dumps(result)).table.equals(result.table)
    assert result.summary().loc["mean", "ratio"] == np.exp(result.table.loc["mean", "coef"])
    assert np.isnan(result.summary().loc["spread", "ratio"])


ONE = pd.DataFrame({"logRr": [0.1], "seLogRr": [0.2]})


@pytest.mark.parametrize(
    ("profiles", "given", "message"),
    [
        ({}, {}, "`profiles` has none with a likelihood"),
        (pd.DataFrame({"point": [0.0], "value": [0.0]}), {}, "one table of points without"),
        ({"a": pd.DataFrame({"x": [0.0]})}, {}, "has the columns x, which no form"),
        ({"a": pd.DataFrame({"logRr": [0.0]})}, {}, "'logRr' and none 'seLogRr'"),
        ({"a": pd.DataFrame({"logRr": [0.0], "seLogRr": [0.0]})}, {}, r"profiles\['a'\] has logRr"),
        ({"a": pd.DataFrame({"point": [], "value": []}, dtype=float)}, {}, "has no points"),
        ({"a": pd.DataFrame({"point": [1, 1], "value": [0, 0]})}, {}, "point 1 more than once"),
        ({"a": pd.DataFrame({"point": [1, 2], "value": [0, np.nan]})}, {}, "not finite at the"),
        ({"a": pd.DataFrame({"logRr": [1, 2], "seLogRr": 1})}, {}, "2 rows of the form 'normal'"),
        ({1: ONE, "1": ONE}, {}, "has two sites '1'"),
        ({"fixed effect": ONE}, {}, "two sites 'fixed effect', or one of a name that is taken"),
        (pd.concat([ONE, ONE], keys=["a", "a"]).droplevel(1), {}, "has two sites 'a'"),
        (pd.DataFrame({"point": [0, 1], "value": 0, "site": ["a", None]}), {}, "1 row.*without"),
        ({"a": ONE * [3e7, 1e7]}, {}, "has an effect of 3e.06; effects are logarithms"),
        ({"a": pd.DataFrame({"point": [-1e8, 1], "value": 0.0})}, {}, "has an effect of -1e.08"),
        (tables_of("custom"), {"prior_sd": (2, 0)}, r"`prior_sd` is \(2, 0\)"),
        (tables_of("custom"), {"prior_sd": 2}, "`prior_sd` is 2"),
        (tables_of("custom"), {"level": 95}, "`level` is 95"),
    ],
)
def test_bad_profiles(profiles, given, message):
    with pytest.raises(ValueError, match=message):
        combine_profiles(profiles, **given)


def test_tables_of_text():
    with pytest.raises(TypeError, match=r"profiles\['a'\] has something other than numbers.*'NA'"):
        combine_profiles({"a": pd.DataFrame({"logRr": ["0.1"], "seLogRr": ["NA"]})})


def test_bad_forms():
    data = simulate_cox(60, 2, density=0.5, random_state=0)
    result = profile_likelihood(CoxLassoCCD(alpha=0), data.X, data.y, [0, 1], values=[-1, 0, 1])
    for given, message in (
        ({}, "the result has 2 coefficients"),
        ({"feature": "age"}, "`feature` is 'age'"),
        ({"feature": "x0"}, "the curves have no `gradient`"),
        ({"feature": "x0", "approximation": "gamma"}, "`approximation` is 'gamma'"),
        ({"feature": "x0", "approximation": "custom"}, "has 3 points, too few"),
    ):
        with pytest.raises(ValueError, match=message):
            result.to_evidence_synthesis(**given)
    never = np.r_[np.zeros(50), np.ones(10)][:, None]
    y = data.y.copy()
    y["event"][50:] = False
    infinite = profile_likelihood(CoxLassoCCD(alpha=0), never, y, 0, values=[-1, 0, 1])
    with pytest.raises(ValueError, match="so that its likelihood is not normal"):
        infinite.to_evidence_synthesis(approximation="normal")
