"""The first part of a report: what is promised, what that means for an attacker, and what was measured.

The one rule: everything here is known without a row. It follows from the receipt, the schema and the settings, and
every bound is rounded towards the attacker.

An attacker who wants to know whether one unit was in the table tests one hypothesis against another. Under (ε, δ) the
true positive rate t and the false positive rate f of any test obey

    t ≤ exp(ε) f + δ    and    1 - f ≤ exp(ε) (1 - t) + δ,

so a guess at even odds is right with probability at most (exp(ε) + δ) / (1 + exp(ε)). If all noise is Gaussian or
charged as such, and no batch is sampled, the whole fit is as private as one Gaussian of some mu, which is at most the
one that just meets (ε, δ). Then t ≤ Phi(Phi^-1(f) + mu) + δ, which is often far less.

Sources: Kairouz, Oh and Viswanath (2015), arXiv:1311.0776, for the two inequalities; Dong, Roth and Su (2019),
arXiv:1905.02383, for the Gaussian.
"""

import dataclasses
import math
import platform
from collections.abc import Sequence
from typing import Any

from understudy.core.version import __version__
from understudy.model import Model
from understudy.privacy.accounting import account
from understudy.privacy.calibration import planned_charges
from understudy.privacy.gaussian import gaussian_mu
from understudy.privacy.ledger import Ledger
from understudy.privacy.ledger_file import LedgerFile
from understudy.privacy.plan import Budget, Charge
from understudy.privacy.shares import by_planned_mechanism
from understudy.report.record import flags_of, ledger_part
from understudy.synthesizers.planning import planned_mechanisms
from understudy.tables.column import Column

FALSE_POSITIVES = 0.01
"""The false positive rate at which the true positive rate is given: one false alarm in a hundred."""
DELTAS = tuple(10.0**-power for power in range(4, 11))
"""The deltas of the profile, beside the promised one."""
FEWEST_POINTS = 4
"""With fewer of them, the profile has points around the promised one as well."""
NOT_COVERED = (
    "What is computed on real rows by other means: an evaluation, a plot, the utility part of a report.",
    "Rows that do not come from this model, even if they are shown on this page.",
    "The schema: the names of the columns, their kinds, and any bounds and categories it lists are taken to be public.",
    "What was released about the same table before, or will be later: each fit has a budget of its own, and they add "
    "up.",
    "What is true of people in general: a model may show that smokers fall ill without knowing any one of them.",
)


def privacy_part(model: Model, ledger: LedgerFile | None) -> dict[str, Any]:
    """All that the page says about privacy, as plain values."""
    receipt = model.receipt
    return {
        "promise": receipt.promise,
        "epsilon": receipt.budget.epsilon,
        "delta": receipt.budget.delta,
        "spent": {"epsilon": receipt.epsilon, "delta": receipt.delta, "rdp_epsilon": receipt.rdp_epsilon},
        "adjacency": receipt.adjacency,
        "unit": receipt.unit,
        "max_rows_per_unit": receipt.max_rows_per_unit,
        "attacker": attacker(receipt.budget, gaussian=not _is_sampled(model)),
        "void": list(receipt.void),
        "seed": receipt.seed,
        "noise_source": receipt.noise_source,
        "warnings": list(receipt.warnings),
        "not_released": receipt.not_released,
        "by_mechanism": by_planned_mechanism(receipt.charges),
        "charges": [{**dataclasses.asdict(charge), "sigma": charge.sigma} for charge in receipt.charges],
        "columns": [
            column_facts(column, model.encoder.columns[column.name].is_pass_through) for column in model.schema
        ],
        "rows": {"public": model.schema.rows, "measured": None if model.schema.rows else model.encoder.rows},
        "method": {"name": model.method.name, **dataclasses.asdict(model.method)},
        "schema": model.schema.to_toml(),
        "not_covered": list(NOT_COVERED),
        "flags": flags_of(model),
        "profile": profile(model),
        "constraints": [str(each) for each in model.schema.constraints],
        "ignored": list(model.schema.ignore),
        "ledger": None if ledger is None else ledger_part(ledger, model),
        "versions": {
            "fitted with understudy": receipt.version or "unknown",
            "accountant": receipt.accountant,
            "report by understudy": __version__,
            "Python": platform.python_version(),
        },
    }


