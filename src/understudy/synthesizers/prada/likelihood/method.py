"""PrAda by likelihood: the sequential generator, one explicit density for each column, trained without a critic.

Columns are generated one after the other, each from a mixture of normals (or from categories) about a linear prediction
from its parents, bent by a small hidden layer. A fit has five parts:

1. One noisy matrix of second moments, of values as well as of ranks, and a graphical model of counted marginals (AIM).
   They share a privacy filter, by a rule that follows from the noise.
2. Rows drawn from the graphical model and from a normal copula with the measured moments, weighted so that they have
   the measured counts and moments (tilt.py). Everything from here to the private steps is post-processing.
3. Distillation: the densities learn those rows, without noise. They know then what the measurements know.
4. DP-SGD on the log-likelihood, in few steps: it adds what pairs of columns cannot say. The bias that clipping brings
   is taken out by a contrast with rows that the densities draw themselves (contrast.py). A group lasso shrinks inputs
   that are not needed. The margins are calibrated, and inputs that matter are called parents.
5. A correction: what of the measured counts and moments the densities still have wrong says which of the rows that they
   draw are kept (correction.py). It is part of the model, and of its density.

Sources: the PrAda-GAN paper for the sequential generator, the penalty and the parents; McKenna et al. (2022),
arXiv:2201.12677, for the marginals; Bishop (1994), "Mixture density networks"; Abadi et al. (2016), arXiv:1607.00133;
Dwork et al. (2014), "Analyze Gauss", for noisy second moments; Hansen (1982) for matching means of clipped slopes.

Departures from the paper:
- Likelihood instead of a critic. A sequential generator has explicit conditional densities, so nothing adversarial is
  needed: one noisy gradient a step, and no second player (docs/design-notes.md has the comparison).
- The training starts from a distilled graphical model, not from random weights.
- Clipped slopes are contrasted with those of drawn rows. Without that, steps take away what the start knows of rare
  values (docs/design-notes.md).
- The likelihood of the schema's target, and its pairs, count more than those of other columns (`emphasis`).
- A column reads at most `most_parents` earlier ones, chosen from the graphical model; the penalty prunes from there.
- The penalty is applied by proximal steps in Adam's metric, which give exact zeros.
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
from understudy.synthesizers import aim
from understudy.synthesizers.base import FitRequest, Simulation
from understudy.synthesizers.conditional.density import ConditionalDensity
from understudy.synthesizers.prada.likelihood.fitted import FittedDensity
from understudy.synthesizers.prada.likelihood.settings import LikelihoodSettings
from understudy.synthesizers.prada.settings import require_all_columns, sampling_rate
from understudy.tables.schema import Schema

FAMILY_POOL = 75 / 256
"""Families that children are learned from have this part of `pool_rows`: they are drawn a dozen times."""
FAMILY_ENCODING = 0.4
"""The distributions of the columns of children have this part of `encoding_share`: what a unit adds to their counts is
bounded, and columns are counted again, by themselves and in pairs."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Prada(LikelihoodSettings):
    """The sequential generator, trained by penalised likelihood. Its settings are those of `LikelihoodSettings`."""

    name: ClassVar[str] = "prada"

    def plan(self, schema: Schema) -> list[PlannedMechanism]:
        """One privacy filter for the graphical model and the second moments, and the steps; nothing for one column."""
        require_all_columns(self.order, schema)
        if len(schema) == 1:
            return []
        planned = [PlannedMechanism(name=aim.ROUNDS, mechanism="privacy filter", share=self.measured_share)]
        if self.steps:
            steps = PlannedMechanism(
                name="gradients",
                mechanism="sampled gaussian",
                share=1.0 - self.encoding_share - self.measured_share,
                times=self.steps,
                sampling_rate=sampling_rate(self.batch_size, schema),
                noise_multiplier=self.noise_multiplier,
            )
            planned.append(steps)
        return planned

    def fit(self, rows: PrivateRows, encoder: Encoder, *, ledger: Ledger, key: Key) -> FittedDensity:
        """Measures, distils and trains; it measures what `plan` lists.

        Privacy:
            Rows are read by `AIM.measure`, by `noisy_second_moments` and by `gradients.train`.
        """
        return self.fit_many([FitRequest(method=self, rows=rows, encoder=encoder, ledger=ledger, key=key)])[0]

    @property
    def family_encoding_share(self) -> float:
        """The share of the budget of a table of children for the distributions of its columns."""
        return FAMILY_ENCODING * self.encoding_share

    def plan_families(self, columns: int) -> list[PlannedMechanism]:
        """Of a table of children: second moments, and counts of pairs (synthesizers/conditional)."""
        from understudy.synthesizers.conditional.fit import plan_families

        return plan_families(columns, share=1.0 - self.family_encoding_share)

    def fit_families(
        self, rows: PrivateRows, encoder: Encoder, *, simulation: Simulation, ledger: Ledger, key: Key
    ) -> ConditionalDensity:
        """A table of children: conditional densities, which learn what `plan_families` lists.

        Privacy:
            As of `conditional.fit.fit_conditional`.
        """
        from understudy.synthesizers.conditional.fit import fit_conditional

        pool = round(FAMILY_POOL * self.pool_rows)
        return fit_conditional(rows, encoder, simulation=simulation, pool_rows=pool, ledger=ledger, key=key)

    @classmethod
    def fit_many(cls, requests: Sequence[FitRequest]) -> list[FittedDensity]:
        """Trains many at once: their steps run side by side. Privacy: as of `fit`, each by itself."""
        from understudy.synthesizers.prada.likelihood.fit import fit_densities

        return fit_densities(requests)
