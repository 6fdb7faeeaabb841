"""Rules between columns, and conditions on rows: public facts that every synthetic row keeps.

The one rule: nothing here is learned. A constraint is written by the owner into the schema, from knowledge of the
subject; no row is looked at to find it, and holding synthetic rows to it is post-processing, which costs nothing.

A rule says nothing about a row in which one of its cells is missing. Numbers compare as they are shown: whole numbers
as whole numbers, instants to the microsecond, categories by their text.
"""

import dataclasses
import datetime
import math
import operator
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from numpy.typing import NDArray

_EPOCH = datetime.datetime(1970, 1, 1)
_TOKEN = re.compile(r"""\s*(?:"([^"]*)"|'([^']*)'|(>=|<=|==|=|>|<|\+)|([^"'<>=+]+))""")
_BARE = re.compile(r"""[^"'<>=+\s](?:[^"'<>=+]*[^"'<>=+\s])?""")
_BROKEN_BY = {">=": operator.lt, ">": operator.le, "<=": operator.gt, "<": operator.ge}
_FORMS = (
    {"rule", "tolerance"},
    {"when", "column", "low", "high", "values"},
    {"columns", "allowed"},
)
_HOW = (
    'a rule such as "a >= b" or "total = a + b"; or when, column and low, high or values; or columns and allowed. '
    "Names that hold an operator or a quote go in quotes"
)


class ConstraintError(ValueError):
    """A constraint or a condition breaks a rule. It is public, so the message may quote it."""


class Facts(Protocol):
    """What is asked of a column: `schema.Column` answers it."""

    @property
    def kind(self) -> str: ...
    @property
    def nullable(self) -> bool: ...
    @property
    def is_numeric(self) -> bool: ...
    @property
    def low(self) -> Any: ...
    @property
    def high(self) -> Any: ...
    @property
    def bounds(self) -> tuple[float | None, float | None]: ...
    def canonical(self, rule: str, value: Any) -> Any: ...


class Plan(Protocol):
    """What is asked of a schema: its columns by name, and which names are not among them."""

    @property
    def names(self) -> tuple[str, ...]: ...
    @property
    def unit(self) -> str | None: ...
    @property
    def ignore(self) -> tuple[str, ...]: ...
    @property
    def constraints(self) -> tuple["Constraint", ...]: ...
    def __getitem__(self, name: str) -> Facts: ...


@dataclasses.dataclass(frozen=True, eq=False)
class Rows:
    """Synthetic rows to be held to rules.

    Attributes:
        columns: Arrays in the form of a `Table`: numbers with NaN for a missing cell, categories as codes with -1.
        labels: The text of the codes.
    """

    columns: Mapping[str, "NDArray"]
    labels: Mapping[str, Sequence[str]]

    def numbers(self, name: str) -> "NDArray":
        """A column as numbers, NaN where the cell is missing."""
        import numpy as np

        cells = self.columns[name]
        return np.where(cells < 0, np.nan, cells) if np.issubdtype(cells.dtype, np.integer) else cells

    def number(self, name: str, value: Any) -> float:
        """What stands for a public value in `numbers(name)`; NaN, which equals nothing, for an unknown category."""
        if isinstance(value, str):
            labels = list(self.labels[name])
            return float(labels.index(value)) if value in labels else math.nan
        return on_table_scale(value)


