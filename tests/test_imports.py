"""What is imported when: each test in a process in which nothing of the package is loaded.

The process is a fork of one that has loaded what the package builds on: that takes seconds.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

if not hasattr(os, "fork"):
    pytest.skip("processes are forks", allow_module_level=True)

ROOT = Path(__file__).resolve().parents[1]
FORKS = """
import json, os, sys, traceback
import numpy, scipy.sparse, scipy.special, sklearn.base, numba, pandas

for line in sys.stdin:
    child = os.fork()
    if not child:
        failed = 1
        try:
            exec(json.loads(line), {"__name__": "__main__"})
            failed = 0
        except BaseException:
            print(traceback.format_exc())
        finally:
            sys.stdout.flush()
            os._exit(failed)
    print(f"ENDED {os.waitpid(child, 0)[1]}", flush=True)
"""
CUDA = "('numba.cuda.cudadrv.driver', 'numba_cuda', 'cupy', 'sksurvgpu.backends.cuda')"


@pytest.fixture(scope="module")
def process():
    command = [sys.executable, "-c", FORKS]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, cwd=ROOT, **pipes) as process:
        yield process
        process.stdin.close()


@pytest.fixture
def run(process):
    """Output of some code."""

    def run(code):
        process.stdin.write(f"{json.dumps(code)}\n")
        process.stdin.flush()
        lines = []
        for line in process.stdout:
            if line.startswith("ENDED"):
                assert line == "ENDED 0\n", "".join(lines)
                return "".join(lines)
            lines.append(line)
        raise AssertionError("the process has ended")

    return run


def test_import_is_light():
    heavy = ["numpy", "scipy", "sklearn", "sksurv", "numba", "pandas", "ctypes", "matplotlib"]
    code = f"import sys, sksurvgpu; print(*[m for m in {heavy} if m in sys.modules])"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_no_cuda_module_without_asking(run):
    """`show_versions` is a function whatever was imported first, and asks for none."""
    code = (
        "import sys, sksurvgpu.datasets, sksurvgpu.show_versions\n"
        "from sksurvgpu import show_versions; show_versions()\n"
        f"print('LOADED', *[m for m in sys.modules if m.startswith({CUDA})])"
    )
    *printed, loaded = run(code).splitlines()
    assert "Packages" in printed and loaded.split() == ["LOADED"]


@pytest.mark.thorough
def test_modules_load_on_first_use(run):
    code = "import sksurvgpu; sksurvgpu.federated.Site, sksurvgpu.plotting.PathDisplay"
    assert run(code) == ""


@pytest.mark.thorough
def test_matplotlib_is_loaded_when_something_is_drawn(run):
    code = "import sys; from sksurvgpu.plotting import *; print('matplotlib' in sys.modules)"
    assert run(code).strip() == "False"


@pytest.mark.thorough
def test_a_likelihood_imports_no_backend(run):
    code = (
        "import sys, sksurvgpu.likelihoods as found\n"
        "names = 'sksurvgpu.backends', 'sksurvgpu.information', 'numba.cuda'\n"
        "print(*[m for m in sys.modules if m.startswith(names)])\n"
        "found.Cox.pattern.on_cpu\n"
        "print(*[m for m in sys.modules if m.endswith('.cuda')])"
    )
    assert run(code).split() == []


@pytest.mark.thorough
def test_fits_of_files_know_nothing_of_dask(run):
    code = (
        "import sys, numpy as np, sksurvgpu\n"
        "from sksurvgpu.partitions.handles import from_lists\n"
        "h = from_lists({'X': [np.eye(4)[:, :2]] * 2, 'y': [[0.0, 1, 2, 3]] * 2})\n"
        "sksurvgpu.LinearCCD().fit(h['X'], h['y']).predict(h['X'])\n"
        "print([m for m in sys.modules if m.split('.')[0] in ('dask', 'distributed')])"
    )
    assert run(code).strip() == "[]"


FIT = "LogisticCCD(backend='{}').fit([[0.0], [1.0], [1.0]], [0, 1, 0])"


@pytest.mark.thorough
def test_a_fit_on_the_cpu_imports_no_cuda(run):
    code = f"import sys; from sksurvgpu import LogisticCCD; {FIT.format('auto')}\n"
    assert run(f"{code}print(*[m for m in sys.modules if m.startswith({CUDA})])").split() == []


@pytest.mark.thorough
def test_a_missing_package_is_named(run):
    code = (
        "import importlib.util as u\n"
        "find = u.find_spec\n"
        "u.find_spec = lambda name, *a: None if name == 'numba_cuda' else find(name, *a)\n"
        "from sksurvgpu import LogisticCCD\n"
        f"try: {FIT.format('cuda')}\n"
        "except Exception as error: print(type(error).__name__, error)"
    )
    found = run(code)
    assert found.startswith('BackendUnavailableError backend="cuda" needs the package numba')
    assert 'pip install "sksurvgpu[cuda12]"' in found


@pytest.mark.thorough
def test_what_the_old_package_needs_of_numpy_leaves_no_trace(run):
    pytest.importorskip("numba_cuda")
    code = (
        "import numpy as np\n"
        "vars(np).pop('row_stack', None)\n"
        "import sksurvgpu.backends.cuda._cuda\n"
        "print(hasattr(np, 'row_stack'))"
    )
    assert run(code) == "False\n"
