"""Fits over sites: a coordinator that holds no row, and whoever carries its messages.

Sites are partitions of rows (`backends.sums`) behind bytes.  A fit begins with an agreement on
times (`grid`); then it goes as over any partitions, with the models that sites allow.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import replace
from hashlib import sha256
from queue import Queue
from threading import Thread
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from .._warnings import warn
from ..backends.sums.coordinator import PartitionsBackend
from ..backends.sums.matrix import LEVELS
from ..backends.sums.messages import (
    Answers,
    Arrange,
    Arranged,
    Describe,
    Description,
    Evaluated,
    Unarranged,
)
from ..data.options import choice
from ..estimators._base import PenalizedModel
from ..estimators._partition import model_text
from ..estimators._partitioned import prepare_over
from ..estimators._prepared import count_threads
from ..estimators._report import doubts_of
from ..estimators.fitted import Fitted, adopt
from .checks import Told, check_answer, check_sums
from .forms import FormError
from .grid import Times, agree
from .wire import Coarsen, Coarsened, Propose, Proposed, Refused, encode, read

__all__ = ["Coordinator", "RefusedError"]

ANSWERS = (Proposed, Coarsened, Description, Arranged, Answers, Unarranged, Refused)


class RefusedError(RuntimeError):
    """Raised where a site does not release what a fit needs; says which, and why."""


class SiteEngine:
    """An engine (`backends.sums.messages.Engine`) over sites, numbered in the order of names."""

    def __init__(self, names: Sequence[str], carry: Callable[[dict[str, bytes]], Iterator]):
        self.names, self.n_parts = tuple(names), len(names)
        self._carry = carry
        self.bytes_down = self.bytes_up = 0
        self.coarsen: Coarsen | None = None
        self.outside: set[str] = set()  # sites that have told nothing of some points
        self._model: dict[int, str] = {}
        self._arranged: dict[tuple[int, str], Any] = {}
        # What no other coordinator says, nor this one twice, so that no two messages are the same.
        self._session, self._n_sent = os.urandom(8).hex(), 0
        self._waits: dict[str, tuple[str, Any]] = {}  # digest of a site's message, and the message
        self._rows: dict[str, str] = {}

    def ask(self, messages: Mapping[int, Any]) -> Iterator[tuple[int, Any]]:
        """Answers of sites, each as soon as it is there."""
        for part, answer in self._exchange(messages):
            if isinstance(messages[part], Describe):
                self._model[part] = messages[part].model
            elif isinstance(answer, Unarranged):
                self._reopen(part)
            elif isinstance(answer, Answers) and any(map(_is_nothing, answer.of)):
                self.outside.add(self.names[part])
            yield part, answer

    def _exchange(self, messages):
        data = {}
        for part, message in messages.items():
            name, self._n_sent = self.names[part], self._n_sent + 1
            data[name] = encode(message, site=name, about=f"{self._session}:{self._n_sent}")
            self._waits[name] = sha256(data[name]).hexdigest(), message
        self.bytes_down += sum(map(len, data.values()))
        for name, answer in self._carry(data):
            found = self.open(name, answer)
            self.bytes_up += len(answer)
            del self._waits[name]
            if isinstance(found, Refused):
                raise RefusedError(f"site {name!r} refused: {found.reason}.")
            yield self.names.index(name), found

    def open(self, name: str, data: bytes) -> Any:
        """Content of an answer: that site's, of the rows that it had, to the message it has now."""
        if name not in self._waits:
            raise ValueError(f"site {name!r} has answered its message; hand over each answer once.")
        about, message = self._waits[name]
        try:
            answer = read(data, ANSWERS)
            self._check_stamp(name, about, answer)
            check_answer(message, answer.content)
        except FormError as error:
            raise ValueError(f"site {name!r}: its answer {error}.") from None
        except (ValueError, TypeError) as error:
            raise ValueError(f"site {name!r}: {error}") from None
        found = answer.content
        if isinstance(found, Description | Proposed):
            return replace(found, tables=Told(name, found.tables))
        return found

    def _check_stamp(self, name, about, answer):
        is_unread = answer.site == "" and isinstance(answer.content, Refused)
        if answer.site != name and not is_unread:
            raise ValueError(
                f"the answer that came is one of site {answer.site!r}; hand over each answer under "
                "the name of the site that gave it."
            )
        if answer.about != about:
            raise ValueError(
                "the answer that came is to another message than the one that waits: an old one, "
                "one of another fit, or one to a message that was changed on its way; hand over "
                "the answer to this message."
            )
        if not answer.rows or self._rows.setdefault(name, answer.rows) != answer.rows:
            raise ValueError(
                "it has other rows than when the fit began, or in another order, or another secret "
                "or rules; begin anew, and keep them as they are until the fit is done."
            )

    def check(self, problem: Any, part: int, message: Any, answer: Any) -> None:
        """Refuse what does not have the form that a problem gives to an answer."""
        plan = part, message.digest if isinstance(message, Arrange) else message.plan
        try:
            check_sums(problem, part, self._arranged.setdefault(plan, answer), message, answer)
        except FormError as error:
            raise ValueError(f"site {self.names[part]!r}: its answer {error}.") from None

    def _reopen(self, part):
        """Tell a site that was started again what had been agreed."""
        for message in (self.coarsen, Describe(self._model[part])):
            for _ in self.ask({part: message}):
                pass

    def explain(self) -> str:
        """Why a fit could not go where it wanted to."""
        return (
            f"site(s) {', '.join(sorted(self.outside))} refused points of this fit: one row would "
            "be more than their `largest_share` of a sum, or predictors would differ by more than "
            "their `longest_range`; ask for coarser times (`rows_per_time`), a larger penalty, or "
            "other rules."
        )

    def cancel(self) -> None:
        """Nothing is under way between exchanges."""

    def close(self) -> None:
        """Sites go on."""


