"""Keys of sites: who they are, masks that cancel in a sum over all of them, and tags of sums.

A site has a secret x and is known by X = x B, for the base point B of Curve25519.  Sites i and j
share the pair key k_ij = HKDF(x_i X_j), bound to the session and to all its sites and their keys;
in every run each sends the others a fresh random share, and G is the digest of all shares.  Of
words w_i a site sends

    c_i = (w_i, <r, w_i> + s) + sum_{j > i} m_ij - sum_{j < i} m_ij    modulo p = 2**61 - 1

where the masks m_ij come from k_ij and G, the one-time key (r, s) of the tag from G alone, all from
the transcript, too.  Over all n sites masks cancel: the sum is (W, <r, W> + n s) (Bonawitz et al.,
2017, with no site that drops out; Wegman and Carter, 1981).  Without s, zeros and all multiples of
a sum would have valid tags, as zeros at its end would if s were not at the end of the key.  A
coordinator that knows the true sum and its tag meets another one with probability 2**-60.

What this does not do: a site that tells the coordinator G lets it forge sums, as the site could by
its own words; who takes the secret of a site reads all that it ever covered.
"""

from __future__ import annotations

import hmac
import os
from functools import cache, cached_property, reduce
from hashlib import sha256, shake_128
from pathlib import Path
from types import SimpleNamespace

import numpy as np

from . import words as arithmetic

SIZE = 32  # bytes of keys, shares and transcripts
NONCE = 12


class TagError(ValueError):
    """A sum that is not that of what the sites sent."""


@cache
def _cryptography():
    """Import what is used of the package `cryptography`, or say how to get it."""
    try:
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.asymmetric import x25519
        from cryptography.hazmat.primitives.ciphers import Cipher, aead, algorithms
        from cryptography.hazmat.primitives.hashes import SHA256
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF
    except ImportError as error:
        raise ImportError(
            "fits over several sites need cryptography, which is not installed: "
            'pip install "sksurvgpu[sites]".'
        ) from error
    return SimpleNamespace(
        InvalidTag=InvalidTag,
        Private=x25519.X25519PrivateKey,
        Public=x25519.X25519PublicKey,
        Cipher=Cipher,
        ChaCha20=algorithms.ChaCha20,
        Box=aead.ChaCha20Poly1305,
        hkdf=lambda secret, info: HKDF(SHA256(), SIZE, None, info).derive(secret),
    )


def _derive(key, purpose, about):
    """Key for one purpose, which has no byte 0: one step of HKDF's expansion."""
    return hmac.digest(key, b"sksurvgpu " + purpose + b"\0" + about + b"\1", "sha256")


def _joined(*parts):
    """Bytes that no other parts have."""
    return b"".join(len(part).to_bytes(8, "big") + part for part in parts)


def _checked(data, what):
    if not isinstance(data, bytes) or len(data) != SIZE:
        found = f"{len(data)}" if isinstance(data, bytes) else f"a {type(data).__name__}"
        raise ValueError(f"{what} has {SIZE} bytes, got {found}.")
    return data


def fingerprint_of(public: bytes) -> str:
    """80 bits of a public key's digest, to be compared by telephone."""
    digits = sha256(_checked(public, "a public key")).hexdigest()[:20]
    return "-".join(digits[k : k + 4] for k in range(0, 20, 4))


