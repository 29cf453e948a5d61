"""Fits that each party runs for itself: by their last bits, and by more than these."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from sksurvgpu import CoxLassoCCD, FineGrayCCD, LogisticCCD, competing_risks, surv
from sksurvgpu.federated import Coordinator, Rules, Site
from sksurvgpu.federated.engine import SumEngine
from sksurvgpu.federated.session import SiteSession

pytestmark = pytest.mark.filterwarnings("ignore:times are so coarse")

# Of sums that are those of the rows as they are.
RULES = Rules(largest_share=0.5, blur=0.0)
ROWS = {"A": slice(0, 500), "B": slice(500, 1100), "C": slice(1100, 1800)}
MODELS = {
    "breslow": CoxLassoCCD,
    "delayed": CoxLassoCCD,
    "delayed by nothing": CoxLassoCCD,
    "logistic": LogisticCCD,
    "competing": FineGrayCCD,
}


def rows_of(case):
    """Columns and outcome of all sites."""
    rng = np.random.default_rng(11)
    X = (rng.random((1800, 8)) < 0.4).astype(float)
    X[:, 0] = rng.normal(size=1800)
    eta = X[:, :5] @ [0.4, -0.5, 0.3, 0.4, -0.3]
    if case == "logistic":
        return X, (rng.random(1800) < 1.0 / (1.0 + np.exp(-eta))).astype(int)
    event, censored = 20.0 * rng.exponential(np.exp(-eta)), rng.uniform(1.0, 60.0, 1800)
    time, seen = np.minimum(event, censored) + 0.01, event <= censored
    if case == "competing":
        return X, competing_risks(np.where(seen, 1 + (rng.random(1800) < 0.4), 0), time)
    start = time * rng.random(1800) * (rng.random(1800) < 0.4) * (case == "delayed")
    return X, surv(seen, time, **({"start": start} if case.startswith("delayed") else {}))


def fit(case):
    """The model of the coordinator, and those of the sites."""
    X, y = rows_of(case)
    sites = {name: Site(X[some], y[some], rules=RULES) for name, some in ROWS.items()}
    grid = None if case == "logistic" else np.arange(5.0, 61.0, 5.0)
    send = {name: site.answer for name, site in sites.items()}
    model = Coordinator(MODELS[case](alpha=0.01), send, grid=grid).fit()
    return model, {name: site.model_ for name, site in sites.items()}


@cache
def planned(case):
    """The model where all parties round alike."""
    return fit(case)[0]


@pytest.mark.parametrize("who", ["B", "coordinator"])
@pytest.mark.parametrize("case", ["breslow", "delayed", "logistic", "competing"])
def test_parties_that_round_differently_find_the_same_optimum(case, who, monkeypatch):
    as_planned = planned(case)
    rng, read = np.random.default_rng(3), SumEngine._read

    def rounded(engine, *given):
        answer = read(engine, *given)
        if (engine._local._name if engine._local else "coordinator") != who:
            return answer
        off = {k: v * (1 + 1e-15 * rng.normal(size=v.shape)) for k, v in answer.tables.items()}
        return replace(answer, tables=off)

    monkeypatch.setattr(SumEngine, "_read", rounded)
    model, models = fit(case)
    models["coordinator"] = model
    assert not np.array_equal(models[who].coef_, models["A"].coef_)
    for found in models.values():
        assert found.converged_
        assert found.coef_ == pytest.approx(as_planned.coef_, abs=1e-9)


def test_entries_that_are_all_at_the_beginning_change_nothing():
    found = fit("delayed by nothing")[0].coef_
    np.testing.assert_allclose(found, planned("breslow").coef_, 1e-9)


@pytest.mark.parametrize(
    ("case", "changes"),
    [
        ("delayed", {"max_iter": 2}),
        ("delayed", {"alpha": 0.0100001}),
        ("logistic", {"tol": 1e-2}),
        ("logistic", {"tol": 1e-12}),
    ],
    ids=str,
)
def test_site_with_another_program_ends_the_fit(case, changes, monkeypatch):
    begin = SiteSession.__init__

    def otherwise(session, programme, site, *given):
        begin(session, programme, site, *given)
        if site.name == "B":
            session._model.set_params(**changes)

    monkeypatch.setattr(SiteSession, "__init__", otherwise)
    with pytest.raises(ValueError, match=r"^site 'B'.*(another version|same versions)"):
        fit(case)
