"""``python -m sksurvgpu`` on a small cohort."""

import re

import pytest

from sksurvgpu import _warm_up
from sksurvgpu.__main__ import main
from sksurvgpu.exceptions import BackendUnavailableError


def test_tour(capsys):
    main(["--samples", "400", "--features", "20", "--threads", "1"])
    printed = capsys.readouterr().out
    for expected in (
        "backend     cpu, 1 thread(s)",
        "400 rows, 20 indicator columns",
        "path of 50 penalties",
        "5-fold cross-validation",
        "hazard ratio",
        "scikit-survival CoxnetSurvivalAnalysis",
    ):
        assert expected in printed
    rows = re.findall(r"^(CoxLassoCCD|Coxnet) +(\d+\.\d+) +(\S+) +(\d+)$", printed, re.MULTILINE)
    (_, ours, our_kkt, _), (_, theirs, _, _) = rows
    assert float(ours) <= float(theirs) + 1e-9
    assert float(our_kkt) < 1e-6


def test_tour_without_the_comparison(capsys):
    main(["--samples", "300", "--features", "10", "--threads", "1", "--no-compare"])
    assert "Coxnet" not in capsys.readouterr().out


def test_compiling_for_a_device_that_is_not_there_says_so(monkeypatch):
    def choose(backend, device):
        raise BackendUnavailableError(f"no {backend} device {device}")

    monkeypatch.setattr(_warm_up, "choose", choose)
    with pytest.raises(SystemExit, match=r"^no cuda device 1$"):
        main(["--compile", "--backend", "cuda", "--device", "1"])
