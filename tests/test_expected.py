"""`expected_time`: what is timed, how it goes on from there, and what it refuses. No time is
asserted: a clock that counts what calls are made of stands for the machine's."""

import numpy as np
import pytest

from sksurvgpu import _expected, expected_time
from sksurvgpu.__main__ import main
from sksurvgpu._progress import on_a_line
from sksurvgpu.backends.cpu import threads

MILLISECONDS, NANOSECONDS = 2.0, 3.0  # of a call, and of an entry of X


@pytest.fixture
def calls(monkeypatch):
    """Calls that were made, as (shape, entries, options), on a machine that is a formula."""
    made, now = [], [0.0]

    def run(estimator, X, y, **options):
        made.append((X.shape, X.nnz, options))
        now[0] += 1e-3 * MILLISECONDS + 1e-9 * NANOSECONDS * X.nnz
        return estimator

    class Fitted:
        alpha_max_ = 1.0

        def __init__(self, n_jobs):
            assert n_jobs == 1  # threads are counted, not timed

        def set_params(self, **options):
            return self

        fit = run

    fake = type("Clock", (), {"perf_counter": lambda: now[0], "process_time": lambda: now[0]})
    monkeypatch.setattr(_expected, "time", fake)
    monkeypatch.setattr(_expected, "bootstrap", run)
    monkeypatch.setattr(_expected, "fit_path", run)
    monkeypatch.setattr(_expected, "MOST", 200_000)
    monkeypatch.setattr(_expected.cv_models, "CoxLassoCCD", Fitted)
    return made


@pytest.mark.parametrize(("rows", "columns"), [(300_000, 40), (40_000, 4_000)])
def test_a_line_through_what_was_timed_goes_on_to_the_size_asked_for(rows, columns, calls):
    ones = rows * columns // 50
    line = expected_time(rows, columns, ones, n_alphas=30, n_jobs=1).loc["path of 30 penalties"]
    shapes, entries, _ = zip(*(call for call in calls if call[2]), strict=True)
    assert line["seconds"] == pytest.approx(1e-3 * MILLISECONDS + 1e-9 * NANOSECONDS * ones)
    assert line["lower"] < line["seconds"] < line["upper"]
    assert {options["n_alphas"] for *_, options in calls if options} == {30}
    assert np.all(np.diff(entries[1:]) > 0)
    assert shapes[-1][0] <= rows
    assert shapes[-1][1] <= columns
    assert f"{shapes[-1][0]:,} x {shapes[-1][1]:,} in" in line["timed"]


def test_more_rows_take_longer_and_more_memory(calls):
    sizes = [(rows, 50, 5 * rows) for rows in (2_000, 200_000, 20_000_000)]
    lines = [expected_time(*size, n_replicates=100, n_jobs=1).iloc[-1] for size in sizes]
    for name in ("seconds", "lower", "upper", "memory_mb"):
        assert np.all(np.diff([line[name] for line in lines]) > 0)
    factors = [line["upper"] / line["seconds"] for line in lines]
    assert np.all(np.diff(factors) >= 0)  # the further, the less is known
    assert factors[-1] > factors[0]


def test_sizes_of_numpy_do_not_overflow(calls):
    sizes = 100_000, 100_000, 2_000_000
    tables = [expected_time(*map(kind, sizes), n_jobs=1) for kind in (int, np.int32)]
    assert tables[0]["timed"].equals(tables[1]["timed"])


def test_a_bootstrap_takes_as_long_as_its_replicates(calls):
    few, many = (
        expected_time(2_000, 20, 4_000, n_replicates=n, n_jobs=1).iloc[-1]["seconds"]
        for n in (8, 80)
    )
    assert many == pytest.approx(9 * few)  # the fit to all rows is one more
    assert {options["n_replicates"] for *_, options in calls if options} == {8}


def test_threads_shorten_what_has_work_for_them(calls, monkeypatch):
    monkeypatch.setattr(threads, "LOCKED", 250_000.0)  # both as users have them
    monkeypatch.setattr(threads, "FEWEST_ENTRIES", 500_000)

    def seconds(rows, n_jobs):
        table = expected_time(rows, 50, 5 * rows, n_replicates=100, n_jobs=n_jobs)
        return table["seconds"].iloc[-1]

    assert seconds(1_000, 8) == seconds(1_000, 1)
    assert seconds(500_000, 8) < seconds(500_000, 2) < seconds(500_000, 1)


@pytest.mark.parametrize("model", _expected.MODELS)
@pytest.mark.parametrize("density", [0.1, 1.0])
def test_problems_have_the_shape_and_entries_asked_for(model, density):
    X, y = _expected._draw(model, 400, 30, density)
    assert X.shape[1] == 30
    assert len(y) == X.shape[0]
    assert 200 < X.shape[0] < 800
    assert np.count_nonzero(X.toarray() if hasattr(X, "toarray") else X) == pytest.approx(
        density * X.shape[0] * 30, rel=0.2
    )


def test_small_problems_are_like_the_large_one():
    assert _expected._shrink((1_000_000, 50), 0.1, 20_000) == (4_000, 50)
    rows, columns = _expected._shrink((20_000, 10_000), 0.01, 20_000)
    assert rows / columns == pytest.approx(2.0, rel=0.01)
    assert rows * columns * 0.01 == pytest.approx(20_000, rel=0.01)
    assert _expected._shrink((500, 40), 0.1, 20_000) == (500, 40)
    assert _expected._shrink((5_000, 2_000), 1.0, 1_000) == (200, 20)


def test_lines_rise_at_most_in_proportion():
    assert on_a_line((10, 20), (2.0, 3.0), 40) == 5.0
    assert on_a_line((10, 20), (1.0, 9.0), 40) == 18.0
    assert on_a_line((10, 20), (3.0, 2.0), 40) == 2.0
    assert on_a_line((20,), (2.0,), 40) == 4.0


def test_a_command_prints_the_table(calls, capsys):
    main(["--estimate", "2000", "20", "4000", "--path", "12", "--threads", "1"])
    said, _, head, *lines = capsys.readouterr().out.splitlines()
    assert said == "2,000 rows, 20 columns, 4,000 entries that are not zero; cox, 1 thread"
    assert head.split() == ["seconds", "lower", "upper", "memory_mb", "timed"]
    assert [line[:21].strip() for line in lines] == ["fit", "path of 12 penalties"]
    assert all(float(value) > 0 for line in lines for value in line[21:].split()[:4])
    with pytest.raises(SystemExit, match="`ones` is 50000, must be at most rows x columns"):
        main(["--estimate", "2000", "20", "50000"])


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"rows": 10}, "`rows` is 10, must be a whole number of at least 200"),
        ({"columns": 0}, "`columns` is 0, must be"),
        ({"ones": 2.5}, "`ones` is 2.5, must be"),
        ({"ones": 10**6}, "`ones` is 1000000, must be at most rows x columns, which are 40,000"),
        ({"ones": 10}, "`ones` is 10, must be at least 20, a hundredth of the rows or columns"),
        ({"model": "weibull"}, "`model` is 'weibull', must be"),
        ({"n_alphas": 0}, "`n_alphas` is 0, must be"),
        ({"cv": 1}, "`cv` is 1, must be"),
        ({"n_replicates": True}, "`n_replicates` is True, must be"),
        ({"n_jobs": 0}, "`n_jobs` is 0"),
    ],
)
def test_arguments_are_checked_before_the_work(given, said, calls):
    with pytest.raises(ValueError, match=said):
        expected_time(**{"rows": 2_000, "columns": 20, "ones": 4_000, **given})
    assert calls == []
