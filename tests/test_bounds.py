"""Coefficients within bounds, for all models: optima against KKT conditions and other routes."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from engine import column, dense
from faces import FACES, P, X
from models import MODELS
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning

from sksurvgpu import (
    CoxLassoCCD,
    CoxLassoCV,
    bootstrap,
    fit_path,
    posterior,
    profile_likelihood,
    wald,
)
from sksurvgpu.backends import cpu
from sksurvgpu.data.design.columns import build_design
from sksurvgpu.penalties import BoundedElasticNet
from sksurvgpu.solver.fits import Fits, Options
from sksurvgpu.solver.problem import Batch

LOWER = np.where(np.arange(P) % 3 == 0, 0.0, np.where(np.arange(P) % 3 == 1, -0.2, -np.inf))
UPPER = np.where(np.arange(P) % 4 == 0, 0.1, np.where(np.arange(P) % 4 == 1, 0.0, np.inf))


@pytest.fixture(params=FACES)
def face(request):
    return FACES[request.param]


@pytest.mark.mostly_slow(but=r"majorized|efron|\[logistic")
@pytest.mark.parametrize("algorithm", ["majorized", "exact"])
@pytest.mark.parametrize("name", ["cox, efron", "fine_gray", "conditional_logistic", "logistic"])
def test_optimum_of_an_oracle(name, algorithm):
    """Split into positive and negative parts, the problem is smooth with bounds: L-BFGS-B."""
    if name not in MODELS:
        name = next(known for known in MODELS if known.startswith(name.partition(",")[0]))
    model, p = MODELS[name], 6
    sample = model.sample(5, p=p)
    design = dense(sample.X)
    lower, upper = (
        np.array([-0.1, 0.0, -np.inf, -0.2, -np.inf, -0.3]),
        np.array([0.1, np.inf, 0.0, 0.2, np.inf, np.inf]),
    )
    lam, factor = 0.5, np.array([1.0, 1.0, 1.0, 0.0, 2.0, 0.0])
    batch = Batch(
        np.array([[lam]]),
        penalty=BoundedElasticNet(0.7, lower, upper),
        factor=factor,
        weight=column(sample.weights),
        offset=column(sample.offset),
    )
    options = Options(tol=1e-10, algorithm=algorithm, max_iter=5_000)
    [[solution]] = Fits(model.problem(sample), batch, cpu, options).solve()

    def objective(parts):
        coef = parts[:p] - parts[p:]
        at = model.reference_at(sample, coef)
        slope = -design.T @ at.u + 0.3 * lam * factor * coef
        value = 0.7 * lam * factor @ parts.reshape(2, p).sum(axis=0)
        value += 0.15 * lam * factor @ coef**2 - at.loglik
        l1 = 0.7 * lam * factor
        return value, np.concatenate([slope + l1, l1 - slope])

    limits = [(0.0, end) for end in [*upper, *-lower]]
    method = {"method": "L-BFGS-B", "jac": True, "bounds": limits}
    best = minimize(objective, np.zeros(2 * p), options={"ftol": 1e-15, "gtol": 1e-10}, **method)
    assert solution.converged
    assert solution.objective <= best.fun + 1e-9 * abs(best.fun)
    np.testing.assert_allclose(solution.coef, best.x[:p] - best.x[p:], atol=2e-5)
    at_bound = (solution.coef == lower) | (solution.coef == upper)
    assert at_bound.any()


class TestFaces:
    def test_within_bounds_and_active(self, face):
        free, held = face.fit(), face.fit(bounds=(LOWER, UPPER))
        assert held.converged_
        assert (held.coef_ >= LOWER).all() and (held.coef_ <= UPPER).all()
        assert ((free.coef_ < LOWER) | (free.coef_ > UPPER)).any()
        assert held.objective_ > free.objective_

    def test_wide_bounds_change_nothing(self, face):
        free, wide = face.fit(), face.fit(bounds=(-50.0, 50.0))
        np.testing.assert_allclose(wide.coef_, free.coef_, atol=1e-9)
        assert wide.alpha_max_ == free.alpha_max_

    def test_columns_of_equal_bounds_leave_the_model(self, face):
        held = face.fit(bounds={0: (0, 0), 2: (0, 0)})
        excluded = face.fit(penalty_factor={0: 1e6, 2: 1e6})
        assert not held.coef_[[0, 2]].any()
        np.testing.assert_allclose(held.coef_, excluded.coef_, atol=1e-8)

    def test_mirrored_columns_have_mirrored_bounds(self, face):
        mirrored = face.fit(-X, bounds=(-UPPER, -LOWER))
        np.testing.assert_allclose(
            mirrored.coef_, -face.fit(bounds=(LOWER, UPPER)).coef_, atol=1e-8
        )

    def test_paths_begin_where_something_may_move(self, face):
        model, more = face.make(bounds=(0.0, np.inf)), face.arguments()
        path = fit_path(model, X, face.y, n_alphas=5, alpha_min_ratio=0.1, **more)
        assert path.converged.all() and (path.coefs >= 0).all()
        assert path.df[0] == 0 < path.df[1]
        single = face.fit(bounds=(0.0, np.inf), alpha=path.alphas[-1])
        np.testing.assert_allclose(path.coefs[:, -1], single.coef_, atol=1e-7)
        np.testing.assert_allclose(single.alpha_max_, path.alpha_max)

    def test_warm_starts_outside_of_new_bounds(self, face):
        model = face.make(warm_start=True).fit(X, face.y, **face.arguments())
        model.set_params(bounds=(LOWER, UPPER)).fit(X, face.y, **face.arguments())
        np.testing.assert_allclose(model.coef_, face.fit(bounds=(LOWER, UPPER)).coef_, atol=1e-8)


def test_cross_validation_and_bootstrap_keep_to_bounds():
    y = FACES["cox"].y
    model = CoxLassoCV(bounds=(0.0, 0.2), cv=3, n_alphas=8).fit(X, y)
    assert (model.coef_ >= 0).all() and (model.coef_ <= 0.2).all()
    cox = CoxLassoCCD(alpha=0.005, bounds=(-0.1, 0.1))
    coefs = bootstrap(cox, X, y, n_replicates=20, random_state=0).coefs
    assert np.abs(coefs).max() <= 0.1
    assert (np.abs(coefs) == 0.1).any()


def test_bounds_stop_what_would_be_infinite():
    y = FACES["cox"].y
    names = ["separating", "plain"]
    event = y[y.dtype.names[0]]
    table = pd.DataFrame({"separating": event.astype(float), "plain": np.arange(len(y)) % 2.0})
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        model = CoxLassoCCD(alpha=0.0, bounds={"separating": (-3, 3)}).fit(table, y)
    assert model.coef_[0] == 3.0 and not model.infinite_.any()
    assert list(model.feature_names_in_) == names


def test_intervals_do_not_ignore_bounds():
    y = FACES["cox"].y
    model = CoxLassoCCD(alpha=0.0, bounds=(-1, 1)).fit(X, y)
    for ask in (
        lambda: wald(model, X, y),
        lambda: posterior(CoxLassoCCD(bounds=(-1, 1)), X, y),
        lambda: profile_likelihood(CoxLassoCCD(bounds=(-1, 1)), X, y, columns=[0]),
    ):
        with pytest.raises(ValueError, match=r"has `bounds`.*set_params\(bounds=None\)"):
            ask()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ((1, 2), "column 0 are (1, 2); they must hold 0"),
        ((0, -1), "are (0, -1) and cross"),
        ((np.nan, 1), "lower of `bounds` has NaN; pass -inf"),
        ((0, np.zeros(3)), "upper of `bounds` has shape (3,), `X` has 12 columns"),
        ((0,), "`bounds` is (0,); pass (lower, upper)"),
        (("a", 1), "lower of `bounds` is 'a'; pass numbers"),
        ({0: 3}, "`bounds[0]` is 3; pass (lower, upper), two numbers"),
        ({1: (0.5, 2)}, "column 1 are (0.5, 2); they must hold 0"),
        ({99: (0, 1)}, "names column 99"),
        ({"age": (0, 1)}, "names column 'age', but `X` has no column names"),
    ],
)
def test_bad_bounds(given, message):
    with pytest.raises(ValueError) as caught:
        CoxLassoCCD(bounds=given).fit(X, FACES["cox"].y)
    assert message.replace("12", str(P)) in str(caught.value)


def test_design_keeps_names_in_messages():
    table = pd.DataFrame(X.toarray(), columns=[f"c{j}" for j in range(P)])
    with pytest.raises(ValueError, match="did you mean 'c1'"):
        CoxLassoCCD(bounds={"c1x": (0, 1)}).fit(table, FACES["cox"].y)
    assert build_design(table).names is not None
