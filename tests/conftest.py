"""Tolerances and fixtures.  Seeds are written in the tests; no test reads a global generator."""

import gc
import json
import os
import re
import signal
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import Phase, settings

# Explaining a failure takes far longer than finding it.
_PHASES = [phase for phase in Phase if phase is not Phase.explain]
settings.register_profile("repeatable", deadline=None, derandomize=True, phases=_PHASES)
settings.register_profile("wide", deadline=None, max_examples=1000, phases=_PHASES)
settings.load_profile("repeatable")

# Before anything imports pyplot: figures are drawn without a screen.
os.environ["MPLBACKEND"] = "agg"
# Of workers, which inherit it: threads of linear algebra would wait for cores of other workers,
# and waste a third of the time of some files.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Of workers, too: what pytest makes of the asserts takes half of the time to collect tests.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

PUBLISHED = Path(__file__).parent / "oracles" / "published"


# What a run of all tests leaves to --thorough: what has the mark (but for cases that it names), and
# in these files more of what others test in brief, for each penalty, backend and place of rows, and
# what users have no part in: a device that stands in, references, style. A file that is named is
# run as it is.
TESTS = Path(__file__).resolve().parent
DEEPER = """
    adaptive benchmarks bounds broken_ridge calibrate case_series_intervals case_series_time
    combination combinations compile contract dask devices episodes faces federated
    federated_messages federated_robust federated_rules firth from_r fused groups groups_cuda
    groups_published
    hierarchical house late_entry links long_windows matrix new_likelihood new_penalty noise
    nonconvex oracles outcomes partitions_data plotting_grounds plotting_intervals plotting_marks
    posterior_scales privacy properties relaxed screen secants secure_addition site_differences
    site_replicas stand_in standardize store study_case_series sums_fits sums_local sums_models
    sums_parts units wire
"""
GLOBS = ("test_cuda_*.py", "test_far_*.py", "test_gpu_*.py")
THOROUGH = {
    TESTS / "attacks",
    TESTS / "gpu",
    *(TESTS / f"test_{name}.py" for name in DEEPER.split()),
}
THOROUGH |= {path for pattern in GLOBS for path in TESTS.glob(pattern)}
# What is slow here no other test stands for.
NAMES = "docs", "gallery", "cuda_kernels"
ALONE = {TESTS / "attacks", *(TESTS / f"test_{name}.py" for name in NAMES)}


def pytest_addoption(parser):
    parser.addoption(
        "--thorough", action="store_true", help="run also the files that a short run leaves out"
    )


# Files with tests that take more than a second: see `cpu_times`.
TIMES = json.loads((TESTS / "durations.json").read_text(encoding="utf-8"))
LONG = {test.partition("::")[0] for test in TIMES["tests"]}


def _is_short(config):
    """Whether a run of all tests leaves out what is thorough."""
    named = {Path(argument.partition("::")[0]).resolve() for argument in config.args}
    return not config.getoption("thorough") and named <= {TESTS, TESTS.parent}


def pytest_ignore_collect(collection_path, config):
    """Files that are left out are not read: to collect them would take workers seconds."""
    is_thorough = not {collection_path, collection_path.parent}.isdisjoint(THOROUGH)
    return True if is_thorough and _is_short(config) else None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items):
    """Leave out what is thorough, and begin with what is long: workers would wait for it."""
    if _is_short(config):
        left_out = {item: _is_thorough(item) for item in items}
        config.hook.pytest_deselected(items=[item for item in items if left_out[item]])
        items[:] = [item for item in items if not left_out[item]]
    items.sort(key=lambda item: item.nodeid.partition("::")[0] not in LONG)
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


MANY = 2000  # tests, of which some need the kernels of every model


