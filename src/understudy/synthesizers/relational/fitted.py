"""One table of a fitted database. It holds no row."""

import dataclasses

from understudy.encoding.encoder import Encoder
from understudy.synthesizers.base import Fitted


@dataclasses.dataclass(frozen=True, eq=False)
class FittedTable:
    """One table of a fitted database: the encoder of its context and its own columns, and what draws their levels."""

    encoder: Encoder
    generator: Fitted
