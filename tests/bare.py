"""What the package is without its extras: all names load, and what needs an extra says which.

``.ci/package`` runs it where nothing but the wheel is installed, without pytest; elsewhere the
packages of the extras are hidden first::

    python tests/bare.py
"""

import doctest
import importlib
import pkgutil
import sys
import tempfile
from importlib.resources import files
from pathlib import Path

HIDDEN = ("cryptography", "cupy", "dask", "distributed", "duckdb", "matplotlib", "numba_cuda")
sys.modules.update(dict.fromkeys((*HIDDEN, "polars", "pyarrow", "yaml")))  # imports of None fail

import pandas as pd  # noqa: E402

import sksurvgpu  # noqa: E402
from sksurvgpu import federated, omop, study  # noqa: E402

TABLE = pd.DataFrame({"coef": range(5), "standard_error": 1.0})
EXTRAS = {
    "cuda12": lambda: sksurvgpu.LogisticCCD(backend="cuda").fit([[0.0], [1.0]], [0, 1]),
    "omop": lambda: omop.Database({}),
    "plot": lambda: sksurvgpu.EmpiricalNullDisplay.from_result(sksurvgpu.calibrate(TABLE, TABLE)),
    "sites": lambda: federated.Identity.new().public,
}


def load_names() -> int:
    """Load all public modules and names, and count them."""
    public = [m.name for m in pkgutil.iter_modules(sksurvgpu.__path__) if m.name[0] != "_"]
    modules = [sksurvgpu, *(importlib.import_module(f"sksurvgpu.{name}") for name in public)]
    return len([getattr(m, name) for m in modules for name in getattr(m, "__all__", ())])


def message_of(call) -> str:
    """What an error says."""
    try:
        call()
    except Exception as error:
        return str(error)
    return "no error"


def main():
    print(f"sksurvgpu {sksurvgpu.__version__} in {Path(sksurvgpu.__file__).parent}")
    print(f"{load_names():,} names load")
    for extra, call in EXTRAS.items():
        message = message_of(call)
        assert f'pip install "sksurvgpu[{extra}]"' in message, (extra, message)
    for name in ("py.typed", "__init__.pyi", "plotting/__init__.pyi"):
        assert files("sksurvgpu").joinpath(name).is_file(), name
    message = message_of(lambda: study.check_tables(tempfile.mkdtemp()))
    assert "no cm_" in message, message  # by the specification, a file of the package
    for page in sys.argv[1:]:
        failed, tried = doctest.testfile(page, False, optionflags=doctest.NORMALIZE_WHITESPACE)
        assert tried and not failed, page


if __name__ == "__main__":
    main()
