"""The penalty that the documentation adds, on both backends and against searches."""

from __future__ import annotations

import doctest
from pathlib import Path

import numpy as np
import pytest
from faces import FACES, P, X
from gpu.backend import simulate_backend
from scipy.optimize import minimize_scalar

from sksurvgpu import certificate

PAGE = Path(__file__).resolve().parents[1] / "docs" / "new_penalty.rst"


@pytest.fixture(scope="module")
def page():
    """Names that the page defines before its first fit."""
    examples = doctest.DocTestParser().get_examples(PAGE.read_text(encoding="utf-8"))
    first = next(i for i, e in enumerate(examples) if e.source.startswith("from sksurvgpu import"))
    names: dict = {}
    for example in examples[:first]:
        exec(compile(example.source, str(PAGE), "exec"), names)
    n_lines = sum(e.source.count("\n") for e in examples[:first] if "import" not in e.source)
    assert n_lines <= 40
    return names


def test_minimum_is_the_least_value(page):
    rng, family = np.random.default_rng(3), page["LogFamily"](0.4)
    columns = family.strengths(1.3, np.ones(1))
    for _ in range(60):
        z, curvature = 4.0 * rng.normal(), rng.uniform(0.1, 6.0)

        def value(x, z=z, curvature=curvature):
            return 0.5 * curvature * x * x - z * x + family.formulas.value(x, columns, 0)

        found = family.formulas.minimum(z, curvature, columns, 0)
        inside = minimize_scalar(value, bounds=(-50.0, 50.0), method="bounded")
        assert value(found) <= min(value(0.0), inside.fun) + 1e-9


def test_a_penalty_whose_slope_jumps_down_is_not_convex(page, monkeypatch):
    face, penalty = FACES["logistic"], page["LogPenalty"](k=0.2)
    model = face.make(penalty=penalty, alpha=0.015).fit(X, face.y)
    monkeypatch.setattr(page["LogFamily"], "concavity", lambda self, c: np.full(len(c.l), -np.inf))
    found = certificate(model, X, face.y)
    assert found.convex_here is False and found.is_local_minimum


def test_both_backends_agree(page, monkeypatch):
    simulate_backend(monkeypatch, seed=4)
    face, penalty = FACES["logistic"], page["LogPenalty"](k=0.2)
    given = {"penalty": penalty, "alpha": 0.015, "tol": 1e-7}
    fits = [
        face.make(backend=backend, **given).fit(X, face.y, **face.arguments())
        for backend in ("cpu", "cuda")
    ]
    assert all(fit.converged_ and 0 < np.count_nonzero(fit.coef_) < P for fit in fits)
    np.testing.assert_allclose(fits[0].coef_, fits[1].coef_, atol=1e-6)
    assert (
        fits[0].objective_ <= face.make(alpha=0.015).fit(X, face.y, **face.arguments()).objective_
    )
