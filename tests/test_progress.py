"""The line about long work, and who shows it."""

import io
from threading import Thread

import numpy as np
import pandas as pd
import pytest

from sksurvgpu import (
    CoxLassoCCD,
    CoxLassoCV,
    bootstrap,
    fit_outcomes,
    fit_path,
    from_long,
    posterior,
    profile_likelihood,
    show_progress,
    stability_selection,
    surv,
    write_partitions,
)
from sksurvgpu import _progress as progress
from sksurvgpu._progress import Line, _in_words
from sksurvgpu._waiting import set_aside
from sksurvgpu.datasets import simulate_cox

DATA = simulate_cox(200, 5, density=0.3, random_state=0)
PLAIN = CoxLassoCCD(alpha=0.01, n_jobs=1)


def long_tables():
    rng = np.random.default_rng(0)
    codes = {"row_id": rng.integers(0, 50, 400), "covariate_id": rng.integers(0, 9, 400)}
    return pd.DataFrame({"row_id": np.arange(50)}), pd.DataFrame(codes).drop_duplicates()


def chains(verbose, _):
    return posterior(
        PLAIN, DATA.X, DATA.y, n_chains=2, n_tune=5, n_draws=5, keep="float32", verbose=verbose
    )


def many_outcomes(verbose, _):
    model = CoxLassoCCD(alpha=0.01, n_jobs=1, verbose=verbose)
    outcomes = {"a": DATA.y, "b": DATA.y}
    return fit_outcomes(model, DATA.X, outcomes, columns=0, intervals=None)


def told(model, **options):
    return CoxLassoCCD(alpha=0.01, n_jobs=1, verbose=model, **options)


CALLS = {
    "alpha 0.01: ": lambda verbose, _: told(verbose).fit(DATA.X, DATA.y),
    "path: 7 penalties": lambda verbose, _: fit_path(told(verbose), DATA.X, DATA.y, n_alphas=7),
    "refit: 1 fit": lambda verbose, _: CoxLassoCV(n_alphas=3, cv=2, n_jobs=1, verbose=verbose).fit(
        DATA.X, DATA.y
    ),
    "bootstrap: 3 fits": lambda verbose, _: bootstrap(
        told(verbose), DATA.X, DATA.y, n_replicates=3, random_state=0
    ),
    "stability selection: 4 fits": lambda verbose, _: stability_selection(
        told(verbose), DATA.X, DATA.y, n_alphas=2, n_subsamples=4, random_state=0
    ),
    "fit of all columns: 1 fit": lambda verbose, _: profile_likelihood(
        told(verbose), DATA.X, DATA.y, 0
    ),
    "outcomes: 2 fits": many_outcomes,
    "sampling: 2 chains, 5 draws each": chains,
    "reading covariates: ": lambda verbose, _: from_long(*long_tables(), verbose=verbose),
    "a.parts: 200 rows in 2 partitions": lambda verbose, path: write_partitions(
        path / "a.parts", (DATA.X, DATA.y), rows=100, verbose=verbose
    ),
}


class Clock:
    now = 0.0

    def monotonic(self):
        return self.now


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def clock(monkeypatch):
    monkeypatch.setattr(progress, "time", clock := Clock())
    return clock


def test_a_terminal_has_one_line_that_is_written_anew(clock, monkeypatch):
    monkeypatch.setattr("sys.stdout", out := Terminal())
    line = Line("work", 100)
    for clock.now in (0.3, 10.0, 10.1, 20.0):
        line.step(20, "note")
    clock.now = 25.0
    line.step(20)
    line.end()
    first, *states = out.getvalue().split("\r")
    assert first == "" and out.getvalue().count("\n") == 1
    assert states[0] == "work: 40 of 100 fits, 10 s, about 15 s left, note"
    assert states[1].startswith("work: 80 of 100 fits, 20 s, about 5 s left")
    assert states[-1] == "work: 100 fits, 25 s".ljust(len(states[-2].rstrip())) + "\n"


def test_short_work_has_the_last_line_only(clock, monkeypatch):
    monkeypatch.setattr("sys.stdout", out := Terminal())
    line = Line("work", 2)
    line.step()
    line.end()
    assert out.getvalue() == "\rwork: 1 fit, 0 s\n"


@pytest.mark.parametrize(
    ("said", "added"), [(None, "\rwork: 0 of 1 penalty, 1 s\n"), ("all", "\rall\n")]
)
def test_what_fails_leaves_the_line_before_its_traceback(clock, monkeypatch, said, added):
    monkeypatch.setattr("sys.stdout", out := Terminal())

    def fail():
        with Line("work", 1, "penalties") as line:
            clock.now = 1.0
            if said is None:
                line.step(0)
            else:
                line.end(said)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert out.getvalue() == added


