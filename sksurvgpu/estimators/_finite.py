r"""A proof that a likelihood has a maximum, from a point near it.

Let d be a direction along which the likelihood never falls (`_separation`): every event's row and
its rivals differ by :math:`a_m d \geq 0`. The slope of the log-likelihood along d is a sum of these
with positive weights w_m, and the curvature a sum of squares about means, which is at most that
about the events: :math:`d'Id \leq \sum w_m (a_m d)^2 \leq M \sum w_m a_m d = M r'd`, with r the
gradient and M the largest of :math:`a_m d`, at most the sum of the absolute values of d in units of
the columns' ranges. So where the least eigenvalue of the information in these units exceeds
:math:`\sqrt{p} \lVert r \rVert`, d is 0: no coefficient is infinite, and none undetermined.

That holds at every point, and best near the optimum, to which Newton steps lead.
"""

import numpy as np
from scipy.linalg import LinAlgError, eigh

from ..backends.cpu.session import Session
from ..backends.cpu.threads import Threads
from ..information.rows import FittedRows
from ..information.views import view_of

MOST_STEPS = 3
# Of the largest eigenvalue, and of the sum of residuals: what is less may be rounding.
ROUNDING, LEAST = 1e-11, 1e-8
SURE = 2.0  # times what would be enough without rounding


def proves_maximum(problem, weight, offset, coef, is_free) -> bool:
    """Whether the likelihood has a maximum along free columns, as far as a point proves it."""
    session, coef = Session(problem, weight, offset, Threads(1)), coef.copy()
    columns, span = np.flatnonzero(is_free), problem.given.span
    unit = np.array([span(column) for column in problem.source[columns]])
    if not (unit > 0.0).all():
        return False
    for _ in range(MOST_STEPS):
        if not np.isfinite(session.start(coef)):
            return False
        gradient = session.gradient(columns) / unit
        try:
            rows = FittedRows(None, None, problem, session, weight)
            information, _ = view_of(rows).information(columns)
            values, vectors = eigh(information / np.outer(unit, unit))
        except (ValueError, LinAlgError):  # predictors too far apart for either
            return False
        least = values[0] - ROUNDING * values[-1]
        if not least > LEAST * np.abs(session.u).sum():
            return False
        rounding = session.rounding()[columns] / unit
        if least > SURE * np.sqrt(len(columns)) * np.linalg.norm(np.abs(gradient) + rounding):
            return True
        coef[columns] += vectors @ ((vectors.T @ gradient) / values) / unit
    return False
