"""Fits over sites: a coordinator that adds up what nobody can read alone, and whoever carries it.

It begins a programme and hands on what sites say to each other.  Then it asks for nothing any
more: it adds the parts of a sum, gives the sum to all, and runs the fit on it as they do.
"""

import json
import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from queue import Queue
from threading import Thread

import numpy as np

from .._warnings import warn
from ..backends.sums.matrix import LEVELS
from ..data.options import choice, refuse, whole
from ..estimators._base import PenalizedModel
from .engine import RefusedError, SumEngine
from .noise import Noise, NoisySums
from .noisy import check_noisy, fit_noisy
from .post import Adder, Post
from .programme import Programme, estimator_of, text_of, then_of
from .public import Public
from .session import run
from .wire import Begin, Joined, Seal, Sealed, Start

MOST_TIED = 0.05  # of what coefficients are


def _check_kinds(estimator, sites):
    """Check what is fitted, and how sites are given."""
    if not isinstance(estimator, PenalizedModel):
        raise TypeError(
            f"`estimator` is of type {type(estimator).__name__}; pass one of this package, such as "
            "CoxLassoCCD(alpha=0.01). Of a pipeline that is its last step: sites transform their "
            "rows themselves."
        )
    if estimator.get_params().get("folder") is not None:
        raise ValueError(
            "`folder` has fits of one party alone, which would go another way than the others; "
            "leave it out, and take `checkpoint`."
        )
    estimator_of(text_of(estimator))  # as sites will read it
    pairs = sites.items() if isinstance(sites, Mapping) else zip(sites, sites, strict=True)
    for name, send in pairs:
        if not (callable(send) or (send is name and isinstance(name, str))):
            raise TypeError(
                f"`sites` has one of type {type(send).__name__}; pass functions by name, as in "
                "{'Bergen': site.answer}, or names alone to carry messages by hand."
            )


def _result_of(future, name):
    """Answer of a site, or who could not be reached."""
    if error := future.exception():
        raise RuntimeError(f"site {name!r} could not be reached: {error!r}.") from error
    return future.result()


