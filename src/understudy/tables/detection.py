"""Detection: what the dialect of a text file seems to be, from a look at the file.

The one rule: detection serves a draft and nothing else. It reads outside the budget, so what it returns are marks and
an encoding, never a cell; and since it is a guess, no odd byte makes it fail.

The delimiter is the mark that cuts the first rows into equally many fields, the header included. Numbers then say which
decimal mark they have, and a first line with numbers in it is no header.
"""

import codecs
import csv
import io
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from understudy.tables import packed

_HEAD = 1 << 20  # The dialect is looked for in so many characters.
_ROWS = 500
_LONGEST_NUMBER = 40
_DELIMITERS = "\t;|,"  # A mark that is rarely part of a number or a text comes first.
_COMMENTS = ("#", "%", "//", "--", "sep=")  # The last one is Excel's way to state the delimiter.
_GROUPED = r"[+-]?[1-9]\d{{0,2}}(?:{0}\d{{3}})+"
_NUMBER = re.compile(r"[+-]?(\d+([.,]\d*)?|[.,]\d+)([eE][+-]?\d+)?\s*%?")
_DATE = re.compile(r"\d{1,4}([-./])\d{1,2}\1\d{1,4}([ T]\d{1,2}:\d{2}.*)?")
_CONTROL = re.compile(r"[\x00\x02-\x08\x0b\x0e-\x19\x7f]")  # No text holds them; 1 and 28 to 31 are delimiters.
_CURRENCIES = (
    *(
        "$",
        "€",
        "£",
        "¥",
        "₹",
        "₽",
        "₺",
        "₩",
        "₪",
        "₫",
        "฿",
        "US$",
        "R$",
        "C$",
        "A$",
        "EUR",
        "USD",
        "GBP",
        "CHF",
        "JPY",
    ),
    *("CAD", "AUD", "INR", "CNY", "SEK", "NOK", "DKK", "PLN", "CZK", "HUF", "kr", "zł", "Kč", "Ft", "Fr.", "Rs", "Rs."),
)
"""Marks of amounts that are known to a draft."""
_AMOUNT = re.compile(
    r"[+-]?\s*(?P<before>[^\d\s+-]{1,3})?\s*[+-]?\d[\d.,'’\s]*?\s*(?P<behind>[^\d\s.,'’+-][^\d\s+-]{0,2})?"
)
_YEAR = re.compile(r"(18|19|20)\d\d")


def detect(path: Path) -> dict[str, Any]:
    """The keys of the dialect that a file seems to have; none if it is empty or no text.

    Raises:
        OSError, Damaged: The file cannot be read.
    """
    content = packed.unpacked(path)
    encoding = _encoding(content)
    text = codecs.decode(content[: 4 * _HEAD], encoding, "replace").removeprefix("\ufeff")[:_HEAD]
    found: dict[str, Any] = {"encoding": encoding}
    if _CONTROL.search(text) or not text.strip():
        return {}
    lines = _whole_lines(text)
    comment = _comment(lines)
    if comment:
        found["comment"] = comment
        text = "\n".join(line for line in lines if not line.startswith(comment))
    else:
        text = "\n".join(lines)
    found |= _marks(text, tab=packed.is_tabbed(path))
    rows = _rows(text, found["delimiter"], found["quote"])
    currency = _currency(rows)
    rows = [[_bare(field, currency) for field in row] for row in rows] if currency else rows
    found |= {"currency": currency, "header": _has_header(rows)}
    return found | _number_marks(rows[1:] if found["header"] else rows, found["delimiter"])


# Bytes --------------------------------------------------------------------------------------------------------------


