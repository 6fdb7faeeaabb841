"""The settings of `prada`, and which order of generation they ask for. Nothing here is heavy."""

import dataclasses
from typing import ClassVar

from understudy.core.settings import Constraints, Flag, Number, Optional, Settings, Whole
from understudy.synthesizers.prada.settings import Order, order_or
from understudy.tables.schema import Schema

STEPS_PER_ROUND = 25
"""Steps are grouped into rounds of this many, because random draws are made for a round at a time."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class LikelihoodSettings(Settings):
    """How the densities are measured, distilled and trained. docs/design-notes.md says how defaults were chosen.

    Attributes:
        steps: Private steps; a multiple of `STEPS_PER_ROUND`, or fewer; 0 for none.
        batch_size: Rows that a step draws, on average.
        clip_norm: The most that one row may add to a gradient (C).
        rate: The size of the first private steps; later ones are shorter. It is small, so that steps add to what the
            start knows and take little away.
        hidden: Units of each column's hidden layer.
        components: Normals in the mixture of a number.
        most_parents: The most earlier columns that a column may read; those it shares most information with.
        penalty: λ of the group lasso, in units of the length of a group's step under noise alone, where that noise is
            as large as the sampling error of the rows (`schedule.penalties`); 0 for none.
        emphasis: How much more the likelihood of the schema's target counts than that of another column, and, if it is
            more than 1, the errors of pairs with the target when pairs are chosen to be counted.
        threshold: Of the nats that a column takes from earlier ones, the share that its weakest inputs may hold between
            them and be no parents (`parents.prune_parents`); 0 to call every input a parent.
        cut: Whether columns lose the inputs that are no parents. Else they go on reading them, for the little that they
            hold: cutting costs a few percent in most metrics.
        average: What the steps make is the mean over this last share of them; 0 for the last step alone.
        pool_rows: How many rows are drawn from public models to be learned; they cost nothing.
        distillation_steps: Steps on rows of the graphical model, before the private ones, twice as many for numbers;
            they cost nothing.
        distillation_rate: The size of the first of them.
        correction_rows: Rows that are drawn to find what is still wrong, and how many of the drawn rows are kept
            therefore (correction.py); 0 for no correction. They cost nothing.
        encoding_share: The share of the budget for the distributions of the columns.
        measured_share: The share of the budget for the second moments and the graphical model, which they divide by a
            rule (`moments.moments_part`). The rest is for the steps.
        noise_multiplier: The noise of a step in units of clip_norm; None for what the budget allows.
        order: The order of generation: the names of all columns, or "schema" for the schema's own order or, if it has
            none, its columns with the target last.
    """

    steps: int = 250
    batch_size: int = 800
    clip_norm: float = 0.5
    rate: float = 0.012
    hidden: int = 16
    components: int = 4
    most_parents: int = 12
    penalty: float = 0.1
    emphasis: float = 2.0
    threshold: float = 0.04
    cut: bool = False
    average: float = 0.5
    pool_rows: int = 40_960
    distillation_steps: int = 600
    distillation_rate: float = 0.03
    correction_rows: int = 131_072
    encoding_share: float = 0.35
    measured_share: float = 0.5
    noise_multiplier: float | None = None
    order: Order = "schema"

    constraints: ClassVar[Constraints] = {
        "steps": Whole(least=0),
        "batch_size": Whole(),
        "clip_norm": Number(least=1e-6),
        "rate": Number(least=1e-12),
        "hidden": Whole(),
        "components": Whole(),
        "most_parents": Whole(),
        "penalty": Number(least=0),
        "emphasis": Number(least=0),
        "threshold": Number(least=0, most=1),
        "cut": Flag(),
        "average": Number(least=0, most=1),
        "pool_rows": Whole(least=2),
        "distillation_steps": Whole(),
        "distillation_rate": Number(least=1e-12),
        "correction_rows": Whole(least=0),
        "encoding_share": Number(least=0.01, most=0.99),
        "measured_share": Number(least=0.01, most=0.99),
        "noise_multiplier": Optional(Number(least=1e-12)),
        "order": order_or("schema"),
    }

    def __post_init__(self):
        super().__post_init__()
        if self.steps > STEPS_PER_ROUND and self.steps % STEPS_PER_ROUND:
            raise ValueError(f"Prada.steps: expected a multiple of {STEPS_PER_ROUND}, got {self.steps}.")
        if self.encoding_share + self.measured_share > 0.99:
            raise ValueError(
                "Prada.encoding_share, measured_share: expected at most 0.99 together, "
                f"got {self.encoding_share:g} and {self.measured_share:g}."
            )

    def order_for(self, schema: Schema) -> tuple[str, ...]:
        """The order of generation: the one that is set, the schema's, or its columns with the target last.

        If it comes last, the target is drawn from a density that may read every other column.
        """
        if not isinstance(self.order, str):
            return self.order
        if schema.order or schema.target is None:
            return schema.generation_order
        return (*(name for name in schema.names if name != schema.target), schema.target)
