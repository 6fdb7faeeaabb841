"""Marks in a ledger file: how many releases a fit with a checkpoint has made.

The one rule: a release is in the checkpoint, then marked in the ledger file, and then anybody's. The ledger only ever
grows, so a checkpoint with fewer releases than its last mark is an older state that somebody put back: a fit that went
on from there would measure again what it has released, for one charge. If the ledger was put back too, that cannot be
told.
"""

# pyright: strict, reportPrivateUsage=false

from understudy.privacy.ledger_file import LedgerFile
from understudy.privacy.ledger_lines import MARK


def mark(book: LedgerFile, table: str, identity: str, releases: int) -> None:
    """Enters how many releases a fit has made.

    Raises:
        LedgerError: It cannot be entered, so that what was to be released must not be.
    """
    with book._open(write=True) as descriptor:
        book._append(descriptor, {"kind": MARK, "id": identity, "table": table, MARK: releases})


def marked(book: LedgerFile, identity: str) -> int:
    """How many releases of a fit were marked; 0 if none was."""
    if not book.path.exists():
        return 0
    with book._open(write=False) as descriptor:
        found = [
            each["releases"] for each in book._lines(descriptor) if each["kind"] == MARK and each["id"] == identity
        ]
    return max(found, default=0)
