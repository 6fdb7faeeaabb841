"""The workshop: one bench per method. Each sees the rows through hatches alone and leaves a recipe.

A method is a frozen dataclass of public hyper-parameters with

- `name`, and `encoding_share`: how much of the budget the encoder gets;
- `plan(schema) -> list[PlannedMechanism]`: what else it will buy;
- `fit(rows, encoder, *, ledger, key) -> Recipe`.

A recipe holds arrays and public facts:

- `sample(n, *, key) -> Levels`: a level in [0, 1] per row and column, NaN for a missing value;
- `parents(schema) -> {column: [columns it was made from]}`;
- `arrays() -> {name: array}` and `from_arrays(arrays)`, what a saved model keeps of it.
"""

from understudy.synthesizers.aim import AIM, FittedAIM
from understudy.synthesizers.copula import Copula, FittedCopula
from understudy.synthesizers.gem.fitted import FittedGEM
from understudy.synthesizers.gem.method import GEM
from understudy.synthesizers.independent import FittedIndependent, Independent
from understudy.synthesizers.merf.fitted import FittedMERF
from understudy.synthesizers.merf.method import MERF
from understudy.synthesizers.mst import MST, FittedMST
from understudy.synthesizers.prada.adversarial import PradaGAN
from understudy.synthesizers.prada.dpgan import DPGAN, FittedDPGAN
from understudy.synthesizers.prada.fitted import FittedDensity, FittedPrada
from understudy.synthesizers.prada.likelihood import Prada
from understudy.synthesizers.privbayes import FittedPrivBayes, PrivBayes
from understudy.synthesizers.privmrf import FittedPrivMRF, PrivMRF

METHODS = {
    "aim": AIM,
    "gem": GEM,
    "copula": Copula,
    "independent": Independent,
    "mst": MST,
    "prada": Prada,
    "prada-gan": PradaGAN,
    "dpgan": DPGAN,
    "dp-merf": MERF,
    "privbayes": PrivBayes,
    "privmrf": PrivMRF,
}
FITTED = {
    "aim": FittedAIM,
    "gem": FittedGEM,
    "copula": FittedCopula,
    "independent": FittedIndependent,
    "mst": FittedMST,
    "prada": FittedDensity,
    "prada-gan": FittedPrada,
    "dpgan": FittedDPGAN,
    "dp-merf": FittedMERF,
    "privbayes": FittedPrivBayes,
    "privmrf": FittedPrivMRF,
}
DEFAULT = "prada"
