"""The GPU day at tiny sizes on a simulated device: no line of it runs there for the first time."""

import json
import re
import time
import zipfile
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from grids import thin

pytest.importorskip("numba_cuda")
pytest.importorskip("greenlet")

from gpu.cupy import simulate_sampling
from gpu.device import SimulatedDevice

import sksurvgpu.backends
from benchmarks.gpu import (
    __main__,
    cases,
    ceilings,
    crossover,
    day,
    first,
    fusion,
    kernels,
    papers,
    parity,
    problems,
    samplers,
    start,
    wheels,
)
from benchmarks.gpu.day import FULL, TINY, part_of
from sksurvgpu.backends import cpu, cuda
from sksurvgpu.backends.cuda import linalg, weights
from sksurvgpu.backends.cuda._cuda import Device
from sksurvgpu.backends.cuda.layout import Layout
from sksurvgpu.exceptions import BackendUnavailableError

TOOLS = ("profile", "sanitizer")  # which call what is not there


@pytest.fixture
def device(monkeypatch):
    """The device that `choose("cuda")` opens, and small teams."""
    simulated = SimulatedDevice(n_multiprocessors=2, shared_bytes=64 * 1024)
    monkeypatch.setattr(cuda, "open_device", lambda ordinal: simulated)
    monkeypatch.setattr(cuda, "Layout", partial(Layout, threads=32, rows_per_range=100))
    monkeypatch.setattr(weights, "PARTS", 2)
    monkeypatch.setattr(
        start, "call", lambda module, name, given, **more: start.first_fits(**given)
    )
    monkeypatch.setattr(
        kernels, "call", lambda module, name, given, **more: kernels.measure_here(**given)
    )
    simulate_sampling(monkeypatch, simulated, compiled=True)
    return simulated


def run_here(job, deadline):
    """As a child would, its lines and all."""
    said = []
    day.run_items(job.part, job.left, job.sizes, 1e6, lambda line, flush: said.append(line))
    lines = [json.loads(line.removeprefix(day.MARK)) for line in said]
    return {line["item"]: line["result"] for line in lines if "item" in line}


# Every check, of models whose rows cost little; each model has all of them in the slow test.
CHECKED = ("cox: small", "cox: exact", "linear: diagonal", "linear: float32", "linear: batch")
CHECKED += ("linear: large", "linear: penalties", "linear: many fits")
# Every problem once, every call once.
ROWS = [papers.Row("cox 1e6 x 1000", "fit", algorithms=papers.BOTH)]
ROWS += [papers.Row(f"{what} 1e4 x 100", "fit") for what in ("fine-gray", "matched", "case-series")]
ROWS += [papers.Row("strata 50, 1e4 x 100", "fit")]
ROWS += [papers.Row("logistic 1e4 x 100", call) for call in papers.CALLS if call != "fit"]
# Every kind of fit; `test_names_are_read` draws the problems of all others.
TIMED = ("cox 1e6 x 1000", "exact, 1e5 x 1000", "folds, 1e5 x 1000")


@pytest.fixture
def first_cases(monkeypatch):
    """Of each model; where rounding matters less."""
    firsts = {case.model: case for case in reversed(cases.SMALL)}
    monkeypatch.setattr(cases, "SMALL", tuple(firsts.values()))
    monkeypatch.setattr(parity, "SHARES", (0.6, 0.5))


@pytest.mark.slow
@pytest.mark.parametrize("call", day.CALLS)
def test_dry_run(call, device, first_cases, tmp_path, monkeypatch, capsys):
    """Every part of a call, from the orders of its processes to its table."""
    monkeypatch.setattr(parity.Parity, "jobs", lambda self, sizes: [(item,) for item in CHECKED])
    monkeypatch.setattr(papers, "ROWS", tuple(ROWS))
    monkeypatch.setattr(kernels, "ITEMS", TIMED)
    form = {"form": kernels.families(TINY)["form"]}
    monkeypatch.setattr(kernels, "families", lambda sizes: form)
    monkeypatch.setattr(start.Start, "jobs", lambda self, sizes: [("majorized, warm",)])
    monkeypatch.setattr(first.Smoke, "jobs", lambda self, sizes: [("majorized",)])
    monkeypatch.setattr(first, "FITS", 2)
    path = tmp_path / "day.json"
    arguments = [call, "--sizes", "tiny", "--json", str(path), "--jobs", "1"]
    assert __main__.main_gpu(arguments, run_here) == 0
    content, printed = json.loads(path.read_text()), capsys.readouterr().out
    assert list(content["parts"]) == list(day.CALLS[call].shares)
    for name, results in content["parts"].items():
        assert f"\n{name} " in printed
        ran = [item for item, result in results.items() if "not_run" not in result]
        assert bool(ran) == (name not in TOOLS)
    assert "ERROR" not in printed and "FAILED" not in printed


