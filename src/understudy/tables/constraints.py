"""Constraints of a schema: from their written form to rules, with everything checked that is wrong without any data.

The one rule: a constraint that can never hold is refused when the schema is made, not after a model has drawn rows in
vain.

Three forms: a rule as text ("discharge >= admission", "total = a + b"), an implication (when, column, and low, high or
values), and a list of allowed combinations (columns, allowed). docs/schema.md describes them.
"""

import dataclasses
import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from understudy.core.settings import Number
from understudy.tables.column import Column, Columns
from understudy.tables.rules import BROKEN_BY, Combination, Condition, Constraint, Implication, Inequality, Sum
from understudy.tables.values import is_list, on_table_scale, show_plain

_TOKEN = re.compile(r"""\s*(?:"([^"]*)"|'([^']*)'|(>=|<=|==|=|>|<|\+)|([^"'<>=+]+))""")
_IMPLIES = re.compile(r"\s+implies\s+")
_FORMS = (
    {"rule", "tolerance", "by"},
    {"when", "column", "low", "high", "values"},
    {"columns", "allowed"},
)
_SYNTAX = (
    'a rule such as "a >= b", "total = a + b" or "a implies b"; or when, column and low, high or values; or columns '
    "and allowed. Names that hold an operator or a quote go in quotes"
)
_WAYS = ("difference", "rejection")
_CANNOT_HOLD = "expected a rule that can hold, but"

Keys = Mapping[str, Any]
"""A constraint as a table of keys; the values are whatever TOML can hold, checked key by key."""


class ConstraintError(ValueError):
    """A constraint or a condition breaks a rule. It is public, so the message may quote it."""


def read(written: object, columns: Columns) -> Constraint:
    """A constraint from its written form: a rule as text, or a table of keys.

    Raises:
        ConstraintError: It is no constraint, or can never hold.
        SchemaError: A name is no column, or a value is none of its column.
    """
    if isinstance(written, Constraint):
        written = written.written()
    keys = {"rule": written} if isinstance(written, str) else written
    if not isinstance(keys, Mapping) or not any(set(keys) <= form for form in _FORMS):
        shown = ", ".join(map(str, keys)) if isinstance(keys, Mapping) else show_plain(keys)
        raise ConstraintError(f"expected {_SYNTAX}; got {shown}.")
    if "rule" in keys:
        return _read_rule(keys, columns)
    if "allowed" in keys and "columns" in keys:
        return _read_combination(keys, columns)
    if "column" in keys and isinstance(keys.get("when"), Mapping) and keys["when"]:
        return _read_implication(keys, columns)
    missing = "to bound a column in every row, give it low and high there" if "column" in keys else "a key is missing"
    raise ConstraintError(f"expected {_SYNTAX}; {missing}.")


def check_together(constraints: Sequence[Constraint], columns: Columns) -> None:
    """Refuses constraints that contradict each other: totals that are parts of themselves, and a > b > a."""
    sums(constraints)
    above: dict[tuple[str, str], bool] = {}  # (a, b): a is never below b; True if it is strictly above
    for each in constraints:
        if isinstance(each, Inequality) and not (columns[each.left].nullable or columns[each.right].nullable):
            pair = (each.left, each.right) if each.relation[0] == ">" else (each.right, each.left)
            above[pair] = above.get(pair, False) or len(each.relation) == 1
    names = {name for pair in above for name in pair}
    for middle, first, last in itertools.product(names, repeat=3):  # the transitive closure, by Warshall
        if (first, middle) in above and (middle, last) in above:
            strict = above[first, middle] or above[middle, last]
            above[first, last] = above.get((first, last), False) or strict
    for name in sorted(names):
        if above.get((name, name)):
            raise ConstraintError(f"expected inequalities that can hold together, but they put {name!r} above itself.")


def sums(constraints: Iterable[Constraint]) -> list[Sum]:
    """The sums among the constraints, ordered so that a total is computed before it is a part of another.

    Raises:
        ConstraintError: A total has two sums, or is a part of itself.
    """
    waiting = [constraint for constraint in constraints if isinstance(constraint, Sum)]
    totals = [each.total for each in waiting]
    for name in totals:
        if totals.count(name) > 1:
            raise ConstraintError(f"expected one sum for {name!r}, got two. Write one of them for another total.")
    ordered: list[Sum] = []
    while waiting:
        ready = [each for each in waiting if not set(each.parts) & {other.total for other in waiting}]
        if not ready:
            raise ConstraintError(f"expected sums of other columns, but {waiting[0].total!r} is a part of itself.")
        ordered += ready
        waiting = [each for each in waiting if each not in ready]
    return ordered


# Rules as text ------------------------------------------------------------------------------------------------------


def literal(text: str) -> float | str | None:
    """A number if the text is one, None if it is blank, else the text."""
    for reader in (int, float):
        try:
            return reader(text)
        except ValueError:
            continue
    return text.strip() or None


