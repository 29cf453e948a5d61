"""Rows that differences of a site's sums are of: cuts, Efron's ties, and columns nearly alike."""

from dataclasses import replace
from functools import partial
from itertools import product

import numpy as np
import pytest
from scipy.sparse import csc_array

from sksurvgpu import CoxLassoCCD, FineGrayCCD, LogisticCCD, competing_risks, surv
from sksurvgpu.backends.sums import messages as m
from sksurvgpu.backends.sums.part import Part
from sksurvgpu.data.design.columns import build_design
from sksurvgpu.estimators._partition import model_text, read_rows
from sksurvgpu.federated import Rules
from sksurvgpu.federated import grid as grids
from sksurvgpu.federated.differences import find_near, smallest_cut, tell_few
from sksurvgpu.federated.guard import Guard
from sksurvgpu.federated.ledger import Ledger
from sksurvgpu.federated.reading import Reader
from sksurvgpu.federated.rules import NotReleasedError, find_absent
from sksurvgpu.federated.times import candidates, choose_times, flags_of

pytestmark = pytest.mark.filterwarnings("ignore:times are so coarse")

# Of sites whose sums are those of the rows as they are.
Exact = partial(Rules, blur=0)
OFF = Exact(min_rows=1, largest_share=1.0)
EFRON, BRESLOW = model_text(CoxLassoCCD(ties="efron")), model_text(CoxLassoCCD())


def in_sums(first, second, numbers):
    """Rows of which the numbers at both ends differ, for all numbers of the nodes."""
    nodes = [*np.unique(first), *(np.unique(second) + 100)]
    for chosen in product(range(numbers), repeat=len(nodes)):
        number = dict(zip(nodes, chosen, strict=True))
        yield np.array([number[i] != number[j + 100] for i, j in zip(first, second, strict=True)])


def random_groups(rng, most):
    n, a, b = (int(rng.integers(1, each)) for each in (28, most, most))
    first = rng.integers(0, a, n)
    return first, (first + rng.integers(0, 2, n)) % b if n % 2 else rng.integers(0, b, n)


@pytest.mark.parametrize("seed", range(16))
def test_smallest_cut_is_of_as_few_rows_as_any_combination_has(seed):
    rng = np.random.default_rng(seed)
    numbers = 2 + seed % 2
    first, second = random_groups(rng, 7 if numbers == 2 else 4)
    sizes = {int(chosen.sum()) for chosen in in_sums(first, second, numbers)} - {0}
    for enough in (1, 3, 10, 99):
        assert smallest_cut(first, second, enough) == min(sizes | {enough})


def stoer_wagner(first, second):
    """Smallest cut of a connected graph, by merging two nodes after each order of all."""
    n = first.max() + second.max() + 2
    weight = np.zeros((n, n))
    np.add.at(weight, (first, second + first.max() + 1), 1.0)
    weight, found = weight + weight.T, np.inf
    while len(weight) > 1:
        reach, order = weight[0].copy(), [0]
        while len(order) < len(weight):
            reach[order] = -np.inf
            order.append(int(reach.argmax()))
            degree = reach[order[-1]]
            reach += weight[order[-1]]
        last, before = order[-1], order[-2]
        found = min(found, degree)
        weight[before] += weight[last]
        weight[:, before] = weight[before]
        weight[before, before] = 0.0
        weight = np.delete(np.delete(weight, last, 0), last, 1)
    return found


@pytest.mark.parametrize("seed", range(5))
def test_smallest_cut_of_larger_graphs_is_that_of_another_method(seed):
    """... which have two halves with few rows between them."""
    rng = np.random.default_rng(seed)
    half = rng.integers(0, 2, 900)
    first, second = half * 9 + rng.integers(0, 9, 900), half * 14 + rng.integers(0, 14, 900)
    across = rng.choice(900, 3 + seed, replace=False)
    second[across] = (second[across] + 14) % 28
    first, second = (np.unique(labels, return_inverse=True)[1] for labels in (first, second))
    expected = stoer_wagner(first, second)
    assert expected <= 3 + seed
    assert smallest_cut(first, second, 100) == expected


