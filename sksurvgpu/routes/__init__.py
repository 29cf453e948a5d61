"""How the fits of a batch are carried out, where that is more than to solve it: a file each."""

from .base import PLAIN, Route
from .firth import Firth
from .shifted import Shifted

__all__ = ["PLAIN", "Firth", "Route", "Shifted"]
