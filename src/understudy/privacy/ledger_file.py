"""The ledger file: what has been spent on a table over all runs, and its cap.

The one rule: charge before reading. A fit is entered, and is on the disk, before its first row is
read. So a fit that is killed stays charged, and two processes at the same time cannot overspend.

The file holds one JSON object a line and only ever grows. The first line says what the file is; then come
"cap" and "fit" records, and marks of fits that have a checkpoint (ledger_marks.py). Each ends with a digest of itself,
so that no damaged byte changes an amount unnoticed; a line that a person completed by hand has none. Every change is
made under an exclusive lock and fsynced.

The lock is `flock`. Linux makes it a lock at the server for a file on NFS. Where a file system makes it a POSIX lock,
it belongs to the process and ends with the first descriptor of the file that is closed; so a process opens a ledger
once at a time (`_ALONE`) and never duplicates its descriptor.

Totals are plain sums of epsilon and of delta (basic composition). They hold even when a later
budget is chosen after seeing earlier results, which tighter rules do not promise without further
care: Rogers et al. (2016), arXiv:1605.08294.

A table is identified by its public name, the schema's, never by a hash of its contents: a hash of
private data is itself a release, since anyone with a guess at the data can check it.
"""

import contextlib
import dataclasses
import errno
import json
import os
import stat
import threading
import time
import uuid
from collections.abc import Generator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import NoReturn, cast

from understudy.core.files import content_of, lock
from understudy.core.settings import Satisfies, require
from understudy.privacy.ledger_lines import DIGEST, HEADER, MARK, Record, digest, fault, without_digest
from understudy.privacy.plan import Budget, BudgetExceeded

# A lock is held for milliseconds. If it is held for this long, the process that holds it hangs.
_PATIENCE_SECONDS = 30.0
# One thread of a process has a ledger open at a time.
_ALONE = threading.Lock()

PUBLIC_NAME = Satisfies("its public name", lambda name: isinstance(name, str) and name != "")


