"""The examples of the gallery run, draw what they say, and warn of nothing."""

import runpy
from pathlib import Path

import pytest

plt = pytest.importorskip("matplotlib.pyplot")
pytest.importorskip("SurvSet", reason="most examples read its data")

GALLERY = Path(__file__).parents[1] / "docs" / "gallery"
EXAMPLES = sorted(GALLERY.rglob("plot_*.py"))
FAST = {"plot_immortal_time", "plot_time_varying_effect", "plot_many_outcomes"}

# SurvSet's pickles were made by an older NumPy.
pytestmark = pytest.mark.filterwarnings("ignore:numpy.core:DeprecationWarning")


def params():
    for path in EXAMPLES:
        marks = () if path.stem in FAST else pytest.mark.slow
        yield pytest.param(path, id=path.stem, marks=marks)


@pytest.mark.parametrize("path", params())
def test_example_runs_and_draws(path, monkeypatch):
    monkeypatch.setattr(plt, "show", lambda *args, **kwargs: None)
    with plt.rc_context({"backend": "agg"}):
        try:
            runpy.run_path(str(path))
            assert plt.get_fignums()
        finally:
            plt.close("all")


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_is_short_and_says_what_it_leaves_out(path):
    text = path.read_text(encoding="utf-8")
    title, rule = text.splitlines()[1:3]
    assert text.startswith('"""\n')
    assert len(title) <= len(rule)
    assert set(rule) == {"="}
    assert 40 <= len(text.splitlines()) <= 110
    assert "# Not shown: " in text or "does not show" in text or "this does not" in text
    assert "What to see: " in text or "the figure" in text.lower() or "# Each" in text


def test_every_folder_has_a_header():
    for folder in {path.parent for path in EXAMPLES} | {GALLERY}:
        assert (folder / "README.rst").is_file()


def test_fast_examples_exist():
    assert {path.stem for path in EXAMPLES} >= FAST
