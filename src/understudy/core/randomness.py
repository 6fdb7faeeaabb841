"""Keys: where randomness comes from, and whether it is secret.

The one rule: randomness is never hidden. Whatever draws takes a `key`, and a key knows whether the operating system
made it or a person did. Noise drawn from a seed that someone may know protects nobody, so mechanisms ask the key and
the receipt says it.

Source: RFC 8439 for ChaCha20.
"""

import dataclasses
import hashlib
import numbers
import secrets
import struct
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from jax import Array

# ChaCha20 counts its blocks of 64 bytes in 32 bits.
MOST_WORDS = 2**32 * 8
# The path of a key that was made of another; a label is four words long, so no path of labels is equal to it.
SEALED = (0,)


@dataclasses.dataclass(frozen=True, repr=False)
class Key:
    """A node in a tree of independent random streams.

    Attributes:
        entropy: The root.
        path: The labels down to here, as words of 32 bits.
        secret: True when the root came from the operating system's entropy.
        public: Another root, for what `numpy` and `jax` draw, which is no secret: a checkpoint keeps it so that a fit
            that goes on draws the same again. None: the one root serves for all. `words` never come from it.
    """

    entropy: int
    path: tuple[int, ...]
    secret: bool
    public: int | None = None

    @classmethod
    def new(cls, seed: int | None = None) -> "Key":
        """A root key: 256 bits of the operating system's entropy, or a seed for tests and experiments."""
        given: object = seed
        if given is None:
            return cls(secrets.randbits(256), (), True)
        if isinstance(given, bool) or not isinstance(given, numbers.Integral) or given < 0:
            raise ValueError(f"seed: expected a whole number >= 0 or None, got {seed!r}.")
        return cls(int(given), (), False)

    def child(self, label: str) -> "Key":
        """The stream that belongs to a label; other labels give independent streams."""
        digest = hashlib.blake2b(label.encode(), digest_size=16).digest()  # wide: no two labels may share a stream
        return Key(self.entropy, (*self.path, *struct.unpack("<4I", digest)), self.secret, self.public)

    @property
    def sequence(self) -> np.random.SeedSequence:
        """What NumPy's and JAX's generators start from."""
        return np.random.SeedSequence(self.entropy if self.public is None else self.public, spawn_key=self.path)

    def numpy(self) -> np.random.Generator:
        """A generator at the start of this stream."""
        return np.random.Generator(np.random.SFC64(self.sequence))

    def words(self, n: int, *, start: int = 0) -> NDArray[np.uint64]:
        """Random 64-bit words of this stream, by ChaCha20: to tell them from chance takes the key.

        The cipher's 256-bit key is the SHAKE-256 digest of the root and the labels down to here. Its stream can be
        entered anywhere, so that whoever needs the words of some rows need not draw those of all rows before them.

        Args:
            start: The place of the first word in the stream.
        """
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms

        if start + n > MOST_WORDS:
            raise ValueError(f"words: expected at most {MOST_WORDS} of one stream, got {start + n}.")
        block, skipped = divmod(start, 8)
        nonce = block.to_bytes(4, "little") + bytes(12)
        cipher = Cipher(algorithms.ChaCha20(self._digest(), nonce), mode=None)
        stream = bytearray(8 * (skipped + n))
        cipher.encryptor().update_into(stream, stream)  # zeros become the key stream
        return np.frombuffer(stream, dtype="<u8")[skipped:]

    def sealed(self) -> "Key":
        """A key for this stream alone: nobody who holds it can find the root, or the streams of other labels."""
        if self.path == SEALED:
            return self
        return Key(int.from_bytes(self._digest(), "little"), SEALED, self.secret)

    def _digest(self) -> bytes:
        return hashlib.shake_256(f"{self.entropy} {self.path}".encode()).digest(32)

    def jax(self) -> "Array":
        """JAX's counter-based generator at the start of this stream; its state is 64 bits wide."""
        import jax

        low, high = self.sequence.generate_state(2, np.uint32).tolist()
        data = jax.device_put(np.array([high, low], dtype=np.uint32))  # pyright: ignore[reportUnknownMemberType]
        return cast("Array", jax.random.wrap_key_data(data, impl="threefry2x32"))

    def __repr__(self) -> str:
        return f"Key({'secret' if self.secret else 'seeded'})"
