"""Penalties: a file each."""

from .bounded import BoundedElasticNet
from .elastic_net import ElasticNet
from .fused import Fused
from .spec import Given, PenaltySpec

__all__ = ["BoundedElasticNet", "ElasticNet", "Fused", "Given", "PenaltySpec"]