def test_a_file_gets_lines_once_in_a_while(clock, monkeypatch):
    monkeypatch.setattr("sys.stdout", out := io.StringIO())
    line = Line("work", unit="rows")
    for clock.now in (30.0, 61.0, 90.0, 3700.0):
        line.step(1_000)
    line.end("all of it")
    assert out.getvalue().splitlines() == [
        "work: 2,000 rows, 1 min 01 s",
        "work: 4,000 rows, 1 h 01 min",
        "all of it",
    ]


def test_a_notebook_is_written_over(monkeypatch):
    kind = type("OutStream", (io.StringIO,), {"__module__": "ipykernel.iostream"})
    monkeypatch.setattr("sys.stdout", out := kind())
    Line("work").end()
    assert out.getvalue().startswith("\rwork: 0 fits")


class Writer:
    """A stream of a program that writes elsewhere, too: the least that ``print`` needs."""

    def write(self, text):
        pass


@pytest.mark.parametrize("stream", ["none", "closed", "without isatty"])
def test_fits_need_no_standard_output(stream, monkeypatch):
    (closed := io.StringIO()).close()
    streams = {"none": None, "closed": closed, "without isatty": Writer()}
    monkeypatch.setattr("sys.stdout", streams[stream])
    assert PLAIN.fit(DATA.X, DATA.y).converged_


@pytest.mark.parametrize("call", ["memory", "files", "batches"])
def test_tables_that_cannot_be_read_leave_no_line_open(call, tmp_path, monkeypatch):
    """Generators that read are closed, though the traceback that is kept has them."""
    monkeypatch.setattr("sys.stdout", Terminal())
    outcomes, codes = long_tables()
    outcomes["event"], outcomes["time"] = 1, np.arange(50.0) + 1
    codes["covariate_id"] = codes["covariate_id"] + 0.5 * (codes.index == codes.index[-1])
    wrong = outcomes.assign(time=outcomes["time"] - 1.0 * (outcomes["row_id"] == 49) * 60)
    calls = {
        "memory": lambda: from_long(outcomes, codes, batch_size=100),
        "files": lambda: from_long(
            outcomes, codes, batch_size=100, to=tmp_path / "a.parts", outcome=surv
        ),
        "batches": lambda: write_partitions(tmp_path / "b.parts", wrong, rows=10, outcome=surv),
    }
    with pytest.raises(ValueError, match=r"\.5; identifiers|^batch 0") as kept:
        calls[call]()
    assert kept.tb is not None and progress._open == []


def test_a_line_is_no_wider_than_the_terminal(clock, monkeypatch):
    monkeypatch.setattr("sys.stdout", out := Terminal())
    monkeypatch.setenv("COLUMNS", "30")
    with Line("work of a long name", 10, is_shown=None) as line:
        for clock.now in (6.0, 7.0):
            line.step(1, "note")
    first, *states = out.getvalue().split("\r")
    assert first == "" and states[0] == "work of a long name: 1 of 10 "
    assert max(map(len, states)) == 29 and wiped(out)


def test_steps_that_come_after_the_end_write_nothing(clock, monkeypatch):
    monkeypatch.setattr("sys.stdout", out := Terminal())
    with Line("work", 10, is_shown=None) as line:
        clock.now = 6.0
        line.step()
    clock.now = 7.0
    line.step()
    assert wiped(out)


def test_what_an_earlier_run_has_done_took_no_time(clock, monkeypatch):
    monkeypatch.setattr("sys.stdout", out := Terminal())
    line = Line("work", 100)
    line.skip(50)
    clock.now = 10.0
    line.step(25)
    assert "75 of 100 fits, 10 s, about 10 s left" in out.getvalue()


def test_silence(clock, capsys):
    line = Line("work", 10, is_shown=False)
    clock.now = 100.0
    line.step()
    line.end()
    assert capsys.readouterr().out == ""


def wiped(out):
    """What a terminal shows in the end: nothing but blanks after the last line was written over."""
    *_, last, rest = out.getvalue().split("\r")
    return not last.strip() and not rest and "\n" not in out.getvalue()


def test_long_work_shows_a_line_that_nobody_asked_for_and_takes_it_away(clock, monkeypatch):
    monkeypatch.setattr("sys.stdout", out := Terminal())
    with Line("work", 10, is_shown=None) as line:
        for clock.now in (1.0, 4.9):
            line.step()
        assert out.getvalue() == ""
        clock.now = 6.0
        line.step(2)
        assert "work: 4 of 10 fits, 6 s, about 9 s left" in out.getvalue()
    assert wiped(out)