# What an attacker can do --------------------------------------------------------------------------------------------


def attacker(budget: Budget, *, gaussian: bool) -> dict[str, Any]:
    """The most that anybody can find out about one unit, by (ε, δ) alone and by the Gaussian.

    Args:
        budget: What was promised.
        gaussian: Whether the whole fit composes to one Gaussian.
    """
    epsilon, delta = budget.epsilon, budget.delta
    shrunk = math.exp(-epsilon)
    answer: dict[str, Any] = {
        "prior": 0.5,
        "right": min(1.0, (1 + delta * shrunk) / (1 + shrunk)),
        "false_positives": FALSE_POSITIVES,
        "true_positives": min(
            1.0,
            math.exp(min(epsilon, 700.0)) * FALSE_POSITIVES + delta,
            1 - (1 - delta - FALSE_POSITIVES) * shrunk,
        ),
        "gaussian": None,
    }
    if gaussian:
        from scipy.special import ndtr, ndtri

        mu = gaussian_mu(epsilon, delta) * (1 + 1e-12)  # it is rounded down; the bound must be rounded up
        answer["gaussian"] = {
            "mu": mu,
            "right": min(answer["right"], float(ndtr(mu / 2)) + delta),
            "true_positives": min(answer["true_positives"], float(ndtr(ndtri(FALSE_POSITIVES) + mu)) + delta),
        }
    return answer


def _is_sampled(model: Model) -> bool:
    planned = planned_mechanisms(model.encoder.schema, model.method, model.receipt.budget)
    return any(each.sampling_rate for each in (*planned, *model.receipt.charges))


def profile(model: Model) -> list[dict[str, float]]:
    """What the noise of a fit promises at other deltas."""
    budget = model.receipt.budget
    planned = planned_mechanisms(model.encoder.schema, model.method, budget)
    return profile_of(budget, planned_charges(planned, Ledger(budget, planned).scale))


def profile_of(budget: Budget, charges: Sequence[Charge]) -> list[dict[str, float]]:
    """What the same noise promises at other deltas: epsilon, and how often a guess at even odds is right at most.

    A fit keeps every pair of its profile at once. It is that of the whole plan, so releases that were not made count.
    Deltas that the thresholds of rare categories use up have no epsilon; then others near the promised one are given.
    """
    thresholds = math.fsum(charge.times * charge.threshold_delta for charge in charges)
    deltas = {delta for delta in DELTAS if delta > thresholds}
    if len(deltas) < FEWEST_POINTS:
        deltas |= {delta for delta in (budget.delta * factor for factor in (0.2, 0.5, 2, 5)) if thresholds < delta < 1}
    found = []
    for delta in sorted({*deltas, budget.delta}, reverse=True):
        epsilon = budget.epsilon if delta == budget.delta else account(charges, delta)[0]
        right = attacker(Budget(epsilon=max(epsilon, 1e-9), delta=delta), gaussian=False)["right"]
        found.append({"epsilon": epsilon, "delta": delta, "right": right})
    return found


# What is public, and what was measured ------------------------------------------------------------------------------


def column_facts(column: Column, is_pass_through: bool = False) -> dict[str, Any]:
    """What a schema states about a column, and what a fit measures of it, in words."""
    public = [column.kind]
    low, high = (None if bound is None else str(bound) for bound in (column.low, column.high))
    if low is not None or high is not None:
        public.append(f"from {low} to {high}" if low and high else f"at least {low}" if low else f"at most {high}")
    if column.values is not None:
        public.append(f"{len(column.values)} categories, by name")
    if column.atoms:
        public.append("values known to be repeated: " + ", ".join(f"{atom:g}" for atom in column.atoms))
    if column.nullable:
        public.append("may be missing")
    return {"name": column.name, "public": public, "measured": [] if is_pass_through else _measured(column)}


def _measured(column: Column) -> list[str]:
    if column.kind == "categorical" and column.values is None:
        measured = ["which categories are frequent", "their shares"]
    elif not column.is_numeric:
        measured = ["the share of each value"]
    else:
        measured = ["the distribution of its values"]
        measured += ["their range"] * (column.low is None or column.high is None)
    return measured + ["the share of missing values"] * column.nullable
