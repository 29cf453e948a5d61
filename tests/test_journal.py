"""Journals: parts that are whole or not there, and folders that belong to one call."""

import errno
import json
import os
import subprocess
import sys
import threading
import warnings
from functools import partial

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from sksurvgpu import CoxLassoCCD, surv
from sksurvgpu import _journal as module
from sksurvgpu._journal import FITS_OF_A_PART, MANIFEST, Journal, describe_call

OF = {"call": "test", "alpha": 0.1, "X": np.arange(3.0)}


def part(value):
    return {"coef": np.array([value, -0.0]), "n": np.array(3)}


def keep(folder, key="a", of=OF, value=1.0):
    """Value of a part that is kept, and whether it was computed."""
    computed = []
    with Journal(folder, of) as journal:
        found = journal.keep(key, lambda: computed.append(key) or part(value))
    assert found["coef"].tobytes() == np.array([found["coef"][0], -0.0]).tobytes()
    return float(found["coef"][0]), bool(computed)


def test_parts_are_read_back(tmp_path):
    folder = tmp_path / "new" / "work"
    assert keep(folder) == (1.0, True)
    assert keep(folder, value=2.0) == (1.0, False)
    assert keep(folder, "b", value=2.0) == (2.0, True)
    assert keep(None) == keep(None) == (1.0, True)


@pytest.mark.parametrize("size", [0, 1, 50, -1])
def test_what_is_not_whole_is_computed_again(size, tmp_path):
    keep(tmp_path)
    path = tmp_path / "a.npz"
    path.write_bytes(path.read_bytes()[:size])
    assert keep(tmp_path, value=2.0) == (2.0, True)
    flipped = bytearray(path.read_bytes())
    flipped[60] ^= 1  # in the data of the first array
    path.write_bytes(flipped)
    assert keep(tmp_path, value=3.0) == (3.0, True)


@pytest.mark.parametrize("step", ["write", "fsync", "replace"])
def test_full_disks_leave_the_part_before(step, tmp_path, monkeypatch):
    keep(tmp_path)

    def fail(*given, **arrays):
        raise OSError(errno.ENOSPC, "no space left on device")

    with Journal(tmp_path, OF) as journal:
        if step == "write":
            monkeypatch.setattr(module.np, "savez", fail)
        else:
            monkeypatch.setattr(module.os, step, fail)
        with pytest.raises(OSError, match="no space left"):
            journal.write("a", part(2.0))
    monkeypatch.undo()
    assert keep(tmp_path, value=3.0) == (1.0, False)
    if step != "replace":
        assert sorted(path.name for path in tmp_path.iterdir()) == [
            "a.npz",
            "journal.json",
            "journal.lock",
        ]


def test_other_calls_are_refused_and_told_why(tmp_path):
    keep(tmp_path)
    other = {"call": "test", "alpha": 0.2, "X": np.arange(4.0), "beta": None}
    with pytest.raises(FileExistsError) as raised:
        keep(tmp_path, of=other)
    assert (
        "holds the work of another call: `alpha` is 0.1 there and 0.2 here; `X` differs; `beta` "
        "is not there there and None here. To go on" in str(raised.value)
    )
    assert keep(tmp_path) == (1.0, False)


def test_folders_without_finished_work_are_free(tmp_path):
    with pytest.raises(ZeroDivisionError), Journal(tmp_path, OF) as journal:
        journal.keep("a", lambda: 1 / 0)
    assert keep(tmp_path, of={"call": "other"}) == (1.0, True)
    assert json.loads((tmp_path / MANIFEST).read_text()) == {"call": "other"}


def test_folders_of_others_are_left_alone(tmp_path):
    np.savez(tmp_path / "mine.npz", a=1)
    with pytest.raises(FileExistsError, match=r"already holds mine\.npz of other work"):
        keep(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError, match="which is a file; name a new folder"):
        module.check_folder(tmp_path / "file")
    with pytest.raises(TypeError, match="`folder` is of type int, must be a path"):
        module.check_folder(3)


def test_a_folder_serves_one_at_a_time(tmp_path):
    with Journal(tmp_path, OF):
        with pytest.raises(BlockingIOError, match="in which another fit is at work; wait"):
            keep(tmp_path)
        found = []

        def try_it():
            try:
                keep(tmp_path)
            except BlockingIOError as error:
                found.append(error)

        thread = threading.Thread(target=try_it)
        thread.start()
        thread.join()
        assert len(found) == 1
    assert keep(tmp_path) == (1.0, True)


