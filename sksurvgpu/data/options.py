"""Options, which are what a user says beside data: flags, numbers and words.

A check gives a plain value back, or says which argument has which value, and the rule.
"""

from collections.abc import Collection, Iterable, Sequence
from numbers import Integral, Real
from typing import NoReturn

import numpy as np


def is_flag(value) -> bool:
    """Whether a value is True or False, and no number that stands for them."""
    return isinstance(value, bool | np.bool_)


def is_whole(value) -> bool:
    """Whether a value is an integer, and no flag."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def is_number(value) -> bool:
    """Whether a value is one real number, and no flag."""
    return isinstance(value, Real) and not isinstance(value, bool)


def refuse(value, argument: str, rule: str, error: type[Exception] = ValueError) -> NoReturn:
    """Say that an argument has a value against the rule: what it must be, or what to pass."""
    mark = "," if rule.startswith("must") else ";"
    raise error(f"`{argument}` is {value!r}{mark} {rule}.")


def flag(value, argument: str, remark: str = "") -> bool:
    """Check an option that is True or False; a remark ends the message."""
    if not is_flag(value):
        refuse(value, argument, f"must be True or False{remark}", TypeError)
    return bool(value)


def whole(value, argument: str, least: int, rule: str = "") -> int:
    """Check an option that is a whole number of at least `least`."""
    if not is_whole(value) or value < least:
        refuse(value, argument, rule or f"must be a whole number of at least {least}")
    return int(value)


def number(
    value, argument: str, rule: str, *, above=-np.inf, below=np.inf, least=-np.inf, most=np.inf
) -> float:
    """Check an option that is a number above and below bounds, or from `least` to `most`."""
    if not is_number(value) or not (above < value < below and least <= value <= most):
        refuse(value, argument, rule)
    return float(value)


def choice(value, argument: str, choices: Collection, remark: str = ""):
    """Check an option that is one of some words; a remark ends the message."""
    is_word = value is None or isinstance(value, str)
    if not is_word or value not in choices:
        refuse(value, argument, f"must be one of {listed(choices)}{remark}")
    return value


def listed(choices: Iterable) -> str:
    """Words as a user would write them, by commas."""
    return ", ".join(map(repr, choices))


def quoted(names: Sequence, most: int = 5) -> str:
    """The first names in backticks by commas, and how many more there are."""
    return first_of([f"`{name}`" for name in names], most)


def first_of(names: Sequence, most: int) -> str:
    """The first names by commas, and how many more there are."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(map(str, names[:most])) + more
