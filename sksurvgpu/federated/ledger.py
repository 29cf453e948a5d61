"""Memory of a site over its life: facts that may be told once, and counts of what was told.

In a file, it survives the process, so that a site that is started again does not begin anew.
"""

import json
import os
from contextlib import contextmanager, nullcontext
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

from .._journal import lock


class Ledger:
    """Facts that were settled, and counts of what was told.

    Parameters
    ----------
    path : path-like, optional
        File that keeps them.
    """

    def __init__(self, path=None):
        self._path = None if path is None else Path(path)
        self._settled: dict[str, str] = {}
        self._counted: dict[str, dict[str, float]] = {}
        self._secret = ""
        self._read()

    def _read(self):
        """Take what is in the file, to which another site of the same rows may have added."""
        if self._path is not None and self._path.exists():
            try:
                said = json.loads(self._path.read_text(encoding="utf-8"))
                self._settled, self._counted = dict(said["settled"]), dict(said["counted"])
                self._secret = bytes.fromhex(said.get("secret", "")).hex()
            except (ValueError, TypeError, KeyError):
                raise ValueError(
                    f"`ledger` {str(self._path)!r} is none of a site, or damaged; take a copy of "
                    "it, or have who is responsible for the rows decide to begin anew without it."
                ) from None

    @contextmanager
    def _alone(self):
        """Take what is in the file, and have others that would add to it wait."""
        path = self._path and self._path.with_name(self._path.name + ".lock")
        with nullcontext() if path is None else lock(path, wait=True):
            self._read()
            yield

    def settle(self, name: str, value) -> bool:
        """Whether a fact is what it was when it was first asked for, which may be now."""
        code = _digest(value)
        with self._alone():
            if name not in self._settled:
                self._settled[name] = code
                self._write()
            return self._settled[name] == code

    def secret(self, drawn: bytes) -> bytes:
        """Secret of the site, which is what was drawn first."""
        with self._alone():
            if not self._secret:
                self._secret = drawn.hex()
                self._write()
            return bytes.fromhex(self._secret)

    def count(self, name: str, key, times: float, most: float) -> bool:
        """Count what is told of a key; False, and nothing counted, beyond a limit for all keys."""
        with self._alone():
            if not self._allows(name, key, times, most):
                return False
            counted, code = self._counted.setdefault(name, {}), _digest(key)
            if times > counted.get(code, 0):
                counted[code] = times
                self._write()
            return True

    def allows(self, name: str, key, times: float, most: float) -> bool:
        """Whether it could be counted."""
        with self._alone():
            return self._allows(name, key, times, most)

    def _allows(self, name, key, times, most):
        before = self._counted.get(name, {}).get(_digest(key), 0)
        return times <= before or self.total(name) - before + times <= most

    def total(self, name: str) -> Any:
        """How much of something was told."""
        return sum(self._counted.get(name, {}).values())

    def _write(self):
        if self._path is None:
            return
        said = {"settled": self._settled, "counted": self._counted, "secret": self._secret}
        unfinished = self._path.with_name(self._path.name + ".unfinished")
        for_owner = partial(os.open, mode=0o600)
        with open(unfinished, "w", encoding="utf-8", opener=for_owner) as file:
            json.dump(said, file)
        os.replace(unfinished, self._path)


def _digest(value) -> str:
    return sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()[:32]