def test_names_are_read():
    """Of all items whose fits differ in their problems alone."""
    for name in {*kernels.ITEMS, *(family.problem for family in kernels.families(TINY).values())}:
        problem = problems.problem_of(name, TINY)
        assert problems.describe(problem)["rows"] >= 60 and problems.bytes_of(problem)["X"] > 0
    for row in papers.ROWS:
        what, n, p = problems.read_name(row.problem, TINY)
        X, y = papers.draw(what, n, p)
        assert len(X) == len(y) if what == "matched" else X.shape == (len(y), p)
        assert row.call in papers.CALLS and what.split()[0] in papers.MODELS


def test_ways_are_there():
    """None asks for a constant that the package does not have."""
    for family in kernels.families(FULL).values():
        assert len(family.ways) > 1
        for way in family.ways.values():
            with way():
                pass


@pytest.mark.slow
@pytest.mark.parametrize("model", cases.MODELS)
def test_parity_of_a_model(model, device, first_cases):
    for item in (item for items in part_of("parity").jobs(TINY) for item in items):
        if item.startswith(f"{model}: "):
            result = part_of("parity").measure(item, TINY)
            assert result["passed"] and result["fits"] > 0, result["failures"]


@pytest.mark.slow
@pytest.mark.parametrize("model", thin(4, parity.EVERYTHING))
def test_what_the_sanitizer_looks_at(model, device, first_cases):
    assert parity.run_kernels(model, rows=16, columns=2, max_iter=1) > 0


def test_what_the_profiler_looks_at(device):
    for problem, _ in kernels.PROFILED.values():
        [[solution]] = kernels.fit(problem, TINY)
        assert solution.n_iter == 1


def test_only_methods_of_devices_are_called():
    """The simulated device has more of them."""
    called = set()
    for path in Path(__main__.__file__).parent.glob("*.py"):
        called |= set(re.findall(r"\bdevice\.(\w+)\(", path.read_text()))
    assert {"launch", "upload"} <= called <= set(dir(Device))


@pytest.mark.slow
@pytest.mark.parametrize("case", cases.SMALL, ids=lambda case: f"{case.model}, {case.name}")
def test_cases_have_solutions(case, monkeypatch):
    """The CPU beside itself, on the rows that a device will get."""
    monkeypatch.setattr(sksurvgpu.backends, "choose", lambda *asked: cpu)
    worst, scale = parity.Worst(), replace(FULL, rows=(40,))
    drawn, rng = parity.draw(case, 0, scale)
    problem, batch = parity.batch_of(drawn, rng, 2)
    assert batch.lambdas.min() > 0
    solutions = parity.compare(case.name, problem, batch, scale, worst)
    assert solutions[0][0].converged or not case.ends
    assert np.count_nonzero(solutions[0][0].coef) + np.count_nonzero(solutions[1][0].coef)
    assert worst.summary()["passed"]
    assert worst.differences["objective"] <= 1e-14


def test_parity_notices_a_difference():
    case = cases.SMALL[0]
    problem, batch = cases.problem_of(case.draw(np.random.default_rng(0), 40, 3))
    lam = parity.largest_penalty(problem, batch)
    batch = replace(batch, lambdas=np.full((1, 1), 0.2 * lam))
    [solution] = sksurvgpu.solver.fits.Fits(problem, batch, cpu).solve()[0]
    right = parity.kkt_of(problem, batch, [[solution]])[0]
    expected = 1e-6 * solution.score / solution.allowed
    assert right[0] == pytest.approx(expected, rel=1e-6, abs=1e-15)
    wrong = replace(solution, coef=solution.coef + 1e-3, objective=solution.objective + 1e-3)
    worst = parity.Worst()
    worst.add("x", [wrong], [solution], parity.kkt_of(problem, batch, [[wrong]])[0], 1e-6)
    summary = worst.summary()
    assert day.fails(summary) and summary["note"].startswith("3; x: objective")
    worst.add("x", [replace(solution, coef=solution.coef * np.nan)], [solution], right, 1e-6)
    assert worst.summary()["note"].startswith("4; ")


CLEAN = "3 fits\n========= ERROR SUMMARY: 0 errors\n"
WRONG = "========= Invalid __global__ read\n========= ERROR SUMMARY: 2 errors\n"
HAZARDS = "========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)\n"


