"""One scale for a plan: from (epsilon, delta) to the noise of every planned mechanism.

The one rule: calibration needs no row. The scale is fixed before anything is read, and the whole plan at that scale is
seen to cost no more than the budget.
"""

import math
from collections.abc import Callable, Sequence

from understudy.privacy import cost_cache
from understudy.privacy.accounting import Composition, account_composition, cross_check, epsilon_spent
from understudy.privacy.gaussian import gaussian_mu
from understudy.privacy.plan import Budget, BudgetExceeded, Charge, PlannedMechanism

# This part of epsilon is kept back, for the rounding of whichever accountant checks the receipt later.
_RESERVE = 0.001
# Calibration stops when the cost is below the target by at most this part of it.
_TOLERANCE = 0.002
# A larger epsilon counts as this much, since its noise is already far below a thousandth of a row.
_HUGE_EPSILON = 1e7


def planned_charges(plan: Sequence[PlannedMechanism], scale: float) -> list[Charge]:
    """The charges of the whole plan at this scale, for sensitivity 1."""
    return [planned.charge(scale) for planned in plan]


def calibrate(plan: Sequence[PlannedMechanism], budget: Budget) -> float:
    """The smallest common scale at which the whole plan stays within the budget.

    The plan then costs between 99.5 % and 99.9 % of epsilon: never more, and a thousandth is kept
    back for the rounding of other accountants. (Less only if epsilon is so small, beside delta, that
    it hardly matters.) Of delta, the thresholds take theirs first. Public: no row is needed.

    Raises:
        BudgetExceeded: The mechanisms with fixed noise, or the thresholds, already cost the whole budget.
    """
    if not plan:
        raise ValueError("plan: expected at least one mechanism, got none.")
    with cost_cache.kept(plan, budget):
        return _calibrate(plan, budget)


def _calibrate(plan: Sequence[PlannedMechanism], budget: Budget) -> float:
    fixed = Composition.of(planned_charges([planned for planned in plan if planned.noise_multiplier is not None], 1.0))
    thresholds = Composition.of(planned_charges(plan, 1.0)).threshold_delta
    if thresholds >= budget.delta:
        raise BudgetExceeded(
            f"the thresholds of the plan take delta = {thresholds:g} of {budget.delta:g} and leave nothing for "
            "the noise. Give them less, or raise delta."
        )
    target = min(budget.epsilon, _HUGE_EPSILON) * (1 - _RESERVE)
    fixed_epsilon = account_composition(fixed._replace(threshold_delta=thresholds), budget.delta)[0]
    if fixed_epsilon > target:
        raise BudgetExceeded(
            f"the noise fixed in the plan costs epsilon = {fixed_epsilon:.4g} of {budget.epsilon:g}. "
            "Raise epsilon, raise that noise, or take fewer steps."
        )
    shares = math.fsum(planned.share for planned in plan if planned.noise_multiplier is None)
    scale = 1.0
    if shares:
        guess = math.sqrt(shares) / gaussian_mu(target, budget.delta - thresholds)
        scale = _search(lambda s: epsilon_spent(planned_charges(plan, s), budget.delta), guess, target)
    cross_check(Composition.of(planned_charges(plan, scale)), budget.delta)
    return scale


def _search(cost: Callable[[float], float], guess: float, target: float) -> float:
    """A scale with target * (1 - _TOLERANCE) <= cost <= target; the cost falls with the scale.

    Secant steps in the logarithms of both, where the cost is nearly straight, kept inside the
    bracket found so far. Only a scale seen to cost no more than the target is returned. A cost may
    never reach the target (a sampling rate below delta is private by itself), so the search ends at a
    thousandth of the guess.
    """
    unsafe, safe, slope = -math.inf, math.inf, -1.0
    x, last = math.log(guess), None
    aim, lowest = target * (1 - _TOLERANCE / 2), math.log(guess / 1000)
    for _ in range(200):
        epsilon = cost(math.exp(x))
        if epsilon <= target:
            safe = x
            if epsilon >= target * (1 - _TOLERANCE):
                break
        else:
            unsafe = x
        if safe - unsafe < 1e-7 or safe == lowest:
            break
        if 0 < epsilon < math.inf:
            y = math.log(epsilon / aim)
            if last is not None and x != last[0]:
                slope = min(-0.1, max(-50.0, (y - last[1]) / (x - last[0])))
            last = (x, y)
            move = max(-3.0, min(3.0, -y / slope))
        else:
            move = 1.0 if epsilon else -1.0
        x = max(x + move, lowest)
        if not unsafe < x < safe:
            x = (unsafe + safe) / 2
    if safe == math.inf:
        raise BudgetExceeded(f"no noise was found at which the plan costs epsilon <= {target:g}. Raise epsilon.")
    return math.exp(safe)
