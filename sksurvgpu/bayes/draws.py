"""Where draws go: into memory, into files, or into running means and covariances.

Chains lead and draws follow, so that a chain is one piece of memory.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from math import prod
from pathlib import Path

import numpy as np

from .moments import Moments

__all__ = ["Draws", "Storage"]

KINDS = ("float64", "float32", "summary")
SHARE = 0.9  # of the free memory that may be planned with
GIB = 2**30
ALWAYS_KEPT = 16  # numbers: with so few, draws cost nothing, and diagnostics need them
COPIED_BYTES = 2**24  # at once, where files are cut
_IN_USE = (
    "`folder` is {!r}, which already holds {}; a folder serves one fit: name a new one, move the "
    "draws that are there, or leave it out (folder=None) where there are many fits, as in searches."
)
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
        fit.

    Examples
    --------
    >>> from sksurvgpu.bayes.draws import Storage
    >>> draws = Storage("float32").open({"coef": (3,), "sigma2": ()}, n_chains=4, n_draws=100)
    >>> draws.arrays["coef"].shape, draws.arrays["sigma2"].shape
    ((4, 100, 3), (4, 100))
    """

    keep: str = "float64"
    folder: str | os.PathLike | None = None

    def __post_init__(self):
        if self.keep not in KINDS:
            raise ValueError(f'`keep` is {self.keep!r}, must be "float64", "float32" or "summary".')
        if self.folder is None:
            return
        if not isinstance(self.folder, str | os.PathLike):
            raise TypeError(
                f"`folder` is of type {type(self.folder).__name__}, must be a path; name a new "
                "folder."
            )
        if self.keep == "summary":
            raise ValueError(
                '`folder` is where draws are written, and keep="summary" keeps none; leave one '
                "of the two out."
            )
        object.__setattr__(self, "folder", Path(os.path.expanduser(self.folder)))

    def open(self, shapes, n_chains, n_draws) -> Draws:
        """Make room for the draws of all chains, or say how much is missing.

        Parameters
        ----------
        shapes : dict of {str: tuple of int}
            Shape of one draw of each quantity.
        n_chains, n_draws : int
            Number of chains, and of draws that each of them keeps.

        Returns
        -------
        draws : Draws
            Room for them.
        """
        drawn, summed = dict(shapes), {}
        if self.keep == "summary":
            summed = {name: s for name, s in shapes.items() if prod(s) > ALWAYS_KEPT}
            drawn = {name: s for name, s in shapes.items() if name not in summed}
        dtype = np.dtype("float32" if self.keep == "float32" else "float64")
        n_bytes = n_chains * n_draws * dtype.itemsize * sum(map(prod, drawn.values()))
        n_bytes += sum(Moments.bytes_needed(n_chains, prod(shape)) for shape in summed.values())
        about = f"{n_draws:,} draws of {sum(map(prod, shapes.values())):,} numbers"
        self._check_room(n_bytes, f"{n_chains:,} chains with {about}")
        folder = None if self.folder is None else _new_folder(self.folder)
        moments = {name: Moments(n_chains, shape) for name, shape in summed.items()}
        draws = Draws({}, moments, folder)
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
    folder : Path or None
        Where the files of the arrays are.
    """

    def __init__(self, arrays, moments, folder=None):
        self.arrays = arrays
        self.moments = moments
        self.folder = folder

    def add(self, name, shape, dtype):
        """Make room for a quantity, in a file that nobody else has."""
        if self.folder is None:
            self.arrays[name] = np.empty(shape, dtype)
            return
        path = _file(self.folder, name)
        try:
            path.open("xb").close()
        except FileExistsError:
            raise FileExistsError(_IN_USE.format(str(self.folder), path.name)) from None
        self.arrays[name] = None  # from here on, the file is ours to delete
        self.arrays[name] = _new_file(path, shape, dtype)

    def write(self, chains, first, blocks):
        """Put blocks of draws, of shape (len(chains), k, ...), at positions from `first` on."""
        for name, block in blocks.items():
            if name in self.moments:
                for chain, rows in zip(chains, block, strict=True):
                    self.moments[name].add(chain, rows.reshape(len(rows), -1))
            else:
                self.arrays[name][chains, first : first + block.shape[1]] = block

    def close(self, n_draws):
        """Cut all chains to some number of draws; files are then only read."""
        for name, array in self.arrays.items():
            if self.folder is None:
                self.arrays[name] = array[:, :n_draws]
        if self.folder is not None:
            for name in self.arrays:
                self._close_file(name, n_draws)

    def _close_file(self, name, n_draws):
        array, path = self.arrays[name], _file(self.folder, name)
        array.flush()
        if n_draws < array.shape[1]:
            part = path.with_suffix(".part")
            cut = _new_file(part, (array.shape[0], n_draws, *array.shape[2:]), array.dtype)
            step = max(1, COPIED_BYTES // max(1, array[0, :1].nbytes))
            for chain in range(len(array)):
                for first in range(0, n_draws, step):
                    rows = slice(first, min(first + step, n_draws))
                    cut[chain, rows] = array[chain, rows]
            cut.flush()
            # Some systems replace no file that is mapped.
            self.arrays[name] = array = cut = None
            os.replace(part, path)
        self.arrays[name] = array = None
        self.arrays[name] = np.load(path, mmap_mode="r")

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
        """Delete the files of a run that failed, so that it can be repeated."""
        names, self.arrays = list(self.arrays), {}
        if self.folder is not None:
            for name in names:
                _file(self.folder, name).unlink(missing_ok=True)
                _file(self.folder, name).with_suffix(".part").unlink(missing_ok=True)


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


def _new_folder(folder):
    folder = Path(folder)
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(
            f"`folder` is {str(folder)!r}, which is a file; name a new folder."
        )
    held = sorted(path.name for path in folder.glob("*.npy")) if folder.exists() else []
    if held:
        raise FileExistsError(_IN_USE.format(str(folder), held[0]))
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _file(folder, name):
    return folder / f"{name}.npy"


def _new_file(path, shape, dtype):
    return np.lib.format.open_memmap(path, mode="w+", dtype=dtype, shape=shape)


def some_of(names):
    """The first of some names, for messages."""
    return ", ".join(map(repr, names[:5])) + (", ..." if len(names) > 5 else "")
