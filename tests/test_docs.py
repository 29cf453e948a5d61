"""The pages of the documentation: every example runs, and every page can be reached."""

import doctest
import posixpath
import re
from pathlib import Path

import pytest
import sklearn

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
# What the build makes, and what it reads but shows elsewhere.
NO_PAGES = {"_build", "generated", "auto_gallery", "gallery", "_templates"}
PAGES = [
    path for path in sorted(DOCS.rglob("*.rst")) if not set(path.relative_to(DOCS).parts) & NO_PAGES
]
# Their examples take seconds each, or kernels that nothing else needs.
LONG = {
    "examples/cohort_study",
    "guide/algorithm",
    "guide/cross_validation",
    "guide/plots",
    "guide/posterior",
    "guide/propensity",
    "guide/resampling",
    "guide/selection",
    "models/bayesian_multinomial",
    "models/bayesian_regression",
    "models/case_series",
    "models/fine_gray",
    "models/logistic",
    "models/poisson",
}
WITH_EXAMPLES = [path for path in PAGES if ">>> " in path.read_text(encoding="utf-8")]


def page(path):
    """Name of a page as a toctree has it."""
    return path.relative_to(DOCS).with_suffix("").as_posix()


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, marks=[pytest.mark.slow] if page(path) in LONG else [], id=page(path))
        for path in WITH_EXAMPLES
    ],
)
def test_examples_run(path):
    options = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    # A page may turn on metadata routing; the next one starts without.
    with sklearn.config_context():
        failures, _ = doctest.testfile(str(path), module_relative=False, optionflags=options)
    assert failures == 0


def test_pages_with_examples_are_found():
    assert {"quickstart", "models/cox", "guide/penalties"} <= {page(p) for p in WITH_EXAMPLES}


@pytest.mark.parametrize("path", PAGES, ids=page)
def test_python_is_written_as_doctest(path):
    """Code in other directives would not be run."""
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"\.\. (code-block|code|sourcecode):: *(python|pycon)", text)
    assert not re.search(r"^ {4,}(import \w|from \w+ import)", text, re.MULTILINE)


def listed(name):
    """Pages below a page, through its toctrees and theirs."""
    below = set()
    for toctree in re.findall(r"^\.\. toctree::\n((?: .*\n|\n)+)", source(name), re.MULTILINE):
        entries = [line.strip() for line in toctree.splitlines() if line.strip()]
        for entry in (entry for entry in entries if not entry.startswith(":")):
            child = resolved(entry, name)
            below |= {child} | (listed(child) if (DOCS / f"{child}.rst").exists() else set())
    return below


def source(name):
    return (DOCS / f"{name}.rst").read_text(encoding="utf-8")


def resolved(target, name):
    """A page that another refers to, by its name from the folder of that page or from the top."""
    folder = "" if target.startswith("/") else posixpath.dirname(name)
    return posixpath.normpath(posixpath.join(folder, target.lstrip("/")))


def test_every_page_is_in_the_table_of_contents():
    assert {page(path) for path in PAGES} - {"index"} <= listed("index")
