"""Penalties: a file each."""

from .bounded import BoundedElasticNet
from .elastic_net import ElasticNet
from .fused import Fused
from .group_lasso import GroupLasso
from .mcp import MCP
from .scad import SCAD
from .spec import Given, PenaltySpec

__all__ = [
    "BY_NAME",
    "MCP",
    "SCAD",
    "BoundedElasticNet",
    "ElasticNet",
    "Fused",
    "Given",
    "GroupLasso",
    "PenaltySpec",
]

BY_NAME = {"mcp": MCP, "scad": SCAD}  # what is short for a penalty with its defaults
