"""Chains over threads and as a batch: what is kept, what stops them, where draws go."""

import os
import signal
import threading
from types import SimpleNamespace

import numpy as np
import pytest

from sksurvgpu.bayes import draws as draws_module
from sksurvgpu.bayes.chains import Schedule, run_chains
from sksurvgpu.bayes.draws import Storage
from sksurvgpu.bayes.moments import RunningMoments
from sksurvgpu.bayes.run import Run, Stop

SIZE = 20  # more than are always kept
SHAPES = {"coef": (SIZE,), "grid": (2, 3), "sigma2": ()}


class Counting:
    """A sampler whose state says which chain and which sweep it is of."""

    shapes = SHAPES

    def __init__(self, chains, on_sweep=None):
        self.sampling = SimpleNamespace(
            xp=np, to_host=np.asarray, random=SimpleNamespace(iteration=0)
        )
        self.chains, self.on_sweep, self.tuned = chains, on_sweep, []

    def sweep(self, tuning):
        self.now = self.sampling.random.iteration
        self.tuned.append(tuning)
        if self.on_sweep is not None:
            self.on_sweep(self)

    def state(self):
        return expected_state(self.chains, self.now)

    def snapshot(self):
        return {"now": self.now}

    def restore(self, snapshot):
        self.now = int(snapshot["now"])


def expected_state(chains, iteration):
    value = 1e6 * np.asarray(chains) + iteration
    return {
        "coef": value[:, None] + np.arange(SIZE) / SIZE,
        "grid": value[:, None, None] + np.arange(6).reshape(2, 3) / 8,
        "sigma2": value,
    }


def run(schedule, on_sweep=None, **options):
    return run_chains(lambda chains: Counting(chains, on_sweep), schedule, **options)


def expected_draws(schedule, name, n_draws=None):
    kept = schedule.n_tune + schedule.thin * np.arange(1, (n_draws or schedule.n_draws) + 1)
    chains = np.arange(schedule.n_chains)
    return np.stack([expected_state(chains, k)[name] for k in kept], axis=1)


@pytest.mark.parametrize("options", [{}, {"n_threads": 2}, {"n_threads": 8}, {"batched": True}])
@pytest.mark.parametrize("block_bytes", [2**27, 2000])
def test_every_thinth_sweep_after_tuning_is_kept(options, block_bytes, monkeypatch):
    monkeypatch.setattr("sksurvgpu.bayes.run.BLOCK_BYTES", block_bytes)
    schedule = Schedule(n_chains=3, n_tune=7, n_draws=123, thin=2)
    sampled = run(schedule, **options)
    assert sampled.n_draws == 123 and sampled.doubts == []
    for name, shape in SHAPES.items():
        assert sampled.draws.arrays[name].shape == (3, 123, *shape)
        np.testing.assert_array_equal(
            sampled.draws.arrays[name], expected_draws(schedule, name), strict=True
        )
    for sampler in sampled.samplers:
        assert sampler.tuned == [True] * 7 + [False] * 246


def test_threads_take_chains_in_turns():
    order = []
    run(Schedule(n_chains=3, n_tune=0, n_draws=25), lambda s: order.append(int(s.chains[0])))
    turns = [order[k] for k in range(0, 60, 10)]
    assert turns == [0, 1, 2, 0, 1, 2]


FILES = {f"{name}.npy" for name in SHAPES}
FILES_BEFORE_THE_END = {f"{name}.part" for name in SHAPES}


def files_of(folder):
    """Files of draws."""
    return {path.name for path in folder.iterdir() if path.suffix in (".npy", ".part")}


def press_at(iteration, chain=0, times=1):
    """What Ctrl-C does, in the middle of a sweep of some chain."""

    def press(sampler):
        if sampler.now == iteration and sampler.chains[0] == chain:
            for _ in range(times):
                os.kill(os.getpid(), signal.SIGINT)

    return press


