"""The papers' tables and figures at tiny sizes: rows of ours, published figures, files."""

import json

import pytest

from benchmarks.papers import __main__ as papers
from benchmarks.papers.rig import ITEMS, PUBLISHED, SOURCES, Problem, judged, logistic

pytest.importorskip("matplotlib")

FAST = ("fusion", "polya_gamma", "lasso", "certificates", "drugs", "multinomial")
ALL = [name if name in FAST else pytest.param(name, marks=pytest.mark.slow) for name in ITEMS]
RESIDUAL = 1e-4  # of every fit of ours, over the largest penalty of use


def run(name, folder, *options):
    return papers.main_papers(
        [name, "--tiny", "--threads", "1", "--output", str(folder), "--rscript", "none", *options]
    )


def rows_of(record):
    return [row for table in record["tables"] for row in table["rows"]]


@pytest.mark.parametrize("name", ALL)
def test_item_prints_ours_beside_what_was_published_and_draws(name, tmp_path, capsys):
    assert run(name, tmp_path) == 0
    printed = capsys.readouterr().out
    record = json.loads((tmp_path / f"{name}.json").read_text())
    assert record["item"] == name and record["scale"] == "tiny" and record["seconds"] > 0
    assert {"date", "revision", "cpu", "versions"} <= set(record["machine"])
    assert isinstance(record["idle"], bool)
    assert rows_of(record) and all(table["columns"] for table in record["tables"])
    for figure in record["figures"]:
        assert (tmp_path / figure).stat().st_size > 5_000
    assert record["figures"]
    for figure, kept in zip(PUBLISHED.get(name, []), record["published"], strict=True):
        assert kept["value"] == figure.value and kept["hardware"] == figure.hardware
        assert kept["source"] in SOURCES.values()
        assert figure.value in printed and figure.hardware in printed
    residuals = [row["kkt"] for row in rows_of(record) if row.get("kkt") is not None]
    assert all(residual <= RESIDUAL for residual in residuals)


def test_every_item_is_published_or_ours_and_listed(capsys):
    assert set(PUBLISHED) == {name for name, item in ITEMS.items() if item.paper != "ours"}
    assert all(item.paper in (*SOURCES, "ours") for item in ITEMS.values())
    assert papers.main_papers(["--list"]) == 0
    printed = capsys.readouterr().out
    assert all(name in printed for name in ITEMS)


def test_unknown_item_is_refused(capsys):
    with pytest.raises(SystemExit):
        papers.main_papers(["no-such-item"])
    assert "no item 'no-such-item'" in capsys.readouterr().err


@pytest.mark.slow
def test_item_says_so_without_r_and_goes_on(tmp_path, capsys):
    assert run("logistic", tmp_path) == 0
    assert "Cyclops: no interpreter none; goes on without it" in capsys.readouterr().out


def test_item_that_fails_is_counted_and_the_next_one_runs(tmp_path, monkeypatch, capsys):
    def fail(run):
        raise ArithmeticError("no such number")

    broken = papers.ITEMS["drugs"].__class__("drugs", "B", "broken", fail)
    monkeypatch.setitem(papers.ITEMS, "drugs", broken)
    arguments = ["--tiny", "--output", str(tmp_path), "--rscript", "none"]
    assert papers.main_papers(["drugs", "fusion", *arguments]) == 1
    printed = capsys.readouterr()
    assert "failed: drugs" in printed.out and "no such number" in printed.err
    assert json.loads((tmp_path / "drugs.json").read_text())["notes"]
    assert (tmp_path / "fusion.png").exists()


def test_judge_sees_a_wrong_answer():
    problem = logistic(200, 10)
    assert isinstance(problem, Problem)
    fitted = problem.estimator(backend="cpu").fit(problem.X, problem.y)
    right = judged(problem, fitted.coef_, float(fitted.intercept_))
    wrong = judged(problem, fitted.coef_ + 0.1, float(fitted.intercept_))
    assert right["kkt"] < RESIDUAL < wrong["kkt"]