def pytest_collection_finish(session):
    """Compile what all models need from both ends of their list: two workers share the work.

    Tests and modules stay to the end: to look through them for garbage takes a tenth of the time.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
    _compare_flags_quickly()
    worker = getattr(session.config, "workerinput", {}).get("workerid", "")
    if not worker or len(session.items) < MANY:
        return
    from faces import FACES
    from models import MODELS, fit

    forward = 1 if int(worker[2:]) % 2 == 0 else -1
    for name in [name for name in MODELS if "many" not in name][::forward]:
        fit(MODELS[name], MODELS[name].sample(0, p=6), 1.0)
    for face in [*FACES.values()][::forward]:
        for names in (None, [*face.needed, "sample_weight"]):
            face.fit(names=names)


def _compare_flags_quickly():
    """Tell Numba that an object equals itself: a tenth of the time to compile.

    It writes all flags down, for each expression; and its own hash is of their names alone.
    """
    from numba.core.targetconfig import TargetConfig

    plain = TargetConfig.__eq__
    TargetConfig.__eq__ = lambda self, other: self is other or plain(self, other)
    TargetConfig.__hash__ = lambda self: hash(type(self))


# Estimators share their face: a survival model and a classifier have it checked by scikit-learn.
# Exact steps have kernels of their own for every likelihood and form of its data.
CHECKED = ("NumericOutcome(", "LogisticCCD(")
ALIKE = ("PoissonCCD(", "Counts(", "OneSet(")  # LinearCCD and Eras
EXACT = re.compile(r"breslow|(?<!conditional[_ ])logistic")
LIKELIHOOD = re.compile(r"efron|fine[_-]gray|poisson|gaussian|linear|logistic|series|sets")
ALL_EXACT = ("test_certificate_of_the_exact_algorithm", "test_cycle_of_exact_steps")
ALL_EXACT += ("test_both_algorithms_find_one_optimum",)


def _is_thorough(item):
    """Whether a test is marked, or does for one more model what others do for one."""
    mark = item.get_closest_marker("thorough")
    if mark is not None and not re.search(mark.kwargs.get("but", "$^"), item.name):
        return True
    if item.name.startswith("test_scikit_learn_checks["):
        return not any(name in item.name for name in CHECKED)
    params = item.callspec.params if hasattr(item, "callspec") else {}
    is_exact = "exact" in (params.get("algorithm"), params.get("any_way", ("",))[-1])
    is_exact |= item.name.startswith(ALL_EXACT)
    return is_exact and bool(LIKELIHOOD.search(item.name)) and not EXACT.search(item.name)


def pytest_itemcollected(item):
    """Leave to slow tests the models and forms whose kernels are compiled for them alone.

    Of slow tests, mark those that no other stands for.
    """
    params = item.callspec.params if hasattr(item, "callspec") else {}
    tuples = (value if isinstance(value, tuple) else (value,) for value in params.values())
    words = [word for words in tuples for word in words if isinstance(word, str)]
    has_many_groups = any(word.endswith(", many") for word in words)
    is_carried = any(word.startswith("fine_gray") for word in words)
    has_rare_bins = "one a stratum" in words and (is_carried or not params.get("start", True))
    if has_many_groups or has_rare_bins:
        item.add_marker(pytest.mark.slow)
    is_alike = item.name.startswith("test_scikit_learn_checks[")
    if is_alike and any(name in item.name for name in ALIKE):
        item.add_marker(pytest.mark.slow)
    for name in ("mostly_slow", "weekly"):
        mark = item.get_closest_marker(name)
        if mark is not None and not re.search(mark.kwargs.get("but", "$^"), item.name):
            item.add_marker(pytest.mark.slow)
    is_alone = not {item.path, item.path.parent}.isdisjoint(ALONE)
    is_alone = is_alone and not item.get_closest_marker("weekly")
    if item.get_closest_marker("slow") and is_alone:
        item.add_marker(pytest.mark.alone)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Neighbours stay in one process, which has compiled and fitted already what they share."""
    if config.getoption("dist") != "load":  # what -n alone means
        return None
    from xdist.scheduler import WorkStealingScheduling

    return WorkStealingScheduling(config, log)


# (dtype, comparison) -> relative error, in units of what is compared.  Nobody loosens one to pass:
# the table changes on its own and with a reason.
TOLERANCES = {
    ("float64", "loglik"): 1e-12,  # kernels against the oracle
    ("float64", "u"): 1e-10,
    ("float64", "h"): 1e-10,
    ("float64", "curvature"): 1e-10,  # of the quadratic model, and its majorization
    ("float64", "finite difference"): 1e-7,
    ("float64", "kkt"): 1e-6,  # of the null model's largest gradient, recomputed by the oracle
    ("float64", "coef"): 1e-7,  # two routes to one optimum, solved tightly
    ("float64", "published coef"): 1e-8,
    ("float64", "published loglik"): 1e-10,
    ("float64", "other package"): 1e-6,  # at its tightest setting
    ("float64", "cuda loglik"): 1e-10,  # CUDA against CPU
    ("float64", "cuda coef"): 1e-7,
    ("float32", "loglik"): 1e-4,
    ("float32", "u"): 1e-4,
    ("float32", "coef"): 1e-4,
}


@pytest.fixture(autouse=True)
def _close_figures():
    """Close what a test or an example has drawn; pyplot keeps figures until it is told."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


@pytest.fixture
def layout_if_asked(request, monkeypatch):
    """Lay figures out for tests with the mark `layout` alone, which look where things stand.

    A layout takes four fifths of the time of a figure.
    """
    if request.node.get_closest_marker("layout") is None:
        engine = "matplotlib.layout_engine.ConstrainedLayoutEngine"
        monkeypatch.setattr(f"{engine}.execute", lambda *_: None)


@pytest.fixture(autouse=True)
def _hear_interrupts():
    """Handle Ctrl-C as in a terminal; a shell lets its background jobs ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="session")
def tolerance():
    """Look up a tolerance by comparison and dtype."""

    def look_up(comparison, dtype="float64"):
        return TOLERANCES[dtype, comparison]

    return look_up


@pytest.fixture(scope="session")
def check_close(tolerance):
    """Assert that two arrays agree, relative to the largest entry expected (at least 1)."""

    def check(actual, expected, comparison, dtype="float64", context=""):
        actual, expected = np.asarray(actual), np.asarray(expected)
        assert actual.shape == expected.shape, context
        scale = max(1.0, float(np.abs(expected).max(initial=0.0)))
        error = float(np.abs(actual - expected).max(initial=0.0)) / scale
        # A NaN compares false and fails.
        assert error <= tolerance(comparison, dtype), f"{comparison}: off by {error:.1e} {context}"

    return check


@pytest.fixture(scope="session")
def coxph():
    """Optima of R's survival and glmnet: see oracles/published/make_coxph.R."""
    return json.loads((PUBLISHED / "coxph.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="session")
def vectors():
    """One small data set with optima of every model."""
    return json.loads((PUBLISHED / "vectors.json").read_text(encoding="utf-8"))


@pytest.fixture(params=["breslow", "efron"])
def ties(request):
    return request.param


@pytest.fixture(autouse=True, scope="session")
def threads_at_any_size():
    """Small problems run on one thread; tests of threads are small."""
    from sksurvgpu.backends.cpu import threads

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threads, "FEWEST_ENTRIES", 0)
        patch.setattr(threads, "LOCKED", 1e-9)
        yield