@pytest.mark.thorough(but=r"True")
@pytest.mark.parametrize("options", [{}, {"n_threads": 3}, {"batched": True}])
@pytest.mark.parametrize("folder", [False, True])
def test_interrupted_runs_keep_what_they_have(options, folder, tmp_path):
    schedule = Schedule(n_chains=3, n_tune=10, n_draws=10**6 if not folder else 2000, thin=2)
    storage = Storage(folder=tmp_path / "draws") if folder else Storage()
    before = signal.getsignal(signal.SIGINT)
    sampled = run(schedule, press_at(451, 0), storage=storage, **options)
    assert signal.getsignal(signal.SIGINT) is before
    assert 0 < sampled.n_draws < schedule.n_draws
    if "n_threads" not in options:  # the others are at most a turn behind
        assert 215 <= sampled.n_draws <= 220
    assert sampled.doubts == [
        f"interrupted after {sampled.n_draws:,} of {schedule.n_draws:,} draws a chain."
    ]
    for name in SHAPES:
        expected = expected_draws(schedule, name, sampled.n_draws)
        np.testing.assert_array_equal(sampled.draws.arrays[name], expected)
    if folder:
        assert files_of(tmp_path / "draws") == FILES_BEFORE_THE_END
        swept, n_before = [], sampled.n_draws
        sampled = run(schedule, lambda s: swept.append(s.now), storage=storage, **options)
        assert sampled.n_draws == 2000 and sampled.doubts == []
        assert min(swept) > 10 + 2 * n_before and files_of(tmp_path / "draws") == FILES
        for name in SHAPES:
            on_disk = np.load(tmp_path / "draws" / f"{name}.npy")
            np.testing.assert_array_equal(on_disk, expected_draws(schedule, name), strict=True)


# Two signals at once from another thread may arrive as one.
@pytest.mark.parametrize(
    ("options", "iteration", "times"),
    [
        ({}, 3, 1),
        ({"n_threads": 3}, 3, 1),
        ({"batched": True}, 3, 1),
        ({}, 600, 2),
        ({"batched": True}, 600, 2),
    ],
)
def test_interrupts_that_leave_nothing_are_raised(options, iteration, times, tmp_path):
    storage = Storage(folder=tmp_path)
    before = signal.getsignal(signal.SIGINT)
    schedule = Schedule(n_chains=3, n_tune=10**6 if times == 1 else 0, n_draws=1000)
    with pytest.raises(KeyboardInterrupt):
        run(schedule, press_at(iteration, 0, times), storage=storage, **options)
    assert signal.getsignal(signal.SIGINT) is before
    # what tuning has learned is kept; of the second signal, nothing was recorded before
    assert files_of(tmp_path) == (FILES_BEFORE_THE_END if times == 1 else set())


def test_a_handler_is_installed_in_the_main_thread_only():
    before, found = signal.getsignal(signal.SIGINT), []
    schedule = Schedule(n_chains=1, n_tune=0, n_draws=1)

    def look(sampler):
        found.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=run, args=(schedule, look))
    thread.start()
    thread.join()
    run(schedule, look)
    assert found[0] is before and found[1] is not before
    assert signal.getsignal(signal.SIGINT) is before


def test_an_interrupt_of_the_last_sweep_takes_nothing():
    sampled = run(Schedule(n_chains=3, n_tune=2, n_draws=9), press_at(11), batched=True)
    assert sampled.n_draws == 9 and sampled.doubts == []


def test_the_first_failure_is_the_one_to_raise():
    stop, first = Stop(), ValueError("first")
    stop.fail(first, "in chain 1")
    stop.fail(ValueError("second"), "in chain 0")
    assert stop.is_set and stop.error is first


