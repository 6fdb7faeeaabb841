"""PrAda by likelihood: the sequential generator, one explicit density for each column, trained without a critic.

Columns are generated one after the other, each from a mixture of normals (or from states) about a linear prediction
from the earlier columns, bent by a small hidden layer. One noisy matrix of second moments gives the linear predictions
to start from, which is a Gaussian copula; DP-SGD on the log-likelihood then bends them. A group lasso on the first
layers takes away inputs that are not needed, and those with hardly any influence are cut in the end; what is left is a
Bayes network.

Sources: the PrAda-GAN paper for the sequential generator, the penalty and the parents; Bishop (1994), "Mixture density
networks"; Abadi et al. (2016), arXiv:1607.00133; Dwork et al. (2014), "Analyze Gauss", for noisy second moments.

Departures from the paper:
- Likelihood instead of a critic. A sequential generator has explicit conditional densities, so nothing adversarial is
  needed: one noisy gradient a step, and no second player (docs/design-notes.md has what that gave).
- A start from second moments, which are nearly free, where the paper starts from random weights.
- The likelihood of the schema's target counts more than that of other columns (`Prada.emphasis`), and if it comes last
  its score follows values as well as ranks (`encoding.ValueWeighting`).
- The penalty is taken by proximal steps in Adam's metric, which give exact zeros.
- After the training, pairs of categories that the generated rows have wrong are counted, and set straight
  (tables.py). The paper has nothing but numbers.
- Columns are standard normal scores and states from a bought encoding, where the paper standardises with exact moments
  of the private rows; and what is generated is set straight to have those distributions exactly.
- The sampling rate is public: the batch size over the schema's number of rows, and over `ROWS` where it gives none.
"""

import dataclasses
from collections.abc import Sequence

from understudy.core.randomness import Key
from understudy.encoding.encoder import Encoder
from understudy.privacy.accounting import PlannedMechanism
from understudy.privacy.ledger import Ledger
from understudy.privacy.rows import PrivateRows
from understudy.synthesizers.prada import tables
from understudy.synthesizers.prada.fitted import FittedDensity
from understudy.synthesizers.prada.settings import check_number, check_whole, sampling_rate
from understudy.tables.schema import Schema, SchemaError

STEPS_PER_ROUND = 25
"""Steps are whole rounds of so many: what chance decides is drawn for a round at a time."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Prada:
    """The sequential generator, trained by penalised likelihood.

    Attributes:
        steps: Private steps; a multiple of `STEPS_PER_ROUND`, or fewer.
        batch_size: Rows that a step draws, on average.
        clip_norm: What one row may add to a gradient (C).
        rate: Size of the steps at the start, up to a factor that follows from the noise (`likelihood_fits.rate_for`);
            it falls to zero.
        hidden: Width of each column's hidden layer; None for what the noise allows (`likelihood_fits.capacity`).
        components: Normals in the mixture of a number; None likewise.
        penalty: λ of the group lasso, in units of the length of a group's step under noise alone, where that noise is
            as large as the chance of the rows (`likelihood_fits.penalties`); 0 for none.
        emphasis: How much more the likelihood of the schema's target counts than that of another column.
        threshold: Of the nats that a column takes from earlier ones, the part that its weakest inputs may hold and be
            cut (`likelihood_fits.prune_parents`); 0 to cut nothing.
        average: The last share of the steps that the generator is the mean of; 0 for where it ended.
        encoding_share: Of the budget, for the distributions of the columns.
        moments_share: Of the budget, for the second moments.
        tables_share: Of the budget, for counts of pairs of categories after the training, where a schema has any
            (tables.py); 0 for none. The rest is for the steps.
        noise_multiplier: Noise of a step in units of clip_norm; None for what the budget allows.
        order: The order of generation: the names of all columns, or "schema" for the schema's, or, where that has none,
            for its columns with the target last.
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
    order: str | tuple[str, ...] = "schema"

    name = "prada"

    def __post_init__(self):
        if isinstance(self.order, list):
            object.__setattr__(self, "order", tuple(self.order))
        for field in ("steps", "batch_size"):
            check_whole(self, field)
        for field in ("hidden", "components"):
            if getattr(self, field) is not None:
                check_whole(self, field)
        for field, least in (("clip_norm", 1e-6), ("rate", 1e-12), ("penalty", 0.0), ("emphasis", 0.0)):
            check_number(self, field, least)
        for field in ("average", "encoding_share", "moments_share", "tables_share", "threshold"):
            check_number(self, field, 0.0)
        if self.noise_multiplier is not None:
            check_number(self, "noise_multiplier", 1e-12)
        for field in ("average", "threshold"):
            if getattr(self, field) > 1:
                raise ValueError(f"Prada.{field}: expected a number in [0, 1], got {getattr(self, field)!r}.")
        if self.steps > STEPS_PER_ROUND and self.steps % STEPS_PER_ROUND:
            raise ValueError(f"Prada.steps: expected a multiple of {STEPS_PER_ROUND}, got {self.steps}.")
        shares = self.encoding_share, self.moments_share
        if min(shares) < 0.01 or sum(shares) > 0.99:
            raise ValueError(
                f"Prada.encoding_share, moments_share: expected at least 0.01 each and at most 0.99 together, "
                f"got {shares}."
            )
        named = isinstance(self.order, tuple) and all(isinstance(name, str) for name in self.order)
        if not named and self.order != "schema":
            raise ValueError(f'Prada.order: expected "schema" or names of columns, got {self.order!r}.')

    def plan(self, schema: Schema) -> list[PlannedMechanism]:
        """Second moments to start from, the steps, and tables of categories."""
        if not isinstance(self.order, str) and sorted(self.order) != sorted(schema.names):
            raise SchemaError(f"order: expected every column once, got {', '.join(self.order)}.")
        counts = tables.plan(schema, self.tables_share)
        rest = 1.0 - self.encoding_share - self.moments_share - sum(item.share for item in counts)
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
                sampling_rate=sampling_rate(self, schema),
                noise_multiplier=self.noise_multiplier,
            ),
            *counts,
        ]

    def fit(self, rows: PrivateRows, encoder: Encoder, *, ledger: Ledger, key: Key) -> FittedDensity:
        """Trains the densities; what it buys is what `plan` lists.

        Privacy:
            Rows are read by `noisy_second_moments`, by `dpsgd.train`, and by `tables.bought`.
        """
        return self.fit_many([self], [rows], [encoder], ledgers=[ledger], keys=[key])[0]

    @classmethod
    def fit_many(
        cls,
        methods: Sequence["Prada"],
        rows: Sequence[PrivateRows],
        encoders: Sequence[Encoder],
        *,
        ledgers: Sequence[Ledger],
        keys: Sequence[Key],
    ) -> list[FittedDensity]:
        """Trains many at once: those of equal shape in one compiled program. Privacy: as of `fit`, each by itself."""
        from understudy.synthesizers.prada.likelihood_fits import fit_densities  # loads JAX

        return fit_densities(list(zip(methods, rows, encoders, ledgers, keys, strict=True)))
