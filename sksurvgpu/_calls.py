"""How public functions are called: names of the release before, and what to do about slips."""

from collections.abc import Callable
from functools import wraps
from inspect import signature
from typing import TypeVar

from ._warnings import warn

Function = TypeVar("Function", bound=Callable)
UNTIL = "until version 0.4"


def _warn(message):
    warn(f"{message} {UNTIL}.", FutureWarning)


def renamed(**names: str) -> Callable[[Function], Function]:
    """Decorator that takes arguments by their old names, too: ``@renamed(old="new")``."""

    def decorate(function):
        @wraps(function)
        def call(*args, **given):
            for old in [name for name in names if name in given]:
                new = names[old]
                if new in given:
                    raise TypeError(
                        f"{function.__name__}() got `{new}` and `{old}`, which is its old name; "
                        f"pass `{new}` alone."
                    )
                _warn(f"`{old}` of {function.__name__} is now `{new}`; the old name is taken")
                given[new] = given.pop(old)
            return function(*args, **given)

        return call

    return decorate


def renamed_attribute(old: str, new: str) -> property:
    """Attribute under its old name: ``old = renamed_attribute("old", "new")``."""

    def read(self):
        _warn(f"`{type(self).__name__}.{old}` is now `{new}`; the old name is kept")
        return getattr(self, new)

    return property(read, doc=f"Old name of `{new}`.")


def called_as(form: str, before: Callable | None = None) -> Callable[[Function], Function]:
    """Decorator that tells the right call where arguments do not fit the signature.

    Those that fit that of `before` go there with a warning: the call of the release before.
    """

    def decorate(function):
        @wraps(function)
        def call(*args, **given):
            problem = _misfit(function, args, given)
            if problem is None:
                return function(*args, **given)
            if before is None or _misfit(before, args, given):
                raise TypeError(f"{function.__name__}(): {problem}; call {form}.")
            _warn(f"call {form}; the event and the time by themselves are taken")
            return before(*args, **given)

        return call

    return decorate


def _misfit(function, args, given):
    """Error of the first argument that does not fit a signature, or None."""
    try:
        signature(function).bind(*args, **given)
    except TypeError as problem:
        return problem
    return None
