"""The real numba-cuda on a driver without a device: it opens, compiles, links, loads, launches."""

import json
from functools import partial

import pytest

pytest.importorskip("numba_cuda")
pytest.importorskip("cuda.bindings.nvjitlink")

from benchmarks.gpu import host, stand_in
from benchmarks.gpu.__main__ import main_gpu
from benchmarks.gpu.day import run_job
from benchmarks.gpu.stand_in import Counts, call_on_stand_in

LARGEST_SHARED = 232_448


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("driver")
    try:
        stand_in.build(folder)
    except RuntimeError as missing:
        pytest.skip(str(missing))
    return folder


@pytest.fixture(scope="module")
def run(folder):
    """Call of a function in a process that finds the driver."""
    return partial(call_on_stand_in, folder=folder)


def test_a_device_is_opened(run):
    found = run("tests.gpu.on_stand_in", "open_device", {})
    assert found["opened"] == ["stand-in", True, 512, 0]
    assert "CUDA 13.0" in found["versions"] and "stand-in, 130 GiB" in found["versions"]


def major_version_of_compiler():
    from sksurvgpu.backends.cuda import _cuda, toolkit

    return toolkit.compiler_version(_cuda.nvvm)[0]


@pytest.mark.mostly_slow(but="11080|12040")  # a device opened by the last is above
@pytest.mark.parametrize("driver", [11_080, 12_040, 13_010])
def test_drivers_that_fit_and_that_do_not(driver, run):
    opened = run("tests.gpu.on_stand_in", "open_device", {}, STAND_IN_DRIVER=str(driver))["opened"]
    if driver // 1000 >= major_version_of_compiler():
        assert opened[0] == "stand-in"
        return
    kind, said = opened
    assert kind == "BackendUnavailableError" and "a newer driver" in said
    assert ("sksurvgpu[cuda12]" in said) == (driver >= 12_000)
    assert "cuda11" not in said  # there is none


@pytest.fixture(scope="module")
def replays(run, folder):
    """Runs of a fit in two processes, of which the second finds what the first has compiled."""
    sizes, kept = {"n": 3_000, "p": 20, "n_fits": 2, "runs": 2}, str(folder / "kept")
    replay = partial(run, "benchmarks.gpu.host", "replay", sizes, NUMBA_CACHE_DIR=kept)
    return replay(), replay()


@pytest.mark.slow  # nine kernels; test_cuda_cache has one of its own
def test_processes_load_what_others_compiled(replays):
    ((_, _, compiled), (_, _, again)), later = replays
    assert len(compiled) > 8 and not again
    for iterations, _, compiled in later:
        assert not compiled
        kept = [Counts(*asked) for is_kept, _, asked in iterations if is_kept]
        assert Counts(3, 1, 1, 0, 0, 0) in kept


@pytest.mark.weekly
def test_memory_that_is_lacking_is_told(run):
    found = run("tests.gpu.on_stand_in", "fit_on_device", {"n": 1_000}, STAND_IN_MEMORY="100000")
    kind, said = found["said"][0]
    assert kind == "MemoryError" and "X with 1,000 rows and 5 columns needs" in said
    assert 'backend="cpu"' in said and found["kept"] == 0


@pytest.mark.mostly_slow(but=r"\[2\]")
@pytest.mark.parametrize("launch", [2, 12])  # as rows are laid out, and in an iteration
def test_a_broken_device_is_told_and_nothing_of_it_kept(launch, run):
    """It tells of a launch at a later call, and nothing on it is there any more."""
    found = run("tests.gpu.on_stand_in", "fit_on_device", {"n": 1_000}, STAND_IN_FAULT=str(launch))
    for kind, said in found["said"]:
        assert kind in ("CudaAPIError", "CUDAError") and "CUDA_ERROR_ILLEGAL_ADDRESS" in said
        assert "Nothing runs on stand-in any more until this process ends." in said
    assert ("of 1 fit(s) on stand-in" in found["said"][0][1]) == (launch == 12)
    assert found["kept"] == 0 and found["counts"][0] == launch


@pytest.mark.slow
def test_what_the_host_does_is_printed(monkeypatch, run, capsys):
    monkeypatch.setattr(host, "call_on_stand_in", run)
    host.folds(["--rows", "200", "--fits", "3"])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 12 and all(" s, of the processor " in line for line in lines)
    host.iteration(["--rows", "3000", "--columns", "20", "--fits", "2", "--runs", "2"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].startswith("model kept: ") and "3 launches, 1 uploads, 1 downloads" in lines[1]


@pytest.mark.slow
def test_call0_of_the_gpu_day(folder, tmp_path, monkeypatch, capsys):
    """All of it runs; of what no kernel has done, the part says that it is wrong."""
    monkeypatch.setenv("LD_LIBRARY_PATH", str(folder))
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(folder))
    path = tmp_path / "call0.json"
    assert main_gpu(["call0", "--small", "--json", str(path)], run=run_job) == 1
    results = json.loads(path.read_text())["parts"]["chip"]
    wrong = {item for item, result in results.items() if result.get("passed") is False}
    assert wrong == {"shared memory"} and not any("error" in result for result in results.values())
    assert results["device"]["shared_bytes"] == LARGEST_SHARED
