"""Rows in partitions: handles, threads that answer for them, and files."""

import pickle
import threading

import numpy as np
import pytest

from sksurvgpu.partitions.handles import Load, Rows, as_rows, in_memory, is_far, open_engine
from sksurvgpu.partitions.threads import Threads


class Part:
    """Answers with what it was asked, and its number."""

    def __init__(self, number, fails=False):
        self.number, self.fails, self.n_dropped, self.is_busy = number, fails, 0, False

    def answer(self, message):
        assert not self.is_busy, "two threads at one partition"
        self.is_busy = True
        try:
            if self.fails and message == "fail":
                raise ValueError("no such column.")
            return self.number, message
        finally:
            self.is_busy = False

    def drop(self):
        self.n_dropped += 1


def handles(lengths=(3, 2), **others):
    X = [np.ones((n, 2)) for n in lengths]
    return in_memory({"X": X, "y": [np.arange(n) for n in lengths], **others})


def test_handle_has_the_shape_of_its_rows():
    rows = handles()
    X, y = rows["X"], rows["y"]
    assert X.shape == (5, 2) and y.shape == (5,) and len(X) == len(y) == 5
    assert X.n_parts == 2 and X.lengths == (3, 2) and X.header().shape == (0, 2)
    assert repr(X) == "<Rows: 5 rows and 2 columns in 2 partition(s)>"
    assert X.load(1).shape == (2, 2) and y.load(0).tolist() == [0, 1, 2]
    assert pickle.loads(pickle.dumps(X.loaders[0]))().shape == (3, 2)


def test_handle_refuses_to_be_an_array():
    X = handles()["X"]
    with pytest.raises(TypeError, match="CoxLassoCV"):
        X[[0]]
    with pytest.raises(TypeError, match="load one partition"):
        np.asarray(X)
    with pytest.raises(TypeError, match="not iterable"):
        iter(X)
    with pytest.raises(TypeError, match="not known"):
        len(Rows("cluster", (list,)))


def test_far_arguments_are_known_without_imports():
    X = handles()["X"]
    assert is_far(X) and not is_far(np.ones(2)) and as_rows(X) is X
    collection = type("DataFrame", (), {"__module__": "dask.dataframe.core"})()
    assert is_far(collection)
    with pytest.raises(TypeError, match="`sample_weight` is of type ndarray and in memory"):
        as_rows(np.ones(2), "sample_weight")


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (handles((3, 1))["y"], "`y` has 1 rows in partition 1, `X` has 2"),
        (handles((5,))["y"], "`y` is <Rows: 5 rows in 1 partition"),
        (handles()["y"], "`y` is of partitions in memory"),
    ],
)
def test_arguments_of_a_fit_have_the_same_partitions(other, message):
    with pytest.raises(ValueError, match=message):
        open_engine({"X": handles()["X"], "y": other}, None)


def test_load_gives_the_arguments_of_a_partition():
    rows = handles()
    load = pickle.loads(pickle.dumps(Load({name: one.loaders[1] for name, one in rows.items()})))
    assert load()["X"].shape == (2, 2) and load()["y"].tolist() == [0, 1]


@pytest.mark.parametrize("n_threads", [1, 3])
def test_threads_answer_for_all_partitions(n_threads):
    parts = [Part(k) for k in range(20)]
    engine = Threads(parts, n_threads, budget=35, sizes=[10] * 20)
    for _ in range(2):
        answers = dict(engine.ask({k: f"message {k}" for k in range(0, 20, 2)}))
        assert answers == {k: (k, f"message {k}") for k in range(0, 20, 2)}
    assert engine.n_kept == 3
    assert [part.n_dropped for part in parts] == [0, 0, 0] + [0, 2] * 8 + [0]
    engine.close()
    assert all(part.n_dropped for part in parts)


@pytest.mark.parametrize("n_threads", [1, 3])
def test_threads_go_on_after_errors_and_interrupts(n_threads):
    parts = [Part(k, fails=k == 4) for k in range(9)]
    engine = Threads(parts, n_threads)
    with pytest.raises(ValueError, match=r"^partition 4: no such column\.$"):
        dict(engine.ask(dict.fromkeys(range(9), "fail")))
    asked = engine.ask(dict.fromkeys(range(9), "fine"))
    next(asked)
    with pytest.raises(KeyboardInterrupt):
        asked.throw(KeyboardInterrupt)
    assert not any(part.is_busy for part in parts)
    asked = engine.ask(dict.fromkeys(range(9), "fine"))
    next(asked)
    engine.cancel()
    assert len(list(asked)) < 8
    assert len(dict(engine.ask(dict.fromkeys(range(9), "fine")))) == 9
    engine.close()


def test_threads_wait_for_who_adds():
    n_answered, lock = 0, threading.Lock()

    class Counting(Part):
        def answer(self, message):
            nonlocal n_answered
            with lock:
                n_answered += 1

    engine = Threads([Counting(k) for k in range(50)], 2)
    asked = engine.ask(dict.fromkeys(range(50), "message"))
    next(asked)
    asked.close()
    assert n_answered <= 6
    engine.close()
