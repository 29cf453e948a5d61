"""Messages between a coordinator and sites as bytes, which may come from anywhere."""

import io
import json
import zipfile
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sksurvgpu.federated import wire
from sksurvgpu.federated.programme import Programme

NUMBERS = np.array([[1.0, np.nan], [np.inf, -0.0]])
PROGRAMME = Programme(
    "5e55", ("A", "B", "é"), '{"class": "CoxLassoCCD", "parameters": {}}', "[]",
    np.array([1.0, 2.5]), 30, "sample", "B",
)  # fmt: skip
JOINED = wire.Joined("ab12", ("x", "y"), {"powers": np.array([-3, 2]), "labels": np.array(["a"])})
WORDS = np.array([0, 2**61 - 2], np.uint64)
VALUES = [
    wire.Begin(PROGRAMME),
    JOINED,
    wire.Joined("", None, {"numbers": NUMBERS, "empty": np.empty((0, 3)), "is": np.array([True])}),
    wire.Seal({"A": JOINED, "é": replace(JOINED, names=None)}),
    wire.Sealed({"B": "00ff", "é": ""}),
    wire.Start({"A": wire.Sealed({}), "B": wire.Sealed({"A": "1"})}),
    wire.Add(3, WORDS),
    wire.Covered(2**61, "f0", WORDS[:0]),
    wire.Done(),
    wire.Lost(),
    wire.Refused("because"),
]


def assert_same(one, other):
    assert type(one) is type(other)
    if isinstance(one, np.ndarray):
        assert one.dtype == other.dtype
        assert one.shape == other.shape
        assert one.tobytes() == other.tobytes()
    elif isinstance(one, dict):
        assert list(one) == list(other)
        for key in one:
            assert_same(one[key], other[key])
    elif isinstance(one, tuple):
        assert len(one) == len(other)
        for a, b in zip(one, other, strict=True):
            assert_same(a, b)
    elif hasattr(one, "__dataclass_fields__"):
        assert_same(vars(one), vars(other))
    else:
        assert one == other or (one != one and other != other)


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_message_comes_back_with_its_bits(value):
    data = wire.encode(value)
    assert_same(wire.decode(data), value)
    assert wire.encode(wire.decode(data)) == data


def pack(header=None, compression=zipfile.ZIP_STORED, **members):
    """Bytes of an archive with any header and members."""
    out = io.BytesIO()
    text = json.dumps(header).encode() if isinstance(header, dict) else header
    with zipfile.ZipFile(out, "w", compression) as archive:
        for name, content in {"header": npy(np.frombuffer(text, np.uint8)), **members}.items():
            archive.writestr(f"{name}.npy", content)
    return out.getvalue()


def npy(array, allow_pickle=False):
    out = io.BytesIO()
    np.lib.format.write_array(out, array, allow_pickle=allow_pickle)
    return out.getvalue()


def lying(shape):
    """An array of 8 bytes that claims a shape."""
    out = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        out, {"descr": "<f8", "fortran_order": False, "shape": shape}
    )
    return out.getvalue() + bytes(8)


def headed(text):
    """An array of a header that may be no such thing."""
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


def of(value, protocol=wire.PROTOCOL):
    stamped = {"content": value, "site": "", "about": "", "rows": ""}
    return {"protocol": protocol, "value": {"type": "Stamped", "fields": stamped}}


