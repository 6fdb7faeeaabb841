"""Which parallel worker runs which test, so that what tests share is made once.

All tests of one method go to one worker, from whatever file, and so do all other tests of one file. `--dist loadgroup`
is not enough: pytest-xdist 3.8 keeps the group in an attribute that pytest 9.2 no longer reads, and scatters the tests.
"""

import re

from xdist.scheduler import LoadScopeScheduling


def scope_of(nodeid: str) -> str:
    """What a test shares models and programs with: its method, if `every_method` gave it one, or else its file."""
    method = re.search(r"method=([\w-]+)\]$", nodeid)
    return method[1] if method else nodeid.partition("::")[0]


class SharingScheduling(LoadScopeScheduling):
    """Sends the tests of one scope to one worker."""

    def _split_scope(self, nodeid: str) -> str:
        return scope_of(nodeid)
