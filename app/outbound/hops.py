"""The header by which a review that was dispatched once is recognized when it comes back.

A webhook may pass reviews on to a fleethook, or be one under an address that the calling server does not know. Without
the header, each round would call the same webhooks again until the request's time is up. A review is dispatched once:
with more rounds, one request could cause as many calls as webhooks to the power of the rounds.
"""

from collections.abc import Iterable
from typing import Final

HEADER: Final = "Fleethook-Hops"
OUTGOING: Final = {HEADER: "1"}
"""The headers of calls that dispatching causes."""
_NAME: Final = HEADER.lower().encode()


def was_dispatched(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Return whether a request says that a fleethook's dispatch has caused it, whatever the value of the header.

    Args:
        headers: As ASGI has them, names in lower case.
    """
    return any(name == _NAME for name, _ in headers)