class Coordinator:
    """Fits an estimator over several sites, and sees only sums over all of them.

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
    then : sequence of (str, dict), default=()
        Functions of this package that follow the fit in the same programme, with their arguments
        beside the estimator, X and y: "profile_likelihood", "wald", "bootstrap" and "fit_path".
        What they return is in ``results_``.
    level : {"diagonal", "sample", "full"}, default="diagonal"
        Matrix of the quadratic model: without one, of one site, or of all. The fit is the same; one
        takes fewer exchanges, and sites must allow it.
    matrix_of : str, optional
        Site whose matrix stands for all, at level "sample".
    noise : Noise, optional
        Differential privacy of rows: all that is told of them has noise. `fit` returns a
        `NoisyFit`, and the estimator is not fitted; it is `CoxLassoCCD` or `LogisticCCD` without
        the lasso, of outcomes 0 and 1: others are not refused, and all above 0.5 are events. Times
        are those of `grid`, and neither `then` nor `level` is there.
    checkpoint : path-like, optional
        File of all that sites were told, by which a fit that was stopped goes on where it was;
        removed when it is done.

    Attributes
    ----------
    grid_ : ndarray, or dict of ndarray by stratum
        Times of the fit, which is the exact one of times that are rounded up to these.
    absent_ : dict of str to int
        Columns that count as zero at some sites, as too few rows have them there, and at how many.
    n_left_out_ : int
        Strata whose rows some site left out, which it keeps to itself.
    blur_ : float
        The largest ``Rules.blur`` of a site: estimates are off the exact ones by about so much of
        their standard errors, or less.
    results_ : list
        Of the functions of `then`.
    programme_ : Programme
        What sites have agreed to; its text says it in words.
    n_exchanges_ : int
        Messages to every site.
    n_bytes_ : tuple of int
        Bytes of all messages, and of all answers.

    See Also
    --------
    Site : Takes part.

    Examples
    --------
    >>> import numpy as np
    >>> from sksurvgpu import CoxLassoCCD
    >>> from sksurvgpu.datasets import simulate_cox
    >>> from sksurvgpu.federated import Coordinator, Site
    >>> data = simulate_cox(3000, 20, density=0.3, random_state=0)
    >>> X, y = data.X.tocsr(), data.y
    >>> rows = {"A": slice(0, 1000), "B": slice(1000, 2000), "C": slice(2000, 3000)}
    >>> sites = {name: Site(X[some], y[some]) for name, some in rows.items()}
    >>> send = {name: site.answer for name, site in sites.items()}
    >>> grid = np.quantile(y["time"], np.linspace(0.01, 1, 100))
    >>> estimator = CoxLassoCCD(alpha=0.01, ties="efron")
    >>> coordinator = Coordinator(estimator, send, grid=grid, rows_per_time=30)
    >>> model = coordinator.fit()
    >>> model.converged_
    True
    """

    def __init__(
        self, estimator, sites, *, grid=None, rows_per_time=30, then=(), level="diagonal",
        matrix_of=None, noise=None, checkpoint=None,
    ):  # fmt: skip
        self.estimator, self._names = estimator, tuple(sorted(map(str, sites)))
        if len(set(self._names)) < max(1, len(self._names)):
            raise ValueError(f"`sites` are {self._names}; give at least one, and a name to each.")
        _check_kinds(estimator, sites)
        choice(level, "level", LEVELS)
        if (matrix_of in self._names) != (level == "sample"):
            raise ValueError(
                f"`matrix_of` is {matrix_of!r}, must be one of {self._names} with level='sample', "
                "and without that None."
            )
        self._send = {str(n): s for n, s in sites.items()} if isinstance(sites, Mapping) else None
        self._grid = np.unique(np.asarray([] if grid is None else grid, dtype=np.float64))
        if not np.isfinite(self._grid).all():
            raise ValueError("`grid` has NaN or infinity; pass finite times.")
        self._options = whole(rows_per_time, "rows_per_time", 0), level, matrix_of or ""
        try:
            self._then = json.dumps([[name, dict(options)] for name, options in then])
        except (TypeError, ValueError):
            rule = "must be pairs of a name and a dict of numbers, text and lists: [('wald', {})]"
            refuse(then, "then", rule, TypeError)
        then_of(self._then)
        self._checkpoint, self._noise = checkpoint, ""
        self._programme("").check_matrix()
        if noise is not None:
            if not isinstance(noise, Noise):
                raise TypeError(f"`noise` is of type {type(noise).__name__}, must be Noise(...).")
            self._noise = noise.text
            check_noisy(self._programme(""))
        self._outbox: Queue = Queue()
        self._inbox: Queue = Queue()
        self._thread: Thread | None = None
        self._pending: dict[str, bytes] = {}
        self.done = False

    def fit(self):
        """Fit over the sites, whose ``send`` is called.

        Returns
        -------
        estimator
            The fitted one; with noise a `NoisyFit`.
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
                    yield futures[future], _result_of(future, futures[future])

            return self._fit(carry)

    def _fit(self, carry):
        post = self._post = Post(self._names, carry, self._checkpoint)
        public, adder = self._resume(post) if post.is_known else self._open(post)
        if self._noise:
            return self._fit_noisy(public, adder)
        engine = SumEngine(public, self.programme_, adder.exchange)
        model = self.estimator
        try:
            self.results_ = run(engine, model, then_of(self._then))
        except ValueError as error:
            if engine.was_outside:
                raise RefusedError(engine.explain()) from error
            raise
        if engine.was_outside and not getattr(model, "converged_", True):
            raise RefusedError(engine.explain())
        adder.end()
        self._tell(engine)
        return model

    def _open(self, post):
        """Begin a programme; what is public, and who adds."""
        self.programme_ = self._programme(os.urandom(16).hex())
        joined = post.ask(Begin(self.programme_), Joined)
        sealed = post.ask(Seal(joined), Sealed)
        return Public.of(joined), Adder(post, [Start(sealed)])

    def _resume(self, post):
        """Go on with a programme, of which sites were told some sums already."""
        begin, seal, *sums = post.said
        self.programme_ = begin.programme
        own = self._programme(self.programme_.session)
        if own.digest != self.programme_.digest:
            raise ValueError(
                f"`checkpoint` {os.fspath(self._checkpoint)!r} is of another fit; take another "
                "file, or remove it."
            )
        return Public.of(seal.joined), Adder(post, sums)

    def _programme(self, session):
        estimator = text_of(self.estimator)
        return Programme(
            session, self._names, estimator, self._then, self._grid, *self._options, self._noise
        )

    def _fit_noisy(self, public, adder):
        found = fit_noisy(self.programme_, public, NoisySums(adder.exchange))
        adder.end()
        self.grid_, self.absent_, self.results_ = self._grid, {}, []
        self.n_left_out_, self.blur_ = 0, 0.0
        self._tell_costs()
        return found

    def _tell(self, engine):
        """Attributes that say what was fitted, and what it took."""
        names = engine.public.names or range(len(engine.n_absent))
        lacking = zip(names, engine.n_absent, strict=True)
        self.absent_ = {str(name): int(n_sites) for name, n_sites in lacking if n_sites}
        self.n_left_out_, self.blur_ = engine.n_left_out, engine.public.blur
        times = engine.times
        by_stratum = {label: times.of(label) for label in times.labels.tolist()}
        self.grid_ = times.times if set(by_stratum) <= {0} else by_stratum
        self._tell_costs()
        is_breslow = getattr(self.estimator, "ties", "") == "breslow"
        if is_breslow and engine.tied > MOST_TIED:
            warn(
                f"times are so coarse that Breslow's ties draw coefficients towards zero, by about "
                f"{engine.tied:.0%}: take ties='efron', or have more times (`grid`, "
                "`rows_per_time`, without sites of few rows)."
            )

    def _tell_costs(self):
        self.n_exchanges_ = self._post.n_exchanges
        self.n_bytes_ = self._post.bytes_down, self._post.bytes_up

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
            self._post.open(name, answer)
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
