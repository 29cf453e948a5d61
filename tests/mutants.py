"""Wrong variants of one line of the package, each of which tests have to notice.

``python -m tests.mutants`` takes a copy of the package and of the tests, puts one line of
``mutants.toml`` after the other in place of the right one, and runs the tests beside it until one
fails.  A variant survives where none does: a test is missing, or has been lost.  A line is found
by its text, which must stand once in the package, in whatever file::

    python -m tests.mutants --check           # whether the lines are there
    python -m tests.mutants --only "Efron"    # those whose description has the word
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
COPIED = ("sksurvgpu", "tests", "benchmarks", "docs", "pyproject.toml")
PYTEST = ("-m", "pytest", "-x", "-q", "-n0", "-p", "no:randomly", "-p", "no:cacheprovider")
SECONDS = 600  # of the tests of a variant, which may loop for ever
PASSED, FAILED = 0, 1  # what pytest exits with


def read_mutants(words):
    """Variants whose descriptions have all the words."""
    mutants = tomllib.loads((ROOT / "tests/mutants.toml").read_text(encoding="utf-8"))["mutant"]
    return [mutant for mutant in mutants if all(word in mutant["is"] for word in words)]


def find_file(package, mutant):
    """The file that has the line, or None where not exactly one has it once."""
    files = sorted(package.rglob("*.py"))
    counts = [file.read_text(encoding="utf-8").count(mutant["old"]) for file in files]
    return files[counts.index(1)] if sum(counts) == 1 else None


def copy_to(folder):
    """Copy what tests need, and the compiled code: of what stays as it is, nothing is compiled."""
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            unwanted = shutil.ignore_patterns("results", "_build", "auto_gallery", "*.pyc")
            shutil.copytree(source, folder / name, ignore=unwanted)
        else:
            shutil.copy2(source, folder / name)


def run_tests(folder, mutant):
    """Run the tests of a variant; what became of it, and what was printed."""
    tests = [f"tests/{test}" for test in mutant["tests"]]
    call = [sys.executable, *PYTEST, *tests]
    settings = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(
            call, cwd=folder, env=settings, timeout=SECONDS, capture_output=True, text=True
        )
    except subprocess.TimeoutExpired:
        return "killed (by its time)", ""
    word = {PASSED: "SURVIVED", FAILED: "killed"}.get(done.returncode, "NOT TESTED")
    return word, done.stdout + done.stderr


def try_mutant(right, mutant):
    """Run the tests of a variant beside the right tree, of which it has links to all files."""
    with tempfile.TemporaryDirectory(dir=right.parent) as name:
        wrong = Path(name) / "wrong"
        shutil.copytree(right, wrong, copy_function=os.link)
        file = find_file(wrong / "sksurvgpu", mutant)
        if file is None:
            return "NOT FOUND", ""
        text = file.read_text(encoding="utf-8").replace(mutant["old"], mutant["new"])
        file.unlink()  # the link alone
        file.write_text(text, encoding="utf-8")
        return run_tests(wrong, mutant)


def judge(right, mutant, is_verbose):
    """Try a variant and say what became of it; whether it is dead."""
    began = time.perf_counter()
    word, printed = try_mutant(right, mutant)
    lines = [f"{time.perf_counter() - began:6.1f} s  {word}: {mutant['is']}"]
    if is_verbose or word == "NOT TESTED":
        lines.append(printed)
    print("\n".join(lines), flush=True)
    return word.startswith("killed")


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", nargs="+", default=[], metavar="WORD")
    parser.add_argument("--check", action="store_true", help="run nothing")
    parser.add_argument("--jobs", type=int, default=1, help="variants at once")
    parser.add_argument("--verbose", action="store_true", help="show what tests print")
    options = parser.parse_args()
    mutants = read_mutants(options.only)
    if options.check:
        lost = [m["is"] for m in mutants if find_file(ROOT / "sksurvgpu", m) is None]
        print(f"{len(mutants)} variants, of {len(lost)} the line is not there", *lost, sep="\n  ")
        return bool(lost)
    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(options.jobs) as pool:
        right = Path(name) / "right"
        right.mkdir()
        copy_to(right)
        are_dead = list(pool.map(lambda mutant: judge(right, mutant, options.verbose), mutants))
    print(f"{sum(are_dead)} of {len(are_dead)} killed")
    return not all(are_dead)


if __name__ == "__main__":
    sys.exit(main())
