"""How often intervals hold the truth, in simulated data sets whose seeds are their own."""

from __future__ import annotations

import doctest
import re
import resource
import sys
import warnings

import numpy as np
from scipy.linalg import toeplitz
from scipy.special import expit

from .cases import SEED
from .processes import ROOT, timed
from .report import Option, columns, lines, read, save


def _run(name, doc, arguments, designs, shown, measure, **counts):
    """Measure the chosen designs, print a table, write JSON.

    `counts` are options that have a full and a quick number.
    """
    counts = {key: Option(many, quick=few) for key, (many, few) in counts.items()}
    quick = ", ".join(f"{option.quick} {key.replace('_', ' ')}" for key, option in counts.items())
    options = read(name, doc, arguments, quick, designs=tuple(designs), **counts)
    results, numbers = [], [getattr(options, key) for key in counts]
    for design in options.designs:
        print(design, file=sys.stderr, flush=True)
        results += measure(design, *numbers)
        save(options, results=results)
    print(lines(shown, results))


def _share_error(share, count):
    return float(np.sqrt(share * (1.0 - share) / count))


EFFECT, NUISANCE, N_ACTIVE, LEVEL = 0.5, 0.25, 4, 0.95
# name -> (model, rows, nuisance columns, alpha, whether treatment depends on the nuisance)
DESIGNS = {
    "cox-small": ("cox", 300, 4, 0.0, True),
    "cox-lasso": ("cox", 300, 30, 0.05, True),
    "cox-lasso-randomized": ("cox", 300, 30, 0.05, False),
    "logistic-small": ("logistic", 300, 4, 0.0, True),
    "logistic-lasso": ("logistic", 300, 30, 0.03, True),
    "logistic-lasso-randomized": ("logistic", 300, 30, 0.03, False),
}
COLUMNS = columns(
    "design | interval | covered:d | of:d | coverage:.1% | error:.1% | below:d | above:d | "
    "width:.3g"
)


def main_coverage(arguments=None):
    """How often bootstrap percentiles and profile likelihood hold a treatment's coefficient.

    It is 0.5 and never penalized. In "small" designs nothing is penalized; in "lasso" designs the
    nuisance columns are, at a fixed penalty. Treatment depends on the first nuisance columns, which
    have a modest effect, but for "randomized".
    """
    counts, doc = {"data_sets": (200, 20), "replicates": (100, 40)}, main_coverage.__doc__
    _run("coverage", doc, arguments, DESIGNS, COLUMNS, measure_treatment, **counts)


def measure_treatment(name, n_data_sets, n_replicates):
    """Coverage of both intervals."""
    _, _, _, alpha, _ = DESIGNS[name]
    found = {"bootstrap": [], "profile": []}
    for seed in range(n_data_sets):
        cls, X, y = draw_treatment(*DESIGNS[name], np.random.default_rng([SEED, seed]))
        for kind, each in intervals_of(cls, alpha, X, y, n_replicates, seed, tuple(found)).items():
            found[kind].append(each)
    shared = {"design": name, "replicates": n_replicates}
    return [{**shared, "interval": kind, **judge(each)} for kind, each in found.items()]


def intervals_of(cls, alpha, X, y, n_replicates, seed, kinds):
    """Lower end, upper end and seconds of a treatment's intervals, by their kind."""
    from sksurvgpu import bootstrap, debiased, profile_likelihood, wald

    model, found = cls(alpha=alpha, penalty_factor={0: 0.0}, n_jobs=1, backend="cpu"), {}
    drawn = {"n_replicates": n_replicates, "random_state": seed, "level": LEVEL}
    calls = {
        "bootstrap": lambda: bootstrap(model, X, y, **drawn),
        "profile": lambda: profile_likelihood(model, X, y, 0, level=LEVEL),
        "Wald": lambda: wald(model.fit(X, y), X, y, level=LEVEL),
        "debiased": lambda: debiased(model.fit(X, y), X, y, level=LEVEL),
    }
    for kind in kinds:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result, spent = timed(calls[kind])
        found[kind] = (*result.intervals.iloc[0][["lower", "upper"]], spent["seconds"])
    return found


