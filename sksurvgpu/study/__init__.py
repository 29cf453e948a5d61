"""A study as a document: all comparisons and outcomes, their diagnostics, tables and a page."""

from .result import StudyResult
from .study import Study
from .tables import check_tables

__all__ = ["Study", "StudyResult", "check_tables"]
