"""Genotypes in two bits each, as PLINK 1 has them in .bed files, which are read where they are.

Three bytes say that the file is one, and that variants come one after the other; each has a byte
for four persons, the first of them in the lowest bits.  Codes are 0 (two copies of allele A1), 1
(missing), 2 (one copy) and 3 (none), so that a column is four numbers, one a code, beside its
bytes.  Reference: Purcell et al. (2007), Am J Hum Genet 81.
"""

import os
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from pandas import read_csv, to_numeric
from pandas.errors import EmptyDataError, ParserError

from ..._tables import Result, counted
from ..._threads import over_columns
from ..options import choice, whole
from ..vectors import check_numbers
from .codes import part_of
from .columns import Design
from .computed import ComputedBlock
from .genotype_kernels import (
    add_by_label,
    add_genotypes,
    add_sums_of_genotypes,
    count_codes,
    write_genotypes,
)
from .of_blocks import design_of

MAGIC, BY_VARIANT = b"\x6c\x1b", 1  # the third byte is 0 where persons come one after the other
HEADER = 3  # bytes
COPIES = {"A1": (2.0, np.nan, 1.0, 0.0), "A2": (0.0, np.nan, 1.0, 2.0)}  # by code
MISSING = 1  # its code
PERSON = "fid", "iid", "father", "mother", "sex", "phenotype"  # columns of .fam
VARIANT = "chromosome", "id", "cm", "position", "a1", "a2"  # columns of .bim
NUMBERS = "sex", "phenotype", "cm", "position"


@dataclass(frozen=True, eq=False, repr=False)
class Genotypes(Result):
    """Genotypes with their persons and variants; made by `read_bed`.

    Attributes
    ----------
    X : Design
        Copies of an allele, a column for each variant.
    persons : pandas.DataFrame
        The .fam file, of which line i belongs to row i of `X`: ``fid`` (family), ``iid`` (person),
        ``father``, ``mother``, ``sex`` and ``phenotype``, as they stand there.
    variants : pandas.DataFrame
        The .bim file, of which line j belongs to column j: ``chromosome``, ``id``, ``cm``,
        ``position``, ``a1`` and ``a2``; then how many persons' genotypes are ``missing``, and
        ``mean`` and ``sd`` of the column.

    Examples
    --------
    See `read_bed`.
    """

    X: Design
    persons: Any
    variants: Any

    def _title(self):
        persons, variants = counted(self.X.n_rows, "persons"), counted(self.X.n_columns, "variants")
        return f"Genotypes of {persons} and {variants}"

    def _head(self, n):
        return self.variants.head(n), len(self.variants)


