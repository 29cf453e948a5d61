"""Messages to sites, and their answers; sums of these, and a file by which a fit goes on."""

import os
from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from .engine import RefusedError
from .forms import FormError, check_facts, check_words, printable, require
from .keys import total_of, without_tag
from .wire import (
    Add,
    Begin,
    Covered,
    Done,
    Joined,
    Lost,
    Refused,
    Seal,
    Sealed,
    Start,
    decode,
    encode,
    read,
)

ANSWERS = (Joined, Sealed, Covered, Done, Lost, Refused)
MOST_STARTS = 3  # of a site within one message
OF_LENGTH = 8  # bytes


class Post:
    """Messages to sites, and their answers; one to all of them is an exchange.

    Parameters
    ----------
    names : sequence of str
    carry : callable
        From messages by name to pairs of a name and an answer.
    checkpoint : path-like, optional
        File of what was said, which is that of a fit that was stopped, if there is one.

    Attributes
    ----------
    said : list
        All that was said to each site, in its order.
    """

    def __init__(
        self, names: Sequence[str], carry: Callable[[dict[str, bytes]], Iterator], checkpoint=None
    ):
        self.names, self._carry = tuple(names), carry
        self.n_exchanges = self.bytes_down = self.bytes_up = 0
        self._waits: dict[str, str] = {}  # digest of a site's message
        self._rows: dict[str, str] = {}
        self._file = None if checkpoint is None else Path(checkpoint)
        self.said: list[Any] = _read_said(self._file)
        if not self.is_known:
            self.said = []
            self.forget()

    @property
    def is_known(self) -> bool:
        """Whether sums had begun in a fit that was stopped."""
        return len(self.said) > 2

    def forget(self) -> None:
        """Remove the file of what was said."""
        if self._file is not None:
            self._file.unlink(missing_ok=True)

    def ask(self, content, kind) -> dict[str, Any]:
        """Answers of all sites to one message, which are of a kind."""
        self.n_exchanges += 1
        goes_on = bool(self.said) and self.said[-1] is content
        if not goes_on:
            self._keep(content)
        found = self._exchange(dict.fromkeys(self.names, content), goes_on)
        for name in [name for name in found if isinstance(found[name], Lost | Refused)]:
            found[name] = self._tell_again(name)
        for name, answer in found.items():
            if not isinstance(answer, kind):
                raise ValueError(
                    f"site {name!r} answered {type(answer).__name__} where {kind.__name__} was "
                    "expected; it may have another version."
                )
        return {name: found[name] for name in self.names}

    def _keep(self, content):
        self.said.append(content)
        if self._file is not None:
            data = encode(content)
            with open(self._file, "ab") as file:
                file.write(len(data).to_bytes(OF_LENGTH) + data)

    def _tell_again(self, name):
        """The last answer of a site that was started again, and hears all from the beginning."""
        for _ in range(MOST_STARTS):
            answers = [self._exchange({name: content})[name] for content in self.said]
            if not any(isinstance(answer, Lost) for answer in answers):
                return answers[-1]
        raise RuntimeError(f"site {name!r} is started again and again; see its log.")

    def _exchange(self, contents, goes_on=False):
        # No two messages are the same, so that no answer is that to another one.
        data = {
            name: encode(content, site=name, about=os.urandom(16).hex())
            for name, content in contents.items()
        }
        self._waits |= {name: sha256(message).hexdigest() for name, message in data.items()}
        self.bytes_down += sum(map(len, data.values()))
        found = {}
        for name, answer in self._carry(data):
            found[name] = self.open(name, answer)
            self.bytes_up += len(answer)
            del self._waits[name]
            # A fit may go on that was stopped while a site was told all again.
            if isinstance(found[name], Refused) and not goes_on:
                raise RefusedError(f"site {name!r} refused: {printable(found[name].reason)}.")
        missing = sorted(set(data).difference(found))
        if missing:
            raise RuntimeError(f"site(s) {missing} have not answered; the fit was stopped.")
        return found

    def open(self, name: str, data: bytes) -> Any:
        """Content of an answer: that site's, of the rows that it had, to the message it has now."""
        if name not in self._waits:
            raise ValueError(f"site {name!r} has answered its message; hand over each answer once.")
        try:
            answer = read(data, ANSWERS)
            self._check_stamp(name, answer)
            if isinstance(answer.content, Joined):
                check_facts(answer.content.facts)
        except FormError as error:
            raise ValueError(f"site {name!r}: its answer {error}.") from None
        except (ValueError, TypeError) as error:
            raise ValueError(f"site {name!r}: {error}") from None
        return answer.content

    def _check_stamp(self, name, answer):
        is_unread = answer.site == "" and isinstance(answer.content, Refused)
        if answer.site != name and not is_unread:
            raise ValueError(
                f"the answer that came is one of site {answer.site!r}; hand over each answer under "
                "the name of the site that gave it."
            )
        if answer.about != self._waits[name]:
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


def _read_said(file) -> list[Any]:
    """All that a file has of what was said, but for what was being written as it ended."""
    if file is None or not file.exists():
        return []
    data, said = file.read_bytes(), []
    while len(data) >= OF_LENGTH:
        size = int.from_bytes(data[:OF_LENGTH])
        record, data = data[OF_LENGTH : OF_LENGTH + size], data[OF_LENGTH + size :]
        if len(record) == size:
            said.append(record)
    try:
        return [decode(record, (Begin, Seal, Start, Add)) for record in said]
    except ValueError as error:
        raise ValueError(
            f"`checkpoint` {str(file)!r} is not of a fit over sites: {error}"
        ) from None


class Adder:
    """Sums of what sites send, one after the other: the coordinator's end of `SumEngine`.

    `messages` are the start of the fit and the sums that sites were told, of which the last one may
    not have come to all of them.
    """

    def __init__(self, post, messages):
        self._post, self._next = post, messages[-1]
        self._known = [add.words for add in messages[1:]]
        self._number = 0

    def exchange(self, form, make, n_words):
        """The sum of all parts, which all sites are told with the next message."""
        self._number += 1
        if self._number <= len(self._known):
            return without_tag(self._known[self._number - 1])
        parts = self._post.ask(self._next, Covered)
        for name, part in parts.items():
            try:
                is_same = part.number == self._number and part.form == form.hex()
                require(is_same, "is of another question: its program went another way")
                check_words(part.words, n_words + 1)
            except FormError as error:
                raise ValueError(
                    f"site {name!r}: its part {error}; install the same versions at the "
                    "coordinator and all sites."
                ) from None
        total = total_of([part.words for part in parts.values()])
        self._next = Add(self._number, total)
        return without_tag(total)

    def end(self) -> None:
        """Give sites the last sum, with which their fits are done, too."""
        self._post.ask(self._next, Done)
        self._post.forget()
