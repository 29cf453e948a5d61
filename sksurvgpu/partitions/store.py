"""Partitions of rows in files: a folder with a manifest, and a folder of arrays a partition.

``manifest.json`` has the names of the columns, what there is beside X, and of each partition its
rows, entries and files with their SHA-256.  Files are NumPy's ``.npy``, without pickles.  Row
numbers are uint16, half of what they take in memory, which kernels read as they are; a partition
has therefore at most 65,536 rows.  They lie in the order in which fits have them, by group or
stratum and then by time, so that a partition is read where it lies and not copied.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

from ..data.design.columns import Design
from ..data.design.tables import packed_offsets, value_sizes
from ..data.options import number
from ..data.outcomes.fields import pack as pack_fields
from .handles import Rows

FORMAT, VERSION = "sksurvgpu partitions", 1
MANIFEST = "manifest.json"
DESIGN = ("kind", "indptr", "indices", "values")  # files of X
BYTES_A_ROW = 128  # of what a partition makes of an outcome: the plan, predictor and residuals


@dataclass(frozen=True)
class _Folder:
    """A folder as it was when it was opened."""

    path: str
    digest: str  # of its manifest

    def __repr__(self):
        return repr(self.path)

    @property
    def manifest(self) -> dict[str, Any]:
        return _read_manifest(self.path, self.digest)

    def load(self, part: int, argument: str, field: str = "") -> np.ndarray:
        """An array of a partition, mapped and not read, after a check that it is what was written.

        Changes to what is returned stay in memory.
        """
        name = file_name(argument, field)
        path = Path(self.path, part_name(part), name)
        expected = self.manifest["parts"][part]["files"][name]
        _check_file(path, expected["sha256"])
        is_empty = 0 in expected["shape"]  # which cannot be mapped
        array = np.load(path, mmap_mode=None if is_empty else "c", allow_pickle=False)
        return np.asarray(array)


def _load_design(folder, part):
    n_rows = folder.manifest["parts"][part]["rows"]
    kind, indptr, indices, values = (folder.load(part, "X", field) for field in DESIGN)
    value_ptr = packed_offsets(value_sizes(kind, indptr, n_rows))
    return Design(n_rows, kind, indptr, indices, values, value_ptr, _names_of(folder))


def _load_fields(folder, part, argument):
    fields = folder.manifest["fields"][argument]
    arrays = {field: folder.load(part, argument, field) for field in fields}
    return arrays[""] if fields == [""] else pack_fields(arrays)


class PartitionedData(Mapping):
    """Rows in files: handles on the arguments of `fit`, which load no rows.

    Made by `write_partitions` and `open_partitions`. Pass ``data.X``, ``data.y``,
    ``data.sample_weight`` and ``data.offset`` to ``fit`` in place of arrays; other arguments have
    names, as in ``data["strata"]``. All handles have the rows in the same order, which is not the
    original one; store a column of identifiers to match rows.

    Attributes
    ----------
    path : pathlib.Path
    names : ndarray of shape (n_columns,), object, or None
        Names of the columns of X.
    lengths : tuple of int
        Rows of each partition.
    X : Rows
    y, sample_weight, offset : Rows or None
        None where there is none.
    """

    def __init__(self, path: Path, digest: str, memory: float | None = None):
        self.path, self._folder = path, _Folder(str(path), digest)
        manifest = self._folder.manifest
        self.lengths = tuple(part["rows"] for part in manifest["parts"])
        self.names = _names_of(self._folder)
        every = range(len(self.lengths))
        self.X = Rows(
            self._folder,
            tuple(partial(_load_design, self._folder, k) for k in every),
            self.lengths,
            manifest["n_columns"],
            self.names,
            tuple(_count_bytes(part) for part in manifest["parts"]),
            memory,
        )
        self._handles = {"X": self.X}
        for name in manifest["fields"]:
            loaders = tuple(partial(_load_fields, self._folder, k, name) for k in every)
            self._handles[name] = Rows(self._folder, loaders, self.lengths)
        for name in ("y", "sample_weight", "offset"):
            setattr(self, name, self._handles.get(name))

    def __getitem__(self, name: str) -> Rows:
        try:
            return self._handles[name]
        except KeyError:
            known = ", ".join(map(repr, self._handles))
            raise KeyError(f"{self._folder!r} has no {name!r}, but {known}.") from None

    def __iter__(self):
        return iter(self._handles)

    def __len__(self) -> int:
        return len(self._handles)

    def __repr__(self) -> str:
        n_entries = sum(part["entries"] for part in self._folder.manifest["parts"])
        return (
            f"<PartitionedData: {sum(self.lengths):,} rows and {self.X.n_columns:,} columns with "
            f"{n_entries:,} entries in {len(self.lengths):,} partition(s); {', '.join(self)}>"
        )

    @property
    def nbytes(self) -> int:
        """Bytes of all files."""
        parts = self._folder.manifest["parts"]
        return sum(file["bytes"] for part in parts for file in part["files"].values())

    def verify(self) -> None:
        """Compare every file with its SHA-256; a fit does so when it first reads a file."""
        for part, said in enumerate(self._folder.manifest["parts"]):
            for name, file in said["files"].items():
                _checked.pop(path := Path(self.path, part_name(part), name), None)
                _check_file(path, file["sha256"])


def open_partitions(path, *, memory: float | None = None) -> PartitionedData:
    """Open a folder of rows that `write_partitions` has written.

    Parameters
    ----------
    path : path-like
        The folder; ``~`` is the user's home.
    memory : float, optional
        Bytes of partitions that a fit keeps in memory while it goes on, by default half of what is
        free; infinity keeps all. Others are read whenever they are needed.

    Returns
    -------
    data : PartitionedData
        ``data.X``, ``data.y`` and others, for `fit`.

    Examples
    --------
    >>> import numpy as np
    >>> from tempfile import mkdtemp
    >>> from sksurvgpu import open_partitions, write_partitions
    >>> path = mkdtemp() + "/numbers.parts"
    >>> _ = write_partitions(path, (np.eye(4), np.arange(4.0)), rows=2)
    >>> data = open_partitions(path)
    >>> data
    <PartitionedData: 4 rows and 4 columns with 4 entries in 2 partition(s); X, y>
    >>> data.y.load(1)
    array([2., 3.])
    """
    path = Path(os.path.expanduser(path)).resolve()
    if memory not in (None, np.inf):
        memory = number(memory, "memory", "must be a number of bytes, or None", least=0)
    if not (path / MANIFEST).is_file():
        raise FileNotFoundError(
            f"`path` is {str(path)!r}, where there is no {MANIFEST}; pass a folder that "
            "write_partitions has made."
        )
    return PartitionedData(path, digest_of(path / MANIFEST), memory)


@lru_cache(maxsize=16)
def _read_manifest(path, digest):
    content = Path(path, MANIFEST).read_bytes()
    if hashlib.sha256(content).hexdigest() != digest:
        raise ValueError(f"{path!r} was written anew since it was opened; open it again.")
    try:
        manifest = json.loads(content)
        found = manifest["format"], manifest["version"]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path!r} has a damaged {MANIFEST}: {error}.") from error
    if found == (FORMAT, VERSION):
        _check_manifest(path, manifest)
    else:
        raise ValueError(
            f"{path!r} has {found[0]!r} of version {found[1]}, and this package reads {FORMAT!r} "
            f"of version {VERSION}; write the partitions anew with it."
        )
    return manifest


def _check_manifest(path, manifest):
    """Check that a manifest has all that is read of it."""
    try:
        for part in manifest["parts"]:
            part["rows"], part["entries"]
            for file in part["files"].values():
                file["sha256"], file["shape"], file["bytes"]
        manifest["names"], manifest["n_columns"], manifest["fields"].items()
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(
            f"{path!r} has a damaged {MANIFEST}, without {error}: put it back, or write the "
            "partitions anew."
        ) from error


@lru_cache(maxsize=16)
def _names_of(folder):
    names = folder.manifest["names"]
    return None if names is None else np.array(names, dtype=object)


_checked: dict[Path, tuple] = {}  # files that were found whole, as the system described them then


def _check_file(path, digest):
    """Check a file's digest, once as long as the system says that it is the same file."""
    try:
        said = path.stat()
        said = digest, said.st_size, said.st_mtime_ns, said.st_ino
        is_whole = _checked.get(path) == said or digest_of(path) == digest
    except OSError as error:
        raise FileNotFoundError(
            f"{path.name} of {path.parent.name} in {str(path.parents[1])!r} cannot be read: {error}"
        ) from error
    if not is_whole:
        raise ValueError(
            f"{path.name} of {path.parent.name} in {str(path.parents[1])!r} has changed since it "
            "was written: put back the file, or write the partitions anew. If they were, open them "
            "again."
        )
    _checked[path] = said


def digest_of(path):
    """SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _count_bytes(part):
    """Bytes of a partition in memory."""
    return sum(file["bytes"] for file in part["files"].values()) + BYTES_A_ROW * part["rows"]


def part_name(part):
    """Folder of a partition."""
    return f"part-{part:06}"


def file_name(argument, field):
    """File of an array; no two have the same."""
    parts = [quote(name, safe=" ").replace("-", "%2D") for name in (argument, field) if name]
    return "-".join(parts) + ".npy"