def read_bed(path, *, count="A1", missing="mean", n_threads=1) -> Genotypes:
    """Read genotypes of a PLINK 1 file as columns of a model, without loading them into memory.

    The file is read once, to count genotypes; fits read it in place, four genotypes per byte. It
    must not change meanwhile.

    Parameters
    ----------
    path : path
        The .bed file, with or without its suffix; .bim and .fam files of the same name are beside
        it. ``~`` is the user's home. PLINK 2 writes all three by ``--make-bed``.
    count : {"A1", "A2"}, default="A1"
        Allele whose copies are counted: the first one of the .bim file (by default PLINK's minor
        one) or the second.
    missing : "mean" or array-like of shape (n_variants,), default="mean"
        Number of copies that stands for a missing genotype: the mean of the variant, or other
        numbers, as the ``variants["mean"]`` of the file that a model was fitted to.
    n_threads : int, default=1
        Variants counted at the same time.

    Returns
    -------
    genotypes : Genotypes
        With the design as `X`, `persons` and `variants`. Columns have the names that PLINK gives
        them: the variant's identifier and the allele that is counted, ``rs123_A``, so that a model
        takes no file whose alleles are the other way round. Identifiers that are not unique, or
        ``.``, are replaced by chromosome, position and alleles, ``2:1050:A:G_A``.

    Notes
    -----
    ``with_columns`` of the design adds other covariates, or the design of another file of the same
    persons, as of another chromosome. Rows are chosen by ``X[rows]``, before a fit, too: say, those
    with an outcome. What is pickled is the name of the file and not what is in it, so that it has
    to be there in other processes. GPUs take ``X.stored()`` where memory allows; what reads all
    columns as they are, as ``describe`` does, stores them itself.

    Examples
    --------
    Four persons and two variants, of which PLINK would have written these files:

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import pandas as pd
    >>> from sksurvgpu import read_bed
    >>> folder = TemporaryDirectory(ignore_cleanup_errors=True)
    >>> stem = Path(folder.name, "study")
    >>> _ = stem.with_suffix(".fam").write_text("".join(f"0 p{i} 0 0 1 -9\\n" for i in range(4)))
    >>> _ = stem.with_suffix(".bim").write_text("1 rs1 0 900 A G\\n1 rs2 0 950 T C\\n")
    >>> _ = stem.with_suffix(".bed").write_bytes(bytes.fromhex("6c1b01 e37a"))
    >>> genotypes = read_bed(stem)
    >>> genotypes.X
    <Design of 4 rows and 2 columns (2 computed) with 0 sparse entries>
    >>> genotypes.X.names.tolist()
    ['rs1_A', 'rs2_T']
    >>> genotypes.X.to_scipy().toarray()
    array([[0.        , 1.        ],
           [2.        , 1.        ],
           [1.        , 0.        ],
           [0.        , 0.66666667]])

    Outcomes of some persons, in another order, and the rows of these:

    >>> outcomes = pd.DataFrame({"iid": ["p3", "p0", "p1"], "time": [2.0, 5.0, 3.0]})
    >>> joined = genotypes.persons.merge(outcomes, on="iid", how="left")
    >>> has_one = joined["time"].notna().to_numpy()
    >>> X, time = genotypes.X[has_one], joined["time"][has_one]
    >>> X.shape, time.tolist()
    ((3, 2), [5.0, 3.0, 2.0])
    >>> folder.cleanup()
    """
    copies = COPIES[choice(count, "count", COPIES)]
    stem = Path(path).expanduser()
    stem = str(stem.with_suffix("") if stem.suffix == ".bed" else stem)
    persons, variants = _read_lines(f"{stem}.fam", PERSON), _read_lines(f"{stem}.bim", VARIANT)
    names, values = _names(variants, count), np.tile(copies, (len(variants), 1))
    block = PackedGenotypes(os.path.abspath(f"{stem}.bed"), len(persons), values)
    counts = block.count(whole(n_threads, "n_threads", 1))
    values[:, MISSING] = _stand_ins(missing, counts, values, names)
    mean = (counts * values).sum(axis=1) / len(persons)
    square = (counts * (values - mean[:, None]) ** 2).sum(axis=1)
    variants["missing"], variants["mean"] = counts[:, MISSING], mean
    variants["sd"] = np.sqrt(square / max(len(persons) - 1, 1))
    return Genotypes(design_of(block, names=names), persons, variants)


def _stand_ins(missing, counts, values, names):
    """Numbers that stand for missing genotypes."""
    if not isinstance(missing, str):
        given = check_numbers(missing, "missing")
        if len(given) != len(values):
            raise ValueError(
                f"`missing` has {len(given):,} numbers, the file has {len(values):,} variants; "
                "pass one for each, in the order of its .bim file."
            )
        return given
    choice(missing, "missing", ("mean",), ", or a number for each variant")
    known = np.delete(counts, MISSING, axis=1)
    n_known = known.sum(axis=1)
    if not n_known.all():
        j = int(np.argmin(n_known))
        more = np.count_nonzero(n_known == 0) - 1
        raise ValueError(
            f"variant {j:,} ({names[j]}) is missing in all {counts[j, MISSING]:,} persons"
            f"{f' (and {more:,} more are)' if more else ''}, so that it has no mean; leave it out "
            "(plink2 --geno), or pass a number for each variant as `missing`."
        )
    return (known * np.delete(values, MISSING, axis=1)).sum(axis=1) / n_known


