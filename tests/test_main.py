"""``python -m sksurvgpu`` on a small cohort."""

import re
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import urlparse
from urllib.request import url2pathname

import numpy as np
import pandas as pd
import pytest

from sksurvgpu import CoxLassoCCD, CoxLassoCV, _compile, _report, _warm_up, fit_path
from sksurvgpu import __main__ as tour
from sksurvgpu.__main__ import main
from sksurvgpu.datasets import simulate_cox
from sksurvgpu.exceptions import BackendUnavailableError


class Page(HTMLParser):
    """Headings, cells and names of figures; fails at what is left open or comes from elsewhere."""

    def __init__(self):
        super().__init__()
        self.open, self.found = [], {"h2": [], "td": [], "th": [], "svg": []}

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        assert tag not in ("script", "link", "img") and not attrs.get("src")
        if tag not in ("meta", "use", "path", "rect"):
            self.open.append(tag)
        if tag == "svg":
            self.found[tag].append(attrs["aria-label"])

    def handle_startendtag(self, tag, attrs):
        pass

    def handle_endtag(self, tag):
        if tag in self.open:
            assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] in ("h2", "td", "th"):
            self.found[self.open[-1]].append(data)


def read(path):
    page = Page()
    page.feed(path.read_text(encoding="utf-8"))
    page.close()
    assert not page.open
    return page.found


def test_tour(capsys, tmp_path):
    report = tmp_path / "tour.html"
    main(["--samples", "400", "--features", "20", "--threads", "1", "--report", str(report)])
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
    assert re.search(r"^compile: (\d+ kernels?, .* kept in|nothing, all was in) ", printed, re.M)
    found = read(report)
    assert found["h2"] == [
        "Times",
        "Choosing the penalty",
        "The path",
        "Hazard ratios",
        "Beside scikit-survival",
        "Where to go from here",
    ]
    if find_spec("matplotlib"):
        assert [label.split()[0] for label in found["svg"]] == ["cross-validated", "coefficients"]
    assert ours in found["td"] and theirs in found["td"] and "path of 50 penalties" in found["th"]


def test_tour_without_the_comparison_and_a_page(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    size = ["--samples", "300", "--features", "10", "--threads", "1"]
    main([*size, "--no-compare", "--no-report"])
    printed = capsys.readouterr().out
    assert "Coxnet" not in printed and "report" not in printed and not list(tmp_path.iterdir())


def test_kernels_that_are_compiled_are_named(capsys, monkeypatch):
    """Kernels that are compiled while the tour prepares are told, and nothing listens after it."""

    def compile_one(*arguments, **options):
        _compile._notice.begin()
        _compile._notice.end("folder", "_some_kernel")

    monkeypatch.setattr(tour, "fit_path", compile_one)
    times = []
    tour._compile_for(None, simulate_cox(10, 2, random_state=0), times)
    printed = capsys.readouterr().out
    assert "compile: 2 kernels, " in printed and [what for what, *_ in times] == ["compile"]
    assert not _compile.listeners


def test_a_page_escapes_and_says_what_is_missing(tmp_path, monkeypatch):
    monkeypatch.setattr(_report, "find_spec", lambda name: None)
    monkeypatch.setattr(_report, "metadata", Urls)
    table = pd.DataFrame({"<b>": [1]}, index=["a & b"])
    sections = [("<One>", "text", table), ("Two", "drawn", _report.Figure(None, "label"))]
    path = _report.write_report(tmp_path / "a.html", "<title>", {"x": "<y>"}, sections)
    html = path.read_text(encoding="utf-8")
    assert "<b>" not in html and "<y>" not in html and "<One>" not in html
    assert "needs matplotlib" in html and 'href="https://a.b/c/quickstart.html"' in html
    assert "<One>" in read(path)["h2"] and "a & b" in read(path)["th"]


class Urls:
    """Metadata of an installed package."""

    def __init__(self, name):
        assert name == "sksurvgpu"

    def get_all(self, field):
        return ["Source, https://d.e", "Documentation, https://a.b/c/"]


def test_every_page_that_is_named_is_linked_and_there(tmp_path, monkeypatch):
    monkeypatch.setattr(_report, "metadata", NoUrls)
    html = _report.write_report(tmp_path / "a.html", "title", {}, []).read_text(encoding="utf-8")
    places = re.findall(r'href="([^"]*)"', html)
    assert len(places) == len(_report.NEXT)
    assert all(Path(url2pathname(urlparse(place).path)).is_file() for place in places)


def test_a_page_without_documentation_names_none(tmp_path, monkeypatch):
    monkeypatch.setattr(_report, "metadata", NoUrls)
    monkeypatch.setattr(_report, "DOCS", tmp_path / "docs")
    html = _report.write_report(tmp_path / "a.html", "title", {}, []).read_text(encoding="utf-8")
    assert "Where to go" not in html and "quickstart" not in html


class NoUrls(Urls):
    def get_all(self, field):
        return None


def test_compiling_for_a_device_that_is_not_there_says_so(monkeypatch):
    def choose(backend, device):
        raise BackendUnavailableError(f"no {backend} device {device}")

    monkeypatch.setattr(_warm_up, "choose", choose)
    with pytest.raises(SystemExit, match=r"^no cuda device 1$"):
        main(["--compile", "--backend", "cuda", "--device", "1"])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["--report", "/nowhere/page.html"],
            "--report: there is no folder for",
        ),
        (["--samples", "0"], "--samples: '0' is no whole number of at least 100"),
        (["--threads", "many"], "--threads: 'many' is no whole number of at least 1"),
        (["--seed", "-1"], "--seed: '-1' is no whole number of at least 0"),
    ],
)
def test_options_are_checked_before_the_work(arguments, said, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(arguments)
    assert said in capsys.readouterr().err


def test_ratios_are_the_largest_beside_the_truth():
    coef = np.r_[np.zeros(20), -1.0, 2.0]
    fitted = SimpleNamespace(
        coef_=1.5 * coef, summary=lambda: pd.DataFrame({"hazard_ratio": np.exp(1.5 * coef)})
    )
    table = tour._ratios(fitted, coef)
    assert len(table) == tour.N_SHOWN and table.index[:2].tolist() == [21, 20]
    np.testing.assert_allclose(np.log(table["hazard ratio"])[:2], [3.0, -1.5])
    np.testing.assert_allclose(np.log(table["true"])[:2], [2.0, -1.0])


@pytest.mark.thorough
def test_figures_of_the_tour_are_those_of_the_fits():
    pyplot = pytest.importorskip("matplotlib.pyplot")
    data = simulate_cox(200, 5, density=0.4, random_state=0)
    chosen = CoxLassoCV(cv=3).fit(data.X, data.y)
    path = fit_path(CoxLassoCCD(), data.X, data.y, n_alphas=5)
    _, axes = pyplot.subplots(2)
    tour._figure_of_folds(chosen).draw(axes[0])
    tour._figure_of_path(path, chosen).draw(axes[1])
    scores = chosen.cv_results_["mean_score"]
    assert axes[0].lines[0].get_ydata().max() == scores.max()
    assert axes[1].lines[-1].get_xdata() == [chosen.alpha_] * 2


def test_seconds_are_those_that_passed(monkeypatch):
    clock = iter([1.0, 3.5])
    monkeypatch.setattr(tour.time, "perf_counter", lambda: next(clock))
    times = []
    assert tour._timed("work", lambda: "done", times) == "done"
    [(what, seconds, cpu)] = times
    assert (what, seconds) == ("work", 2.5) and cpu >= 0.0
