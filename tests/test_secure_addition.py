"""Sums over sites of which a coordinator learns no part: words, masks, tags, and who is who."""

import re
import stat
import sys
from fractions import Fraction
from hashlib import sha256

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sksurvgpu.federated import keys
from sksurvgpu.federated.keys import (
    Circle,
    Identity,
    TagError,
    fingerprint_of,
    total_of,
    without_tag,
)
from sksurvgpu.federated.words import (
    PRIME,
    WordsError,
    add,
    decode,
    decode_counts,
    dot,
    encode,
    encode_counts,
    from_bits,
    pack_flags,
    subtract,
    unpack_flags,
)

LARGEST = np.nextafter(2.0**40, 0)
FLOATS = st.floats(-LARGEST, LARGEST)
COUNTS = st.integers(-(2**50) + 1, 2**50 - 1)
WORDS = st.integers(0, PRIME - 1)
SESSION, HERE, THERE = b"s" * 32, b"1" * 32, b"2" * 32


def words_of(*numbers):
    return np.array(numbers, np.uint64)


def fixed(value):
    return round(Fraction(value) * 2**56)  # half to even, as rint does


@given(st.lists(FLOATS, min_size=1, max_size=30))
@example([-(2.0**-57), -(2.0**-56), 2.0**-57, 3 * 2.0**-57])
@example([-0.0])
@example([-LARGEST, -(2.0**-56), -1.0])
def test_sums_of_floats_are_exact(values):
    total = total_of([encode([value, 1.0]).ravel() for value in values]).reshape(2, 2)
    decoded = decode(total)
    assert decoded[0] == float(Fraction(sum(map(fixed, values)), 2**56))
    assert decoded[1] == len(values)


@given(st.lists(FLOATS.filter(lambda x: abs(x) >= 1 / 16), min_size=1, max_size=10))
def test_doubles_that_are_not_small_are_kept(values):
    np.testing.assert_array_equal(decode(encode(values)), values)
    total = decode(total_of([encode([value]) for value in values]))
    assert total[0] == float(sum(map(Fraction, values)))


@pytest.mark.parametrize("value", [LARGEST, -LARGEST, -(2.0**-56), 1 - 2.0**-53, -1 / 3])
def test_a_thousand_sites_do_not_wrap(value):
    decoded = decode(total_of([encode([value])] * 1000))[0]
    exact = float(Fraction(1000 * fixed(value), 2**56))
    assert abs(decoded - exact) <= np.spacing(abs(exact))


@given(st.lists(COUNTS, min_size=1, max_size=40))
@example([2**50 - 1] * 1000)
@example([1 - 2**50] * 1000)
def test_sums_of_counts_are_exact(counts):
    assert decode_counts(total_of([encode_counts([n]) for n in counts])).tolist() == [sum(counts)]


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 2.0**40, -(2.0**40)])
def test_numbers_that_no_words_hold(value):
    with pytest.raises(WordsError, match=re.escape(f"{value} is no finite")):
        encode([1.0, value])


@pytest.mark.parametrize("count", [2**50, -(2**50), -(2**63)])
def test_counts_that_no_words_hold(count):
    with pytest.raises(WordsError, match=f"{count} is no count"):
        encode_counts([count])


@pytest.mark.parametrize("high", [2**57, 2**60, PRIME - 2**57])
def test_sums_of_too_much_are_refused(high):
    for words in (words_of(high, 0), words_of(0, 1000 << 50)):
        with pytest.raises(WordsError, match="no 1,000 sites"):
            decode(words.reshape(2, 1))


@given(st.integers(1, 1000), st.lists(st.booleans(), max_size=130), st.data())
def test_flags_are_counted(n_sites, flags, data):
    flags = np.array(flags, bool)
    n_set = data.draw(st.integers(0, n_sites))
    sent = [pack_flags(flags, n_sites)] * n_set + [pack_flags(~flags, n_sites)] * (n_sites - n_set)
    counts = unpack_flags(total_of(sent), len(flags), n_sites)
    np.testing.assert_array_equal(counts, np.where(flags, n_set, n_sites - n_set))


def test_flags_share_words():
    assert [len(pack_flags(np.ones(120), n)) for n in (1, 3, 7, 1000)] == [2, 4, 6, 20]
    assert unpack_flags(pack_flags(np.ones(61), 1), 61, 1).all()  # 61 bits in a word would be 0
    with pytest.raises(WordsError, match="3 of 2 sites"):
        unpack_flags(words_of(3), 1, 2)
    with pytest.raises(WordsError, match="31 flags"):
        unpack_flags(words_of(3), 31, 2)
    with pytest.raises(WordsError, match="1,000 sites"):
        pack_flags([True], 1001)


