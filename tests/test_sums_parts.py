"""Sums of partitions, joined here by NumPy, are those of the CPU backend over all rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sksurvgpu.backends.cpu.session import Session
from sksurvgpu.backends.cpu.threads import Threads
from sksurvgpu.backends.sums.messages import (
    Arrange,
    Ask,
    Coef,
    Describe,
    Evaluate,
    Recipe,
    Slopes,
    Unarranged,
    Weigh,
)
from sksurvgpu.backends.sums.part import Part, PartRows
from sksurvgpu.data.design.columns import build_design
from sksurvgpu.data.outcomes.survival import Outcome
from sksurvgpu.likelihoods.cox import Cox
from sksurvgpu.likelihoods.fine_gray import FineGray
from sksurvgpu.patterns.carried.plan import plan_competing
from sksurvgpu.patterns.risk_sets import plan as row_plans
from sksurvgpu.patterns.risk_sets.plan import plan_rows
from sksurvgpu.solver.problem import Problem

N, P = 90, 5
GIVEN = Recipe()
EXACT = {"rtol": 1e-12, "atol": 1e-12}


class Data:
    """A small problem: its rows, and the same in partitions."""

    def __init__(self, likelihood, *, n=N, strata=1, seed=0, **has):
        rng = np.random.default_rng(seed)
        self.likelihood, self.has = likelihood, has
        dense, ones = rng.standard_normal((n, 2)), rng.random((n, P - 2)) < 0.3
        self.X = np.column_stack([dense, ones])
        self.time = np.ceil(rng.exponential(6.0, n)) + 1.0
        self.status = rng.choice([0, 1, 2] if likelihood.pattern.has_lanes else [0, 1], n)
        self.status[np.argmin(self.time)] = 0  # a row that is never at risk
        self.time[np.argmin(self.time)] = 0.5
        self.start = np.floor(self.time * rng.random(n)) * (rng.random(n) < 0.5)
        self.stratum = np.unique(rng.integers(0, strata, n), return_inverse=True)[1]
        self.group = rng.integers(0, 3, n)
        weight = np.where(rng.random(n) < 0.1, 0.0, rng.exponential(1.0, n))
        self.weight = weight if has.get("weight") else None
        self.offset = rng.standard_normal(n) if has.get("offset") else None
        self.cuts = (4.0, 8.0) if has.get("pieces") else ()
        self.source, self.piece_ptr = np.arange(P), np.tile([[0, len(self.cuts) + 1]], (P, 1))
        if self.cuts:  # the second column changes at both cut points, the third at one
            self.source = np.array([0, 1, 1, 1, 2, 2, 3, 4])
            self.piece_ptr = np.array(
                [[0, 3], [0, 1], [1, 2], [2, 3], [0, 1], [1, 3], [0, 3], [0, 3]]
            )
        self.coef = rng.standard_normal(len(self.source)) * has.get("scale", 0.5)
        self.n = n

    def outcome(self, rows):
        """Outcome of some rows, whose labels are numbered anew."""
        codes = {}
        if self.stratum.any():
            labels, codes["stratum"] = np.unique(self.stratum[rows], return_inverse=True)
            codes["stratum_labels"] = labels
        if self.has.get("groups"):
            labels, codes["censoring_group"] = np.unique(self.group[rows], return_inverse=True)
            codes["censoring_labels"] = labels
        if self.has.get("entries"):
            codes["start"] = self.start[rows]
        status = self.status[rows]
        return Outcome(status == 1, self.time[rows], status=status.astype(np.uint8), **codes)

    def plan(self):
        outcome = self.outcome(slice(None))
        if not self.likelihood.pattern.has_lanes:
            return plan_rows(outcome, self.cuts)
        first = self.has.get("events_first", False)
        return plan_competing(outcome, outcome.censoring_group, events_first=first)

    def session(self):
        problem = Problem.build(
            build_design(self.X), self.plan(), self.likelihood, self.source, self.piece_ptr
        )
        return Session(problem, self.weight, self.offset, Threads(1))

    def part(self, rows):
        """Partition of some rows."""

        def read(model, arguments):
            rows = arguments["rows"]
            return PartRows(
                build_design(self.X)[rows],
                self.outcome(rows),
                None if self.weight is None else self.weight[rows],
                None if self.offset is None else self.offset[rows],
                self.likelihood,
                self.source,
                self.piece_ptr,
                self.cuts,
            )

        return Part(lambda: {"rows": rows}, read)

    def split(self, how):
        """Rows of each partition."""
        rng, rows = np.random.default_rng(1), np.arange(self.n)
        if how == "one":
            return [rows]
        if how == "time":
            return np.array_split(np.argsort(self.time, kind="stable"), 2)
        if how == "strata":
            return [np.flatnonzero(self.stratum % 2 == k) for k in range(2)]
        never, censored = self.time < 1.0, (self.status == 0) & (rows % 3 == 0)
        others = rng.permutation(rows[~never & ~censored])
        alone = [rows[never], rows[censored & ~never], rows[:0]]
        return [*np.array_split(others, 4), *alone]


class Joined:
    """A coordinator in plain NumPy, of one fit."""

    def __init__(self, data, how, center=None):
        self.data, self.plan = data, data.plan()
        self.parts = [data.part(rows) for rows in data.split(how)]
        plan, tables = self.plan, {}
        is_time, first = ~np.isnan(plan.cell_time), np.diff(plan.cell_ptr)
        stratum = np.repeat(np.tile(np.arange(plan.n_strata), plan.n_pieces), first)[is_time]
        time = plan.cell_time[is_time]
        order = np.lexsort((time, stratum))
        tables["event_time"] = time[order]
        tables["event_ptr"] = np.searchsorted(stratum[order], np.arange(plan.n_strata + 1))
        tables["labels_strata"] = np.unique(data.stratum)
        tables["part"] = np.zeros(1, np.int64)
        if center is not None:
            tables["center"] = center
        tables["bin_end"], tables["few"] = plan.bins.end, np.array([plan.bins.few])
        if data.likelihood.pattern.has_lanes:
            tables |= self._lanes()
        arrange = Arrange("model", tables, "plan")
        self.own = [part.answer(arrange) for part in self.parts]
        self.weights = self.ask(Weigh(GIVEN))
        self.deaths = self.total(self.weights, "deaths", "own", plan.n_cells)
        self.death_weight = self.total(self.weights, "death_weight", "own", plan.n_cells)

    def _lanes(self):
        data = self.data
        group = data.group if data.has.get("groups") else data.stratum
        lanes = np.unique(np.column_stack([data.stratum, group]), axis=0)
        labels, group_of_row = np.unique(group, return_inverse=True)
        pairs = np.unique(np.column_stack([group_of_row, data.time]), axis=0)
        return {
            "labels_censoring": labels,
            "table_time": pairs[:, 1],
            "table_ptr": np.searchsorted(pairs[:, 0], np.arange(len(labels) + 1)),
            "lane_stratum": lanes[:, 0],
            "lane_group": lanes[:, 1],
        }

    def ask(self, *requests):
        """Answers of all partitions to a request each, or all to one."""
        requests = requests * len(self.parts) if len(requests) == 1 else requests
        asks = [Ask("plan", (request,)) for request in requests]
        return [part.answer(ask).of[0] for part, ask in zip(self.parts, asks, strict=True)]

    def total(self, answers, name, own, n, scale=None):
        out = np.zeros((2, n)) if answers[0].tables[name].ndim == 2 else np.zeros(n)
        for k, answer in enumerate(answers):
            factor = 1.0 if scale is None else scale[k]
            out[..., getattr(self.own[k], own)] += answer.tables[name] * factor
        return out

    def censoring(self):
        """G at the entries of all tables, and tables of requests with those of partitions."""
        carrying = self.plan.carrying
        n = carrying.table_ptr[-1]
        lost, failed = (self.total(self.weights, k, "own_entries", n) for k in ("lost", "failed"))
        survival = np.ones(n)
        for begin, end in zip(carrying.table_ptr[:-1], carrying.table_ptr[1:], strict=True):
            for t in range(begin, end - 1):
                later = lost[t + 1 : end].sum() + failed[t + 1 : end].sum()
                stay = later + (0.0 if carrying.events_first else failed[t])
                share = stay / (stay + lost[t]) if lost[t] > 0 else 1.0
                survival[t + 1] = survival[t] * share
        return survival, [{"censoring": survival[own.own_entries]} for own in self.own]

    def evaluate(self, in_logs=False, shift=np.nan):
        """Log-likelihood; keeps the joined tables."""
        plan, coef = self.plan, Coef.of(self.data.coef)
        is_carried = self.data.likelihood.pattern.has_lanes
        self.sent = [{} for _ in self.parts]
        if is_carried:
            self.survival, self.sent = self.censoring()
        found = self.ask(
            *(Evaluate(GIVEN, coef, Coef.of(0 * self.data.coef), in_logs=in_logs, shift=shift,
                       tables=tables) for tables in self.sent)
        )  # fmt: skip
        self.found = found
        self.top = max(answer.top for answer in found)
        scale = [np.exp(answer.top - self.top) for answer in found]
        if in_logs:
            found = [replace(a, tables={k: np.exp(t) for k, t in a.tables.items()}) for a in found]
        risk = self.total(found, "risk", "own", plan.n_cells, scale)
        risk = risk.sum(axis=0) if risk.ndim == 2 else risk
        tied = np.zeros(plan.n_cells)
        if self.data.likelihood.uses_ties:
            tied = self.total(found, "tied", "own", plan.n_cells, scale)
        events = [answer.events for answer in self.weights]
        loglik = sum(
            answer.loglik + (c * (answer.top - self.top) if c > 0 else 0.0)
            for answer, c in zip(found, events, strict=True)
        )
        carried = None
        if is_carried:
            n = plan.carrying.lane_ptr[-1]
            carried = self.total(found, "carried", "own_lanes", n, scale)
        return loglik + self._scan(risk, tied, carried)

    def _scan(self, risk, tied, carried):
        """Log-likelihood's terms of cells; A, held and B."""
        plan, loglik = self.plan, 0.0
        self.A, self.held, self.jump = np.zeros((3, plan.n_cells))
        D = np.zeros(plan.n_cells)
        for low, high in zip(plan.cell_ptr[:-1], plan.cell_ptr[1:], strict=True):
            D[low:high] = np.cumsum(risk[low:high][::-1])[::-1]
        if carried is not None:
            self._each_lane(lambda q, k, G: D.__setitem__(k, D[k] + G * _before(carried[q])))
        for k in np.flatnonzero(self.deaths > 0):
            d, dw = int(self.deaths[k]), self.death_weight[k]
            share = np.arange(d) / d if self.data.likelihood.uses_ties else np.zeros(1)
            rest, each = D[k] - share * tied[k], dw / len(share)
            loglik -= each * np.log(rest).sum()
            self.jump[k], self.held[k] = each * (1 / rest).sum(), each * (share / rest).sum()
        for low, high in zip(plan.cell_ptr[:-1], plan.cell_ptr[1:], strict=True):
            self.A[low:high] = np.cumsum(self.jump[low:high])
        if carried is not None:
            self.B = np.zeros(len(carried))
            self._each_lane(lambda q, k, G: self.B.__setitem__(q, _after(self.jump[k] * G)))
        return loglik

    def _each_lane(self, visit):
        carrying = self.plan.carrying
        for lane, first in enumerate(carrying.lane_cell):
            q = slice(*carrying.lane_ptr[lane : lane + 2])
            cells = slice(first, first + q.stop - q.start)
            visit(q, cells, self.survival[carrying.lane_table_idx[q]])

    def slopes(self, want, columns=None, in_logs=False):
        bins = self.plan.bins
        requests = []
        for own, tables in zip(self.own, self.sent, strict=True):
            hazard = self.A[own.own]
            if self.plan.enter_idx is not None or self.data.has.get("entries"):
                hazard = np.stack([hazard, np.zeros(len(hazard))])
            tables = tables | {"hazard": hazard, "held": self.held[own.own]}
            tables["edges"] = np.column_stack([self.A[bins.start], self.A[bins.end]])
            if own.own_lanes is not None:
                tables["back"] = self.B[own.own_lanes]
                tables["back_edges"] = np.zeros((bins.n_bins, 2))
                if self.plan.one_lane_a_stratum:
                    tables["back_edges"] = np.column_stack([self.B[bins.start], self.B[bins.end]])
            if in_logs:
                with np.errstate(divide="ignore"):
                    tables |= {name: np.log(tables[name]) for name in ("hazard", "held")}
            where = Coef.of(self.data.coef), tables, self.top
            rest = {"in_logs": in_logs, "want": want, "columns": columns}
            requests.append(Slopes(GIVEN, *where, **rest))
        answers = self.ask(*requests)
        found = {}
        for name, table in answers[0].tables.items():
            if "jumps" not in name:
                found[name] = sum(answer.tables[name] for answer in answers)
                continue
            own, n = "own", self.plan.n_cells
            if name == "lane_jumps":
                own, n = "own_lanes", self.plan.carrying.lane_ptr[-1]
            found[name] = np.zeros((len(table), n))
            for mine, answer in zip(self.own, answers, strict=True):
                found[name][:, getattr(mine, own)] += answer.tables[name]
        return found

    def loads_of_cells(self, found):
        """Loads of columns at every cell, from sums of x w."""
        plan, left = self.plan, found["jumps"]
        S = np.zeros_like(left)
        for low, high in zip(plan.cell_ptr[:-1], plan.cell_ptr[1:], strict=True):
            S[:, low:high] = np.cumsum(left[:, low:high][:, ::-1], axis=1)[:, ::-1]
        for column, sums in zip(S, found.get("lane_jumps", ()), strict=False):
            self._each_lane(
                lambda q, k, G, column=column, sums=sums: column.__setitem__(
                    k, column[k] + G * _before(sums[q])
                )
            )
        return S * self.jump - found.get("tied_jumps", 0.0) * self.held


