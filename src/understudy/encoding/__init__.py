"""Values to levels, scores, features and bins, through encoders that were fitted with noise, and back."""

from understudy.encoding.bins import LIGHTEST, Bins, best_cut, bin_rows, make_bins, places
from understudy.encoding.columns import CategoricalEncoder, ColumnEncoder, NumericEncoder, PassThroughEncoder
from understudy.encoding.encoder import (
    STANDARDISED,
    Encoder,
    EncoderFacts,
    Levels,
    check_pass_through,
    pass_through_encoder,
)
from understudy.encoding.features import Feature, category_count, category_rows, feature_rows, features
from understudy.encoding.fit import fit_encoder
from understudy.encoding.plan import (
    COUNT,
    COUNT_SELECTED,
    ROUNDS,
    counted_as,
    measurement_of,
    plan,
    rows_to_be_seen,
    single_column_noise,
)
from understudy.encoding.scores import (
    ScoreColumn,
    loading,
    score_columns,
    score_rows,
    target_weightings,
    value_weighting,
)
from understudy.privacy.normal_scores import ValueWeighting, mean_score
from understudy.privacy.piecewise import Distribution

__all__ = [
    "COUNT",
    "COUNT_SELECTED",
    "LIGHTEST",
    "ROUNDS",
    "STANDARDISED",
    "Bins",
    "CategoricalEncoder",
    "ColumnEncoder",
    "Distribution",
    "Encoder",
    "EncoderFacts",
    "Feature",
    "Levels",
    "NumericEncoder",
    "PassThroughEncoder",
    "ScoreColumn",
    "ValueWeighting",
    "best_cut",
    "bin_rows",
    "category_count",
    "category_rows",
    "check_pass_through",
    "counted_as",
    "feature_rows",
    "features",
    "fit_encoder",
    "loading",
    "make_bins",
    "mean_score",
    "measurement_of",
    "pass_through_encoder",
    "places",
    "plan",
    "rows_to_be_seen",
    "score_columns",
    "score_rows",
    "single_column_noise",
    "target_weightings",
    "value_weighting",
]
