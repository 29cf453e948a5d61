"""A site: rows that stay where they are, and their part in sums over all sites, by rules.

A site takes a programme or refuses it.  From then on nobody asks it anything: it runs the fit of
the programme itself, and all that it is sent are sums.
"""

import json
import logging
import os
from collections.abc import Callable
from datetime import UTC, datetime
from hashlib import sha256
from threading import Lock
from typing import Any

import numpy as np

from .._versioned import __version__
from ..backends.sums.matrix import LEVELS
from ..data.design.columns import build_design
from ..data.options import choice
from ..data.vectors import check_order, check_unmasked
from .asked import check_model
from .forms import FormError
from .keys import Identity, TagError, fingerprint_of
from .ledger import Ledger
from .noise import SLACK, Noise, mu_of, noise_key
from .noisy import check_noisy
from .programme import estimator_of, then_of
from .reading import digest_rows
from .rules import NotReleasedError, Rules
from .session import SiteSession
from .wire import Add, Begin, Lost, Refused, Seal, Start, encode, read

MESSAGES = (Begin, Seal, Start, Add)
LEAST_SECRET = 16  # bytes
OF_FIT = {"sample_weight", "strata", "exposure", "offset", "censoring_groups", "cluster"}
journal = logging.getLogger(__name__)


class Site:
    """Rows of one institution, which takes part in fits over several.

    Parameters
    ----------
    X : array-like, sparse matrix, DataFrame or Design of shape (n_rows, n_columns)
        The same columns in the same order as at all other sites.
    y : ndarray of shape (n_rows,)
        Outcome as the estimator of the coordinator takes it.
    rules : Rules, optional
        What may leave.
    name : str, optional
        What coordinators call the site; messages to another one are refused.
    key : Identity or path-like, optional
        Key by which other sites know this one, or its file, which is made where there is none;
        drawn by default.
    peers : dict of str, optional
        Fingerprints of the keys of other sites by name, as ``Identity.fingerprint`` has them; a
        programme with other keys is refused. Without it keys are taken as the coordinator hands
        them on, which is as much as is trusted in it.
    ledger : path-like, optional
        File of what was told, by which limits survive a start anew; otherwise they begin anew.
    log : path-like, optional
        File to which a line of JSON is added for every message.
    secret : bytes, optional
        Of what random folds and weights depend on here, 16 bytes or more; by default drawn, and
        kept in `ledger`. A site that is started again in the middle of a fit needs the same one,
        and the same key.
    **arguments
        More arguments of the estimator's ``fit``, such as ``sample_weight`` or ``strata``.

    Attributes
    ----------
    model_ : estimator, NoisyFit or None
        The fit of all sites, which each has when it is done.
    results_ : list
        Of the functions that followed it.
    n_exchanges_ : int
        Sums that the site has taken part in, of which the rules allow some.
    absent_ : tuple of str
        Columns of X that count as zero here, as too few rows have them.
    left_out_ : tuple of str
        Strata whose rows are left out, as they are too few.

    See Also
    --------
    Coordinator : Has a fit made over sites.

    Examples
    --------
    >>> from sksurvgpu.federated import Rules, Site
    >>> from sksurvgpu.datasets import simulate_cox
    >>> data = simulate_cox(500, 5, random_state=0)
    >>> site = Site(data.X, data.y, rules=Rules(min_rows=20))
    """

    def __init__(
        self, X, y, *, rules=None, name=None, key=None, peers=None, ledger=None, log=None,
        secret=None, **arguments,
    ):  # fmt: skip
        for name in sorted(set(arguments) - OF_FIT):
            raise TypeError(f"`{name}` is no argument of a fit; {sorted(OF_FIT)} are.")
        given = {"y": y} | {key: value for key, value in arguments.items() if value is not None}
        check_order(X=X, **given)
        self._arguments = {"X": build_design(X)}
        n_rows = self._arguments["X"].n_rows
        for argument, value in given.items():
            check_unmasked(value, argument)
            self._arguments[argument] = value = np.asarray(value)
            if len(value) != n_rows:
                raise ValueError(
                    f"`{argument}` has {len(value):,} entries, `X` has {n_rows:,} rows."
                )
        self.rules = Rules() if rules is None else rules
        if not isinstance(self.rules, Rules):
            raise TypeError(f"`rules` is of type {type(rules).__name__}, must be Rules(...).")
        if not (secret is None or (isinstance(secret, bytes) and len(secret) >= LEAST_SECRET)):
            raise TypeError("`secret` must be 16 bytes or more, such as `os.urandom(16)`.")
        self._log, self._lock, self.name = log, Lock(), "" if name is None else str(name)
        self._key, self.peers = key, peers
        self.ledger = Ledger(ledger)
        drawn = os.urandom(LEAST_SECRET)
        self._secret = self.ledger.secret(drawn) if secret is None else secret
        if self.rules.blur and not self.ledger.settle("secret", sha256(self._secret).hexdigest()):
            raise ValueError(
                "`secret` is another one than before, and the rows would be blurred another time, "
                "which tells the mean of both; give the same one, or begin a new `ledger`."
            )
        self.rows = digest_rows(self._arguments, self.rules, self._secret)
        self._session: SiteSession | None = None
        self._last: tuple[bytes, Any] = b"", None  # digest of a message, and its answer
        self._shown = ""  # the programme that was asked for last, in words
        self.model_: Any = None
        self.results_: list = []

    @property
    def identity(self) -> Identity:
        """Key of the site."""
        if not isinstance(self._key, Identity):
            self._key = Identity.new() if self._key is None else Identity.load(self._key)
        return self._key

    @property
    def state(self) -> bytes:
        """All that parts of sums follow from beside the programme, as a digest."""
        return sha256(f"{self.rows} {self.rules} {__version__}".encode()).digest()

    @property
    def n_exchanges_(self) -> int:
        return self.ledger.total("exchanges")

    @property
    def absent_(self) -> tuple[str, ...]:
        return () if self._session is None else self._session.reader.absent

    @property
    def left_out_(self) -> tuple[str, ...]:
        return () if self._session is None else self._session.reader.left_out

    def answer(self, message: bytes, approve: Callable[[Any], bool] | None = None) -> bytes:
        """Answer a message, or say why not; nothing that happens here is an error to the sender.

        Parameters
        ----------
        message : bytes
            From a coordinator.
        approve : callable, optional
            Is shown the programme of a fit before it begins, whose text says what it is, and says
            whether the site takes part.
        """
        with self._lock:
            operation, decision = "unread", "answered"
            stamp = {"about": sha256(message).hexdigest(), "rows": self.rows}
            try:
                question = self._read(message)
                stamp["site"] = self.name = self.name or question.site
                operation = type(question.content).__name__
                data = encode(self._answer_once(question.content, approve), **stamp)
            except (NotReleasedError, FormError, TagError) as refusal:
                reason = "the message " * isinstance(refusal, FormError) + str(refusal)
                decision = f"refused: {reason}"
                data = encode(Refused(reason.removesuffix(".")), **stamp)
            except Exception as error:  # its text may speak of rows
                journal.exception("A message could not be answered.")
                decision = f"failed: {type(error).__name__}: {error}"
                data = encode(Refused("an error came up at the site; see the log there"), **stamp)
            self._write(operation, message, data, decision)
        return data

    def _read(self, message):
        """A message of its bytes, of which alone the words of a refusal speak here."""
        try:
            question = read(message, MESSAGES)
        except ValueError as error:
            raise NotReleasedError(str(error).removesuffix(".")) from None
        if self.name and question.site not in ("", self.name):
            raise NotReleasedError(
                f"the message is to {question.site!r}, and this is {self.name!r}"
            )
        return question

    def _answer_once(self, message, approve):
        """The answer that was given before, where it was lost on its way to who asks again."""
        code = sha256(encode(message)).digest()
        if code != self._last[0]:
            self._last = b"", None
            self._last = code, self._answer(message, approve)
        return self._last[1]

    def _answer(self, message, approve):
        if isinstance(message, Begin):
            return self._begin(message.programme, approve)
        if self._session is None:
            return Lost()
        if isinstance(message, Seal):
            return self._session.seal(message.joined)
        if isinstance(message, Start):
            return self._session.start(message.sealed)
        found = self._session.add(message.number, message.words)
        if self._session.model is not None:
            self.model_, self.results_ = self._session.model, self._session.results
        return found

    def _begin(self, programme, approve):
        """Take part in a programme, in place of the one before."""
        self._shown = ""
        model = self._check_programme(programme)
        if approve is not None and not approve(programme):
            raise NotReleasedError("the programme was not approved at the site")
        if programme.noise:
            self._check_noise(programme)
        else:
            self._settle(programme, model)
        self._count_programme(programme)
        if self._session is not None:
            self._session.stop()
        self._session = SiteSession(programme, self, self._arguments, self._secret)
        return self._session.join()

    def _check_programme(self, programme):
        rules, sites = self.rules, programme.sites
        if tuple(sorted(set(sites))) != sites or self.name not in sites:
            raise NotReleasedError(
                f"the programme is of the sites {sites}, in whose order {self.name!r} has no place"
            )
        if len(sites) < rules.min_sites:
            raise NotReleasedError(
                f"the programme is of {len(sites)} site(s), and sums hide this one among "
                f"{rules.min_sites} or more (`min_sites`)"
            )
        try:
            model = estimator_of(programme.estimator)
            then_of(programme.then)
            programme.check_matrix()
            choice(programme.level, "level", LEVELS)
            if programme.noise:
                check_noisy(programme)
            self._shown = str(programme)
        except (ValueError, TypeError, IndexError) as error:  # also of a grid that is none
            reason = str(error).removesuffix(".")
            raise NotReleasedError(f"{reason}; install the same version everywhere") from None
        return check_model(model, self._arguments, rules)

    def _settle(self, programme, model):
        """Keep what was agreed to, of which there is not much in a site's life."""
        if self.rules.max_epsilon is not None:
            raise NotReleasedError(
                f"its sums are exact, and rows here are differentially private with epsilon "
                f"{self.rules.max_epsilon:g} (`max_epsilon`): ask with `noise`"
            )
        if not self.ledger.settle("sites", programme.sites):
            raise NotReleasedError(
                "it has taken part in fits of other sites, and what differs between these are the "
                "rows of the ones that come or go; ask it to start anew"
            )
        if not self.ledger.count("models", model, 1, self.rules.max_models):
            raise NotReleasedError(
                f"it has been read for {self.rules.max_models} models (`max_models`), as "
                "differences between models tell rows apart"
            )

    def _count_programme(self, programme):
        said = [programme.estimator, programme.then, programme.level, programme.matrix_of]
        said += [programme.noise] if programme.noise else []
        if not self.ledger.count("programmes", said, 1, self.rules.max_programmes):
            raise NotReleasedError(
                f"it has taken part in {self.rules.max_programmes} programmes (`max_programmes`), "
                "each of which may have points of its own; ask it to start anew"
            )

    def check_peers(self, publics) -> None:
        """Refuse keys that are not those of the sites that this one knows, or has met before."""
        others = {name: fingerprint_of(publics[name]) for name in publics if name != self.name}
        for name, found in others.items():
            if self.peers is not None and self.peers.get(name) != found:
                raise NotReleasedError(
                    f"the key of {name!r} has the fingerprint {found}, and this site knows "
                    f"{self.peers.get(name, 'none')} (`peers`)"
                )
        for name, found in others.items():
            if not self.ledger.settle(f"key of {name}", found):
                raise NotReleasedError(
                    f"the key of {name!r} is another one than when it first took part, and may be "
                    "of somebody else: have sites keep theirs (`key`), or ask this one to start "
                    "anew"
                )

    def count_exchange(self, code) -> None:
        """Count a sum that this site takes part in: at one point once, however often it is told."""
        most = self.rules.max_exchanges
        if not self.ledger.count("exchanges", code.hex(), 1, most):
            raise NotReleasedError(
                f"the {most:,} exchanges that it allows are used up; ask it to start anew with a "
                "larger `max_exchanges`"
            )

    def keep_part(self, code, words) -> None:
        """Refuse other words under masks that have covered some: both tell their difference."""
        if not self.ledger.settle(f"part {code.hex()}", sha256(words.tobytes()).hexdigest()):
            raise NotReleasedError(
                "it has told another part at this point, as its rows or its machine were others; "
                "begin anew"
            )

    @property
    def _most_noise(self):
        """Square of mu that all programmes with noise may have together."""
        return mu_of(self.rules.max_epsilon, self.rules.max_delta) ** 2 * SLACK

    def _check_noise(self, programme):
        """Refuse a programme with less noise than is left for, or whose noise others may know."""
        if self.rules.max_epsilon is None:
            raise NotReleasedError(
                "how much noise is enough it has not said, and little is none: ask it to set "
                "`max_epsilon` of its rules"
            )
        if self.peers is None and len(programme.sites) > 2:
            raise NotReleasedError(
                "noise is shared out among the sites, of which a coordinator could make up some: "
                "give it the fingerprints of the others (`peers`)"
            )
        whole = Noise.read(programme.noise).mu ** 2
        if not self.ledger.allows("noise", programme.digest.hex(), whole, self._most_noise):
            raise NotReleasedError(
                f"its rows are differentially private with epsilon {self.rules.max_epsilon:g} in "
                "all programmes together (`max_epsilon`), of which there is less left; ask for a "
                "smaller epsilon"
            )

    def open_noise(self, programme, code, amount) -> bytes:
        """Key of the noise at a point, the square of whose mu is counted.

        A point that is told again has the same noise; another one of the same programme, to which
        other sums have led, is counted beside all that the programme was to tell.
        """
        digest = programme.digest.hex()
        told = f"noise of {digest}"
        self.ledger.count(told, code.hex(), amount, np.inf)
        whole = max(Noise.read(programme.noise).mu ** 2 * SLACK, self.ledger.total(told))
        if not self.ledger.count("noise", digest, whole, self._most_noise * SLACK):
            raise NotReleasedError("the noise that it allows for is used up (`max_epsilon`)")
        return noise_key(self._secret, self.state, code)

    def _write(self, operation, message, answer, decision):
        if self._log is None:
            return
        session = self._session
        line = {
            "time": datetime.now(UTC).isoformat(),
            "operation": operation,
            "message": sha256(message).hexdigest(),
            "message_bytes": len(message),
            "answer": sha256(answer).hexdigest(),
            "answer_bytes": len(answer),
            "exchanges": self.n_exchanges_,
            "decision": decision,
        }
        if operation == "Begin":
            line["programme"] = self._shown
            line["rules"], line["version"] = str(self.rules), __version__
        elif session is not None and operation in ("Start", "Add"):
            line["told"] = session.asked
            line["withheld"] = session.withheld
        with open(self._log, "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
