"""Simulated claims: plain tables, confounded by what is recorded, with effects that are known."""

import numpy as np
import pandas as pd
import pytest

from sksurvgpu import CoxLassoCCD, FineGrayCCD, competing_risks, surv
from sksurvgpu.datasets import simulate_claims

LOOKBACK = 200


@pytest.fixture(scope="module")
def claims():
    given = {"n_records": 400_000, "lookback": LOOKBACK, "random_state": 0}
    return simulate_claims(20_000, 100, systematic_error=(0.5, 0.0), **given)


def days_from_index(claims, table):
    persons = claims.persons.set_index("id")
    return (
        (table["date"].to_numpy() - persons["index_date"].loc[table["id"]].to_numpy())
        .astype("timedelta64[D]")
        .astype(int)
    )


def test_same_seed_same_tables(claims):
    first, again = (simulate_claims(300, 60, random_state=s) for s in (1, 1))
    other = simulate_claims(300, 60, random_state=2)
    for name in ("persons", "records", "outcomes", "systematic_errors"):
        pd.testing.assert_frame_equal(*(pd.DataFrame(getattr(c, name)) for c in (first, again)))
    assert not first.records.equals(other.records)


def test_everything_is_observed(claims):
    persons = claims.persons.set_index("id")
    assert len(claims.records) == 400_000
    lookback = persons["index_date"] - persons["observation_start"]
    assert (lookback >= pd.Timedelta(days=LOOKBACK)).all()
    assert (persons["observation_end"] > persons["index_date"]).all()
    died = persons["death_date"].notna()
    assert 0.02 < died.mean() < 0.3
    assert (persons["death_date"][died] == persons["observation_end"][died]).all()
    for table in (claims.records, claims.outcomes):
        of_person = persons.loc[table["id"]]
        assert (table["date"].to_numpy() >= of_person["observation_start"].to_numpy()).all()
        assert (table["date"].to_numpy() <= of_person["observation_end"].to_numpy()).all()
        assert (days_from_index(claims, table) > 0).mean() > 0.2
    assert claims.records.duplicated(["id", "code"]).mean() > 0.2
    after = days_from_index(claims, claims.outcomes) > 0
    assert not claims.outcomes[after].duplicated(["id", "outcome"]).any()


def test_a_code_tells_the_treatment(claims):
    lines = claims.records[claims.records["code"] == claims.telltale]
    days = days_from_index(claims, lines)
    assert len(lines) > 500
    assert days.min() >= -30
    assert days.max() <= -1
    assert claims.persons.set_index("id")["treatment"].loc[lines["id"]].all()


def confounders_of(claims):
    """Indicators of confounding codes in the lookback, age and sex."""
    days = days_from_index(claims, claims.records)
    counted = claims.records["code"].isin(claims.confounders) & (days < 0) & (days >= -LOOKBACK)
    lines = claims.records[counted]
    found = pd.crosstab(lines["id"], lines["code"]).clip(upper=1)
    persons = claims.persons.set_index("id")
    z = found.reindex(persons.index, fill_value=0)
    return z.assign(age=persons["age"] / 10.0, female=persons["female"]).set_axis(
        [*map(str, claims.confounders), "age", "female"], axis=1
    )


def after_index(claims, name):
    """Code of what ended the follow-up (2: death), and its length."""
    persons = claims.persons.set_index("id")
    lines = claims.outcomes[claims.outcomes["outcome"] == name]
    days = days_from_index(claims, lines)
    first = pd.Series(days[days > 0], lines["id"][days > 0]).reindex(persons.index)
    end = (persons["observation_end"] - persons["index_date"]).dt.days
    died = np.where(persons["death_date"].notna(), 2, 0)
    return np.where(first.notna(), 1, died), first.fillna(end).to_numpy()


@pytest.mark.parametrize("name", ["stroke", "infarction", "control 7"])
def test_effects_are_those_of_the_truth_where_confounders_are_known(claims, name):
    treatment, z = claims.persons["treatment"].to_numpy(float), confounders_of(claims)
    event, days = after_index(claims, name)
    X = z.assign(drug=treatment)
    if name == "infarction":
        y, model = competing_risks(event, days), FineGrayCCD(alpha=0)
    else:
        y, model = surv(event == 1, days), CoxLassoCCD(alpha=0)
    expected = claims.log_hazard_ratios[name] + claims.systematic_errors[name]
    # treated and not treated events: the information of two groups that confounders divide
    shares = np.bincount(treatment[event == 1].astype(int))
    error = 1.1 * np.sqrt((1.0 / shares).sum())
    found = model.fit(X, y).summary().loc["drug", "coef"]
    crude = model.fit(X[["drug"]], y).coef_[0]
    assert abs(found - expected) < 3.5 * error
    assert crude - expected > 5.0 * error  # so that the other one is no accident


def test_arguments_are_checked():
    effects = simulate_claims(100, 50, log_hazard_ratios={"stroke": 0.0}, random_state=0)
    assert effects.log_hazard_ratios[["stroke", "control 1"]].tolist() == [0.0, 0.0]
    with pytest.raises(ValueError, match="names 'gout'; the outcomes are stroke, bleeding"):
        simulate_claims(100, 50, log_hazard_ratios={"gout": 0.0})
    with pytest.raises(ValueError, match="`n_codes` is 10; it must be at least 50"):
        simulate_claims(100, 10)
    with pytest.raises(ValueError, match="`n_controls` is -1"):
        simulate_claims(100, 50, n_controls=-1)
    assert simulate_claims(100, 50, n_controls=0, random_state=0).negative_controls == []