def _is_nothing(answer):
    """Whether a site has told nothing in place of an evaluation."""
    if not isinstance(answer, Evaluated) or np.isfinite(answer.loglik):
        return False
    return all(np.any(table != table) for table in answer.tables.values())


def _check_kinds(estimator, sites):
    """Check that an estimator is fitted once, and how sites are given."""
    if not isinstance(estimator, PenalizedModel) or "cv" in estimator.get_params():
        raise TypeError(
            f"`estimator` is of type {type(estimator).__name__}; pass one of this package that has "
            "one penalty, such as CoxLassoCCD(alpha=0.01), and fit several to compare penalties. "
            "Of a pipeline that is its last step: sites transform their rows themselves."
        )
    for name, send in (
        sites.items() if isinstance(sites, Mapping) else zip(sites, sites, strict=True)
    ):
        if not (callable(send) or (send is name and isinstance(name, str))):
            raise TypeError(
                f"`sites` has one of type {type(send).__name__}; pass functions by name, as in "
                "{'Bergen': site.answer}, or names alone to carry messages by hand."
            )


class Coordinator:
    """Fits an estimator over sites that give out sums over their rows.

    Parameters
    ----------
    estimator : estimator
        Of this package; it is fitted itself.
    sites : dict of str to callable, or sequence of str
        ``send`` of every site by its name, which takes the bytes of a message to `Site.answer` and
        returns those of the answer; they are called in threads of their own. Names alone where
        messages are carried by hand, see `messages`.
    grid : array-like, optional
        Ascending times that a fit of a model with time may tell apart, such as whole days;
        follow-up ends with the last. Fewer are left where sites have few rows, see ``grid_``.
    rows_per_time : int, default=30
        Rows of each kind that sites should have at a time, where that is more than their rules ask
        for: the more, the less likely is a row that is so much of a sum that a site refuses.
    level : {"diagonal", "sample", "full"}, default="diagonal"
        Matrix of the quadratic model: without one, of one site, or of all. The fit is the same; one
        takes fewer exchanges, and sites must allow it.
    matrix_of : str, optional
        Site whose matrix stands for all, at level "sample"; by default as many as are needed.
    checkpoint : path-like, optional
        File to which accepted coefficients are written as they are found.

    Attributes
    ----------
    grid_ : ndarray, or dict of ndarray by stratum
        Times of the fit, which is the exact one of times that are rounded up to these.
    absent_ : dict of str to tuple of str
        Columns that count as zero at a site, as too few rows have them there.
    left_out_ : dict of str to int
        Strata whose rows a site left out; which these are, and that they exist, it keeps to itself.
    n_bytes_ : tuple of int
        Bytes of all messages, and of all answers.

    See Also
    --------
    Site : Answers the messages.

    Examples
    --------
    >>> import numpy as np
    >>> from sksurvgpu import CoxLassoCCD
    >>> from sksurvgpu.datasets import simulate_cox
    >>> from sksurvgpu.federated import Coordinator, Site
    >>> data = simulate_cox(3000, 5, density=0.3, random_state=0)
    >>> X, y = data.X.tocsr(), data.y
    >>> sites = {"A": Site(X[:1000], y[:1000]), "B": Site(X[1000:], y[1000:])}
    >>> send = {name: site.answer for name, site in sites.items()}
    >>> grid = np.quantile(y["time"], np.linspace(0.01, 1, 100))
    >>> coordinator = Coordinator(CoxLassoCCD(alpha=0.01), send, grid=grid, rows_per_time=30)
    >>> model = coordinator.fit()
    >>> model.converged_
    True
    """

    def __init__(
        self,
        estimator,
        sites,
        *,
        grid=None,
        rows_per_time=30,
        level="diagonal",
        matrix_of=None,
        checkpoint=None,
    ):
        self.estimator, self._names = estimator, tuple(map(str, sites))
        if len(set(self._names)) < max(1, len(self._names)):
            raise ValueError(f"`sites` are {self._names}; give at least one, and a name to each.")
        _check_kinds(estimator, sites)
        choice(level, "level", LEVELS)
        if matrix_of is not None and (level != "sample" or matrix_of not in self._names):
            raise ValueError(
                f"`matrix_of` is {matrix_of!r}, must be one of {self._names} with level='sample'."
            )
        is_sent = isinstance(sites, Mapping)
        self._send = dict(zip(self._names, sites.values(), strict=True)) if is_sent else None
        self._grid = np.unique(np.asarray([] if grid is None else grid, dtype=np.float64))
        if not np.isfinite(self._grid).all():
            raise ValueError("`grid` has NaN or infinity; pass finite times.")
        self._least = int(rows_per_time)
        sample = None if matrix_of is None else (self._names.index(matrix_of),)
        self._sums = PartitionsBackend(
            level=level, highest=level, sample=sample, checkpoint=checkpoint
        )
        self._outbox: Queue = Queue()
        self._inbox: Queue = Queue()
        self._thread: Thread | None = None
        self._pending: dict[str, bytes] = {}
        self.done = False

    # -- fitting ----------------------------------------------------------------------------------
    def fit(self):
        """Fit over the sites, whose ``send`` is called.

        Returns
        -------
        estimator
            The fitted one.
        """
        if self._send is None:
            raise ValueError(
                "`sites` are names, and nobody sends: pass a dict of callables, or carry messages "
                "by hand with messages() and receive()."
            )
        with ThreadPoolExecutor(len(self._names)) as pool:

            def carry(data):
                futures = {pool.submit(self._send[name], data[name]): name for name in data}
                for future in as_completed(futures):
                    yield futures[future], future.result()

            return self._fit(carry)

    def _fit(self, carry):
        engine = self._engine = SiteEngine(self._names, carry)
        self._open(engine)
        model, where = self.estimator, f"the rows are at the sites {', '.join(self._names)}"
        prepared = prepare_over(model, engine, count_threads(model.n_jobs), where, self._sums)
        try:
            with np.errstate(invalid="ignore"):  # of points that sites tell nothing about
                [solution] = prepared.solve([model.alpha])[0]
        except (ValueError, RefusedError) as error:
            if engine.outside:
                raise RefusedError(f"{engine.explain()} In the end: {error}") from error
            raise
        if engine.outside and not solution.converged:
            raise RefusedError(engine.explain())
        adopt(model, Fitted.of(prepared, solution))
        self.n_bytes_ = engine.bytes_down, engine.bytes_up
        if doubts := doubts_of(model, prepared, solution):
            warn(" ".join(doubts), ConvergenceWarning)
        return model

    def _open(self, engine):
        """Agree on times with all sites."""
        text, every = model_text(self.estimator), range(engine.n_parts)
        propose = Propose(text, self._grid, self._least)
        found = dict(engine.ask(dict.fromkeys(every, propose)))
        answers = {self._names[part]: found[part] for part in every}
        times, end = Times(np.zeros(0, np.int64), np.zeros(0), np.zeros(1, np.int64)), np.nan
        if any(answer.tables for answer in answers.values()):
            times, end = agree(answers, self._grid, self._least), self._grid[-1]
            has_times = np.diff(times.ptr) > 0
            if not has_times.any():
                raise ValueError(
                    "no time of `grid` is left at which every site has enough rows of each kind; "
                    "ask sites with few events to stand aside, or lower `rows_per_time`."
                )
        engine.coarsen = Coarsen(text, *times, float(end))
        found = dict(engine.ask(dict.fromkeys(every, engine.coarsen)))
        self.absent_ = {self._names[part]: found[part].absent for part in every}
        self.left_out_ = {self._names[part]: found[part].left_out for part in every}
        by_stratum = {label: times.of(label) for label in times.labels.tolist()}
        self.grid_ = times.times if set(by_stratum) <= {0} else by_stratum

    # -- by hand ----------------------------------------------------------------------------------
    def messages(self) -> dict[str, bytes]:
        """Messages that are to be answered, by site; none when the fit is done.

        An exchange by hand is ``receive({name: answers[name], ...})`` with the bytes of all
        answers, until `done`; the estimator is fitted then. An error of the fit is raised by the
        call that meets it.
        """
        if self._thread is None:
            self._thread = Thread(target=self._work, daemon=True)
            self._thread.start()
        if not (self._pending or self.done):  # or who took the last answers was interrupted
            self._take()
        return dict(self._pending)

    def receive(self, answers: Mapping[str, bytes]) -> None:
        """Take the answers to `messages`; after an error of one, all may be handed over again."""
        if set(answers) != set(self.messages()) or self.done:
            raise ValueError(
                f"answers are of {sorted(answers)}, must be of {sorted(self._pending)}: all sites "
                "that have a message."
            )
        for name, answer in answers.items():  # the fit goes on waiting where one is not right
            self._engine.open(name, answer)
        self._inbox.put(dict(answers))
        self._pending = {}
        self._take()

    def _work(self):
        try:
            self._outbox.put(("done", self._fit(self._carry_by_hand)))
        except BaseException as error:
            self._outbox.put(("failed", error))

    def _carry_by_hand(self, data):
        self._outbox.put(("messages", data))
        yield from self._inbox.get().items()

    def _take(self):
        """Next message of the fit, or its end."""
        kind, value = self._outbox.get()
        self._pending = value if kind == "messages" else {}
        self.done = kind != "messages"
        if kind == "failed":
            raise value