def draw_treatment(model, n_rows, n_nuisance, alpha, confounded, rng):
    """One data set: estimator, the treatment and the nuisance columns, and the outcome."""
    from sksurvgpu import CoxLassoCCD, LogisticCCD, surv

    nuisance = rng.normal(size=(n_rows, n_nuisance))
    score = NUISANCE * nuisance[:, :N_ACTIVE].sum(axis=1)
    treated = rng.random(n_rows) < (expit(score) if confounded else 0.5)
    eta = EFFECT * treated + score
    X = np.column_stack([treated, nuisance])
    if model == "logistic":
        return LogisticCCD, X, rng.random(n_rows) < expit(eta - 0.5)
    time_of_event = rng.exponential(size=n_rows) * np.exp(-eta)
    censored = rng.uniform(0.0, 2.0, n_rows)
    return CoxLassoCCD, X, surv(time_of_event <= censored, np.minimum(time_of_event, censored))


def judge(intervals):
    """How many hold the effect, and what they cost."""
    lower, upper, seconds = np.array(intervals).T
    n, above, below = len(lower), int((lower > EFFECT).sum()), int((upper < EFFECT).sum())
    share = 1.0 - (above + below) / n
    found = {"covered": n - above - below, "of": n, "coverage": share, "below": below}
    found |= {"above": above, "error": _share_error(share, n), "seconds": float(seconds.sum())}
    return {**found, "width": float(np.median(upper - lower))}


EFFECTS = (0.5, -0.5, 0.3, 0.8)
KINDS = ("wald", "inverse", "quadratic")
# name -> (model, rows, columns, intervals)
WIDTHS = {
    "cox-20": ("cox", 400, 20, KINDS),
    "cox-40": ("cox", 400, 40, KINDS),
    "cox-500": ("cox", 400, 500, KINDS[-1:]),
    "logistic-20": ("logistic", 400, 20, KINDS),
    "logistic-40": ("logistic", 400, 40, KINDS),
    "logistic-500": ("logistic", 400, 500, KINDS[-1:]),
    "linear-40": ("linear", 400, 40, KINDS),
    "linear-500": ("linear", 400, 500, KINDS[-1:]),
}
DEBIASED = columns(
    "design | interval | effects:.1% | others:.1% | bias:.3g | error:.1% | width:.3g | seconds:.3g"
)


def main_debiased(arguments=None):
    """How often intervals of all coefficients hold the truth: the debiased lasso, and Wald.

    Normal columns whose correlation halves with every step of their distance, four of which have an
    effect. The penalty is the path's with the least AIC, or BIC where there are more columns than
    rows.
    """
    counts, doc = {"data_sets": (100, 10)}, main_debiased.__doc__
    _run("debiased", doc, arguments, WIDTHS, DEBIASED, measure_all, **counts)


def measure_all(name, n_data_sets):
    """Coverage of all intervals."""
    model, n_rows, n_columns, kinds = WIDTHS[name]
    found = {kind: [] for kind in kinds}
    spent = dict.fromkeys(kinds, 0.0)
    for seed in range(n_data_sets):
        cls, X, y, coef = draw_correlated(
            model, n_rows, n_columns, np.random.default_rng([SEED, seed])
        )
        for kind in kinds:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                intervals, seconds = timed(lambda kind=kind: _intervals(cls, X, y, kind))  # noqa: B023
            spent[kind] += seconds["cpu_seconds"]
            found[kind].append(intervals.to_numpy())
    shared = {"design": name, "data_sets": n_data_sets}
    return [
        {**shared, "interval": kind, "seconds": spent[kind], **_judge_all(np.array(tables), coef)}
        for kind, tables in found.items()
    ]


