"""Finished parts of long work in a folder, so that a call goes on where another one was ended.

A folder belongs to one call. Its manifest says what the results depend on, in names that users
know, and a call that differs is refused. A part is one .npz file without pickles, which appears
under its name only when all of it is on the disk: whatever ends a process, a part is whole or not
there. What cannot be read is computed again, which gives the same bits. The lock is the system's,
and dies with the process that holds it.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from errno import EACCES, EAGAIN
from hashlib import blake2b
from pathlib import Path
from zipfile import BadZipFile
from zlib import error as ZlibError  # noqa: N812 (an exception)

import numpy as np
from scipy.sparse import issparse

MANIFEST, LOCK = "journal.json", "journal.lock"
# What results do not depend on; seeds are described by what was made of them.
NOT_OF_RESULTS = ("folder", "n_jobs", "verbose", "device", "random_state", "warm_start")
# What tells functions apart, `partial` ones and compiled text of others: their reprs are addresses.
OF_FUNCTIONS = (
    ("func", "args", "keywords"),
    ("co_code", "co_names", "co_consts"),
    ("__qualname__", "__code__", "__defaults__", "__kwdefaults__"),
)
MOST_NAMED = 5  # differences in a message
# A kill loses as many fits, and threads or a device that share them are rarely idle.
FITS_OF_A_PART = 16


class Journal:
    """Parts of the work of one call, kept in a folder; a context, within which it is locked.

    Parameters
    ----------
    folder : path or None
        Where parts are kept; None keeps nothing.
    of : dict of {str: object}
        All that the parts depend on, as `describe_call` gives it.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from sksurvgpu._journal import Journal
    >>> folder = tempfile.mkdtemp()
    >>> with Journal(folder, {"call": "sum", "seed": 0}) as journal:
    ...     part = journal.keep("first", lambda: {"total": np.arange(5).sum()})
    >>> with Journal(folder, {"call": "sum", "seed": 0}) as journal:
    ...     int(journal.read("first")["total"])
    10
    """

    def __init__(self, folder, of):
        self.folder = check_folder(folder)
        self._of = {} if folder is None else {name: _plain(of[name]) for name in of}
        self._lock = None

    def __getstate__(self):
        return {**vars(self), "_lock": None}  # which is this process's

    def __enter__(self):
        return self.open()

    def __exit__(self, *error):
        self.close()

    def open(self):
        """Lock the folder, and see that it belongs to this call or to none."""
        if self.folder is not None:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._lock = _lock(self.folder)
            try:
                self._claim()
            except BaseException:
                self._lock.close()
                raise
        return self

    def close(self):
        """Release the lock of the folder."""
        if self._lock is not None:
            self._lock.close()

    def keep(self, key, compute):
        """Return a part: what is there, or else what ``compute()`` returns, which is written.

        Parameters
        ----------
        key : str
            Name of the part.
        compute : callable
            Returns its arrays by name.

        Returns
        -------
        part : dict of {str: ndarray}
            Arrays by name.
        """
        part = self.read(key)
        if part is None:
            part = compute()
            self.write(key, part, compress=True)
        return part

    def read(self, key):
        """Return the arrays of a part, or None where it is not there, or not whole."""
        return None if self.folder is None else read_part(self.folder, key)

    def write(self, key, arrays, *, compress=False):
        """Write a part, or write it anew; the one before it is there until this one is whole."""
        if self.folder is None:
            return
        save = np.savez_compressed if compress else np.savez
        _write(_path_of(self.folder, key), lambda file: save(file, **arrays))

    def slices(self, n_fits, most=None):
        """Which of some fits are computed and kept together: at most `most`, and few in a folder.

        They do not depend on the number of threads.
        """
        size = n_fits if most is None else most
        size = size if self.folder is None else min(size, FITS_OF_A_PART)
        return [slice(first, min(first + size, n_fits)) for first in range(0, n_fits, size)]

    def clear(self, first):
        """Delete the parts whose names begin so."""
        for path in self.folder.glob(f"{first}*.npz"):
            path.unlink()

    def is_empty(self) -> bool:
        """Whether nothing was ever finished in the folder."""
        return self._first() is None

    def _first(self):
        """Name of some array in the folder, whatever wrote it."""
        return min((path.name for path in self.folder.glob("*.np[yz]")), default=None)

    def _claim(self):
        """Write the manifest, or compare it; a folder without finished work may be taken over."""
        path = self.folder / MANIFEST
        if self.is_empty():
            text = json.dumps(self._of, indent=1)
            _write(path, lambda file: file.write(text.encode()))
            return
        if not path.exists():
            raise FileExistsError(
                f"`folder` is {str(self.folder)!r}, which already holds {self._first()} of other "
                "work; a folder serves one call: name a new one."
            )
        try:
            held = json.loads(path.read_bytes())
        except ValueError as error:
            raise ValueError(
                f"`folder` is {str(self.folder)!r}, whose file {MANIFEST} is damaged, so that it "
                "cannot be known whose work it holds; name a new folder, or delete this one."
            ) from error
        names = [name for name in {**held, **self._of} if _differ(held, self._of, name)]
        if names:
            raise FileExistsError(
                f"`folder` is {str(self.folder)!r}, which holds the work of another call: "
                f"{_tell(held, self._of, names)}. To go on with that work, make the same call; "
                "else name a new folder, or delete this one. Where there are many fits, as in "
                "searches, leave it out (folder=None)."
            )


def _path_of(folder, key):
    return folder / f"{key}.npz"


def read_part(folder, key):
    """Arrays of a part of a folder, whosever it is, or None where it is not there, or not whole."""
    try:
        with open(_path_of(folder, key), "rb") as file:
            return dict(np.load(file, allow_pickle=False))
    except (FileNotFoundError, EOFError, ValueError, KeyError, BadZipFile, ZlibError):
        return None


def check_folder(folder):
    """Return the path of a folder, ``~`` replaced by the user's home; refuse what is none."""
    if folder is None:
        return None
    if not isinstance(folder, str | os.PathLike):
        raise TypeError(
            f"`folder` is of type {type(folder).__name__}, must be a path; name a new folder."
        )
    path = Path(os.path.expanduser(folder))
    if path.exists() and not path.is_dir():
        raise NotADirectoryError(
            f"`folder` is {str(folder)!r}, which is a file; name a new folder."
        )
    return path


