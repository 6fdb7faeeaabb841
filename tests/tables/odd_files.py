"""Odd files: about a hundred ways in which the file that somebody has is not the table of the schema.

Each is made of the same people, with a cell that must be seen nowhere, and none of them may be fitted.
"""

import bz2
import gzip
import io
import lzma
import sqlite3
import tarfile
import zipfile

import polars as pl
import zstandard

from bad_input import GOOD, HEADER, LAST, ROWS, SECRET

BELOW = GOOD.removeprefix(HEADER)
FRAME = pl.DataFrame(
    {"name": ["ann", SECRET] * 50, "age": list(range(100)), "income": [float(number) for number in range(100)]}
)


def odd_files():
    """By what is odd: the name of the file, its content, and the [file] table of the schema."""
    cases = {}
    for part in (_fields, _encodings, _headers, _cells, _quotes, _packed, _foreign, _typed, _endings, _settings):
        for what, name, content, *settings in part():
            assert what not in cases, what
            content = content.encode() if isinstance(content, str) else content
            cases[what] = (name, content, settings[0] if settings else "")
    return cases


def _fields():
    for what, mark in {
        "semicolons": ";",
        "tabs": "\t",
        "bars": "|",
        "carets": "^",
        "colons": ":",
        "spaces": " ",
    }.items():
        yield what, "x.csv", GOOD.replace(",", mark)
        yield f"{what} below the names", "x.csv", HEADER + BELOW.replace(",", mark)
    yield "two marks", "x.csv", GOOD.replace(",", "||")
    yield "fixed widths", "x.txt", "".join(f"{line:<60}\n" for line in GOOD.replace(",", "   ").splitlines())
    yield "commas in a tab-separated file", "x.tsv", GOOD
    yield "one column", "x.csv", "name\n" + "ann\n" * 50
    yield "a name for every row", "x.csv", GOOD.replace(",", "\n")


def _encodings():
    accented = GOOD.replace("ann", "Ännchen")
    for encoding in ("latin-1", "cp1252", "cp437", "mac-roman", "utf-16-le", "utf-16-be", "utf-32", "cp037"):
        yield f"text in {encoding}", "x.csv", accented.encode(encoding)
    for encoding in ("shift-jis", "gb18030", "euc-kr", "koi8-r"):
        yield (
            f"text in {encoding}",
            "x.csv",
            GOOD.replace("ann", "語" if encoding != "koi8-r" else "Анна").encode(encoding),
        )
    yield "cut UTF-16", "x.csv", accented.encode("utf-16")[:-1]
    yield "a cut letter", "x.csv", GOOD.encode() + "é".encode()[:1] + b",1,2\n"
    yield "an overlong letter", "x.csv", GOOD.encode() + b"\xc0\xaf,1,2\n"
    yield "half of a pair", "x.csv", GOOD.encode() + b"\xed\xa0\x80,1,2\n"


def _headers():
    yield "nothing", "x.csv", ""
    yield "a byte order mark alone", "x.csv", b"\xef\xbb\xbf"
    yield "blank lines", "x.csv", "\n\n\n"
    yield "space alone", "x.csv", "   \n  \n"
    yield "names alone", "x.csv", HEADER
    yield "names without a line end", "x.csv", HEADER.strip()
    yield "no names", "x.csv", BELOW
    yield "a person above", "x.csv", LAST + "\n" + BELOW
    yield "a title above", "x.csv", f"Export for {SECRET}\n" + GOOD
    yield "a blank line above", "x.csv", "\n" + GOOD
    yield "Excel's mark above", "x.csv", "sep=,\n" + GOOD
    yield "a comment above", "x.csv", f"# made for {SECRET}\n" + GOOD
    yield "names in capitals", "x.csv", GOOD.replace(HEADER, HEADER.upper())
    yield "names with space", "x.csv", GOOD.replace(HEADER, HEADER.replace(",", " , "))
    yield "a missing column", "x.csv", GOOD.replace("age", "alter", 1)
    yield "one column more", "x.csv", GOOD.replace("\n", ",1\n").replace(",1", ",shoe", 1)
    yield "a comma behind each line", "x.csv", GOOD.replace("\n", ",\n")
    yield "a column twice", "x.csv", "name,age,age,income\n" + BELOW.replace(",", ",1,", 1)
    yield "old line ends", "x.csv", GOOD.replace("\n", "\r")
    yield "names in two lines", "x.csv", "name,\nage,income\n" + BELOW


def _cells():
    yield "no number", "x.csv", HEADER + "".join(f"ann,old {SECRET},1\n" for _ in ROWS)
    yield "decimal commas", "x.csv", HEADER + f'{SECRET},30,"1,5"\n' + 'ann,30,"2,5"\n' * 9
    yield "money", "x.csv", HEADER + "ann,30,1.50 €\n" * 9
    yield "grouped digits", "x.csv", HEADER + 'ann,30,"1,500"\n' * 9
    yield "NA everywhere", "x.csv", HEADER + "ann,NA,1\n" * 9
    yield "a column without a cell", "x.csv", HEADER + f"{SECRET},30,\n" * 9
    yield "rows that are too short", "x.csv", HEADER + f"{SECRET},30\n" * 9
    yield "no cell at all", "x.csv", HEADER + ",,\n" * 9
    yield "blank rows", "x.csv", HEADER + "\n" * 9


