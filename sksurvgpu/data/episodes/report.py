"""Pickles of version 0.2 name this module; the classes are those of `tables.results`."""

from ...tables.results import Episodes as Episodes
from ...tables.results import EpisodesReport as EpisodesReport
