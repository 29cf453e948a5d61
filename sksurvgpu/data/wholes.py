"""What is asked of all rows of a fit together, and not of a part of them.

A partition of the rows may have no event, one class, or nothing to compare, and still be read as
the rows of a fit are: in `reading_part`, readers let that pass. What the parts have in common is
checked where it is known of all.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["reading_part", "whole_lacks"]

_is_part: ContextVar[bool] = ContextVar("is_part", default=False)


@contextmanager
def reading_part() -> Iterator[None]:
    """Read rows that are a part of those of a fit, in this thread."""
    token = _is_part.set(True)
    try:
        yield
    finally:
        _is_part.reset(token)


def whole_lacks(condition) -> bool:
    """Whether rows do not have what they need as a whole; a part of them needs nothing."""
    return not condition and not _is_part.get()