@given(st.lists(st.tuples(WORDS, WORDS), max_size=20))
@example([(PRIME - 1, PRIME - 1)] * 20)
@example(
    [(0, 0), (0, PRIME - 1), (PRIME - 1, 0), (1, PRIME - 1), (2**31 - 1, 2**31), (1 << 60,) * 2]
)
def test_arithmetic_is_that_of_integers(pairs):
    a, b = words_of(*(a for a, _ in pairs)), words_of(*(b for _, b in pairs))
    assert add(a, b).tolist() == [(a + b) % PRIME for a, b in pairs]
    assert subtract(a, b).tolist() == [(a - b) % PRIME for a, b in pairs]
    assert dot(a, b) == sum(a * b for a, b in pairs) % PRIME


def test_long_products_are_those_of_integers():
    rng = np.random.default_rng(3)
    a, b = rng.integers(0, PRIME, (2, 20_000), np.uint64)
    expected = sum(x * y for x, y in zip(a.tolist(), b.tolist(), strict=True)) % PRIME
    assert dot(a, b) == expected


def test_words_of_bits():
    bits = words_of(0, PRIME, PRIME - 1, 2**64 - 1, 2**63 + 5)
    assert from_bits(bits).tolist() == [0, 0, PRIME - 1, 0, 5]


def identities(n_sites):
    if n_sites > 1:
        pytest.importorskip("cryptography")
    return {f"s{k}": Identity(bytes([k + 1] * 32)) for k in range(n_sites)}


def publics_of(sites):
    return {name: site.public for name, site in sites.items()} if len(sites) > 1 else {"s0": b""}


def circles(n_sites, session=SESSION, run=b"r"):
    """Circles of sites, by name, as they are when shares have gone round."""
    sites = identities(n_sites)
    publics = publics_of(sites)
    made = {name: Circle(site, name, publics, session) for name, site in sites.items()}
    own = {name: sha256(run + name.encode()).digest() for name in made}
    sealed = {name: circle.shares(own[name]) for name, circle in made.items()}
    for name, circle in made.items():
        circle.close(own[name], {n: sealed[n][name] for n in made if n != name})
    return made


def send(made, here=HERE, n_words=50):
    """Words of each site, and what it sends of them."""
    rng = np.random.default_rng(7)
    words = {name: rng.integers(0, PRIME, n_words, np.uint64) for name in made}
    return words, {name: made[name].cover(words[name], here) for name in made}


@pytest.mark.parametrize("n_sites", [1, 2, 3, 7])
def test_masks_cancel_and_tags_are_right(n_sites):
    made = circles(n_sites)
    words, sent = send(made)
    total = total_of([*sent.values()])
    expected = total_of([*words.values()])
    assert without_tag(total).tolist() == expected.tolist()
    for circle in made.values():
        assert circle.verify(total, HERE).tolist() == expected.tolist()


def test_words_of_any_shape_are_covered():
    circle = circles(1)["s0"]
    covered = circle.cover(encode([1.5, -2.0]), HERE)
    assert decode(circle.verify(covered, HERE).reshape(2, 2)).tolist() == [1.5, -2.0]


def test_what_a_site_sends_looks_uniform():
    """Of words that are far from it, for each site and the masks alone; 1 of 10,000 would not."""
    made = circles(3)
    for name, circle in made.items():
        sent = circle.cover(np.zeros(1 << 14, np.uint64), HERE)[:-1]
        bits = (sent[:, None] >> np.arange(61, dtype=np.uint64)) & np.uint64(1)
        scores = (bits.mean(axis=0) - 0.5) * 2 * np.sqrt(len(sent))
        assert np.abs(scores).max() < 5, name
        counts = np.bincount((sent >> np.uint64(53)).astype(np.intp), minlength=256)
        chi_square = ((counts - 64) ** 2 / 64).sum()  # of mean 255
        assert abs(chi_square - 255) < 5 * np.sqrt(2 * 255), name
        neighbours = np.corrcoef(sent[1:].astype(float), sent[:-1].astype(float))[0, 1]
        assert abs(neighbours) < 5 / np.sqrt(len(sent)), name


