"""The pages of the documentation: every example runs, and every page can be reached."""

import doctest
import importlib
import json
import posixpath
import re
from pathlib import Path

import pytest
import sklearn
from matplotlib import rc_context

import sksurvgpu

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
# What the build makes, and what it reads but shows elsewhere.
NO_PAGES = {"_build", "generated", "auto_gallery", "gallery", "_templates"}
PAGES = [
    path for path in sorted(DOCS.rglob("*.rst")) if not set(path.relative_to(DOCS).parts) & NO_PAGES
]
# Shown by what they contain.
MODULES = {"cohort", "datasets", "exceptions", "federated", "metrics", "nonparametric", "plotting"}
MODULES |= {"omop", "study"}
MODULES |= {"results"}  # whose names are those of the package
# Their examples take seconds each, or kernels that nothing else needs.
LONG = {
    "examples/cohort_study",
    "guide/algorithm",
    "guide/propensity",
    "guide/resampling",
    "models/bayesian_multinomial",
    "models/case_series",
    "models/fine_gray",
    "models/logistic",
    "models/poisson",
}
# Of many draws, folds or rows; of figures that the build draws, too.
WEEKLY = {"guide/adaptive", "guide/additive", "guide/choosing", "guide/cross_validation"}
WEEKLY |= {"guide/plots", "guide/posterior", "guide/selection", "guide/study"}
WEEKLY |= {"models/bayesian_regression"}
LAID_OUT = {"guide/plots"}  # which has every kind of figure
WITH_EXAMPLES = [path for path in PAGES if ">>> " in path.read_text(encoding="utf-8")]


def page(path):
    """Name of a page as a toctree has it."""
    return path.relative_to(DOCS).with_suffix("").as_posix()


def marks_of(name):
    marks = [pytest.mark.slow] if name in LONG else []
    marks += [pytest.mark.layout] if name in LAID_OUT else []
    return [*marks, pytest.mark.weekly] if name in WEEKLY else marks


@pytest.mark.thorough
@pytest.mark.usefixtures("layout_if_asked")
# SurvSet's pickles were made by an older NumPy.
@pytest.mark.filterwarnings("ignore:numpy.core:DeprecationWarning")
@pytest.mark.parametrize(
    "path",
    [pytest.param(path, marks=marks_of(page(path)), id=page(path)) for path in WITH_EXAMPLES],
)
def test_examples_run(path):
    options = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    # A page may turn on metadata routing; the next one starts without. Its figures stay open.
    with sklearn.config_context(), rc_context({"figure.max_open_warning": 0}):
        failures, _ = doctest.testfile(str(path), module_relative=False, optionflags=options)
    assert failures == 0


def test_pages_with_examples_are_found():
    assert {"quickstart", "models/cox", "guide/penalties"} <= {page(p) for p in WITH_EXAMPLES}


def test_python_is_written_as_doctest():
    """Code in other directives would not be run."""
    for path in PAGES:
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"\.\. (code-block|code|sourcecode):: *(python|pycon)", text), path
        assert not re.search(r"^ {4,}(import \w|from \w+ import)", text, re.MULTILINE), path


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


def exists(name):
    """Whether a page is there, or is made from a script of the gallery when the pages are built."""
    if name.startswith("auto_gallery/"):
        made_from = DOCS / name.replace("auto_gallery", "gallery", 1)
        return made_from.name == "index" or made_from.with_suffix(".py").exists()
    return (DOCS / f"{name}.rst").exists()


def test_pages_refer_to_pages():
    for name in map(page, PAGES):
        references = re.findall(r":doc:`(?:[^`<]*<)?([^`>]+)>?`", source(name))
        links = re.findall(r":link: (\S+)\n +:link-type: doc", source(name))
        missing = {target for target in references + links if not exists(resolved(target, name))}
        assert not missing, name


@pytest.mark.parametrize(
    "module",
    [
        "",
        "cohort",
        "datasets",
        "exceptions",
        "federated",
        "metrics",
        "nonparametric",
        "omop",
        "study",
    ],
)
def test_every_public_name_is_in_the_reference(module):
    names = importlib.import_module(f"sksurvgpu.{module}".rstrip(".")).__all__
    prefix = f"{module}." if module else ""
    public = {prefix + name for name in names if not name.startswith("_") and name not in MODULES}
    documented = {
        line.strip()
        for path in sorted((DOCS / "api").glob("*.rst"))
        for line in path.read_text(encoding="utf-8").splitlines()
        if re.fullmatch(r" {3}[\w.]+", line)
    }
    assert public <= documented


def rows_of_simple_tables(text):
    """First cell and the others, of each line of each table that is drawn with ``=`` alone."""
    rule = r"^ *=+(?: +=+)+ *\n"
    for table in re.finditer(rf"({rule})((?:.*\S.*\n)*?)(?={rule}\n)", text, re.MULTILINE):
        width = re.search(r"=+", table[1]).end()
        body = re.split(rule, table[2], flags=re.MULTILINE)[-1]
        yield from ((line[:width].strip(), line[width:].strip()) for line in body.splitlines())


def test_lines_of_tables_are_rows():
    """In a simple table, a line whose first cell is not empty begins a row."""
    for name in map(page, PAGES):
        rows = list(rows_of_simple_tables(source(name) + "\n"))
        assert [first for first, others in rows if first and not others] == [], name
        assert [first for first, _ in rows if first.endswith(",")] == [], name


def test_versions_of_the_pages_list_this_one():
    versions = json.loads((DOCS / "_static/switcher.json").read_text(encoding="utf-8"))
    assert [entry["url"] for entry in versions if entry["version"] == sksurvgpu.__version__] == [
        f"/{sksurvgpu.__version__}/"
    ]


def test_paths_of_the_map_exist():
    """In each row of its list a name alone is in the folder of the one before."""
    package, missing, n_paths = ROOT / "sksurvgpu", [], 0
    for row in re.findall(r"^   \* - (.*(?:\n {5}(?!- ).*)*)", source("developers"), re.MULTILINE):
        folder = ""
        for path in re.findall(r"``([^`\n]+(?:\.py|/))``", row):
            path = path if "/" in path else f"{folder}/{path}".lstrip("/")
            folder, n_paths = path.rpartition("/")[0], n_paths + 1
            missing += [] if any(package.glob(path.rstrip("/"))) else [path]
    assert n_paths > 140 and missing == []


def test_layers_of_the_map_exist():
    table = source("developers").partition("\nLayers\n")[2].partition("\nWalks\n")[0]
    names = re.findall(r"^``(\w+)``", table, re.MULTILINE) + re.findall(r"``(_\w+)``", table)
    places = {name: ROOT / "sksurvgpu" / name for name in names}
    assert len(places) > 20
    assert [n for n, p in places.items() if not (p.exists() or p.with_suffix(".py").exists())] == []
