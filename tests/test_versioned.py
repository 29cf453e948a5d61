"""Pickles of fitted estimators and results, read by another version than made them."""

import inspect
import pickle

import numpy as np
import pytest
from sklearn.exceptions import InconsistentVersionWarning

import sksurvgpu
from sksurvgpu import CoxLassoCCD, CoxLassoCV, fit_path
from sksurvgpu._versioned import Versioned
from sksurvgpu.datasets import simulate_cox
from sksurvgpu.penalties import PenaltySpec

DATA = simulate_cox(200, 5, random_state=0)
# figures, splitters, files that are opened anew
OF_A_MOMENT = ("Display", "Fold", "PartitionedData")


@pytest.fixture(scope="module")
def model():
    return CoxLassoCCD(alpha=0.02).fit(DATA.X, DATA.y)


def test_everything_that_is_kept_knows_its_version():
    public = {name: getattr(sksurvgpu, name) for name in sksurvgpu.__all__}
    classes = {name for name, found in public.items() if inspect.isclass(found)}
    given = {name for name in classes if issubclass(public[name], PenaltySpec)}  # to estimators
    kept = {name for name in classes - given if not name.endswith(OF_A_MOMENT)}
    assert kept == {name for name in classes if issubclass(public[name], Versioned)}


def test_pickles_of_this_version_are_silent_and_whole(model):
    loaded = pickle.loads(pickle.dumps(model))
    assert vars(loaded).keys() == vars(model).keys()
    np.testing.assert_array_equal(loaded.predict(DATA.X), model.predict(DATA.X))


def dumps_of_another_version(made):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sksurvgpu._versioned.__version__", "0.0.7")
        return pickle.dumps(made)


@pytest.mark.parametrize("fitted", [True, False])
def test_pickles_of_another_version_warn(model, fitted):
    made = model if fitted else CoxLassoCV(alphas=[0.1])
    kept = dumps_of_another_version(made)
    with pytest.warns(InconsistentVersionWarning) as caught:
        loaded = pickle.loads(kept)
    [warning] = caught
    assert str(warning.message).startswith(
        f"this {type(made).__name__} was pickled by sksurvgpu 0.0.7 and is read by "
        f"{sksurvgpu.__version__}: "
    )
    assert warning.filename == __file__
    assert vars(loaded).keys() == vars(made).keys()
    # From another process, the warning itself is pickled.
    assert str(pickle.loads(pickle.dumps(warning.message))) == str(warning.message)


def test_results_warn_for_themselves_and_for_what_they_hold():
    path = fit_path(CoxLassoCCD(), DATA.X, DATA.y, alphas=[0.05, 0.02])
    kept = dumps_of_another_version(path)
    with pytest.warns(InconsistentVersionWarning) as caught:
        loaded = pickle.loads(kept)
    assert {warning.message.estimator_name for warning in caught} == {"Path", "CoxLassoCCD"}
    np.testing.assert_array_equal(loaded.coefs, path.coefs)


def test_pickles_from_before_versions_were_written(model):
    loaded = CoxLassoCCD()
    with pytest.warns(InconsistentVersionWarning, match="by sksurvgpu of an unknown version and"):
        loaded.__setstate__(dict(vars(model)))
    np.testing.assert_array_equal(loaded.coef_, model.coef_)
