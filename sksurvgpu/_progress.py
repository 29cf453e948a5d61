"""A line about long work: how much of it is done, since when, and how long the rest may take.

It needs no package for that: a terminal or notebook shows one line that is written anew, files and
pipes get it once in a while, and all of them the last one.  Where nobody asked for a line, a
terminal or notebook shows that of the outermost call as soon as it takes long, and wipes it off at
the end.
"""

from __future__ import annotations

import sys
import time
from shutil import get_terminal_size
from threading import Lock, current_thread, main_thread

from ._tables import counted
from ._waiting import NOTICEABLE, in_worker, seconds_of_compiling

OFTEN, SELDOM = 0.2, 60.0  # seconds between two states of a line that is written anew, or added
SOON = 0.5  # seconds after which a line begins: shorter work has only the last one
LONG = 5.0  # ... that nobody asked for

_open: list[Line] = []  # of the main thread, from the outermost call to the innermost
_settings = {"shows": True}


def show_progress(is_shown=True) -> None:
    """Choose whether long calls show their progress by default.

    In a terminal or notebook, a call that takes more than five seconds shows a line, which
    disappears when the call ends. ``verbose=1`` of estimators and functions prints lines that stay,
    also in files, with either choice.

    Parameters
    ----------
    is_shown : bool, default=True
        False lets only ``verbose`` decide, until it is chosen anew.

    Examples
    --------
    >>> import sksurvgpu
    >>> sksurvgpu.show_progress(False)
    >>> sksurvgpu.show_progress()
    """
    _settings["shows"] = bool(is_shown)


def is_wanted(verbose):
    """Whether a level of ``verbose`` wants a line; None leaves that to how long the call takes."""
    return verbose == 1 if verbose else None


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
    is_shown : bool or None, default=True
        False makes a line that is silent, None one that is there for a while if the call takes long
        (`show_progress`).
    since : float, optional
        When the call began, by `time.monotonic`; now by default.
    """

    def __init__(self, name, n_all=None, unit="fits", is_shown=True, since=None):
        self._begin, self._aside = time.monotonic(), seconds_of_compiling()
        self._name, self._n_all, self._unit = name, n_all, unit
        self._n_done = self._n_before = self._width = 0
        self._is_passing = is_shown is None
        self.is_shown = _is_watched() if is_shown is None else is_shown
        self._is_open = self.is_shown
        self._is_rewritten = self.is_shown and _is_interactive(sys.stdout)
        self._next = self._begin + (SOON if self._is_rewritten else SELDOM)
        if self._is_passing:
            self._next = (self._begin if since is None else since) + LONG
        self._lock = Lock()

    def __enter__(self):
        if current_thread() is main_thread():
            _open.append(self)
        return self

    def __exit__(self, kind, error, trace):
        if kind is None or self._is_passing:
            self.end()
        elif self._close() and self._width:
            print(flush=True)

    def _close(self):
        """Write no more, though steps of other threads may come; return whether it did."""
        if self in _open:  # and those within it, of generators that an error has left open
            del _open[_open.index(self) :]
        with self._lock:
            was_open, self._is_open = self._is_open, False
        return was_open

    def skip(self, n_steps):
        """Count steps that were done before: they took no time here."""
        with self._lock:
            self._n_done += n_steps
            self._n_before += n_steps

    def step(self, n_steps=1, note=""):
        """Count steps, and show the line if it is time to; a silent one, that of its caller."""
        if not self.is_shown:
            for outer in _open[:1]:  # which another thread may take away
                if outer.is_shown:
                    outer.step(0)
            return
        with self._lock:
            self._n_done += n_steps
            now = time.monotonic()
            if self._is_open and now >= self._next:
                self._next = now + (OFTEN if self._is_rewritten else SELDOM)
                self._write(self._state(now - self._begin, note))

    def end(self, text=None):
        """Show the line for the last time, or the text in its place; once."""
        if not self._close():
            return
        if self._is_passing:
            if self._width:
                print(f"\r{'':<{self._width}}\r", end="", flush=True)
                self._width = 0
            return
        if text is None:
            aside = seconds_of_compiling() - self._aside
            seconds = _in_words(max(time.monotonic() - self._begin - aside, 0.0))
            seconds += f" and {_in_words(aside)} of compiling" if aside > NOTICEABLE else ""
            text = f"{self._name}: {counted(self._n_done, self._unit)}, {seconds}"
        self._write(text, is_last=True)

    def _state(self, elapsed, note):
        done = counted(self._n_done, self._unit)
        if self._n_all is not None:
            done = f"{self._n_done:,} of {counted(self._n_all, self._unit)}"
        parts = [f"{self._name}: {done}", _in_words(elapsed)]
        n_new = self._n_done - self._n_before
        if self._n_all is not None and n_new > 0:
            working = max(elapsed - (seconds_of_compiling() - self._aside), 0.0)
            rest = working * max(self._n_all - self._n_done, 0) / n_new
            parts.append(f"about {_in_words(rest)} left")
        return ", ".join([*parts, note] if note else parts)

    def _write(self, text, is_last=False):
        if not self._is_rewritten:
            print(text, flush=True)
            return
        if not is_last:  # what is wrapped cannot be written over
            text = text[: get_terminal_size().columns - 1]
        covered, self._width = self._width, len(text)
        print(f"\r{text:<{covered}}", end="\n" if is_last else "", flush=True)


def _is_watched():
    """Whether a line that nobody asked for may be shown: one, to somebody who waits."""
    if not _settings["shows"] or _open or current_thread() is not main_thread():
        return False
    return _is_interactive(sys.stdout) and not in_worker()


def _is_interactive(stream):
    """Whether what is written can be written over: in a terminal, or in a cell of a notebook."""
    if type(stream).__module__.startswith("ipykernel"):
        return True
    try:
        return stream.isatty()
    except (AttributeError, ValueError):  # there is none, or one without that, or a closed one
        return False


def _in_words(seconds):
    """Seconds as people say them."""
    if seconds < 60:
        return f"{seconds:.2g} s" if seconds < 9.5 else f"{seconds:.0f} s"
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {seconds:02d} s"


def on_a_line(sizes, seconds, size):
    """Seconds of a size by one or two smaller ones: at least the last, at most in proportion."""
    (first, last), (before, after) = (sizes[0], sizes[-1]), (seconds[0], seconds[-1])
    most = after / last
    slope = min(max(0.0, (after - before) / (last - first)), most) if last > first else most
    return after + slope * (size - last)
