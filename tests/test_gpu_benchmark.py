"""The benchmarks for a device, at tiny sizes on a simulated one: nothing waits for hardware."""

import json
import time
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from grids import thin

pytest.importorskip("numba_cuda")
pytest.importorskip("greenlet")

from gpu.cupy import simulate_sampling
from gpu.device import SimulatedDevice

import sksurvgpu.backends
from benchmarks import (
    fusion,
    gpu,
    gpu_bayes,
    gpu_cases,
    gpu_ceilings,
    gpu_crossover,
    gpu_first_fit,
    gpu_jobs,
    gpu_parity,
    gpu_sanitizer,
    gpu_timings,
)
from sksurvgpu.backends import cpu, cuda
from sksurvgpu.backends.cuda import gram, linalg
from sksurvgpu.backends.cuda.layout import Layout
from sksurvgpu.exceptions import BackendUnavailableError

CEILINGS = gpu_ceilings.Scale(
    copied=2**8,
    meetings=2,
    launches=2,
    gathered=64,
    gathers=64,
    rounds=2,
    blocks=1,
    threads=32,
    repeats=1,
)
PARITY = gpu_parity.Scale(
    seeds=1,
    rows=(16,),
    columns=2,
    shapes=((32, 12),),
    batch=2,
    many_fits=5,
    large=(60, 3),
    tol=1e-9,
)
TIMINGS = gpu_timings.Scale(
    shrink=10**6,
    columns=2,
    repeats=1,
    calls=1,
    folds=2,
    replicates=1,
    max_iter=1,
    ceilings=CEILINGS,
)


@pytest.fixture
def device(monkeypatch):
    """The device that `choose("cuda")` opens, and small teams."""
    simulated = SimulatedDevice(n_multiprocessors=2, shared_bytes=64 * 1024)
    monkeypatch.setattr(cuda, "open_device", lambda ordinal: simulated)
    monkeypatch.setattr(cuda, "Layout", partial(Layout, threads=32, rows_per_range=100))
    return simulated


def items_of(module, scale):
    return [item for items in module.jobs(scale).values() for item in items]


# -- parity -----------------------------------------------------------------------------------


@pytest.mark.parametrize("case", gpu_cases.SMALL, ids=lambda case: f"{case.model}, {case.name}")
def test_cases_have_solutions(case, monkeypatch):
    """The CPU beside itself, on the rows that a device will get."""
    monkeypatch.setattr(sksurvgpu.backends, "choose", lambda *asked: cpu)
    worst, scale = gpu_parity.Worst(), replace(gpu_parity.FULL, rows=(40,))
    drawn, rng = gpu_parity._draw(case, 0, scale)
    problem, batch = gpu_parity._batch_of(drawn, rng, 2)
    assert batch.lambdas.min() > 0
    solutions = gpu_parity.compare(case.name, problem, batch, scale, worst)
    assert solutions[0][0].converged or not case.ends
    assert np.count_nonzero(solutions[0][0].coef) + np.count_nonzero(solutions[1][0].coef)
    assert worst.summary()["passed"]
    assert worst.differences["objective"] <= 1e-14


@pytest.mark.parametrize(
    "item", ["cox: small", "logistic: exact", "poisson: float32", "linear: batch", "linear: large"]
)
def test_parity(item, device, monkeypatch):
    assert item in items_of(gpu_parity, PARITY)
    model = item.partition(":")[0]
    kept = [case for case in gpu_cases.SMALL if case.model == model][:1]
    monkeypatch.setattr(gpu_cases, "SMALL", tuple(kept))
    monkeypatch.setattr(gpu_parity, "SHARES", (0.6, 0.5))
    result = gpu_parity.measure(item, PARITY)
    assert result["passed"], result["failures"]
    assert result["fits"] > 0
    assert not gpu_parity.failed(result)
    assert len(gpu_parity.row(item, result)) == len(gpu_parity.HEADERS)


