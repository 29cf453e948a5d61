"""Log-likelihoods and gradients of batches of fits whose rows are set up once."""

import numpy as np
import pytest
from engine import dense
from models import MODELS

from sksurvgpu.backends import choose, cpu
from sksurvgpu.solver.problem import Batch

P, N_FITS, N_POINTS = 4, 2, 2
ON_DEVICE = ["cox, efron", "fine_gray, strata", "conditional_logistic", "poisson, origin"]


def open_batch(model, sample, backend, own=True):
    """Evaluator of fits with weights and offsets of their own, or with those of the sample."""
    columns = 1.0 + np.arange(N_FITS) if own else np.ones(1)
    batch = Batch(
        np.empty((0, N_FITS)),
        weight=sample.weights[:, None] * columns,
        offset=sample.offset[:, None] * columns,
    )
    return backend.open_evaluator(model.problem(sample), batch)


def points():
    return np.random.default_rng(0).normal(size=(N_POINTS, N_FITS, P))


@pytest.mark.parametrize(
    ("name", "own"), [*((name, True) for name in MODELS), ("cox, efron", False)]
)
def test_evaluations_are_the_oracle_s(name, own, check_close):
    model = MODELS[name]
    sample = model.sample(6, p=P)
    evaluator = open_batch(model, sample, cpu, own)
    for coefs in points():
        logliks, gradients = evaluator.evaluate(coefs)
        assert gradients.shape == (N_FITS, P)
        for b, coef in enumerate(coefs):
            share = 1.0 + b if own else 1.0
            fit = sample.with_(weights=share * sample.weights, offset=share * sample.offset)
            expected = model.reference_at(fit, coef)
            check_close(logliks[b], expected.loglik, "loglik")
            check_close(gradients[b], dense(sample.X).T @ expected.u, "u")


@pytest.mark.thorough
@pytest.mark.parametrize("name", ON_DEVICE)
def test_a_device_evaluates_as_the_cpu_does(name, monkeypatch, check_close):
    from gpu.backend import simulate_backend

    simulate_backend(monkeypatch, seed=1)
    model = MODELS[name]
    sample = model.sample(7, p=P)
    on_cpu, on_device = (open_batch(model, sample, backend) for backend in (cpu, choose("cuda")))
    for coefs in points():
        expected, found = on_cpu.evaluate(coefs), on_device.evaluate(coefs)
        check_close(found[0], expected[0], "cuda loglik")
        check_close(found[1], expected[1], "cuda loglik")


def test_chains_that_do_not_fit_on_a_device(monkeypatch):
    from gpu.backend import simulate_backend

    from sksurvgpu.backends.cuda import memory

    device = simulate_backend(monkeypatch, seed=1)
    model = MODELS["cox, breslow"]
    sample = model.sample(8, p=P)
    problem, batch = model.problem(sample), Batch(np.empty((0, 3)))
    needed = memory.shared_bytes(problem, batch, device)
    needed += 2.5 * memory.bytes_of_fit(problem, batch, "float64", device)
    monkeypatch.setattr(device, "free_bytes", lambda: needed / memory.SHARE)
    with pytest.raises(MemoryError, match=r"3 chains do not fit .* 2 do; take fewer"):
        choose("cuda").open_evaluator(problem, batch)
