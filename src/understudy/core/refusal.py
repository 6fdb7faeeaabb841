"""What a person is told of an error: one sentence that shows no private value.

The one rule: errors of this library are written to show none, so they are told as they are. Any other error may quote a
cell, so only its type is told.
"""

import os


def refusal(error: BaseException, *, debugging: bool = False) -> str | None:
    """What the command line and the studio say of an error; None if it is unknown and its traceback was asked for."""
    if isinstance(error, ValueError | RuntimeError) and type(error).__module__.startswith("understudy."):
        return str(error)
    if isinstance(error, OSError) and error.strerror:
        place = f"{os.fsdecode(error.filename)}: " if isinstance(error.filename, str | bytes) else ""
        return f"{place}{error.strerror.lower()}."
    if isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and "start new thread" in str(error)):
        return "there is not enough memory. Ask for fewer rows at a time."
    if debugging:
        return None
    if isinstance(error, ImportError):  # names modules, never rows; ours say what to install
        hint = "" if "pip install" in str(error) else ". Run `understudy doctor` to see what is missing."
        return f"{error}{hint}"
    return (
        f"unexpected {type(error).__name__}: this is a bug in understudy. Set UNDERSTUDY_DEBUG=1 to see the traceback. "
        "It may show private values, so read it before you share it."
    )


def is_debugging() -> bool:
    """Whether tracebacks were asked for."""
    return bool(os.environ.get("UNDERSTUDY_DEBUG"))
