"""DP-MERF: a generator fitted to one noisy mean embedding of the rows.

Rows become vectors of random features, one noisy sum of them is released, and everything after that is public: a
generator is fitted until its rows have the same mean vector. There is no min-max, no minibatch of private rows, and
no gradient that touches one.

Sources: Harder, Adamczewski, Park (2021), "DP-MERF: Differentially private mean embeddings with random features for
practical privacy-preserving synthetic data generation", arXiv:2002.11603; Rahimi and Recht (2007) for random features;
Yu et al. (2016), arXiv:1610.09072, for orthogonal ones; James and Stein (1961) for the shrinkage.

Departures:
- A frequency touches three columns, where the paper's touch all: a Gaussian kernel over many columns sees them only
  all together, and dependence drowns in noise.
- Products of two scores go into the same vector (a quadratic kernel beside the Fourier one): for correlations they need
  far less budget. Fakes are clipped as rows are, so clipping does not bias the fit.
- Columns enter as normal scores through released distribution functions, several bandwidths at once, and a category by
  a random phase, which is the paper's product with one-hot vectors. A target is a column like others, not a class.
- The sum is released and divided by the released number of rows: neighbours differ by a row that is there or not.
- Single columns are known already: the loss holds the generator to them, the released means are shrunk towards
  independent columns, and generated scores are read through the generator's own quantiles.
- Categories are summed over with their probabilities, where the paper takes a softmax for a one-hot vector.
- Two halves of the fakes estimate the squared distance without bias; and the Fourier features weigh more than the
  products in the loss, or the fit ends before it has come to them: on California at ε = 5, R² 0.69 instead of 0.66
  (one split, one seed).
- Adam starts at 0.005, not at 0.01: the start is the identity, not a random network. A step looks at a random half
  of the frequencies, for speed.
"""

import dataclasses
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from understudy.core.processors import one_thread_each
from understudy.core.randomness import Key
from understudy.core.settings import Constraints, Each, Number, Satisfies, Settings, Whole
from understudy.encoding.encoder import Encoder
from understudy.encoding.features import feature_rows, features
from understudy.encoding.scores import ScoreColumn, loading
from understudy.privacy.embedding import Embedding, noisy_embedding_sum
from understudy.privacy.ledger import Ledger
from understudy.privacy.plan import PlannedMechanism
from understudy.privacy.rows import PrivateRows
from understudy.synthesizers.merf import generator
from understudy.synthesizers.merf.embedding import draw_embedding, embedded_column, independent_features
from understudy.synthesizers.merf.fitted import FittedMERF
from understudy.tables.schema import Schema

Floats = NDArray[np.float64]

EVEN = Satisfies("an even number >= 2", lambda n: isinstance(n, int) and Whole(least=2).holds(n) and n % 2 == 0)


