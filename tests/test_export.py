"""Models in other hands: JSON read by plain arithmetic, and scikit-learn's own classes."""

import json
import math

import numpy as np
import pytest
from faces import FACES, TIME, X

from sksurvgpu import CoxLassoCCD, to_json, to_sklearn

TABLE = X.toarray()


@pytest.fixture(params=FACES)
def face(request):
    return FACES[request.param]


def hazard(read, row, stratum, time):
    """Cumulative hazard of a row as the module's docstring says it, without NumPy."""
    [baseline] = [part for part in read["baseline"] if part["stratum"] == stratum]
    assert time <= baseline["until"]
    total = 0.0
    for piece, curve in zip(read["pieces"], baseline["pieces"], strict=True):
        predictor = read["intercept"]
        predictor += sum(b * row[read["features"].index(name)] for name, b in piece["coef"].items())
        values = [
            value
            for at, value in zip(curve["times"], curve["log_cumulative_hazard"], strict=True)
            if at <= time
        ]
        total += math.exp(values[-1] + predictor) if values else 0.0
    return total


@pytest.mark.parametrize("with_strata", [False, True])
@pytest.mark.parametrize(
    ("name", "options"),
    [("cox", {}), ("fine-gray", {}), ("cox", {"time_varying": {0: [12.0], 3: [9.0, 20.0]}})],
    ids=["cox", "fine-gray", "time-varying"],
)
def test_curves_from_json(name, with_strata, options, tmp_path):
    face, rows = FACES[name], {}
    if with_strata:
        rows = face.arguments(("strata",))
    model = face.make(alpha=0.005, **options).fit(X, face.y, **rows)
    assert to_json(model, tmp_path / "model.json") == (tmp_path / "model.json").read_text()
    read = json.loads((tmp_path / "model.json").read_text())
    assert read["link"] == {"cox": "survival", "fine-gray": "incidence"}[name]
    strata = rows.get("strata", [None] * X.shape[0])
    for i in (0, 7, 100):
        label = strata[i].item() if with_strata else None
        own = {"strata": strata[i : i + 1]} if with_strata else {}
        last = TIME[np.asarray(strata) == strata[i]].max() if with_strata else TIME.max()
        for time in (0.0, 5.0, last / 2, last):
            risk = model.predict_risk(X[[i]], time, **own).iloc[0, 0] if time else 0.0
            assert 1 - math.exp(-hazard(read, TABLE[i], label, time)) == pytest.approx(risk)


def test_other_models_from_json(face):
    model = face.make(alpha=0.01).fit(X, face.y, **face.rows)
    read = json.loads(to_json(model))
    [piece] = read["pieces"]
    predictor = np.full(X.shape[0], read["intercept"])
    for name, b in piece["coef"].items():
        predictor += b * TABLE[:, read["features"].index(name)]
    linked = {"logit": lambda eta: 1 / (1 + np.exp(-eta)), "log": np.exp}
    found = linked.get(read["link"], lambda eta: eta)(predictor)
    own = model.predict_proba(X)[:, 1] if read["link"] == "logit" else model.predict(X)
    np.testing.assert_allclose(found, own, rtol=1e-12)
    assert (read["link"] == "logit") == ("classes" in read)


def test_models_of_scikit_learn_predict_the_same(face):
    model = face.make(alpha=0.01).fit(X, face.y, **face.rows)
    other = to_sklearn(model)
    for method in ("predict", "predict_proba", "decision_function"):
        if hasattr(model, method):
            own = getattr(model, method)(X)
            if own.dtype.kind == "f":
                np.testing.assert_allclose(getattr(other, method)(X), own, rtol=1e-12)
            else:
                assert (getattr(other, method)(X) == own).all()


def test_what_cannot_be_exported():
    face = FACES["cox"]
    changing = CoxLassoCCD(alpha=0.01, time_varying={0: [12.0]}).fit(X, face.y)
    with pytest.raises(ValueError, match="change over time"):
        to_sklearn(changing)
    with pytest.raises(TypeError, match=r"`estimator` is of type str; pass a fitted .* a pipeline"):
        to_json("cox")