ARRAY = {"array": 0}
HOSTILE = {
    "no archive": b"not at all",
    "nothing": b"",
    "no header": pack(b"")[:40],
    "no json": pack(b"{"),
    "no text": pack(b"\xff\xfe"),
    "deep": pack(b"[" * 100_000),
    "version": pack(of(None, protocol=1)),
    "no stamp": pack({"protocol": wire.PROTOCOL, "value": None}),
    "no protocol": pack({"value": None}),
    "type": pack(of({"type": "Recipes", "fields": {}})),
    "type of another kind": pack(of({"type": ["Lost"], "fields": {}})),
    "code": pack(of({"type": "os.system", "fields": {"command": "true"}})),
    "message of before": pack(of({"type": "Describe", "fields": {"model": "{}"}})),
    "field": pack(of({"type": "Refused", "fields": {"reason": "1", "more": 3}})),
    "no field": pack(of({"type": "Refused", "fields": {}})),
    "number for an array": pack(of({"type": "Add", "fields": {"number": 1, "words": 2}})),
    "number for text": pack(of({"type": "Refused", "fields": {"reason": 1}})),
    "text for a number": pack(of({"type": "Add", "fields": {"number": "1", "words": ARRAY}}),
                              **{"0": npy(np.ones(1))}),
    "text for a list": pack(of({"type": "Begin", "fields": {"programme": {"type": "Programme",
        "fields": vars(PROGRAMME) | {"sites": "ABC", "grid": ARRAY}}}}), **{"0": npy(np.ones(1))}),
    "answer for what all have said": pack(of({"type": "Seal", "fields": {"joined": {"dict": {
        "A": {"type": "Lost", "fields": {}}}}}})),
    "no part": pack(of({"array": 0, "type": "Add"})),
    "missing array": pack(of(ARRAY)),
    "one array twice": pack(of([ARRAY, ARRAY]), **{"0": npy(np.ones(1))}),
    "array of nothing": pack(of(None), **{"0": npy(np.ones(1))}),
    "objects": pack(of(ARRAY), **{"0": npy(np.array([{}, print]), allow_pickle=True)}),
    "records": pack(of(ARRAY), **{"0": npy(np.zeros(2, [("a", "f8")]))}),
    "huge": pack(of(ARRAY), **{"0": lying((1 << 60,))}),
    "overflowing": pack(of(ARRAY), **{"0": lying((1 << 62, 4))}),
    "header of signs": pack(of(ARRAY), **{"0": headed(b"-" * 9_000 + b"1\n")}),
    "header without end": pack(of(ARRAY), **{"0": headed(b"[" * 4_000 + b"\n")}),
    "negative": pack(of(ARRAY), **{"0": lying((-1, -1))}),
    "too long": pack(of(ARRAY), **{"0": npy(np.ones(2)) + b"x"}),
    "bomb": pack(of(ARRAY), zipfile.ZIP_DEFLATED, **{"0": npy(np.zeros(1 << 20))}),
    "large number": pack(of(1 << 200)),
    "endless number": pack(b'{"protocol": 3, "value": ' + b"9" * 10_000 + b"}"),
}  # fmt: skip


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE)
def test_hostile_bytes_are_a_value_error(data):
    with pytest.raises(ValueError, match="no message of sksurvgpu"):
        wire.decode(data)


def test_members_that_share_their_bytes_are_refused():
    data = bytearray(wire.encode(VALUES[1]))
    entry = data.rindex(b"PK\x01\x02")
    data[entry + 20 : entry + 28] = (1 << 30).to_bytes(4, "little") * 2
    with pytest.raises(ValueError, match="more bytes than have come"):
        wire.decode(bytes(data))


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_damaged_bytes_are_a_value_error_or_data(data):
    good = wire.encode(VALUES[3])
    if data.draw(st.booleans()):
        damaged = good[: data.draw(st.integers(0, len(good) - 1))]
    else:
        where = data.draw(st.integers(0, len(good) - 1))
        damaged = good[:where] + bytes([data.draw(st.integers(0, 255))]) + good[where + 1 :]
    try:
        wire.decode(damaged)
    except ValueError as error:
        assert "no message of sksurvgpu" in str(error)  # noqa: PT017


def test_what_does_not_travel_is_named():
    with pytest.raises(ValueError, match="An array of object does not travel"):
        wire.encode(replace(JOINED, facts={"labels": np.array([1, "a"], object)}))
    with pytest.raises(ValueError, match="set does not travel"):
        wire.encode(replace(JOINED, facts={"labels": {1}}))
    with pytest.raises(ValueError, match="Refused came where Begin or Add was expected"):
        wire.decode(wire.encode(wire.Refused("")), (wire.Begin, wire.Add))
    with pytest.raises(TypeError, match="is bytes, got str"):
        wire.decode("PK")
