"""The settings of adversarial training, and those of each generator. Nothing here is heavy."""

import dataclasses
from typing import ClassVar

from understudy.core.settings import Constraints, Each, Flag, Number, OneOf, Optional, Satisfies, Settings, Whole
from understudy.privacy.plan import PlannedMechanism
from understudy.synthesizers.prada.settings import Order, order_or, sampling_rate
from understudy.tables.schema import Schema


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainingSettings(Settings):
    """How a generator and its critic are trained.

    Attributes:
        critic_steps: Private steps of the critic.
        batch_size: Rows that a step draws, on average.
        fakes: Generated rows that a step sees; None for `batch_size`. They cost time and no budget.
        generator_every: Critic steps to one of the generator (t_g).
        clip_norm: The most that one row may add to a gradient (C).
        critic_rate, generator_rate: The sizes of the steps.
        critic_widths: Hidden layers of the critic; None for the paper's, the number of inputs and half of it, which
            loses parents: F1 0.7 where (64, 32) reaches 0.9 (docs/design-notes.md).
        lipschitz: What keeps the critic from being steep: "penalty", one-sided and on points made of fakes and noise;
            or "clamp", which holds every weight within `clamp`.
        clamp: The largest weight under "clamp".
        decay: Whether the rates fall to a tenth.
        average: The generator is the mean over this last share of the training; 0 for the last step alone.
        noise_multiplier: The noise of a step in units of clip_norm; None for what the budget allows.
        encoding_share: The share of the budget for the distributions of the columns.
    """

    critic_steps: int = 6000
    batch_size: int = 200
    fakes: int | None = None
    generator_every: int = 5
    clip_norm: float = 1.0
    critic_rate: float = 0.002
    generator_rate: float = 0.002
    critic_widths: tuple[int, ...] | None = None
    lipschitz: str = "penalty"
    clamp: float = 0.1
    decay: bool = True
    average: float = 0.5
    noise_multiplier: float | None = None
    encoding_share: float = 0.3

    constraints: ClassVar[Constraints] = {
        "critic_steps": Whole(),
        "batch_size": Whole(),
        "fakes": Optional(Whole()),
        "generator_every": Whole(),
        "clip_norm": Number(above=0),
        "critic_rate": Number(above=0),
        "generator_rate": Number(above=0),
        "critic_widths": Optional(Each(Whole())),
        "lipschitz": OneOf("penalty", "clamp"),
        "clamp": Number(above=0),
        "decay": Flag(),
        "average": Number(least=0, most=1),
        "noise_multiplier": Optional(Number(above=0)),
        "encoding_share": Number(least=1e-6, below=1),
    }

    def __post_init__(self):
        super().__post_init__()
        if self.critic_steps % self.generator_every:
            raise ValueError(
                f"{type(self).__name__}.critic_steps: expected a multiple of generator_every = "
                f"{self.generator_every}, got {self.critic_steps}."
            )

    def plan_critic(self, schema: Schema, name: str, share: float) -> PlannedMechanism:
        """The private steps of one training."""
        return PlannedMechanism(
            name=name,
            mechanism="sampled gaussian",
            share=share,
            times=self.critic_steps,
            sampling_rate=sampling_rate(self.batch_size, schema),
            noise_multiplier=self.noise_multiplier,
        )


def _is_penalty(value: object) -> bool:
    return value == "theory" if isinstance(value, str) else Number(least=0).holds(value)


@dataclasses.dataclass(frozen=True, kw_only=True)
class SequentialSettings(TrainingSettings):
    """How the sequential generator is trained, beside `TrainingSettings`.

    Attributes:
        penalty: λ of the group lasso, or "theory" for the rule λ = ψ^{1/2} / d of the paper's theorems, with the
            (noisy) number of rows and columns as its inputs and no further errors.
        penalty_growth: γ in λ_j = λ · j^γ.
        threshold: τ: a parent is an earlier column whose weights have a larger norm.
        finish: "clip" cuts inputs below the threshold when training is over; "none" leaves them; "two-step" cuts them
            and trains again without a penalty, with half of the steps' budget for each training.
        hidden: Width of each column's network.
        slope: Of the LeakyReLUs below zero, in the generator and the critic.
        bounded: Whether what comes after a column's first layer is held to norm 1, so that norms of inputs mean the
            same in every fit. Without, parents are told apart less well (docs/design-notes.md).
        optimiser: "adam" or "sgd", for both networks.
        proximal: Whether the penalty is applied by proximal steps, which give exact zeros, or by its gradient, as in
            the paper.
        order: The order of generation: "schema", "private" to measure one, or the names of all columns.
        standardised: Take the columns as they are, standardised beforehand, without an encoding. The receipt says in
            capitals that the standardisation was not private.
    """

    critic_widths: tuple[int, ...] | None = (64, 32)
    penalty: float | str = 0.025
    penalty_growth: float = 0.0
    threshold: float = 0.05
    finish: str = "clip"
    hidden: int = 10
    slope: float = 0.2
    bounded: bool = True
    optimiser: str = "adam"
    proximal: bool = True
    order: Order = "schema"
    standardised: bool = False

    constraints: ClassVar[Constraints] = {
        **TrainingSettings.constraints,
        "encoding_share": Number(least=0, below=1),
        "penalty": Satisfies('a finite number >= 0, or "theory"', _is_penalty),
        "penalty_growth": Number(),
        "threshold": Number(least=0),
        "finish": OneOf("clip", "none", "two-step"),
        "hidden": Whole(),
        "slope": Number(least=0),
        "bounded": Flag(),
        "optimiser": OneOf("adam", "sgd"),
        "proximal": Flag(),
        "order": order_or("schema", "private"),
        "standardised": Flag(),
    }

    def __post_init__(self):
        super().__post_init__()
        if self.standardised:
            object.__setattr__(self, "encoding_share", 0.0)
        elif self.encoding_share < 1e-6:
            raise ValueError(
                f"{type(self).__name__}.encoding_share: expected a finite number >= 1e-06 and < 1 unless the columns "
                f"are standardised, got {self.encoding_share:g}."
            )


@dataclasses.dataclass(frozen=True, kw_only=True)
class UnstructuredSettings(TrainingSettings):
    """How the unstructured generator is trained, beside `TrainingSettings`.

    Attributes:
        widths: Hidden layers of the generator.
        noise: Numbers that a row is made of; None for one a feature.
    """

    widths: tuple[int, ...] = (64, 64)
    noise: int | None = None

    constraints: ClassVar[Constraints] = {
        **TrainingSettings.constraints,
        "widths": Each(Whole()),
        "noise": Optional(Whole()),
    }
