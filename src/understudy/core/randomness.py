"""Keys: where chance comes from, and whether it may be called secret.

The one rule: randomness is never hidden. Whatever draws takes a `key`, and a key knows if the operating system made
it or a person did. Noise drawn from a seed that someone may know protects nobody, so hatches ask the key and the
receipt says it.
"""

import dataclasses
import hashlib
from typing import Any

import numpy as np


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
        if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0):
            raise ValueError(f"seed: expected a whole number >= 0 or None, got {seed!r}.")
        return cls(np.random.SeedSequence(None if seed is None else int(seed)), seed is None)

    def child(self, label: str) -> "Key":
        """The stream that belongs to a label; other labels give independent streams."""
        digest = hashlib.blake2b(label.encode(), digest_size=16).digest()  # wide: no two labels may share a stream
        path = (*self.sequence.spawn_key, *np.frombuffer(digest, dtype="<u4").tolist())
        return Key(np.random.SeedSequence(self.sequence.entropy, spawn_key=path), self.secret)

    def numpy(self) -> np.random.Generator:
        """A generator at the start of this stream."""
        return np.random.Generator(np.random.SFC64(self.sequence))

    def jax(self) -> Any:
        """JAX's counter-based generator at the start of this stream; its state is 64 bits wide."""
        import jax

        low, high = self.sequence.generate_state(2, np.uint32).tolist()
        data = np.array([high, low], dtype=np.uint32)
        return jax.random.wrap_key_data(jax.device_put(data), impl="threefry2x32")

    def __repr__(self) -> str:
        return f"Key({'secret' if self.secret else 'seeded'})"
