"""Pickles of version 0.2 name this module; the classes are those of `tables.results`."""

from ...tables.results import LongData as LongData
from ...tables.results import LongReport as LongReport