def test_streams_belong_to_a_run_a_session_and_a_point():
    zeros = np.zeros(20, np.uint64)

    def sent(circle, here=HERE):
        return circle.cover(zeros, here)

    first = sent(circles(2)["s0"])
    assert sent(circles(2)["s0"]).tolist() == first.tolist()
    others = [
        *(sent(circles(2)["s0"], THERE), sent(circles(2, session=b"t" * 32)["s0"])),
        # again the same session: masks of both runs would show what has changed in between
        *(sent(circles(2, run=b"q")["s0"]), sent(circles(2)["s1"]), sent(circles(3)["s0"])),
    ]
    columns = np.stack([first, *others])
    assert all(len(set(column)) == len(columns) for column in columns.T.tolist())


def test_a_site_covers_once():
    circle = circles(2)["s0"]
    once = circle.cover(words_of(1, 2), HERE)
    assert circle.cover(words_of(1, 2), HERE).tolist() == once.tolist()
    circle.cover(words_of(1, 3), THERE)
    with pytest.raises(ValueError, match=r"'s0' has covered other words .* their difference"):
        circle.cover(words_of(1, 3), HERE)


def forged(total):
    """Sums that someone makes of a sum and its tag, without the key."""
    for k in (0, 3, -2, -1):
        yield np.concatenate([total[:k], add(total[k:][:1], words_of(1)), total[k:][1:]])
    twice = add(total, total)
    yield twice
    yield np.zeros_like(total)
    yield subtract(np.zeros_like(total), total)
    yield total[1:]
    yield np.delete(total, -2)
    yield np.insert(total, -1, 0)
    yield np.append(total, np.uint64(0))
    yield total[[1, 0, *range(2, len(total))]]
    # the sum modulo p, but as another number
    small = int(np.argmin(total[:-1]))
    yield np.where(np.arange(len(total)) == small, total + np.uint64(PRIME), total)
    yield total[:0]
    yield total.astype(np.int64)
    yield total[None]


def is_taken(circle, total):
    try:
        circle.verify(total, HERE)
    except TagError:
        return False
    return True


@pytest.mark.parametrize("n_sites", [1, 2, 3])
def test_changed_sums_are_found(n_sites):
    made = circles(n_sites)
    total = total_of([*send(made)[1].values()])
    for circle in made.values():
        taken = [k for k, other in enumerate(forged(total)) if is_taken(circle, other)]
        assert taken == []
    with pytest.raises(TagError, match="not that of what the sites sent"):
        made["s0"].verify(total, THERE)


def test_sums_of_others_are_found():
    made = circles(3)
    sent, elsewhere = send(made)[1], send(made, THERE)[1]
    in_other_runs = send(circles(3, run=b"q"))[1]
    for wrong in (
        {name: sent[name] for name in ("s0", "s1")},
        {**sent, "s2": sent["s1"]},
        {**sent, "s2": elsewhere["s2"]},
        {**sent, "s2": in_other_runs["s2"]},
        {**sent, "s3": sent["s2"]},
        in_other_runs,
    ):
        with pytest.raises(TagError, match="not that of what the sites sent"):
            made["s0"].verify(total_of([*wrong.values()]), HERE)


def test_what_is_no_sum():
    with pytest.raises(ValueError, match="one shape"):
        total_of([words_of(1, 2), words_of(1)])
    with pytest.raises(ValueError, match="one shape"):
        total_of([])
    with pytest.raises(WordsError, match="int64"):
        total_of([np.array([1])])
    with pytest.raises(WordsError, match="not below"):
        total_of([words_of(PRIME)])
    with pytest.raises(ValueError, match="a vector"):
        without_tag(words_of())
    with pytest.raises(ValueError, match="a transcript has 32 bytes, got 5"):
        circles(1)["s0"].cover(words_of(1), b"short")
    with pytest.raises(ValueError, match="closed by the shares"):
        Circle(None, "s0", {"s0": b""}, SESSION).cover(words_of(1), HERE)


def test_publics_are_checked():
    sites = identities(3)
    publics = publics_of(sites)

    def refused(**changes):
        with pytest.raises(ValueError) as caught:
            Circle(sites["s0"], "s0", {**publics, **changes}, SESSION)
        return str(caught.value)

    other = Identity.new()
    said = refused(s0=other.public)
    assert "'s0'" in said and other.fingerprint in said and sites["s0"].fingerprint in said
    assert "site 's2' has 32 bytes, got 31" in refused(s2=b"k" * 31)
    assert "'s2' has 32 bytes, got a str" in refused(s2="k" * 32)
    assert "'s1' and 's2' have the same" in refused(s2=publics["s1"])
    with pytest.raises(ValueError, match="'s9' is not among"):
        Circle(sites["s0"], "s9", publics, SESSION)


