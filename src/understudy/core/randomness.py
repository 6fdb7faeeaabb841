"""Keys: where randomness comes from, and whether it is secret.

The one rule: randomness is never hidden. Whatever draws takes a `key`, and a key knows whether the operating system
made it or a person did. Noise drawn from a seed that someone may know protects nobody, so mechanisms ask the key and
the receipt says it.
"""

import dataclasses
import hashlib
import numbers
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from jax import Array


@dataclasses.dataclass(frozen=True, repr=False)
class Key:
    """A node in a tree of independent random streams.

    Attributes:
        secret: True when the root came from the operating system's entropy.
    """

    sequence: np.random.SeedSequence
    secret: bool

    @classmethod
    def new(cls, seed: int | None = None) -> "Key":
        """A root key: from the operating system's entropy, or from a seed for tests and experiments."""
        given: object = seed
        if given is None:
            return cls(np.random.SeedSequence(None), True)
        if isinstance(given, bool) or not isinstance(given, numbers.Integral) or given < 0:
            raise ValueError(f"seed: expected a whole number >= 0 or None, got {seed!r}.")
        return cls(np.random.SeedSequence(int(given)), False)

    def child(self, label: str) -> "Key":
        """The stream that belongs to a label; other labels give independent streams."""
        digest = hashlib.blake2b(label.encode(), digest_size=16).digest()  # wide: no two labels may share a stream
        path = (*self.sequence.spawn_key, *np.frombuffer(digest, dtype="<u4").tolist())
        return Key(np.random.SeedSequence(self.sequence.entropy, spawn_key=path), self.secret)

    def numpy(self) -> np.random.Generator:
        """A generator at the start of this stream."""
        return np.random.Generator(np.random.SFC64(self.sequence))

    def words(self, n: int) -> NDArray[np.uint64]:
        """The first random 64-bit words of this stream, by SHAKE-256: to tell them from chance takes the key."""
        seed = f"{self.sequence.entropy} {self.sequence.spawn_key}".encode()
        return np.frombuffer(hashlib.shake_256(seed).digest(8 * n), dtype="<u8")

    def jax(self) -> "Array":
        """JAX's counter-based generator at the start of this stream; its state is 64 bits wide."""
        import jax

        low, high = self.sequence.generate_state(2, np.uint32).tolist()
        data = jax.device_put(np.array([high, low], dtype=np.uint32))  # pyright: ignore[reportUnknownMemberType]
        return cast("Array", jax.random.wrap_key_data(data, impl="threefry2x32"))

    def __repr__(self) -> str:
        return f"Key({'secret' if self.secret else 'seeded'})"
