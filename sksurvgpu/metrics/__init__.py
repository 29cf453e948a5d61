"""How well predicted risks agree with what was observed."""

from .competing import concordance_competing
from .harrell import concordance

__all__ = ["concordance", "concordance_competing"]
