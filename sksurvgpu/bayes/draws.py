"""Where draws go: into memory, into files, or into running means and covariances.

Chains lead and draws follow, so that a chain is one piece of memory.  A file of draws has another
name until all of them are there; how many of them are valid, the journal of the folder says.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, field
from errno import EINVAL, ENOTSUP
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from .._journal import Journal, check_folder, replace
from .moments import RunningMoments

KINDS = ("float64", "float32", "summary")
SHARE = 0.9  # of the free memory that may be planned with
GIB = 2**30
ALWAYS_KEPT = 16  # numbers: with so few, draws cost nothing, and diagnostics need them
READ_BYTES = 2**25  # at once, where all draws are looked at


@dataclass(frozen=True)
class Storage:
    """How draws are kept.

    Parameters
    ----------
    keep : {"float64", "float32", "summary"}, default="float64"
        Number type of the draws; or no draws but running means and covariances, or variances of
        more than 2,000 numbers, except of quantities of at most 16, whose draws are kept.
    folder : path, optional
        Where to write draws, a .npy file for each quantity; in memory by default. It serves one
        fit, which goes on there if it was ended before.
    of : dict of {str: object}, optional
        What draws depend on beside the schedule, as `describe_call` gives it, for a folder.

    Examples
    --------
    >>> from sksurvgpu.bayes.draws import Storage
    >>> draws = Storage("float32").open({"coef": (3,), "sigma2": ()}, n_chains=4, n_draws=100)
    >>> draws.arrays["coef"].shape, draws.arrays["sigma2"].shape
    ((4, 100, 3), (4, 100))
    """

    keep: str = "float64"
    folder: str | os.PathLike | None = None
    of: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self):
        if self.keep not in KINDS:
            raise ValueError(f'`keep` is {self.keep!r}, must be "float64", "float32" or "summary".')
        object.__setattr__(self, "folder", check_folder(self.folder))
        if self.folder is not None and self.keep == "summary":
            raise ValueError(
                '`folder` is where draws are written, and keep="summary" keeps none; leave one '
                "of the two out."
            )

    def open(self, shapes, n_chains, n_draws, **of) -> Draws:
        """Make room for the draws of all chains, or say how much is missing.

        `shapes` are those of one draw of each quantity, and `of` is what else draws depend on.
        """
        drawn, summed = dict(shapes), {}
        if self.keep == "summary":
            summed = {name: s for name, s in shapes.items() if prod(s) > ALWAYS_KEPT}
            drawn = {name: s for name, s in shapes.items() if name not in summed}
        dtype = np.dtype("float32" if self.keep == "float32" else "float64")
        n_bytes = n_chains * n_draws * dtype.itemsize * sum(map(prod, drawn.values()))
        n_bytes += sum(
            RunningMoments.bytes_needed(n_chains, prod(shape)) for shape in summed.values()
        )
        about = f"{n_draws:,} draws of {sum(map(prod, shapes.values())):,} numbers"
        if self.folder is not None:
            n_bytes -= sum(path.stat().st_size for path in _files(self.folder, drawn))
        self._check_room(n_bytes, f"{n_chains:,} chains with {about}")
        moments = {name: RunningMoments(n_chains, shape) for name, shape in summed.items()}
        of = {**self.of, "keep": self.keep, "n_chains": n_chains, "n_draws": n_draws, **of}
        journal = Journal(self.folder, of | {"quantities": drawn}).open()
        draws = Draws({}, moments, journal)
        try:
            for name, shape in drawn.items():
                draws.add(name, (n_chains, n_draws, *shape), dtype)
        except BaseException:
            draws.discard()
            raise
        return draws

    def _check_room(self, n_bytes, what):
        remedies = ["fewer draws by a smaller `n_draws` (with a larger `thin`)"]
        if self.keep == "float64":
            remedies.append('keep="float32"')
        if self.folder is None and self.keep != "summary":
            remedies.append("files by `folder`")
        if self.keep != "summary":
            remedies.append('keep="summary", which keeps means and covariances only')
        if self.folder is None:
            free, error, place = free_bytes(), MemoryError, "of memory"
            free = None if free is None else SHARE * free
        else:
            free, error, place = _free_disk(self.folder), OSError, f"on the disk of {self.folder}"
        if free is not None and n_bytes > free:
            raise error(
                f"{what} take {n_bytes / GIB:.3g} GiB, and {free / GIB:.3g} GiB {place} are free; "
                f"keep {', or '.join(remedies)}."
            )


class Draws:
    """Draws of all chains by name.

    Parameters
    ----------
    arrays : dict of {str: ndarray of shape (n_chains, n_draws, ...)}
        Room for draws.
    moments : dict of {str: Moments}
        Of the quantities that have no draws.
    journal : Journal, optional
        Of the folder in which the files of the arrays are.
    """

    def __init__(self, arrays, moments, journal=None):
        self.arrays = arrays
        self.moments = moments
        self.journal = Journal(None, {}) if journal is None else journal

    def add(self, name, shape, dtype):
        """Make room for a quantity, or find the file of a run that goes on."""
        self.arrays[name] = None  # from here on, the file is ours to delete
        if self.journal.folder is None:
            self.arrays[name] = np.empty(shape, dtype)
            return
        for path in _files(self.journal.folder, [name]):
            array = _open_file(path, shape, dtype)
            if array is not None:
                self.arrays[name] = array
                return
        self.journal.clear("chain")  # which count on draws that are not there
        self.arrays[name] = _new_file(_unfinished(self.journal.folder, name), shape, dtype)

    def write(self, chains, first, blocks):
        """Put blocks of draws, of shape (len(chains), k, ...), at positions from `first` on."""
        for name, block in blocks.items():
            if name in self.moments:
                for chain, rows in zip(chains, block, strict=True):
                    self.moments[name].add(chain, rows.reshape(len(rows), -1))
            else:
                self.arrays[name][chains, first : first + block.shape[1]] = block

    def flush(self):
        """Have the system put all draws on the disk."""
        if self.journal.folder is not None:
            for array in self.arrays.values():
                array.flush()

    def close(self, n_draws):
        """Show the first draws of all chains only; files are then only read, and those that are
        whole get their names."""
        self.flush()
        for name, array in self.arrays.items():
            if self.journal.folder is None:
                self.arrays[name] = array[:, :n_draws]
                continue
            is_whole = n_draws == array.shape[1]
            # Some systems rename no file that is mapped.
            self.arrays[name] = array = None
            [path] = _files(self.journal.folder, [name])
            if is_whole:
                path = replace(path, path.with_suffix(".npy"))
            self.arrays[name] = np.load(path, mmap_mode="r")[:, :n_draws]
        self.journal.close()

    def of(self, name, wanted):
        """Draws of a quantity, or why there are none from which something could be computed."""
        if name in self.moments:
            raise ValueError(
                f'the {wanted} of {name!r} cannot be computed: keep="summary" has kept its mean '
                'and spread only; sample with keep="float32", or with a `folder` for the draws.'
            )
        if name not in self.arrays:
            known = some_of([*self.arrays, *self.moments])
            raise ValueError(f"there is no quantity {name!r}, but {known}.")
        return self.arrays[name]

    def reduce(self, name, function, leading=()):
        """Apply a function to draws of shape (n, k), those of some parameters at a time."""
        draws = self.of(name, "value")
        n_chains, n_draws, *shape = draws.shape
        flat = draws.reshape(n_chains, n_draws, prod(shape))
        reduced = np.empty((*leading, prod(shape)))
        step = max(1, READ_BYTES // (8 * n_chains * n_draws))
        for first in range(0, prod(shape), step):
            chunk = np.asarray(flat[:, :, first : first + step], dtype=np.float64)
            reduced[..., first : first + step] = function(chunk.reshape(-1, chunk.shape[2]))
        return reduced.reshape((*leading, *shape))

    def discard(self):
        """Let go of a run that failed; what it has recorded stays, for one that goes on."""
        names, self.arrays = list(self.arrays), {}
        if self.journal.folder is not None:
            if self.journal.is_empty():
                for path in _files(self.journal.folder, names):
                    path.unlink()
            self.journal.close()


def read_draws(draws):
    """Check draws that came from elsewhere; as arrays by name."""
    arrays = {name: np.asarray(array) for name, array in draws.items()}
    sizes = {array.shape[:2] for array in arrays.values()}
    if len(sizes) != 1 or len(next(iter(sizes))) != 2 or 0 in next(iter(sizes)):
        raise ValueError(
            f"`draws` has arrays that begin with the shapes {sorted(sizes)}; pass arrays of "
            "one number of chains and one of draws, which come first."
        )
    for name, array in arrays.items():
        if array.dtype.kind not in "biuf":
            raise TypeError(f"`draws` has {name!r} of type {array.dtype}; pass real numbers.")
        if not np.isfinite(array).all():
            raise ValueError(
                f"`draws` has NaN or infinite numbers in {name!r}; leave them out, or find out "
                "where they come from."
            )
    return arrays


def free_bytes():
    """Bytes of memory that can be taken without swapping; None where the system does not say."""
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            for line in lines:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    try:  # all there is; at least more than that is refused
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None


def _free_disk(folder):
    """Bytes free where the folder is, or will be."""
    path = Path(folder).absolute()
    while not path.exists():
        path = path.parent
    return shutil.disk_usage(path).free


def _files(folder, names):
    """Files of draws that are there."""
    paths = [_unfinished(folder, name) for name in names]
    paths += [path.with_suffix(".npy") for path in paths]
    return [path for path in paths if path.exists()]


def _unfinished(folder, name):
    return Path(folder) / f"{name}.part"


def _open_file(path, shape, dtype):
    """Draws in a file; None where it was left before it was made."""
    try:
        array = np.load(path, mmap_mode="r")  # to write, what is missing would be made up
    except (EOFError, ValueError):
        return None
    if array.shape != shape or array.dtype != dtype:
        return None
    return np.load(path, mmap_mode="r+")


def _new_file(path, shape, dtype):
    array = np.lib.format.open_memmap(path, mode="w+", dtype=dtype, shape=shape)
    if hasattr(os, "posix_fallocate"):  # where a disk is full, now and not by a signal later
        with open(path, "r+b") as file:
            try:
                os.posix_fallocate(file.fileno(), 0, path.stat().st_size)
            except OSError as error:
                if error.errno not in (EINVAL, ENOTSUP):  # of file systems that cannot
                    raise
    return array


def first_of(arrays, numbers_of, n):
    """Draws of the first numbers of each quantity, and the names of these."""
    draws, names = dict(arrays), {}
    for name, of in arrays.items():
        if of.ndim > 2:
            draws[name] = of.reshape(*of.shape[:2], prod(of.shape[2:]))[:, :, :n]
            names[name] = numbers_of(name)[:n]
    return draws, names


def some_of(names):
    """The first of some names, for messages."""
    return ", ".join(map(repr, names[:5])) + (", ..." if len(names) > 5 else "")