def test_a_call_of_many_short_lines_is_long(clock, monkeypatch):
    monkeypatch.setattr("sys.stdout", out := Terminal())
    for clock.now in (0.0, 3.0, 6.0):
        with Line(f"part {clock.now:.0f}", 2, is_shown=None, since=0.0) as line:
            clock.now += 1.0
            line.step()
    assert "part 6" in out.getvalue() and "part 3" not in out.getvalue()
    assert wiped(out)


def test_the_outermost_line_speaks_for_those_within(clock, monkeypatch):
    monkeypatch.setattr("sys.stdout", out := Terminal())
    with Line("call", 3, is_shown=None) as outer:
        with Line("fit", is_shown=None) as inner:
            clock.now = 7.0
            inner.step()
            assert out.getvalue() == "\rcall: 0 of 3 fits, 7 s"
            thread = Thread(target=Line("other", is_shown=None).step)
            clock.now = 8.0
            thread.start()
            thread.join()
            assert "call: 0 of 3 fits, 8 s" in out.getvalue()
        outer.step()
    assert "fit:" not in out.getvalue() and "other" not in out.getvalue()
    assert wiped(out)


def test_a_line_that_nobody_asked_for_goes_with_what_fails(clock, monkeypatch):
    monkeypatch.setattr("sys.stdout", out := Terminal())

    def fail():
        with Line("work", 10, is_shown=None) as line:
            clock.now = 6.0
            line.step()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert wiped(out)
    with Line("later", 10, is_shown=None) as line:
        clock.now = 12.0
        line.step()
    assert "later" in out.getvalue()


@pytest.mark.parametrize("place", ["file", "worker", "off", "thread"])
def test_nobody_watches(place, clock, monkeypatch):
    monkeypatch.setattr("sys.stdout", out := io.StringIO() if place == "file" else Terminal())
    monkeypatch.setattr(progress, "in_worker", lambda: place == "worker")

    def work():
        with Line("work", 10, is_shown=None) as line:
            clock.now = 100.0
            line.step()

    show_progress(place != "off")
    try:
        if place == "thread":
            (thread := Thread(target=work)).start()
            thread.join()
        else:
            work()
    finally:
        show_progress()
    assert out.getvalue() == ""


def test_compiling_is_no_work(clock, monkeypatch):
    monkeypatch.setattr("sys.stdout", out := Terminal())
    with Line("work", 4) as line:
        set_aside(8.0)
        clock.now = 10.0
        line.step()
        assert "work: 1 of 4 fits, 10 s, about 6 s left" in out.getvalue()
        line.step(3)
    assert "work: 4 fits, 2 s and 8 s of compiling" in out.getvalue()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CALLS)
def test_every_call_shows_a_line_if_it_takes_long(name, tmp_path, monkeypatch):
    monkeypatch.setattr("sys.stdout", out := Terminal())
    monkeypatch.setattr(progress, "LONG", 0.0)
    monkeypatch.setattr(progress, "OFTEN", 0.0)
    CALLS[name](0, tmp_path)
    assert out.getvalue() and wiped(out)
    assert progress._open == []


def test_an_interrupted_fit_leaves_no_line_open(monkeypatch):
    monkeypatch.setattr("sys.stdout", Terminal())

    def fail(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("sksurvgpu.backends.cpu.session.Session.curvature", fail)
    with pytest.raises(KeyboardInterrupt) as kept:
        PLAIN.fit(DATA.X, DATA.y)
    assert kept.tb is not None and progress._open == []


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.034, "0.034 s"), (9.7, "10 s"), (75, "1 min 15 s"), (7321, "2 h 02 min")],
)
def test_times_in_words(seconds, words):
    assert _in_words(seconds) == words


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("start", CALLS)
def test_long_calls_tell_how_far_they_are(start, tmp_path, capsys, monkeypatch):
    CALLS[start](0, tmp_path / "silent")
    assert capsys.readouterr().out == ""
    stepped = []
    step = Line.step
    monkeypatch.setattr(Line, "step", lambda self, *args: stepped.append(args) or step(self, *args))
    CALLS[start](1, tmp_path)
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith(start) for line in lines) and stepped
    assert len(lines) <= 8
    for line in lines:
        assert line.endswith((" s", " partitions"))


def test_rows_from_long_tables_to_files(tmp_path, capsys):
    outcomes, codes = long_tables()
    outcomes["event"], outcomes["time"] = 1, np.arange(50.0) + 1
    from_long(outcomes, codes, to=tmp_path / "b.parts", outcome=surv, verbose=1)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines] == ["reading covariates", "b.parts"]
