"""Damaged structured outcomes, as somebody might build them by hand instead of by our builders."""

import numpy as np
from numpy.lib.recfunctions import append_fields, drop_fields, rename_fields

from .judge import MEANINGLESS, judge
from .matrices import pick
from .vectors import MODELS, ODD_NUMBERS, VECTORS, X

NAMES = ("event", "time", "start", "stratum", "subject", "count", "length", "case", "more", "")
KINDS = ("?", "i1", "u8", "f4", ">f8", "O", "U3", "S2", "c16", "M8[s]", "(2,)f8", "V4")
STRUCTURED = ("cox", "cox strata", "cox subject", "fine-gray", "case series", "matched")


def _recast(y, name, kind):
    fields = [(field, kind if field == name else y.dtype[field].str) for field in y.dtype.names]
    out = np.zeros(y.shape, dtype=fields)
    for field in y.dtype.names:
        part = out[field]
        with np.errstate(all="ignore"):
            part[...] = y[field][..., None] if part.ndim > y.ndim else y[field]
    return out


def _damaged(rng, y):
    """Return another array of records, and what it must be read as.

    That is `MEANINGLESS`, or an array with the same result; where only errors of others are looked
    for, the array itself.
    """
    name = pick(rng, y.dtype.names)
    choice = rng.integers(9)
    if choice == 0 and y.dtype[name].kind == "f":
        changed = y.copy()
        changed[name][rng.integers(y.size)] = pick(rng, ODD_NUMBERS)
        return changed, changed if np.isfinite(changed[name]).all() else MEANINGLESS
    if choice <= 2:
        changed = _recast(y, name, pick(rng, KINDS))
        is_same = changed[name].dtype.kind in "biuf" and np.array_equal(changed[name], y[name])
        return changed, y if is_same else changed
    if choice == 3:
        changed = rename_fields(y, {name: pick(rng, NAMES)})
    elif choice == 4:
        changed = drop_fields(y, name, usemask=False)
    elif choice == 5:
        changed = append_fields(y, pick(rng, NAMES[:-1]), np.arange(y.size), usemask=False)
    elif choice == 6:
        changed = y[list(rng.permutation(y.dtype.names))]
    elif choice == 7:
        return pick(rng, (y[:, None], y[None], y[0], y[:-1], y[:0], y.tolist())), MEANINGLESS
    else:
        mask = np.zeros(y.size, dtype=bool)
        mask[rng.integers(y.size)] = True
        masked = np.ma.array(y, mask=mask)
        return pick(
            rng, ((masked, MEANINGLESS), (y.view(np.recarray), y), (y[::-1].copy()[::-1], y))
        )
    return changed, changed


def attack_records(rng):
    """One attempt with an outcome of records."""
    fields, build, cls, _ = MODELS[pick(rng, STRUCTURED)]
    y = build(*(VECTORS[name] for name in fields))
    try:
        damaged, plain = _damaged(rng, y)
    except (TypeError, ValueError, KeyError):  # NumPy does not make such an array
        return "refused", "by NumPy"
    return judge(lambda outcome: cls(alpha=0.05).fit(X, outcome).coef_, damaged, plain)
