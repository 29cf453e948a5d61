"""The cache of compiled kernels."""

from __future__ import annotations

import gc
import multiprocessing
import os
import subprocess
import sys
from collections import namedtuple
from contextlib import suppress
from functools import partial
from importlib import import_module, invalidate_caches
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from attacks import n_attempts
from numba.core import event
from numba.core.errors import TypingError

from sksurvgpu import BayesianLasso, CoxLassoCCD, _compile, _warm_up, warm_up
from sksurvgpu._compile import _read, bind, device, kernel, specialize
from sksurvgpu.data.design.columns import Design
from sksurvgpu.exceptions import BackendUnavailableError

ROOT = Path(__file__).resolve().parents[1]
OURS = "sksurvgpu.likelihoods.tests"  # machine code is kept for the package only


def double(x):
    return 2.0 * x


def halve(x):
    return x / 2.0


def same(x):
    return x


def formula_one(x):
    return x + 1.0


def formula_two(x):
    return x + 2.0


def apply(x):
    return formula(x)  # noqa: F821 (bound by specialize)


@pytest.fixture(autouse=True)
def of_the_package(monkeypatch):
    for function in (double, same, formula_one, formula_two, apply):
        monkeypatch.setattr(function, "__module__", OURS)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="attempts are forks of one process")
@pytest.mark.parametrize(
    ("attempts", "seed"),
    [(16, 0), pytest.param(n_attempts(0.05), 1, marks=pytest.mark.slow)],
    ids=["every kind", "many"],
)
def test_damaged_files_are_compiled_anew(attempts, seed):
    attack = [sys.executable, "-m", "tests.attacks.cache_damage"]
    attack += ["--attempts", str(attempts), "--seed", str(seed)]
    beside_sources = {k: v for k, v in os.environ.items() if k != "NUMBA_CACHE_DIR"}
    run = partial(subprocess.run, attack, cwd=ROOT, env=beside_sources, capture_output=True)
    done = run(text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_tuples_of_one_name_are_not_taken_for_one_another(monkeypatch):
    """They look alike in the name of a file; what a kernel returns is of its argument's class."""
    for name in ("one", "two"):
        module = ModuleType(name)
        module.Same = namedtuple("Same", "x", module=name)
        monkeypatch.setitem(sys.modules, name, module)
        assert type(kernel(same)(module.Same(1.0))) is module.Same


@pytest.mark.parametrize("was_enabled", [True, False])
@pytest.mark.parametrize("argument", [1.0, "text"], ids=["compiled", "refused"])
def test_no_garbage_is_collected_meanwhile(argument, was_enabled):
    """Looking for some took an eighth of the time.  A kernel of this module is never kept."""
    passes = event.RecordingListener()
    seen = []
    passes.on_start = lambda started: seen.append(gc.isenabled())
    (gc.enable if was_enabled else gc.disable)()
    try:
        with event.install_listener("numba:run_pass", passes), suppress(TypingError):
            kernel(halve)(argument)
        assert gc.isenabled() == was_enabled
    finally:
        gc.enable()
    assert seen
    assert not any(seen)


def test_numba_forgets_on_request():
    compiled = kernel(double)
    compiled(1.0)
    compiled.recompile()
    assert compiled(1.0) == 2.0 and not kernel(double).stats.cache_hits


def test_templates_keep_their_formulas_apart():
    one = specialize(apply, formula=kernel(formula_one))
    two = specialize(apply, formula=kernel(formula_two))
    assert (one(1.0), two(1.0)) == (2.0, 3.0)
    assert one._cache._cache_file._name != two._cache._cache_file._name


def test_bound_templates_have_names_of_their_own():
    """Cached code is linked by qualified name; numbers differ between processes."""
    names = {bind(apply, formula=kernel(f)).__qualname__ for f in (formula_one, formula_two)}
    assert len(names) == 2


def test_bound_templates_leave_the_template_alone():
    bind(apply, formula=kernel(formula_one))
    assert "formula" not in apply.__globals__
    assert np.isclose(kernel(double)(1.5), 3.0)


def test_functions_of_kernels_become_no_machine_code_of_their_own():
    inner = device(same)
    assert specialize(apply, formula=inner)(2.0) == 2.0
    (compiled,) = inner.overloads.values()
    assert not compiled.library.get_pointer_to_function(compiled.fndesc.llvm_func_name)


MADE = f"""
import sys
from types import ModuleType

from sksurvgpu._compile import device, specialize

sys.modules[{OURS!r}] = ModuleType({OURS!r})


def ours(function):
    function.__module__ = {OURS!r}
    return function


def enclosed(factor):
    def times(x):
        return factor * x

    return times


def defaulted(factor):
    def times(x, factor=factor):
        return factor * x

    return times


def run(x):
    return formula(x)


for factor in map(float, sys.argv[1:]):
    for make in (enclosed, defaulted):
        print(specialize(ours(run), formula=device(ours(make(factor))))(1.0))
"""


def test_formulas_with_numbers_are_kept_apart(tmp_path):
    """A function that a function made has its source, but not its numbers, in a file."""
    (tmp_path / "made.py").write_text(MADE, encoding="utf-8")
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(ROOT)}
    for factors in (["0.7", "3.0"], ["3.0"], ["0.7"]):
        command = [sys.executable, str(tmp_path / "made.py"), *factors]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        assert done.stdout.split() == [factor for factor in factors for _ in range(2)]


