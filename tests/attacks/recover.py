"""What can be recovered of rows from the sums of fits over sites, without rules and with them.

::

    python -m tests.attacks.recover
    python -m tests.attacks.recover --write docs/guide/attacks-on-sites.csv

Who attacks follows the protocol and solves for rows from what it is told, unless it says otherwise.
All rows are made up, so that what is recovered can be compared with what is true.
"""

import argparse
import csv
from hashlib import sha256
from pathlib import Path

import numpy as np
from scipy.sparse import csr_array

from sksurvgpu import CoxLassoCCD, surv
from sksurvgpu.backends.sums.messages import Evaluate, Slopes
from sksurvgpu.federated import Coordinator, RefusedError, Rules, keys, wire
from sksurvgpu.federated.words import PRIME

from .counting import FINE, OF_ALL_SUMS, Found
from .kinds import FEW, GRID, rows_of
from .listening import NO_RULES, listen, split
from .whole_numbers import solve_whole

N_COLUMNS = 12  # of ones, of which combinations are too many to be listed
N_ROWS = 700  # of each site
WITHOUT_BLUR = Rules(blur=0.0)
N_TRIES = 100  # rows of a table
LONELY = 405.0  # between two times of the grid that nobody else has


def _options(rules):
    return {"grid": GRID, **(FINE if rules is NO_RULES else {})}


def _sites(X, y, rules):
    """Three sites, or one without rules: each has rows at all times."""
    return split(X, y, rules, 1 if rules is NO_RULES else 3)


def _rows(seed=1, n_sites=3):
    """Rows of which none ends in the cell of LONELY."""
    X, time, event = rows_of(N_ROWS * n_sites, N_COLUMNS, seed)
    return X, np.where(abs(time - LONELY) <= 5.0, LONELY + 7.0, time), event


def _cox(ties="breslow"):
    return CoxLassoCCD(alpha=0.0005, ties=ties)


def _columns_of(told, sums):
    """Columns of ones of a row whose exp(x'b) are the sums of the cell of LONELY; None if none's.

    `sums` is a function from the tables of an evaluation to sums by cell.
    """
    points = list(told.points(Evaluate))
    if not points:
        return None
    cell = 1 + np.searchsorted(told.problem.plan.cell_time[1:], LONELY)
    equations = np.array([at.coef.vector(N_COLUMNS) for at, _ in points])
    shift = np.array([at.shift for at, _ in points])
    of_cell = np.array([sums(answer.tables)[cell] for _, answer in points])
    if not np.isclose(of_cell[0], 1.0) or not (of_cell > 0.0).all():
        return None
    logs = np.log(of_cell) + shift
    found, fits = solve_whole(equations, logs[:, None], np.full((N_COLUMNS, 1), 0.5), 1e8)
    return found[:, 0] if fits[0] else None


def _match(x, found):
    return Found(0 if found is None else int((x == found).sum()), len(x), "covariates")


def alone_in_cell(rules):
    """A cell of one row is exp(x'b)."""
    X, time, event = _rows()
    time[5], event[5] = LONELY, True
    told = listen(_cox(), _sites(X, surv(event, time), rules), **_options(rules))
    return _match(X[5], _columns_of(told, lambda tables: tables["risk"]))


def alone_censored(rules):
    """Exits less deaths of a cell in which one row is censored."""
    X, time, event = _rows()
    dying = np.arange(len(X)) % 10 == 3
    time[dying], event[dying] = LONELY, True
    time[5], event[5] = LONELY, False
    told = listen(_cox("efron"), _sites(X, surv(event, time), rules), **_options(rules))
    return _match(X[5], _columns_of(told, lambda tables: tables["risk"] - tables["tied"]))


def alone_between(rules):
    """Exits less entries of a cell where as many enter, with the same columns, but for one.

    These are alike without being the same persons, as far as `subject` says.
    """
    X, time, event = _rows()
    start = np.zeros(len(X))
    leaving = np.arange(len(X)) % 10 == 3
    leaving[5] = True
    entering = np.flatnonzero(leaving & (np.arange(len(X)) != 5)) + 1
    X[entering], start[entering] = X[entering - 1], LONELY + 6.0
    time[leaving], event[leaving] = LONELY, True
    time[entering] = np.maximum(time[entering], LONELY + 30.0)
    for number, begin in ((6, 150.0), (7, 250.0), (8, 350.0), (9, 402.0)):  # as all times need some
        some = np.arange(len(X)) % 10 == number
        start[some], time[some] = begin, np.maximum(time[some], begin + 30.0)
        time[some & (abs(time - LONELY) <= 5.0)] = LONELY + 7.0
    grid = np.array([100.0, 200.0, 300.0, 400.0, 410.0, 600.0, 1200.0])  # agreed as it is
    sites = split(X, surv(event, time, start=start), rules)
    told = listen(_cox(), sites, **_options(rules) | {"grid": grid})
    return _match(X[5], _columns_of(told, lambda tables: tables["risk"].sum(axis=0)))


