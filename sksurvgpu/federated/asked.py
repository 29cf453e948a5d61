"""Checks of a programme's model before a site works on it: that it can be, and what work it is.

Work is counted in numbers that are read, a billion of which take about a second and a half.
"""

import json
import logging
from inspect import signature

import numpy as np

from ..estimators._partition import model_text, outline_of
from .rules import NotReleasedError

FEW = 16  # pieces of time that are always allowed
OF_COLUMN = 50_000  # numbers that are read in the time that a column takes beside its entries
MOST_CELLS = 1 << 23  # strata times times of a grid
TOO_MANY_CELLS = f"strata times `grid` are more than {MOST_CELLS:,} cells; take a coarser grid"
journal = logging.getLogger(__name__)


def check_model(model, arguments, rules) -> str:
    """Refuse a model that cannot be, or that cuts time into many pieces; its text."""
    design, takes = arguments["X"], {*signature(model.fit).parameters, "cluster"}
    for name in sorted(set(arguments) - takes):
        kind = type(model).__name__
        raise NotReleasedError(f"its rows have `{name}`, which {kind} does not take")
    try:
        text = model_text(model)
        terms = outline_of(json.loads(text), design.n_columns, design.names).terms
    except Exception:  # whatever became of somebody's text; words may tell names of columns
        journal.exception("A model could not be read.")
        raise NotReleasedError(
            "it cannot read its rows by the model of the programme: install the same version at "
            "the coordinator and all sites; see the log there"
        ) from None
    pieces = max(1, len(np.unique(terms.piece_ptr, axis=0)))
    numbers = int(design.indptr[-1]) + len(design.values) + design.n_rows
    numbers += OF_COLUMN * (design.n_columns + len(terms.source) // pieces)
    each = 2.0 ** numbers.bit_length()  # a power of two tells no rare ones
    if pieces > FEW and pieces * each > rules.max_work:
        raise NotReleasedError(
            f"{pieces:,} pieces of time are work on {pieces * each:.1e} numbers, and `max_work` of "
            f"the site's rules is {rules.max_work:.1e}; ask for fewer"
        )
    return text