def _before(values):
    return np.cumsum(values) - values


def _after(values):
    return (np.cumsum(values[::-1]) - values[::-1])[::-1]


def check(data, how):
    """All sums of all partitions against a session of the CPU."""
    session, joined = data.session(), Joined(data, how)
    every = np.arange(len(data.coef))
    loglik = session.start(data.coef)
    np.testing.assert_allclose(joined.evaluate(), loglik, **EXACT)
    found = joined.slopes(("gradient", "size", "curvature", "gram", "jumps"), every)
    np.testing.assert_allclose(found["gradient"], session.gradient(every), **EXACT)
    rounding = 4.0 * np.finfo(float).eps
    np.testing.assert_allclose(found["size"] * rounding, session.rounding(), rtol=1e-12)
    (centred, plain), gram = session.curvature(every)[0].T, session.matrix(every, 0)
    if not session.plan.few:
        np.testing.assert_allclose(found["curvature"].T, [centred, plain], rtol=1e-12)
        np.testing.assert_allclose(found["gram"], gram, rtol=1e-11, atol=1e-11)
        return
    inverse, loads = session.pattern.weighted.bin_inverse, found["loads"]
    np.testing.assert_allclose(found["curvature"], plain, rtol=1e-12)
    np.testing.assert_allclose(found["curvature"] - loads**2 @ inverse, centred, rtol=1e-11)
    np.testing.assert_allclose(found["gram"] - (loads * inverse) @ loads.T, gram, **EXACT)
    if session.plan.bins.is_exact:
        at = session.plan.bins.end
        np.testing.assert_allclose(found["total"], joined.death_weight[at], **EXACT)
        np.testing.assert_allclose(
            joined.loads_of_cells(found)[:, at], loads, rtol=1e-9, atol=1e-11
        )