def test_an_ignored_interrupt_stays_ignored():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        sampled = run(Schedule(n_chains=1, n_tune=0, n_draws=9), press_at(3))
        assert sampled.n_draws == 9
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("options", [{}, {"n_threads": 3}, {"batched": True}])
def test_a_chain_that_fails_ends_the_others(options, tmp_path):
    swept = [0]

    def fail(sampler):
        swept[0] += 1
        if sampler.now == 40 and sampler.chains[-1] == 2:
            raise FloatingPointError("the precision is not finite")

    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(FloatingPointError, match="not finite") as raised:
        run(
            Schedule(n_chains=3, n_draws=10**6),
            fail,
            storage=Storage(folder=tmp_path, keep="float32"),
            **options,
        )
    where = "chains 0 to 2" if "batched" in options else "chain 2"
    assert raised.value.__notes__ == [f"in {where}, sweep 40"]
    assert signal.getsignal(signal.SIGINT) is before
    assert swept[0] < 10**5
    if not options:  # all have made 40 sweeps, and nobody begins another one
        assert swept[0] == 120
    assert files_of(tmp_path) == set()


def test_runs_are_driven_by_others_too(tmp_path, capsys):
    schedule = Schedule(n_chains=2, n_tune=3, n_draws=4, thin=2)

    def drive(error=None):
        run = Run(schedule, {"square": ()}, Storage(folder=tmp_path), verbose=2)
        with run:
            recorder, goes_on, iteration = run.recorder(np.array([0, 1])), True, 0
            while goes_on:
                iteration += 1
                state = {"square": np.array([1.0, 10.0]) * iteration**2}
                goes_on = recorder.take(iteration, lambda now=state: now)
                if error is not None:
                    raise error
        return run.result()

    with pytest.raises(FloatingPointError):
        drive(FloatingPointError())
    assert files_of(tmp_path) == set()
    capsys.readouterr()
    squares = np.array([5, 7, 9, 11]) ** 2
    np.testing.assert_array_equal(drive().draws.arrays["square"], [squares, 10 * squares])
    # a tenth of 11 sweeps: every one but the first tells something new
    told = [line.partition(" of 11")[0] for line in capsys.readouterr().out.splitlines()[:-1]]
    assert told == [f"chains 0 to 1: sweep {iteration}" for iteration in range(2, 12)]


@pytest.mark.parametrize(
    ("verbose", "expected"),
    [
        (0, []),
        (1, ["sampling: 2 chains, 10 draws each after 10 sweeps of tuning, "]),
        (
            2,
            ["chain 0: sweep 5 of 20 (tuning), ", "chain 1: sweep 15 of 20, ", "sampling: 2 "],
        ),
    ],
)
def test_progress_in_words(verbose, expected, capsys, monkeypatch):
    monkeypatch.setattr("sksurvgpu.bayes.run.REPORTS", 4)
    run(Schedule(n_chains=2, n_tune=10, n_draws=10), verbose=verbose)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == (0, 1, 2 * 4 + 1)[verbose]
    for start in expected:
        assert any(line.startswith(start) for line in lines)


@pytest.mark.parametrize(
    ("name", "value"),
    [("n_chains", 0), ("n_tune", -1), ("n_draws", 0), ("thin", 0.5), ("n_draws", True)],
)
def test_schedules_that_cannot_be(name, value):
    with pytest.raises(ValueError, match=rf"`{name}` is {value!r}, must be an integer of at least"):
        Schedule(**{name: value})


def test_float32_is_half_as_large():
    schedule = Schedule(n_chains=2, n_tune=0, n_draws=10)
    arrays = run(schedule, storage=Storage("float32")).draws.arrays
    assert {array.dtype.name for array in arrays.values()} == {"float32"}
    np.testing.assert_array_equal(
        arrays["coef"], expected_draws(schedule, "coef").astype("float32")
    )


