"""What is published repeats some facts; here they are held together."""

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import sksurvgpu

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
VERSION = sksurvgpu.__version__
REQUIREMENT = re.compile(r"([\w.-]+)(?:\[.*?\])? *>=([\d.]+)")


WITHOUT_DEVICES = ("plot", "tables", "dask", "sites", "omop")
CONDA = {"matplotlib": "matplotlib-base", "duckdb": "python-duckdb"}  # their names there
# Seconds of README.rst: file and case of the results, with programs and what is said of them.
SECONDS = {
    ("engine", "papers-1e5-1000"): {"majorized": "0.12"},
    ("papers-1e5-1000", "papers-1e5-1000"): {
        "Cyclops": "6.9",
        "scikit-survival": "16",
        "glmnet": "34",
        "skglm": "79",
    },
    ("engine", "papers-1e6-1000"): {"majorized": "0.99"},
    ("large-peers", "papers-1e6-1000"): {"Cyclops": "91"},
    ("engine", "fine-gray"): {"majorized": "0.12"},
    ("fine-gray", "fine-gray"): {"Cyclops": "37", "fastcmprsk": "33"},
    ("engine", "logistic"): {"majorized": "0.09"},
    ("logistic", "logistic"): {"glmnet": "0.91", "Cyclops": "4.5"},
}


def read(path):
    return (ROOT / path).read_text(encoding="utf-8")


def bounds(lines):
    """Lower bounds of requirements, by name."""
    found = (REQUIREMENT.match(line) for line in lines)
    return {match[1].lower(): match[2] for match in found if match}


def test_the_version_has_its_entry_in_the_changelog():
    heading = re.search(r"^(\d+\.\d+\.\d+) \((.*)\)\n-+$", read("docs/changes.rst"), re.MULTILINE)
    assert heading[1] == VERSION
    assert heading[2] == "unreleased" or heading[2] == released()


def released():
    return re.search(r"^date-released: (.*)$", read("CITATION.cff"), re.MULTILINE)[1]


@pytest.mark.parametrize(
    ("path", "pattern"),
    [
        ("CITATION.cff", r"^version: (.*)$"),
        (".packaging/conda/recipe.yaml", r'^  version: "(.*)"$'),
    ],
)
def test_the_version_is_the_same_everywhere(path, pattern):
    assert re.search(pattern, read(path), re.MULTILINE)[1] == VERSION


def test_the_recipe_demands_what_the_package_demands():
    recipe = read(".packaging/conda/recipe.yaml")
    for name, of_conda in CONDA.items():
        recipe = recipe.replace(f"- {of_conda} ", f"- {name} ")
    listed = re.findall(r"^ {4}- ([\w.-]+ >=[\d.]+)$", recipe, re.MULTILINE)
    extras = [PROJECT["optional-dependencies"][extra] for extra in WITHOUT_DEVICES]
    found, wanted = bounds(listed), bounds(sum(extras, PROJECT["dependencies"]))
    assert {name: found.get(name) for name in wanted} == wanted


def test_the_oldest_versions_that_are_tested_are_the_lower_bounds():
    pinned = dict(re.findall(r'"([\w.-]+)==([\d.]+?)(?:\.\*)?"', read(".github/workflows/ci.yml")))
    extras = [PROJECT["optional-dependencies"][extra] for extra in ("plot", "tables", "dask")]
    for name, bound in bounds(sum(extras, PROJECT["dependencies"])).items():
        assert bound.startswith(pinned[name]), f"{name}: >={bound}, tested {pinned[name]}"


def test_ci_installs_versions_within_the_bounds():
    pinned = re.findall(r"^([\w.-]+)==([\d.]+)", read(".ci/constraints.txt"), re.MULTILINE)
    least = bounds(PROJECT["dependencies"] + PROJECT["optional-dependencies"]["tables"])
    assert set(least) <= {name for name, _ in pinned}
    for name, version in pinned:
        if name in least:
            assert as_numbers(version) >= as_numbers(least[name]), name


def as_numbers(version):
    return [int(part) for part in version.split(".")]


def test_seconds_of_the_readme_were_measured():
    speed = read("README.rst").partition("\nHow fast\n")[2].partition("\nCiting\n")[0]
    told = re.findall(r"([\d.]+) s\b", speed)
    assert told == [text for said in SECONDS.values() for text in said.values()]
    for (file, case), said in SECONDS.items():
        cases = json.loads(read(f"benchmarks/results/{file}.json"))["cases"]
        [answers] = [found["answers"] for found in cases if found["case"] == case]
        seconds = {answer["solver"]: answer.get("seconds") for answer in answers}
        for program, text in said.items():
            digits = len(text.partition(".")[2])
            assert f"{seconds[program]:.{digits}f}" == text, (file, case, program)


def test_the_lock_file_names_no_place():
    assert "://" not in read(".ci/constraints.txt")


@pytest.mark.thorough
def test_what_needs_an_extra_says_which():
    """What ``.ci/package`` runs beside the wheel."""
    command = [sys.executable, "tests/bare.py"]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "names load" in done.stdout
