"""Fits in other units: their coefficients are those of columns that are divided by numbers.

No column is: what a fit asks of rows, and what it is told, is translated.
"""

import numpy as np

from ..backends.contract import Request
from ..penalties.base import bounds_of, in_plain_units, rescaled


def in_units(fit, scale):
    """Coroutine: a fit whose coefficients are `scale` (n_columns,) times those of the columns."""
    answer = None
    try:
        while True:
            name, arguments = fit.send(answer)
            found = yield Request(name, _asked(name, arguments, scale))
            answer = _told(name, arguments, scale, found)
    except StopIteration as finished:
        return finished.value
    finally:
        fit.close()


def _asked(name, arguments, scale):
    """Arguments of an operation, for columns as they are."""
    if name in ("start", "attempt"):
        coef, *others = arguments
        return coef / scale, *others
    if name == "cycle":  # whose reaches mean something to the backend alone
        columns, coef, penalty, reach = arguments
        own = scale[columns]
        return columns, coef / own, in_plain_units(penalty, own), reach
    return arguments


def _told(name, arguments, scale, found):
    """Result of an operation, as a fit has its columns."""
    if name == "rounding":
        return found / scale
    if name not in ("gradient", "curvature", "matrix", "factor", "sample", "cycle"):
        return found
    columns, *others = arguments
    own = scale[columns]
    if name == "gradient":
        return found / own
    if name == "curvature":
        curvature, total = found
        return curvature / own[:, None] ** 2, total
    if name == "cycle":
        penalty, (coef, reach) = others[1], found
        plain = in_plain_units(penalty, own)
        return rescaled(coef, own, bounds_of(plain), bounds_of(penalty)), reach
    if name == "factor":
        (rows, sign, curvature), own = found, own[others[0] :]
        return rows / own[:, None], sign, curvature / own**2
    return found / np.outer(own[others[0] :] if name == "matrix" else own, own)