@pytest.mark.parametrize("largest", [SIZE, SIZE - 1])
def test_moments_are_those_of_the_draws(largest, monkeypatch):
    monkeypatch.setattr("sksurvgpu.bayes.moments.LARGEST_COVARIANCE", largest)
    random = np.random.default_rng(0)
    rows = 1e6 + random.standard_normal((2, 50, SIZE)) @ random.standard_normal((SIZE, SIZE))
    rows[1] += 3.0
    moments = RunningMoments(2, (4, 5))
    for chain, stop in ((0, 1), (0, 20), (1, 50), (0, 50)):
        start = int(moments.count[chain])
        moments.add(chain, rows[chain, start:stop].astype(np.float64))
    pooled = rows.reshape(100, SIZE)
    np.testing.assert_allclose(moments.mean(), pooled.mean(axis=0).reshape(4, 5), rtol=1e-14)
    expected = np.cov(pooled.T) if largest == SIZE else pooled.var(axis=0, ddof=1)
    # the mean is known to 1e-10 of a standard deviation
    np.testing.assert_allclose(moments.spread(), expected, rtol=0, atol=1e-8 * pooled.var())


def test_summaries_keep_draws_of_small_quantities():
    schedule = Schedule(n_chains=3, n_tune=4, n_draws=130)
    draws = run(schedule, storage=Storage("summary"), n_threads=2).draws
    assert sorted(draws.arrays) == ["grid", "sigma2"]
    expected = expected_draws(schedule, "coef")
    np.testing.assert_array_equal(draws.moments["coef"].count, [130, 130, 130])
    np.testing.assert_allclose(draws.moments["coef"].means, expected.mean(axis=1), rtol=1e-12)
    np.testing.assert_array_equal(draws.arrays["sigma2"], expected_draws(schedule, "sigma2"))


@pytest.mark.parametrize(
    ("storage", "remedies"),
    [
        (Storage(), ["`thin`", 'keep="float32"', "files by `folder`", 'keep="summary"']),
        (Storage("float32"), ["`thin`", "files by `folder`", 'keep="summary"']),
        (Storage("summary"), ["`thin`"]),
    ],
)
def test_draws_that_do_not_fit_are_refused_before_sampling(storage, remedies, monkeypatch):
    monkeypatch.setattr(draws_module, "free_bytes", lambda: 2**20)
    shapes = {"coef": (200,), "sigma2": ()}
    with pytest.raises(MemoryError) as raised:
        storage.open(shapes, 4, 10**6)
    message = str(raised.value)
    expected = {"float64": "5.99", "float32": "3", "summary": "0.0313"}[storage.keep]
    assert f"4 chains with 1,000,000 draws of 201 numbers take {expected} GiB" in message
    assert "0.000879 GiB of memory are free" in message
    offered = ["`thin`", 'keep="float32"', "files by `folder`", 'keep="summary"']
    assert [text for text in offered if text in message] == remedies
    storage.open({"sigma2": ()}, 4, 10)


def test_files_that_do_not_fit_are_refused(tmp_path):
    folder = tmp_path / "new" / "draws"
    with pytest.raises(OSError, match=r"GiB on the disk of .*draws are free; keep fewer draws"):
        Storage(folder=folder).open({"coef": (10**6,)}, 1000, 10**6)
    assert list(tmp_path.iterdir()) == []


def test_files_of_other_fits_are_left_alone(tmp_path):
    (tmp_path / "grid.npy").write_text("of another fit")
    with pytest.raises(
        FileExistsError, match=r"holds grid\.npy of other work; a folder serves one"
    ):
        Storage(folder=tmp_path).open(SHAPES, 1, 5)
    assert (tmp_path / "grid.npy").read_text() == "of another fit"