def _read_rule(keys: Keys, columns: Columns) -> Constraint:
    rule = keys["rule"]
    sides = _implies(rule) if isinstance(rule, str) and "tolerance" not in keys else []
    if len(sides) == 2:
        return _read_implies(sides[0], sides[1], columns)
    tokens = _tokens(rule) if isinstance(rule, str) else []
    names, signs = [text for text, sign in tokens[::2] if not sign], [text for text, sign in tokens[1::2] if sign]
    if len(tokens) < 3 or len(names) != len(signs) + 1 or len(names) + len(signs) != len(tokens):
        raise ConstraintError(f"expected {_SYNTAX}; got {show_plain(rule)}.")
    if signs[0] in BROKEN_BY and len(signs) == 1 and "tolerance" not in keys:
        return _checked_inequality(Inequality(names[0], signs[0], names[1], keys.get("by", _WAYS[0])), columns)
    if "by" in keys:
        raise ConstraintError(f"by: expected it beside an inequality of two columns, got {show_plain(rule)}.")
    if signs[0] in ("=", "==") and all(sign == "+" for sign in signs[1:]):
        return _checked_sum(Sum(names[0], tuple(names[1:]), keys.get("tolerance", 0.0)), columns)
    if signs[-1] in ("=", "==") and all(sign == "+" for sign in signs[:-1]):
        return _checked_sum(Sum(names[-1], tuple(names[:-1]), keys.get("tolerance", 0.0)), columns)
    raise ConstraintError(f"expected {_SYNTAX}; got {show_plain(rule)}.")


def _implies(rule: str) -> list[str]:
    """The two names of a rule such as "a implies b", or whatever else is between the words."""
    if _tokens(rule) and not any(sign for _, sign in _tokens(rule)):
        return [side.strip().strip("\"'") for side in _IMPLIES.split(rule)]
    return []


def _read_implies(first: str, then: str, columns: Columns) -> Implication:
    for name in (first, then):
        if columns[name].kind != "boolean":
            fact = f"{name!r} is {columns[name].kind}"
            raise ConstraintError(f"{first} implies {then}: expected two columns of truth values, but {fact}.")
    if first == then:
        raise ConstraintError(f"{first} implies {then}: expected two columns, got one twice.")
    return Implication((Condition(first, (True,)),), Condition(then, (True,)))


def _tokens(rule: str) -> list[tuple[str, bool]]:
    """Names and signs, each with whether it is a sign; none at all if a quote is not closed."""
    tokens, place, end = [], 0, len(rule.rstrip())
    while place < end:
        match = _TOKEN.match(rule, place)
        if match is None:
            return []
        double, single, sign, bare = match.groups()
        name = next((text for text in (double, single) if text is not None), bare)
        tokens.append((sign, True) if sign else (name if bare is None else bare.strip(), False))
        place = match.end()
    return tokens


def _checked_inequality(rule: Inequality, columns: Columns) -> Inequality:
    for name in (rule.left, rule.right):
        if name not in columns and not isinstance(literal(name), str):
            raise ConstraintError(f"{rule}: expected two columns, got {name!r}. To bound one, give it low or high.")
    if rule.by not in _WAYS:
        raise ConstraintError(f"{rule}: expected by to be {' or '.join(_WAYS)}, got {show_plain(rule.by)}.")
    left, right = columns[rule.left], columns[rule.right]
    comparable = left.is_numeric and right.is_numeric and left.is_instant == right.is_instant
    if rule.left == rule.right or not comparable:
        fact = "one column twice" if rule.left == rule.right else f"the kinds {left.kind!r} and {right.kind!r}"
        raise ConstraintError(f"{rule}: expected two columns of numbers or two of instants, got {fact}.")
    upper, lower = (left, right) if rule.relation[0] == ">" else (right, left)
    most, least = upper.bounds[1], lower.bounds[0]
    if left.nullable or right.nullable or most is None or least is None:
        return rule
    if most < least or (most == least and len(rule.relation) == 1):
        raise ConstraintError(f"{rule}: {_CANNOT_HOLD} the bounds of the columns forbid it.")
    return rule


def _checked_sum(rule: Sum, columns: Columns) -> Sum:
    found = {name: columns[name] for name in (rule.total, *rule.parts)}
    place = f"{rule.total} = ..."
    for name, column in found.items():
        if column.kind not in ("continuous", "integer"):
            raise ConstraintError(f"{place}: expected columns of numbers, but {name!r} is {column.kind}.")
        if found[rule.total].kind == "integer" != column.kind:
            fact = f"but {rule.total!r} is integer and {name!r} is not"
            raise ConstraintError(f"{place}: expected whole parts of a whole total, {fact}.")
    if len(found) <= len(rule.parts):
        raise ConstraintError(f"{place}: expected every column once, got one twice.")
    if not Number(least=0).holds(rule.tolerance):
        shown = show_plain(rule.tolerance)
        raise ConstraintError(f"{place}: expected tolerance to be a number >= 0, got {shown}.")
    rule = dataclasses.replace(rule, tolerance=float(rule.tolerance))
    if not any(column.nullable for column in found.values()):
        _check_reachable(rule, found)
    return rule


