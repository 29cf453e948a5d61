"""Damaged files for `from_long`: bytes of Parquet and Feather flipped, zeroed, moved, cut off."""

import tempfile
from functools import cache
from pathlib import Path
from unittest import mock

import numpy as np
import pandas as pd
import polars as pl

from sksurvgpu import from_long
from sksurvgpu.data import sources

from .judge import OUR_WORDS
from .matrices import pick

PERSONS = pd.DataFrame({"row_id": np.arange(20), "time": np.arange(20.0)})


def _codes(kind):
    rng = np.random.default_rng(3)
    rows, codes = np.divmod(rng.choice(20 * 9, 90, replace=False), 9)
    names = {"int": codes * 1000, "text": [f"code {code}" for code in codes], "few": codes % 2}
    table = {"row_id": rows, "covariate_id": names[kind], "value": rng.choice([1.0, 2.0], 90)}
    return pl.DataFrame(table)


@cache
def _originals():
    """Bytes of good files, by suffix and ways to write them."""
    originals = []
    with tempfile.TemporaryDirectory() as folder:
        for kind in ("int", "text"):
            for compression in ("uncompressed", "zstd", "snappy"):
                path = Path(folder) / "codes.parquet"
                _codes(kind).write_parquet(path, compression=compression, row_group_size=40)
                originals.append((".parquet", path.read_bytes()))
            for compression in ("uncompressed", "zstd", "lz4"):
                path = Path(folder) / "codes.feather"
                _codes(kind).write_ipc(path, compression=compression)
                originals.append((".feather", path.read_bytes()))
    return originals


def damage_bytes(rng, content):
    """Return other bytes in the place of good ones."""
    content = bytearray(content)
    for _ in range(rng.integers(1, 4)):
        at, size = rng.integers(len(content)), rng.integers(1, 64)
        # Structure is at the ends of files.
        if rng.random() < 0.6:
            at = max(0, len(content) - 1 - int(rng.integers(min(len(content), 1200))))
        change = rng.integers(6)
        if change == 0:
            content[at] ^= 1 << rng.integers(8)
        elif change == 1:
            content[at] = pick(rng, (0, 1, 127, 128, 255))
        elif change == 2:
            content[at : at + size] = bytes(len(content[at : at + size]))
        elif change == 3 and rng.random() < 0.3:
            del content[at:]
        elif change == 4:
            del content[at : at + size]
        elif change == 5:
            content[at:at] = rng.bytes(size)
        if not content:
            break
    return bytes(content)


def attack_file(rng):
    """One attempt with a file; what its values are after all cannot be known."""
    suffix, content = pick(rng, _originals())
    reader, size = pick(rng, ("pyarrow", "pyarrow", "polars")), int(rng.integers(1, 200))
    only = mock.patch.object(sources, "find_spec", lambda name: name == reader or None)
    with tempfile.TemporaryDirectory() as folder, only:
        path = Path(folder) / f"codes{suffix}"
        path.write_bytes(damage_bytes(rng, content))
        try:
            X = from_long(PERSONS, path, duplicates="sum", batch_size=size).X
        except (TypeError, ValueError) as error:
            if not OUR_WORDS.search(str(error)):
                raise
            return "refused", str(error)
    X.reordered(np.arange(20)[::-1]).dot(np.ones(X.n_columns))
    return "accepted", ""
