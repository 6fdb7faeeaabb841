"""The workshop: one bench per method. Each sees the rows through hatches alone and leaves a recipe.

A method is a frozen dataclass of public hyper-parameters with

- `name`, and `encoding_share`: how much of the budget the encoder gets;
- `plan(schema) -> list[Item]`: what else it will buy;
- `fit(rows, encoder, *, ledger, key) -> Recipe`.

A recipe holds arrays and public facts:

- `sample(n, *, key) -> Levels`: a level in [0, 1] per row and column, NaN for a missing value;
- `parents(schema) -> {column: [columns it was made from]}`;
- `arrays() -> {name: array}` and `from_arrays(arrays)`, what a saved model keeps of it.
"""

from understudy.synthesizers.aim import AIM, AIMRecipe
from understudy.synthesizers.copula import Copula, CopulaRecipe
from understudy.synthesizers.gem.method import GEM
from understudy.synthesizers.gem.recipe import GEMRecipe
from understudy.synthesizers.independent import Independent, IndependentRecipe
from understudy.synthesizers.merf.method import MERF
from understudy.synthesizers.merf.recipe import MERFRecipe
from understudy.synthesizers.mst import MST, MSTRecipe
from understudy.synthesizers.prada.adversarial import PradaGAN
from understudy.synthesizers.prada.dpgan import DPGAN, DPGANRecipe
from understudy.synthesizers.prada.likelihood import Prada
from understudy.synthesizers.prada.recipe import DensityRecipe, PradaRecipe
from understudy.synthesizers.privbayes import PrivBayes, PrivBayesRecipe
from understudy.synthesizers.privmrf import PrivMRF, PrivMRFRecipe

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
RECIPES = {
    "aim": AIMRecipe,
    "gem": GEMRecipe,
    "copula": CopulaRecipe,
    "independent": IndependentRecipe,
    "mst": MSTRecipe,
    "prada": DensityRecipe,
    "prada-gan": PradaRecipe,
    "dpgan": DPGANRecipe,
    "dp-merf": MERFRecipe,
    "privbayes": PrivBayesRecipe,
    "privmrf": PrivMRFRecipe,
}
DEFAULT = "prada"
