"""Batches of selection and inference on a simulated device: the same numbers as on the CPU."""

import weakref
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from gpu.backend import simulate_backend

from sksurvgpu import CoxLassoCV, LogisticCV, bootstrap, surv
from sksurvgpu.backends import cuda
from sksurvgpu.backends.cuda import kept
from sksurvgpu.data.design.columns import build_design
from sksurvgpu.data.outcomes.survival import Outcome
from sksurvgpu.estimators.survival import CoxLassoCCD
from sksurvgpu.likelihoods.cox import Cox
from sksurvgpu.patterns.risk_sets.plan import plan_rows
from sksurvgpu.solver.problem import Problem

pytestmark = pytest.mark.slow  # kernels in the simulator

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


def test_one_upload_serves_a_cross_validation(monkeypatch):
    """Null model, fits, scores and the refit share what lies on the device, as long as they run."""
    device, layouts = simulate_backend(monkeypatch, seed=3), weakref.WeakSet()

    class Watched(cuda.Layout.func):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, **options)
            layouts.add(self)
            sizes.append(self.X.indices.nbytes)

    sizes = []
    monkeypatch.setattr(cuda, "Layout", partial(Watched, **cuda.Layout.keywords))
    model = CoxLassoCV(alphas=[0.05, 0.01], cv=2, tol=1e-3, backend="cuda").fit(X, Y)
    assert len(sizes) == 1
    assert model.backend_ == "cuda"
    assert not layouts
    assert device.free_bytes() == device.memory


def test_nothing_is_kept_after_a_fault_which_is_said_where_it_was_met(monkeypatch):
    device = simulate_backend(monkeypatch)
    monkeypatch.setattr(cuda.Session, "curvature", lambda *given: 1 // 0)
    with pytest.raises(ZeroDivisionError) as raised:
        CoxLassoCCD(alpha=0.01, backend="cuda").fit(X, Y)
    assert raised.value.__notes__ == ["in or before `curvature` of 1 fit(s) on simulated device"]
    del raised
    assert device.free_bytes() == device.memory


def test_what_is_kept_is_of_the_same_problem(monkeypatch):
    device = simulate_backend(monkeypatch)
    design, rows = build_design(X), plan_rows(Outcome(Y["event"], Y["time"]))
    problem = Problem.build(design, rows, Cox("efron"))
    layout = kept.layout_of(cuda.Layout, device, problem)
    same = replace(problem, likelihood=replace(problem.likelihood))
    assert kept.layout_of(cuda.Layout, device, same) is layout
    free = device.free_bytes()
    assert device.memory - free - 10_000 < kept.held_bytes(device, problem) <= device.memory - free
    others = (
        replace(problem, likelihood=Cox()),  # rows are cut elsewhere
        replace(problem, X=problem.X.centred(None)),
        replace(problem, plan=replace(rows)),
        replace(problem, source=problem.source.copy()),
        replace(problem, piece_ptr=problem.piece_ptr.copy()),
    )
    for other in others:
        last, layout = layout, kept.layout_of(cuda.Layout, device, other)
        assert layout is not last
        del last
        assert abs(device.free_bytes() - free) < 1_000  # only one is kept
    layout = weakref.ref(layout)
    del other, others
    assert layout() is None
