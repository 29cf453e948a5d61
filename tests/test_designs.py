"""The table of all kinds of designs: what it says of a fit, of a process, and of two results."""

import json

import numpy as np
import pytest

from benchmarks import compare, judge, kinds, problems, processes
from benchmarks.cases import PAPERS_PENALTY, SEED
from sksurvgpu.datasets import simulate_cox

QUICK = (kinds.QUICK_ROWS, kinds.QUICK_COLUMNS)


@pytest.mark.filterwarnings("ignore:numpy.core:DeprecationWarning")  # the pickles of SurvSet
@pytest.mark.parametrize("name", kinds.DESIGNS)
def test_designs_can_be_drawn_small(name):
    if name.startswith("genes"):
        pytest.importorskip("SurvSet")
    rows, columns = kinds.DESIGNS[name].task(quick=True).shape
    assert rows <= QUICK[0] and columns <= QUICK[1] + 20


def test_a_fit_is_what_the_judge_says():
    data = problems.Data.of(simulate_cox(*QUICK, random_state=SEED))
    model = kinds.DESIGNS["papers-1e5-1000"].task(quick=True).call()
    found = compare.facts_of(model)
    expected = judge.Certificate(data).judge(model.coef_, PAPERS_PENALTY)
    assert found["objectives"] == [pytest.approx(expected["objective"] / QUICK[0], rel=1e-12)]
    assert found["nonzeros"] == expected["nonzeros"] > 0
    assert 0 < found["kkt"] <= model.kkt_se_bound_
    assert found["iterations"] == model.n_iter_ and found["note"] == ""


@pytest.mark.parametrize(
    ("name", "n_objectives", "n_others"),
    [("wide-path", 50, 0), ("folds", 1, 20), ("bootstrap", 0, 50), ("profiles", 0, 15)],
)
def test_batches_tell_their_objectives_or_other_numbers(name, n_objectives, n_others):
    found = compare.facts_of(kinds.DESIGNS[name].task(quick=True).call())
    assert (len(found["objectives"]), len(found["others"])) == (n_objectives, n_others)
    assert np.isfinite([*found["objectives"], *found["others"]]).all()


def test_a_process_measures_a_tree(tmp_path, capsys):
    file = tmp_path / "found.json"
    command = ["--quick", "--designs", "linear", "--json", str(file)]
    assert compare.main_designs(command) == 0
    [found] = json.loads(file.read_text())["results"]
    assert found["design"] == "linear" and found["cpu"] > 0
    assert compare.main_designs(["--against", str(file), str(file)]) == 0
    printed = capsys.readouterr().out
    assert "linear" in printed and "geometric mean of 1 ratios of CPU times, B over A: 1" in printed


def test_a_base_is_measured_in_turns_and_kept_beside(tmp_path, monkeypatch, capsys):
    asked = []

    def in_tree(tree, function, given, *others):
        asked.append((tree.name, given["name"]))
        facts = {"iterations": 1, "kkt": 0.0, "objectives": [1.0], "others": [], "note": ""}
        return [{"design": given["name"], "rows": 1, "columns": 1, "cpu": len(asked), **facts}]

    monkeypatch.setattr(compare, "measure_in", in_tree)
    trees = ["--base", str(tmp_path / "old"), "--tree", str(tmp_path / "new")]
    command = ["--designs", "linear", "logistic", "--json", str(tmp_path / "a.json")]
    assert compare.main_designs([*command, *trees]) == 0
    assert asked == [(t, d) for d in ("linear", "logistic") for t in ("old", "new")]
    kept = [json.loads((tmp_path / f"{name}.json").read_text()) for name in ("a-base", "a")]
    assert [[row["cpu"] for row in file["results"]] for file in kept] == [[1, 3], [2, 4]]
    assert "B over A: 1.633" in capsys.readouterr().out  # the root of 2/1 * 4/3


def test_what_fails_has_a_line_that_says_why(tmp_path, monkeypatch):
    wrong = (1, "Traceback\nValueError: too wide")
    monkeypatch.setattr(processes, "run", lambda *given: wrong)
    assert compare.main_designs(["--designs", "wide", "--json", str(tmp_path / "a.json")]) == 0
    [found] = json.loads((tmp_path / "a.json").read_text())["results"]
    assert found["cpu"] is None and found["note"] == "ValueError: too wide"
    assert "mean of 0 ratios" in compare.beside([found], [found])


def test_comparison_marks_who_is_lower():
    def found(name, cpu, iterations, objectives, note="", rows=100):
        facts = {"design": name, "rows": rows, "columns": 5, "cpu": cpu, "kkt": 1e-6}
        facts["iterations"] = iterations
        return {**facts, "objectives": objectives, "others": [], "note": note}

    first = [
        found("same", 1.0, 10, [2.0]),
        found("path", 1.0, 10, [2.0, 4.0]),
        found("gone", 1.0, 10, [2.0]),
        found("quick", 1.0, 10, [2.0]),
    ]
    second = [
        found("same", 4.0, 5, [2.0 + 1e-9]),
        found("path", 1.0, 20, [2.0 + 1e-8, 4.0 - 4e-8], "1 not converged"),
        found("quick", 2.0, 10, [2.0], rows=10),
    ]
    rows = {line.split()[0]: line for line in compare.beside(first, second).splitlines() if line}
    assert "4.00" in rows["same"] and "0.50" in rows["same"] and "LOWER" not in rows["same"]
    assert rows["quick"].endswith("OTHER SIZE")
    assert rows["path"].endswith("B: 1 not converged; B IS LOWER") and "-1.0e-08" in rows["path"]
    assert rows["geometric"].endswith("2.000; in one file only: gone")
