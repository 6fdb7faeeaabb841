"""PrAda-GAN: a sequential generator trained against a private critic, which learns each column's parents on the way.

Columns are generated one after the other, each by a small network that sees the earlier ones. A critic that meets the
real rows under DP-SGD tells the generators where they are wrong. A group lasso on the generators' first layers takes
away the inputs that are not needed; what is left is a Bayes network.

Source: the PrAda-GAN paper: Algorithm 1, its two-step version in the appendix, and the appendix on hyper-parameters.

Departures (those of the networks, the penalty and the training are in their modules):
- Columns are standard normal scores and states from a bought encoding, where the paper standardises with exact moments
  of the private rows. `standardised=True` takes columns that came standardised, and the receipt says what that means.
- The sampling rate is public: the batch size over the schema's number of rows, and over `ROWS` where it gives none. The
  noise is then calibrated before anything is read. The paper divides by the true number of rows.
- The sum over a batch is divided by its expected size, as is usual; the paper does not say.
- With `finish="clip"`, the default, inputs below the threshold are cut when training is over, so that `parents` is what
  the generator uses and nothing else. The paper proves that this costs nothing, and leaves it out of its experiments.
"""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

from understudy.core.randomness import Key
from understudy.encoding.encoder import Encoder, check_pass_through
from understudy.privacy.accounting import PlannedMechanism
from understudy.privacy.ledger import Ledger
from understudy.privacy.rows import PrivateRows
from understudy.synthesizers.prada.fitted import FittedPrada
from understudy.synthesizers.prada.settings import (
    check_choice,
    check_flag,
    check_number,
    check_training,
    check_whole,
    critic_item,
)
from understudy.tables.schema import Schema, SchemaError

ORDER_SHARE = 0.1
"""Of the budget that is not the encoding's, what a private order costs."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class PradaGAN:
    """The sequential generator, trained adversarially.

    Attributes:
        critic_steps: Private steps of the critic.
        batch_size: Rows that a step draws, on average.
        fakes: Generated rows that a step sees; None for `batch_size`. They cost time and no budget.
        generator_every: Critic steps to one of the generator (t_g).
        clip_norm: What one row may add to a gradient (C).
        critic_rate, generator_rate: Sizes of the steps.
        penalty: λ of the group lasso, or "theory" for the rule λ = ψ^{1/2} / d of the paper's theorems, with the
            (noisy) number of rows and columns as its inputs and no further errors.
        penalty_growth: γ in λ_j = λ · j^γ.
        threshold: τ: a parent is an earlier column whose weights have a larger norm.
        finish: "clip" cuts inputs below the threshold when training is over; "none" leaves them; "two-step" cuts them
            and trains anew without a penalty, with half of the steps' budget for each training.
        hidden: Width of each column's network.
        slope: Of the LeakyReLUs below zero, in the generator and the critic.
        bounded: Whether what comes after a column's first layer is held to norm 1, so that norms of inputs mean the
            same in every fit. Without, parents are told apart less well (docs/design-notes.md).
        critic_widths: Hidden layers of the critic; None for the paper's, the number of inputs and half of it, which
            loses parents: F1 0.7 where (64, 32) reaches 0.9 (docs/design-notes.md).
        lipschitz: What keeps the critic from being steep: "penalty", one-sided and on points made of fakes and
            noise; or "clamp", which holds every weight within `clamp`.
        clamp: The largest weight under "clamp".
        optimiser: "adam" or "sgd", for both networks.
        proximal: Whether the penalty is taken by proximal steps, which give exact zeros, or by its gradient, as in the
            paper.
        decay: Whether the rates fall to a tenth.
        average: The last share of the training that the generator is the mean of; 0 for where it ended.
        noise_multiplier: Noise of a step in units of clip_norm; None for what the budget allows.
        encoding_share: Of the budget, for the distributions of the columns.
        order: The order of generation: "schema", "private" to buy one, or the names of all columns.
        standardised: Take the columns as they are, standardised beforehand, and buy no encoding. The receipt says in
            capitals that the standardisation was not private.
    """

    critic_steps: int = 6000
    batch_size: int = 200
    fakes: int | None = None
    generator_every: int = 5
    clip_norm: float = 1.0
    critic_rate: float = 0.002
    generator_rate: float = 0.002
    penalty: float | str = 0.025
    penalty_growth: float = 0.0
    threshold: float = 0.05
    finish: str = "clip"
    hidden: int = 10
    slope: float = 0.2
    bounded: bool = True
    critic_widths: tuple[int, ...] | None = (64, 32)
    lipschitz: str = "penalty"
    clamp: float = 0.1
    optimiser: str = "adam"
    proximal: bool = True
    decay: bool = True
    average: float = 0.5
    noise_multiplier: float | None = None
    encoding_share: float = 0.3
    order: str | tuple[str, ...] = "schema"
    standardised: bool = False

    name = "prada-gan"

    def __post_init__(self):
        if isinstance(self.order, list):
            object.__setattr__(self, "order", tuple(self.order))
        for field in ("proximal", "standardised", "bounded"):
            check_flag(self, field)
        check_training(self)
        check_whole(self, "hidden")
        if self.standardised:
            object.__setattr__(self, "encoding_share", 0.0)
        for field, least in (("penalty_growth", -math.inf), ("threshold", 0.0), ("slope", 0.0)):
            check_number(self, field, least)
        if self.penalty != "theory":
            check_number(self, "penalty", 0.0)
        check_choice(self, "finish", ("clip", "none", "two-step"))
        check_choice(self, "optimiser", ("adam", "sgd"))
        if not (isinstance(self.order, tuple) and all(isinstance(name, str) for name in self.order)):
            check_choice(self, "order", ("schema", "private"))

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
        if not isinstance(self.order, str) and sorted(self.order) != sorted(schema.names):
            raise SchemaError(f"order: expected every column once, got {', '.join(self.order)}.")
        share = 1.0 - self.encoding_share
        items = []
        if self.order == "private":
            items.append(PlannedMechanism(name="order", mechanism="discrete gaussian", share=ORDER_SHARE * share))
            share *= 1.0 - ORDER_SHARE
        names = ("critic", "critic again") if self.finish == "two-step" else ("critic",)
        return [*items, *(critic_item(self, schema, name, share / len(names)) for name in names)]

    def fit(self, rows: PrivateRows, encoder: Encoder, *, ledger: Ledger, key: Key) -> "FittedPrada":
        """Trains the generator; what it buys is what `plan` lists.

        Privacy:
            Rows are read by `dpsgd.train` and, for a private order, by `noisy_second_moments`.
        """
        return self.fit_many([self], [rows], [encoder], ledgers=[ledger], keys=[key])[0]

    @classmethod
    def fit_many(
        cls,
        methods: Sequence["PradaGAN"],
        rows: Sequence[PrivateRows],
        encoders: Sequence[Encoder],
        *,
        ledgers: Sequence[Ledger],
        keys: Sequence[Key],
    ) -> list["FittedPrada"]:
        """Trains many at once: those of equal shape in one compiled program. Privacy: as of `fit`, each by itself."""
        from understudy.synthesizers.prada.fits import fit_sequential  # loads JAX

        return fit_sequential(list(zip(methods, rows, encoders, ledgers, keys, strict=True)))


PAPER: dict[str, Any] = {
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
"""What the paper gives for all its tables, and what it does not say."""
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
"""Published noise multipliers and critic steps."""
