"""A line about long work: how much of it is done, since when, and how long the rest may take.

It needs no package for that: a terminal or notebook shows one line that is written anew, files and
pipes get it once in a while, and all of them the last one.
"""

from __future__ import annotations

import sys
import time
from threading import Lock

from ._tables import counted

__all__ = ["Line"]

OFTEN, SELDOM = 0.2, 60.0  # seconds between two states of a line that is written anew, or added
SOON = 0.5  # seconds after which a line begins: shorter work has only the last one


class Line:
    """Progress of one piece of work on the standard output; steps may come from several threads.

    As a context it ends with the work; where that fails, what follows begins on a line of its own.

    Parameters
    ----------
    name : str
        What is done.
    n_all : int or None, default=None
        How many steps there are, where that is known.
    unit : str, default="fits"
        What steps are.
    is_shown : bool, default=True
        False makes a line that is silent.
    """

    def __init__(self, name, n_all=None, unit="fits", is_shown=True):
        self._name, self._n_all, self._unit, self.is_shown = name, n_all, unit, is_shown
        self._n_done = self._n_before = self._width = 0
        self._is_open = is_shown
        self._begin = time.monotonic()
        self._is_rewritten = is_shown and _is_interactive(sys.stdout)
        self._next = self._begin + (SOON if self._is_rewritten else SELDOM)
        self._lock = Lock()

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        if kind is None:
            self.end()
        elif self._is_open and self._width:
            print(flush=True)

    def skip(self, n_steps):
        """Count steps that were done before: they took no time here."""
        with self._lock:
            self._n_done += n_steps
            self._n_before += n_steps

    def step(self, n_steps=1, note=""):
        """Count steps, and show the line if it is time to."""
        with self._lock:
            self._n_done += n_steps
            now = time.monotonic()
            if self.is_shown and now >= self._next:
                self._next = now + (OFTEN if self._is_rewritten else SELDOM)
                self._write(self._state(now - self._begin, note))

    def end(self, text=None):
        """Show the line for the last time, or the text in its place; once."""
        if not self._is_open:
            return
        self._is_open = False
        if text is None:
            seconds = _in_words(time.monotonic() - self._begin)
            text = f"{self._name}: {counted(self._n_done, self._unit)}, {seconds}"
        self._write(text, is_last=True)

    def _state(self, elapsed, note):
        done = counted(self._n_done, self._unit)
        if self._n_all is not None:
            done = f"{self._n_done:,} of {counted(self._n_all, self._unit)}"
        parts = [f"{self._name}: {done}", _in_words(elapsed)]
        n_new = self._n_done - self._n_before
        if self._n_all is not None and n_new > 0:
            rest = elapsed * max(self._n_all - self._n_done, 0) / n_new
            parts.append(f"about {_in_words(rest)} left")
        return ", ".join([*parts, note] if note else parts)

    def _write(self, text, is_last=False):
        if not self._is_rewritten:
            print(text, flush=True)
            return
        covered, self._width = self._width, len(text)
        print(f"\r{text:<{covered}}", end="\n" if is_last else "", flush=True)


def _is_interactive(stream):
    """Whether what is written can be written over: in a terminal, or in a cell of a notebook."""
    if stream is None:  # a program without a console
        return False
    return stream.isatty() or type(stream).__module__.startswith("ipykernel")


def _in_words(seconds):
    """Seconds as people say them."""
    if seconds < 60:
        return f"{seconds:.2g} s" if seconds < 9.5 else f"{seconds:.0f} s"
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {seconds:02d} s"
