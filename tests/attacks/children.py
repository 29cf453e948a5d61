"""Attempts in processes of their own, which may die or hang without taking the others along.

A child reads numbers from its standard input, makes the attempt of each and answers with a line of
JSON. It serves many attempts, since a start takes seconds; after a crash or a hang comes a new one.
"""

import faulthandler
import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# First attempts may compile kernels, on a machine that does other things, too.
SECONDS = 600
# Enough for small data; a size read from damaged input must not take the machine down.
ADDRESS_SPACE = 24 * 2**30


@dataclass(frozen=True)
class Outcome:
    """What became of an attempt.

    Attributes
    ----------
    number : int
    result : str
        "accepted", "refused", or "failed" where neither should have happened, or not like this.
    words : str
        The message of a refusal; of a failure, what failed.
    """

    number: int
    result: str
    words: str


class Child:
    """A process that makes attempts; `module` has a function ``attempt(seed, number)``."""

    def __init__(self, module, seed, seconds=SECONDS):
        self._command = [sys.executable, "-X", "faulthandler", "-W", "ignore", "-m", __spec__.name]
        self._command += [module, str(seed)]
        self._seconds, self._process = seconds, None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._stop()

    def attempt(self, number):
        """Return the outcome of an attempt; a crash or a hang is a failure."""
        if self._process is None:
            self._start()
        self._process.stdin.write(f"{number}\n")
        self._process.stdin.flush()
        try:
            line = self._lines.get(timeout=self._seconds)
        except queue.Empty:
            self._stop()
            return Outcome(number, "failed", f"hangs: no answer within {self._seconds} s")
        if line:
            return Outcome(number, *json.loads(line))
        code = self._process.wait()
        self._errors.seek(0)
        words = f"crash, exit status {code}:\n{self._errors.read()}"
        self._stop()
        return Outcome(number, "failed", words)

    def _start(self):
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed by `_stop`
        paths = [str(ROOT), str(ROOT / "tests"), os.environ.get("PYTHONPATH", "")]
        self._process = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        )
        self._lines = queue.SimpleQueue()
        self._reader = threading.Thread(
            target=_forward, args=(self._process.stdout, self._lines), daemon=True
        )
        self._reader.start()

    def _stop(self):
        if self._process is None:
            return
        self._process.kill()
        self._process.wait()
        self._reader.join()
        for stream in (self._process.stdin, self._process.stdout, self._errors):
            stream.close()
        self._process = None


def _forward(stream, lines):
    for line in stream:
        lines.put(line)
    lines.put("")


def _limit_memory():
    try:
        import resource
    except ImportError:  # not on every system
        return
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _serve(module, seed):
    import importlib

    faulthandler.enable()
    _limit_memory()
    # What the attempts print goes elsewhere.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    attempt = importlib.import_module(module).attempt
    for line in sys.stdin:
        answers.write(json.dumps(attempt(seed, int(line))) + "\n")
        answers.flush()


if __name__ == "__main__":
    _serve(sys.argv[1], int(sys.argv[2]))
