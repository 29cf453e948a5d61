"""The script for sessions of R, run by R where it is with a reticulate that knows NumPy 2."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from sksurvgpu import Design

HERE = Path(__file__).parent
SCRIPT = HERE.parent / "docs" / "coming_from" / "sksurvgpu.R"
NEEDS = 'stopifnot(packageVersion("reticulate") >= "1.38"); library(Matrix); library(survival)'


def run(*arguments):
    given = os.environ | {"RETICULATE_PYTHON": sys.executable}
    return subprocess.run(["Rscript", *arguments], capture_output=True, text=True, env=given)


def test_models_answer_as_those_of_r_do():
    if shutil.which("Rscript") is None or run("-e", NEEDS).returncode:
        pytest.skip("R, survival, Matrix or reticulate 1.38 is not installed")
    found = run(str(HERE / "from_r.R"), str(SCRIPT))
    assert found.returncode == 0, found.stderr


def test_a_design_of_a_matrix_has_the_names_that_it_is_given():
    design = Design.of(np.eye(3)[:, :2], names=["a", "b"])
    assert design.names.tolist() == ["a", "b"] and design.shape == (3, 2)
    assert Design.of(np.eye(2)).names is None
    with pytest.raises(ValueError, match="`names` has 1 entries, `X` has 2 columns"):
        Design.of(np.eye(2), ["a"])
    with pytest.raises(ValueError, match="`names` has several columns named 'a'"):
        Design.of(np.eye(2), ["a", "a"])
