"""Penalties: a file each."""

from .bounded import BoundedElasticNet
from .elastic_net import ElasticNet
from .group_lasso import GroupLasso
from .spec import Given, PenaltySpec

__all__ = ["BoundedElasticNet", "ElasticNet", "Given", "GroupLasso", "PenaltySpec"]
