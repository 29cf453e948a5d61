"""Hazards with coefficients in common, against R's multi-state models and separate fits."""

import numpy as np
import pandas as pd
import pytest
from sklearn.preprocessing import MaxAbsScaler
from test_causes import CODE, FREE, NEW, ROW, START, TIME, TIMES, X, outcome

from sksurvgpu import (
    MCP,
    CauseSpecificCox,
    CoxLassoCCD,
    CoxLassoCV,
    Firth,
    GroupLasso,
    MultiStateCox,
    competing_risks,
    make_pipeline,
    multi_state,
    wald,
)
from sksurvgpu.exceptions import NothingSelectedWarning

# survival 3.5.3, ties="breslow": coxph(list(Surv(time, ev) ~ 1, 1:2 + 1:3 + 1:4 ~ x1 / common,
# 1:2 + 1:3 + 1:4 ~ x2)), with naive standard errors; and with Surv(start, time, ev),
# 1:2 + 1:3 + 1:4 ~ x1 + x2 / common; survfit(..., newdata)$pstate at 10, 30 and 61
SHARED = {
    "one": (
        [-0.02061925694205343, 0.10322894275836006, 0.14599739797666403, 0.2027745577901576],
        [0.2349536269453274, 0.2234783391477524, 0.2225288675522824, 0.3142064710389448],
        [
            [0.87240487990347293, 0.05734142384962691, 0.04764810351974955, 0.02260559272715063],
            [0.59404421646583672, 0.16120595878835126, 0.16148114031061270, 0.08326868443519954],
            [0.02117177749451186, 0.38366397769494098, 0.39277398453451318, 0.20239026027603410],
            [0.8892143278388870, 0.05145459633704965, 0.0409711628213993, 0.01835991300266395],
            [0.6400774411265442, 0.14811112593562889, 0.1423608662406281, 0.06945056669719890],
            [0.0367035605529004, 0.39263247850667438, 0.3835967462427233, 0.18706721469770185],
        ],
    ),
    "all": (
        [-0.1423068654528265, 0.1430832533016451],
        None,
        [
            [0.70373078634291408, 0.1448908646886427, 0.1060314187881798, 0.04534693018026338],
            [0.45328170460817324, 0.2397948172941274, 0.2087521288206854, 0.09817134927701410],
            [0.01407309776384808, 0.4140475031211497, 0.3856746378960479, 0.18620476121895432],
            [0.75908282354329815, 0.1174589811137486, 0.0863696788465504, 0.03708851649640262],
            [0.53754889685292384, 0.2014802155763044, 0.1771335940374865, 0.08383729353328513],
            [0.03526925259975913, 0.4026901858164394, 0.3780537227816917, 0.18398683880210950],
        ],
    ),
}


@pytest.mark.parametrize("kind", ["one", "all"])
def test_shared_coefficients_are_those_of_survival(kind):
    coef, errors, states = SHARED[kind]
    y = outcome() if kind == "one" else outcome(start=START)
    model = CauseSpecificCox(FREE, shared=[0] if kind == "one" else "all").fit(X, y)
    np.testing.assert_allclose(model.joint_.coef_, coef, atol=1e-9)
    for k, fitted in enumerate(model.estimators_.values()):
        own = [coef[0], coef[1 + k]] if kind == "one" else coef
        np.testing.assert_allclose(fitted.coef_, own, atol=1e-9)
    if errors is not None:
        rows, stacked, _ = model.stack(X, y)
        found = wald(model.joint_, rows, stacked).standard_errors
        np.testing.assert_allclose(found, errors, rtol=1e-8)
    curves = model.predict_survival_function(NEW)
    found = [np.concatenate([curve(TIMES) for curve in curves])]
    found += [model.predict_risk(NEW, TIMES, event=event).to_numpy().ravel() for event in "abc"]
    np.testing.assert_allclose(np.column_stack(found), states, atol=1e-9)


SEPARATE = {
    "lasso": CoxLassoCCD(alpha=0.001, tol=1e-10),
    "by column": CoxLassoCCD(
        alpha=0.01,
        l1_ratio={0: 0.5},
        penalty_factor={1: 0.3},
        prior_mean={0: 0.1},
        bounds={1: (-0.05, 0.05)},
        tol=1e-10,
    ),
    "changing": CoxLassoCCD(alpha=0.001, time_varying={0: [20.0], 1: [30.0, 40.0]}, tol=1e-10),
    "efron": CoxLassoCCD(alpha=0.0, ties="efron", tol=1e-10),
    "firth": CoxLassoCCD(penalty=Firth(), tol=1e-12),
    "pipeline": make_pipeline(MaxAbsScaler(), CoxLassoCCD(alpha=0.001, tol=1e-10)),
}


