"""Warnings that point at the line of the user, outside of the package and of scikit-learn.

Scikit-learn wraps ``fit``, pipelines call it, and searches call it through joblib.

A thread that fits one of many models keeps what its fits warn of, for a table of results.
"""

import os
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from itertools import chain
from pathlib import Path

PACKAGE = str(Path(__file__).parent)
OTHERS = (find_spec(name).submodule_search_locations for name in ("sklearn", "joblib"))
SKIPPED = tuple(os.path.join(folder, "") for folder in (PACKAGE, *chain(*OTHERS)))
_of_thread = threading.local()


def warn(message: str | Warning, category: type[Warning] = UserWarning) -> None:
    """Warn at the user's line, or tell who keeps this thread's warnings."""
    category = type(message) if isinstance(message, Warning) else category
    kept = getattr(_of_thread, "kept", None)
    if kept is not None and issubclass(category, UserWarning):
        kept.append(message if isinstance(message, Warning) else category(message))
        return
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_code.co_filename.startswith(SKIPPED):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


@contextmanager
def keep_warnings() -> Iterator[list[Warning]]:
    """List of what the package warns of in this thread meanwhile, in place of warnings."""
    before, _of_thread.kept = getattr(_of_thread, "kept", None), []
    try:
        yield _of_thread.kept
    finally:
        _of_thread.kept = before
