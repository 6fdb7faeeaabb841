"""Files at a fixed version of a public repository, as bytes.

The one rule: a file is itself or is refused. Its address names a commit, and its SHA-256 is known in advance.
"""

import dataclasses
import hashlib
import http.client
import io
import urllib.request
from pathlib import PurePosixPath

import polars as pl

from understudy.core.files import reason
from understudy.datasets.openml import TIMEOUT_SECONDS

HOST = "https://raw.githubusercontent.com/"
"""Where files of public repositories are."""


class PinnedError(RuntimeError):
    """A file cannot be had. The message is the reason alone."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class PinnedFile:
    """Where a file is, and what it holds.

    Attributes:
        repository: Owner and name.
        commit: The version, in full.
        path: Its place in the repository. The ending says whether it is CSV or Parquet.
        sha256: The checksum of its bytes.
        missing: How its CSV spells a missing value.
    """

    repository: str
    commit: str
    path: str
    sha256: str
    missing: str | None = None

    @property
    def ending(self) -> str:
        return PurePosixPath(self.path).suffix

    def __str__(self) -> str:
        return f"{self.path} of {self.repository} at {self.commit[:7]}"

    def fetch(self) -> bytes:
        """The file from its repository.

        Raises:
            PinnedError: It cannot be had.
        """
        try:
            url = f"{HOST}{self.repository}/{self.commit}/{self.path}"
            with urllib.request.urlopen(url, timeout=TIMEOUT_SECONDS) as answer:
                return answer.read()
        except OSError as error:
            inner = getattr(error, "reason", None)
            raise PinnedError(reason(inner if isinstance(inner, Exception) else error)) from None
        except http.client.HTTPException:
            raise PinnedError("its answer makes no sense") from None

    def holds(self, content: bytes) -> bool:
        return hashlib.sha256(content).hexdigest() == self.sha256

    def parse(self, content: bytes) -> pl.DataFrame:
        """Its cells as text, null for a missing value."""
        if self.ending == ".parquet":
            return pl.read_parquet(io.BytesIO(content)).select(pl.all().cast(pl.String))
        return pl.read_csv(content, infer_schema=False, null_values=self.missing)
