"""The benchmarks: their judges, their commands at small sizes, and what they make of results."""

import importlib
import json
import re
import sys

import numpy as np
import pandas as pd
import pytest
from oracles.reference_competing import finegray_direct
from oracles.reference_conditional import clogit_exact, multinomial_direct
from oracles.reference_glm import glm_direct
from oracles.reference_likelihoods import cox_direct, kkt

from benchmarks import (
    __main__,
    bayes,
    cases,
    compare,
    genotypes,
    judge,
    kinds,
    mixing,
    problems,
    report,
    samplers,
    studies,
)
from benchmarks import run as solvers
from benchmarks.papers import __main__ as papers
from benchmarks.papers import grouped, page, records
from benchmarks.papers.rig import ITEMS, PUBLISHED, SOURCES, judged, logistic
from sksurvgpu.bayes.diagnostics import diagnose
from sksurvgpu.datasets import simulate_cox

N, P = 60, 5
QUICK = (kinds.QUICK_ROWS, kinds.QUICK_COLUMNS)
EVERY = kinds.DESIGNS | kinds.SHORT_DESIGNS


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
    import ours  # noqa: F401
    import peer_problem
    import solvers as peers  # noqa: F401
    import survival_solvers  # noqa: F401

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


def test_path_of_genotypes_is_judged_from_the_file(tmp_path):
    genotypes.draw(tmp_path, 203, 240)
    assert genotypes.ours(tmp_path)["cpu_seconds"] > 0
    found = genotypes._judge(tmp_path, "ours")
    assert found["kkt"] < 1e-4 and found["difference"] == 0 and found["nonzero"] > 0
    known = dict(np.load(tmp_path / "ours.npz"))
    known["coefs"][-1, np.argmax(np.abs(known["coefs"][-1]))] *= 1.01
    np.savez(tmp_path / "ours.npz", **known)
    assert genotypes._judge(tmp_path, "ours")["kkt"] > 1e-3


@pytest.mark.filterwarnings("ignore:numpy.core:DeprecationWarning")  # the pickles of SurvSet
@pytest.mark.parametrize("name", EVERY)
def test_designs_can_be_drawn_small(name):
    if name.startswith("genes"):
        pytest.importorskip("SurvSet")
    rows, columns = EVERY[name].task(quick=True).shape
    assert rows <= QUICK[0] and columns <= QUICK[1] + 20


def test_a_fit_is_what_the_judge_says():
    data = problems.Data.of(simulate_cox(*QUICK, random_state=cases.SEED))
    model = kinds.DESIGNS["papers-1e5-1000"].task(quick=True).call()
    found = compare.facts_of(model)
    expected = judge.Certificate(data).judge(model.coef_, cases.PAPERS_PENALTY)
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


@pytest.mark.weekly
@pytest.mark.thorough
def test_trees_are_measured_in_turns_and_compared(tmp_path, capsys, monkeypatch):
    """In a process each; what fails there has a line that says why."""
    file, asked, measure = tmp_path / "a.json", [], compare.measure_in

    def watched(tree, *given):
        asked.append(tree.name)
        return measure(tree, *given)

    monkeypatch.setattr(compare, "measure_in", watched)
    wrong = tmp_path / "wrong"
    (wrong / "sksurvgpu").mkdir(parents=True)
    (wrong / "sksurvgpu" / "__init__.py").write_text("raise ValueError('broken')")
    command = ["--quick", "--designs", "linear", "--json", str(file), "--base", str(wrong)]
    assert compare.main_designs(command) == 0
    assert asked == ["wrong", compare.ROOT.name]
    [base], [found] = (
        json.loads((tmp_path / f"{name}.json").read_text())["results"] for name in ("a-base", "a")
    )
    assert found["design"] == "linear" and found["cpu"] > 0
    assert base["cpu"] is None and base["note"] == "ValueError: broken"
    assert "mean of 0 ratios" in capsys.readouterr().out
    assert compare.main_designs(["--against", str(file), str(file)]) == 0
    assert "geometric mean of 1 ratios of CPU times, B over A: 1" in capsys.readouterr().out


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