def test_parity_of_more_fits_than_teams(device, monkeypatch):
    kept = [case for case in gpu_cases.SMALL if case.model == "linear"][:1]
    monkeypatch.setattr(gpu_parity, "_small_cases", lambda model: 3 * kept)
    result = gpu_parity.measure("cox: many fits", replace(PARITY, tol=1e-4, max_iter=3))
    assert result["fits"] == 5
    assert result["passed"], result["failures"]


def test_parity_notices_a_difference():
    case = gpu_cases.SMALL[0]
    problem, batch = gpu_cases.problem_of(case.draw(np.random.default_rng(0), 40, 3))
    lam = gpu_parity.largest_penalty(problem, batch)
    batch = replace(batch, lambdas=np.full((1, 1), 0.2 * lam))
    [solution] = sksurvgpu.solver.solve.solve(problem, batch, cpu)[0]
    right = gpu_parity.kkt_of(problem, batch, [[solution]])[0]
    expected = 1e-6 * solution.score / solution.allowed
    assert right[0] == pytest.approx(expected, rel=1e-6, abs=1e-15)
    wrong = replace(solution, coef=solution.coef + 1e-3, objective=solution.objective + 1e-3)
    worst = gpu_parity.Worst()
    worst.add("x", [wrong], [solution], gpu_parity.kkt_of(problem, batch, [[wrong]])[0], 1e-6)
    summary = worst.summary()
    assert summary["n_failures"] == 3
    assert gpu_parity.failed(summary)
    assert "FAILED: 3" in gpu_parity.row("x", summary)[-1]
    worst.add("x", [replace(solution, coef=solution.coef * np.nan)], [solution], right, 1e-6)
    assert worst.summary()["n_failures"] == 4


# -- sanitizer --------------------------------------------------------------------------------

CLEAN = "3 fits\n========= ERROR SUMMARY: 0 errors\n"
WRONG = "========= Invalid __global__ read\n========= ERROR SUMMARY: 2 errors\n"
HAZARDS = "========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)\n"


@pytest.mark.parametrize(
    ("status", "printed", "passed"),
    [
        (0, CLEAN, True),
        (gpu_sanitizer.FOUND, WRONG, False),
        (gpu_sanitizer.FOUND, HAZARDS, False),
        (1, CLEAN, None),
        (0, "crashed", None),
    ],
)
def test_sanitizer_reports(status, printed, passed):
    commands = []

    def run(command, timeout, env):
        commands.append(command)
        return status, printed

    result = gpu_sanitizer.measure("racecheck: cox", None, run=run, find=lambda: "tool")
    assert result.get("passed") == passed
    assert gpu_sanitizer.failed(result) == (passed is not True)
    [command] = commands
    assert command[:3] == ["tool", "--tool", "racecheck"]
    assert command[-3:] == ["benchmarks.gpu", "--kernels", "cox"]


def test_sanitizer_is_missing_or_late(monkeypatch):
    absent = gpu_sanitizer.measure("memcheck: cox", None, find=lambda: None)
    assert absent == {"not_run": "compute-sanitizer not found"}
    assert not gpu_sanitizer.failed(absent)

    def late(command, timeout, env):
        raise gpu_sanitizer.TookTooLongError

    result = gpu_sanitizer.measure("memcheck: cox", None, run=late, find=lambda: "tool")
    assert result["not_run"].startswith("no time")
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("CUDA_HOME", "/nowhere")
    assert gpu_sanitizer.find_tool() in (None, "/usr/local/cuda/bin/compute-sanitizer")


@pytest.mark.slow
def test_kernels_mode(device, monkeypatch, capsys):
    kept = [case for case in gpu_cases.SMALL if case.model == "linear"][:1]
    monkeypatch.setattr(gpu_cases, "SMALL", tuple(kept))
    monkeypatch.setattr(gpu_sanitizer, "run_kernels", partial(gpu_sanitizer.run_kernels, rows=24))
    assert gpu.main(["--kernels", "linear"]) == 0
    assert capsys.readouterr().out == "6 fits\n"


# -- measurements -----------------------------------------------------------------------------


