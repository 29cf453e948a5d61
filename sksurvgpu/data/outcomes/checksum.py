"""Checksum of what a fit is given beside its columns."""

from dataclasses import fields
from zlib import crc32

import numpy as np


def checksum(outcome, weight, offset) -> int:
    """Checksum of an outcome, weights and offsets (or None), the same in every process.

    What is zero everywhere (an offset, an entry time, the only stratum) is as if it was not given,
    and so are weights of one; labels count by their codes, and those of subjects not at all, since
    no likelihood reads them.
    """
    given = {
        field.name: getattr(outcome, field.name)
        for field in fields(outcome)
        if field.name != "subject" and not field.name.endswith("labels")
    }
    given |= {"weight": None if weight is None else weight - 1.0, "+": offset}
    code = 0
    for name, values in given.items():
        if isinstance(values, np.ndarray) and values.any():
            code = crc32(values.tobytes(), crc32(name.encode(), code))
    return code
