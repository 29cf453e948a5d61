"""The examples of the gallery run, draw what they say, and warn of nothing."""

import re
import runpy
from pathlib import Path

import pytest

plt = pytest.importorskip("matplotlib.pyplot")
pytest.importorskip("SurvSet", reason="most examples read its data")

GALLERY = Path(__file__).parents[1] / "docs" / "gallery"
EXAMPLES = sorted(GALLERY.rglob("plot_*.py"))
FAST = {"plot_calibration", "plot_case_series", "plot_immortal_time"}
LEFT_OUT = FAST - {"plot_immortal_time"}  # of a short run
# Of many draws or folds, or otherwise of seconds; the build of the pages runs all.
WEEKLY = {"plot_gene_expression", "plot_intervals", "plot_mixed_units_pipeline", "plot_multinomial"}
WEEKLY |= {"plot_negative_controls", "plot_penalties", "plot_posterior", "plot_smooth"}
WEEKLY |= {"plot_steps"}

# SurvSet's pickles were made by an older NumPy.
pytestmark = pytest.mark.filterwarnings("ignore:numpy.core:DeprecationWarning")


def marked(path):
    marks = () if path.stem in FAST else pytest.mark.slow
    marks = pytest.mark.thorough if path.stem in LEFT_OUT else marks
    marks = pytest.mark.weekly if path.stem in WEEKLY else marks
    return pytest.param(path, id=path.stem, marks=marks)


@pytest.mark.parametrize("path", [marked(path) for path in EXAMPLES])
def test_example_runs_and_draws(path):
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
    assert 40 <= len(text.splitlines()) <= 120
    assert re.search(r"Not (# )?shown: |What this (# )?does not show", " ".join(text.split()))


def test_every_folder_has_a_header():
    for folder in {path.parent for path in EXAMPLES} | {GALLERY}:
        assert (folder / "README.rst").is_file()


def test_fast_examples_exist():
    assert {path.stem for path in EXAMPLES} >= FAST
