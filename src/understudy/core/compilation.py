"""Compiled programs on disk: the next process starts faster, and nothing private is left in the cache folder.

The one rule: a compiled program tells the sizes of its arrays, so it is kept only if those sizes are public.
"""

# JAX leaves the type of its settings open.
# pyright: reportUnknownMemberType=false

import contextlib
import functools
from collections.abc import Generator

from understudy.core.files import cache_folder

SHORTEST = "jax_persistent_cache_min_compile_time_secs"
"""JAX's setting for the shortest compilation that it writes to disk."""


@functools.cache
def keep_compiled() -> None:
    """Keeps compiled programs in the cache folder, unless JAX was told where to keep them."""
    import jax

    if getattr(jax.config, "jax_compilation_cache_dir", None) is None:
        jax.config.update("jax_compilation_cache_dir", str(cache_folder() / "jax"))
        jax.config.update(SHORTEST, 0.05)


@contextlib.contextmanager
def kept_on_disk(public: bool) -> Generator[None, None, None]:
    """Keeps what is compiled in the cache folder, unless the sizes of its arrays are not public."""
    import jax

    if public:
        yield
        return
    before = getattr(jax.config, SHORTEST)
    jax.config.update(SHORTEST, 1e9)  # nothing takes that long to compile, so nothing is written
    try:
        yield
    finally:
        jax.config.update(SHORTEST, before)
