"""A session at a site: its own run of the fit, which waits for sums and answers with its part.

The fit runs in a thread.  Where it needs a sum, it covers its own part by masks that cancel among
all sites, hands that out, and goes on when the sum of all comes back, whose tag says that nobody
has changed it.  Masks and tags depend on all that was exchanged before: who was told another
thing than the others has masks that do not cancel.
"""

from hashlib import blake2b, sha256
from queue import Queue
from threading import Thread
from typing import Any

import numpy as np

from .._warnings import keep_warnings
from ..estimators._partition import model_text
from .asked import MOST_CELLS, TOO_MANY_CELLS
from .engine import SumEngine, handles_of
from .forms import check_facts, require
from .keys import Circle
from .local import Local
from .noise import NoisySums
from .noisy import fit_noisy
from .noisy_rows import NoisyRows
from .programme import estimator_of, then_of
from .public import Public
from .rules import NotReleasedError
from .wire import Covered, Done, Joined, Sealed, encode


def run(engine, model, then) -> list:
    """Fit a model over an engine of sums, and what follows; results of that."""
    import sksurvgpu

    engine.agree(model_text(model))
    X, y = handles_of(engine)
    with np.errstate(invalid="ignore"):  # of points that sites tell nothing about
        model.fit(X, y)
        return [getattr(sksurvgpu, name)(model, X, y, **options) for name, options in then]


def transcript_of(programme, joined, sealed) -> bytes:
    """Digest of all that was said before sums begin, on which masks and tags depend."""
    code = sha256(programme.digest)
    for name in programme.sites:
        code.update(encode(joined[name]) + encode(sealed[name]))
    return code.digest()


def later(transcript, form, words) -> bytes:
    """Transcript after another sum."""
    return sha256(transcript + form + np.ascontiguousarray(words, "<u8").tobytes()).digest()


class Stopped(BaseException):
    """Ends the thread of a session that nobody waits for any more."""


class SiteSession:
    """One programme at one site.

    `site` is asked for its `identity`, `rules`, `name`, digest of `rows` and what it counts.
    """

    def __init__(self, programme, site, arguments, secret):
        self.programme, self._site = programme, site
        self._model, self._then = estimator_of(programme.estimator), then_of(programme.then)
        self.local: Any = (
            NoisyRows(arguments, programme)
            if programme.noise
            else Local(arguments, site.rules, site.ledger, secret, site.name, programme)
        )
        # Another one wherever rows, rules or anything else may let the parts be others: a mask
        # covers once. The same one for a site that is started again in the middle.
        self._share = blake2b(programme.digest + site.state, key=secret[:64]).digest()[:32]
        self._outbox: Queue = Queue()
        self._inbox: Queue = Queue()
        self._thread: Thread | None = None
        self._circle: Circle | None = None
        self._number, self._waits = 0, False
        self.model: Any = None
        self.results: list = []
        self.asked = ""  # of the last sum, in words

    @property
    def reader(self):
        """Who knows what of the rows does not count."""
        return self.local if self.programme.noise else self.local.reader

    @property
    def withheld(self) -> str:
        """Why this site told nothing of the last such point, which nobody else is told."""
        return "" if self.programme.noise else self.local.withheld

    def join(self) -> Joined:
        """Say what is public, with the key of this site."""
        text = "" if self.programme.noise else model_text(self._model)
        names, facts = self.local.facts(text)
        public = self._site.identity.public if len(self.programme.sites) > 1 else b""
        self._said = Joined(public.hex(), names, facts)
        return self._said

    def seal(self, joined) -> Sealed:
        """Take the keys of all sites, and give each its share of what they have in common."""
        self._check_named(joined)
        require(self._thread is None, "is of the keys of a fit that has begun")
        for said in joined.values():
            check_facts(said.facts)
        is_mine = encode(joined[self._site.name]) == encode(self._said)
        require(is_mine, "has something else of this site than what it has said")
        publics = {name: _bytes_of(said.public, "public key") for name, said in joined.items()}
        self._joined = joined
        try:
            self._site.check_peers(publics)
            self._public = Public.of(joined)
            n_labels = max(len(self._public.labels), len(self._public.censor_labels))
            if n_labels * len(self.programme.grid) > MOST_CELLS:
                raise NotReleasedError(TOO_MANY_CELLS)
            identity = self._site.identity if len(publics) > 1 else None
            self._circle = Circle(identity, self._site.name, publics, self.programme.digest)
        except ValueError as error:
            raise NotReleasedError(str(error).removesuffix(".")) from None
        shares = self._circle.shares(self._share)
        return Sealed({name: share.hex() for name, share in shares.items()})

    def start(self, sealed):
        """Begin the fit; the first part of this site."""
        self._check_named(sealed)
        require(self._circle is not None, "begins a fit before the site has the keys of all")
        require(self._thread is None, "begins a fit that has begun")
        mine = self._site.name
        shares = {
            name: _bytes_of(said.shares.get(mine, ""), "share")
            for name, said in sealed.items()
            if name != mine
        }
        try:
            self._circle.close(self._share, shares)
        except ValueError as error:
            raise NotReleasedError(str(error).removesuffix(".")) from None
        self._transcript = transcript_of(self.programme, self._joined, sealed)
        self._thread = Thread(target=self._work, daemon=True)
        self._thread.start()
        return self._take()

    def _check_named(self, said):
        require(tuple(sorted(said)) == self.programme.sites, "is not of the sites of its programme")

    def add(self, number, words):
        """Take the sum of all parts; the next part of this site, or the end."""
        require(self._waits, "is a sum, and the fit waits for none: it has ended, or not begun")
        require(number == self._number, f"is number {number}, and {self._number} is waited for")
        self._inbox.put(words)
        return self._take()

    def stop(self) -> None:
        """End the thread."""
        if self._thread is not None:
            self._inbox.put(None)

    def _take(self):
        kind, value = self._outbox.get()
        self._waits = kind == "part"
        if kind == "failed":
            raise value
        return value

    def _work(self):
        try:
            # The coordinator has them, too; filters are those of all threads, and stay as they are.
            with keep_warnings(), np.errstate(all="ignore"):
                self.model = self._fit()
            self.asked = ""
            self._outbox.put(("done", Done()))
        except Stopped:
            return
        except BaseException as error:
            self._outbox.put(("failed", error))

    def _fit(self):
        """Fit the programme: the model, or a `NoisyFit`."""
        if self.programme.noise:
            self._engine = NoisySums(self._exchange, self.local, self._open_noise)
            return fit_noisy(self.programme, self._public, self._engine)
        self._engine = SumEngine(self._public, self.programme, self._exchange, self.local)
        self.results = run(self._engine, self._model, self._then)
        return self._model

    def _open_noise(self, amount):
        return self._site.open_noise(self.programme, self._code, amount)

    def _exchange(self, form, make, n_words):
        """Hand out this site's part; wait for the sum of all."""
        self._number += 1
        self.asked = self._engine.asked
        code = self._code = sha256(self._transcript + form).digest()
        self._site.count_exchange(code)
        words = self._circle.cover(make(), code)
        self._site.keep_part(code, words)
        self._outbox.put(("part", Covered(self._number, form.hex(), words)))
        total = self._inbox.get()
        if total is None:
            raise Stopped
        require(total.dtype == np.uint64 and total.shape == (n_words + 1,), "has another form")
        found = self._circle.verify(total, code)
        self._transcript = later(self._transcript, form, total)
        return found


def _bytes_of(text, what) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise NotReleasedError(f"a {what} of a site is none") from None
