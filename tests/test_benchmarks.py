"""The benchmarks' judge against the oracles, their commands, and what they make of results."""

import json
import re
import sys

import numpy as np
import pytest
from oracles.reference_competing import finegray_direct
from oracles.reference_conditional import clogit_exact, multinomial_direct
from oracles.reference_glm import glm_direct
from oracles.reference_likelihoods import cox_direct, kkt

from benchmarks import __main__, cases, compare, judge, kinds, problems, report
from benchmarks import run as solvers

N, P = 60, 5


def oracle(data, eta):
    """By the definition of the model."""
    y, group, exposure = data["y"], data["group"], data["exposure"]
    if data.model == "cox":
        return cox_direct(eta, data["time"], data["event"], strata=data["stratum"])
    if data.model == "fine-gray":
        return finegray_direct(eta, data["time"], data["event"])
    if data.model == "matched" and data.ties == "exact":
        return clogit_exact(eta, y, group)
    if data.model in ("matched", "case-series"):
        return multinomial_direct(eta, y, group, exposure)
    offset = 0.0 if exposure is None else np.log(exposure)
    family = "gaussian" if data.model == "linear" else data.model
    return glm_direct(eta + offset, y, family)


def tied_cox():
    rng = np.random.default_rng(5)
    data = problems.draw_cox_dense(N, P, random_state=0)
    outcome = {"time": np.ceil(4.0 * data["time"]), "event": data["event"]}
    outcome["stratum"] = rng.integers(0, 3, N)
    return problems.Data(data.shape, data.indptr, data.indices, data.values, outcome)


DRAWS = {
    "cox": tied_cox,
    "fine-gray": lambda: problems.draw_fine_gray(N, P, density=0.4, random_state=0),
    "logistic": lambda: problems.draw_logistic(N, P, density=0.4, random_state=0),
    "poisson": lambda: problems.draw_poisson(N, P, density=0.4, exposure=True, random_state=0),
    "linear": lambda: problems.draw_linear(N, P, density=0.4, random_state=0),
    "matched": lambda: problems.draw_matched(N, P, density=0.4, n_cases=2, random_state=0),
    "matched, Breslow": lambda: problems.draw_matched(
        N, P, density=0.4, n_cases=2, ties="breslow", random_state=0
    ),
    "case-series": lambda: problems.draw_case_series(N, P, density=0.2, random_state=0),
}


@pytest.mark.parametrize("name", DRAWS)
def test_judge_agrees_with_the_definitions(name):
    data = DRAWS[name]()
    certificate, rng = judge.Certificate(data), np.random.default_rng(3)
    X = data.table().toarray()
    values, offset = [], 0.3 if data.intercept else 0.0
    for coef in (np.zeros(P), 0.5 * rng.normal(size=P), np.array([1.0, 0, 0, -2.0, 0])):
        expected = oracle(data, X @ coef + offset)
        found = certificate.judge(coef, 0.7, offset)
        gaps = kkt(X, expected.u, coef, 0.7)
        worst = max(gaps.max(), abs(expected.u.sum()) if data.intercept else 0.0)
        assert found["kkt"] * certificate.penalty_max == pytest.approx(worst, rel=1e-9, abs=1e-11)
        # Constants of the data may differ.
        values.append(found["objective"] - 0.7 * np.abs(coef).sum() + expected.loglik)
    np.testing.assert_allclose(values, values[0], rtol=0, atol=1e-9)


def test_judge_of_a_path_takes_the_best_intercepts():
    data = DRAWS["logistic"]()
    certificate = judge.Certificate(data)
    penalties, coefs = [certificate.penalty_max, 0.5], [np.zeros(P), np.full(P, 0.1)]
    found = certificate.judge_path(coefs, penalties)
    assert certificate.judge_path(coefs[:1], penalties[:1])["kkt"] <= 1e-12
    assert found["kkt"] > 0.0 and found["nonzeros"] == P


def test_files_of_a_problem_are_read_by_drivers(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(solvers.PEERS))
    import peer_problem

    data = DRAWS["case-series"]()
    problems.write_problem(tmp_path, data, 1.0, 4.0, 1e-4, path=[4.0, 2.0, 1.0])
    found = peer_problem.read_problem(tmp_path)
    assert (found.matrix != data.table()).nnz == 0 and found.model == "case-series"
    np.testing.assert_array_equal(found.penalties, [4.0, 2.0, 1.0])
    np.testing.assert_array_equal(found["exposure"], data["exposure"])
    packed = peer_problem._packed([[0.0, 2.0], [1.0, 0.0]])
    assert packed == {"indptr": [0, 1, 2], "indices": [1, 0], "data": [2.0, 1.0]}


@pytest.mark.parametrize("name", [*cases.CASES, *cases.WIDE])
def test_cases_can_be_drawn_small(name):
    case = {**cases.CASES, **cases.WIDE}[name].shrunk()
    if "n_samples" not in case.arguments:
        return  # real data
    small = {"n_samples": 40, "n_features": 6, **({"n_strata": 3} if "strata" in name else {})}
    drawn = type(case)(**{**vars(case), "arguments": {**case.arguments, **small}}).draw()
    assert drawn.shape[1] == 6 and drawn.model == case.model
    path = case.path(2.0)
    assert len(path) == case.steps
    assert not case.steps or path[-1] == pytest.approx(case.penalty(2.0))


