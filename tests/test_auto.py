"""Where ``backend="auto"`` computes, with tables that are made up."""

import json

import numpy as np
import pytest

from sksurvgpu import CoxLassoCCD, CoxLassoCV, LogisticCCD, bootstrap, fit_outcomes, fit_path
from sksurvgpu.backends import auto, explain
from sksurvgpu.datasets import simulate_cox
from sksurvgpu.exceptions import BackendUnavailableError
from sksurvgpu.patterns.pattern import Pattern
from sksurvgpu.patterns.rows import RowPattern

# Work, seconds on the CPU, seconds on the device, which takes one before the first fit.
FITS = [[1e4, 0.1, 0.5], [1e5, 2.0, 0.6], [1e6, 1.4, 0.5], [1e7, 3.0, 0.8], [1e8, 20.0, 2.0]]


@pytest.fixture
def measure(tmp_path, monkeypatch):
    """Have the package contain a table of measurements."""
    monkeypatch.setattr(auto, "TABLE", tmp_path / "crossover.json")

    def write(fits):
        table = {"device": "a made-up device", "start": 1.0, "fits": fits}
        auto.TABLE.write_text(json.dumps(table), encoding="utf-8")

    return write


def never(*asked):
    raise AssertionError("a device was looked for")


def test_no_table_is_in_the_package_before_anything_is_measured():
    assert auto.read_crossover() is None
    name, reason = auto.decide(1e12, never)
    assert name == "cpu" and "not known yet" in reason


def test_work_pays_from_where_the_device_always_won(measure):
    """With its start: at 1e5 it won, at 1e6 it did not."""
    measure(FITS[::-1])
    assert auto.read_crossover() == auto.Crossover(1e7, "a made-up device")
    measure(FITS[:3])
    assert auto.read_crossover().work is None
    assert auto.decide(1e12, never)[1].endswith("won nowhere, measured on a made-up device")


def test_little_or_unknown_work_stays_on_the_cpu(measure):
    measure(FITS)
    name, reason = auto.decide(9_999_999, never)
    assert name == "cpu" and "9,999,999" in reason and "from 10,000,000" in reason
    assert auto.decide(None, never)[0] == "cpu" and "not known" in auto.decide(None, never)[1]


def test_much_work_goes_to_a_device_that_is_there(measure):
    measure(FITS)
    name, reason = auto.decide(1e7, lambda: None)
    assert name == "cuda" and "10,000,000 nonzeros" in reason
    name, reason = auto.decide(1e7, lambda: "no driver")
    assert name == "cpu" and reason.endswith("no driver")


def test_without_a_device_a_fit_says_why_it_took_the_cpu(measure, monkeypatch):
    def no_driver(precision, device):
        raise BackendUnavailableError("no driver was found")

    monkeypatch.setattr("sksurvgpu.backends._open_cuda", no_driver)
    data = simulate_cox(60, 5, density=0.3, random_state=0)
    measure([[10.0, 9.0, 1.0]])
    model = CoxLassoCCD(alpha=0.05).fit(data.X, data.y)
    assert model.backend_ == "cpu" and "no driver was found" in model.backend_reason_


@pytest.mark.parametrize(
    ("ask", "n_fits"),
    [
        (lambda model, X, y: fit_path(model, X, y, n_alphas=7), 7),
        (lambda model, X, y: fit_path(model, X, y, alphas=[0.2, 0.1]), 2),
        (lambda model, X, y: bootstrap(model, X, y, n_replicates=3, random_state=0), 3),
        (lambda model, X, y: CoxLassoCV(n_alphas=4, cv=3).fit(X, y), 12),
    ],
    ids=["path", "given path", "bootstrap", "cross-validation"],
)
def test_work_is_of_all_fits(measure, monkeypatch, ask, n_fits):
    asked = []
    monkeypatch.setattr(
        "sksurvgpu.estimators._preparing.explain", lambda *given: asked.append(given) or ("cpu", "")
    )
    data = simulate_cox(60, 5, density=0.1, random_state=0)
    X = np.column_stack([data.X.toarray(), np.linspace(0.0, 1.0, 60)])  # a dense column
    ask(CoxLassoCCD(alpha=0.05), X, data.y)
    entries = int(data.X.toarray().sum()) + 60
    assert asked[0][:2] == ("auto", n_fits * entries)


def test_what_a_user_names_is_taken(measure):
    measure(FITS)
    assert explain("cpu", 1e12) == ("cpu", 'asked for with backend="cpu"')


def test_a_model_without_a_part_on_devices_stays_on_the_cpu(measure, monkeypatch):
    pytest.importorskip("numba_cuda")
    measure([[10.0, 9.0, 1.0]])
    monkeypatch.setattr("sksurvgpu.backends._open_cuda", never)
    X, y = np.eye(40)[:, :4] + np.arange(40)[:, None] % 3, np.arange(40) % 2
    with pytest.raises(AssertionError, match="looked for"):
        LogisticCCD(alpha=1e-3).fit(X, y)
    monkeypatch.setattr(RowPattern, "on_device", vars(Pattern)["on_device"])
    model = LogisticCCD(alpha=1e-3).fit(X, y)
    assert model.backend_ == "cpu" and "alone" in model.backend_reason_
    assert fit_outcomes(LogisticCCD(alpha=1e-3), X, {"y": y}, columns=[0]).table.shape


def test_the_exact_algorithm_stays_on_the_cpu(measure, monkeypatch):
    """However much work there is: devices lack it for most models, and are no faster."""
    measure(FITS)
    monkeypatch.setattr("sksurvgpu.backends._open_cuda", never)
    name, reason = explain("auto", 1e12, 0, "exact")
    assert name == "cpu" and 'for algorithm="exact"' in reason