def describe_call(name, estimator, **data) -> dict:
    """Values that the results of a call depend on, by names that users know, for a `Journal`.

    The call has a `name`; parameters of the estimator count, but for those that change no result,
    and other `data`, in place of a parameter where the name is the same.
    """
    from . import __version__

    params = {
        name: value
        for name, value in estimator.get_params(deep=False).items()
        if name not in NOT_OF_RESULTS
    }
    model = type(estimator).__name__
    return {"sksurvgpu": __version__, "call": name, "estimator": model, **params, **data}


def sync(file):
    """Have the system put a file on the disk."""
    file.flush()
    os.fsync(file.fileno())


def replace(source, target):
    """Rename a file for good; its new path."""
    os.replace(source, target)
    if os.name != "nt":  # where folders cannot be opened
        folder = os.open(Path(target).parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    return target


def _write(path, save):
    part = path.with_suffix(".new")
    try:
        with open(part, "wb") as file:
            save(file)
            sync(file)
    except BaseException:  # such as of a full disk, which it need not keep full
        part.unlink(missing_ok=True)
        raise
    replace(part, path)


def _lock(folder):
    """The open file of a lock that nobody else has."""
    try:
        return lock(folder / LOCK, wait=False)
    except OSError as error:
        if error.errno not in (EACCES, EAGAIN):
            raise
        raise BlockingIOError(
            f"`folder` is {str(folder)!r}, in which another fit is at work; wait for its end, or "
            "name a new folder."
        ) from None


def lock(path, *, wait):
    """The open file of a lock, which its end releases; an OSError where others have it for long."""
    file = open(path, "ab")  # noqa: SIM115 (open while the lock is held)
    try:
        if os.name == "nt":
            import msvcrt

            msvcrt.locking(file.fileno(), msvcrt.LK_LOCK if wait else msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BaseException:
        file.close()
        raise
    return file


def _plain(value):
    """A value that a message can show, or a digest of it."""
    value = value.item() if isinstance(value, np.generic) else value
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return {"digest": digest_of(value)}


def digest_of(value) -> str:
    """Digest of a value, of whatever kinds it is made."""
    hashed = blake2b(digest_size=16)
    _feed(hashed, value)
    return hashed.hexdigest()


def _feed(hashed, value):
    """Feed all of a value, with its types, so that no two that differ look alike."""
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        hashed.update(f"array {value.dtype.descr} {value.shape} ".encode())
        hashed.update(np.ascontiguousarray(value).reshape(-1).view(np.uint8))
        return
    hashed.update(f"{type(value).__name__} ".encode())
    if isinstance(value, Mapping):
        parts = [part for item in sorted(value.items(), key=repr) for part in item]
    elif is_dataclass(value):
        parts = [getattr(value, field.name) for field in fields(value)]
    elif issparse(value):
        rows = value.tocsr()
        parts = [rows.shape, rows.indptr, rows.indices, rows.data]
    elif isinstance(value, np.ndarray):
        parts = [value.shape, *value.ravel().tolist()]
    elif hasattr(value, "to_numpy"):  # of pandas and polars
        parts = [list(getattr(value, "index", ())), value.to_numpy()]
    elif isinstance(value, list | tuple | set | frozenset):
        is_set = isinstance(value, set | frozenset)
        parts = [len(value), *(sorted(value, key=repr) if is_set else value)]
    elif hasattr(value, "get_params"):  # whose repr leaves out the middle of long arrays
        parts = [value.get_params(deep=False)]
    else:
        names = [names for names in OF_FUNCTIONS if hasattr(value, names[-1])]
        parts = [getattr(value, name) for name in names[0]] if names else []
        hashed.update(b"" if names else f"{value!r} ".encode())
    for part in parts:
        _feed(hashed, part)


def _differ(held, given, name):
    # as text: NaN is the same as NaN
    return json.dumps(held.get(name, ...), default=str) != json.dumps(
        given.get(name, ...), default=str
    )


def _tell(held, given, names):
    def show(values, name):
        return repr(values[name]) if name in values else "not there"

    def tell(name):
        if isinstance(held.get(name), dict) or isinstance(given.get(name), dict):
            return f"`{name}` differs"
        return f"`{name}` is {show(held, name)} there and {show(given, name)} here"

    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return "; ".join(map(tell, names[:MOST_NAMED])) + more