@pytest.mark.parametrize(
    ("status", "printed", "passed"),
    [
        (0, CLEAN, True),
        (parity.FOUND, WRONG, False),
        (parity.FOUND, HAZARDS, False),
        (1, CLEAN, None),
        (0, "crashed", None),
    ],
)
def test_sanitizer_reports(status, printed, passed):
    commands = []

    def run(command, timeout, env):
        commands.append(command)
        return status, printed

    result = part_of("sanitizer").measure("racecheck: cox", None, run=run, find=lambda: "tool")
    assert result.get("passed") == passed
    assert day.fails(result) == (passed is not True)
    [command] = commands
    assert command[:3] == ["tool", "--tool", "racecheck"]
    assert command[-3:] == ["-m", "benchmarks.gpu.parity", "cox"]


def test_sanitizer_is_missing_or_late(monkeypatch):
    absent = part_of("sanitizer").measure("memcheck: cox", None, find=lambda: None)
    assert absent == {"not_run": "compute-sanitizer not found"}
    assert not day.fails(absent)

    def late(command, timeout, env):
        raise parity.TookTooLongError

    result = part_of("sanitizer").measure("memcheck: cox", None, run=late, find=lambda: "tool")
    assert result["not_run"].startswith("no time")
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("CUDA_HOME", "/nowhere")
    assert parity.find_tool() in (None, "/usr/local/cuda/bin/compute-sanitizer")


NCU = """==PROF== Connected
"ID","Kernel Name","gpu__time_duration.sum","launch__registers_per_thread"
"","","ns","register/thread"
"0","add_pairs","1,500","40"
"1","add_pairs","2,500","40"
"2","load_few","n/a","40"
"""


def test_counters():
    commands = []

    def run(command, timeout, env):
        commands.append(command)
        return 0, NCU

    result = part_of("profile").measure("exact, 1e5", TINY, run, find=lambda name: name)
    assert result == {"kernels": {"add_pairs": {"launches": 2, "us": 2.0, "registers": 40.0}}}
    assert commands[0][0] == "ncu" and commands[0][-2:] == ["exact, 1e5 x 1000", "tiny"]
    broken = part_of("profile").measure(
        "exact, 1e5", TINY, lambda *given: (1, "no rights"), lambda name: name
    )
    assert day.fails(broken) and "no rights" in broken["error"]


def test_watch_counts_and_leaves_no_trace(device):
    arrays = (device.zeros(1, float),)
    with ceilings.Watch(device) as watched:
        for _ in range(3):
            device.launch(ceilings.do_nothing, 1, 32, (arrays, 1))
        device.download(arrays[0])
    assert watched.by_kernel()["do_nothing"]["launches"] == 3
    assert watched.counts == {"download": 1}
    assert not {"launch", "download", "empty"} & set(vars(device))


def test_the_pause_waits(device):
    device.launch(ceilings.pause, 1, 1, (2,))


def test_ways(device, monkeypatch):
    """One that this version lacks, and one that is in the code of kernels."""

    def families(sizes):
        new = partial(kernels.setting, "backends.cuda.layout", NOTHING=1)
        known = partial(kernels.setting, "backends.cuda.layout", BLOCKS_PER_MULTIPROCESSOR=1)
        ways = {"new": new, "known": known}
        return {"x": kernels.Family("cox 1e5 x 1000", ".", ways, is_compiled=True)}

    monkeypatch.setattr(kernels, "families", families)
    assert "NOTHING" in part_of("variants").measure("x: new", TINY)["not_run"]
    assert part_of("variants").measure("x: known", TINY)["launches"] > 0
    before = cuda.layout.THREADS
    with kernels.setting("backends.cuda.layout", THREADS=7):
        assert cuda.layout.THREADS == 7
    assert before == cuda.layout.THREADS


