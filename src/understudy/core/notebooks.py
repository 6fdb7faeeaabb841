"""How objects are displayed in a notebook: a title, a small table, a few notes.

The one rule: everything is escaped. Names and categories come from other people's files.
"""

import html
from collections.abc import Iterable, Sequence


def card(title: str, head: Sequence[str], rows: Iterable[Sequence[str]], notes: Iterable[str] = ()) -> str:
    """HTML of one table under a title; no script, and no style but the alignment."""
    parts = [f"<p><b>{html.escape(title)}</b></p>", "<table>"]
    parts.append(f"<thead>{_row('th', head)}</thead>")
    parts.append(f"<tbody>{''.join(_row('td', cells) for cells in rows)}</tbody></table>")
    parts += [f"<p>{html.escape(note)}</p>" for note in notes]
    return "\n".join(parts)


def _row(tag: str, cells: Sequence[str]) -> str:
    return "<tr>" + "".join(f'<{tag} style="text-align: left">{html.escape(cell)}</{tag}>' for cell in cells) + "</tr>"
