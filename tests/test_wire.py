"""Messages between a coordinator and sites as bytes, which may come from anywhere."""

import io
import json
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sksurvgpu.backends.sums import messages as m
from sksurvgpu.federated import wire

COEF = m.Coef(np.array([1, 4]), np.array([-0.5, np.pi]))
TABLES = {"risk": np.array([[1.0, np.nan], [np.inf, -0.0]]), "empty": np.empty((0, 3))}
VALUES = [
    m.Describe('{"model": "é"}'),
    m.Describe("{}"),
    m.Arrange("{}", {"labels": np.array(["a", "bc"]), "event_ptr": np.array([0, 2])}, "d1"),
    m.Ask(
        "d1",
        (
            m.Weigh(m.Recipe("test", 2**64 + 3, 1, 5)),
            m.Evaluate(m.Recipe(), COEF, COEF, 0.25, True, 0.0, TABLES),
            m.Slopes(m.Recipe(), COEF, TABLES, 1e-300, want=("gradient", "size")),
        ),
    ),
    m.Description(3, ("x", "y"), np.ones((2, 5)), TABLES, 2**32 - 1),
    m.Arranged(np.arange(3), None, np.arange(2)),
    m.Unarranged(),
    m.Answers((m.Weights(1.0, 2, 3.0, np.nan, 4.0, {}), m.Evaluated(-np.inf), m.Sums(0.1, TABLES))),
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


ARRAY, COLUMNS = {"array": 0}, {"columns": {"array": 0}, "values": {"array": 1}}
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
    "type of another kind": pack(of({"type": ["Recipe"], "fields": {}})),
    "code": pack(of({"type": "os.system", "fields": {"command": "true"}})),
    "field": pack(of({"type": "Coef", "fields": {"columns": 1, "values": 2, "more": 3}})),
    "field of another kind": pack(of({"type": "Coef", "fields": {"columns": 1, "values": 2}})),
    "number for text": pack(of({"type": "Refused", "fields": {"reason": 1}})),
    "no part": pack(of({"array": 0, "type": "Coef"})),
    "missing array": pack(of(ARRAY)),
    "one array twice": pack(of({"type": "Coef", "fields": dict.fromkeys(COLUMNS, ARRAY)}),
                            **{"0": npy(np.ones(1))}),
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
    "endless number": pack(b'{"protocol": 2, "value": ' + b"9" * 10_000 + b"}"),
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
        wire.encode(m.Arrange("{}", {"labels": np.array([1, "a"], object)}, ""))
    with pytest.raises(ValueError, match="set does not travel"):
        wire.encode(m.Arrange("{}", {"labels": {1}}, ""))
    with pytest.raises(ValueError, match="Refused came where Ask or Weigh was expected"):
        wire.decode(wire.encode(wire.Refused("")), (m.Ask, m.Weigh))
    with pytest.raises(TypeError, match="is bytes, got str"):
        wire.decode("PK")
