"""Pickles of fitted estimators and results, read by another version than made them."""

import inspect
import lzma
import pickle
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import InconsistentVersionWarning

import sksurvgpu
from sksurvgpu import CoxLassoCCD, CoxLassoCV, fit_path, information_criteria, to_json
from sksurvgpu._versioned import Versioned
from sksurvgpu.datasets import simulate_cox
from sksurvgpu.estimators.fitted import fitted_of
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


KEPT = pickle.loads(lzma.decompress((Path(__file__).parent / "pickles_0_2.xz").read_bytes()))


def read_kept(name):
    if name.endswith("_cv") and pd.__version__ < "3":
        pytest.skip("tables of pandas 3, which older ones cannot read")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InconsistentVersionWarning)
        return KEPT[name], pickle.loads(KEPT[name]["pickle"])


def table_of(kept):
    return pd.DataFrame(kept["X"]) if isinstance(kept["X"], dict) else kept["X"]


@pytest.mark.parametrize("name", [name for name in KEPT if name != "path"])
def test_fits_of_version_0_2_predict(name):
    kept, model = read_kept(name)
    X, given = table_of(kept), kept["given"]
    np.testing.assert_array_equal(model.predict(X, **kept["predict"]), kept["expected"])
    assert model.log_likelihood(X, kept["y"], **given) == pytest.approx(kept["log_likelihood"])
    assert np.isfinite(model.score(X, kept["y"], **given))
    if "risk" in kept:
        np.testing.assert_array_equal(model.predict_risk(X, [0.5], **given), kept["risk"])
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(X, **kept["predict"]), kept["expected"])


@pytest.mark.parametrize("name", [name for name in KEPT if name != "path"])
def test_fits_of_version_0_2_are_those_of_today(name):
    kept, model = read_kept(name)
    X, given = table_of(kept), kept["given"]
    fresh = clone(model).fit(X, kept["y"], **given)
    assert vars(model).keys() == vars(fresh).keys()
    of_old, of_new = fitted_of(model), fitted_of(fresh)
    assert of_old.attributes().keys() == of_new.attributes().keys()
    assert of_old.names.tolist() == of_new.names.tolist()
    assert (of_old.fingerprint, of_old.n_rows) == (of_new.fingerprint, of_new.n_rows)
    if name.endswith("_cv"):
        model, fresh = model.refit_model(), fresh.refit_model()
    assert vars(model).keys() == vars(fresh).keys()
    assert to_json(model).count("\n") == to_json(fresh).count("\n")
    if model.penalty is None and model.relax is None:
        assert np.isfinite(information_criteria(model, X, kept["y"], **given)).all()
    # what a fit leaves goes with the next one
    model.set_params(penalty=None).fit(X, kept["y"], **given)
    assert not hasattr(model, "pilot_coef_")


def test_paths_of_version_0_2_have_their_fits():
    kept, path = read_kept("path")
    np.testing.assert_array_equal(path.coefs, kept["coefs"])
    first = path.at(0)
    np.testing.assert_array_equal(first.coef_, kept["coefs"][:, 0])
    np.testing.assert_array_equal(first.predict_risk(table_of(kept), [0.5]), kept["risk"])
    assert fitted_of(first).alpha == pytest.approx(path.alphas[0])