def in_this_process(module, function, arguments, **limits):
    return getattr(importlib.import_module(module), function)(**json.loads(json.dumps(arguments)))


@pytest.fixture
def content(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(bayes, "call", in_this_process)
    monkeypatch.setattr(samplers, "import_polyagamma", lambda: None)
    output = tmp_path / "bayes.json"
    options = ["--seconds", "0.01", "--rscript", "no-such-program", "--output", str(output)]
    bayes.main_bayes(["--quick", *options])
    return json.loads(output.read_text()), capsys.readouterr().out


def test_quick_run_measures_all_and_says_what_is_missing(content):
    content, printed = content
    missing = [
        found for part in bayes.PARTS for found in content[part] if found.get("reason") is not None
    ]
    assert {found["sampler"] for found in missing} == {"polyagamma", "monomvn"}
    assert printed.count("polyagamma is not importable") == 2
    assert printed.count("no interpreter no-such-program") == len(bayes.QUICK.columns)
    assert {found["sampler"] for found in content["lasso"]} == set(bayes.LASSO_SAMPLERS)
    measured = [found for part in ("lasso", "multinomial") for found in content[part]]
    measured = [found for found in measured if "reason" not in found]
    assert all(found["ms"] > 0 and found["floor_ms"] > 0 for found in measured)
    assert all(found["efficiency"] > 0 for found in content["chains"])


def test_targets_are_judged():
    content = {
        "draws": [{"sampler": "sksurvgpu", "z ~ N(0, 4)": 5.0}],
        "lasso": [{"sampler": "collapsed", "p": 2_000, "ms": 15.0}],
        "chains": [
            {"efficiency": 0.9, "load": 2.1},
            {"efficiency": 0.7, "load": 2.0},
            {"efficiency": 0.4, "load": 9.0},
        ],
    }
    judged = {found["name"]: (found["figure"], found["met"]) for found in bayes.judge(content)}
    names = {part: name for part, (name, _) in bayes.TARGETS.items()}
    assert judged == {
        names["draws"]: (5.0, False),
        names["lasso"]: (15.0, True),
        names["chains"]: (0.7, False),
    }


@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.9])
def test_mixing_agrees_with_the_package_and_with_theory(correlation):
    rng = np.random.default_rng(8)
    draws = rng.standard_normal((4, 4_000))
    for t in range(1, draws.shape[1]):
        draws[:, t] *= np.sqrt(1.0 - correlation**2)
        draws[:, t] += correlation * draws[:, t - 1]
    found = mixing.ess(draws)
    # The standard error of the ESS is 2 % to 8 % here: five of them.
    expected = draws.size * (1.0 - correlation) / (1.0 + correlation)
    assert abs(found / expected - 1.0) < (0.1 if correlation < 0.9 else 0.4)
    unlike = draws * [[1.0], [1.0], [1.0], [2.0]]  # in spread, not in place
    assert mixing.r_hat(unlike) > 1.02
    for sample in (draws, unlike):
        ours = diagnose(sample)
        np.testing.assert_allclose(mixing.ess(sample), ours.ess_bulk, rtol=1e-10)
        np.testing.assert_allclose(mixing.r_hat(sample), ours.r_hat, rtol=1e-10)


FAST = ("fusion", "polya_gamma", "lasso", "certificates", "drugs", "multinomial")
ALL = [name if name in FAST else pytest.param(name, marks=pytest.mark.slow) for name in ITEMS]
RESIDUAL = 1e-4  # of every fit of ours, over the largest penalty of use


def run_item(name, folder, *options):
    return papers.main_papers(
        [name, "--tiny", "--threads", "1", "--output", str(folder), "--rscript", "none", *options]
    )


def rows_of(record):
    return [row for table in record["tables"] for row in table["rows"]]