def test_ceilings(device):
    for item in items_of(gpu_ceilings, CEILINGS):
        result = gpu_ceilings.measure(item, CEILINGS)
        if "not_run" in result:
            assert item.endswith(("8", "32", "128"))
        else:
            assert result["value"] >= 0
            assert len(gpu_ceilings.row(item, result)) == len(gpu_ceilings.HEADERS)


@pytest.mark.parametrize("n", [1, 33, 200])
def test_forms_of_fusion_agree(n, device):
    experiment = fusion.Experiment(device, n, threads=32, cells_of_a_block=60, seed=n)
    assert experiment.size == min(max(1, n // 60), 2)
    for form in fusion.FORMS:
        for n_columns in (1, 2):
            found = experiment.result(form, n_columns)
            np.testing.assert_allclose(found, experiment.expected, rtol=1e-12, atol=1e-12)


def test_fusion(device, tmp_path, monkeypatch, capsys):
    tiny = fusion.Scale(cells=(70,), columns=1, repeats=1)
    monkeypatch.setattr(fusion, "SMALL", tiny)
    monkeypatch.setattr(fusion, "THREADS", 32)
    path = tmp_path / "fusion.json"
    fusion.main(["--quick", "--output", str(path)])
    assert json.loads(path.read_text())["results"]["70"]["passed"]
    printed = capsys.readouterr().out
    assert "published, 100,000" in printed
    assert "57.9" in printed


TIMED = ["cox 1e6 x 1000", "exact 1e5 x 1000", "cross-validation 1e6 x 1000"]
TIMED += ["strata 50, 1e6 x 1000", "fine-gray 1e6 x 1000", "float32 1e6 x 1000", "ehr 1e5 x 2000"]


@pytest.mark.parametrize("item", thin(4, TIMED))
def test_timings(item, device):
    assert item in items_of(gpu_timings, TIMINGS)
    result = gpu_timings.measure(item, TIMINGS)
    assert len(gpu_timings.row(item, result)) == len(gpu_timings.HEADERS)
    if "operations_ms" in result:
        assert {"start", "gradient", "upload X"} <= set(result["operations_ms"])
        assert result["fit_ms"] > 0
    if item in gpu_timings.TARGETS:
        assert "within" in gpu_timings.row(item, result)[-1] or "MISSES" in str(
            gpu_timings.row(item, result)
        )


def test_timings_leave_out_what_is_too_large():
    result = gpu_timings.measure(
        "cox 1e6 x 10000", replace(TIMINGS, shrink=1, columns=None, largest=1e7)
    )
    assert "not_run" in result


def test_stopwatch_leaves_the_backend_as_it_was(device):
    before = cuda.Layout, cuda.Session, cuda.serve_in_rounds
    with gpu_timings.stopwatch():
        assert cuda.Layout is not before[0]
    assert (cuda.Layout, cuda.Session, cuda.serve_in_rounds) == before


def test_crossover_and_first_fit(device):
    scale = gpu_crossover.Scale(rows=(60,), columns=2, fits=(1,), repeats=1)
    [item] = items_of(gpu_crossover, scale)
    result = gpu_crossover.measure(item, scale)
    assert len(gpu_crossover.row(item, result)) == len(gpu_crossover.HEADERS)
    tiny = gpu_first_fit.Scale(rows=60, columns=2, max_iter=1)
    assert gpu_first_fit.measure("cox", tiny)["first_s"] > 0


def test_crossover_is_where_the_device_always_wins():
    def results(*pairs):
        return {str(k): {"work": w, "cpu_ms": r, "cuda_ms": 1.0} for k, (w, r) in enumerate(pairs)}

    assert gpu_crossover.crossover(results((1, 0.1), (10, 2.0), (100, 0.9), (1000, 3.0))) == 1000
    assert gpu_crossover.crossover(results((1, 0.1), (10, 2.0))) == 10
    assert gpu_crossover.crossover(results((1, 0.1), (10, 1.0))) is None
    assert "nothing" in gpu_crossover.footer_of({"a": {"not_run": "no time"}})
    assert gpu_crossover.footer_of(results((1, 0.1))) == "CUDA wins nowhere"
    assert gpu_crossover.footer_of(results((1, 0.1), (2_000, 2))) == "CUDA wins from 2,000 on"


SAMPLERS = gpu_bayes.Scale(
    draws=8,
    compared_draws=6,
    lasso=(2, 4, 6),
    multinomial=(12, 2, 3),
    parity_lasso=(2, 4, 6),
    parity_multinomial=(12, 2, 3),
    parity_iterations=4,
    iterations=1,
    repeats=1,
    ceilings=CEILINGS,
)


@pytest.mark.parametrize("item", items_of(gpu_bayes, SAMPLERS))
def test_samplers(item, device, monkeypatch):
    monkeypatch.setattr(gram, "SIDE", 1)
    simulate_sampling(monkeypatch, device, compiled=True)
    result = gpu_bayes.measure(item, SAMPLERS)
    assert result.get("passed", True) and result["value"] >= 0
    assert not gpu_bayes.failed(result)
    cells = gpu_bayes.row(item, result)
    assert len(cells) == len(gpu_bayes.HEADERS)
    assert "within" in cells[-1] or "MISSES" in cells[-1] or item in gpu_bayes.PARITY


def test_chains_that_differ_are_failures(monkeypatch):
    draws = np.ones((3, 2, 4))
    result = gpu_bayes._compare(draws, draws + 1e-5)
    assert gpu_bayes.failed(result) and gpu_bayes.row("parity: lasso", result)[-1] == "FAILED"
    monkeypatch.setattr(linalg, "find_spec", lambda name: None)
    assert "cupy" in gpu_bayes.measure("lasso", SAMPLERS)["not_run"]


@pytest.mark.slow
def test_own_kernels_compile(monkeypatch):
    """Those of the package have their own test."""
    pytest.importorskip("cuda.bindings.nvjitlink")
    from gpu.compiler import RecordingDevice, compile_launched

    recorder = RecordingDevice(n_multiprocessors=2, shared_bytes=64 * 1024)
    monkeypatch.setattr(cuda, "open_device", lambda ordinal: recorder)
    for item in items_of(gpu_ceilings, CEILINGS):
        gpu_ceilings.measure(item, CEILINGS)
    experiment = fusion.Experiment(recorder, 33, threads=32)
    for form in fusion.FORMS:
        experiment.result(form)
    found = compile_launched(recorder.launched, [(9, 0)])
    names = {name.rpartition(".")[2] for name in found}
    assert {"copy_numbers", "meet_often", "sum_often", "gather_shared", "fused"} <= names
    assert [name for name, targets in found.items() if targets["sm_90"].spills] == []


# -- processes, shares of time, tables --------------------------------------------------------


@pytest.mark.slow
def test_a_process_reports_and_is_replaced(monkeypatch):
    """One that fails leaves the rest to the next; one without time says so."""
    monkeypatch.setenv("CUDA_HOME", "/nowhere")
    monkeypatch.setenv("PATH", "/bin")
    job = gpu_jobs.Job("gpu_sanitizer", ("nonsense", "memcheck: cox"), "FULL", 1)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    results = gpu_jobs.run_job(job, time.monotonic() + 60.0)
    assert set(results) == {"nonsense", "memcheck: cox"}
    assert "not_run" in results["memcheck: cox"] or "error" in results["memcheck: cox"]
    late = gpu_jobs.run_job(gpu_jobs.Job("gpu_sanitizer", ("a",), "FULL"), time.monotonic())
    assert late == {"a": gpu_jobs.NO_TIME}


class Fake:
    """A part: `wrong` fails, `late` sees no time."""

    FULL = None

    @staticmethod
    def measure(item, scale):
        if item == "wrong":
            raise ValueError("broken")
        return {"value": 1}


def test_items_of_a_process(monkeypatch):
    monkeypatch.setattr(gpu_jobs, "module_of", lambda part: Fake)
    said = []

    def say(line, flush):
        said.append(json.loads(line.removeprefix(gpu_jobs.MARK)))

    assert gpu_jobs.run_items("fake", ["a", "b"], "FULL", 60.0, say)
    assert [line.get("begin") for line in said] == ["a", None, "b", None]
    assert said[1]["result"]["value"] == 1
    said.clear()
    assert not gpu_jobs.run_items("fake", ["wrong", "b"], "FULL", 60.0, say)
    assert "ValueError: broken" in said[1]["result"]["error"]
    said.clear()
    assert gpu_jobs.run_items("fake", ["a"], "FULL", 1.0, say)
    assert said == [{"item": "a", "result": gpu_jobs.NO_TIME}]


def test_following_a_process():
    import queue

    def follow(*lines, limit=0.05):
        waiting = queue.Queue()
        for line in lines:
            waiting.put(line)
        job = gpu_jobs.Job("fake", ("a", "b"), "FULL")
        log = gpu_jobs._follow(job, waiting, time.monotonic() + 60.0, limit)
        return job.results, log

    begin, done = '@@{"begin": "a"}\n', '@@{"item": "a", "result": {"value": 1}}\n'
    assert follow(begin, "noise\n", done, None) == ({"a": {"value": 1}}, ["noise\n"])
    assert "the process ended; noise" in follow(begin, "noise\n", None)[0]["a"]["error"]
    assert "no result after" in follow(begin)[0]["a"]["error"]
    assert follow("noise\n", None)[0] == {}


def test_shares_of_time():
    every = list(gpu.schedule(list(gpu.PARTS), 0.0, 100.0))
    assert [stage for stage, _ in every] == [list(stage) for stage in gpu.STAGES]
    ends = [end for _, end in every]
    assert ends == sorted(ends)
    assert ends[-1] == pytest.approx(95.0)
    [(stage, end)] = gpu.schedule(["timings"], 10.0, 100.0)
    assert stage == ["timings"]
    assert end == pytest.approx(105.0)


def fake_run(outcome):
    def run(job, deadline):
        return {item: outcome(job.part, item) for item in job.items}

    return run


DEVICE = {"name": "NVIDIA H200 (fake)", "multiprocessors": 132}


@pytest.mark.parametrize(
    ("parity", "status"),
    [
        ({"error": "Traceback\nValueError: broken"}, 1),
        ({"passed": False, "failures": ["x"], "n_failures": 1}, 1),
        ({"not_run": "no time"}, 0),
    ],
)
def test_the_whole_queue(parity, status, tmp_path, monkeypatch, capsys):
    def outcome(part, item):
        if part == "gpu_parity":
            blank = dict.fromkeys(("fits", "objective", "coef", "kkt", "iterations"))
            return {**blank, **parity} if "passed" in parity else parity
        return {"not_run": "compute-sanitizer not found"}

    monkeypatch.setattr(gpu, "_ask_device", lambda deadline: DEVICE)
    monkeypatch.setattr(gpu, "run_stage", partial(gpu.run_stage, run=fake_run(outcome)))
    path = tmp_path / "gpu.json"
    assert gpu.main(["--json", str(path), "--small"]) == status
    content = json.loads(path.read_text())
    assert set(content["parts"]) == set(gpu.PARTS)
    assert content["machine"]["name"] == DEVICE["name"]
    printed = capsys.readouterr().out
    assert "not run: compute-sanitizer not found" in printed
    for part in gpu.PARTS:
        assert gpu.module_of(gpu.PARTS[part][0]).HEADERS[0] in printed
    assert gpu._slug(DEVICE["name"]) == "nvidia-h200-fake"


def test_no_device(monkeypatch, capsys):
    def refuse(*asked):
        raise BackendUnavailableError("no device here")

    monkeypatch.setattr(sksurvgpu.backends, "choose", refuse)
    assert gpu.measure("device", None) == {"error": "no device here"}
    monkeypatch.setattr(gpu, "_ask_device", lambda deadline: {"error": "no device here"})
    assert gpu.main([]) == 2
    assert "no device here" in capsys.readouterr().err


def test_describe_the_device(device):
    assert gpu.measure("device", None)["name"] == "simulated device"


def test_unknown_parts_are_refused(capsys):
    with pytest.raises(SystemExit):
        gpu.main(["--only", "parity,nonsense"])
    assert "nonsense: not a part" in capsys.readouterr().err
