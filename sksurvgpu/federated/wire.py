"""Messages and answers, and these as bytes: an uncompressed `.npz`, without pickle.

Member ``header`` is JSON: the protocol and the nested structure, where an array is named by the
number of its member.  What is in it is `Stamped`: an answer says which message it answers.

Bytes come from another institution and are data, never code: members are stored as they are, so
that nothing that is read takes more memory than the bytes that came, types of arrays are numbers,
booleans and text, and every field is checked against its declared type.
"""

import json
import zipfile
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from io import BytesIO
from threading import Lock
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np

from .programme import Programme

PROTOCOL = 3  # 1 had no stamps; with 2, coordinators asked
LARGEST, LARGEST_HEADER = 1 << 32, 1 << 27  # bytes of a message
MOST_MEMBERS = 1 << 14
KINDS = "biufU"  # of arrays
LARGEST_INTEGER = 1 << 62
_parsing = Lock()  # NumPy parses headers as Python, whose 3.11 counts depth for all threads at once
_READ_HEADER = {(1, 0): np.lib.format.read_array_header_1_0}


@dataclass(frozen=True)
class Begin:
    """Ask a site to take part in a programme: `Joined`."""

    programme: Programme


@dataclass(frozen=True)
class Joined:
    """Public facts of a site: its key, as hexadecimal digits, columns, and `Public` of them."""

    public: str
    names: tuple[str, ...] | None
    facts: dict[str, np.ndarray]


@dataclass(frozen=True)
class Seal:
    """Hand on what all sites have said when they joined: `Sealed`."""

    joined: dict[str, Joined]


@dataclass(frozen=True)
class Sealed:
    """A site's share of the key of all, for each of the others, which alone can open it."""

    shares: dict[str, str]


@dataclass(frozen=True)
class Start:
    """Hand on all shares, and let the fit begin: `Covered`."""

    sealed: dict[str, Sealed]


@dataclass(frozen=True)
class Add:
    """The sum of all parts: `Covered`, the next part, or `Done`."""

    number: int
    words: np.ndarray  # uint64


@dataclass(frozen=True)
class Covered:
    """Part of a site, which nobody can read without those of all others.

    form   names and shapes of what is added up, as a digest
    """

    number: int
    form: str
    words: np.ndarray  # uint64


@dataclass(frozen=True)
class Done:
    """The fit has ended at a site."""


@dataclass(frozen=True)
class Lost:
    """The site was started again: it has to hear all from the beginning."""


@dataclass(frozen=True)
class Refused:
    """The answer of a site that does not release what was asked for."""

    reason: str


@dataclass(frozen=True)
class Stamped:
    """A message or an answer, and what it belongs to; empty where nobody has said that.

    site      to which a message goes, or which answers
    about     of a message: what no other one says; of an answer: digest of the message's bytes
    rows      of an answer: digest of the site's rows as they were loaded
    """

    content: Any
    site: str = ""
    about: str = ""
    rows: str = ""


TYPES: dict[str, Any] = {
    kind.__name__: kind
    for kind in (
        *(Programme, Begin, Joined, Seal, Sealed, Start, Add, Covered, Done, Lost, Refused),
        Stamped,
    )
}


def encode(content: Any, **stamp: str) -> bytes:
    """Bytes of a message or an answer, with what `Stamped` says of it."""
    members: list[np.ndarray] = []
    header = {"protocol": PROTOCOL, "value": _pack(Stamped(content, **stamp), members)}
    text = np.frombuffer(json.dumps(header).encode(), np.uint8)
    out = BytesIO()
    arrays: dict[str, Any] = {str(k): member for k, member in enumerate(members)}
    np.savez(out, allow_pickle=False, header=text, **arrays)
    return out.getvalue()


def _pack(value, members):
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.ndarray):
        if value.dtype.kind == "O" and all(isinstance(item, str) for item in value.flat):
            value = value.astype(str)
        if value.dtype.kind not in KINDS:
            raise ValueError(
                f"An array of {value.dtype} does not travel between sites: only numbers and text "
                "do; convert labels to one of these."
            )
        members.append(value.astype(value.dtype.newbyteorder("<"), order="C", copy=False))
        return {"array": len(members) - 1}
    if isinstance(value, tuple | list):
        return [_pack(item, members) for item in value]
    if isinstance(value, dict):
        return {"dict": {str(key): _pack(item, members) for key, item in value.items()}}
    if is_dataclass(value) and type(value).__name__ in TYPES:
        given = {f.name: _pack(getattr(value, f.name), members) for f in fields(value)}
        return {"type": type(value).__name__, "fields": given}
    raise ValueError(f"{type(value).__name__} does not travel between sites.")


def decode(data: bytes, expected: tuple[type, ...] | None = None) -> Any:
    """Message or answer of bytes; ValueError, and nothing else, where they are not one."""
    return read(data, expected).content