P25519 = 2**255 - 19
SMALL_ORDER = [0, 1, P25519 - 1, P25519, P25519 + 1]
SMALL_ORDER += [325606250916557431795983626356110631294008115727848805560023387167927233504]  # of 8


@pytest.mark.parametrize("u", SMALL_ORDER)
def test_points_of_small_order_are_refused(u):
    sites = identities(2)
    publics = {**publics_of(sites), "s1": u.to_bytes(32, "little")}
    with pytest.raises(ValueError, match="site 's1' is no valid one"):
        Circle(sites["s0"], "s0", publics, SESSION)


def shared(names=("s0", "s1", "s2"), session=SESSION):
    sites = identities(3)
    publics = {name: sites[name].public for name in names}
    made = {name: Circle(sites[name], name, publics, session) for name in names}
    return made, {name: circle.shares(b"o" * 32) for name, circle in made.items()}


def test_shares_that_do_not_open():
    made, sealed = shared()
    of_others = {n: sealed[n]["s0"] for n in ("s1", "s2")}
    made["s0"].close(b"o" * 32, of_others)
    share = of_others["s2"]
    for wrong in (
        *(share[:k] + bytes([share[k] ^ 1]) + share[k + 1 :] for k in (0, 12, len(share) - 1)),
        *(share[:-1], b"", share + b"0", None, of_others["s1"]),
        # what s0 itself has sent, and what goes to another, belongs to another session or circle
        *(sealed["s0"]["s2"], sealed["s2"]["s1"], shared(session=b"t" * 32)[1]["s2"]["s0"]),
        shared(names=("s0", "s2"))[1]["s2"]["s0"],
    ):
        with pytest.raises(ValueError, match="share of site 's2' does not open"):
            made["s0"].close(b"o" * 32, {**of_others, "s2": wrong})
    with pytest.raises(ValueError, match=r"\['s2'\] are missing"):
        made["s0"].close(b"o" * 32, {"s1": of_others["s1"]})
    with pytest.raises(ValueError, match="a share has 32 bytes, got 3"):
        made["s0"].shares(b"own")


def test_shares_are_sealed_anew():
    """One key and nonce for shares of two runs would show their difference."""
    made, sealed = shared()
    again = made["s0"].shares(b"o" * 32)
    assert set(again) == {"s1", "s2"}
    assert all(again[name] != sealed["s0"][name] for name in again)


def test_identities_are_kept_in_files(tmp_path):
    path = tmp_path / "site.key"
    made = Identity.load(path)
    assert len(path.read_bytes()) == 32
    if sys.platform != "win32":
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    kept = path.read_bytes()
    pytest.importorskip("cryptography")
    assert Identity.load(path).public == made.public
    assert path.read_bytes() == kept
    assert Identity.load(tmp_path / "other.key").public != made.public


@pytest.mark.parametrize("data", [b"", b"k" * 31, b"k" * 33])
def test_files_of_another_length_are_refused(tmp_path, data):
    path = tmp_path / "site.key"
    path.write_bytes(data)
    with pytest.raises(ValueError, match=rf"site\.key' has 32 bytes, got {len(data)}"):
        Identity.load(path)
    assert path.read_bytes() == data


def test_fingerprints():
    assert fingerprint_of(bytes(32)) == "6668-7aad-f862-bd77-6c8f"  # of SHA-256 of 32 zeros
    with pytest.raises(ValueError, match="a public key has 32 bytes"):
        fingerprint_of(b"key")
    site = identities(2)["s0"]
    assert fingerprint_of(site.public) == site.fingerprint


def test_one_site_alone_needs_no_package(monkeypatch):
    keys._cryptography.cache_clear()
    for name in ("cryptography", "cryptography.exceptions"):
        monkeypatch.setitem(sys.modules, name, None)
    circle = Circle(Identity.new(), "s0", {"s0": b""}, SESSION)
    assert circle.shares(b"o" * 32) == {}
    circle.close(b"o" * 32, {})
    covered = circle.cover(words_of(1, 2), HERE)
    assert circle.verify(covered, HERE).tolist() == [1, 2]
    with pytest.raises(ImportError, match=re.escape('pip install "sksurvgpu[sites]"')):
        _ = Identity.new().public
