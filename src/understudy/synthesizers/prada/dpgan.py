"""DPGAN: one unstructured network from noise to whole rows, trained against the same private critic.

The comparison that shows what the sequential generator adds: same encoding, critic, clipping, noise and training.

Source: Xie et al. (2018), "Differentially private generative adversarial network", arXiv:1802.06739.

Departures:
- Clipping per row and Gaussian noise on the sum (DP-SGD), where Xie et al. clamp weights and noise the mean gradient.
- Columns are normal scores and states from a bought encoding, as for PrAda-GAN.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.core.randomness import Key
from understudy.encoding.encoder import Encoder, Levels
from understudy.privacy.accounting import PlannedMechanism
from understudy.privacy.ledger import Ledger
from understudy.privacy.rows import PrivateRows
from understudy.synthesizers.prada.fitted import layout_arrays, layout_from, params_from, to_levels
from understudy.synthesizers.prada.settings import check_training, check_whole, check_widths, critic_item
from understudy.tables.schema import Schema


@dataclasses.dataclass(frozen=True, kw_only=True)
class DPGAN:
    """An unstructured generator, trained adversarially.

    Attributes:
        widths: Hidden layers of the generator.
        noise: Numbers that a row is made of; None for one a feature.
        critic_steps, batch_size, fakes, generator_every, clip_norm, critic_rate, generator_rate, critic_widths,
            lipschitz, clamp, decay, average, noise_multiplier, encoding_share: As of PradaGAN.
    """

    widths: tuple[int, ...] = (64, 64)
    noise: int | None = None
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

    name = "dpgan"

    def __post_init__(self):
        check_training(self)
        check_widths(self, "widths")
        if self.noise is not None:
            check_whole(self, "noise")

    def plan(self, schema: Schema) -> list[PlannedMechanism]:
        """The steps of the critic."""
        return [critic_item(self, schema, "critic", 1.0 - self.encoding_share)]

    def fit(self, rows: PrivateRows, encoder: Encoder, *, ledger: Ledger, key: Key) -> "FittedDPGAN":
        """Trains the generator.

        Privacy:
            Rows are read by `dpsgd.train` alone.
        """
        return self.fit_many([self], [rows], [encoder], ledgers=[ledger], keys=[key])[0]

    @classmethod
    def fit_many(
        cls,
        methods: Sequence["DPGAN"],
        rows: Sequence[PrivateRows],
        encoders: Sequence[Encoder],
        *,
        ledgers: Sequence[Ledger],
        keys: Sequence[Key],
    ) -> list["FittedDPGAN"]:
        """Trains many at once. Privacy: as of `fit`, each by itself."""
        from understudy.synthesizers.prada.fits import fit_unstructured  # loads JAX

        return fit_unstructured(list(zip(methods, rows, encoders, ledgers, keys, strict=True)))


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class FittedDPGAN:
    """The trained generator."""

    layout: Any
    params: Mapping[str, NDArray]
    edges: Mapping[str, NDArray]

    def sample(self, n: int, *, key: Key) -> Levels:
        from understudy.synthesizers.prada import unstructured

        made = unstructured.sample(self.params, self.layout, key.jax(), n)
        return to_levels(made, self.layout, self.edges)

    def parents(self, schema: Schema) -> dict[str, list[str]]:
        """Every earlier column: all are made at once, from one noise."""
        order = schema.generation_order
        return {name: list(order[:i]) for i, name in enumerate(order)}

    def arrays(self) -> dict[str, NDArray]:
        return {
            **layout_arrays(self.layout, self.edges),
            **{f"params/{name}": np.asarray(value) for name, value in self.params.items()},
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray]) -> "FittedDPGAN":
        layout, edges = layout_from(arrays)
        params = params_from(arrays)
        return cls(layout=layout, params=params, edges=edges)
