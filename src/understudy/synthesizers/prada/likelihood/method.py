"""PrAda by likelihood: the sequential generator, one explicit density for each column, trained without a critic.

Columns are generated one after the other, each from a mixture of normals (or from categories) about a linear prediction
from the earlier columns, bent by a small hidden layer. One noisy matrix of second moments gives the linear predictions
to start from, which is a Gaussian copula; DP-SGD on the log-likelihood then bends them. A group lasso on the first
layers removes inputs that are not needed, and inputs with hardly any influence are cut in the end; what is left is a
Bayes network.

Sources: the PrAda-GAN paper for the sequential generator, the penalty and the parents; Bishop (1994), "Mixture density
networks"; Abadi et al. (2016), arXiv:1607.00133; Dwork et al. (2014), "Analyze Gauss", for noisy second moments.

Departures from the paper:
- Likelihood instead of a critic. A sequential generator has explicit conditional densities, so nothing adversarial is
  needed: one noisy gradient a step, and no second player (docs/design-notes.md has the comparison).
- The training starts from second moments, which cost next to nothing, not from random weights.
- The likelihood of the schema's target counts more than that of other columns (`emphasis`), and if the target comes
  last its score follows values as well as ranks (value weighting).
- The penalty is applied by proximal steps in Adam's metric, which give exact zeros.
- After the training, pairs of categories that the generated rows have wrong are counted, and the densities are
  calibrated to the counts (pair_counts.py). The paper treats numbers only.
- Columns are standard normal scores and categories from a private encoding, where the paper standardises with exact
  moments of the private rows; and the generated columns are calibrated to have those distributions exactly.
- The sampling rate is public: the batch size over the schema's number of rows, or over `ROWS` if it gives none.
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
from understudy.synthesizers.prada.likelihood import pair_counts
from understudy.synthesizers.prada.likelihood.fitted import FittedDensity
from understudy.synthesizers.prada.likelihood.settings import LikelihoodSettings
from understudy.synthesizers.prada.settings import require_all_columns, sampling_rate
from understudy.tables.schema import Schema


@dataclasses.dataclass(frozen=True, kw_only=True)
class Prada(LikelihoodSettings):
    """The sequential generator, trained by penalised likelihood. Its settings are those of `LikelihoodSettings`."""

    name: ClassVar[str] = "prada"

    def plan(self, schema: Schema) -> list[PlannedMechanism]:
        """Second moments to start from, the steps, and counts of pairs of categories."""
        require_all_columns(self.order, schema)
        counts = pair_counts.plan(schema, self.tables_share)
        rest = 1.0 - self.encoding_share - self.moments_share - sum(planned.share for planned in counts)
        if rest < 0.01 - 1e-9:
            raise ValueError(
                f"Prada.tables_share: expected 0.01 of the budget to be left for the steps, got {self.tables_share} "
                f"beside encoding_share {self.encoding_share} and moments_share {self.moments_share}."
            )
        return [
            PlannedMechanism(name="moments", mechanism="discrete gaussian", share=self.moments_share),
            PlannedMechanism(
                name="gradients",
                mechanism="sampled gaussian",
                share=rest,
                times=self.steps,
                sampling_rate=sampling_rate(self.batch_size, schema),
                noise_multiplier=self.noise_multiplier,
            ),
            *counts,
        ]

    def fit(self, rows: PrivateRows, encoder: Encoder, *, ledger: Ledger, key: Key) -> FittedDensity:
        """Trains the densities; it measures what `plan` lists.

        Privacy:
            Rows are read by `noisy_second_moments`, by `gradients.train`, and by the mechanisms of pair_counts.py.
        """
        return self.fit_many([FitRequest(method=self, rows=rows, encoder=encoder, ledger=ledger, key=key)])[0]

    @classmethod
    def fit_many(cls, requests: Sequence[FitRequest]) -> list[FittedDensity]:
        """Trains many at once: those of equal shape in one compiled program. Privacy: as of `fit`, each by itself."""
        from understudy.synthesizers.prada.likelihood.fit import fit_densities  # loads JAX

        return fit_densities(requests)
