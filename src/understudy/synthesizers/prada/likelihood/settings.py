"""The settings of `prada`, and which order of generation they ask for. Nothing here is heavy."""

import dataclasses
from typing import ClassVar

from understudy.core.settings import Constraints, Number, Optional, Settings, Whole
from understudy.synthesizers.prada.settings import Order, order_or
from understudy.tables.schema import Schema

STEPS_PER_ROUND = 25
"""Steps are grouped into rounds of this many, because random draws are made for a round at a time."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class LikelihoodSettings(Settings):
    """How the densities are trained.

    Attributes:
        steps: Private steps; a multiple of `STEPS_PER_ROUND`, or fewer.
        batch_size: Rows that a step draws, on average.
        clip_norm: The most that one row may add to a gradient (C).
        rate: The size of the steps, for the usual amount of noise (`schedule.rate_for`).
        hidden: Units of each column's hidden layer; None for what the noise allows (`schedule.capacity`).
        components: Normals in the mixture of a number; None for what the noise allows.
        penalty: λ of the group lasso, in units of the length of a group's step under noise alone, where that noise is
            as large as the sampling error of the rows (`schedule.penalties`); 0 for none.
        emphasis: How much more the likelihood of the schema's target counts than that of another column.
        threshold: Of the nats that a column takes from earlier ones, the share that its weakest inputs may hold and be
            cut (`parents.prune_parents`); 0 to cut nothing.
        average: The generator is the mean over this last share of the steps; 0 for the last step alone.
        encoding_share: The share of the budget for the distributions of the columns.
        moments_share: The share of the budget for the second moments.
        tables_share: The share of the budget for counts of pairs of categories after the training, if the schema has
            any (pair_counts.py); 0 for none. The rest is for the steps.
        noise_multiplier: The noise of a step in units of clip_norm; None for what the budget allows.
        order: The order of generation: the names of all columns, or "schema" for the schema's own order or, if it has
            none, its columns with the target last.
    """

    steps: int = 2000
    batch_size: int = 800
    clip_norm: float = 0.5
    rate: float = 0.016
    hidden: int | None = None
    components: int | None = None
    penalty: float = 0.1
    emphasis: float = 8.0
    threshold: float = 0.05
    average: float = 0.5
    encoding_share: float = 0.35
    moments_share: float = 0.12
    tables_share: float = 0.1
    noise_multiplier: float | None = None
    order: Order = "schema"

    constraints: ClassVar[Constraints] = {
        "steps": Whole(),
        "batch_size": Whole(),
        "clip_norm": Number(least=1e-6),
        "rate": Number(least=1e-12),
        "hidden": Optional(Whole()),
        "components": Optional(Whole()),
        "penalty": Number(least=0),
        "emphasis": Number(least=0),
        "threshold": Number(least=0, most=1),
        "average": Number(least=0, most=1),
        "encoding_share": Number(least=0.01, most=0.99),
        "moments_share": Number(least=0.01, most=0.99),
        "tables_share": Number(least=0),
        "noise_multiplier": Optional(Number(least=1e-12)),
        "order": order_or("schema"),
    }

    def __post_init__(self):
        super().__post_init__()
        if self.steps > STEPS_PER_ROUND and self.steps % STEPS_PER_ROUND:
            raise ValueError(f"Prada.steps: expected a multiple of {STEPS_PER_ROUND}, got {self.steps}.")
        if self.encoding_share + self.moments_share > 0.99:
            raise ValueError(
                "Prada.encoding_share, moments_share: expected at most 0.99 together, "
                f"got {self.encoding_share:g} and {self.moments_share:g}."
            )

    def order_for(self, schema: Schema) -> tuple[str, ...]:
        """The order of generation: the one that is set, the schema's, or its columns with the target last.

        If it comes last, the target is drawn from a density that sees every other column and counts `emphasis` times.
        """
        if not isinstance(self.order, str):
            return self.order
        if schema.order or schema.target is None:
            return schema.generation_order
        return (*(name for name in schema.names if name != schema.target), schema.target)
