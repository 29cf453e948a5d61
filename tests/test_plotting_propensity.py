"""The figure of propensity scores."""

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score

from sksurvgpu import PropensityDisplay
from sksurvgpu.cohort import Cohort, match, preference_score, weigh

pyplot = pytest.importorskip("matplotlib.pyplot")
pytestmark = pytest.mark.usefixtures("layout_if_asked")


@pytest.fixture(scope="module")
def cohort():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"id": range(2_000), "score": rng.beta(2, 5, 2_000)})
    return Cohort.of(table.assign(treatment=rng.random(2_000) < table["score"]))


def test_what_is_drawn(cohort):
    display = PropensityDisplay.from_cohort(cohort, scale="score", n_bins=20)
    assert display.band_ is None and not display.before_
    assert display.ax_.get_xlabel() == "propensity score"
    score, treated = cohort.scores, cohort.is_treated
    for arm, is_here in (("treated", treated), ("comparators", ~treated)):
        density, edges = np.histogram(score[is_here], 20, (0.0, 1.0), density=True)
        np.testing.assert_allclose(display.areas_[arm].get_data().values, density, atol=1e-12)
        np.testing.assert_allclose(display.areas_[arm].get_data().edges, edges, atol=1e-12)
    pyplot.close(display.figure_)


def test_before_and_after(cohort):
    matched = match(cohort)
    display = PropensityDisplay.from_cohort(matched, cohort)
    assert display.band_.get_x() == 0.3 and display.band_.get_width() == pytest.approx(0.4)
    before, after = display.ax_.get_title().splitlines()
    assert before.startswith("before: AUC 0.7") and after.startswith("after: AUC 0.50")
    # of both, preference scores are by the share of treated before
    for whole, areas in ((cohort, display.before_), (matched, display.areas_)):
        share = cohort.is_treated.mean()
        preference = preference_score(whole.scores, None, share=share)[whole.is_treated]
        density = np.histogram(preference, 50, (0.0, 1.0), density=True)[0]
        np.testing.assert_allclose(areas["treated"].get_data().values, density, atol=1e-12)
    pyplot.close("all")


def test_weighted(cohort):
    _, ax = pyplot.subplots()
    display = PropensityDisplay.from_cohort(
        weigh(cohort), cohort, scale="score", weight="weight", n_bins=4, ax=ax
    )
    assert display.ax_ is ax
    density = {arm: area.get_data().values for arm, area in display.areas_.items()}
    everybody = np.histogram(cohort.scores, 4, (0.0, 1.0), density=True)[0]
    np.testing.assert_allclose(density["comparators"], everybody, atol=0.1)
    assert abs(display.before_["comparators"].get_data().values - everybody).max() > 0.1
    pyplot.close("all")


def test_scores_of_those_who_are_left_are_by_the_share_before(cohort):
    """A figure of matched persons alone has the preference scores of the figure beside it."""
    matched = match(cohort)
    alone, beside = PropensityDisplay.from_cohort(matched), PropensityDisplay.from_cohort(cohort)
    paired = PropensityDisplay.from_cohort(matched, cohort)
    for arm in ("treated", "comparators"):
        np.testing.assert_array_equal(alone.bins[arm], paired.bins[arm])
    for display in (alone, beside, paired):
        pyplot.close(display.figure_)


def test_what_has_no_figure(cohort):
    none = cohort.with_columns(none=cohort.is_treated.astype(float))
    with pytest.raises(ValueError, match="`none` is 0 for all comparators; pass weights of both"):
        PropensityDisplay.from_cohort(none, weight="none")
    with pytest.raises(ValueError, match="`scale` is 'logit', must be one of 'preference', 'scor"):
        PropensityDisplay.from_cohort(cohort, scale="logit")
    with pytest.raises(ValueError, match="has no column 'weight'; name one of its columns"):
        PropensityDisplay.from_cohort(cohort, weight="weight")


def test_the_title_is_of_the_weights(cohort):
    weighed = weigh(cohort)
    title = PropensityDisplay.from_cohort(weighed, weight="weight").ax_.get_title()
    treated, weight = weighed.is_treated, weighed.table["weight"].to_numpy()
    preference = preference_score(weighed.scores, treated)
    auc = roc_auc_score(treated, preference, sample_weight=weight)
    share = weight[(preference >= 0.3) & (preference <= 0.7)].sum() / weight.sum()
    assert title == f"AUC {auc:.2f}, {share:.0%} in equipoise"
    assert title != PropensityDisplay.from_cohort(weighed).ax_.get_title()