@dataclasses.dataclass(frozen=True, kw_only=True)
class MERF(Settings):
    """A generator fitted to one noisy mean embedding.

    Attributes:
        features: Random Fourier features, cosines and sines together; 2000 is the paper's.
        touching: How many columns a frequency touches; these in turn. Two see pairs only, which limits what can be
            predicted from the rows.
        scales: Kernel bandwidths, in deviations of a score; these in turn.
        moments: Part of the squared norm of the embedding that goes to products of two scores; the rest goes to the
            Fourier features.
        clip: Scores are scaled to at most this times their expected squared norm before products are taken.
        shrink: The released means are shrunk as if their noise had this times its deviation; 0 leaves them as they are.
        widths: Hidden layers of the generator.
        steps: Steps of Adam.
        rate: The size of its first step; decays to zero.
        fakes: Rows that are generated in each step.
        part: The part of the frequencies that a step looks at, drawn anew each time.
        emphasis: Weight of the Fourier features in the loss, beside that of the products.
        margins: Weight of the known single columns in the loss. They are calibrated afterwards in any case.
        encoding_share: Part of the budget for the margins; the rest goes to the embedding.
    """

    features: int = 2000
    touching: tuple[int, ...] = (3,)
    scales: tuple[float, ...] = (2.0, 1.0, 0.5)
    moments: float = 0.5
    clip: float = 1.0
    shrink: float = 1.0
    widths: tuple[int, ...] = (100, 100)
    steps: int = 1000
    rate: float = 0.005
    fakes: int = 500
    part: float = 0.5
    emphasis: float = 10.0
    margins: float = 1.0
    encoding_share: float = 0.5

    name: ClassVar[str] = "dp-merf"
    constraints: ClassVar[Constraints] = {
        "features": EVEN,
        "touching": Each(Whole(least=1)),
        "scales": Each(Number(above=0)),
        "moments": Number(least=0, below=1),
        "clip": Number(above=0),
        "shrink": Number(least=0),
        "widths": Each(Whole(least=1)),
        "steps": Whole(least=1),
        "rate": Number(above=0),
        "fakes": EVEN,
        "part": Number(above=0, most=1),
        "emphasis": Number(above=0),
        "margins": Number(least=0),
        "encoding_share": Number(least=0.01, most=0.99),
    }

    def plan(self, schema: Schema) -> list[PlannedMechanism]:
        return [PlannedMechanism(name="embedding", mechanism="discrete gaussian", share=1.0 - self.encoding_share)]

    def fit(self, rows: PrivateRows, encoder: Encoder, *, ledger: Ledger, key: Key) -> FittedMERF:
        """Measures the mean embedding, and fits the generator to it.

        Privacy:
            Rows are read once, by `noisy_embedding_sum`.
        """
        order = encoder.schema.generation_order
        embedding = self.embedding(encoder, key.child("frequencies"))
        wanted = features(encoder, order)
        sigma = ledger.noise("embedding") * rows.max_rows_per_unit
        total = noisy_embedding_sum(
            feature_rows(rows, encoder, wanted, key=key.child("signals")),
            [feature.name for feature in wanted],
            embedding,
            what="the mean embedding",
            planned="embedding",
            ledger=ledger,
            key=key.child("embedding"),
        )
        target = shrunk(total / encoder.rows, embedding, self.shrink * sigma / encoder.rows)
        columns = embedding.columns
        start = generator.initial(columns, self.widths, len(columns), key.child("generator").numpy())
        ledger.phase("fit the generator to the mean embedding")
        with one_thread_each():  # its products are small
            params = generator.fit(
                start,
                embedding,
                target,
                steps=self.steps,
                rate=self.rate,
                fakes=self.fakes,
                part=self.part,
                emphasis=self.emphasis,
                margins=self.margins,
                draw=key.child("fakes").numpy(),
                progress=ledger.step,
            )
        return FittedMERF.of(params, columns, encoder, key.child("calibration"))

    def embedding(self, encoder: Encoder, key: Key) -> Embedding:
        """The public description of the embedding."""
        order = encoder.schema.generation_order
        expected = sum(loading(encoder, ScoreColumn(name)) for name in order)
        return draw_embedding(
            [embedded_column(encoder, name) for name in order],
            self.features // 2,
            touching=self.touching,
            scales=self.scales,
            moments=self.moments,
            clip=self.clip * max(expected, 0.1),
            draw=key.numpy(),
        )


def shrunk(mean: Floats, embedding: Embedding, noise: float) -> Floats:
    """The released means, shrunk towards independence, set of columns by set of columns, by as much as they are noise.

    The k features of one set, less what they would be if the columns were independent, are multiplied by
    max(0, 1 - k s² / |r|²), s being the deviation of the noise: a vector no longer than noise alone would be is taken
    for noise (James and Stein).
    """
    count, fourier = len(embedding.touched), embedding.weights[0]
    independent = fourier * independent_features(embedding)
    reference = np.concatenate([independent.real, independent.imag])
    residual = mean[: 2 * count] - reference
    _, group = np.unique(np.sort(embedding.touched, axis=1), axis=0, return_inverse=True)
    group = np.tile(group.ravel(), 2)
    energy = np.bincount(group, residual**2)
    keep = np.maximum(0.0, 1.0 - np.bincount(group) * noise**2 / np.maximum(energy, 1e-300))
    return np.concatenate([reference + keep[group] * residual, mean[2 * count :]])
