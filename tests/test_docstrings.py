"""Docstrings of the estimators as users read them, with their shared text put in."""

import re
from ast import literal_eval
from inspect import Parameter, cleandoc, isfunction, signature

import pytest
from faces import FACES, X

import sksurvgpu
from sksurvgpu import (
    BayesianLasso,
    BayesianMultinomialLogistic,
    CauseSpecificCox,
    MultiStateCox,
    RandomIntercepts,
)
from sksurvgpu.estimators import _docs
from sksurvgpu.plotting import _display
from sksurvgpu.selection import models

CLASSES = {face.cls.__name__: face.cls for face in FACES.values()}
CLASSES |= {name: getattr(models, name) for name in models.__all__}
OTHERS = (
    BayesianLasso,
    BayesianMultinomialLogistic,
    CauseSpecificCox,
    MultiStateCox,
    RandomIntercepts,
)
EVERY = CLASSES | {cls.__name__: cls for cls in OTHERS}
PUBLIC = {
    f"{name}.{attribute}": (cls, attribute)
    for name, cls in EVERY.items()
    for attribute in dir(cls)
    if not attribute.startswith("_")
}
DISPLAYS = {
    f"{name}.{attribute}": getattr(getattr(sksurvgpu, name), attribute)
    for name in sksurvgpu.__all__
    if name.endswith("Display")
    for attribute in dir(getattr(sksurvgpu, name))
    if not attribute.startswith("_")
}
# Methods that scikit-learn makes, and documents in its own way.
OF_SKLEARN = re.compile(r"\.(set_\w+_request|set_callbacks|(get|set)_params|get_metadata_routing)$")
METHODS = {
    name: getattr(*found)
    for name, found in PUBLIC.items()
    if callable(getattr(*found)) and not OF_SKLEARN.search(name)
}


def section(doc, title):
    """{names before the colon: text} of a section of a numpydoc docstring."""
    found = re.search(rf"^{title}\n-+\n(.*?)(?=^\S[^\n]*\n---|\Z)", doc, re.MULTILINE | re.DOTALL)
    if found is None:
        return {}
    # an entry begins at the margin
    entries = re.split(r"^(?=\S)", found[1], flags=re.MULTILINE)
    return {entry.partition(" : ")[0].strip(): entry.strip() for entry in entries if entry.strip()}


def arguments(function):
    kinds = (Parameter.VAR_KEYWORD, Parameter.VAR_POSITIONAL)
    found = signature(function).parameters.values()
    return [p.name for p in found if p.name != "self" and p.kind not in kinds]


def test_estimators_say_what_they_have():
    every = EVERY | {name: getattr(*found) for name, found in PUBLIC.items()}
    assert [name for name, item in every.items() if not item.__doc__] == []


def test_no_placeholder_remains():
    for name in sksurvgpu.__all__:
        found = getattr(sksurvgpu, name)
        parts = [getattr(found, part, None) for part in dir(found) if not part.startswith("_")]
        for item in (found, *parts):
            assert not re.search(r"<<[^>\n]*>>", getattr(item, "__doc__", None) or ""), name


def test_parameters_of_the_constructor_are_documented():
    for name, cls in EVERY.items():
        documented = section(cleandoc(cls.__doc__), "Parameters")
        assert list(documented) == arguments(cls), name
        for parameter, text in documented.items():
            default = signature(cls).parameters[parameter].default
            shown = text.splitlines()[0].partition("default=")[2]
            assert literal_eval(shown) == default, (name, parameter)
            assert len(text.splitlines()) > 1, (name, parameter)


def test_arguments_of_methods_are_documented():
    for name, method in (METHODS | DISPLAYS).items():
        documented = section(cleandoc(method.__doc__), "Parameters")
        assert [n for n in documented if not n.startswith("*")] == arguments(method), name
        assert section(cleandoc(method.__doc__), "Returns"), name
        assert all(len(text.splitlines()) > 1 for text in documented.values()), name


def test_methods_are_found():
    assert {"FineGrayCCD.predict_cumulative_incidence_function", "CaseSeriesCCD.predict"} < {
        *METHODS
    }
    assert {"SurvivalDisplay.from_functions", "PathDisplay.plot"} < {*DISPLAYS}
    assert {"LogisticCCD.score", "PoissonCCD.predict", "LinearCCD.summary"} < {*METHODS}


@pytest.mark.parametrize("face", FACES)
def test_fitted_attributes_are_documented(face):
    face = FACES[face]
    model = face.fit(X)
    own = {name for name in vars(model) if name.endswith("_") and not name.startswith("_")}
    documented = section(cleandoc(face.cls.__doc__), "Attributes")
    names = {name for entry in documented for name in entry.split(", ")}
    properties = {n for n in dir(face.cls) if isinstance(getattr(face.cls, n, None), property)}
    assert own <= names
    assert names <= own | properties | {"feature_names_in_", "n_exchanges_", "n_passes_"}


def test_shared_parameters_are_told_in_the_same_words():
    texts = {}
    for cls in CLASSES.values():
        doc = cleandoc(cls.__doc__)
        for title in ("Parameters", "Attributes"):
            for name, text in section(doc, title).items():
                texts.setdefault(name, {})[cls.__name__] = text
    differing = {name for name, by_class in texts.items() if len(set(by_class.values())) > 1}
    # which are of different things; a cross-validation has several shares
    assert differing == {"coef_", "relax", "ties"}
    everywhere = {name for name, by_class in texts.items() if len(by_class) == len(CLASSES)}
    shared = {"penalty_factor", "tol", "n_jobs", "verbose", "kkt_", "n_iter_"}
    assert shared < everywhere


def test_arguments_of_fit_are_told_in_the_same_words():
    texts = {}
    for name, cls in CLASSES.items():
        for argument, text in section(cleandoc(cls.fit.__doc__), "Parameters").items():
            texts.setdefault(argument, {})[name] = text
    assert {name for name, by_class in texts.items() if len(set(by_class.values())) == 1} >= {
        "X",
        "offset",
        "exposure",
        "censoring_groups",
    }
    weights = set(texts["sample_weight"].values())
    assert all(
        text.startswith("sample_weight : array-like of shape (n_samples,), optional\n")
        for text in weights
    ) and all("Row weights, at least 0" in text for text in weights)


def test_every_shared_text_is_used():
    functions = filter(isfunction, (getattr(sksurvgpu, name) for name in sksurvgpu.__all__))
    items = [*EVERY.values(), *METHODS.values(), *functions]
    used = "".join(cleandoc(item.__doc__) for item in items)
    for name, text in {**_docs._ENTRIES, **_docs._SHARED}.items():
        first = cleandoc(text).splitlines()[0]
        assert first in used or first.startswith("<<"), name


def test_every_shared_text_of_displays_is_used():
    classes = (getattr(sksurvgpu, name) for name in sksurvgpu.plotting.__all__)
    used = "".join(cleandoc(item.__doc__) for item in (*classes, *DISPLAYS.values()))
    assert all(text.splitlines()[0] in used for text in _display._ENTRIES.values())
