"""Whole fits through the CUDA backend's host code and kernels, in the simulator, against the CPU.

The same solver asks both backends the same questions, so that a fit agrees to rounding; what is
demanded here is far less than that.
"""

import numpy as np
import pytest
from engine import column, draw_outcome, make_problem
from gpu.backend import simulate_backend
from grids import thin
from models import FORMS, MODELS, largest_gradient, make_batch, use_form

from sksurvgpu import LogisticCCD
from sksurvgpu.backends import choose, cpu, cuda
from sksurvgpu.penalties import BoundedElasticNet
from sksurvgpu.penalties.folded import FoldedPenalty
from sksurvgpu.solver.fits import Fits, Options
from sksurvgpu.solver.problem import Batch

CLOSE, SAME = 1e-9, 1e-10  # coefficients, objectives
TOL = 1e-5  # both go the same way, so that coefficients agree far better than they are optimal
# Where a borderline decision fell otherwise, the fits took other ways to their tolerance.
OTHER_WAY = 1e-7
P = 3
# The registry's models, and every form of the quadratic model once.
CASES = [(name, form) for name, form in FORMS if "origin" not in name or name == "poisson, origin"]


def both(problem, batch, precision="float64", **options):
    """Solutions per fit and penalty by the CPU, and by the simulated device."""
    options = Options(**{"tol": TOL, **options})
    expected = Fits(problem, batch, cpu, options).solve()
    return expected, Fits(problem, batch, choose("cuda", precision), options).solve()


def compare(found, expected, tolerance=CLOSE):
    """The same optimum, and a certificate for it."""
    scale = max(1.0, np.abs(expected.coef).max())
    assert np.abs(found.coef - expected.coef).max() <= tolerance * scale
    assert found.objective == pytest.approx(expected.objective, rel=SAME)
    assert found.lam_max == pytest.approx(expected.lam_max, rel=CLOSE)
    assert found.converged


@pytest.mark.parametrize(("name", "form"), thin(4, CASES))
def test_fit_of_every_model(name, form, monkeypatch):
    simulate_backend(monkeypatch, seed=1)
    use_form(form, monkeypatch)
    model = MODELS[name]
    sample = model.sample(3, p=P)
    lam = 0.2 * largest_gradient(model, sample)
    factor = np.ones(P)
    factor[1] = 0.0
    batch = make_batch(sample, lam, l1_ratio=0.8, factor=factor)
    expected, found = both(model.problem(sample), batch)
    compare(found[0][0], expected[0][0])


def sample_exact(name, seed, **shape):
    """Rows that devices have the exact algorithm for."""
    sample = MODELS[name].sample(seed, **shape)
    return sample.with_y(start=None) if "start" in sample.y else sample


@pytest.mark.parametrize("ties", ["breslow", "efron"])
def test_exact_algorithm(ties, monkeypatch):
    simulate_backend(monkeypatch, seed=2)
    model, sample = MODELS[f"cox, {ties}"], sample_exact(f"cox, {ties}", 4, p=3)
    batch = make_batch(sample, 0.3 * largest_gradient(model, sample))
    expected, found = both(model.problem(sample), batch, algorithm="exact", tol=1e-4)
    compare(found[0][0], expected[0][0])


def draw(name):
    return MODELS[name].problem(MODELS[name].sample(1, p=P))


def draw_pieces():
    """A coefficient that changes over time."""
    data = draw_outcome(np.random.default_rng(0), 40)
    data, pieces = data.with_(X=np.eye(40, 2)), np.array([[0, 1], [1, 2], [0, 2]])
    return make_problem(data, "breslow", np.array([4.0]), np.array([0, 0, 1]), pieces)


