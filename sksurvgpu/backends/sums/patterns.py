"""What partitions make of their rows: one class a pattern, named by likelihoods."""

from __future__ import annotations

from .pattern import Pattern

PATTERNS: dict[str, type[Pattern]] = {}
