"""Error bars that follow from the public noise: how far a measured count may be off, without a look at any row.

The one rule: only what the receipt says is used. The noise of a count is public, and so is the number of rows, by the
schema or by a noisy count.
"""

from collections.abc import Iterable

from understudy.model import Model
from understudy.privacy.plan import Charge

QUANTILE = 1.959964
"""95 % of Gaussian noise lies within so many deviations."""
MEAN_SIZE = 0.7978846
"""The mean of the absolute value of Gaussian noise, in deviations."""
BINS_OF_A_NUMBER = 20
"""The bins of a number in the verdict on columns."""


def noise_of_columns(model: Model) -> dict[str, dict[str, float]]:
    """For each column that was counted by itself, what the noise of its counts does.

    Returns:
        By column: `share`, the 95 % error of the share of one bin or category; and `distance`, the total variation
        that such noise alone is expected to give the column.
    """
    rows = max(model.schema.rows or model.encoder.rows, 1.0)
    found = {}
    for column in model.schema:
        sigma = _least_noise(model.receipt.charges, column.name)
        if sigma is not None:
            bins = BINS_OF_A_NUMBER if column.is_numeric else len(model.encoder.labels.get(column.name, ("", "")))
            distance = min(0.5 * bins * MEAN_SIZE * sigma / rows, 1.0)
            found[column.name] = {"share": min(QUANTILE * sigma / rows, 1.0), "distance": distance}
    return found


def _least_noise(charges: Iterable[Charge], name: str) -> float | None:
    """The noise of the finest counts of one column alone; None if there were none."""
    own = [
        charge.sigma
        for charge in charges
        if charge.mechanism == "discrete gaussian" and f"'{name}'" in charge.what and charge.what.count("'") == 2
    ]
    return min(own, default=None)
