"""How the fits of a batch are carried out, where that is more than to solve it: a file each."""

from .adaptive import Adaptive
from .base import PLAIN, Route, Shifted, Standardized
from .broken_ridge import BrokenRidge
from .firth import Firth
from .hierarchical import Hierarchical
from .in_rows import IN_ROWS

__all__ = [
    "IN_ROWS",
    "PLAIN",
    "Adaptive",
    "BrokenRidge",
    "Firth",
    "Hierarchical",
    "Route",
    "Shifted",
    "Standardized",
]