@pytest.mark.thorough
@pytest.mark.parametrize("name", ALL)
def test_item_prints_ours_beside_what_was_published_and_draws(name, tmp_path, capsys):
    assert run_item(name, tmp_path) == 0
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


def test_page_of_published_experiments_is_what_the_results_say():
    assert page.PAGE.read_text(encoding="utf-8") == page.page(), (
        "python -m benchmarks.papers --page"
    )


@pytest.mark.parametrize("cases", [8.3, 13.3])
def test_matched_sets_have_as_many_cases_as_published(cases):
    data = grouped.draw_sets(200, 20, cases)
    assert data.y["case"].sum() / 200 == pytest.approx(cases, abs=0.5)


def test_records_have_the_published_share_of_ones_and_a_confounded_treatment():
    X, treated, y, _ = records.draw_records(4_000, 60)
    assert X[:, 1:].nnz / 240_000 == pytest.approx(records.ONES, rel=0.05)
    assert X.dtype == bool and (X[:, [0]].toarray().ravel() == treated).all()
    before = records.cohort.balance(X[:, 1:], treated).table["std_diff_before"]
    assert before.abs().max() > 0.2 and 0.3 < treated.mean() < 0.5 and y["event"].mean() < 0.2


def test_item_that_fails_is_counted_and_the_next_one_runs(tmp_path, monkeypatch, capsys):
    def fail(run):
        raise ArithmeticError("no such number")

    broken = papers.ITEMS["drugs"].__class__("drugs", "B", "broken", fail)
    monkeypatch.setitem(papers.ITEMS, "drugs", broken)
    arguments = ["--tiny", "--output", str(tmp_path), "--rscript", "none"]
    assert papers.main_papers(["drugs", "fusion", *arguments]) == 1
    printed = capsys.readouterr()
    assert "failed: drugs" in printed.out and "no such number" in printed.err
    record = json.loads((tmp_path / "drugs.json").read_text())
    assert record["notes"] and not record["whole"]
    assert json.loads((tmp_path / "fusion.json").read_text())["whole"]
    assert (tmp_path / "fusion.png").exists()


def test_judge_sees_a_wrong_answer():
    problem = logistic(200, 10)
    fitted = problem.estimator(backend="cpu").fit(problem.X, problem.y)
    right = judged(problem, fitted.coef_, float(fitted.intercept_))
    wrong = judged(problem, fitted.coef_ + 0.1, float(fitted.intercept_))
    assert right["kkt"] < RESIDUAL < wrong["kkt"]


def test_intervals_of_studies_are_counted_and_controls_calibrated_by_the_others():
    """All controls but one are off by 0.5, as the effect of interest is."""
    names = ["stroke", *(f"control {k}" for k in range(6))]
    coef = np.array([1.5, 0.5, 0.5, 0.5, 0.5, 0.5, 2.0])
    ends = {"ratio_lower": np.exp(coef - 0.2), "ratio_upper": np.exp(coef + 0.2)}
    after = {"lower": 0.8, "upper": 1.2, "p_value": 0.001}
    table = pd.DataFrame({"coef": coef, "standard_error": 0.1, "p_value": 0.001, **ends}, names)
    table = table.assign(kind=["interest", *["negative"] * 6])
    table = table.assign(**{f"calibrated_{key}": value for key, value in after.items()})
    held = studies._judge(pd.Series([1.0, *[0.0] * 6], names), table)
    assert held["of interest"]["covered"].tolist() == [False]
    assert held["of interest"]["calibrated_covered"].tolist() == [True]
    controls = held["controls"]
    assert not controls["covered"].any() and controls["below"].all()
    assert controls["calibrated_covered"].tolist() == [True] * 5 + [False]
    assert controls["width"].round(9).eq(0.4).all()
    share = studies._share("hidden", "controls", [controls, controls.assign(covered=True)])
    assert (share["covered"], share["standard_errors"]["covered"]) == (0.5, 0.5)
    assert (share["databases"], share["n"]) == (2, 12)