@pytest.mark.parametrize("n", [1, 33, 200])
def test_forms_of_fusion_agree(n, device):
    experiment = fusion.Experiment(device, n, threads=32, cells_of_a_block=60, seed=n)
    assert experiment.size == min(max(1, n // 60), 2)
    for form in fusion.FORMS:
        for n_columns in (1, 2):
            found = experiment.result(form, n_columns)
            np.testing.assert_allclose(found, experiment.expected, rtol=1e-12, atol=1e-12)


def test_crossover_is_where_the_device_always_wins():
    def footer(*pairs):
        return part_of("crossover").footer(
            {str(k): {"work": w, "ratio": r} for k, (w, r) in enumerate(pairs)}
        )

    assert footer((1, 0.1), (10, 2.0), (100, 0.9), (1000, 3.0)).endswith("from 1,000 on")
    assert footer((1, 0.1), (10, 2.0)).endswith("from 10 on")
    assert footer((1, 0.1), (10, 1.0)) == footer() == "CUDA wins nowhere"


def test_rule_of_auto(tmp_path):
    """Of the files of several calls."""
    start = {"import_s": 0.5, "first_s": 1.0, "second_s": 0.25}
    times = {"rows 9, fits 1": {"work": 90, "cpu_s": 1.0, "cuda_s": 0.5, "ratio": 2.0}}
    contents = [
        {"parts": {"chip": {"device": {"name": "H200"}}}},
        {"parts": {"start": {"majorized, cold": {}, "majorized, warm": start}}},
        {"parts": {"crossover": {**times, "rows 99, fits 1": {"not_run": "no time"}}}},
    ]
    files = [tmp_path / f"{k}.json" for k in range(len(contents))]
    for path, content in zip(files, contents, strict=True):
        path.write_text(json.dumps(content))
    out = tmp_path / "rule.json"
    crossover.main([*map(str, files), "--output", str(out)])
    expected = {"device": "H200", "start": 1.25, "fits": [[90, 1.0, 0.5]]}
    assert json.loads(out.read_text()) == expected


def test_chains_that_differ_are_failures(monkeypatch):
    draws = np.ones((3, 2, 4))
    assert day.fails(samplers.compare(draws, draws + 1e-5))
    monkeypatch.setattr(linalg, "find_spec", lambda name: None)
    assert "cupy" in part_of("samplers").measure("lasso", TINY)["not_run"]


@pytest.mark.slow
def test_own_kernels_compile(monkeypatch):
    """Those of the package have their own test."""
    pytest.importorskip("cuda.bindings.nvjitlink")
    from gpu.compiler import RecordingDevice, compile_launched

    recorder = RecordingDevice(n_multiprocessors=2, shared_bytes=64 * 1024)
    monkeypatch.setattr(cuda, "open_device", lambda ordinal: recorder)
    for item in part_of("ceilings").jobs(TINY)[0]:
        part_of("ceilings").measure(item, TINY)
    recorder.launch(ceilings.pause, 1, 1, (2,))
    experiment = fusion.Experiment(recorder, 33, threads=32)
    for form in fusion.FORMS:
        experiment.result(form)
    found = compile_launched(recorder.launched, [(9, 0)])
    names = {name.rpartition(".")[2] for name in found}
    assert {"copy_numbers", "meet_often", "sum_often", "gather_shared", "fused", "pause"} <= names
    assert {"count_shared", "gather_global"} <= names
    assert [name for name, targets in found.items() if targets["sm_90"].spills] == []


@pytest.mark.slow
def test_a_process_reports_and_is_replaced(monkeypatch):
    """One that fails leaves the rest to the next; one without time says so."""
    job = day.Job("chip", ("nonsense", "tools"), "tiny", 1)
    results = day.run_job(job, time.monotonic() + 60.0)
    assert "KeyError" in results["nonsense"]["error"]
    assert "note" in results["tools"]
    late = day.run_job(day.Job("chip", ("a",), "tiny"), time.monotonic())
    assert late == {"a": day.NO_TIME}


class Fake:
    """A part: `wrong` fails, `late` sees no time."""

    @staticmethod
    def measure(item, scale):
        if item == "wrong":
            raise ValueError("broken")
        return {"value": 1}


def test_items_of_a_process(monkeypatch):
    monkeypatch.setattr(day, "part_of", lambda part: Fake)
    said = []

    def say(line, flush):
        said.append(json.loads(line.removeprefix(day.MARK)))

    assert day.run_items("fake", ["a", "b"], "tiny", 60.0, say)
    assert [line.get("begin") for line in said] == ["a", None, "b", None]
    assert said[1]["result"]["value"] == 1
    said.clear()
    assert not day.run_items("fake", ["wrong", "b"], "tiny", 60.0, say)
    assert "ValueError: broken" in said[1]["result"]["error"]
    said.clear()
    assert day.run_items("fake", ["a"], "tiny", 1.0, say)
    assert said == [{"item": "a", "result": day.NO_TIME}]


def test_following_a_process():
    import queue

    def follow(*lines, limit=0.05):
        waiting = queue.Queue()
        for line in lines:
            waiting.put(line)
        job = day.Job("fake", ("a", "b"), "tiny")
        log = day._follow(job, waiting, time.monotonic() + 60.0, limit)
        return job.results, log

    begin, done = '@@{"begin": "a"}\n', '@@{"item": "a", "result": {"value": 1}}\n'
    assert follow(begin, "noise\n", done, None) == ({"a": {"value": 1}}, ["noise\n"])
    assert "the process ended; noise" in follow(begin, "noise\n", None)[0]["a"]["error"]
    assert "no result after" in follow(begin)[0]["a"]["error"]
    assert follow("noise\n", None)[0] == {}


def test_shares_of_time():
    given = day.CALLS["call1"].shares
    every = list(day.schedule(given, 10.0, 100.0))
    assert [part for part, _ in every] == list(given)
    ends = [end for _, end in every]
    assert ends == sorted(ends)
    assert ends[-1] == pytest.approx(105.0)


@pytest.mark.parametrize(
    ("result", "status", "shown"),
    [
        ({"error": "Traceback\nValueError: broken"}, 1, "ERROR: ValueError: broken"),
        ({"passed": False, "note": "3; x"}, 1, "FAILED 3; x"),
        ({"not_run": "no time"}, 0, "not run: no time"),
        ({"value": "fine"}, 0, "fine"),
    ],
)
def test_what_went_wrong_is_shown(result, status, shown, tmp_path, capsys):
    path = tmp_path / "day.json"
    arguments = ["call0", "--json", str(path)]

    def run(job, deadline):
        return {item: result if item == "barrier" else {"value": ""} for item in job.items}

    assert __main__.main_gpu(arguments, run) == status
    assert shown in capsys.readouterr().out
    assert json.loads(path.read_text())["parts"]["chip"]["barrier"] == result


def test_no_device(monkeypatch, capsys, tmp_path):
    def refuse(*asked):
        raise BackendUnavailableError("no device here")

    monkeypatch.setattr(sksurvgpu.backends, "choose", refuse)
    path = tmp_path / "day.json"
    assert __main__.main_gpu(["all", "--small", "--json", str(path)], run_here) == 2
    assert "no device here" in capsys.readouterr().out
    assert list(json.loads(path.read_text())["parts"]) == ["chip"]


def test_unknown_parts_are_refused(capsys):
    with pytest.raises(SystemExit):
        __main__.main_gpu(["call2", "--only", "parity,nonsense"])
    assert "nonsense: not a part of call2" in capsys.readouterr().err


def test_wheels_are_listed_once():
    packages = [package for piece in wheels.read_list().values() for package in piece]
    names = [package.partition("==")[0] for package in packages]
    assert len(set(names)) == len(names) and all("==" in package for package in packages)
    assert {"numba", "llvmlite", "numba-cuda", "scikit-survival", "nvidia-nvvm"} <= set(names)


def test_wheels_travel(tmp_path, monkeypatch, capsys):
    """Downloads are replaced; packing and installing are not."""

    def download(packages, folder):
        for package in packages:
            name, version = package.replace("-", "_").split("==")
            with zipfile.ZipFile(Path(folder, f"{name}-{version}-py3-none-any.whl"), "w") as wheel:
                wheel.writestr(f"{name}/__init__.py", "here = True\n")
                wheel.writestr(f"{name}-{version}.data/purelib/{name}/more.py", "")
                wheel.writestr(f"{name}-{version}.data/scripts/tool", "")
                wheel.writestr("nvidia/cu13/nvvm/bin/cicc", "x" * 100)

    monkeypatch.setattr(wheels, "download", download)
    sizes = wheels.pack(tmp_path / "sent", {1: ["not-known==1.0"], 2: ["numpy==0.1"]})
    assert set(sizes) == {1, 2} and "piece-1: 0.0 MiB, 1 packages" in capsys.readouterr().out
    wheels.main(["install", str(tmp_path / "sent"), str(tmp_path / "target")])
    files = sorted(
        str(path.relative_to(tmp_path / "target")) for path in (tmp_path / "target").rglob("*.py")
    )
    assert files == ["not_known/__init__.py", "not_known/more.py"]
    assert re.search(r"numpy .* is there", capsys.readouterr().out)
    assert wheels.install(tmp_path / "sent" / "piece-2", tmp_path / "over", over=True) == ["numpy"]
    monkeypatch.setattr(wheels, "PIECE_BYTES", 10)
    with pytest.raises(SystemExit, match="piece-1 is larger"):
        wheels.pack(tmp_path / "large", {1: ["not-known==1.0"]})
