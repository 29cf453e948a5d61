"""How the fits of a batch are carried out, where that is more than to solve it: a file each."""

from .adaptive import Adaptive
from .base import PLAIN, Route
from .broken_ridge import BrokenRidge
from .firth import Firth
from .hierarchical import Hierarchical
from .shifted import Shifted

__all__ = ["PLAIN", "Adaptive", "BrokenRidge", "Firth", "Hierarchical", "Route", "Shifted"]