REFUSED = {
    "fine_gray": (lambda: draw("fine_gray"), "the likelihood is FineGray"),
    "groups": (lambda: draw("conditional_poisson"), "the likelihood is ConditionalPoisson"),
    "sets": (lambda: draw("conditional_logistic"), "the likelihood is ConditionalLogistic"),
    "rows": (lambda: draw("logistic"), "the likelihood is Logistic"),
    "entries": (lambda: draw("cox, efron"), "rows enter late"),
    "pieces": (draw_pieces, "coefficients change over time"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_other_exact_fits_are_refused_before_the_device_is_used(case):
    problem, found = REFUSED[case][0](), REFUSED[case][1]
    with pytest.raises(ValueError) as raised:
        Fits(
            problem, Batch(np.ones((1, 1))), cuda.CudaBackend(None), Options(algorithm="exact")
        ).solve()
    assert str(raised.value) == (
        'algorithm="exact" with backend="cuda" is there for Cox models whose rows are at risk '
        f"from the beginning and whose coefficients are constant over time, and here {found}; "
        'pass backend="cpu", or the default, algorithm="majorized".'
    )


def test_exact_estimators_are_refused_and_sent_to_the_cpu(monkeypatch):
    simulate_backend(monkeypatch)
    X, y = np.eye(6), np.arange(6) % 2
    model = LogisticCCD(alpha=0.01, algorithm="exact", backend="cuda")
    with pytest.raises(ValueError, match=r'here the likelihood is Logistic; pass backend="cpu"'):
        model.fit(X, y)
    model.set_params(backend="auto").fit(X, y)
    assert model.backend_ == "cpu" and 'for algorithm="exact"' in model.backend_reason_


@pytest.mark.weekly(but="folded")
@pytest.mark.mostly_slow(but="breslow")
@pytest.mark.parametrize(
    ("name", "algorithm", "shape"),
    [
        ("cox, breslow", "majorized", "folded"),
        ("cox, breslow", "exact", "bounded"),
        ("logistic", "majorized", "bounded"),
        ("cox, efron", "exact", "folded"),
    ],
)
def test_another_penalty(name, algorithm, shape, monkeypatch):
    """Kernels compute with its formulas, and take its arrays for every fit of a batch."""
    simulate_backend(monkeypatch, seed=4)
    model = MODELS[name]
    sample = sample_exact(name, 6, p=4, weights=False)
    lambdas = largest_gradient(model, sample) * np.array([[0.1, 0.02]])
    lower, upper = np.array([-np.inf, -0.05, 0.0, -0.1]), np.array([np.inf, 0.1, 0.2, 0.0])
    penalty = BoundedElasticNet(0.9, lower=lower, upper=upper)
    if shape == "folded":
        knots = np.zeros(4), np.full(4, 3.0)
        penalty = FoldedPenalty(0.9, lower, upper, *knots, total=1.0, null=np.full(4, 5.0))
    batch = Batch(lambdas, penalty, offset=column(sample.offset))
    expected, found = both(model.problem(sample), batch, algorithm=algorithm, tol=1e-5)
    for one, other in zip(found, expected, strict=True):
        compare(one[0], other[0])
    reached = (found[1][0].coef == lower) | (found[1][0].coef == upper)
    assert np.any(reached & (found[1][0].coef != 0))


def batch_of(model, sample, n_fits, seed=0):
    """Fits that differ in weights, offsets and penalties, and so in how long they take."""
    rng = np.random.default_rng(seed)
    weight = rng.choice([0.0, 1.0, 2.0], (sample.n, n_fits))
    if model.weighs_groups:
        weight = weight[sample.y[model.groups]]
    weight[:, 0] = 1.0
    lam = largest_gradient(model, sample) * np.array([[0.8, 0.3, 0.5][:n_fits], n_fits * [0.15]])
    return Batch(lam, weight=weight, offset=rng.normal(size=(sample.n, n_fits)))


def alone(batch, b):
    return Batch(batch.lambdas[:, [b]], weight=batch.weight[:, [b]], offset=batch.offset[:, [b]])


@pytest.mark.parametrize(
    "name", thin(4, ["poisson", "cox, efron", "fine_gray, curves", "conditional_logistic, many"])
)
def test_batch_is_its_fits(name, monkeypatch):
    simulate_backend(monkeypatch, seed=3)
    model = MODELS[name]
    sample = model.sample(5, p=2, weights=False, offset=False)
    problem, batch = model.problem(sample), batch_of(model, sample, 3)
    _, found = both(problem, batch, tol=1e-9)
    for b in range(3):
        expected = Fits(problem, alone(batch, b), cpu, Options(tol=1e-9)).solve()[0]
        for one, other in zip(found[b], expected, strict=True):
            compare(one, other, OTHER_WAY)


def few_rows():
    """A model and rows whose fits in waves go the way of those at once, to any tolerance."""
    model = MODELS["gaussian"]
    return model, model.sample(5, p=2, weights=False, offset=False).rows(slice(0, 24))


def test_batch_that_does_not_fit_runs_in_waves(monkeypatch):
    device = simulate_backend(monkeypatch, seed=3)
    model, sample = few_rows()
    problem, batch = model.problem(sample), batch_of(model, sample, 3)
    at_once = Fits(problem, batch, choose("cuda"), Options(tol=1e-2)).solve()
    from sksurvgpu.backends.cuda import kept, memory

    kept.forget()  # what lies on the device already

    needed = memory.shared_bytes(problem, batch, device)
    needed += 1.5 * memory.bytes_of_fit(problem, batch, "float64", device)
    monkeypatch.setattr(device, "free_bytes", lambda: needed / memory.SHARE)
    assert memory.fits_at_once(problem, batch, device, "float64") == 1
    in_waves = Fits(problem, batch, choose("cuda"), Options(tol=1e-2)).solve()
    for one, other in zip(in_waves, at_once, strict=True):
        compare(one[-1], other[-1], OTHER_WAY)


def test_memory_that_is_not_there_is_named(monkeypatch):
    device = simulate_backend(monkeypatch)
    monkeypatch.setattr(device, "free_bytes", lambda: 1000)
    model = MODELS["logistic"]
    sample = model.sample(5, p=4)
    with pytest.raises(
        MemoryError, match=r"60 rows and 4 columns needs .* GiB are free; pass prec"
    ):
        Fits(model.problem(sample), make_batch(sample, 1.0), choose("cuda")).solve()


@pytest.mark.parametrize(
    ("name", "algorithm"),
    [
        ("cox, efron", "majorized"),
        ("cox, efron", "exact"),
        ("fine_gray, curves", "majorized"),
        ("conditional_logistic, many", "majorized"),
        ("logistic", "majorized"),
    ],
)
def test_estimate_of_memory_is_no_less_than_what_is_taken(name, algorithm, monkeypatch):
    from sksurvgpu.backends.cuda import memory

    sample = sample_exact(name, 5, p=3) if algorithm == "exact" else MODELS[name].sample(5, p=3)
    problem, batch = MODELS[name].problem(sample), make_batch(sample, 1.0)
    device = simulate_backend(monkeypatch)
    free, most = device.free_bytes(), []
    launch = device.launch

    def watch(*arguments, **options):
        most.append(free - device.free_bytes())
        return launch(*arguments, **options)

    monkeypatch.setattr(device, "launch", watch)
    Fits(problem, batch, choose("cuda"), Options(algorithm=algorithm, max_iter=1)).solve()
    planned = memory.shared_bytes(problem, batch, device)
    planned += memory.bytes_of_fit(problem, batch, "float64", device)
    assert max(most) <= planned + 4_000  # exchanges and lists of tasks are small


@pytest.mark.weekly(but="float32")
@pytest.mark.parametrize(
    ("precision", "name"),
    thin(3, ["float64", "float32"], ["cox, breslow", "logistic", "conditional_poisson, many"]),
)
def test_precision_of_the_model(name, precision, monkeypatch):
    simulate_backend(monkeypatch, seed=4)
    model = MODELS[name]
    sample = model.sample(6, p=4)
    batch = make_batch(sample, 0.3 * largest_gradient(model, sample))
    tol = 1e-9 if precision == "float64" else 1e-8
    expected, found = both(model.problem(sample), batch, precision, tol=tol)
    # what decides is in double precision: the certificate holds whatever a model is made of
    compare(found[0][0], expected[0][0], CLOSE if precision == "float64" else OTHER_WAY)


@pytest.mark.parametrize("n_multiprocessors", thin(2, [1, 8]))
def test_any_number_of_multiprocessors(n_multiprocessors, monkeypatch):
    simulate_backend(monkeypatch, seed=5, n_multiprocessors=n_multiprocessors, threads=64)
    model = MODELS["cox, efron"]
    sample = model.sample(7, p=3)
    batch = make_batch(sample, 0.2 * largest_gradient(model, sample))
    expected, found = both(model.problem(sample), batch)
    compare(found[0][0], expected[0][0])


def test_columns_without_entries_and_without_variation(monkeypatch):
    simulate_backend(monkeypatch, seed=6)
    model = MODELS["cox, breslow"]
    sample = model.sample(8, p=4)
    X = np.array(sample.X)
    X[:, 0], X[:, 2] = 0.0, 1.0
    sample = sample.with_(X=X)
    batch = make_batch(sample, 0.2 * largest_gradient(model, sample))
    expected, found = both(model.problem(sample), batch)
    compare(found[0][0], expected[0][0])
    assert found[0][0].coef[0] == found[0][0].coef[2] == 0.0


def test_start_that_is_not_zero(monkeypatch):
    simulate_backend(monkeypatch, seed=7)
    model = MODELS["poisson"]
    sample = model.sample(9, p=3)
    lam, start = 0.3 * largest_gradient(model, sample), np.array([0.3, 0.0, -0.2])
    batch = make_batch(sample, lam, coef=column(start))
    expected, found = both(model.problem(sample), batch)
    compare(found[0][0], expected[0][0])


@pytest.mark.parametrize("penalized", [True, False])
def test_constant_columns_in_single_precision(penalized, monkeypatch):
    """Constant within strata, but for the rounding of curvatures: no coefficient."""
    simulate_backend(monkeypatch, seed=8)
    model = MODELS["cox, breslow"]
    sample = model.sample(8, p=3, offset=False)
    X = np.array(sample.X)
    X[:, 0], X[:, 2] = 1.0, sample.y["strata"] == 1
    sample = sample.with_(X=X)
    factor = np.array([1.0, 1.0, 1.0]) if penalized else np.array([0.0, 1.0, 0.0])
    batch = make_batch(sample, 0.2 * largest_gradient(model, sample), factor=factor)
    expected, found = both(model.problem(sample), batch, "float32")
    compare(found[0][0], expected[0][0], 1e-6)
    assert found[0][0].coef[0] == found[0][0].coef[2] == 0.0


def test_waves_do_not_hold_two_sessions(monkeypatch):
    """Memory of a wave is free before the next one takes its own."""
    import weakref

    from sksurvgpu.backends import cuda

    simulate_backend(monkeypatch)
    alive, most = weakref.WeakSet(), []

    class Watched(cuda.Session):
        def __init__(self, *arguments):
            alive.add(self)
            most.append(len(alive))
            super().__init__(*arguments)

    monkeypatch.setattr(cuda, "Session", Watched)
    monkeypatch.setattr(cuda, "fits_at_once", lambda *arguments: 1)
    model, sample = few_rows()
    problem, batch = model.problem(sample), batch_of(model, sample, 3)
    Fits(problem, batch, choose("cuda"), Options(tol=1e-2)).solve()
    assert most == [1, 1, 1]


def test_wave_that_memory_does_not_hold_is_halved(monkeypatch):
    """Less is free than was planned with, as other programs take theirs."""
    from sksurvgpu.backends import cuda

    model, sample = few_rows()
    problem, batch = model.problem(sample), batch_of(model, sample, 3)
    sizes, make = [], cuda.Session

    def record(layout, problem, weights, offsets, n_fits, *rest):
        sizes.append(n_fits)
        return make(layout, problem, weights, offsets, n_fits, *rest)

    def run(n_fits, memory):
        device = simulate_backend(monkeypatch, memory=memory)
        monkeypatch.setattr(cuda, "fits_at_once", lambda *arguments: n_fits)
        least, launch = [], device.launch

        def watch(*arguments):
            least.append(device.free_bytes())
            return launch(*arguments)

        monkeypatch.setattr(device, "launch", watch)
        solutions = Fits(problem, batch, choose("cuda"), Options(tol=1e-2)).solve()
        return solutions, memory - min(least)

    at_once, needed = run(2, 2**30)
    monkeypatch.setattr(cuda, "Session", record)
    in_waves, _ = run(3, needed + 64)
    assert sizes == [3, 2, 1]
    for one, other in zip(in_waves, at_once, strict=True):
        compare(one[-1], other[-1], OTHER_WAY)
    with pytest.raises(MemoryError, match=r"ran out with 1 fit.* bytes on .* free; pass prec"):
        run(1, needed // 2)

    def run_out(self, *arguments):
        raise MemoryError("80 bytes on a device with 7 free")

    monkeypatch.setattr(make, "curvature", run_out)
    with pytest.raises(MemoryError, match=r"ran out with 2 fit.*: 80 bytes .* free; pass prec"):
        run(2, 2**30)


@pytest.mark.mostly_slow(but="efron")
@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("cox, efron", "few"),
        ("fine_gray, strata", "few"),
        ("logistic", "one"),
        ("conditional_poisson", "few"),
    ],
)
def test_fits_have_the_same_bits_whatever_the_order_of_threads(name, form, monkeypatch):
    use_form(form, monkeypatch)
    model, coefs = MODELS[name], []
    sample = model.sample(3, p=P)
    batch = make_batch(sample, 0.1 * largest_gradient(model, sample))
    for seed in (1, 2):
        simulate_backend(monkeypatch, seed=seed, threads=64)
        found = Fits(
            model.problem(sample), batch, choose("cuda", "float64"), Options(tol=1e-3)
        ).solve()
        coefs.append(found[0][0].coef)
    np.testing.assert_array_equal(*coefs)
    assert np.count_nonzero(coefs) > 0