HOW = ["one", "time", "random"]
CASES = {
    "plain": {},
    "entries": {"entries": True},
    "strata": {"strata": 3},
    "weights": {"weight": True, "offset": True},
    "pieces": {"pieces": True},
    "all": {"entries": True, "strata": 2, "weight": True, "offset": True, "pieces": True},
}


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("ties", ["breslow", "efron"])
def test_sums_of_risk_sets_join(ties, case, how):
    check(Data(Cox(ties), **CASES[case]), how)


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("events_first", [False, True])
@pytest.mark.parametrize(
    "case",
    [
        {},
        {"weight": True, "offset": True},
        {"strata": 2, "weight": True},
        {"groups": True},
        {"strata": 2, "groups": True, "weight": True},
    ],
)
def test_sums_of_carried_risk_sets_join(case, events_first, how):
    check(Data(FineGray(), events_first=events_first, **case), how)


@pytest.mark.parametrize("ties", ["breslow", "efron"])
def test_sums_join_as_logarithms(ties):
    data = Data(Cox(ties), strata=2, weight=True)
    session, joined = data.session(), Joined(data, "random")
    loglik, every = session.start(data.coef), np.arange(P)
    np.testing.assert_allclose(joined.evaluate(in_logs=True), loglik, **EXACT)
    found = joined.slopes(("gradient", "curvature"), in_logs=True)
    np.testing.assert_allclose(found["gradient"], session.gradient(every), **EXACT)
    np.testing.assert_allclose(found["curvature"], session.curvature(every)[0][:, 1], rtol=1e-11)