def draw_correlated(model, n_rows, n_columns, rng):
    """Estimator, columns, outcome and coefficients of one data set."""
    from sksurvgpu import CoxLassoCCD, LinearCCD, LogisticCCD, surv

    factor = np.linalg.cholesky(toeplitz(0.5 ** np.arange(n_columns)))
    X = rng.normal(size=(n_rows, n_columns)) @ factor.T
    coef = np.zeros(n_columns)
    coef[np.arange(len(EFFECTS)) * (n_columns // len(EFFECTS))] = EFFECTS
    eta = X @ coef
    if model == "linear":
        return LinearCCD, X, eta + rng.normal(size=n_rows), coef
    if model == "logistic":
        return LogisticCCD, X, rng.random(n_rows) < expit(eta), coef
    event, censored = rng.exponential(size=n_rows) * np.exp(-eta), 2 * rng.exponential(size=n_rows)
    return CoxLassoCCD, X, surv(event <= censored, np.minimum(event, censored)), coef


def _intervals(cls, X, y, kind):
    from sksurvgpu import debiased, fit_path, wald

    if kind == "wald":
        return wald(cls(alpha=0.0, n_jobs=1).fit(X, y), X, y).intervals
    path = fit_path(cls(n_jobs=1), X, y, n_alphas=20, alpha_min_ratio=0.05)
    chosen = path.best("bic" if X.shape[1] > len(X) else "aic")
    return debiased(chosen, X, y, method=kind).intervals


def _judge_all(tables, coef):
    estimate, lower, upper = np.moveaxis(tables, 2, 0)
    is_held, has_effect = (lower <= coef) & (coef <= upper), coef != 0
    towards = ((estimate - coef) * np.sign(coef))[:, has_effect]
    effects = is_held[:, has_effect]
    return {
        "effects": float(effects.mean()),
        "error": _share_error(float(effects.mean()), effects.size),
        "others": float(is_held[:, ~has_effect].mean()),
        "bias": float(towards.mean()),  # away from zero
        "width": float(np.median(upper - lower)),
    }


PAGE = ROOT / "docs" / "examples" / "cohort_study.rst"
SIZE_LINE = re.compile(r"^n_persons, n_codes, n_records, seed = .*$", re.MULTILINE)
TITLE = re.compile(r"^(.+)\n-{3,}$", re.MULTILINE)
FULL, SMALL = (200_000, 5_000, 10_000_000), (5_000, 200, 250_000)
GIGABYTE = 2**20 if hasattr(resource, "RUSAGE_THREAD") else 2**30  # Linux counts kilobytes

STEPS = columns("section | seconds:.1f | of processors=cpu_seconds:.1f | peak GB=peak:.1f")
HELD = columns(
    "95% intervals=method | number=n:,d | hold the truth=held",
    held=lambda found: f"{found['share']:.3f} +- {found['error']:.3f}",
)


def main_cohort_study(arguments=None):
    """The study of the documentation, from tables to an answer, at full size or many times.

    Runs the statements of ``docs/examples/cohort_study.rst`` with other numbers of persons, codes
    and records, and prints seconds and memory by section. With ``--repetitions``, runs it as often
    with other seeds, and prints how many intervals hold the truth.
    """
    import matplotlib

    matplotlib.use("Agg")
    sizes = {"type": int, "nargs": 3, "metavar": ("PERSONS", "CODES", "RECORDS")}
    options = read(
        "cohort_study",
        main_cohort_study.__doc__,
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
        _, seconds = timed(lambda sources=sources: _execute(sources, names))
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
            _execute([source for source in sources if "Display." not in source], names)
        for method, low, high, truth in _of_study(names):
            held.setdefault(method, []).extend(((low <= truth) & (truth <= high)).tolist())
        print(f"{seed + 1} of {options.repetitions}", end="\r", flush=True)
    coverage = []
    for method, found in held.items():
        share = float(np.mean(found))
        row = {"method": method, "n": len(found), "share": share}
        coverage.append({**row, "error": _share_error(share, len(found))})
    print(lines(HELD, coverage))
    return {"repetitions": options.repetitions, "coverage": coverage}


def _of_study(names):
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
        sections[-1][1].append(SIZE_LINE.sub(line, part.source))
    return sections


def _execute(sources, names):
    for source in sources:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            exec(compile(source, str(PAGE), "exec"), names)  # which prints no values
