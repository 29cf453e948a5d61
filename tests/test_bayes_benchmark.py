"""The benchmark of the Bayesian samplers at tiny sizes, and the judge of how chains mix."""

import importlib
import json

import numpy as np
import pytest

from benchmarks import bayes, mixing, samplers
from sksurvgpu.bayes.diagnostics import diagnose


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
    samplers = {found["sampler"] for found in content["lasso"]}
    assert samplers == set(bayes.LASSO_SAMPLERS)
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
