"""Forms of what sites say in the clear and of sums: what comes from elsewhere is checked here."""

import numpy as np

from .public import FLAGS
from .words import PRIME

LARGEST_POWER = 400  # of two, beyond which sums of squares are no numbers
# Kinds of types, and which table's length, or what length, a table has.
FACTS = {
    "labels": ("biuU", None),
    "censor_labels": ("biuU", None),
    "classes": ("biufU", None),
    "lane_stratum": ("i", "lane_stratum"),
    "lane_group": ("i", "lane_stratum"),
    "powers": ("i", None),
    "power": ("i", 1),
    "blur": ("f", 1),
    **dict.fromkeys(FLAGS, ("b", 1)),
}


class FormError(ValueError):
    """Raised where something does not have its form: a predicate, which speaks of that alone."""


def require(is_right, otherwise):
    """Raise what is said of something that is not right."""
    if not is_right:
        raise FormError(otherwise)


def check_facts(facts) -> None:
    """Check what a site says in the clear (`public.Public`)."""
    require(set(facts) == set(FACTS), f"has the tables {sorted(facts)}, not {sorted(FACTS)}")
    for name, (kinds, length) in FACTS.items():
        table = facts[name]
        size = len(facts[length]) if isinstance(length, str) else length
        is_right = table.ndim == 1 and table.dtype.kind in kinds and size in (None, len(table))
        require(is_right, f"has a table {name!r} of another form")
    for name in ("labels", "censor_labels", "classes"):
        labels = facts[name]
        is_right = not np.any(labels != labels) and np.all(labels[1:] > labels[:-1])
        require(is_right, f"has a table {name!r} that is not of ascending labels")
    for name, of in (("lane_stratum", "labels"), ("lane_group", "censor_labels")):
        is_right = np.all((facts[name] >= 0) & (facts[name] < len(facts[of])))
        require(is_right, f"has a table {name!r} that is not of places in {of!r}")
    require(0.0 <= facts["blur"][0] <= 1.0, "has a table 'blur' that is not from 0 to 1")
    powers = np.append(facts["powers"], facts["power"])
    is_right = np.all((powers >= -LARGEST_POWER) & (powers <= LARGEST_POWER))
    require(is_right, "has columns or an outcome too large to be added up; rescale them")


def printable(text) -> str:
    """One line of what is another party's, and could move a terminal's cursor or hide the rest."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def check_words(words, n_words) -> None:
    """Check words of a sum, or of a part of one."""
    is_right = words.dtype == np.uint64 and words.shape == (n_words,)
    require(is_right and np.all(words < PRIME), f"is not of {n_words:,} words")
