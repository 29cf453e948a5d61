"""Fits over sites, of whose rows sums over all sites are seen and nothing else.

`Site` has the rows of one institution and takes part in fits, `Rules` say what it takes part in,
`Coordinator` begins a `Programme` and adds up, and an `Identity` is the key of a site.
"""

from .coordinator import Coordinator, RefusedError
from .keys import Identity
from .programme import Programme
from .rules import Rules
from .site import Site

__all__ = ["Coordinator", "Identity", "Programme", "RefusedError", "Rules", "Site"]
