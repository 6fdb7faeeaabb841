"""PrAda-GAN: a sequential generator trained against a private critic, which learns each column's parents on the way.

Columns are generated one after the other, each by a small network that sees the earlier ones. A critic that meets the
real rows under DP-SGD tells the generators where they are wrong. A group lasso on the generators' first layers removes
the inputs that are not needed; what is left is a Bayes network.

Source: the PrAda-GAN paper: Algorithm 1, its two-step version in the appendix, and the appendix on hyper-parameters.

Departures (those of the networks, the penalty and the training are in their modules):
- Columns are standard normal scores and categories from a private encoding, where the paper standardises with exact
  moments of the private rows. `standardised=True` takes columns that came standardised, and the receipt says what that
  means.
- The sampling rate is public: the batch size over the schema's number of rows, or over `ROWS` if it gives none. The
  noise is then calibrated before any row is read. The paper divides by the true number of rows.
- The sum over a batch is divided by its expected size, as is usual; the paper does not say.
- With `finish="clip"`, the default, inputs below the threshold are cut when training is over, so that `parents` is what
  the generator uses and nothing else. The paper proves that this costs nothing, and leaves it out of its experiments.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from understudy.core.randomness import Key
from understudy.encoding.encoder import Encoder, check_pass_through
from understudy.privacy.ledger import Ledger
from understudy.privacy.plan import PlannedMechanism
from understudy.privacy.rows import PrivateRows
from understudy.synthesizers.base import FitRequest
from understudy.synthesizers.prada.adversarial.fitted import FittedPrada
from understudy.synthesizers.prada.adversarial.settings import SequentialSettings
from understudy.synthesizers.prada.settings import require_all_columns
from understudy.tables.schema import Schema

ORDER_SHARE = 0.1
"""A private order costs this share of the budget that is not the encoding's."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class PradaGAN(SequentialSettings):
    """The sequential generator, trained adversarially. Its settings are those of `SequentialSettings`."""

    name: ClassVar[str] = "prada-gan"

    @classmethod
    def paper(cls, table: str, epsilon: float, **changes: Any) -> "PradaGAN":
        """The published configuration for one of the paper's tables, on columns standardised beforehand.

        What the paper does not say (optimiser, Lipschitz constraint, initial weights) is as in `PAPER`.

        Args:
            table: "california", "house_16h" or "cpu_act".
            epsilon: 0.2, 1 or 5; it sets the published noise and number of steps.
            changes: Settings that are to differ.
        """
        if (table, epsilon) not in PAPER_STEPS:
            known = ", ".join(f"{name} at {value:g}" for name, value in PAPER_STEPS)
            raise ValueError(f"PradaGAN.paper: expected one of {known}; got {table} at {epsilon:g}.")
        noise, steps = PAPER_STEPS[table, epsilon]
        growth = 0.2 if table == "cpu_act" else 0.0
        settings = {**PAPER, "critic_steps": steps, "noise_multiplier": noise, "penalty_growth": growth}
        return cls(**{**settings, **changes})

    def plan(self, schema: Schema) -> list[PlannedMechanism]:
        """The steps of the critic, in one training or two, and perhaps an order."""
        if self.standardised:
            check_pass_through(schema)
        require_all_columns(self.order, schema)
        share = 1.0 - self.encoding_share
        order = []
        if self.order == "private":
            order.append(PlannedMechanism(name="order", mechanism="discrete gaussian", share=ORDER_SHARE * share))
            share *= 1.0 - ORDER_SHARE
        names = ("critic", "critic again") if self.finish == "two-step" else ("critic",)
        return [*order, *(self.plan_critic(schema, name, share / len(names)) for name in names)]

    def fit(self, rows: PrivateRows, encoder: Encoder, *, ledger: Ledger, key: Key) -> FittedPrada:
        """Trains the generator; it measures what `plan` lists.

        Privacy:
            Rows are read by `gradients.train` and, for a private order, by `noisy_second_moments`.
        """
        return self.fit_many([FitRequest(method=self, rows=rows, encoder=encoder, ledger=ledger, key=key)])[0]

    @classmethod
    def fit_many(cls, requests: Sequence[FitRequest]) -> list[FittedPrada]:
        """Trains many at once: those of equal shape in one compiled program. Privacy: as of `fit`, each by itself."""
        from understudy.synthesizers.prada.adversarial.fit import fit_sequential  # loads JAX

        return fit_sequential(requests)


PAPER: Mapping[str, object] = {
    "critic_rate": 0.01,
    "generator_rate": 0.001,
    "penalty": 0.003,
    "generator_every": 10,
    "batch_size": 50,
    "clip_norm": 1.0,
    "hidden": 10,
    "critic_widths": None,
    "proximal": False,
    "bounded": False,
    "finish": "none",
    "standardised": True,
    # What the paper leaves open, chosen on splits 0 to 4 of its tables (docs/design-notes.md).
    "slope": 0.01,
    "optimiser": "adam",
    "lipschitz": "clamp",
    "clamp": 0.5,
    "fakes": 400,
    "decay": False,
    "average": 0.5,
}
"""The settings that the paper gives for all its tables, and our choice of those that it does not give."""
PAPER_STEPS = {
    ("california", 0.2): (10.0, 8000),
    ("california", 1.0): (2.0, 7000),
    ("california", 5.0): (0.8, 8000),
    ("house_16h", 0.2): (7.9, 6000),
    ("house_16h", 1.0): (2.0, 9000),
    ("house_16h", 5.0): (0.77, 8000),
    ("cpu_act", 0.2): (13.0, 4000),
    ("cpu_act", 1.0): (4.0, 7000),
    ("cpu_act", 5.0): (1.2, 8000),
}
"""The published noise multipliers and critic steps, by table and epsilon."""
