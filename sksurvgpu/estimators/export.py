r"""Fitted models for other software: as JSON, and as scikit-learn's own linear models.

A JSON file holds all that predictions take. With the coefficients b of the piece of time, if there
are several, and the intercept, a row x has the linear predictor

    predictor = intercept + sum over the names in coef of coef[name] x[name] .

The logarithm of the cumulative baseline hazard of a stratum is a step function of each piece: at t
the value at the last of its times that is not after t, or no hazard where there is none, and
unknown beyond `until`. The hazard of a row by t is the sum over pieces of exp(value + predictor),
its survival exp(-hazard), its risk 1 - exp(-hazard).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LinearRegression, LogisticRegression, PoissonRegressor
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.validation import check_is_fitted

from .. import __version__
from .._calls import renamed
from ..data.additive import MadeColumns
from ..data.design.columns import Design
from ..data.design.named import NamedColumns
from ._base import PenalizedModel
from ._curves import CurveModel
from .fitted import fitted_of
from .models.base import model_of
from .pipelines import open_pipeline, refuse_type

FORMAT = "sksurvgpu model 1"


@renamed(model="estimator")
def to_json(estimator, path=None) -> str:
    """Write a fitted model as JSON, which a few lines in any language can evaluate.

    Parameters
    ----------
    estimator : fitted estimator of this package, or pipeline
        One with coefficients. What is written of a pipeline is its last step, whose ``features``
        are the columns that come out of the other steps: rows to predict are to be transformed.
    path : path, optional
        File to write; none by default.

    Returns
    -------
    text : str
        An object with ``format``, ``model``, the version ``sksurvgpu``, ``features``, the
        ``intercept``, ``pieces`` of time with ``until`` (null for the last or only one) and
        ``coef``, the coefficients that are not zero by name, and ``link``: "identity", "log",
        "logit" with ``classes``, or "survival" and "incidence" with ``baseline``. The latter is a
        list with ``stratum`` (null without strata), ``until``, the last time that is known, and
        ``pieces`` with ``times`` and ``log_cumulative_hazard``, which jumps at these.

    Examples
    --------
    >>> import json
    >>> import math
    >>> from sksurvgpu import CoxLassoCCD, to_json
    >>> from sksurvgpu.datasets import simulate_cox
    >>> data = simulate_cox(1_000, 50, random_state=0)
    >>> model = CoxLassoCCD(alpha=0.02).fit(data.X, data.y)
    >>> read = json.loads(to_json(model))

    From here on without this package, the risk of a row with a one in column x3 by time 20:

    >>> [piece], [stratum] = read["pieces"], read["baseline"]
    >>> predictor = read["intercept"] + piece["coef"].get("x3", 0.0)
    >>> [curve] = stratum["pieces"]
    >>> steps = zip(curve["times"], curve["log_cumulative_hazard"])
    >>> log_hazard = max(value for time, value in steps if time <= 20)
    >>> risk = 1.0 - math.exp(-math.exp(log_hazard + predictor))

    It is that of the model:

    >>> import numpy as np
    >>> row = np.zeros((1, 50))
    >>> row[0, 3] = 1.0
    >>> math.isclose(risk, model.predict_risk(row, 20).iloc[0, 0])
    True
    """
    model = _open(estimator)
    names = fitted_of(model).setting.header.labels()
    content: dict[str, Any] = {
        "format": FORMAT,
        "model": type(model).__name__,
        "sksurvgpu": __version__,
        "features": names,
        "intercept": float(getattr(model, "intercept_", 0.0)),
        "pieces": _pieces(model, names),
        "link": _link(model),
    }
    if hasattr(model, "classes_"):
        content["classes"] = model.classes_.tolist()
    if isinstance(model, CurveModel):
        content["baseline"] = _baseline(model)
    text = json.dumps(content, indent=1, allow_nan=False)
    if path is not None:
        Path(path).write_text(text, encoding="utf-8")
    return text


@renamed(model="estimator")
def to_sklearn(estimator):
    """Fitted model of scikit-learn with the same predictions, for tools that know these.

    Parameters
    ----------
    estimator : fitted estimator of this package, or pipeline
        One with coefficients that do not change over time.

    Returns
    -------
    model : LogisticRegression, PoissonRegressor or LinearRegression
        As if fitted: what `LogisticCCD`, `PoissonCCD` and all others predict; of a pipeline, one
        of the same steps that ends in it. That of survival, case-series and conditional models is
        linear, and predicts the linear predictor. What converts scikit-learn's models converts it:
        with skl2onnx, ``skl2onnx.to_onnx(to_sklearn(model), X[:1])`` is an ONNX file.

    Examples
    --------
    >>> from sksurvgpu import LogisticCCD, to_sklearn
    >>> from sksurvgpu.datasets import simulate_logistic
    >>> data = simulate_logistic(1_000, 50, random_state=0)
    >>> model = LogisticCCD(alpha=0.01).fit(data.X, data.y)
    >>> other = to_sklearn(model)
    >>> bool(abs(other.predict_proba(data.X) - model.predict_proba(data.X)).max() < 1e-12)
    True
    """
    if isinstance(estimator, Pipeline):
        *steps, (name, last) = estimator.steps
        last = to_sklearn(last)
        if steps and isinstance(steps[-1][1], NamedColumns):  # no other model reads a Design
            steps[-1] = steps[-1][0], steps[-1][1].transformer_
            vars(last).pop("feature_names_in_", None)
        elif any(isinstance(of, MadeColumns) and getattr(of, "levels_", True) for _, of in steps):
            steps.append(("to_scipy", FunctionTransformer(Design.to_scipy)))
            vars(last).pop("feature_names_in_", None)
        return Pipeline([*steps, (name, last)])
    if hasattr(estimator, "best_estimator_"):
        return to_sklearn(estimator.best_estimator_)
    model = _open(estimator)
    pieces = _pieces(model, fitted_of(model).setting.header.labels())
    if len(pieces) > 1:
        raise ValueError(
            "the coefficients of `estimator` change over time, which no model of scikit-learn "
            "knows; take to_json."
        )
    coef, intercept = model.coef_.copy(), float(getattr(model, "intercept_", 0.0))
    if hasattr(model, "classes_"):
        other = LogisticRegression()
        other.classes_, other.n_iter_ = model.classes_.copy(), np.array([model.n_iter_])
        other.coef_, other.intercept_ = coef[None, :], np.array([intercept])
    else:
        counts = _link(model) == "log"
        other = PoissonRegressor() if counts else LinearRegression()
        # as scikit-learn's own fits have it, which converters rely on
        other.coef_, other.intercept_, other.n_iter_ = coef, np.float64(intercept), model.n_iter_
        if counts:
            other._base_loss = other._get_loss()
    for name in ("n_features_in_", "feature_names_in_"):
        if hasattr(model, name):
            setattr(other, name, getattr(model, name))
    return other


def _open(estimator):
    """The fitted model with coefficients that is the last step."""
    [model] = open_pipeline(estimator)
    if not isinstance(model, PenalizedModel):
        refuse_type(estimator)
    check_is_fitted(model)
    return model


def _pieces(model, names):
    """Coefficients that are not zero, by name, in every piece of time."""
    terms = fitted_of(model).terms
    coefs = [terms.columns_at(model.coef_, b, len(names)) for b in range(terms.n_pieces)]
    ends = [*terms.cuts.tolist(), None]
    return [
        {"until": end, "coef": {str(names[j]): float(coef[j]) for j in np.flatnonzero(coef)}}
        for end, coef in zip(ends, coefs, strict=True)
    ]


def _link(model):
    if isinstance(model, CurveModel):
        return "survival" if hasattr(model, "predict_survival_function") else "incidence"
    if hasattr(model, "classes_"):
        return "logit"
    is_linear = fitted_of(model).estimate.intercept is not None
    return "log" if is_linear and model_of(model).effect == "rate_ratio" else "identity"


def _baseline(model):
    """Steps of the baseline of every stratum that has rows."""
    baseline, found = fitted_of(model).baseline, []
    timeline = baseline.timeline
    for s in np.flatnonzero(np.diff(timeline.time_ptr)).tolist():
        own = timeline.of_stratum(s)
        times, logs = timeline.times[own], baseline.log_hazards[:, own]
        label = None if timeline.labels is None else timeline.labels[s].item()
        curves = [_steps(times, values) for values in logs]
        found.append({"stratum": label, "until": float(times[-1]), "pieces": curves})
    return found


def _steps(times, values):
    """Where a curve jumps, and to what."""
    jumps = np.flatnonzero(values > np.append(-np.inf, values[:-1]))
    return {"times": times[jumps].tolist(), "log_cumulative_hazard": values[jumps].tolist()}