def test_partition_need_not_tell_its_largest_predictor():
    data = Data(Cox())
    joined = Joined(data, "time")
    np.testing.assert_allclose(joined.evaluate(shift=1.5), joined.evaluate(), rtol=1e-12)
    joined.evaluate(shift=1.5)
    assert [answer.top for answer in joined.found] == [1.5, 1.5]


def test_bounds_of_a_move_are_those_of_live_rows():
    data = Data(Cox(), weight=True, offset=True)
    joined = Joined(data, "random")
    joined.evaluate()
    live = data.session().pattern.live
    change = (data.X @ data.coef)[data.plan().order][live]
    assert np.isclose(min(answer.low for answer in joined.found), change.min())
    assert np.isclose(max(answer.high for answer in joined.found), change.max())
    assert [a.top for a, w in zip(joined.found, joined.weights, strict=True) if w.rows == 0] == [
        -np.inf
    ]


@pytest.fixture
def many_bins(monkeypatch):
    """A bin a stratum, as where rows are many."""
    monkeypatch.setattr(row_plans, "SMALL_ROWS", 0)


@pytest.mark.parametrize("likelihood", [Cox(), Cox("efron"), FineGray()])
def test_strata_that_are_whole_in_partitions_are_centred_there(likelihood, many_bins):
    data = Data(likelihood, n=240, strata=70, weight=True, entries=likelihood == Cox())
    assert not data.plan().bins.few
    check(data, "strata")