def rare_value(rules):
    """Sum and sum of squares of a column that one row has."""
    X, time, event = _rows()
    X[:, 3], X[5, 3] = 0.0, 37.25
    told = listen(_cox(), split(X, surv(event, time), rules), **_options(rules))
    return Found(int(told.description.columns[3, 1] == 37.25), 1, "values")


def order_of_value(rules):
    """Order of size of a column that one row has, which each site says in the clear."""
    X, time, event = _rows()
    X[:, 3], X[5, 3] = 0.0, 37.25
    sites, said = split(X, surv(event, time), rules), []

    def keep(data):
        answer = sites["A"].answer(data)
        said.append(wire.decode(answer))
        return answer

    send = {name: site.answer for name, site in sites.items()} | {"A": keep}
    Coordinator(_cox(), send, **_options(rules)).fit()
    return Found(int(2.0 ** said[0].facts["powers"][3] == 64.0), 1, "powers of two")


def _outcome_of(told, number):
    """Time and event of a row whose part of a gradient at no coefficients is a number."""
    at, _ = next(told.points(Slopes))
    hazard = at.tables["hazard"]
    cell, died = np.nonzero(abs(np.array([0.0, 1.0]) - hazard[:, None] - number) < 1e-9)
    return (int(cell[0]), bool(died[0])) if len(cell) == 1 else None


def _judge_outcome(told, number, time, event):
    if told.model is None:
        return Found(0, 1, "outcomes")
    cells = told.problem.plan.cell_time[1:]
    true = 1 + int(np.minimum(np.searchsorted(cells, time), len(cells) - 1)), bool(event)
    return Found(int(_outcome_of(told, number(told)) == true), 1, "outcomes")


def level_without_column(rules, is_sparse=True):
    """All rows less those of a factor's columns: one row has none of these."""
    X, time, event = _rows()
    level = np.arange(len(X)) % 2
    X[:, 3], X[:, 4] = level == 0, level == 1
    X[5, 3:5] = 0.0
    X = csr_array(X) if is_sparse else X
    told = listen(_cox(), split(X, surv(event, time), rules), **_options(rules))

    def number(told):  # the gradient of all rows together is zero
        _, slopes = next(told.points(Slopes))
        return -slopes.tables["gradient"][3:5].sum()

    return _judge_outcome(told, number, time[5], event[5])


def level_without_dense_column(rules):
    """The same of columns that are not sparse."""
    return level_without_column(rules, is_sparse=False)


def alike_columns(rules):
    """Two columns that are the same but for one row."""
    X, time, event = _rows()
    X[:, 4] = X[:, 3]
    X[5, 3:5] = 0.0, 1.0
    told = listen(_cox(), split(X, surv(event, time), rules), **_options(rules))

    def number(told):
        _, slopes = next(told.points(Slopes))
        return slopes.tables["gradient"][4] - slopes.tables["gradient"][3]

    return _judge_outcome(told, number, time[5], event[5])


def _lonely(rules, column, event_of, ties, combine):
    """Row of which alone a number by column and time, or a difference, is exp(x'b)."""
    X, time, event = _rows()
    grid = np.array([300.0, 1200.0])
    column(X)
    event = event_of(X, time, event)
    wald = {"grid": grid, "then": [("wald", {})]}
    told = listen(_cox(ties).set_params(alpha=0.0), split(X, surv(event, time), rules),
                  **_options(rules) | wald)  # fmt: skip
    of_jumps = [pair for pair in told.points(Slopes) if "jumps" in pair[1].tables]
    if not of_jumps:
        return _match(X[5], None)
    at, slopes = of_jumps[0]
    every = (np.arange(2**N_COLUMNS)[:, None] >> np.arange(N_COLUMNS)) & 1
    number = np.log(np.abs(combine(slopes.tables))) + at.top
    return _match(X[5], every[abs(every @ at.coef.vector(N_COLUMNS) - number).argmin()])


def lonely_death(rules):
    """Efron's ties: sums by column and time are told of deaths apart, of which one has a column."""

    def mark(X):
        X[5, 3] = 1.0

    def one_dies(X, time, event):
        time[5] = 200.0
        return event & ((X[:, 3] == 0.0) | (time > 300.0)) | (np.arange(len(X)) == 5)

    return _lonely(rules, mark, one_dies, "efron", lambda tables: tables["tied_jumps"][3, 1])