SOURCES = {
    "__init__": "",
    "kernels": "from .used import add_one\n\n\ndef run(x):\n    return formula(x)\n",
    "used": "def add_one(x):\n    return x + 1.0\n",
    "unused": "",
    "formulas": "def double(x):\n    return 2.0 * x\n",
}


@pytest.fixture
def throwaway(tmp_path, monkeypatch):
    """A package of sources, and a function that tells whether its kernel comes from disk."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(sys.modules, OURS, ModuleType(OURS))  # a file is loaded with its module
    (tmp_path / "throwaway").mkdir()
    for name, source in SOURCES.items():
        (tmp_path / "throwaway" / f"{name}.py").write_text(source, encoding="utf-8")

    def is_kept():
        for name in [name for name in sys.modules if name.partition(".")[0] == "throwaway"]:
            del sys.modules[name]
        invalidate_caches()
        _read.cache_clear()
        formula = import_module("throwaway.formulas").double
        run = import_module("throwaway.kernels").run
        formula.__module__ = run.__module__ = OURS
        compiled = specialize(run, formula=device(formula))
        assert compiled(3.0) == 6.0
        return bool(compiled.stats.cache_hits)

    yield is_kept
    _read.cache_clear()


@pytest.mark.parametrize(
    ("changed", "stays"), [("kernels", 0), ("used", 0), ("formulas", 0), ("unused", 1)]
)
def test_changed_sources_are_compiled_anew(throwaway, tmp_path, changed, stays):
    """Also those of an imported module and of a bound formula; others make no difference."""
    assert not throwaway() and throwaway()
    with open(tmp_path / "throwaway" / f"{changed}.py", "a", encoding="utf-8") as file:
        file.write("\n# another comment\n")
    assert throwaway() == stays and throwaway()


@pytest.fixture
def noticeable(monkeypatch, caplog):
    """What users are told, every compilation being long enough."""
    monkeypatch.setattr(_compile, "NOTICEABLE", 1e-9)
    monkeypatch.setattr(_compile, "_notice", _compile._Notice())
    return lambda: [record.getMessage() for record in caplog.records]


def test_users_hear_once_what_takes_long(noticeable):
    for function in (formula_one, formula_two):
        compiled = kernel(function)
        compiled._cache.flush()
        compiled(1.0)
    (message,) = noticeable()
    assert "kept in" in message and "--compile" in message


def test_workers_of_a_pool_are_silent(noticeable, monkeypatch):
    monkeypatch.setattr(multiprocessing.current_process(), "_name", "Worker-1")
    _compile._notice.end("somewhere")
    assert not noticeable()


def test_users_hear_that_nothing_is_kept(noticeable, monkeypatch):
    def refuse(function):
        raise RuntimeError("no locator available")

    monkeypatch.setattr(_compile, "_KernelCache", refuse)
    assert kernel(double)(1.0) == 2.0
    (message,) = noticeable()
    assert "every process" in message and "NUMBA_CACHE_DIR" in message


CHILD = """
from sksurvgpu import _compile, _warm_up
_compile.NOTICEABLE = 1e-9
from sksurvgpu.backends.cpu.tasks import join
import numpy as np
_warm_up.compile_all([("a kernel", lambda: join(np.zeros((1, 2))))])
"""


def test_what_is_compiled_in_advance_is_loaded_in_silence(tmp_path):
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", CHILD]
    run = partial(subprocess.run, command, cwd=ROOT, env=environment, capture_output=True)
    first, second = (run(text=True, check=True) for _ in range(2))
    assert first.stderr.count("\n") == 1 and f"kept in {tmp_path}" in first.stderr
    assert second.stderr == ""
    assert "1/1  a kernel" in first.stdout and f"{tmp_path}: 1 files" in second.stdout


@pytest.mark.slow
def test_all_models_are_compiled_in_advance(tmp_path):
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-m", "sksurvgpu", "--compile"]
    run = partial(subprocess.run, command, cwd=ROOT, env=environment, capture_output=True)
    first, second = (run(text=True, check=True) for _ in range(2))
    assert "kept in" in first.stderr and second.stderr == ""


def test_only_models_that_are_asked_for_are_compiled(monkeypatch):
    done = []
    monkeypatch.setattr(_warm_up, "compile_all", lambda jobs: done.extend(name for name, _ in jobs))
    warm_up([CoxLassoCCD, BayesianLasso])
    kinds = {name.partition(",")[0] for name in done}
    assert {kind.split()[0] for kind in kinds} == {"CoxLassoCCD", "BayesianLasso"}
    done.clear()
    warm_up()
    assert done.pop() == "from tables to a fit"
    assert len({name.split(",")[0].split()[0] for name in done}) == 10


def test_models_are_compiled_for_where_they_will_run(monkeypatch):
    asked = []
    monkeypatch.setattr(_warm_up, "_fit", lambda make, *data: asked.append(make()))
    monkeypatch.setattr(_warm_up, "choose", lambda backend, device: None)
    monkeypatch.setattr(
        _warm_up, "compile_all", lambda jobs: [run() for name, run in list(jobs)[:4]]
    )
    warm_up([CoxLassoCCD], backend="cuda", device=3)
    assert {(model.backend, model.device) for model in asked} == {("cuda", 3)}


@pytest.mark.parametrize(("backend", "has_exact"), [("cpu", True), ("cuda", False)])
def test_the_exact_algorithm_is_compiled_for_the_cpu(backend, has_exact):
    names = [name for name, _ in _warm_up.tasks({CoxLassoCCD}, backend=backend, device=0)]
    assert names and any("exact" in name for name in names) == has_exact


def test_what_cannot_be_compiled_is_refused(monkeypatch):
    with pytest.raises(TypeError, match=r"`estimators` is a class.*pass \[CoxLassoCCD\]"):
        warm_up(CoxLassoCCD)
    with pytest.raises(ValueError, match=r"none of the models BayesianLasso, .*CoxLassoCCD"):
        warm_up([Design])
    with pytest.raises(ValueError, match="'auto', must be"):
        warm_up(backend="auto")

    def unavailable(backend, device):
        raise BackendUnavailableError("no driver was found")

    monkeypatch.setattr(_warm_up, "choose", unavailable)
    with pytest.raises(BackendUnavailableError, match="no driver"):
        warm_up(backend="cuda")


def test_samplers_without_their_package_are_left_out(capsys):
    def missing():
        raise BackendUnavailableError.missing_package("cuda", "cupy")

    _warm_up.compile_all([("a sampler", missing), ("a model", lambda: None)])
    printed = capsys.readouterr().out
    assert "left out: " in printed and "cupy" in printed and "2/2  a model" in printed
