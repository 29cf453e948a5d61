"""Fits over sites, of whose rows sums over all sites are seen and nothing else.

`Site` has the rows of one institution and takes part in fits, `Rules` say what it takes part in,
`Coordinator` begins a `Programme` and adds up, and an `Identity` is the key of a site.  With
`Noise` what is seen is differentially private, a `NoisyFit`.
"""

from .coordinator import Coordinator, RefusedError
from .keys import Identity
from .noise import Noise
from .noisy import NoisyFit
from .programme import Programme
from .rules import Rules
from .site import Site

__all__ = [
    "Coordinator",
    "Identity",
    "Noise",
    "NoisyFit",
    "Programme",
    "RefusedError",
    "Rules",
    "Site",
]