def lonely_at_a_time(rules):
    """Two columns that differ in one row of a time, and in many at another."""

    def differ(X):
        late = np.arange(len(X)) % 2 == 0
        X[:, 4] = np.where(late, X[:, 4], X[:, 3])
        X[5, 3:5] = 1.0, 0.0

    def early_and_late(X, time, event):
        late = np.arange(len(X)) % 2 == 0
        time[:] = np.where(late, np.maximum(time, 400.0), np.minimum(time, 299.0))
        return event

    def difference(tables):
        return tables["jumps"][3, 1] - tables["jumps"][4, 1]

    return _lonely(rules, differ, early_and_late, "breslow", difference)


def lonely_event(rules):
    """Products of scores along a column of which one row has the event, and 40 % have none."""
    X, time, event = _rows()
    X[:, 3] = np.arange(len(X)) % 5 < 2
    event &= (np.arange(len(X)) % 5 == 2) | (np.arange(len(X)) == 5)
    X[5], event[5] = np.arange(N_COLUMNS) % 3 == 0, True
    robust = {"grid": [600.0, 1200.0], "then": [("wald", {"robust": True})]}
    estimator = CoxLassoCCD(alpha=0.0)
    told = listen(estimator, split(X, surv(event, time), rules), **_options(rules) | robust)
    found = [
        slopes.tables["meat"][3] / slopes.tables["meat"][3, 3] + at.tables["means"].mean(axis=1)
        for at, slopes in told.points(Slopes)
        if "meat" in slopes.tables
    ]
    return _match(X[5], found[0] > 0.5 if found else None)


def masked_words(rules):
    """A site's own words from its messages, of which a site alone has no masks."""
    X, time, event = _rows()
    true, sent, cover = [], [], keys.Circle.cover

    def keep(circle, words, code):
        covered = cover(circle, words, code)
        if circle.name == "A":
            true.append(words)
            sent.append(covered[:-1])
        return covered

    keys.Circle.cover = keep
    try:
        sites = _sites(X, surv(event, time), rules)
        listen(_cox(), sites, **_options(rules))
    finally:
        keys.Circle.cover = cover
    true, sent = np.concatenate(true), np.concatenate(sent)
    linear = abs(np.corrcoef(true.astype(float), sent.astype(float))[0, 1]) * np.sqrt(len(sent))
    uniform = abs(sent.astype(float).mean() / 2.0**61 - 0.5) * np.sqrt(12.0 * len(sent))
    is_told = len(sites) == 1 or linear > 4.0 or uniform > 4.0
    return Found(int((true == sent).sum()) if is_told else 0, len(sent), "words")


def made_up_sum(rules):
    """A sum that is changed on its way, so that the fit goes where its coordinator wants it."""
    X, time, event = _rows()
    sites, n_told = split(X, surv(event, time), rules), []

    def change(name):
        def send(data):
            question = wire.read(data)
            content = question.content
            if not (isinstance(content, wire.Add) and content.number >= 4):
                return sites[name].answer(data)
            words = content.words.copy()
            words[-2] = (int(words[-2]) + 1) % PRIME  # the last digit of the last number
            stamp = {"site": question.site, "about": question.about}
            changed = wire.encode(wire.Add(content.number, words), **stamp)
            answer = wire.read(sites[name].answer(changed))
            if isinstance(answer.content, wire.Covered):
                n_told.append(name)
            about = sha256(data).hexdigest()
            return wire.encode(answer.content, site=name, about=about, rows=answer.rows)

        return send

    try:
        Coordinator(_cox(), {name: change(name) for name in sites}, **_options(rules)).fit()
    except RefusedError:
        return Found(len(n_told), 3, "sites' answers")
    return Found(3, 3, "sites' answers")


def _taken(sites, tries):
    """How many of some programmes sites take part in, the first of which is honest."""
    told = (listen(model, {n: sites[n] for n in names}, **given) for model, names, given in tries)
    return sum(one.model is not None for one in told) - 1


def other_grids(rules):
    """The same fit with other times, for the rows that lie between."""
    X, time, event = _rows()
    sites = split(X, surv(event, time), rules)
    tries = [(_cox(), sites, _options(rules) | {"grid": GRID + k}) for k in range(4)]
    return Found(_taken(sites, tries), 3, "programmes")


def fewer_sites(rules):
    """The same fit without a site, whose sums are the difference."""
    X, time, event = _rows(n_sites=4)
    sites = split(X, surv(event, time), rules, 4)
    tries = [(_cox(), sites, _options(rules))]
    tries += [(_cox(), [n for n in sites if n != left], _options(rules)) for left in "ABCD"]
    return Found(_taken(sites, tries), 4, "programmes")


