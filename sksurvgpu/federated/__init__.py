"""Fits over sites that give out sums over their rows.

`Site` has the rows of one institution and answers messages, `Rules` say what may leave it, and
`Coordinator` fits an estimator from answers.
"""

from .coordinator import Coordinator, RefusedError
from .rules import Rules
from .site import Site

__all__ = ["Coordinator", "RefusedError", "Rules", "Site"]
