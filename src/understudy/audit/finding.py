"""A finding: what an audit holds against a method."""

import dataclasses


@dataclasses.dataclass(frozen=True, order=True)
class Finding:
    """Something that must not be so.

    Attributes:
        check: The check that found it: "sensitivity", "identical", "charges", "noise", "streams", "labels",
            "messages", "programs", "account" or "sampler".
        where: The mechanism, or the part of the fit.
        what: What was found, in one sentence. All tables of an audit are simulated, so it may hold their values.
    """

    check: str
    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.check}, {self.where}: {self.what}"