@pytest.mark.thorough(but="True")
@pytest.mark.parametrize("kind", SEPARATE)
@pytest.mark.parametrize("late", [False, True])
def test_one_fit_of_hazards_without_anything_in_common_is_that_of_separate_fits(kind, late):
    y = outcome(start=START) if late else outcome()
    given = {"sample_weight": 1.0 + ROW % 3, "offset": np.sin(ROW), "strata": ROW % 4}
    table = pd.DataFrame({"x1": X[:, 0], "x2": X[:, 1]})
    apart = CauseSpecificCox(SEPARATE[kind]).fit(table, y, **given)
    together = CauseSpecificCox(SEPARATE[kind], shared=[]).fit(table, y, **given)
    assert any(model.coef_.any() for _, model in map(open_, apart.estimators_.values()))
    np.testing.assert_allclose(together.summary(), apart.summary(), atol=1e-9)
    assert together.summary().index.equals(apart.summary().index)
    new, horizons = table[:5], [10.0, 30.0, 50.0]
    for start in (None, 7.0):
        found, expected = (
            model.predict_risk(new, horizons, event="b", strata=ROW[:5] % 4, start=start)
            for model in (together, apart)
        )
        np.testing.assert_allclose(found, expected, atol=1e-9)


def open_(model):
    return (None, model) if not hasattr(model, "steps") else model.steps[-1]


def gradient(model, y):
    """Slopes of the mean loss of the stacked rows, by differences."""
    rows, stacked, _ = model.stack(X, y)
    dense = rows.to_scipy().toarray()
    found = []
    for j in range(dense.shape[1]):
        ends = []
        for move in (1e-5, -1e-5):
            moved = CoxLassoCCD(alpha=0.0, max_iter=1, tol=1e9)
            eta = dense @ model.joint_.coef_ + move * dense[:, j]
            zero = np.zeros((len(eta), 1))
            ends.append(moved.fit(zero, stacked, offset=eta).log_likelihood_)
        found.append(-(ends[0] - ends[1]) / 2e-5 / len(stacked))
    return np.array(found)


@pytest.mark.parametrize("ratio", [1.0, 0.0])
def test_pulled_coefficients_meet_the_conditions_of_their_optimum(ratio):
    y, alpha, between = outcome(), 0.01 if ratio else 0.05, 0.4
    one = CoxLassoCCD(alpha=alpha, l1_ratio=ratio, tol=1e-10)
    model = CauseSpecificCox(one, between=between).fit(X, y)
    coef = np.array([fitted.coef_ for fitted in model.estimators_.values()])
    own, of_all = coef - model.joint_.class_coef_, model.joint_.class_coef_
    assert np.abs(coef).max() > 0.01
    slope = gradient(model, y).reshape(3, 2)
    for part, force, strength in ((own, slope, alpha / 3), (of_all, slope.sum(0), alpha * between)):
        if ratio:
            at_zero = part == 0.0
            assert (np.abs(force[at_zero]) <= strength * (1 + 1e-4)).all()
            np.testing.assert_allclose(force[~at_zero], -strength * np.sign(part[~at_zero]), 1e-4)
        else:
            np.testing.assert_allclose(force, -strength * part, rtol=1e-4, atol=1e-9)


def test_fused_coefficients_meet_the_conditions_of_their_optimum():
    y, alpha, fused = outcome(), 1.3e-4, 5.0
    model = CauseSpecificCox(CoxLassoCCD(alpha=alpha, tol=1e-10), fused=fused).fit(X, y)
    coef = np.array([fitted.coef_ for fitted in model.estimators_.values()])
    assert [len(np.unique(own)) for own in coef.T] == [2, 2]  # to the last bit
    force = -gradient(model, y).reshape(3, 2) - alpha / 3 * np.sign(coef)
    assert coef.all()
    flow = np.cumsum(force, axis=0)  # along the chain of events
    np.testing.assert_allclose(flow[-1], 0.0, atol=1e-8)
    step = np.diff(coef, axis=0)
    assert (np.abs(flow[:-1]) <= alpha * fused * (1 + 1e-4)).all()
    expected = -alpha * fused * np.sign(step[step != 0])
    np.testing.assert_allclose(flow[:-1][step != 0], expected, rtol=1e-4)


