"""Several hazards: how often their intervals hold the truth, and what they cost beside one."""

from __future__ import annotations

import sys
import warnings

import numpy as np
from scipy.linalg import expm
from scipy.sparse import csc_array, vstack

from .cases import SEED
from .processes import timed
from .report import Option, columns, lines, read, save

LEVEL = 0.95
COVERED = columns("of | interval | covered:d | sets=n_sets:d | coverage:.1% | error:.1% | bias:.4f")
COSTS = columns("fit | rows:,d | columns:,d | cpu=cpu_seconds:.2f | seconds:.2f | of one=ratio:.2f")


RATES = {"ill": 0.5, "dead": 0.25, "later": 0.8}  # per unit of time, at x = 0
EFFECTS = {"ill": 0.6, "dead": 0.3, "later": -0.4}  # of the first column, 0 or 1
HORIZON, START = 1.5, 0.5


def main_states(arguments=None):
    """How often intervals of incidences, probabilities of states and average risks hold the truth.

    Persons fall ill, die, or die after they fell ill, at constant rates that a column raises by
    0.6, 0.3 and -0.4; another one is not of use. Follow-up ends evenly between 0.5 and 3. What is
    estimated is by the time 1.5, for a row with both columns at 1; the average risk is that of
    any event, if all had the first column, less that if none had.
    """
    options = read(
        "states",
        main_states.__doc__,
        arguments,
        data_sets=Option(500, quick=20),
        replicates=Option(200, quick=20),
        rows=400,
    )
    warnings.simplefilter("ignore")
    kept = {}
    for seed in range(options.data_sets):
        data = _draw(options.rows, np.random.default_rng([SEED, seed]))
        for key, interval in _intervals(*data, options.replicates, seed).items():
            kept.setdefault(key, []).append(interval)
        if seed % 50 == 49:
            print(f"{seed + 1} data sets", file=sys.stderr, flush=True)
    results = [_judge(*key, found) for key, found in kept.items()]
    save(options, results=results)
    print(lines(COVERED, results))


def _draw(n, rng):
    """Columns, times of illness and death (infinite for none), and ends of follow-up."""
    X = (rng.random((n, 2)) < 0.5).astype(float)
    rate = {name: RATES[name] * np.exp(EFFECTS[name] * X[:, 0]) for name in RATES}
    ill, dead = (rng.exponential(size=n) / rate[name] for name in ("ill", "dead"))
    is_ill = ill < dead
    dead = np.where(is_ill, ill + rng.exponential(size=n) / rate["later"], dead)
    return X, np.where(is_ill, ill, np.inf), dead, rng.uniform(0.5, 3.0, n)


def _intervals(X, ill, dead, end, n_replicates, seed):
    """Lower and upper ends, estimates and the truth, by what they are of and their kind."""
    from sksurvgpu import (
        CauseSpecificCox,
        CoxLassoCCD,
        MultiStateCox,
        average_risk,
        bootstrap,
        competing_risks,
        multi_state,
        probability_intervals,
    )

    free, who, found = CoxLassoCCD(alpha=0.0, n_jobs=1), [[1.0, 1.0]], {}

    def keep(name, kind, result, truth):
        found[name, kind] = (result.lower[0, 0], result.upper[0, 0], result.estimate[0, 0], truth)

    time = np.minimum(np.minimum(ill, dead), end)
    code = np.where(time < end, np.where(time == ill, 1, 2), 0)
    y = competing_risks(code, time)
    causes = CauseSpecificCox(free, shared=[]).fit(X, y)
    draws = bootstrap(
        causes.joint_, *causes.stack(X, y)[:2], n_replicates=n_replicates, random_state=seed
    )
    truth = _incidence(1.0)
    keep("incidence", "standard error", probability_intervals(causes, X, y, who, HORIZON), truth)
    drawn = probability_intervals(causes, X, y, who, HORIZON, bootstrap=draws)
    keep("incidence", "bootstrap", drawn, truth)
    fell_ill = np.flatnonzero(np.minimum(ill, end) == ill)
    place = np.append(np.arange(len(X)), fell_ill)
    is_later = np.arange(len(place)) >= len(X)
    start = np.where(is_later, ill[place], 0.0)
    until = np.where(is_later, np.minimum(dead, end)[place], time[place])
    dies = np.where((until == dead[place]) & (until < end[place]), "dead", "")
    states = multi_state(
        np.where(is_later, "ill", "well"),
        np.where(~is_later & (until == ill[place]), "ill", dies),
        start,
        until,
        place,
    )
    model = MultiStateCox(free).fit(X[place], states)
    for name, state, since in (("ill from well", "well", 0.0), ("ill from ill", "ill", START)):
        given = {"of": "ill", "state": state, "start": since}
        result = probability_intervals(model, X[place], states, who, HORIZON, **given)
        keep(name, "standard error", result, _occupation(state, since))
    one = CoxLassoCCD(alpha=0.0, n_jobs=1).fit(X, y_one := _first_event(y))
    draws = bootstrap(one, X, y_one, n_replicates=n_replicates, random_state=seed)
    table = average_risk(
        one, X, y_one, {"none": {0: 0}, "all": {0: 1}}, HORIZON, bootstrap=draws
    ).contrasts.iloc[0]
    ends = table[["difference_lower", "difference_upper", "difference"]]
    found["average risk", "bootstrap"] = (*ends, _any(1.0) - _any(0.0))
    return found


