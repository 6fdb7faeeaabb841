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


@dataclasses.dataclass(frozen=True, repr=False)
class Key:
    """A node in a tree of independent random streams.

    Attributes:
        entropy: The root.
        path: The labels down to here, as words of 32 bits.
        secret: True when the root came from the operating system's entropy.
    """

    entropy: int
    path: tuple[int, ...]
    secret: bool

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
        return Key(self.entropy, (*self.path, *struct.unpack("<4I", digest)), self.secret)

    @property
    def sequence(self) -> np.random.SeedSequence:
        """What NumPy's and JAX's generators start from."""
        return np.random.SeedSequence(self.entropy, spawn_key=self.path)

    def numpy(self) -> np.random.Generator:
        """A generator at the start of this stream."""
        return np.random.Generator(np.random.SFC64(self.sequence))

    def words(self, n: int) -> NDArray[np.uint64]:
        """The first random 64-bit words of this stream, by ChaCha20: to tell them from chance takes the key.

        The cipher's 256-bit key is the SHAKE-256 digest of the root and the labels down to here.
        """
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms

        if n > MOST_WORDS:
            raise ValueError(f"words: expected at most {MOST_WORDS} of one stream, got {n}.")
        path = f"{self.entropy} {self.path}".encode()
        cipher = Cipher(algorithms.ChaCha20(hashlib.shake_256(path).digest(32), bytes(16)), mode=None)
        stream = bytearray(8 * n)
        cipher.encryptor().update_into(stream, stream)  # zeros become the key stream
        return np.frombuffer(stream, dtype="<u8")

    def jax(self) -> "Array":
        """JAX's counter-based generator at the start of this stream; its state is 64 bits wide."""
        import jax

        low, high = self.sequence.generate_state(2, np.uint32).tolist()
        data = jax.device_put(np.array([high, low], dtype=np.uint32))  # pyright: ignore[reportUnknownMemberType]
        return cast("Array", jax.random.wrap_key_data(data, impl="threefry2x32"))

    def __repr__(self) -> str:
        return f"Key({'secret' if self.secret else 'seeded'})"