def test_strata_across_partitions_have_no_larger_matrix(many_bins):
    data, every = Data(Cox(), n=240, strata=70), np.arange(P)
    joined, session = Joined(data, "random"), data.session()
    session.start(data.coef)
    joined.evaluate()
    gram, whole = joined.slopes(("gram",), every)["gram"], session.matrix(every, 0)
    assert np.linalg.eigvalsh(gram).min() > 0.1
    assert np.linalg.eigvalsh(whole - gram).min() > -1e-9
    assert not np.allclose(whole, gram)


def test_few_bins_that_are_ranges_of_rows_add_up(monkeypatch):
    monkeypatch.setattr(row_plans, "SMALL_ROWS", 0)
    data = Data(Cox(), n=200)
    assert not data.plan().bins.is_exact
    check(data, "time")


def test_description_has_times_and_columns():
    data = Data(Cox(), strata=3, weight=True)
    parts = [data.part(rows) for rows in data.split("random")]
    found = [part.answer(Describe("model")) for part in parts]
    dead = (data.status == 1) & (data.weight > 0)
    deaths = {}
    for answer in found:
        tables = answer.tables
        labels = tables["labels"][tables["stratum"]]
        for pair in zip(labels, tables["time"], tables["deaths"], strict=True):
            deaths[pair[:2]] = deaths.get(pair[:2], 0) + pair[2]
    pairs, counts = np.unique(
        np.column_stack([data.stratum, data.time])[dead], axis=0, return_counts=True
    )
    assert deaths == dict(zip(map(tuple, pairs), counts, strict=True))
    assert sum(answer.rows for answer in found) == N

    columns = data.part(np.arange(N)).answer(Describe("model")).columns
    X = data.X
    square = (X[:, 0] - X[:, 0].mean()) @ (X[:, 0] - X[:, 0].mean())
    assert np.allclose(columns[0], [N, X[:, 0].sum(), square, X[:, 0].min(), X[:, 0].max()])
    assert np.allclose(columns[2], [X[:, 2].sum(), X[:, 2].sum(), 0, 0, 1])
    assert np.isnan(found[-1].columns[:, 3:5]).all() and not found[-1].columns[:, :3].any()


def _asked(joined, *requests):
    return joined.parts[0].answer(Ask("plan", requests)).of


def test_dropped_rows_are_loaded_again_and_answer_the_same():
    data = Data(Cox(), pieces=True)
    joined = Joined(data, "one")
    part, coef = joined.parts[0], Coef.of(data.coef)
    before = _asked(joined, Evaluate(GIVEN, coef))[0]
    part.drop()
    after = _asked(joined, Evaluate(GIVEN, coef))[0]
    np.testing.assert_array_equal(before.tables["risk"], after.tables["risk"])
    assert isinstance(part.answer(Ask("another plan", ())), Unarranged)
    assert isinstance(data.part(np.arange(N)).answer(Ask("plan", ())), Unarranged)