class LedgerError(ValueError):
    """The ledger file cannot be read, cannot be written, or is damaged. No fit was started."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Total:
    """What was spent on one table: the sums of epsilon and delta over its fits."""

    epsilon: float
    delta: float
    fits: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Account:
    """What a ledger says of one table: what was spent, the cap that holds, if any, and every record."""

    total: Total
    cap: Budget | None
    records: list[Record]


class LedgerFile:
    """An append-only record of fits and caps, shared by all who fit the same tables.

    Args:
        path: The file. It is made by the first `charge` or `set_cap`; its folder must exist.
    """

    def __init__(self, path: str | os.PathLike[str]):
        self.path = Path(path)

    def charge(
        self, table: str, epsilon: float, delta: float, method: str, *, version: str = "", identity: str = ""
    ) -> str:
        """Enters one fit and returns its id. Call it before the first row is read.

        Args:
            table: The public name of the table.
            epsilon: The budget of the fit, as promised.
            delta: Its delta.
            method: The synthesizer's name.
            version: Of this library.
            identity: The id of the fit, which its receipt carries too; empty: a new one.

        Raises:
            BudgetExceeded: The cap does not allow it. Nothing was written.
            LedgerError: The file is damaged, foreign, locked or cannot be written.
        """
        asked = Budget(epsilon=epsilon, delta=delta)
        with self._open(write=True) as descriptor:
            self._refuse_beyond_cap(self._read(descriptor), table, asked)
            identity = identity or str(uuid.uuid4())
            entry = {
                "kind": "fit",
                "id": identity,
                "table": _name(table),
                "method": method,
                "epsilon": asked.epsilon,
                "delta": asked.delta,
                "time": _now(),
                "version": version,
            }
            self._append(descriptor, entry)
        return identity

    def check(self, table: str, epsilon: float, delta: float) -> None:
        """Refuses what `charge` would refuse now, without entering anything."""
        if self.path.exists():
            self._refuse_beyond_cap(self.records(), table, Budget(epsilon=epsilon, delta=delta))

    def set_cap(self, table: str, epsilon: float, delta: float) -> None:
        """Sets what may be spent on a table in all. The last cap holds; earlier ones stay in the file."""
        cap = Budget(epsilon=epsilon, delta=delta)
        with self._open(write=True) as descriptor:
            self._read(descriptor)
            entry = {"kind": "cap", "table": _name(table), "epsilon": cap.epsilon, "delta": cap.delta, "time": _now()}
            self._append(descriptor, entry)

    def records(self) -> list[Record]:
        """Every cap and fit in the file, oldest first."""
        with self._open(write=False) as descriptor:
            return self._read(descriptor)

    def tables(self) -> list[str]:
        """The tables named in the file, in order of appearance."""
        return list(dict.fromkeys(record["table"] for record in self.records()))

    def total(self, table: str) -> Total:
        """What was spent on this table."""
        return _total(self.records(), table)

    def fit(self, identity: str) -> Record | None:
        """The entry of the fit with this id; None if it is not in the file."""
        fits = [record for record in self.records() if record["kind"] == "fit" and record["id"] == identity]
        return fits[-1] if fits and identity else None

    def cap(self, table: str) -> Budget | None:
        """The cap that holds for this table, if any."""
        return _cap(self.records(), table)

    def accounts(self) -> dict[str, Account]:
        """What the file says of each table, in order of appearance, from one reading."""
        found: dict[str, list[Record]] = {}
        for record in self.records():
            found.setdefault(record["table"], []).append(record)
        return {
            table: Account(total=_total(records, table), cap=_cap(records, table), records=records)
            for table, records in found.items()
        }

    def show(self) -> str:
        """The whole file as text, table by table."""
        accounts = self.accounts()
        if not accounts:
            return f"{self.path}: no fits and no caps yet."
        return "\n\n".join(_show(table, account) for table, account in accounts.items())

    def _refuse_beyond_cap(self, records: list[Record], table: str, asked: Budget) -> None:
        if cap := _cap(records, table):
            self._refuse_above(records, table, "epsilon", asked.epsilon, cap.epsilon)
            self._refuse_above(records, table, "delta", asked.delta, cap.delta)

    def _refuse_above(self, records: list[Record], table: str, field: str, asked: float, most: float) -> None:
        # Decimals add as people do: three times 0.1 is 0.3, and a cap of 0.3 allows it.
        spent = _sum(records, table, field)
        if spent + _decimal(asked) > _decimal(most):
            raise BudgetExceeded(
                f"{self.path}: table {table!r} has spent {field} = {spent:f} of its cap of {most:g}, and this fit asks "
                f"for {asked:g}; nothing was read. Ask for less, or have the cap raised."
            )

    # --- The file itself ---

    @contextlib.contextmanager
    def _open(self, *, write: bool) -> Generator[int, None, None]:
        """The file, open and locked: exclusively to write, together with others to read."""
        descriptor = None
        if not _ALONE.acquire(timeout=_PATIENCE_SECONDS):
            raise self._held()
        try:
            descriptor = self._locked(write)
            yield descriptor
        except OSError as error:
            self._fail(error, "write" if write else "read")
        finally:
            if descriptor is not None:
                os.close(descriptor)  # and with it the lock
            _ALONE.release()

    def _held(self) -> LedgerError:
        return LedgerError(
            f"{self.path}: another process has held the ledger for {_PATIENCE_SECONDS:.0f} seconds. "
            "Find out which, and try again."
        )

    def _locked(self, write: bool) -> int:
        """A descriptor of the file that now has this path, under the lock."""
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND if write else os.O_RDONLY
        while True:
            descriptor = os.open(self.path, flags | os.O_CLOEXEC | os.O_NONBLOCK, 0o644)
            try:
                if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                    raise LedgerError(f"{self.path}: expected a plain file, got something else.")
                lock(descriptor, shared=not write, patience=_PATIENCE_SECONDS)
                # The process that held the lock before may have put another file at this path.
                if os.path.samestat(os.fstat(descriptor), os.stat(self.path)):
                    return descriptor
            except BlockingIOError:
                os.close(descriptor)
                raise self._held() from None
            except BaseException:
                os.close(descriptor)
                raise
            os.close(descriptor)

    def _fail(self, error: OSError, verb: str) -> NoReturn:
        hint = " Make the folder first." if error.errno == errno.ENOENT and not self.path.parent.is_dir() else ""
        raise LedgerError(f"{self.path}: cannot {verb} the ledger: {error.strerror}.{hint}") from None

    def _read(self, descriptor: int) -> list[Record]:
        """The caps and fits, each line checked; a new file has none."""
        return [record for record in self._lines(descriptor) if record["kind"] != MARK]

    def _lines(self, descriptor: int) -> list[Record]:
        """All records, each line checked."""
        content = content_of(descriptor)
        if not content:
            return []
        *lines, rest = content.split(b"\n")
        if rest:
            self._refuse_damaged(len(lines) + 1, "the last line is incomplete")
        records = [self._parse(number, line) for number, line in enumerate(lines, 1)]
        if records[0].get("kind") != HEADER["kind"]:
            raise LedgerError(f"{self.path}: not an understudy ledger. Give another path.")
        if records[0] != HEADER:
            got = records[0].get("format")
            got = got if isinstance(got, int) else "another"
            raise LedgerError(f"{self.path}: expected ledger format 1, got {got}. Use a newer understudy.")
        for number, record in enumerate(records[1:], 2):
            if wrong := fault(record):
                self._refuse_damaged(number, wrong)
        return [without_digest(record) for record in records[1:]]

    def _parse(self, number: int, line: bytes) -> Record:
        try:
            record = json.loads(line.decode())
        except (ValueError, RecursionError):
            record = None
        if not isinstance(record, dict):
            if number == 1:
                raise LedgerError(f"{self.path}: not an understudy ledger. Give another path.")
            self._refuse_damaged(number, "not a JSON object")
        return cast(Record, record)

    def _refuse_damaged(self, number: int, fault: str) -> NoReturn:
        raise LedgerError(
            f"{self.path}, line {number}: {fault}. A fit may have been started here, so count it as spent: look at the "
            "line and complete it by hand, or delete it if you know that no fit followed. Nothing was read or written."
        )

    def _append(self, descriptor: int, record: Record) -> None:
        """Adds one line, and the header to a new file, and waits until they are on the disk."""
        before = os.fstat(descriptor).st_size
        record = {**record, DIGEST: digest(record)}
        records = [record] if before else [HEADER, record]
        content = "".join(json.dumps(entry, allow_nan=False) + "\n" for entry in records).encode()
        try:
            written = os.write(descriptor, content)
            if written < len(content):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(descriptor)
        except OSError:
            # Still under the lock, and no fit was started: remove the incomplete line.
            with contextlib.suppress(OSError):
                os.ftruncate(descriptor, before)
            raise
        if not before:
            folder = os.open(self.path.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)


def _name(table: str) -> str:
    require("table", table, PUBLIC_NAME)
    return table


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def _decimal(number: float) -> Decimal:
    return Decimal(repr(float(number)))


def _sum(records: list[Record], table: str, field: str) -> Decimal:
    fits = (record for record in records if record["kind"] == "fit" and record["table"] == table)
    return sum((_decimal(fit[field]) for fit in fits), Decimal(0))


def _total(records: list[Record], table: str) -> Total:
    fits = sum(record["kind"] == "fit" and record["table"] == table for record in records)
    return Total(epsilon=float(_sum(records, table, "epsilon")), delta=float(_sum(records, table, "delta")), fits=fits)


def _cap(records: list[Record], table: str) -> Budget | None:
    caps = [record for record in records if record["kind"] == "cap" and record["table"] == table]
    return Budget(epsilon=caps[-1]["epsilon"], delta=caps[-1]["delta"]) if caps else None


def _show(table: str, account: Account) -> str:
    total, cap, records = account.total, account.cap, account.records
    limit = f"cap: epsilon = {cap.epsilon:g}, delta = {cap.delta:g}" if cap else "no cap"
    count = "1 fit" if total.fits == 1 else f"{total.fits} fits"
    lines = [table, f"  spent: epsilon = {total.epsilon:g}, delta = {total.delta:g} in {count}; {limit}"]
    for record in records:
        what = record["method"] if record["kind"] == "fit" else "(cap set)"
        cost = f"epsilon = {record['epsilon']:<10g} delta = {record['delta']:<10g}"
        lines.append(f"  {record['time']:<21} {what:<14} {cost} {record.get('id', '')}".rstrip())
    return "\n".join(lines)


@contextlib.contextmanager
def interruptions_noted(book: LedgerFile | None, entered: Sequence[str], fits: int) -> Generator[None, None, None]:
    """Adds a note to a Ctrl-C that comes after charging has begun: what was charged, and that it is spent."""
    try:
        yield
    except KeyboardInterrupt as stop:
        stop.add_note(what_is_spent(book, entered, fits))
        raise


def what_is_spent(book: LedgerFile | None, entered: Sequence[str], fits: int) -> str:
    """What became of the budget of fits that ended early, once charging had begun."""
    if book is None:
        return "The fit had begun, so its budget is spent; no ledger was given to record it."
    if len(entered) < fits:
        return f"Charging had begun: look into {book.path}. No row was measured."
    return f"The fit was charged to {book.path} and stays charged."