def _quotes():
    strays = {
        "a stray quote": f'{SECRET} 5" disk,1,2\n',
        "two rows with a stray quote": f'"{SECRET},1,2\nann,1,2\n"{SECRET},3,4\n',
        "text behind a quote": f'"{SECRET}" jr,1,2\n',
        "a space before a quote": f'ann, "1",2\n{SECRET},1,2\n',
        "a backslash before a quote": f'"{SECRET} \\" x",1,2\n',
        "a quote without end": f'"{SECRET},1,2\n',
    }
    for what, rows in strays.items():
        yield what, "x.csv", GOOD + rows + BELOW
    yield "quotes around lines", "x.csv", "".join(f'"{line}"\n' for line in GOOD.splitlines())
    yield "a quote without end in the names", "x.csv", '"' + GOOD


def _packed():
    plain = GOOD.encode()
    for name, pack in {"x.csv.gz": gzip.compress, "x.csv.zst": zstandard.compress}.items():
        whole = pack(plain)
        yield f"cut {name}", name, whole[:-9]
        yield f"changed {name}", name, whole[:40] + bytes(each ^ 255 for each in whole[40:60]) + whole[60:]
        yield f"{name} packed twice", name, pack(whole)
        yield f"nothing in {name}", name, pack(b"")
        yield f"semicolons in {name}", name, pack(plain.replace(b",", b";"))
    yield "bzip2", "x.csv.gz", bz2.compress(plain)
    yield "xz", "x.csv", lzma.compress(plain)
    yield "zip", "x.csv", zipped({"people.csv": plain})
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w:gz") as tar:
        member = tarfile.TarInfo("people.csv")
        member.size = len(plain)
        tar.addfile(member, io.BytesIO(plain))
    yield "tar", "x.csv.gz", archive.getvalue()


def zipped(members):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, member in members.items():
            archive.writestr(name, member)
    return content.getvalue()


def _foreign():
    yield "HTML", "x.csv", f"<html><body><table><tr><td>{SECRET}</td></tr></table></body></html>\n"
    yield "JSON", "x.csv", f'[{{"name": "{SECRET}", "age": 3, "income": 1}}]\n'
    yield "XML", "x.csv", f'<?xml version="1.0"?>\n<people><name>{SECRET}</name></people>\n'
    yield "SQL", "x.csv", f"INSERT INTO people VALUES ('{SECRET}', 3, 1);\n"
    yield "PDF", "x.csv", f"%PDF-1.4\n%\xe2\xe3\n1 0 obj {SECRET}\n".encode("latin-1")
    yield "a picture", "x.csv", b"\x89PNG\r\n\x1a\n" + bytes(range(256)) + SECRET.encode()
    yield "zeros", "x.csv", bytes(5000)
    yield "noise", "x.csv", bytes(number * 167 % 256 for number in range(5000))
    connection = sqlite3.connect(":memory:")
    connection.execute(f"CREATE TABLE people AS SELECT '{SECRET}' AS name, 3 AS age, 1 AS income")
    yield "a database", "x.csv", connection.serialize()
    connection.close()
    content = io.BytesIO()
    FRAME.write_parquet(content)
    yield "Parquet called CSV", "x.csv", content.getvalue()


def _typed():
    """Files of other formats that are empty, something else, or cut."""
    parquet, arrow = io.BytesIO(), io.BytesIO()
    FRAME.write_parquet(parquet)
    FRAME.write_ipc(arrow)
    for ending in ("parquet", "feather", "arrow", "xlsx", "sav", "dta", "sas7bdat", "xpt"):
        yield f"nothing in .{ending}", f"x.{ending}", b""
        yield f"text in .{ending}", f"x.{ending}", GOOD
    yield "cut .parquet", "x.parquet", parquet.getvalue()[:-20]
    yield "cut .feather", "x.feather", arrow.getvalue()[: len(arrow.getvalue()) // 2]
    yield "a zip called .xlsx", "x.xlsx", zipped({"people.csv": GOOD})
    yield "an encrypted workbook", "x.xlsx", bytes.fromhex("d0cf11e0a1b11ae1") + bytes(600)


def _endings():
    for ending in (".xls", ".ods", ".docx", ".json", ".pkl", ".rds", ".zip", ".parquet.gz", ".csv.bz2", ".csv.bak", ""):
        yield f"the ending {ending or 'of none'}", f"x{ending}", GOOD


def _settings():
    """Sound files of which the schema says something else."""
    yield "another delimiter", "x.csv", GOOD.replace(",", "\t"), 'delimiter = ";"'
    yield "another encoding", "x.csv", GOOD.replace(",", ";"), 'delimiter = ";"\nencoding = "utf-16"'
    points = "name;age;income\n" + f"{SECRET};30;1.5\n" * 9
    yield "another decimal mark", "x.csv", points, 'delimiter = ";"\ndecimal = ","\nthousands = " "'
    yield "another quote", "x.csv", GOOD.replace("ann", f"'{SECRET}' jr"), 'quote = "\'"'
    yield "names where none are said to be", "x.csv", GOOD, "header = false"
    yield "a comment that is every line", "x.csv", "".join(f"#{line}\n" for line in GOOD.splitlines()), 'comment = "#"'
    yield "an unknown encoding", "x.csv", GOOD, 'encoding = "klingon"'
    yield "a long delimiter", "x.csv", GOOD, 'delimiter = "::"'
    yield "an unknown key", "x.csv", GOOD, 'separator = ";"'
    yield "a mark that is both", "x.csv", GOOD, 'decimal = ","\nthousands = ","'
