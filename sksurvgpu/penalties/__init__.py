"""Penalties: a file each."""

from .bounded import BoundedElasticNet
from .elastic_net import ElasticNet

__all__ = ["BoundedElasticNet", "ElasticNet"]