def read(data: bytes, expected: tuple[type, ...] | None = None) -> Stamped:
    """Read a message with its stamp."""
    if not isinstance(data, bytes | bytearray | memoryview):
        raise TypeError(f"A message is bytes, got {type(data).__name__}.")
    if len(data) > LARGEST:
        raise ValueError(f"A message has {len(data):,} bytes; at most {LARGEST:,} are read.")
    try:
        members = _read_members(data)
        header = json.loads(members.pop("header").tobytes())
        value = _unpack_header(header, members)
    except Exception as error:  # of many kinds: of archives, texts, and headers of arrays
        said = error if isinstance(error, ValueError) else repr(error)
        raise ValueError(f"These bytes are no message of sksurvgpu: {said}") from None
    if expected is not None and not isinstance(value.content, expected):
        names = " or ".join(kind.__name__ for kind in expected)
        raise ValueError(f"{type(value.content).__name__} came where {names} was expected.")
    return value


def _read_members(data):
    with zipfile.ZipFile(BytesIO(data)) as archive:
        found = archive.infolist()
        if len(found) > MOST_MEMBERS:
            raise ValueError(f"it has {len(found):,} members, of which {MOST_MEMBERS:,} are read.")
        if len({member.filename for member in found}) < len(found):
            raise ValueError("a member comes twice.")
        if any(member.compress_type != zipfile.ZIP_STORED for member in found):
            raise ValueError("a member is compressed.")
        if sum(member.file_size for member in found) > len(data):
            raise ValueError("its members have more bytes than have come.")
        if any(m.filename == "header.npy" and m.file_size > LARGEST_HEADER for m in found):
            raise ValueError(f"its header has more than {LARGEST_HEADER:,} bytes.")
        names = [member.filename.removesuffix(".npy") for member in found]
        return {
            name: _read_array(archive.read(member))
            for name, member in zip(names, found, strict=True)
        }


def _read_array(data):
    """Array of the bytes of an `.npy`, which must be of the length that its shape says."""
    stream = BytesIO(data)
    version = np.lib.format.read_magic(stream)
    if version not in _READ_HEADER:
        raise ValueError(f"version {version} of arrays is unknown.")
    with _parsing:
        shape, in_columns, dtype = _READ_HEADER[version](stream)
    if dtype.kind not in KINDS or dtype.hasobject:
        raise ValueError(f"an array of {dtype} does not travel.")
    size, rest = 1, len(data) - stream.tell()
    for length in shape:
        if length < 0:
            raise ValueError(f"an array has the shape {shape}.")
        size *= length
    if size * dtype.itemsize != rest:
        raise ValueError(f"an array of shape {shape} has {rest:,} bytes.")
    if not size:
        return np.empty(shape, dtype)
    flat = np.frombuffer(data, dtype, offset=stream.tell()).copy()
    return flat.reshape(shape, order="F" if in_columns else "C")


def _unpack_header(header, members):
    if not isinstance(header, dict) or set(header) != {"protocol", "value"}:
        raise ValueError("its header has no protocol.")
    if header["protocol"] != PROTOCOL:
        raise ValueError(
            f"its protocol is {header['protocol']!r}, this version of sksurvgpu speaks {PROTOCOL}: "
            "install the same version at the coordinator and all sites."
        )
    value = _unpack(header["value"], members)
    if members:
        raise ValueError(f"{len(members):,} arrays belong to nothing.")
    if not isinstance(value, Stamped):
        raise ValueError("it has no stamp.")
    return value


def _unpack(packed, members):
    if isinstance(packed, list):
        return tuple(_unpack(item, members) for item in packed)
    if not isinstance(packed, dict):
        if isinstance(packed, int) and abs(packed) > LARGEST_INTEGER:
            raise ValueError("a number is too large.")
        return packed
    if set(packed) == {"array"}:
        return members.pop(str(packed["array"]))
    if set(packed) == {"dict"}:
        return {key: _unpack(item, members) for key, item in packed["dict"].items()}
    if set(packed) == {"type", "fields"}:
        return _unpack_fields(packed["type"], packed["fields"], members)
    raise ValueError(f"{sorted(packed)} is no part of a message.")


def _unpack_fields(name, given, members):
    if not isinstance(name, str) or name not in TYPES:
        raise ValueError(f"type {name!r} is unknown.")
    kind, declared = TYPES[name], _declared(name)
    if not isinstance(given, dict) or set(given) != set(declared):
        raise ValueError(f"{name} has the fields {sorted(declared)}, got {sorted(given)}.")
    values = {field: _unpack(item, members) for field, item in given.items()}
    for field, value in values.items():
        if not _fits(value, declared[field]):
            raise ValueError(f"{name}.{field} is {type(value).__name__}, not {declared[field]}.")
    values |= {field: float(values[field]) for field in values if declared[field] is float}
    return kind(**values)


@cache
def _declared(name):
    """Types of the fields of a message, by name."""
    return get_type_hints(TYPES[name])


def _fits(value, hint) -> bool:
    """Whether a value is of a declared type."""
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is Any:
        return True
    if origin in (UnionType, Union):
        return any(_fits(value, option) for option in arguments)
    if origin is tuple:
        return isinstance(value, tuple) and all(_fits(item, arguments[0]) for item in value)
    if origin is dict:
        return isinstance(value, dict) and all(_fits(v, arguments[1]) for v in value.values())
    if hint is float:
        return isinstance(value, float | int) and not isinstance(value, bool)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if hint in (None, NoneType):
        return value is None
    if get_origin(hint) is np.ndarray:
        hint = np.ndarray
    return isinstance(value, hint)