def on_table_scale(value: Any) -> float:
    """A number as it is, an instant in microseconds since 1970."""
    if isinstance(value, datetime.datetime):
        return float((value - _EPOCH) // datetime.timedelta(microseconds=1))
    return float(value)


# The rules ----------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Condition:
    """What a cell is: one of some values, a number or instant within bounds, or missing.

    Attributes:
        column: Whose cell.
        values: Categories or truth values, any of which.
        low, high: Bounds, both included; None is open.
        missing: Whether the cell is to be missing instead.
    """

    column: str
    values: tuple[Any, ...] = ()
    low: Any = None
    high: Any = None
    missing: bool = False

    def holds(self, rows: Rows) -> "NDArray":
        """Which rows meet it; a missing cell does only where that is what is asked."""
        import numpy as np

        cells = rows.numbers(self.column)
        if self.missing:
            return np.isnan(cells)
        if self.values:
            return np.isin(cells, [rows.number(self.column, value) for value in self.values])
        met = ~np.isnan(cells)
        if self.low is not None:
            met &= cells >= on_table_scale(self.low)
        if self.high is not None:
            met &= cells <= on_table_scale(self.high)
        return met

    def bounds(self) -> dict[str, Any]:
        """The bounds that are given, by their keys."""
        return {key: bound for key, bound in (("low", self.low), ("high", self.high)) if bound is not None}

    def written(self) -> Any:
        if self.values:
            return self.values[0] if len(self.values) == 1 else list(self.values)
        return self.low if self.low == self.high else self.bounds()

    def __str__(self) -> str:
        if self.missing:
            return f"{self.column} is missing"
        if self.values:
            shown = (
                " or ".join(map(_show, self.values)) if len(self.values) < 6 else f"one of {len(self.values)} values"
            )
            return f"{self.column} = {shown}"
        if self.low == self.high:
            return f"{self.column} = {_show(self.low)}"
        if self.low is None or self.high is None:
            return f"{self.column} {'<=' if self.low is None else '>='} {_show(*self.bounds().values())}"
        return f"{self.column} from {_show(self.low)} to {_show(self.high)}"


@dataclasses.dataclass(frozen=True)
class Inequality:
    """One number or instant is not below (or above) another of its row."""

    left: str
    relation: str
    right: str

    def holds(self, rows: Rows) -> "NDArray":
        return ~_BROKEN_BY[self.relation](rows.numbers(self.left), rows.numbers(self.right))  # nothing breaks with NaN

    def written(self) -> dict[str, Any]:
        return {"rule": str(self)}

    def __str__(self) -> str:
        return f"{_quoted(self.left)} {self.relation} {_quoted(self.right)}"


@dataclasses.dataclass(frozen=True)
class Implication:
    """Where all conditions hold, a cell is within bounds or one of some values; without a condition, always."""

    when: tuple[Condition, ...]
    then: Condition

    def holds(self, rows: Rows) -> "NDArray":
        import numpy as np

        kept = self.then.holds(rows) | np.isnan(rows.numbers(self.then.column))
        for condition in self.when:
            kept |= ~condition.holds(rows)
        return kept

    def written(self) -> dict[str, Any]:
        values = {"values": list(self.then.values)} if self.then.values else {}
        when = {condition.column: condition.written() for condition in self.when}
        return {"when": when, "column": self.then.column, **self.then.bounds(), **values}

    def __str__(self) -> str:
        return f"{self.then} when {' and '.join(map(str, self.when))}" if self.when else f"{self.then}, its bounds"


@dataclasses.dataclass(frozen=True)
class Combination:
    """The cells of some columns go together in listed ways only."""

    columns: tuple[str, ...]
    allowed: tuple[tuple[Any, ...], ...]

    def holds(self, rows: Rows) -> "NDArray":
        """One number a combination, each cell a digit: its place among the column's allowed values."""
        import numpy as np

        listed = np.array(
            [[rows.number(*pair) for pair in zip(self.columns, row, strict=True)] for row in self.allowed]
        )
        listed = listed[~np.isnan(listed).any(axis=1)]
        cells = np.stack([rows.numbers(name) for name in self.columns])
        gone = np.asarray(np.isnan(cells).any(axis=0))
        if not len(listed):
            return gone
        found, wanted, known = np.zeros(len(gone), np.int64), np.zeros(len(listed), np.int64), ~gone
        for column, own in zip(cells, listed.T, strict=True):
            values, digit = np.unique(own, return_inverse=True)
            place = np.minimum(np.searchsorted(values, column), len(values) - 1)
            known &= values[place] == column
            # Renumbered at every digit, so that no number of columns is too many.
            steps, wanted = np.unique(wanted * len(values) + digit, return_inverse=True)
            found = found * len(values) + place
            at = np.minimum(np.searchsorted(steps, found), len(steps) - 1)
            known &= steps[at] == found
            found = at
        return known | gone

    def written(self) -> dict[str, Any]:
        return {"columns": list(self.columns), "allowed": [list(row) for row in self.allowed]}

    def __str__(self) -> str:
        return f"{', '.join(map(_quoted, self.columns))} among {len(self.allowed)} combinations"


@dataclasses.dataclass(frozen=True)
class Sum:
    """One number is the sum of others, added from left to right, to within a tolerance."""

    total: str
    parts: tuple[str, ...]
    tolerance: float = 0.0

    def enforced(self, rows: Rows) -> "NDArray":
        """The totals, computed where the drawn ones are off; a missing one stays so."""
        import numpy as np

        drawn, made = rows.numbers(self.total), self._made(rows)
        keep = np.isnan(drawn) | np.isnan(made) | (np.abs(drawn - made) <= self.tolerance)
        return np.where(keep, drawn, made)

    def holds(self, rows: Rows) -> "NDArray":
        import numpy as np

        total, made = rows.numbers(self.total), self._made(rows)
        return np.isnan(total) | np.isnan(made) | (np.abs(total - made) <= self.tolerance)

    def _made(self, rows: Rows) -> "NDArray":
        made = rows.numbers(self.parts[0])
        for name in self.parts[1:]:
            made = made + rows.numbers(name)
        return made

    def written(self) -> dict[str, Any]:
        rule = f"{_quoted(self.total)} = {' + '.join(map(_quoted, self.parts))}"
        return {"rule": rule, "tolerance": self.tolerance} if self.tolerance else {"rule": rule}

    def __str__(self) -> str:
        return self.written()["rule"] + (f", to within {self.tolerance:g}" if self.tolerance else "")


Constraint = Inequality | Implication | Combination | Sum
Rule = Constraint | Condition


def sums(constraints: Iterable[Constraint]) -> list[Sum]:
    """The sums, those whose totals are parts of others first.

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


def rules(plan: Plan) -> list[Constraint]:
    """All that is to be checked: the constraints, and the bounds of totals, which are computed."""
    bounded = []
    for each in sums(plan.constraints):
        column = plan[each.total]
        if column.low is not None or column.high is not None:
            bounded.append(Implication((), Condition(each.total, low=column.low, high=column.high)))
    return [*plan.constraints, *bounded]


# Reading ------------------------------------------------------------------------------------------------------------


def read(written: Any, plan: Plan) -> Constraint:
    """A constraint from its written form: a rule as text, or a table of keys.

    Raises:
        ConstraintError: It is none, or can never hold. Errors of `plan` about a name or a value pass through.
    """
    if isinstance(written, Constraint):
        written = written.written()
    table = {"rule": written} if isinstance(written, str) else written
    if not isinstance(table, Mapping) or not any(set(table) <= form for form in _FORMS):
        shown = ", ".join(map(str, table)) if isinstance(table, Mapping) else _show(table)
        raise ConstraintError(f"expected {_HOW}; got {shown}.")
    if "rule" in table:
        return _read_rule(table, plan)
    if "allowed" in table and "columns" in table:
        return _read_combination(table, plan)
    if "column" in table and isinstance(table.get("when"), Mapping) and table["when"]:
        return _read_implication(table, plan)
    missing = "to bound a column in every row, give it low and high there" if "column" in table else "a key is missing"
    raise ConstraintError(f"expected {_HOW}; {missing}.")


def check_together(constraints: Sequence[Constraint], plan: Plan) -> None:
    """Refuses constraints that contradict each other: totals that are parts of themselves, and a > b > a."""
    sums(constraints)
    above: dict[tuple[str, str], bool] = {}  # is the first never below the second, and is it strictly above?
    for each in constraints:
        if isinstance(each, Inequality) and not (plan[each.left].nullable or plan[each.right].nullable):
            pair = (each.left, each.right) if each.relation[0] == ">" else (each.right, each.left)
            above[pair] = above.get(pair, False) or len(each.relation) == 1
    names = {name for pair in above for name in pair}
    for middle in names:
        for first in names:
            for last in names:
                if (first, middle) in above and (middle, last) in above:
                    strict = above[first, middle] or above[middle, last]
                    above[first, last] = above.get((first, last), False) or strict
    for name in sorted(names):
        if above.get((name, name)):
            raise ConstraintError(f"expected inequalities that can hold together, but they put {name!r} above itself.")


def read_where(where: Mapping[str, Any] | None, plan: Plan, labels: Mapping[str, Sequence[str]]) -> list[Condition]:
    """The conditions that sampled rows are to meet.

    Args:
        where: For each column a value, a pair (low, high) of numbers or instants in which None is open, several
            categories, or None for a missing cell.
        labels: The categories that the model knows.
    """
    if where is not None and not isinstance(where, Mapping):
        raise ConstraintError(f'where: expected a dictionary such as {{"state": "CA"}}, got {type(where).__name__}.')
    found = []
    for name, value in (where or {}).items():
        try:
            condition = _read_condition(plan, name, value)
            unknown = [v for v in condition.values if isinstance(v, str) and v not in labels.get(name, (v,))]
            if unknown:
                raise ConstraintError(f"expected {name!r} to be a category that the model knows, got {unknown[0]!r}.")
        except ValueError as error:
            raise ConstraintError(f"where: {error}") from None
        found.append(condition)
    return found


def where_from_text(pairs: Iterable[str], plan: Plan) -> dict[str, Any]:
    """`where` from texts such as state=CA, age=30..40, age=..40 and income= (missing)."""
    where: dict[str, Any] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or name in where:
            wrong = f"{name!r} twice" if equals else repr(pair)
            raise ConstraintError(
                f"where: expected each column once, as column=value or column=low..high, got {wrong}."
            )
        try:
            numeric = _column(plan, name).is_numeric
        except ValueError as error:
            raise ConstraintError(f"where: {error}") from None
        if not text:
            where[name] = None
        elif numeric and ".." in text:
            low, _, high = text.partition("..")
            where[name] = (_literal(low), _literal(high))
        else:
            where[name] = _literal(text) if numeric else text
    return where


def _literal(text: str) -> Any:
    """A number where the text is one, nothing where it is empty; what else it may be is decided by the kind."""
    for reader in (int, float):
        try:
            return reader(text)
        except ValueError:
            continue
    return text.strip() or None


def _read_rule(table: Mapping[str, Any], plan: Plan) -> Constraint:
    rule = table["rule"]
    tokens = _tokens(rule) if isinstance(rule, str) else []
    names, signs = [text for text, sign in tokens[::2] if not sign], [text for text, sign in tokens[1::2] if sign]
    if len(tokens) < 3 or len(names) != len(signs) + 1 or len(names) + len(signs) != len(tokens):
        raise ConstraintError(f"expected {_HOW}; got {_show(rule)}.")
    if signs[0] in _BROKEN_BY and len(signs) == 1 and "tolerance" not in table:
        return _read_inequality(Inequality(names[0], signs[0], names[1]), plan)
    if signs[0] in ("=", "==") and all(sign == "+" for sign in signs[1:]):
        return _read_sum(Sum(names[0], tuple(names[1:]), table.get("tolerance", 0.0)), plan)
    raise ConstraintError(f"expected {_HOW}; got {_show(rule)}.")


def _tokens(rule: str) -> list[tuple[str, bool]]:
    """Names and signs, and whether each is a sign."""
    tokens, place, end = [], 0, len(rule.rstrip())
    while place < end:
        match = _TOKEN.match(rule, place)
        if match is None:  # a quote without its other half
            return []
        double, single, sign, bare = match.groups()
        name = next((text for text in (double, single) if text is not None), bare)
        tokens.append((sign, True) if sign else (name if bare is None else bare.strip(), False))
        place = match.end()
    return tokens


def _read_inequality(made: Inequality, plan: Plan) -> Inequality:
    for name in (made.left, made.right):
        if name not in plan.names and not isinstance(_literal(name), str):
            raise ConstraintError(f"{made}: expected two columns, got {name!r}. To bound one, give it low or high.")
    left, right = _column(plan, made.left), _column(plan, made.right)
    if made.left == made.right or not (left.is_numeric and right.is_numeric):
        fact = "one column twice" if made.left == made.right else f"the kinds {left.kind!r} and {right.kind!r}"
        raise ConstraintError(f"{made}: expected two columns of numbers or two of instants, got {fact}.")
    if (left.kind == "datetime") != (right.kind == "datetime"):
        fact = f"the kinds {left.kind!r} and {right.kind!r}"
        raise ConstraintError(f"{made}: expected two columns of numbers or two of instants, got {fact}.")
    upper, lower = (left, right) if made.relation[0] == ">" else (right, left)
    most, least = upper.bounds[1], lower.bounds[0]
    if left.nullable or right.nullable or most is None or least is None:
        return made
    if most < least or (most == least and len(made.relation) == 1):
        raise ConstraintError(f"{made}: expected a rule that can hold, but the bounds of the columns forbid it.")
    return made


def _read_sum(made: Sum, plan: Plan) -> Sum:
    columns = {name: _column(plan, name) for name in (made.total, *made.parts)}
    for name, column in columns.items():
        if column.kind not in ("continuous", "integer"):
            raise ConstraintError(f"{made.total} = ...: expected columns of numbers, but {name!r} is {column.kind}.")
        if columns[made.total].kind == "integer" != column.kind:
            fact = f"but {made.total!r} is integer and {name!r} is not"
            raise ConstraintError(f"{made.total} = ...: expected whole parts of a whole total, {fact}.")
    if len(columns) <= len(made.parts):
        raise ConstraintError(f"{made.total} = ...: expected every column once, got one twice.")
    tolerance = made.tolerance
    if isinstance(tolerance, bool) or not isinstance(tolerance, int | float) or not 0 <= tolerance < math.inf:
        raise ConstraintError(f"{made.total} = ...: expected tolerance to be a number >= 0, got {_show(tolerance)}.")
    made = dataclasses.replace(made, tolerance=float(tolerance))
    if not any(column.nullable for column in columns.values()):
        low, high = columns[made.total].bounds
        lows, highs = zip(*(columns[name].bounds for name in made.parts), strict=True)
        too_high = high is not None and None not in lows and sum(lows) - tolerance > high
        too_low = low is not None and None not in highs and sum(highs) + tolerance < low
        if too_high or too_low:
            raise ConstraintError(f"{made}: expected a rule that can hold, but the bounds of the columns forbid it.")
    return made


def _read_implication(table: Mapping[str, Any], plan: Plan) -> Implication:
    found = {name: _read_condition(plan, name, value) for name, value in table["when"].items()}
    when = tuple(found[name] for name in plan.names if name in found)  # TOML may have changed their order
    name = table["column"]
    column = _column(plan, name)
    if name in table["when"]:
        raise ConstraintError(f"when: expected other columns than {name!r}, which the rule is about.")
    keys = ("low", "high") if column.is_numeric else ("values",)
    given = [key for key in ("low", "high", "values") if table.get(key) is not None]
    if not given or not set(given) <= set(keys):
        wanted, got = " or ".join(keys), ", ".join(given) or "none"
        raise ConstraintError(f"column {name!r}: expected {wanted} for kind {column.kind!r}, got {got}.")
    if column.is_numeric:
        return Implication(when, _within(name, column, table.get("low"), table.get("high")))
    return Implication(when, _one_of(name, column, table["values"]))


def _read_combination(table: Mapping[str, Any], plan: Plan) -> Combination:
    names, allowed = table["columns"], table["allowed"]
    if not _is_list(names) or len(names) < 2 or len(set(map(str, names))) < len(names):
        raise ConstraintError(f"columns: expected a list of two or more columns, each once, got {_show(names)}.")
    columns = [_column(plan, name) for name in names]
    for name, column in zip(names, columns, strict=True):
        if column.kind not in ("categorical", "boolean", "integer"):
            raise ConstraintError(f"columns: expected categories, truth values or whole numbers; {name!r} has others.")
    if not _is_list(allowed) or not allowed or not all(_is_list(row) and len(row) == len(names) for row in allowed):
        raise ConstraintError(f"allowed: expected a list of lists, each of {len(names)} values, got another shape.")
    rows = []
    for row in allowed:
        cells = zip(names, columns, row, strict=True)
        rows.append(tuple(column.canonical(f"allowed: expected {name!r}", value) for name, column, value in cells))
    return Combination(tuple(names), tuple(dict.fromkeys(rows)))


def _read_condition(plan: Plan, name: str, value: Any) -> Condition:
    column = _column(plan, name)
    if value is None:
        if not column.nullable:
            raise ConstraintError(
                f"column {name!r}: expected a value, got none, and the schema says nothing is missing."
            )
        return Condition(name, missing=True)
    if not column.is_numeric:
        return _one_of(name, column, sorted(value, key=str) if isinstance(value, set | frozenset) else value)
    if isinstance(value, Mapping):
        if not set(value) <= {"low", "high"}:
            raise ConstraintError(f"column {name!r}: expected low and high, got {', '.join(map(str, value))}.")
        value = (value.get("low"), value.get("high"))
    if not _is_list(value):
        value = (value, value)
    if len(value) != 2 or (value[0] is None and value[1] is None):
        raise ConstraintError(f"column {name!r}: expected a value or a pair of low and high, got {_show(value)}.")
    return _within(name, column, *value)


def _within(name: str, column: Facts, low: Any, high: Any) -> Condition:
    low, high = (
        None if bound is None else column.canonical(f"column {name!r}: expected {key}", bound)
        for key, bound in (("low", low), ("high", high))
    )
    made = Condition(name, low=low, high=high)
    if low is not None and high is not None and low > high:
        raise ConstraintError(f"column {name!r}: expected low <= high, got {_show(low)} and {_show(high)}.")
    least, most = column.bounds
    over = low is not None and most is not None and on_table_scale(low) > most
    under = high is not None and least is not None and on_table_scale(high) < least
    if over or under:
        raise ConstraintError(f"{made}: expected a rule that can hold, but the column's own bounds forbid it.")
    return made


def _one_of(name: str, column: Facts, values: Any) -> Condition:
    listed = list(values) if _is_list(values) else [values]
    if not listed:
        raise ConstraintError(f"column {name!r}: expected at least one value, got none.")
    rule = f"column {name!r}: expected a value"
    return Condition(name, tuple(dict.fromkeys(column.canonical(rule, value) for value in listed)))


def _column(plan: Plan, name: Any) -> Facts:
    if name == plan.unit or (isinstance(name, str) and name in plan.ignore):
        role = "the unit" if name == plan.unit else "ignored"
        raise ConstraintError(f"expected a column of the synthetic table, but {name!r} is {role}.")
    return plan[name]


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple)


def _quoted(name: str) -> str:
    """A name as a rule spells it."""
    if _BARE.fullmatch(name):
        return name
    return f"'{name}'" if '"' in name else f'"{name}"'


def _show(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime.datetime):
        return value.date().isoformat() if value.time() == datetime.time() else value.isoformat()
    text = f"{value:g}" if isinstance(value, float) and float(f"{value:g}") == value else repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