def test_drivers_and_modules_are_there(capsys, monkeypatch):
    monkeypatch.syspath_prepend(str(solvers.PEERS))
    import peer_problem
    import solvers as peers  # noqa: F401

    for solver in solvers.all_solvers(2):
        name = solver.driver.split()[0]
        assert name in peer_problem.PEERS or (solvers.PEERS / name).suffix == ".R"
        assert name in peer_problem.PEERS or (solvers.PEERS / name).exists()
        assert solver.interpreter in ("python", "R", *solvers.ENVIRONMENTS)
    assert __main__.main(["--list"]) == 0
    printed = capsys.readouterr().out
    assert all(f"\n{name} " in printed for name in ("run", "wide", "compare", "report"))
    assert __main__.main(["nonsense"]) == 2
    readme = (report.RESULTS.parent / "README.rst").read_text()
    for name, (_, says) in __main__.COMMANDS.items():
        assert re.search(rf"^``{name}`` +{re.escape(says)}$", readme, re.MULTILINE)


def test_peers_have_their_interpreters(tmp_path):
    find = solvers.interpreters_of(tmp_path, "some-R")
    assert find("R") == "some-R" and find("skglm") == find("python") == sys.executable
    python = tmp_path / "skglm" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.touch()
    assert find("skglm") == str(python)


@pytest.mark.parametrize(
    ("base", "head", "note"),
    [
        ([1.0, 1.0, 1.0], [1.2, 1.3, 1.15], "SLOWER"),
        ([1.0, 1.5, 1.5], [1.2, 1.3, 1.3], "slower? pairs disagree"),
        ([1.0, 1.0, 1.0], [1.05, 1.9, 1.8], ""),
        ([2.0, 2.0], [1.0, 1.5], "faster"),
        ([1.0, 1.0, 1.0], [0.5, 1.6, 1.5], "faster? pairs disagree"),
    ],
)
def test_comparison_goes_by_the_least_times(base, head, note):
    assert compare.judge(base, head, 0.1)["note"] == note


def test_comparison_keeps_a_history(tmp_path, monkeypatch, capsys):
    """Times are made up; the commits are checked out, and the folders are gone afterwards."""
    orders = []

    def measure(tree, function, given, kernels):
        orders.append(kernels.rpartition("-")[2])
        return [{"cpu": {"base": 1.0, "head": 1.5}[orders[-1]]}]

    monkeypatch.setattr(compare, "measure_in", measure)
    monkeypatch.setattr(compare, "_git", lambda *given: "abc")
    history = tmp_path / "history.json"
    given = ["HEAD", "--pairs", "2", "--cases", "Cox", "--history", str(history)]
    assert compare.main_compare(given) == compare.main_compare(given) == 1
    assert orders[:6] == ["base", "head", "base", "head", "head", "base"]
    first, second = json.loads(history.read_text())
    assert first["cases"] == second["cases"] and first["base"] == "abc" and first["head"] == "-"
    assert "SLOWER" in capsys.readouterr().out


def test_comparison_says_what_does_not_run(monkeypatch, capsys):
    def fail(*given, **limits):
        raise RuntimeError("Traceback\nImportError: no such model")

    monkeypatch.setattr(compare, "call", fail)
    assert compare.main_compare([".", "--cases", "Cox"]) == 0
    assert "not compared: ImportError: no such model" in capsys.readouterr().out


@pytest.mark.parametrize("name", kinds.SHORT_DESIGNS)
def test_cases_of_the_comparison_can_be_drawn(name):
    assert min(kinds.SHORT_DESIGNS[name].task(quick=True).shape) > 0


@pytest.mark.parametrize("html", [True, False])
def test_all_results_are_shown(html, tmp_path):
    output = tmp_path / "report"
    report.main_report(["--output", str(output), *(["--html"] if html else [])])
    text = output.read_text()
    for path in report.RESULTS.glob("*.json"):
        assert (f"<h2>{path.stem}</h2>" if html else f"## {path.stem}\n") in text
    assert "majorized" in text


def test_nested_results_become_tables():
    content = {
        "machine": {"date": "today", "versions": {"python": "3"}},
        "note": "quiet",
        "cases": [{"case": "a", "answers": [{"solver": "x", "seconds": 1.5, "tried": [{}]}]}],
        "coef": [1.0, 2.0],
        "fits": {"one": {"s": 1, "many": list(range(9))}},
    }
    kinds = list(report.show(content))
    assert ("text", "note quiet") in kinds and ("text", "case a") in kinds
    tables = [given for kind, *given in kinds if kind == "table"]
    assert [["solver", "seconds"], [["x", "1.5"]]] in tables
    assert [["fits", "s"], [["one", "1"]]] in tables
