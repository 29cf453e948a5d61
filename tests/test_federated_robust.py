"""Robust standard errors over sites: sums of products of scores, and whose they must not be."""

from itertools import pairwise

import numpy as np
import pytest
from federation import COX, GRID, OPEN, Exact, draw_cox, fit_over, pooled, sites_of, table
from sklearn.base import clone
from test_federated import CASES as FITS
from test_federated import outcome

from sksurvgpu import (
    CoxLassoCCD,
    wald,
)
from sksurvgpu.federated import Coordinator, RefusedError, Site

pytestmark = pytest.mark.filterwarnings("ignore:times are so coarse")

ROBUST = {"then": [("wald", {"robust": True})]}
SAME = "efron", "delayed entry", "competing"  # others stand for these, or they are refused
CASES = {
    name: (clone(model).set_params(alpha=0), kind)
    for name, (model, kind) in FITS.items()
    if name not in SAME
}


def assert_alike(result, here):
    assert result.robust and result.standard_errors == pytest.approx(here.standard_errors, rel=3e-6)
    scale = np.outer(here.standard_errors, here.standard_errors)
    assert result.covariance / scale == pytest.approx(here.covariance / scale, abs=1e-5)


@pytest.mark.parametrize("case", CASES)
def test_robust_errors_are_those_of_all_rows(case):
    model, kind = CASES[case]
    rng = np.random.default_rng(1)
    X = table(rng)[:, :6]
    y = outcome(rng, X, kind)
    grid = GRID[9::10] if isinstance(model, COX) else None
    coordinator = fit_over(sites := sites_of(X, y, OPEN), model, grid, **ROBUST)
    rows = pooled(X, y, coordinator, sites)
    here = clone(model).fit(*rows)
    assert_alike(coordinator.results_[0], wald(here, *rows, robust=True))
    plain = wald(here, *rows).standard_errors
    assert abs(coordinator.results_[0].standard_errors / plain - 1.0).max() > 0.01


def test_clusters_are_those_that_sites_give():
    """... which are persons in many rows; and what is told is in the programme and the log."""
    X, y = draw_cox()
    X, cluster = np.repeat(X[:, [0, 2, 3]], 2, axis=0), np.repeat(np.arange(len(X)), 2)
    y = np.repeat(y, 2)
    cuts, shown = (0, 1400, 3000, 4800), []
    sites = {
        name: Site(X[a:b], y[a:b], cluster=cluster[a:b], rules=Exact(max_listed=0))
        for name, (a, b) in zip("ABC", pairwise(cuts), strict=True)
    }
    send = {name: site.answer for name, site in sites.items()}
    send["B"] = lambda data: sites["B"].answer(data, lambda p: shown.append(str(p)) or True)
    coordinator = Coordinator(CoxLassoCCD(alpha=0), send, grid=GRID[9::10], **ROBUST)
    coordinator.fit()
    here = CoxLassoCCD(alpha=0).fit(*(rows := pooled(X, y, coordinator, sites, cuts)))
    found = coordinator.results_[0]
    assert_alike(found, wald(here, *rows, cluster=cluster))
    by_row = wald(here, *rows, robust=True).standard_errors
    assert found.standard_errors == pytest.approx(np.sqrt(2.0) * by_row, rel=1e-5)
    assert "Then wald(robust=True).\nThe sum of products of rows' scores, columns" in shown[0]
    assert sites["A"]._session.local.reader.absent == ()
    with pytest.raises(ValueError, match=r"`cluster` is of rows; have each site give it"):
        Coordinator(CoxLassoCCD(), send, then=[("wald", {"cluster": [1, 2]})])


def test_products_of_the_scores_of_few_rows_are_refused():
    """Enough rows have the column, of which few have an event: these are nearly all of its sum."""
    X, y = draw_cox()
    X, every = X[:, [0, 2, 3]], np.arange(len(y))
    X[:, 1] = every % 24 == 0
    y["event"] = every % 17 == 0  # of the column two at each site
    fit = {"model": CoxLassoCCD(alpha=0), "grid": GRID[[29, 59]]}
    assert fit_over(sites_of(X, y), **fit, then=[("wald", {})]).results_[0].tests is None
    loose = {"min_rows": 2, "largest_share": 0.6}
    for rules in ({"largest_share": 1.0}, loose | {"largest_share": 0.2}):
        with pytest.raises(RefusedError, match="refused: few rows with an event, or clus"):
            fit_over(sites_of(X, y, Exact(**rules)), **fit, **ROBUST)
    assert fit_over(sites_of(X, y, Exact(**loose)), **fit, **ROBUST).results_[0].robust