def _read_lines(path, columns):
    """Table of a file without a header, whose columns are set apart by white space."""
    try:
        # Texts are whole: "NA" and "#" are letters of identifiers.
        table = read_csv(path, sep=r"\s+", header=None, dtype=str, na_filter=False, quoting=3)
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f"there is no {path}; pass the name of a .bed file that has a .bim and a .fam file "
            "beside it."
        ) from error
    except (EmptyDataError, ParserError) as error:
        raise ValueError(f"{path} is no table: {error}.") from error
    if table.shape[1] != len(columns):
        raise ValueError(
            f"{path} has {table.shape[1]:,} columns, must have six: {', '.join(columns)}."
        )
    table.columns = list(columns)
    for name in set(columns).intersection(NUMBERS):
        with suppress(ValueError):  # of which some may be texts
            table[name] = to_numeric(table[name])
    return table


def _names(variants, count):
    """Identifiers with the allele that is counted; by place and alleles where they are not unique.

    Lines that are the same in all of that are numbered.
    """
    allele = variants[count.lower()]
    names = variants["id"] + "_" + allele
    place = variants["chromosome"] + ":" + variants["position"].astype(str)
    long = place + ":" + variants["a1"] + ":" + variants["a2"] + "_" + allele
    names = names.mask((variants["id"] == ".") | names.duplicated(keep=False), long)
    number = names.groupby(names).cumcount()
    names = names.mask(number > 0, names + ":" + (number + 1).astype(str))
    return names.to_numpy(dtype=object)


@dataclass(frozen=True, eq=False)
class PackedGenotypes(ComputedBlock):
    """Columns of two bits a row, in a file."""

    path: str
    n_rows: int
    of_code: np.ndarray  # (n_columns, 4): the number that each code stands for

    def __post_init__(self):
        n_bytes = HEADER + self.n_columns * -(-self.n_rows // 4)
        _check_file(self.path, n_bytes, self.n_rows, self.n_columns)

    @property
    def n_columns(self):
        return len(self.of_code)

    @property
    def nbytes(self):
        return self.of_code.nbytes

    @cached_property
    def _packed(self):
        shape = self.n_columns, -(-self.n_rows // 4)
        return np.asarray(np.memmap(self.path, np.uint8, "r", HEADER, shape))  # as kernels know it

    def __reduce__(self):
        return PackedGenotypes, (self.path, self.n_rows, self.of_code)

    def count(self, n_threads):
        """Count the rows of each code, int64 (n_columns, 4)."""
        counts = np.zeros((self.n_columns, 4), np.int64)

        def part(low, high):
            count_codes(self._packed[low:high], self.n_rows, counts[low:high])

        over_columns(part, np.ones(self.n_columns), n_threads)
        return counts

    def sums(self, columns, numbers, form, label=None, n_labels=1):
        out, of_code = np.zeros((len(columns), n_labels)), part_of(self.of_code[columns], form)
        if label is None:
            planes = np.zeros((4, self._packed.shape[1]))
            for q in range(4):
                planes[q, : len(numbers[q::4])] = numbers[q::4]
            add_sums_of_genotypes(self._packed, columns, of_code, *planes, out[:, 0])
        else:
            add_by_label(self._packed, columns, of_code, numbers, label, out)
        return out

    def add(self, columns, coef, form, out):
        of_code = part_of(self.of_code[columns], form) * np.asarray(coef)[:, None]
        add_genotypes(self._packed, columns, of_code, out)

    def values(self, columns, rows):
        out = np.empty((len(columns), len(rows)))
        write_genotypes(self._packed, columns, self.of_code[columns], np.asarray(rows), out)
        return out


def _check_file(path, size, n_rows, n_columns):
    """Check what a file begins with, and its size."""
    try:
        with open(path, "rb") as file:
            start = file.read(HEADER)
            found = file.seek(0, os.SEEK_END)
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f"there is no {path}; genotypes are read in place, so that their file has to stay."
        ) from error
    if start[:2] != MAGIC:
        raise ValueError(f"{path} is no .bed file of PLINK 1: it does not begin with 6c 1b.")
    if start[2:] != bytes([BY_VARIANT]):
        raise ValueError(
            f"{path} has its genotypes person by person; write it variant by variant "
            "(plink2 --bfile ... --make-bed --out ...)."
        )
    if found != size:
        raise ValueError(
            f"{path} has {found:,} bytes, {n_columns:,} variants (.bim) of {n_rows:,} persons "
            f"(.fam) take {size:,}: {'it was cut off' if found < size else 'it is longer'}, or "
            "belongs to other tables; write all three files anew."
        )