def _check_reachable(rule: Sum, found: Mapping[str, Column]) -> None:
    """Refuses a sum whose total lies outside its bounds whatever its parts are."""
    low, high = found[rule.total].bounds
    lows, highs = zip(*(found[name].bounds for name in rule.parts), strict=True)
    too_high = high is not None and None not in lows and sum(lows) - rule.tolerance > high
    too_low = low is not None and None not in highs and sum(highs) + rule.tolerance < low
    if too_high or too_low:
        raise ConstraintError(f"{rule}: {_CANNOT_HOLD} the bounds of the columns forbid it.")


# Tables of keys -----------------------------------------------------------------------------------------------------


def _read_implication(keys: Keys, columns: Columns) -> Implication:
    found = {name: read_condition(columns, name, value) for name, value in keys["when"].items()}
    when = tuple(found[name] for name in columns.by_name if name in found)  # TOML may have changed their order
    name = keys["column"]
    column = columns[name]
    if name in keys["when"]:
        raise ConstraintError(f"when: expected other columns than {name!r}, which the rule is about.")
    suited = ("low", "high") if column.is_numeric else ("values",)
    given = [key for key in ("low", "high", "values") if keys.get(key) is not None]
    if not given or not set(given) <= set(suited):
        wanted, got = " or ".join(suited), ", ".join(given) or "none"
        raise ConstraintError(f"column {name!r}: expected {wanted} for kind {column.kind!r}, got {got}.")
    if column.is_numeric:
        return Implication(when, _within(column, keys.get("low"), keys.get("high")))
    return Implication(when, _one_of(column, keys["values"]))


def _read_combination(keys: Keys, columns: Columns) -> Combination:
    names, allowed = keys["columns"], keys["allowed"]
    if not is_list(names) or len(names) < 2 or len(set(map(str, names))) < len(names):
        raise ConstraintError(f"columns: expected a list of two or more columns, each once, got {show_plain(names)}.")
    found = [columns[name] for name in names]
    for column in found:
        if column.kind not in ("categorical", "boolean", "integer"):
            fact = f"{column.name!r} is {column.kind}"
            raise ConstraintError(f"columns: expected categories, truth values or whole numbers, but {fact}.")
    if not is_list(allowed) or not allowed or not all(is_list(row) and len(row) == len(names) for row in allowed):
        raise ConstraintError(f"allowed: expected a list of lists, each of {len(names)} values, got another shape.")
    rows = []
    for row in allowed:
        cells = zip(found, row, strict=True)
        rows.append(tuple(column.canonical(f"allowed: expected {column.name!r}", value) for column, value in cells))
    return Combination(tuple(names), tuple(dict.fromkeys(rows)))


def read_condition(columns: Columns, name: str, value: object) -> Condition:
    """A condition on one cell.

    Args:
        value: A value; a pair (low, high) or a table of low and high, in which None is open; several categories; or
            None for a missing cell.
    """
    column = columns[name]
    if value is None:
        if not column.nullable:
            raise ConstraintError(
                f"column {name!r}: expected a value, got none, and the schema says nothing is missing."
            )
        return Condition(name, missing=True)
    if not column.is_numeric:
        return _one_of(column, sorted(value, key=str) if isinstance(value, set | frozenset) else value)
    if isinstance(value, Mapping):
        if not set(value) <= {"low", "high"}:
            raise ConstraintError(f"column {name!r}: expected low and high, got {', '.join(map(str, value))}.")
        value = (value.get("low"), value.get("high"))
    if not is_list(value):
        value = (value, value)
    if len(value) != 2 or (value[0] is None and value[1] is None):
        raise ConstraintError(f"column {name!r}: expected a value or a pair of low and high, one of them at least.")
    return _within(column, *value)


def _within(column: Column, low: object, high: object) -> Condition:
    place = f"column {column.name!r}"
    lowest, highest = (
        None if bound is None else column.canonical(f"{place}: expected {key}", bound)
        for key, bound in (("low", low), ("high", high))
    )
    condition = Condition(column.name, low=lowest, high=highest)
    # Bounds compare on the scale of a table: as Python objects they could be of different types.
    first, last = (None if bound is None else on_table_scale(bound) for bound in (lowest, highest))
    if first is not None and last is not None and first > last:
        raise ConstraintError(f"{place}: expected low <= high, got {show_plain(lowest)} and {show_plain(highest)}.")
    least, most = column.bounds
    if (first is not None and most is not None and first > most) or (
        last is not None and least is not None and last < least
    ):
        raise ConstraintError(f"{condition}: {_CANNOT_HOLD} the column's own bounds forbid it.")
    return condition


def _one_of(column: Column, values: object) -> Condition:
    listed = list(values) if is_list(values) else [values]
    if not listed:
        raise ConstraintError(f"column {column.name!r}: expected at least one value, got none.")
    rule = f"column {column.name!r}: expected a value"
    return Condition(column.name, tuple(dict.fromkeys(column.canonical(rule, value) for value in listed)))