def test_files_that_cannot_be_made_or_closed_leave_nothing(tmp_path, monkeypatch):
    make = draws_module._new_file

    def fail(path, *given):
        if path.name == "grid.part":
            raise OSError("no room")
        return make(path, *given)

    monkeypatch.setattr(draws_module, "_new_file", fail)
    with pytest.raises(OSError, match="no room"):
        Storage(folder=tmp_path).open(SHAPES, 1, 5)
    assert files_of(tmp_path) == set()

    def look_and_fail(draws, n_draws):
        found.append(signal.getsignal(signal.SIGINT))
        raise OSError("no room")

    before, found = signal.getsignal(signal.SIGINT), []
    monkeypatch.setattr(draws_module, "_new_file", make)
    schedule, storage = Schedule(n_chains=1, n_tune=0, n_draws=5), Storage(folder=tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(draws_module.Draws, "close", look_and_fail)
        with pytest.raises(OSError, match="no room"):
            run(schedule, storage=storage)
    assert found[0] is not before and signal.getsignal(signal.SIGINT) is before
    swept = []
    assert run(schedule, lambda s: swept.append(s.now), storage=storage).n_draws == 5
    assert swept == [] and files_of(tmp_path) == FILES


def test_free_memory_is_plausible():
    free = draws_module.free_bytes()
    assert free is None or 2**20 < free < 2**60


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"keep": "float16"}, ValueError, r'`keep` is \'float16\', must be "float64"'),
        ({"folder": 3}, TypeError, "`folder` is of type int, must be a path"),
        ({"folder": "x", "keep": "summary"}, ValueError, '"summary" keeps none; leave one'),
    ],
)
def test_storage_that_cannot_be(options, error, match):
    with pytest.raises(error, match=match):
        Storage(**options)


def test_draws_go_to_the_users_home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))  # HOME of Windows
    run(Schedule(n_chains=1, n_tune=0, n_draws=5), storage=Storage(folder="~/draws"))
    assert len(list((tmp_path / "draws").glob("*.npy"))) == len(SHAPES)


def test_draws_on_disk_are_read_back_or_left_alone(tmp_path):
    schedule, storage = Schedule(n_chains=2, n_tune=0, n_draws=5), Storage(folder=tmp_path / "a")
    first, swept = run(schedule, storage=storage).draws.arrays["coef"], []
    assert isinstance(first, np.memmap) and not first.flags.writeable
    again = run(schedule, lambda s: swept.append(s.now), storage=storage)
    np.testing.assert_array_equal(again.draws.arrays["coef"], expected_draws(schedule, "coef"))
    assert swept == []
    with pytest.raises(FileExistsError, match=r"work of another call: `random_state` differs\. To"):
        run(Schedule(n_chains=2, n_tune=0, n_draws=5, seed=1), storage=storage)
    np.testing.assert_array_equal(first, expected_draws(schedule, "coef"))
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError, match="which is a file"):
        run(schedule, storage=Storage(folder=tmp_path / "file"))


@pytest.mark.parametrize("damage", ["draws", "record"])
def test_what_is_damaged_is_drawn_again(damage, tmp_path, monkeypatch):
    monkeypatch.setattr("sksurvgpu.bayes.run.SECONDS", 0.0)
    monkeypatch.setattr("sksurvgpu.bayes.run.SHARE", np.inf)
    schedule, storage = Schedule(n_chains=2, n_tune=5, n_draws=50), Storage(folder=tmp_path)
    with pytest.raises(FloatingPointError):
        run(schedule, fail_at(33), storage=storage)
    path = tmp_path / ("coef.part" if damage == "draws" else "chain-1.npz")
    path.write_bytes(path.read_bytes()[:-100])
    swept = []
    sampled = run(schedule, lambda s: swept.append((s.chains[0], s.now)), storage=storage)
    begun = dict(reversed(swept))
    assert begun == ({0: 1, 1: 1} if damage == "draws" else {0: 31, 1: 1})
    for name in SHAPES:
        np.testing.assert_array_equal(sampled.draws.arrays[name], expected_draws(schedule, name))


def fail_at(iteration):
    def fail(sampler):
        if sampler.now == iteration:
            raise FloatingPointError

    return fail