ROWS = np.array([[1.0, 0.0], [0.0, 2.0]])
PAIRS = [
    (ROWS, ROWS + 1e-300),
    (ROWS, ROWS.astype("float32")),
    (ROWS, ROWS.reshape(4)),
    (np.array(["a", "b"], object), np.array(["ab", ""], object)),
    (sparse.csr_array(ROWS), sparse.csr_array(ROWS[:, ::-1])),
    (surv([True], [1.0]), surv([False], [1.0])),
    ({"a": 1.0, "b": 2.0}, {"a": 2.0, "b": 1.0}),
    ([1, [2, 3]], [1, 2, [3]]),
    (pd.Series([1.0], ["a"]), pd.Series([1.0], ["b"])),
    (None, 0),
    (True, 1),
    (lambda x: x + 1, lambda x: x + 2),
    (lambda x, by=1: x + by, lambda x, by=2: x + by),
    (partial(np.clip, a_min=0), partial(np.clip, a_min=1)),
]


@pytest.mark.parametrize(("one", "other"), PAIRS, ids=[f"pair {k}" for k in range(len(PAIRS))])
def test_what_differs_looks_different(one, other):
    def text(value):
        return json.dumps(Journal("x", {"": value})._of)

    assert text(one) == text(one) != text(other)


ALLOCATORS = {"1": "malloc", "2": "pymalloc"}  # which put functions elsewhere
FUNCTIONS = """
from functools import partial
from sksurvgpu._journal import digest_of

def chosen(x, by=lambda v: v in {"a", "b", "c", "d"}):
    return [v for v in x if v in {"a", "b", "c", "d"} and by(v)]

print(digest_of([chosen, partial(chosen, by=1), {"a", "b", "c", "d"}]))
"""


@pytest.mark.thorough
def test_functions_are_the_same_in_every_process():
    """Those of transformers, in a folder that a later process goes on with."""

    def run(seed):
        process = [sys.executable, "-c", FUNCTIONS]
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONMALLOC": ALLOCATORS[seed]}
        return subprocess.run(process, env=environment, capture_output=True, check=True).stdout

    assert len(run("1")) > 30 and run("1") == run("2")


def test_what_does_not_matter_is_not_described():
    of = describe_call("fit", CoxLassoCCD(alpha=0.5), X=ROWS)
    assert of["alpha"] == 0.5 and of["estimator"] == "CoxLassoCCD" and "sksurvgpu" in of
    other = CoxLassoCCD(alpha=0.5, n_jobs=7, verbose=2, warm_start=True)
    assert describe_call("fit", other, X=ROWS) == of
    assert Journal("x", {"d": {"a": 1, "b": 2}})._of == Journal("x", {"d": {"b": 2, "a": 1}})._of


def test_parts_in_folders_are_small(tmp_path):
    n = 2 * FITS_OF_A_PART + 3
    assert Journal(None, {}).slices(n) == [slice(0, n)]
    assert Journal(None, {}).slices(n, 30) == [slice(0, 30), slice(30, n)]
    expected = [slice(0, 16), slice(16, 32), slice(32, n)]
    assert Journal(tmp_path, {}).slices(n) == Journal(tmp_path, {}).slices(n, 30) == expected
    assert Journal(tmp_path, {}).slices(7, 3) == [slice(0, 3), slice(3, 6), slice(6, 7)]


def test_a_damaged_manifest_names_the_folder(tmp_path):
    with Journal(tmp_path, {"seed": 0}) as journal:
        journal.write("part", {"x": np.zeros(1)})
    (tmp_path / "journal.json").write_text("")
    with pytest.raises(ValueError, match=r"^`folder` is .* journal\.json is damaged"):
        Journal(tmp_path, {"seed": 0}).open()


def test_draws_in_a_folder_are_pickled(tmp_path):
    import pickle

    from sksurvgpu import BayesianLasso

    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30, 2)), rng.normal(size=30)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = BayesianLasso(n_chains=2, n_tune=5, n_draws=20, folder=tmp_path / "a").fit(X, y)
    read = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(read.predict(X), model.predict(X))
