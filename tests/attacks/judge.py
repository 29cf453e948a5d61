"""What may become of damaged input: the result of its plain form, or a refusal in our own words."""

import re

import numpy as np

# Meaningless: there is no plain form, so the input has to be refused.
MEANINGLESS = None
# An argument's name; what scikit-learn says of parameters, and its tests want us to say.
OUR_WORDS = re.compile("`|^The '[a-z_]+' parameter of |^Complex data not supported")


class WrongError(AssertionError):
    """The package accepted what it should have refused, or the reverse, or answered wrongly."""


def judge(run, damaged, plain, *, strict=False, tolerance=1e-9):
    """Run damaged input and compare with its plain form; return ("accepted" or "refused", words).

    Parameters
    ----------
    run : callable
        From input to an array of numbers.
    damaged, plain : object
        Input as a user might pass it, and the same in the plainest form, or `MEANINGLESS`.
    strict : bool
        Whether input with a plain form must be accepted if that one is.
    """
    found, words = _run(run, damaged)
    if plain is MEANINGLESS:
        if found is not None:
            raise WrongError(f"accepted, with the result {found!r}, but it has no meaning")
        return "refused", words
    expected, reason = _run(run, plain)
    if found is None:
        if strict and expected is not None:
            raise WrongError(f"refused ({words}), but it is as good as {plain!r}")
        return "refused", words
    if expected is None:
        raise WrongError(f"accepted, but its plain form is refused: {reason}")
    scale = max(1.0, np.abs(expected).max(initial=0.0))
    if found.shape != expected.shape or not np.allclose(found, expected, 0, tolerance * scale):
        raise WrongError(f"accepted, with the result {found!r} instead of {expected!r}")
    return "accepted", ""


def _run(run, given):
    """The result, or None and the words of the refusal, which name the argument."""
    try:
        return np.asarray(run(given), dtype=np.float64), ""
    except (TypeError, ValueError) as error:
        words = str(error)
        if not OUR_WORDS.search(words):
            raise
        return None, words