def _first_event(y):
    from sksurvgpu import surv

    return surv(y["event"] > 0, y["time"])


def _rate(name, x):
    return RATES[name] * np.exp(EFFECTS[name] * x)


def _any(x):
    return 1.0 - np.exp(-(_rate("ill", x) + _rate("dead", x)) * HORIZON)


def _incidence(x):
    total = _rate("ill", x) + _rate("dead", x)
    return _rate("ill", x) / total * (1.0 - np.exp(-total * HORIZON))


def _occupation(state, since):
    ill, dead, later = (_rate(name, 1.0) for name in RATES)
    generator = [[-ill - dead, ill, dead], [0.0, -later, later], [0.0, 0.0, 0.0]]
    return expm(np.array(generator) * (HORIZON - since))[["well", "ill"].index(state), 1]


def _judge(name, kind, found):
    lower, upper, estimate, truth = np.array(found).T
    share = float(np.mean((lower <= truth) & (truth <= upper)))
    error = float(np.sqrt(share * (1.0 - share) / len(found)))
    result = {"of": name, "interval": kind, "covered": round(share * len(found))}
    result |= {"n_sets": len(found), "coverage": share, "error": error}
    return {**result, "bias": float(np.mean(estimate - truth))}


def main_hazards(arguments=None):
    """What several hazards cost beside one fit of all events: kinds of events, and transitions.

    Sparse indicators of `simulate_cox`, of which 5 % are 1; three kinds of events in turn, or an
    illness-death model, whose second rows have the columns of the first.
    """
    options = read(
        "hazards",
        main_hazards.__doc__,
        arguments,
        rows=Option(1_000_000, quick=5_000),
        columns=Option(1_000, quick=50),
        state_rows=Option(100_000, quick=5_000),
        state_columns=Option(500, quick=50),
        alpha=0.002,
    )
    warnings.simplefilter("ignore")
    results, one = [], 0.0
    for name, size, prepare in (
        ("causes", (options.rows, options.columns), _causes),
        ("illness-death", (options.state_rows, options.state_columns), _transitions),
    ):
        for _, _, call in prepare(5_000, 50, options.alpha):  # compiles
            call()
        for fit, shape, call in prepare(*size, options.alpha):
            _, spent = timed(call)
            one = spent["cpu_seconds"] if fit == "all events" else one
            result = {"fit": f"{name}: {fit}", "rows": shape[0], "columns": shape[1], **spent}
            results.append(result | {"ratio": result["cpu_seconds"] / one})
            save(options, results=results)
    print(lines(COSTS, results))


def _causes(n, p, alpha):
    from sksurvgpu import CauseSpecificCox, CoxLassoCCD, competing_risks
    from sksurvgpu.datasets import simulate_cox

    data = simulate_cox(n, p, random_state=0)
    event, time = (data.y[name] for name in data.y.dtype.names[:2])
    y = competing_risks(np.where(event, 1 + np.arange(n) % 3, 0), time)
    one = CoxLassoCCD(alpha=alpha, n_jobs=1)
    return [
        ("all events", (n, p), lambda: one.fit(data.X, data.y)),
        ("three kinds", (n, p), lambda: CauseSpecificCox(one).fit(data.X, y)),
        ("one fit of all", (n, p), lambda: CauseSpecificCox(one, shared=[]).fit(data.X, y)),
        ("pulled", (n, p), lambda: CauseSpecificCox(one, between=0.5).fit(data.X, y)),
    ]


def _transitions(n, p, alpha):
    from sksurvgpu import CoxLassoCCD, MultiStateCox, multi_state, surv
    from sksurvgpu.datasets import simulate_cox

    data, rng = simulate_cox(n, p, random_state=0), np.random.default_rng(SEED)
    event, time = (data.y[name] for name in data.y.dtype.names[:2])
    is_ill = event & (rng.random(n) < 0.6)
    place = np.append(np.arange(n), np.flatnonzero(is_ill))
    is_later = np.arange(len(place)) >= n
    start = np.where(is_later, time[place], 0.0)
    until = time[place] + is_later * rng.exponential(np.median(time), len(place))
    dies = np.where(is_later | event[place] & ~is_ill[place], "dead", "")
    becomes = np.where(~is_later & is_ill[place], "ill", dies)
    y = multi_state(np.where(is_later, "ill", "well"), becomes, start, until, place)
    X = csc_array(vstack([csc_array(data.X), csc_array(data.X)[is_ill]]))
    one = CoxLassoCCD(alpha=alpha, n_jobs=1)
    all_events = surv(becomes != "", until, start=start)
    shape = len(place), p
    return [
        ("all events", shape, lambda: one.fit(X, all_events)),
        ("three transitions", shape, lambda: MultiStateCox(one).fit(X, y)),
        ("pulled", shape, lambda: MultiStateCox(one, between=0.5).fit(X, y)),
    ]
