"""Penalties: a file each."""

from .bounded import BoundedElasticNet
from .elastic_net import ElasticNet
from .spec import Given, PenaltySpec

__all__ = ["BoundedElasticNet", "ElasticNet", "Given", "PenaltySpec"]