def _encoding(content: bytes) -> str:
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    head = content[:4096]
    if head.count(0) > len(head) // 4:  # text in two bytes a character, without a byte order mark
        return "utf-16-le" if head[1::2].count(0) > head[::2].count(0) else "utf-16-be"
    try:
        codecs.decode(content, "utf-8")
    except UnicodeDecodeError:
        pass
    else:
        return "utf-8"
    lossy = content[:_HEAD].decode("utf-8", "replace")
    wrong = lossy.count("\ufffd")
    if len(lossy) - len(lossy.encode("ascii", "ignore")) > 10 * wrong > 0:
        return "utf-8"  # and damaged, which the reader will say
    # Latin-1 has control characters where Windows has quotes, dashes and the euro sign.
    return "windows-1252" if re.search(rb"[\x80-\x9f]", content) else "latin-1"


def _whole_lines(text: str) -> list[str]:
    """The lines of the text; the last one is left out if it is only the beginning of one."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return lines[:-1] if len(text) >= _HEAD and len(lines) > 1 else lines


def _comment(lines: Sequence[str]) -> str:
    """How the lines above the table begin, if they do not look like the table."""
    for mark in _COMMENTS:
        above = 0
        while above < len(lines) and lines[above].startswith(mark):
            above += 1
        if not above or not any(line.strip() for line in lines[above:]):
            continue
        below = next(line for line in lines[above:] if line.strip())
        is_alike = any(lines[0].count(each) == below.count(each) > 0 for each in _DELIMITERS)
        if above == 1 and is_alike and mark != "sep=":
            return ""  # names, the first of which happens to begin with the mark
        return mark
    return ""


# Marks between fields -----------------------------------------------------------------------------------------------


def _marks(text: str, *, tab: bool) -> dict[str, str]:
    """Delimiter and quote."""
    quote = '"'
    if '"' not in text and len(re.findall(r"(?:^|[\t;|,])'[^'\n]*'(?=$|[\t;|,])", text, re.MULTILINE)) > 1:
        quote = "'"
    best, delimiter = (0.0, 0), ","
    for mark in _DELIMITERS:
        widths = [len(row) for row in _rows(text, mark, quote)]
        if not widths or widths[0] < 2:
            continue
        share = Counter(widths)[widths[0]] / len(widths)
        score = (round(share, 1), 1 if share >= 0.9 else widths[0])
        if score > best:
            best, delimiter = score, mark
    if quote == '"' and not _is_quoting(text, delimiter):
        quote = ""
    # A tab is what the ending of a .tsv file says, so it need not be said again.
    return {"delimiter": "," if delimiter == "\t" and tab else delimiter, "quote": quote}


def _is_quoting(text: str, delimiter: str) -> bool:
    """Whether quotes stand around fields; False if there are some and all of them stand inside."""
    if '"' not in text:
        return True
    mark = re.escape(delimiter)
    return re.search(rf'(?:^|{mark})"(?:[^"]|"")*"(?=$|{mark})', text, re.MULTILINE) is not None


def _rows(text: str, delimiter: str, quote: str) -> list[list[str]]:
    """The fields of the first rows that are not blank."""
    quoting: dict[str, Any] = {"quotechar": quote} if quote else {"quoting": csv.QUOTE_NONE}
    rows: list[list[str]] = []
    try:
        for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, **quoting):
            if any(row):
                rows.append([field.strip() for field in row])
            if len(rows) > _ROWS:
                break
    except csv.Error:  # a field without end
        pass
    return rows


def _has_header(rows: Sequence[Sequence[str]]) -> bool:
    """False if the first row holds numbers or dates above numbers or dates; years may be names."""
    if len(rows) < 2:
        return not rows or not any(_is_value(field) for field in rows[0])
    texts = [(place, field) for place, field in enumerate(rows[0]) if field and not _is_value(field)]
    others = [row for row in rows[1:] if row != rows[0]]
    again = sum(any(place < len(row) and row[place] == field for row in others) for place, field in texts)
    if again > len(texts) / 2:  # a name is not also a value
        return False
    values = [(place, field) for place, field in enumerate(rows[0]) if _is_value(field)]
    if not values or (all(_YEAR.fullmatch(field) for _, field in values) and len(values) < len(rows[0])):
        return True
    below = [[row[place] for row in rows[1:] if place < len(row) and row[place]] for place, _ in values]
    return not any(fields and sum(map(_is_value, fields)) > len(fields) / 2 for fields in below)


def _is_value(field: str) -> bool:
    return _NUMBER.fullmatch(field) is not None or _DATE.fullmatch(field) is not None


# Marks of amounts ---------------------------------------------------------------------------------------------------


def _currency(rows: Sequence[Sequence[str]]) -> str:
    """The mark that most numbers of some column have before or behind them, if it is a known one; else nothing."""
    numbers, marked = Counter[int](), Counter[tuple[int, str]]()
    for row in rows:
        for place, field in enumerate(row):
            if any(letter.isdigit() for letter in field[:_LONGEST_NUMBER]):
                numbers[place] += 1
                mark = _currency_of(field)
                marked[place, mark] += bool(mark)
    amounts = Counter[str]()
    for (place, mark), count in marked.items():
        if 2 * count > numbers[place]:
            amounts[mark] += count
    return amounts.most_common(1)[0][0] if amounts else ""


def _currency_of(field: str) -> str:
    found = _AMOUNT.fullmatch(field) if len(field) <= _LONGEST_NUMBER else None
    marks = [mark for mark in found.group("before", "behind") if mark] if found else []
    return marks[0] if len(marks) == 1 and marks[0] in _CURRENCIES else ""


def _bare(field: str, currency: str) -> str:
    """A field without the mark, if it is an amount."""
    return (
        re.sub(r"^([+-]?)\s+", r"\1", field.replace(currency, "").strip()) if _currency_of(field) == currency else field
    )


# Marks in numbers ---------------------------------------------------------------------------------------------------


def _number_marks(rows: Sequence[Sequence[str]], delimiter: str) -> dict[str, str]:
    """Decimal and thousands mark, as far as the numbers show them."""
    columns: dict[int, list[str]] = {}
    for row in rows:
        for place, field in enumerate(row):
            if 0 < len(field) <= _LONGEST_NUMBER:
                columns.setdefault(place, []).append(field.rstrip("% "))
    fields = [field for column in columns.values() for field in column]
    comma = sum(_shows_decimal(field, ",", ".") for field in fields)
    point = sum(_shows_decimal(field, ".", ",") for field in fields)
    if not comma and not point and delimiter == ";":  # 1,234 in such a file is rather a fraction
        comma = sum(re.fullmatch(r"[+-]?\d+,\d+", field) is not None for field in fields)
    decimal = "," if comma > point else "."
    for thousands in (".", ",", "'", "’", "\u00a0", "\u202f", " "):
        if thousands != decimal and any(_are_grouped(column, thousands, decimal) for column in columns.values()):
            return {"decimal": decimal, "thousands": thousands}
    return {"decimal": decimal}


def _shows_decimal(field: str, mark: str, other: str) -> bool:
    """Whether a field is a number in which the mark can only be the decimal one: no group of three digits follows."""
    decimal, group = re.escape(mark), re.escape(other)
    if re.fullmatch(rf"[+-]?\d{{1,3}}(?:{group}\d{{3}})+{decimal}\d+", field):
        return True
    found = re.fullmatch(rf"[+-]?(\d*){decimal}(\d+)(?:[eE][+-]?\d+)?", field)
    return found is not None and (len(found[2]) != 3 or not 1 <= len(found[1]) <= 3 or found[1].startswith("0"))


def _are_grouped(column: Sequence[str], thousands: str, decimal: str) -> bool:
    """Whether some number of a column has groups of digits and no number of it contradicts that."""
    fraction = rf"(?:{re.escape(decimal)}\d+)?"
    grouped = re.compile(_GROUPED.format(re.escape(thousands)) + fraction)
    plain = re.compile(rf"[+-]?\d{{1,3}}{fraction}")
    some = [field for field in column if any(letter.isdigit() for letter in field)]
    found = [field for field in some if grouped.fullmatch(field)]
    if not found:
        return False
    rest = sum(plain.fullmatch(field) is None and grouped.fullmatch(field) is None for field in some)
    return rest <= len(some) // 10
