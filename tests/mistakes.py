"""What a user gets wrong, in any estimator of `faces.py`, and what is to be read then."""

from functools import cache

import numpy as np
import pytest
from faces import FACES, N, X


def changed(array, index, value):
    """A copy with another entry, of a type that can hold it."""
    out = np.array(array, dtype=np.result_type(array, np.min_scalar_type(value)))
    out[index] = value
    return out


def raw(**fields):
    """An outcome that its builder would have refused."""
    fields = {name: np.asarray(values) for name, values in fields.items()}
    y = np.empty(N, dtype=[(name, values.dtype) for name, values in fields.items()])
    for name, values in fields.items():
        y[name] = values
    return y


def fit(name, X=X, y=None, rows=None, **params):
    """Fit a face with some arguments replaced; `rows` go to `fit`, `params` to the constructor."""
    face = FACES[name]
    rows = {**face.arguments(), **(rows or {})}
    return face.make(**{"n_jobs": 1, **params}).fit(X, face.y if y is None else y, **rows)


@cache
def fitted(name):
    """The face as it is, fitted when a test first asks."""
    return fit(name)


def check(call, error, words, where=""):
    """The error, whose message has in this order all words that "..." stands between."""
    with pytest.raises(error) as raised:
        call()
    message, place = str(raised.value), 0
    for word in words.split("..."):
        assert word in message[place:], f"{word!r} {where}: {message}"
        place = message.index(word, place) + len(word)
