"""How a part of the rows of a fit is read: as all of them are, but for what only all must have."""

import json

import numpy as np
import pytest
import scipy.sparse as sp

from sksurvgpu import (
    CaseSeriesCCD,
    ConditionalLogisticCCD,
    ConditionalPoissonCCD,
    CoxLassoCCD,
    CoxLassoCV,
    FineGrayCCD,
    LinearCCD,
    LogisticCCD,
    PoissonCCD,
    case_series,
    competing_risks,
    matched,
    surv,
)
from sksurvgpu.estimators._partition import model_text, read_rows
from sksurvgpu.estimators.models.base import model_of
from sksurvgpu.estimators.models.linear import GaussianModel

X = np.eye(4)[:, :3]
# Outcomes without what a fit needs: an event, two classes, something to compare.
LACKING = {
    "cox": (CoxLassoCCD(), surv(np.zeros(4), [1, 2, 3, 4]), {}),
    "cox cv": (CoxLassoCV(), surv(np.zeros(4), [1, 2, 3, 4]), {}),
    "fine_gray": (
        FineGrayCCD(event_of_interest=2),
        competing_risks([0, 1, 0, 1], [1, 2, 3, 4]),
        {},
    ),
    "case_series": (CaseSeriesCCD(), case_series([0] * 4, [1] * 4, [1, 1, 2, 2]), {}),
    "conditional_poisson": (ConditionalPoissonCCD(), np.zeros(4), {"strata": [1, 1, 2, 2]}),
    "conditional_logistic": (ConditionalLogisticCCD(), matched([1] * 4, [1, 1, 2, 2]), {}),
    "clogit efron": (ConditionalLogisticCCD(ties="efron"), matched([0] * 4, [1, 1, 2, 2]), {}),
    "logistic": (LogisticCCD(), np.array(["b"] * 4), {}),
    "poisson": (PoissonCCD(), np.zeros(4), {"exposure": [1.0, 2.0, 3.0, 4.0]}),
}


@pytest.mark.parametrize("name", LACKING)
def test_a_part_need_not_have_what_a_fit_needs(name):
    model, y, given = LACKING[name]
    with pytest.raises(ValueError, match=r"one class|event|compare|case|code"):
        model.fit(X, y, **given)
    for rows in (slice(None), slice(0)):
        some = {key: np.asarray(value)[rows] for key, value in given.items()}
        weight = np.zeros(4)[rows]
        arguments = {"X": sp.csr_array(X)[rows], "y": y[rows], "sample_weight": weight, **some}
        part = read_rows(model_text(model), arguments)
        assert part.design.n_rows == len(y[rows]) == part.outcome.n_rows
        if len(y[rows]):
            with pytest.raises(ValueError, match=r"one class|event|compare|case|code"):
                model_of(model).agree([part.told], 4)
    assert part.likelihood == model_of(model).outline(3, None).likelihood


def test_what_is_wrong_in_a_part_is_refused():
    y = surv(np.zeros(4), [1, 2, 3, 4])
    text = model_text(CoxLassoCCD())
    for arguments, message in (
        ({"X": X, "y": y[:3]}, "has 3 entries"),
        ({"X": X * np.nan, "y": y}, "NaN"),
        ({"X": X, "y": y, "sample_weight": [1, -1, 1, 1]}, "`sample_weight` is -1 in row 1"),
        ({"X": X, "y": y, "offset": [0, 1, np.inf, 1]}, "`offset` has 1 NaN or infinite"),
    ):
        with pytest.raises(ValueError, match=message):
            read_rows(text, arguments)


def test_text_says_how_rows_are_read_and_nothing_else():
    cuts = {"a": np.array([1.5]), 2: [2.0]}
    model = CoxLassoCCD(ties="efron", time_varying=cuts)
    other = CoxLassoCCD(ties="efron", time_varying=cuts, alpha=3.0, tol=1e-3, n_jobs=2)
    assert model_text(model) == model_text(other)
    y = surv(np.ones(4), [1, 2, 3, 4])
    import pandas as pd

    part = read_rows(model_text(model), {"X": pd.DataFrame(X, columns=list("abc")), "y": y})
    assert part.cuts == (1.5, 2.0)
    assert part.source.tolist() == [0, 0, 1, 2, 2]
    assert part.likelihood.ties == "efron"
    assert model_text(CoxLassoCV(alphas=[1.0])) == model_text(CoxLassoCCD())


def test_classes_are_those_of_all_parts():
    model = LogisticCCD(class_weight="balanced")
    arguments = {"X": X, "y": ["b", "b", "c", "b"], "sample_weight": [1, 2, 3, 4]}
    told = read_rows(model_text(model), arguments).told
    assert told["classes"].tolist() == ["b", "c"]
    assert told["class_totals"].tolist() == [7.0, 3.0]
    arguments["y"] = ["b"] * 4
    agreed = model_of(model).agree([told], 4)
    assert agreed["class_weight"].tolist() == [5.0 / 7.0, 5.0 / 3.0]
    agreed = {"classes": np.array(["a", "b"]), "class_weight": [2.0, 3.0]}
    part = read_rows(model_text(model, agreed), arguments)
    assert part.outcome.value.tolist() == [1.0] * 4
    assert part.weight.tolist() == [3.0, 6.0, 9.0, 12.0]


def test_exposure_is_an_offset():
    arguments = {"X": X, "y": [1, 0, 2, 0], "exposure": [1, 2, 3, 4], "offset": [1.0, 0, 0, 0]}
    part = read_rows(model_text(PoissonCCD()), arguments)
    np.testing.assert_allclose(part.offset, np.log([np.e, 2, 3, 4]))
    assert read_rows(model_text(LinearCCD()), {"X": X, "y": np.ones(4)}).offset is None


def test_messages_name_models_of_the_package_only():
    y = np.ones(4)
    for name in ("os:system", "sksurvgpu.data.checks:check_offset", "sksurvgpu_evil:Model"):
        text = json.dumps(json.loads(model_text(LinearCCD())) | {"model": name})
        with pytest.raises(ValueError, match="may name no other"):
            read_rows(text, {"X": X, "y": y})
    text = json.dumps(
        json.loads(model_text(LinearCCD())) | {"model": "sksurvgpu.estimators.models.base:model_of"}
    )
    with pytest.raises(ValueError, match="no model"):
        read_rows(text, {"X": X, "y": y})

    class Own(LinearCCD):  # whose rows are those of its model
        pass

    assert model_text(Own()) == model_text(LinearCCD())

    class Other(LinearCCD):
        _model = type("OtherModel", (GaussianModel,), {"__module__": __name__})

    text = model_text(Other())
    with pytest.raises(ValueError, match="may name no other"):
        read_rows(text, {"X": X, "y": y})


@pytest.mark.parametrize("parameters", [{"ties": "none"}, {"time_varying": 3}])
def test_parameters_of_a_message_are_checked(parameters):
    said = json.loads(model_text(CoxLassoCCD()))
    text = json.dumps(said | {"parameters": said["parameters"] | parameters})
    with pytest.raises(ValueError, match=f"'{next(iter(parameters))}' parameter of CoxModel"):
        read_rows(text, {"X": X, "y": surv(np.ones(4), [1, 2, 3, 4])})
