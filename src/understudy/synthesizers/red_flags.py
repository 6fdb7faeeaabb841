"""Red flags: what a privacy officer would stop at, found before a row is read.

The one rule: a flag follows from public facts alone: the budget, the method, the seed, and the names and kinds of
columns. A column is judged by its name, never by its cells. `fit`, `plan`, the receipt and the report show the same
flags, and with `strict` a flag is a refusal.
"""

import math
import re
from collections.abc import Iterator, Sequence

from understudy.core.red_flag import RedFlag
from understudy.privacy.plan import Budget
from understudy.synthesizers.base import Method
from understudy.tables.column import Column
from understudy.tables.schema import Schema


def _listed(words: str) -> frozenset[str]:
    return frozenset(words.split())


LARGEST_EPSILON = 10.0
"""Above this, an attacker's odds may change by a factor of more than 22 000."""
_PEOPLE = _listed(
    "patient person customer user client subject pupil student employee participant respondent donor citizen insured "
    "policyholder member household account borrower tenant voter individual subscriber resident applicant"
)
_NUMBERING = _listed("id ids nr no num number key uuid guid pseudonym identifier")
_ALWAYS_A_UNIT = _listed("id pid uid ssn mrn userid patientid personid customerid clientid subjectid studentid")
_IDENTIFYING = _listed(
    "email mail phone telephone mobile fax surname forename firstname lastname fullname passport iban ssn mrn uuid "
    "guid address street"
)
_NAMING = _listed("first last full given family sur middle maiden birth")
_FREE_TEXT = _listed(
    "note notes comment comments remark remarks description text freetext narrative memo anamnesis letter"
)


class RedFlagError(ValueError):
    """A strict request has a red flag. Nothing was read or charged."""


def red_flags(
    schema: Schema,
    method: Method,
    budget: Budget,
    *,
    rows: float | None = None,
    seed: int | None = None,
) -> tuple[RedFlag, ...]:
    """The red flags of one fit, the gravest first.

    Args:
        rows: How many rows there are, as far as that is public: the schema's number, or a noisy count.
        seed: The seed of the noise, if it has one.
    """
    found = [
        *_seed(seed),
        *_standardised(method),
        *_epsilon(budget.epsilon),
        *_delta(budget.delta, rows or schema.rows),
        *_unit(schema),
        *_columns(schema),
    ]
    return tuple(found)


def refuse(flags: Sequence[RedFlag]) -> None:
    """Refuses a strict request that has red flags.

    Raises:
        RedFlagError: There is one; it names all of them and the first remedy.
    """
    if flags:
        more = f" Also: {', '.join(flag.name for flag in flags[1:])}." if len(flags) > 1 else ""
        raise RedFlagError(f"refused, because strict was asked for. {flags[0]}{more} Nothing was read or charged.")


def _seed(seed: int | None) -> Iterator[RedFlag]:
    if seed is not None:
        yield RedFlag(
            name="seed",
            message="the noise comes from a seed, and whoever knows the seed can subtract it.",
            remedy="Leave the seed out; keep the model if you need the same rows again.",
            severity="void",
        )


def _standardised(method: Method) -> Iterator[RedFlag]:
    if not method.encoding_share:
        yield RedFlag(
            name="standardised",
            message="columns are taken as standardised beforehand, which no budget covers.",
            remedy="Use a method that measures the columns itself.",
            severity="void",
        )


def _epsilon(epsilon: float) -> Iterator[RedFlag]:
    if epsilon > LARGEST_EPSILON:
        factor = f"{math.exp(epsilon):,.0f}" if epsilon < 25 else f"{math.exp(min(epsilon, 700)):.2g}"
        yield RedFlag(
            name="epsilon",
            message=f"epsilon = {epsilon:g} lets an attacker's odds that somebody is in the table change by a factor "
            f"of {factor}: a yes-or-no guess may be wrong as seldom as once in as many times.",
            remedy=f"Use epsilon of at most {LARGEST_EPSILON:g}; 1 is usual.",
            severity="serious",
        )


def _delta(delta: float, rows: float | None) -> Iterator[RedFlag]:
    if rows is not None and rows >= 1 and delta > 1 / rows:
        yield RedFlag(
            name="delta",
            message=f"delta = {delta:g} is above one over the number of rows, about {rows:.0f}: the definition then "
            "allows publishing somebody's row in full.",
            remedy=f"Use delta of at most {_below(1 / rows):g}.",
            severity="serious",
        )


def _below(number: float) -> float:
    """A power of ten, at most a tenth of a number."""
    return 10.0 ** math.floor(math.log10(number) - 1)


def _unit(schema: Schema) -> Iterator[RedFlag]:
    if schema.unit is not None or (name := _unit_like(schema)) is None:
        return
    yield RedFlag(
        name="unit",
        message=f"the schema names no unit, though {name!r} looks like one: each row is protected, and a person with "
        "several rows is not.",
        remedy=f"Set unit = {name!r} and max_rows_per_unit, which is 1 if one row is one person.",
        severity="serious",
    )


def _unit_like(schema: Schema) -> str | None:
    """The column whose name says that it tells people apart, read or ignored; None if there is none."""
    named = [column.name for column in schema if column.kind != "boolean" and column.values is None]
    found = [name for name in (*schema.ignore, *named) if _tells_people_apart(name)]
    exact = [name for name in found if set(_words(name)) & _PEOPLE]  # rather `patient_id` than `id`
    return (exact or found or [None])[0]


def _tells_people_apart(name: str) -> bool:
    words = _words(name)
    people, numbering = set(words) & _PEOPLE, set(words) & _NUMBERING
    return "".join(words) in _ALWAYS_A_UNIT or bool(people and numbering) or (len(words) == 1 and bool(people))


def _columns(schema: Schema) -> Iterator[RedFlag]:
    """Identifiers and free text among the columns; the one that is proposed as the unit has its own flag."""
    proposed = _unit_like(schema) if schema.unit is None else None
    named = [column for column in schema if column.name != proposed and column.values is None]
    for names, what, flag in (
        ([column.name for column in named if _identifies(column)], "looks like an identifier", "identifier"),
        ([column.name for column in named if _is_free_text(column)], "looks like free text", "free text"),
    ):
        if names:
            shown = ", ".join(map(repr, names[:3])) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
            them = "it" if len(names) == 1 else "them"
            yield RedFlag(
                name=flag,
                message=f"{shown} {what if len(names) == 1 else what.replace('looks', 'look')}, and nothing useful can "
                "be learned from that within a budget.",
                remedy=f"Put {them} under `ignore`.",
                severity="serious",
            )


def _identifies(column: Column) -> bool:
    words = _words(column.name)
    joined = "".join(words)
    if column.kind == "boolean" or not words:
        return False
    if _tells_people_apart(column.name) or words[-1] in ("id", "uuid", "guid") or joined in _IDENTIFYING:
        return True
    named = joined in ("name", "username") or (words[-1] == "name" and bool(set(words) & (_NAMING | _PEOPLE)))
    return column.kind == "categorical" and (named or bool(set(words) & _IDENTIFYING))


def _is_free_text(column: Column) -> bool:
    return column.kind == "categorical" and bool(set(_words(column.name)) & _FREE_TEXT)


def _words(name: str) -> list[str]:
    """The words of a name in small letters: `patientID`, `patient-id` and `Patient Id` have the same two."""
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[^\W\d_A-Z]+|\d+", name)]