def test_folds_keep_the_copies_of_a_row_together():
    y = competing_risks(CODE, TIME)
    model = CauseSpecificCox(CoxLassoCV(cv=3, n_alphas=5), shared=[0]).fit(X, y)
    assert model.joint_.alpha_ == model.estimators_[1].alpha
    rows, stacked, _ = model.stack(X, y)
    assert rows.names.tolist() == ["x0", "x1: 1", "x1: 2", "x1: 3"]
    np.testing.assert_array_equal(stacked["subject"], np.tile(np.arange(300), 3))
    np.testing.assert_array_equal(stacked["event"], np.concatenate([k == CODE for k in (1, 2, 3)]))


def test_a_fit_that_shares_nothing_forgets_the_one_before():
    model = CauseSpecificCox(FREE, shared="all").fit(X, outcome())
    model.set_params(shared=None).fit(X, outcome())
    assert not hasattr(model, "joint_")
    with pytest.raises(AttributeError, match="fit with `shared"):
        model.stack(X, outcome())


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"shared": "some"}, 'must be a list of columns or "all"'),
        ({"shared": 0}, "`shared` is 0, must be a list"),
        ({"shared": [5]}, "`shared` names column 5"),
        ({"between": 1.0, "fused": 1.0}, "choose one of them"),
        ({"between": 1.0, "shared": "all"}, "leaves no coefficients"),
        ({"between": -1.0}, "`between`"),
        ({"fused": -1.0}, "`strength`"),
        ({"shared": [], "estimator": {"a": FREE, "b": FREE, "c": FREE}}, "is a dictionary"),
        ({"shared": [], "estimator": CoxLassoCCD(standardize=True)}, "`standardize` does not go"),
        ({"between": 1.0, "estimator": CoxLassoCCD(penalty=MCP())}, "go with a lasso or a ridge"),
        ({"fused": 1.0, "estimator": CoxLassoCCD(l1_ratio=0.0)}, "`fused` goes with a lasso"),
        (
            {"shared": [], "estimator": CoxLassoCCD(penalty=GroupLasso([0, 0]))},
            "is of columns of X",
        ),
    ],
)
def test_what_cannot_be_shared_is_an_error(given, message):
    with pytest.raises((ValueError, TypeError), match=message):
        CauseSpecificCox(**{"estimator": FREE, **given}).fit(X, outcome())


def test_stacked_columns_are_those_of_the_fit():
    model = CauseSpecificCox(FREE, shared=[0]).fit(X, outcome())
    with pytest.raises(ValueError, match="X has 1 features"):
        model.stack(X[:, :1], outcome())
    with pytest.raises(ValueError, match="must be one of"):
        model.predict(X, event=["a"])


@pytest.mark.parametrize("n", [299, 301])
def test_rows_that_hazards_share_belong_to_those_of_x(n):
    y = outcome()
    model = CauseSpecificCox(FREE, shared="all").fit(X, y)
    ours, other = vars(model).copy(), {"sample_weight": np.ones(n), "offset": np.ones(n)}
    for name, values in other.items():
        for call in (model.fit, model.stack):
            with pytest.raises(ValueError, match=rf"`{name}` has {n} entries, `X` has 300 rows"):
                call(X, y, **{name: values})
    longer = np.resize(y, n)
    for call in (model.fit, model.stack):
        with pytest.raises(ValueError, match=rf"`y` has {n} entries, `X` has 300 rows"):
            call(X, longer)
    assert vars(model).items() >= {name: ours[name] for name in ("joint_", "_codes")}.items()


def test_stacked_rows_of_states_belong_to_those_of_x():
    y = multi_state(["a"] * 40, ["b", None] * 20, np.zeros(40), np.arange(1, 41), np.arange(40))
    model = MultiStateCox(FREE, shared="all").fit(X[:40], y)
    with pytest.raises(ValueError, match="`y` has 30 entries, `X` has 40 rows"):
        model.stack(X[:40], y[:30])


def test_other_penalties_go_with_shared_coefficients():
    one = CoxLassoCCD(alpha=0.5, penalty="mcp")
    with pytest.warns(NothingSelectedWarning):
        model = CauseSpecificCox(one, shared=[1]).fit(X, outcome())
    assert not model.joint_.coef_.any()