class Identity:
    """Long-term key of a site, which never leaves it.

    Parameters
    ----------
    private : bytes
        32 of them, of which nobody else knows.
    """

    def __init__(self, private: bytes):
        self._private = _checked(private, "a site's secret key")

    @classmethod
    def new(cls) -> Identity:
        """Draw an identity."""
        return cls(os.urandom(SIZE))

    @classmethod
    def load(cls, path) -> Identity:
        """Read the identity in a file; where there is none, make one for its owner alone."""
        try:
            with open(path, "xb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
                file.write(os.urandom(SIZE))
        except FileExistsError:
            pass
        return cls(_checked(Path(path).read_bytes(), f"the secret key in {str(path)!r}"))

    @cached_property
    def public(self) -> bytes:
        """Public key, by which others know the site."""
        key = _cryptography().Private.from_private_bytes(self._private)
        return key.public_key().public_bytes_raw()

    @property
    def fingerprint(self) -> str:
        """Short form of the public key."""
        return fingerprint_of(self.public)

    def agree(self, public: bytes) -> bytes:
        """Secret that only the two sites know; ValueError for keys that leave it no choice."""
        crypto = _cryptography()
        key = crypto.Private.from_private_bytes(self._private)
        return key.exchange(crypto.Public.from_public_bytes(public))


class Circle:
    """Keys of one session at one of its sites.

    Parameters
    ----------
    identity : Identity, or None
        Of this site; of one alone there is none.
    name : str
        Of this site.
    publics : dict
        Name -> public key of every site, with this one.
    session : bytes
        Digest of what the sites have agreed to do.
    """

    def __init__(
        self, identity: Identity | None, name: str, publics: dict[str, bytes], session: bytes
    ):
        if name not in publics:
            raise ValueError(f"site {name!r} is not among the sites {sorted(publics)}.")
        self.name, self.names = name, tuple(sorted(publics))
        self._others = tuple(other for other in self.names if other != name)
        if self._others:  # one site alone needs no key
            self._check(identity, publics)
        named = (part for n in self.names for part in (n.encode(), publics[n]))
        self._context = sha256(_joined(b"sksurvgpu circle", session, *named)).digest()
        self._pairs = {n: self._pair(identity, n, publics[n]) for n in self._others}
        self._group: bytes | None = None
        self._masks: dict[str, bytes] = {}
        self._covered: dict[bytes, bytes] = {}

    def _check(self, identity, publics):
        owners: dict[bytes, str] = {}
        for name in self.names:
            public = _checked(publics[name], f"the public key of site {name!r}")
            if public in owners:
                raise ValueError(f"sites {owners[public]!r} and {name!r} have the same public key.")
            owners[public] = name
        if publics[self.name] != identity.public:
            raise ValueError(
                f"site {self.name!r} is listed with the key {fingerprint_of(publics[self.name])}, "
                f"its own is {identity.fingerprint}."
            )

    def _pair(self, identity, other, public):
        try:
            secret = identity.agree(public)
        except ValueError:  # zeros, whatever the own key: of a point of small order
            raise ValueError(f"the public key of site {other!r} is no valid one.") from None
        names = sorted([self.name.encode(), other.encode()])
        return _cryptography().hkdf(secret, _joined(b"sksurvgpu pair", self._context, *names))

    def shares(self, own: bytes) -> dict[str, bytes]:
        """Seal this site's share for every other one.

        `own` must be drawn anew in every run, also of the same session: nothing else keeps masks
        from covering twice, which would tell the difference of what they cover.
        """
        _checked(own, "a share")
        # One session may run again: nonces are random, since keys of directions are the same then.
        nonces = {other: os.urandom(NONCE) for other in self._others}
        return {
            other: nonce + self._box(other, self.name).encrypt(nonce, own, None)
            for other, nonce in nonces.items()
        }

    def _box(self, other, sender):
        """Box of one direction: what a site has sealed does not come back to it as another's."""
        return _cryptography().Box(_derive(self._pairs[other], b"share of", sender.encode()))

    def close(self, own: bytes, sealed: dict[str, bytes]) -> None:
        """Form the key of the group of this site's share and those that others sealed for it."""
        if set(sealed) != set(self._others):
            wrong = sorted(set(sealed) ^ set(self._others))
            raise ValueError(f"shares come of {sorted(sealed)}: {wrong} are missing, or none's.")
        shares = {self.name: _checked(own, "a share")}
        for other in self._others:
            shares[other] = self._open(other, sealed[other])
        parts = (shares[name] for name in self.names)
        self._group = sha256(_joined(b"sksurvgpu group", self._context, *parts)).digest()
        self._masks = {n: _derive(key, b"mask", self._group) for n, key in self._pairs.items()}

    def _open(self, other, sealed):
        try:
            share = self._box(other, other).decrypt(sealed[:NONCE], sealed[NONCE:], None)
            return _checked(share, "a share")
        except (ValueError, TypeError, _cryptography().InvalidTag):
            raise ValueError(
                f"the share of site {other!r} does not open: it was changed on its way, or that "
                "site has other keys, names or plans of the sites."
            ) from None

    def _tag_key(self, n_words, transcript):
        """One-time key of a tag: of each word, then that which hides the tag."""
        if self._group is None:
            raise ValueError("a circle is closed by the shares of all its sites before it covers.")
        _checked(transcript, "a transcript")
        # Not ChaCha20, for which one site alone would need a package.
        key = _derive(self._group, b"tag", transcript)
        return _words_of(shake_128(key).digest(8 * (n_words + 1)))

    def cover(self, words: np.ndarray, transcript: bytes) -> np.ndarray:
        """Words (n + 1,) with their tag under this site's masks, once for a transcript."""
        words = arithmetic.check(words).ravel()
        key = self._tag_key(len(words), transcript)
        digest = sha256(words.tobytes()).digest()
        if self._covered.setdefault(transcript, digest) != digest:
            raise ValueError(
                f"site {self.name!r} has covered other words at this point: to send both would "
                "tell their difference."
            )
        tag = (arithmetic.dot(key[:-1], words) + int(key[-1])) % arithmetic.PRIME
        covered = np.append(words, np.uint64(tag))
        for other, mask in self._masks.items():
            stream = _keystream(_derive(mask, b"words", transcript), len(covered))
            turn = arithmetic.add if other > self.name else arithmetic.subtract
            covered = turn(covered, stream)
        return covered

    def verify(self, total: np.ndarray, transcript: bytes) -> np.ndarray:
        """Words (n,) of a sum over all sites, whose tag is right."""
        try:
            words = without_tag(arithmetic.check(total))
        except ValueError as error:
            raise TagError(f"the sum that came is none of words: {error}") from None
        key = self._tag_key(len(words), transcript)
        tag = arithmetic.dot(key[:-1], words) + len(self.names) * int(key[-1])
        if tag % arithmetic.PRIME != int(total[-1]):
            raise TagError(
                "the sum that came is not that of what the sites sent: a site is missing or at "
                "another point, or something was changed on its way."
            )
        return words


def _words_of(data):
    return arithmetic.from_bits(np.frombuffer(data, "<u8").astype(np.uint64))


def _keystream(key, n_words):
    """Words of ChaCha20 under a key that is used for nothing else."""
    crypto = _cryptography()
    cipher = crypto.Cipher(crypto.ChaCha20(key, bytes(16)), mode=None)
    return _words_of(cipher.encryptor().update(bytes(8 * n_words)))


def total_of(covered: list[np.ndarray]) -> np.ndarray:
    """Sum of what sites sent, which takes no key."""
    sizes = {arithmetic.check(words).shape for words in covered}
    if len(sizes) != 1:
        raise ValueError(f"the sum of words of one shape is made, got shapes {sorted(sizes)}.")
    return reduce(arithmetic.add, covered)


def without_tag(total: np.ndarray) -> np.ndarray:
    """Words (n,) of a sum, of which a coordinator cannot check the tag."""
    if total.ndim != 1 or not len(total):
        raise ValueError(f"a sum with its tag is a vector, got shape {total.shape}.")
    return total[:-1]
