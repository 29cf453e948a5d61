"""The study of the documentation, from tables to an answer, at full size or many times.

Runs the statements of ``docs/examples/cohort_study.rst`` with other numbers of persons, codes and
records, and prints seconds and memory by section. With ``--repetitions``, runs it as often with
other seeds, and prints how many intervals hold the truth.
"""

from __future__ import annotations

import doctest
import re
import resource
import warnings

import numpy as np

from .processes import ROOT, timed
from .report import Option, columns, lines, read, save

PAGE = ROOT / "docs" / "examples" / "cohort_study.rst"
SIZES = re.compile(r"^n_persons, n_codes, n_records, seed = .*$", re.MULTILINE)
TITLE = re.compile(r"^(.+)\n-{3,}$", re.MULTILINE)
FULL, SMALL = (200_000, 5_000, 10_000_000), (5_000, 200, 250_000)
GIGABYTE = 2**20 if hasattr(resource, "RUSAGE_THREAD") else 2**30  # Linux counts kilobytes

STEPS = columns("section | seconds:.1f | of processors=cpu_seconds:.1f | peak GB=peak:.1f")
COVERAGE = columns(
    "95% intervals=method | number=n:,d | hold the truth=held",
    held=lambda found: f"{found['share']:.3f} +- {found['error']:.3f}",
)


def main_cohort_study(arguments=None):
    """Run the page once or many times, print tables, write JSON."""
    import matplotlib

    matplotlib.use("Agg")
    sizes = {"type": int, "nargs": 3, "metavar": ("PERSONS", "CODES", "RECORDS")}
    options = read(
        "cohort_study",
        __doc__,
        arguments,
        "the smaller study, once",
        "cohort-study",
        sizes=Option(sizes),
        repetitions=Option(0, "of a smaller study"),
    )
    is_small = options.quick or options.repetitions
    if options.repetitions and options.output.stem.startswith("cohort-study"):
        options.output = options.output.with_stem(f"{options.output.stem}-coverage")
    options.sizes = tuple(options.sizes or (SMALL if is_small else FULL))
    content = _repeat(options) if options.repetitions else _study(options)
    save(options, sizes=options.sizes, **content)


def _study(options):
    """Seconds and memory of every section."""
    steps, names = [], {}
    for section, sources in _sections(options.sizes, seed=0):
        _, seconds = timed(lambda sources=sources: _run(sources, names))
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / GIGABYTE
        steps.append({"section": section, **seconds, "peak": peak})
    total = {key: sum(step[key] for step in steps) for key in ("seconds", "cpu_seconds")}
    steps.append({"section": "all", **total, "peak": steps[-1]["peak"]})
    print(lines(STEPS, steps))
    print(names["result"])
    effects = np.exp(names["calibrated"].table[names["bounds"]])
    print(effects.assign(truth=np.exp(names["claims"].log_hazard_ratios)).round(3).to_string())
    return {"steps": steps, "effects": effects.to_dict("index")}


def _repeat(options):
    """Share of the intervals that hold the truth, by method."""
    held: dict[str, list[bool]] = {}
    for seed in range(options.repetitions):
        names = {}
        for _, sources in _sections(options.sizes, seed):
            _run([source for source in sources if "Display." not in source], names)
        for method, low, high, truth in _intervals(names):
            held.setdefault(method, []).extend(((low <= truth) & (truth <= high)).tolist())
        print(f"{seed + 1} of {options.repetitions}", end="\r", flush=True)
    coverage = []
    for method, found in held.items():
        share = float(np.mean(found))
        error = float(np.sqrt(share * (1.0 - share) / len(found)))
        coverage.append({"method": method, "n": len(found), "share": share, "error": error})
    print(lines(COVERAGE, coverage))
    return {"repetitions": options.repetitions, "coverage": coverage}


def _intervals(names):
    """Method, bounds and what they should hold: the data have systematic errors, too."""
    claims, fitted = names["claims"], names["result"].table
    truth, calibrated = claims.log_hazard_ratios, names["calibrated"].table
    biased, controls = truth + claims.systematic_errors, claims.negative_controls
    of_interest = calibrated.index
    low, high = fitted["lower"], fitted["upper"]
    yield "Cox, negative controls, truth with its error", *_of(low, high, biased, controls)
    yield "Cox, others, truth with its error", *_of(low, high, biased, of_interest)
    yield "Cox, others, truth", *_of(low, high, truth, of_interest)
    bounds = calibrated["calibrated_lower"], calibrated["calibrated_upper"]
    yield "Cox, others, calibrated, truth", *_of(*bounds, truth, of_interest)
    incidence = names["incidence"].table
    bounds = incidence["lower"], incidence["upper"]
    yield "Fine-Gray, infarction, truth with its error", *_of(*bounds, biased, ["infarction"])
    for name, result in names["results"].items():
        bounds = (result.intervals.loc[["treatment"], key].to_numpy() for key in ("lower", "upper"))
        method = f"Cox with all codes, stroke, {name}, truth with its error"
        yield method, *bounds, biased[["stroke"]].to_numpy()


def _of(low, high, truth, outcomes):
    return (values[outcomes].to_numpy(float) for values in (low, high, truth))


def _sections(sizes, seed):
    """Title and statements of the sections of the page, at other sizes."""
    sections, title = [], "Tables"
    for part in doctest.DocTestParser().parse(PAGE.read_text(encoding="utf-8")):
        if isinstance(part, str):
            title = [title, *TITLE.findall(part)][-1]
            continue
        if not sections or sections[-1][0] != title:
            sections.append((title, []))
        line = f"n_persons, n_codes, n_records, seed = {', '.join(map(str, (*sizes, seed)))}"
        sections[-1][1].append(SIZES.sub(line, part.source))
    return sections


def _run(sources, names):
    for source in sources:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            exec(compile(source, str(PAGE), "exec"), names)  # which prints no values
