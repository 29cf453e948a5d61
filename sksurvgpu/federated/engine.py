"""The engine of a fit over sites: all their rows as one partition, whose answers are sums.

Every party has one, the sites and the coordinator alike, and runs the same fit on it.  What the
fit asks for it asks for nobody: a site works out its own part, `exchange` adds it to those of the
others, and the sum is the answer.  The coordinator has no part.
"""

from collections.abc import Callable
from dataclasses import fields, replace
from hashlib import sha256
from typing import Any

import numpy as np

from ..backends.sums.coordinator import PartitionsBackend
from ..backends.sums.messages import (
    Answers,
    Arrange,
    Arranged,
    Describe,
    Description,
    Evaluate,
    Evaluated,
    Slopes,
    Sums,
    Weigh,
    Weights,
)
from ..partitions.handles import Rows
from .grid import Times
from .layout import Numbers, SumLayout, counts, layout_of
from .times import candidates, choose_times
from .words import WordsError, decode_counts, encode_counts, pack_flags, unpack_flags

MOST_OUTSIDE = 16  # points in a row of which nothing is told: a step is 10^-5 of itself by then


class RefusedError(RuntimeError):
    """Raised if a site refuses a sum that a fit needs; the message says which, and why."""


class SumEngine:
    """An engine (`backends.sums.messages.Engine`) of one partition, the rows of all sites.

    Parameters
    ----------
    public : Public
    programme : Programme
    exchange : callable
        ``exchange(form, make, n_words)`` gives the sum of all sites' words, so many; ``make()``
        gives those of this one.
    local : Local, optional
        The rows of this site; the coordinator has none.
    """

    n_parts = 1

    def __init__(self, public, programme, exchange, local=None):
        self.public, self._programme, self._local = public, programme, local
        self._exchange: Callable[[bytes, Callable, int], np.ndarray] = exchange
        self._problem: Any = None
        self._described: dict[str, Description] = {}
        self._shift = 0.0
        self.times: Times | None = None
        self.n_absent: np.ndarray | None = None  # sites that lack a column
        self.n_left_out = 0  # strata that some site has left out
        self.n_outside = 0  # points in a row of which some site told nothing
        self.was_outside = False
        self.n_rows = 0
        self.tied = 0.0  # half the part of the rows at risk that dies at a typical time
        self.asked = ""  # for, the last time, in words

    def backend(self) -> PartitionsBackend:
        """Backend of fits over this engine."""
        level = self._programme.level
        return PartitionsBackend(level=level, highest=level, sample=(0,))

    def serve(self, problem) -> None:
        """Know the problem before it is asked about."""
        self._problem = problem

    def ask(self, messages):
        """Answers of all rows."""
        for part, message in messages.items():
            yield part, self._answer(message)

    def cancel(self) -> None:
        """Nothing is under way between exchanges."""

    def close(self) -> None:
        """Sites go on."""

    def _answer(self, message):
        if isinstance(message, Describe):
            if message.model not in self._described:
                self._described[message.model] = self._describe(message.model)
            return self._described[message.model]
        if isinstance(message, Arrange):
            return self._arrange(message)
        return self._ask(message)

    def _sum(self, form, make, n_words):
        """Words of all sites, each of which counts itself, so that what is no sum is seen."""
        words = self._exchange(form, lambda: np.append(encode_counts([1]), make()), n_words + 1)
        if decode_counts(words[:1])[0] != self.public.n_sites:
            raise RefusedError(
                "what the sites have sent does not add up: their programs went apart, or they were "
                "told different things; install the same versions at the coordinator and all "
                "sites, and begin anew."
            )
        return words[1:]

    def agree(self, model) -> None:
        """Agree on times at which each site has no rows of a kind, or enough."""
        grid, labels = self._programme.grid, self.public.labels
        if not len(grid):
            self.times = Times(labels[:0], grid, np.zeros(1, np.int64))
        else:
            spans = candidates(len(grid))
            n_flags, n_sites = len(labels) * len(spans), self.public.n_sites
            words = self._sum(
                b"times",
                lambda: pack_flags(self._local.propose(model, labels, spans).ravel(), n_sites),
                len(pack_flags(np.zeros(n_flags, bool), n_sites)),
            )
            agree = unpack_flags(words, n_flags, n_sites).reshape(len(labels), -1) == n_sites
            self.times = choose_times(labels, grid, spans, agree)
            if not len(self.times.times):
                raise ValueError(
                    "no time of `grid` is left at which every site has enough rows of each kind; "
                    "ask sites with few events to stand aside, or lower `rows_per_time`."
                )
        if self._local is not None:
            self._local.fix(self.times, grid[-1] if len(grid) else np.nan)

    def _describe(self, model):
        public, times = self.public, np.unique(self.times.times)
        layout = self._layout_of_description(times)
        words = self._sum(
            layout.form, lambda: layout.words_of(self._local.describe(model, public, times)),
            layout.n_words,
        )  # fmt: skip
        found = layout.read(words)
        self.n_absent, self.n_left_out = found["absent"].astype(int), int(found["left_out"][0])
        entries, total, square = found["entries"], found["sum"], found["square"]
        mean = np.divide(total, entries, out=np.zeros(len(entries)), where=entries > 0)
        nothing = np.full(len(entries), np.nan)
        self.n_rows = int(found["rows"][0])
        return Description(
            rows=self.n_rows,
            names=public.names,
            columns=np.column_stack(
                [entries, total, np.maximum(square - total * mean, 0.0), nothing, nothing]
            ),
            tables=self._tables_of(found, times),
            checksum=0,
        )

    def _layout_of_description(self, times):
        public, n = self.public, Numbers()
        columns, powers = (len(public.powers),), public.powers
        tables = {"rows": n, "left_out": n, "units": n, "events": Numbers((2,))}
        tables |= {"absent": counts(columns), "entries": counts(columns)}
        tables |= {"sum": Numbers(columns, powers), "square": Numbers(columns, 2 * powers)}
        if public.has_groups:
            tables["groups"] = counts((2, 4))
        if len(public.classes):
            tables["class_totals"] = Numbers((len(public.classes),))
        if len(times):
            of_time = counts((len(public.labels), len(times)))
            tables |= {"deaths": of_time, "exits": of_time}
            tables["leaving"] = counts((len(public.censor_labels), len(times)))
        return SumLayout(tables)

    def _tables_of(self, found, times):
        """Tables of a description, by which a fit begins."""
        public, whole = self.public, np.int64
        tables = {"units": found["units"].astype(whole)}
        tables |= {"has_strata": np.array([public.has_strata])}
        tables["events"] = found["events"].astype(whole)
        if public.has_groups:
            tables |= {"groups": found["groups"].astype(whole), "labels": np.zeros(0, whole)}
        if len(public.classes):
            tables |= {"classes": public.classes, "class_totals": found["class_totals"]}
        if not len(times):
            return tables
        stratum, at = np.nonzero(found["deaths"])
        if not public.has_entries:
            self.tied = _tied(found["deaths"], found["exits"])
        exits = found["exits"] > 0
        last = np.where(exits, times, -np.inf).max(axis=1)
        group, leaving = np.nonzero(found["leaving"])
        return tables | {
            "labels": public.labels,
            "stratum": stratum,
            "time": times[at],
            "deaths": found["deaths"][stratum, at].astype(whole),
            "last": last,
            "censor_labels": public.censor_labels,
            "censor_group": group,
            "censor_time": times[leaving],
            "lane_stratum": public.lanes[:, 0],
            "lane_group": public.lanes[:, 1],
        }

    def _arrange(self, message):
        plan = self._problem.plan
        if self._local is not None:
            self._local.arrange(message)
        lanes = plan.lanes
        return Arranged(
            own=np.arange(plan.n_cells),
            own_lanes=None if lanes is None else np.arange(int(lanes.lane_ptr[-1])),
            own_entries=None if lanes is None else np.arange(int(lanes.table_ptr[-1])),
        )

    def _ask(self, message):
        requests = [self._on_scale(request) for request in message.requests]
        if any(getattr(request, "in_logs", False) for request in requests):
            return self._without_logs(message)
        layouts = [layout_of(self._problem, request, self.public) for request in requests]
        n_requests = len(requests)
        sizes = [layout.n_words for layout in layouts]
        # Sums under other weights have the same form, and must not have the same masks.
        weights = repr([request.weight for request in requests]).encode()
        form = sha256(b"".join(layout.form for layout in layouts) + weights).digest()
        names = [type(request).__name__ for request in requests]
        self.asked = "; ".join(map("{}: {}".format, names, layouts))
        words = self._sum(form, lambda: self._part_of(requests, layouts), n_requests + sum(sizes))
        outside = decode_counts(words[:n_requests])
        parts = np.split(words[n_requests:], np.cumsum(sizes)[:-1])
        return Answers(
            tuple(
                self._outside(request, layout) if is_out else self._read(request, layout, part)
                for request, layout, part, is_out in zip(
                    requests, layouts, parts, outside, strict=True
                )
            )
        )

    def _part_of(self, requests, layouts):
        """Words of this site: of each request whether it tells nothing, then its tables."""
        own, words = self._local.ask(requests), []
        for k, (layout, tables) in enumerate(zip(layouts, own, strict=True)):
            try:
                words.append(layout.words_of(tables, self._local.arranged))
            except WordsError:  # beyond all that sums are for
                own[k] = None
                words.append(layout.words_of(None))
        flags = encode_counts(np.array([tables is None for tables in own], np.int64))
        return np.concatenate([flags, *words])

    def _without_logs(self, message):
        """Answers where some are asked for in logarithms, which do not add up: nothing to these."""
        in_logs = [getattr(request, "in_logs", False) for request in message.requests]
        others = [r for r, is_log in zip(message.requests, in_logs, strict=True) if not is_log]
        found = iter(self._ask(replace(message, requests=tuple(others))).of if others else ())
        return Answers(
            tuple(
                self._outside(request, layout_of(self._problem, request, self.public))
                if is_log
                else next(found)
                for request, is_log in zip(message.requests, in_logs, strict=True)
            )
        )

    def _on_scale(self, request):
        """Let predictors be told from what they typically were, so that sums are of the order 1."""
        if isinstance(request, Evaluate):
            return replace(request, origin=None, shift=self._shift)
        return request

    def _read(self, request, layout, words):
        """An answer from the words of a sum."""
        tables, self.n_outside = layout.read(words), 0
        if isinstance(request, Weigh):
            of_rows = {f.name for f in fields(Weights)} & set(tables)
            scalars = {name: float(tables.pop(name)[0]) for name in of_rows}
            scalars |= {"rows": int(scalars["rows"])}
            given = {"largest": np.nan, "error_weight": 0.0} | scalars
            return Weights(**given, tables=tables)
        has_scalar = "loglik" in tables and not (
            isinstance(request, Evaluate) and self._problem.has_intercept
        )
        loglik = float(tables.pop("loglik")[0]) if has_scalar else np.nan
        if isinstance(request, Slopes):
            return Sums(loglik, tables)
        top = 0.0
        if "risk" in tables:
            top = request.shift
            self._move_shift(tables)
        return Evaluated(loglik, top, np.nan, np.nan, tables)

    def _move_shift(self, tables):
        """Later predictors are told from the mean of these: exits alone, entries being as many."""
        risk = tables["risk"] if tables["risk"].ndim == 1 else tables["risk"][0]
        mean = abs(risk).sum() / max(1, self.n_rows)
        if np.isfinite(mean) and mean > 0.0:
            self._shift += float(np.round(np.log(mean)))

    def _outside(self, request, layout):
        """Nothing, from which a line search turns away, or the end of a fit."""
        self.was_outside, self.n_outside = True, self.n_outside + 1
        is_short = self.n_outside < MOST_OUTSIDE
        if not (is_short and isinstance(request, Evaluate)) or np.isfinite(request.center):
            raise RefusedError(self.explain())
        nothing = {
            name: np.full(numbers.shape, np.nan)
            for name, numbers in layout.tables.items()
            if name != "loglik"
        }
        return Evaluated(np.nan, 0.0, np.nan, np.nan, nothing)

    def explain(self) -> str:
        """Why a fit could not go where it wanted to."""
        return (
            "some site refused points of this fit: one row would be more than its `largest_share` "
            "of a sum, or predictors would differ by more than its `longest_range`; ask for "
            "coarser times (`rows_per_time`), a larger penalty, or other rules. The log of that "
            "site says why (`withheld`)."
        )


def _tied(deaths, exits):
    """Half the part of the rows at risk that dies at a time, at that of a typical death."""
    at_risk = np.cumsum(exits[:, ::-1], axis=1)[:, ::-1]
    part = np.divide(deaths, at_risk, out=np.zeros_like(deaths), where=at_risk > 0)
    return float((part * deaths).sum() / max(1.0, deaths.sum())) / 2.0


class _SiteRows(Rows):
    """Handles of arguments whose rows are at sites."""

    @classmethod
    def open(cls, arguments, read, n_threads=1):
        return next(iter(arguments.values())).source


def handles_of(engine) -> tuple[Rows, Rows]:
    """X and y of a fit over sites, which estimators and functions take as those in partitions."""
    names = engine.public.names
    names = None if names is None else np.array(names, object)
    X = _SiteRows(engine, (_refuse,), n_columns=len(engine.public.powers), names=names)
    return X, _SiteRows(engine, (_refuse,))


def _refuse():
    raise TypeError("the rows are at sites, which do not give them out.")
