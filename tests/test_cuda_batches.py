"""Batches of selection and inference on a simulated device: the same numbers as on the CPU."""

import numpy as np
import pytest
from gpu.backend import simulate_backend

from sksurvgpu import CoxLassoCV, LogisticCV, bootstrap, surv
from sksurvgpu.estimators.survival import CoxLassoCCD

RNG = np.random.default_rng(0)
X = (RNG.random((30, 3)) < 0.5).astype(float)
Y = surv(RNG.random(30) < 0.7, np.ceil(10 * RNG.exponential(size=30)))
LABEL = RNG.random(30) < 1 / (1 + np.exp(0.5 - X[:, 0]))


@pytest.mark.parametrize(
    ("cls", "y", "cv"), [(CoxLassoCV, Y, 2), (LogisticCV, LABEL, [(np.r_[:20], np.r_[20:30])])]
)
def test_scores_of_splits(cls, y, cv, monkeypatch):
    simulate_backend(monkeypatch, seed=1)
    params = {"alphas": [0.05, 0.01], "cv": cv, "tol": 1e-5}
    on_cpu, on_device = (cls(backend=b, **params).fit(X, y) for b in ("cpu", "cuda"))
    scores = [cv.cv_results_["mean_score"] for cv in (on_cpu, on_device)]
    np.testing.assert_allclose(*scores, rtol=1e-6)
    assert on_device.backend_ == "cuda"


def test_replicates(monkeypatch):
    simulate_backend(monkeypatch, seed=2)
    results = [
        bootstrap(
            CoxLassoCCD(alpha=0.01, tol=1e-6, backend=b), X, Y, n_replicates=2, random_state=0
        )
        for b in ("cpu", "cuda")
    ]
    np.testing.assert_allclose(results[1].coefs, results[0].coefs, atol=1e-5)
