"""OpenML (https://www.openml.org): the cells of one of its data sets, as text.

The one rule: nothing here is trusted. Whoever asks for a data set checks what it holds.
"""

import csv
import http.client
import io
import json
import urllib.parse
import urllib.request

import polars as pl

from understudy.core.files import reason

API = "https://api.openml.org/api/v1/json/data/"
"""Where OpenML describes a data set; the description says where its file is."""
TIMEOUT_SECONDS = 60
"""How long to wait for OpenML before giving up."""


class OpenMLError(RuntimeError):
    """OpenML cannot be reached, or its answer is no description of a data set. The message is the reason alone."""


def fetch(number: int) -> str:
    """The ARFF text of a data set.

    Raises:
        OpenMLError: It cannot be had.
    """
    try:
        described = json.loads(_get(f"{API}{number}"))["data_set_description"]["url"]
        scheme = urllib.parse.urlsplit(API).scheme  # the file is fetched no less safely than its description
        return _get(urllib.parse.urlsplit(described)._replace(scheme=scheme).geturl())
    except OSError as error:
        raise OpenMLError(reason(_cause(error))) from None
    except (http.client.HTTPException, ValueError, KeyError, TypeError):
        raise OpenMLError("its answer makes no sense") from None


def parse_arff(text: str) -> pl.DataFrame:
    """The cells of a dense ARFF file, as text.

    Raises:
        ValueError: There is no data section, or a line has too many or too few cells.
    """
    lines = [line.strip() for line in text.splitlines()]
    start = next(i for i, line in enumerate([*lines, "@data"]) if line.lower() == "@data")
    if start == len(lines):
        raise ValueError("no data section")
    header = [line.split(None, 1)[1] for line in lines[:start] if line.lower().startswith("@attribute")]
    names = [next(csv.reader([line.replace("\t", " ")], delimiter=" ", quotechar=_quote(line)))[0] for line in header]
    kept = [line for line in lines[start + 1 :] if line and not line.startswith("%")]
    rows = list(csv.reader(io.StringIO("\n".join(kept)), quotechar="'", skipinitialspace=True))
    columns = zip(*rows, strict=True)
    return pl.DataFrame({name: [c.strip(' "') for c in column] for name, column in zip(names, columns, strict=True)})


def _get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=TIMEOUT_SECONDS) as answer:
        return answer.read().decode()


def _cause(error: OSError) -> Exception:
    inner = getattr(error, "reason", None)
    return inner if isinstance(inner, Exception) else error


def _quote(line: str) -> str:
    return '"' if line.startswith('"') else "'"
