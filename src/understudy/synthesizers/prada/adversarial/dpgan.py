"""DPGAN: one unstructured network from noise to whole rows, trained against the same private critic.

The comparison shows what the sequential generator adds: same encoding, critic, clipping, noise and training.

Source: Xie et al. (2018), "Differentially private generative adversarial network", arXiv:1802.06739.

Departures:
- Clipping per row and Gaussian noise on the sum (DP-SGD), where Xie et al. clamp weights and noise the mean gradient.
- Columns are normal scores and categories from a private encoding, as for PrAda-GAN.
"""

import dataclasses
from collections.abc import Sequence
from typing import ClassVar

from understudy.core.randomness import Key
from understudy.encoding.encoder import Encoder
from understudy.privacy.ledger import Ledger
from understudy.privacy.plan import PlannedMechanism
from understudy.privacy.rows import PrivateRows
from understudy.synthesizers.base import FitRequest
from understudy.synthesizers.prada.adversarial.fitted import FittedDPGAN
from understudy.synthesizers.prada.adversarial.settings import UnstructuredSettings
from understudy.tables.schema import Schema


@dataclasses.dataclass(frozen=True, kw_only=True)
class DPGAN(UnstructuredSettings):
    """An unstructured generator, trained adversarially. Its settings are those of `UnstructuredSettings`."""

    name: ClassVar[str] = "dpgan"

    def plan(self, schema: Schema) -> list[PlannedMechanism]:
        """The steps of the critic."""
        return [self.plan_critic(schema, "critic", 1.0 - self.encoding_share)]

    def fit(self, rows: PrivateRows, encoder: Encoder, *, ledger: Ledger, key: Key) -> FittedDPGAN:
        """Trains the generator.

        Privacy:
            Rows are read by `gradients.train` alone.
        """
        return self.fit_many([FitRequest(method=self, rows=rows, encoder=encoder, ledger=ledger, key=key)])[0]

    @classmethod
    def fit_many(cls, requests: Sequence[FitRequest]) -> list[FittedDPGAN]:
        """Trains many at once. Privacy: as of `fit`, each by itself."""
        from understudy.synthesizers.prada.adversarial.fit import fit_unstructured  # loads JAX

        return fit_unstructured(requests)