def other_models(rules, n_models=8):
    """The same rows read for other models: a column from a time on, which cuts rows in two."""
    X, time, event = _rows()
    sites = split(X, surv(event, time), rules)
    cuts = 100.0 * np.arange(1, 1 + n_models)
    models = [CoxLassoCCD(alpha=0.0005, time_varying={0: [cut]}) for cut in cuts]
    tries = [(model, sites, _options(rules)) for model in (_cox(), *models)]
    return Found(_taken(sites, tries), len(models), "programmes")


def all_but_one(rules):
    """The own sums of the only site that does not collude: rows in its cells of few."""
    X, time, event = _rows()
    told = listen(_cox(), split(X, surv(event, time), rules), **_options(rules))
    times = np.unique(told.times.times)
    place = np.minimum(np.searchsorted(times, time[:N_ROWS]), len(times) - 1)
    counts = [np.bincount(place), np.bincount(place[event[:N_ROWS]])]
    few = sum(int(count[count < FEW].sum()) for count in counts)
    return Found(few, sum(int(count.sum()) for count in counts), "rows and deaths")


def one_unknown_row(rules, n_tables=10):
    """Which of two rows is there, for who knows all the others."""
    found = [_one_unknown_row(rules, seed) for seed in range(1, 1 + n_tables)]
    return Found(sum(found), n_tables * N_TRIES, "rows")


def _one_unknown_row(rules, seed):
    X, time, event = _rows(seed)
    told = listen(_cox(), split(X, surv(event, time), rules), **_options(rules))
    (at, answer), *_ = list(told.points(Evaluate))[1:]
    times, w = told.problem.plan.cell_time[1:], np.exp(X @ at.coef.vector(N_COLUMNS) - at.shift)
    place = np.minimum(np.searchsorted(times, time), len(times) - 1)
    cells, right = np.bincount(place, w, len(times)), 0
    for row in range(N_TRIES):
        left = answer.tables["risk"][-len(times) :] - cells
        left[place[row]] += w[row]
        other = (row + 1) % len(X)
        right += abs(left[place[row]] - w[row]) < abs(left[place[other]] - w[other])
    return int(right)


ANYONE, COORDINATOR = "coordinator or a site", "coordinator"
ALL_BUT_ONE = "coordinator and all sites but one"
SINGLE = {
    "cell of one row": (ANYONE, "covariates of a row", alone_in_cell),
    "Efron: exits less deaths": (ANYONE, "covariates of a censored row", alone_censored),
    "exits less entries of rows alike": (ANYONE, "covariates of a row", alone_between),
    "opening: sums of a column": (ANYONE, "value that one row has", rare_value),
    "opening: orders of size": (ANYONE, "size of a value that one row has", order_of_value),
    "level without a column": (ANYONE, "outcome of its only row", level_without_column),
    "the same, X an array": (ANYONE, "outcome of its only row", level_without_dense_column),
    "columns alike but for a row": (ANYONE, "outcome of that row", alike_columns),
    "standard errors, one death of a column": (ANYONE, "covariates of that row", lonely_death),
    "columns alike but for a row at a time": (ANYONE, "covariates of that row", lonely_at_a_time),
    "robust errors, one event of a column": (ANYONE, "covariates of that row", lonely_event),
    "message of a site": (COORDINATOR, "its words", masked_words),
    "changed sum": (COORDINATOR, "sums at a point of its choice", made_up_sum),
    "other grids": (COORDINATOR, "rows between times", other_grids),
    "a site less": (COORDINATOR, "sums of that site", fewer_sites),
    "other models": (COORDINATOR, "rows that only one counts", other_models),
    "collusion": (ALL_BUT_ONE, "rows in cells of fewer than 10", all_but_one),
    "all rows but one known": (ANYONE, "which of two rows is there", one_unknown_row),
}


def table():
    """Lines of the table, as they are found."""
    for name, (who, aim, attack) in SINGLE.items():
        found = (attack(rules) for rules in (NO_RULES, WITHOUT_BLUR, Rules()))
        exact, unblurred, default = map(str, found)
        yield name, who, aim, exact, "", unblurred, default
    for name, (who, aim, attack) in OF_ALL_SUMS.items():
        alone = {"min_sites": 1} if "collusion" in name else {}
        every = {"blur": 0.0, "max_listed": 0}, {"blur": 0.0}, {}
        of_rules = [NO_RULES, *(Rules(**changed, **alone) for changed in every)]
        found = (attack(rules) for rules in of_rules)
        yield name, who, aim, *map(str, found)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--write", type=Path, help="file of comma-separated values, too")
    options = parser.parse_args()
    titles = "attack", "who", "aims at", "rules off"
    titles += "without `max_listed` and `blur`", "without `blur`", "default rules"
    lines = [titles]
    for line in table():
        print(" | ".join(line), flush=True)
        lines.append(line)
    if options.write is not None:
        with open(options.write, "w", encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows(lines)


if __name__ == "__main__":
    main()