@pytest.mark.parametrize("seed", range(16))
def test_smallest_cut_has_no_more_persons_than_any_combination(seed):
    rng = np.random.default_rng(seed)
    first, second = random_groups(rng, 5)
    unit = rng.integers(0, 1 + len(first) // 2, len(first))
    persons = {len(np.unique(unit[chosen])) for chosen in in_sums(first, second, 2)} - {0}
    assert 0 < smallest_cut(first, second, 99, unit) <= min(persons | {99})
    alone = np.arange(len(first))
    assert smallest_cut(first, second, 9, alone) == smallest_cut(first, second, 9)


def potentials(ends, numbers, ground=None):
    """Rows of which the numbers at both ends differ, for all numbers of nodes in common."""
    nodes = np.unique(ends)
    for chosen in product(range(numbers), repeat=len(nodes)):
        number = dict(zip(nodes, chosen, strict=True))
        if number.get(ground, 0) == 0:
            yield np.array([number[i] != number[j] for i, j in ends])


@pytest.mark.parametrize("seed", range(16))
def test_smallest_cut_of_labels_in_common_is_that_of_any_potentials(seed):
    """... whether or not there is a ground, whose number is 0."""
    rng = np.random.default_rng(seed)
    ends = np.sort(rng.integers(0, rng.integers(2, 7), (int(rng.integers(1, 25)), 2)))
    for numbers, ground in product((2, 3), (None, 0)):
        sizes = {int(chosen.sum()) for chosen in potentials(ends, numbers, ground)} - {0}
        for enough in (1, 3, 10, 99):
            assert smallest_cut(*ends.T, enough, shared=True) == min(sizes | {enough})
    unit = rng.integers(0, 1 + len(ends) // 2, len(ends))
    persons = {len(np.unique(unit[chosen])) for chosen in potentials(ends, 2)} - {0}
    assert 0 < smallest_cut(*ends.T, 99, unit, shared=True) <= min(persons | {99})


def reader_at(arguments, times, rules):
    """Reader whose agreed times are these, in one stratum."""
    reader = Reader(arguments, rules, Ledger())
    times = np.asarray(times, dtype=float)
    reader.fix(grids.Times(np.zeros(1, np.int64), times, np.array([0, len(times)])), times[-1])
    return reader


def part_of(arguments, model, reader, of_others=()):
    """Partition of the rows that a reader leaves, arranged by itself; others have events, too."""
    part = Part(lambda: arguments, lambda text, _: reader.read(text))
    told = part.answer(m.Describe(model)).tables
    times = np.union1d(told["time"], of_others)
    n_cells = len(times) + 1
    tables = {
        "part": np.zeros(1, np.int64),
        "center": np.zeros(arguments["X"].n_columns),
        "labels_strata": told["labels"],
        "event_time": times,
        "event_ptr": np.array([0, len(times)]),
        "bin_end": np.array([n_cells - 1]),
        "few": np.ones(1, bool),
    }
    part.answer(m.Arrange(model, tables, "it"))
    return part


def sums_at(part, coef):
    """Sums by cell that are told at a point."""
    request = m.Evaluate(m.Recipe(), m.Coef.of(np.asarray(coef)), shift=0.0)
    return part.answer(m.Ask("it", (request,))).of[0]


@pytest.fixture
def rows_with_one_censored():
    """Rows of four times, of which one has one row without an event among many with one."""
    rng = np.random.default_rng(3)
    n, p = 400, 8
    X = np.column_stack([rng.normal(size=(n, 4)), rng.random((n, 4)) < 0.4]).astype(float)
    time = np.repeat([10.0, 20.0, 30.0, 40.0], n // 4)
    event = rng.random(n) < 0.5
    event[time == 20.0] = True
    event[130] = False
    assert X.shape[1] == p
    return {"X": build_design(X), "y": surv(event, time)}, X


def test_deaths_beside_exits_tell_a_censored_row_where_times_may_have_few(rows_with_one_censored):
    arguments, X = rows_with_one_censored
    reader = reader_at(arguments, [10.0, 20.0, 30.0, 40.0], OFF)
    part, step = part_of(arguments, EFRON, reader), 0.5

    def censored(coef):
        tables = sums_at(part, coef).tables
        return (tables["risk"] - tables["tied"])[1]

    assert censored(np.zeros(8)) == pytest.approx(1.0)
    found = [np.log(censored(step * row)) / step for row in np.eye(8)]
    np.testing.assert_allclose(found, X[130], atol=1e-12)
    for rules in (Exact(min_rows=2), Exact()):
        reader = reader_at(arguments, [10.0, 20.0, 30.0, 40.0], rules)
        with pytest.raises(NotReleasedError, match=r"(?s)\(censored\).*rows_per_time"):
            reader.read(EFRON)
        reader_at(arguments, [10.0, 20.0, 30.0, 40.0], rules).read(BRESLOW)


def test_agreed_times_of_efrons_ties_have_enough_rows_without_events(rows_with_one_censored):
    arguments, _ = rows_with_one_censored
    days, none, cells = np.array([10.0, 20.0, 30.0, 40.0]), np.zeros(1, np.int64), {}
    spans = candidates(len(days))
    for model in (BRESLOW, EFRON):
        reader = Reader(arguments, Exact(), Ledger())
        reader.begin(model, days, 0)
        flags = flags_of(reader.propose(model), 10, none, spans)
        times = choose_times(none, days, spans, flags)
        reader.fix(times, days[-1])
        cells[model] = times.times.tolist()
        tables = sums_at(part_of(arguments, model, reader), np.zeros(8)).tables
        for kind, counts in tables.items():
            assert np.all(counts >= 9.999), kind
    assert cells[BRESLOW] == [10.0, 20.0, 30.0, 40.0]
    assert cells[EFRON] == [10.0, 30.0, 40.0]
    others = tables["risk"] - tables["tied"]
    event, time = arguments["y"]["event"], arguments["y"]["time"]
    expected = [np.sum(~event & (time > a) & (time <= b)) for a, b in ((0, 10), (10, 30), (30, 99))]
    np.testing.assert_allclose(others, expected)
    assert min(expected) >= 10


def test_sums_over_events_tell_few_rows_without():
    """Where all rows but three have an event, sums of all less those of events are of these."""
    rng = np.random.default_rng(0)
    X, time, event = rng.normal(size=(90, 5)), np.repeat([1.0, 2.0, 3.0], 30), np.ones(90, bool)
    event[[4, 50, 51]] = False
    arguments = {"X": build_design(X), "y": surv(event, time)}
    part = part_of(arguments, BRESLOW, reader_at(arguments, [1.0, 2.0, 3.0], OFF))
    step = 1e-5
    evaluated = [[sums_at(part, s * step * row) for s in (-1, 1)] for row in np.eye(5)]
    whole = [np.sum(b.tables["risk"] - a.tables["risk"]) / (2 * step) for a, b in evaluated]
    deaths = [(b.loglik - a.loglik) / (2 * step) for a, b in evaluated]
    np.testing.assert_allclose(np.subtract(whole, deaths), X[~event].sum(axis=0), atol=1e-5)
    with pytest.raises(NotReleasedError, match="a grid that ends earlier"):
        reader_at(arguments, [1.0, 2.0, 3.0], Exact(min_rows=4)).read(BRESLOW)
    reader_at(arguments, [1.0, 2.0], Exact(min_rows=4)).read(BRESLOW)  # 30 more


def delayed(counts, rng):
    """Rows by when they enter, end, and have an event or not; three columns."""
    kinds = np.repeat(np.array(list(counts), float), list(counts.values()), axis=0)
    start, time, event = kinds.T
    y = surv(event > 0, time, start=start)
    return {"X": build_design(rng.normal(size=(len(y), 3))), "y": y}


def test_exits_less_entries_are_of_enough_rows():
    """Who enters at 11 ends at 20, and two others end when they enter: all others are apart."""
    counts = {(0, 30): 20, (11, 20): 20}
    counts = {(*when, event): n for when, n in counts.items() for event in (0, 1)}
    arguments, times = delayed(counts | {(11, 30, 1): 2}, np.random.default_rng(5)), [10, 20, 30]
    reader, coef = reader_at(arguments, times, Exact(min_rows=2)), np.array([0.3, -0.5, 0.2])
    risk = sums_at(part_of(arguments, BRESLOW, reader, [10.0]), coef).tables["risk"].sum(axis=0)
    assert -(risk[1] + risk[2]) == pytest.approx(np.exp(arguments["X"].dot(coef)[80:]).sum())
    with pytest.raises(NotReleasedError, match=r"exits less entries .*rows_per_time"):
        reader_at(arguments, times, Exact(min_rows=3)).read(BRESLOW)
    reader_at(arguments, [20, 30], Exact(min_rows=3)).read(BRESLOW)


def test_exits_less_entries_and_deaths_are_of_enough_rows():
    """Who enters at 10 has no event at 20, but for three, and who ends at 10 has one."""
    counts = {(0, 10, 1): 30, (0, 20, 1): 30, (10, 20, 0): 30, (10, 20, 1): 3}
    arguments = delayed(counts, np.random.default_rng(6))
    reader = reader_at(arguments, [10, 20], Exact(min_rows=3))
    tables = sums_at(part_of(arguments, EFRON, reader), np.zeros(3)).tables
    assert (tables["risk"].sum(axis=0) - tables["tied"])[1:].sum() == pytest.approx(-3)
    with pytest.raises(NotReleasedError, match="exits less entries"):
        reader_at(arguments, [10, 20], Exact(min_rows=4)).read(EFRON)
    reader_at(arguments, [10, 20], Exact(min_rows=30)).read(BRESLOW)


def test_sums_by_stratum_and_by_group_of_censoring_differ_in_enough_rows():
    """Of a stratum all rows but four are of a group: its sums less the group's are of these."""
    stratum = np.repeat(["a", "b"], 120)
    group = stratum.copy()
    status = np.arange(240) % 3
    group[np.flatnonzero(stratum == "a")[:12]] = "b"
    y = competing_risks(status, np.full(240, 5.0), stratum=stratum)
    rows = read_rows(model_text(FineGrayCCD()), {"X": build_design(np.ones((240, 1))), "y": y})
    outcome = replace(
        rows.outcome,
        censoring_group=(group == "b").astype(np.int64),
        censoring_labels=np.array(["a", "b"]),
    )
    assert not grids.find_few(outcome, None, 10)
    assert tell_few(rows.outcome, None, False, 10) is None
    assert "group of censoring" in tell_few(outcome, None, False, 10)
    assert tell_few(outcome, None, False, 4) is None
    ready = np.concatenate([np.repeat([1, 2, 1, 0], 40), np.zeros(80)]).astype(np.uint8)
    ready[156:160] = 2  # of the first stratum, the only competing events of the second group
    stratum = np.repeat([0, 0, 0, 0, 1, 1], 40)
    group = np.repeat([0, 0, 1, 0, 1, 1], 40)
    group[156:160] = 1
    outcome = replace(
        outcome, status=ready, event=ready == 1, stratum=stratum, censoring_group=group
    )
    assert "group of censoring" in tell_few(outcome, None, False, 5)
    assert tell_few(outcome, None, False, 4) is None


def test_folds_are_looked_at_for_differences(rows_with_one_censored):
    (arguments, X), times = rows_with_one_censored, [10.0, 20.0, 30.0, 40.0]
    event, X = arguments["y"]["event"].copy(), X[:, [0, 4, 4]]
    event[130:142] = False  # the only ones of their time
    X[142:157, 2] = 1.0 - X[142:157, 2]
    arguments = {"X": build_design(X), "y": surv(event, arguments["y"]["time"])}
    others = np.setdiff1d(np.arange(400), np.arange(130, 157))[::3]

    def check(model, without):
        reader = reader_at(arguments, times, Exact())
        weight = np.ones(400)
        weight[[*others, *without]] = 0.0
        pattern = part_of(arguments, model, reader).pattern_of(m.Recipe())
        Guard(Exact(), pattern.arranged, weight)
        assert reader.absent == ()

    check(EFRON, [])
    check(BRESLOW, [130, 131])
    with pytest.raises(NotReleasedError, match="exits less deaths"):
        check(EFRON, [130, 131])
    with pytest.raises(NotReleasedError, match="in a fold or a draw, fewer than 10 rows end"):
        check(BRESLOW, np.setdiff1d(np.flatnonzero(~event), others)[9:])
    check(BRESLOW, np.setdiff1d(np.flatnonzero(~event), others)[10:])
    with pytest.raises(NotReleasedError, match="two columns would differ in fewer than 10 rows"):
        check(BRESLOW, [142, 143, 144])


@pytest.mark.parametrize("seed", range(6))
def test_persons_who_have_a_column_or_lack_it_are_counted_in_every_cell(seed):
    rng = np.random.default_rng(seed)
    X = (rng.random((90, 12)) < rng.choice([0.05, 0.5, 0.95], 12)).astype(float)
    X[:, :2] *= rng.normal(size=(90, 2))  # measured values, which nobody lacks
    person = rng.integers(0, 40, 90) if seed % 2 else np.arange(90)
    y = surv(rng.random(90) < 0.5, np.full(90, 10.0), subject=person)
    arguments = {"X": build_design(X), "y": y}
    pattern = part_of(arguments, BRESLOW, reader_at(arguments, [10.0], OFF)).pattern_of(m.Recipe())
    guard = Guard(OFF, pattern.arranged, None)
    guard._rules = Exact(min_rows=5)
    order, cell = pattern.arranged.plan.order, rng.integers(0, 3, 90)
    live = np.flatnonzero(rng.random(90) < 0.8)
    expected = []
    for k, x in enumerate(X[order].T != 0.0):
        sides = [x] if k < 2 else [x, ~x]
        counts = [
            len(np.unique(person[order][live][side[live] & (cell[live] == c)]))
            for side, c in product(sides, range(3))
        ]
        expected.append(any(0 < n < 5 for n in counts))
    assert guard._rare_at(np.arange(12), cell, live).tolist() == expected
    assert 0 < sum(expected) < 12


def forms_of(x):
    """A column, and the marks of both of its values where it has two."""
    values = np.unique(x)
    return [x, *((x == value).astype(float) for value in values if len(values) == 2)]


def near_by_force(X, unit, min_rows):
    kept, near = [], np.zeros(X.shape[1], bool)
    for j in range(X.shape[1]):
        pairs = [(a, b) for i in kept for a in forms_of(X[:, i]) for b in forms_of(X[:, j])]
        near[j] = any(0 < len(np.unique(unit[a != b])) < min_rows for a, b in pairs)
        kept += [] if near[j] else [j]
    return near


@pytest.mark.parametrize("seed", range(12))
def test_columns_nearly_alike_are_those_of_a_search_of_all_pairs(seed):
    rng = np.random.default_rng(seed)
    n, k = int(rng.integers(80, 300)), int(rng.integers(2, 7))
    rows = np.arange(n)
    unit = None if seed % 3 else np.unique(rng.integers(0, n // 3, n), return_inverse=True)[1]
    base = (rng.random((n, 4)) < rng.uniform(0.3, 0.7, 4)).astype(float)
    base[:, 1] += seed % 2  # two values, and no zero
    base[:, 2] *= rng.choice([1.0, 2.0, 3.0], n)
    base[:, 3] = rng.normal(size=n)
    X = base[:, rng.integers(0, 4, 12)].copy()
    for x in X.T:
        values = np.unique(x)
        if len(values) == 2:
            x[:] = rng.choice([1.0, 2.5]) * (values.sum() - x if rng.random() < 0.5 else x)
        changed = rng.choice(n, rng.integers(0, 2 * k), replace=False)
        x[changed] = np.where(rng.random(len(changed)) < 0.5, 0.0, x[rng.permutation(changed)])
    X[:, -1], X[0, -1] = X[:, 0], X[0, 0] + 1.0
    expected = near_by_force(X, rows if unit is None else unit, k)
    assert expected[-1]
    for table in (X, csc_array(X)):
        np.testing.assert_array_equal(find_near(build_design(table), unit, k), expected)
    assert not find_near(build_design(X), unit, 1).any()


def test_columns_of_which_two_rows_have_none_are_nearly_alike():
    has = np.zeros((40, 2))
    has[:19, 0] = has[19:38, 1] = 1.0  # each of less than half of the rows
    for table in (has, csc_array(has)):
        assert find_near(build_design(table), None, 3).tolist() == [False, True]
        assert not find_near(build_design(table), None, 2).any()


def test_columns_that_differ_in_one_person_tell_when_it_ended(rows_with_one_censored):
    arguments, X = rows_with_one_censored
    times = [10.0, 20.0, 30.0, 40.0]
    hazard = np.array([0.1, 0.25, 0.45, 0.8])
    X = X[:, [4, 0, 4, 5]]
    for person in (130, 7, 250, 251):
        X[:, 2] = X[:, 0]
        X[person, 2] = 1.0 - X[person, 2]
        arguments = arguments | {"X": build_design(X)}
        request = m.Slopes(
            m.Recipe(), m.Coef.of(np.zeros(4)), {"hazard": hazard, "edges": np.zeros((1, 2))}
        )
        part = part_of(arguments, BRESLOW, reader_at(arguments, times, OFF))
        [sums] = part.answer(m.Ask("it", (request,))).of
        told = abs(sums.tables["gradient"][2] - sums.tables["gradient"][0])
        guesses = abs(np.subtract.outer([0.0, 1.0], hazard))
        event, time = np.unravel_index(np.argmin(abs(guesses - told)), guesses.shape)
        assert guesses[event, time] == pytest.approx(told)
        assert (event, times[time]) == tuple(arguments["y"][["event", "time"]][person])
        reader = reader_at(arguments, times, Exact())
        [sums] = part_of(arguments, BRESLOW, reader).answer(m.Ask("it", (request,))).of
        assert reader.absent == ("2",)
        assert sums.tables["gradient"][2] == 0.0


def test_columns_that_differ_in_few_persons_of_a_piece_of_time_are_absent():
    rng = np.random.default_rng(2)
    X = (rng.random((300, 3)) < 0.4).astype(float)
    time = np.repeat([10.0, 20.0], 150)
    X[:, 2] = X[:, 0]
    X[135:155, 2] = 1.0 - X[135:155, 2]  # 20 in all, and five who are there after 15
    arguments = {"X": build_design(X), "y": surv(rng.random(300) < 0.5, time)}

    def absent(**given):
        rows = read_rows(model_text(CoxLassoCCD(**given)), arguments)
        return np.flatnonzero(find_absent(rows, Exact())).tolist()

    assert absent() == []
    assert absent(time_varying={0: [15.0], 2: [15.0]}) == [2]
    assert absent(time_varying={0: [15.0], 1: [15.0]}) == []


def test_columns_with_rare_ones_among_them_and_persons():
    """A rare column is no reason for another to go; rows of a person are one."""
    rng = np.random.default_rng(4)
    X = np.repeat(rng.random((40, 3)) < 0.5, 4, axis=0).astype(float)
    X[:, 0], X[:8, 0] = 0.0, 1.0
    X[:, 2] = X[:, 1]
    X[:36, 2] = 1.0 - X[:36, 2]  # nine persons, 36 rows
    y = (np.arange(160) % 2).astype(int)
    rows = read_rows(model_text(LogisticCCD()), {"X": build_design(X), "y": y})
    assert find_absent(rows, Exact()).tolist() == [True, False, False]
    rows = replace(rows, unit=np.repeat(np.arange(40), 4))
    assert find_absent(rows, Exact()).tolist() == [True, False, True]