def test_rows_that_change_under_a_fit_are_refused():
    data = Data(Cox())
    joined = Joined(data, "one")
    part = joined.parts[0]
    part.drop()
    part._load = lambda: {"rows": np.arange(N - 1)}
    with pytest.raises(ValueError, match="has 89 rows, had 90 when the fit began"):
        _asked(joined, Weigh(GIVEN))


def test_requests_under_several_weights_are_answered_in_their_order():
    data = Data(Cox())
    joined, coef = Joined(data, "one"), Coef.of(data.coef)
    recipes = [GIVEN, Recipe("test", 1, 0, 3), GIVEN, Recipe("test", 1, 1, 3)]
    requests = [Evaluate(recipe, coef) for recipe in recipes]
    together = _asked(joined, *requests)
    alone = [_asked(joined, request)[0] for request in requests]
    for one, other in zip(together, alone, strict=True):
        np.testing.assert_array_equal(one.tables["risk"], other.tables["risk"])
    assert together[1].loglik != together[0].loglik == together[2].loglik != together[3].loglik


def test_predictors_that_overflow_have_no_log_likelihood():
    data = Data(Cox())
    joined = Joined(data, "one")
    coef = Coef(np.arange(P), np.array([1e308] * P))
    with np.errstate(over="ignore", invalid="ignore"):
        answer = _asked(joined, Evaluate(GIVEN, coef))[0]
    assert np.isnan(answer.loglik) and np.isnan(answer.tables["risk"]).all()


def test_far_columns_are_centred_in_partitions():
    data, far = Data(Cox()), Data(Cox())
    far.X[:, 0] += 1e4
    far.X[:40, 1] = data.X[:40, 1] = 1.0  # a column of ones, in one of the partitions
    far.X[:, 1] += 1e-3 * (np.arange(N) >= 40)
    data.X = far.X - [1e4, 1.0, 0, 0, 0]
    rows = [np.arange(40), np.arange(40, N)]
    far.split = data.split = lambda how: rows
    sums = []
    for which, center in ((data, None), (far, np.array([1e4, 1.0, 0.0, 0.0, 0.0]))):
        joined = Joined(which, "given", center)
        joined.evaluate()
        sums.append(joined.slopes(("gradient", "gram"), np.arange(P)))
    for name, table in sums[0].items():
        np.testing.assert_allclose(sums[1][name], table, rtol=1e-8, atol=1e-8)


def test_loads_are_of_all_columns_where_their_curvature_is_asked_for():
    joined, some = Joined(Data(Cox()), "time"), np.array([3, 0])
    joined.evaluate()
    whole = joined.slopes(("curvature", "gram"), np.arange(P))
    both, alone = joined.slopes(("curvature", "gram"), some), joined.slopes(("gram",), some)
    np.testing.assert_array_equal(both["loads"], whole["loads"])
    np.testing.assert_allclose(alone["loads"], whole["loads"][some], **EXACT)
    for found in (both, alone):
        np.testing.assert_allclose(found["gram"], whole["gram"][np.ix_(some, some)], **EXACT)


def test_entries_cancel_exits_without_loss():
    """Two rows leave at time 1, of weights 1 and exp(-40), and one of weight 1 enters there."""
    data = Data(Cox(), n=3, entries=True)
    data.X[:] = np.array([0.0, -40.0, 0.0])[:, None] * (np.arange(P) == 0)
    data.coef = 1.0 * (np.arange(P) == 0)
    data.time, data.start = np.array([1.0, 1.0, 2.0]), np.array([0.0, 0.0, 1.0])
    data.status = np.array([1, 0, 1])
    joined = Joined(data, "one")
    joined.evaluate()
    high, low = joined.found[0].tables["risk"]
    at = list(joined.own[0].own).index(1)
    np.testing.assert_allclose(high[at] + low[at], np.exp(-40.0), rtol=1e-12)
    hazard = np.zeros((2, len(high)))
    hazard[0], hazard[1] = 1e20, np.arange(len(high))
    where = Coef.of(data.coef), {"hazard": hazard}
    found = _asked(joined, Slopes(GIVEN, *where, want=("gradient",)))[0]
    np.testing.assert_allclose(found.tables["gradient"][0], 40.0 * np.exp(-40.0), rtol=1e-12)
