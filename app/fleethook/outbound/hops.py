"""The header that marks dispatched reviews, so that no review is dispatched twice.

A webhook may forward reviews to a fleethook, or be a fleethook under an address that the caller does not know. Without
the header, each round would call the same webhooks again until the request's deadline. With several rounds, one request
could cause as many calls as webhooks to the power of rounds.
"""

from collections.abc import Iterable
from typing import Final

HEADER: Final = "Fleethook-Hops"
OUTGOING: Final = {HEADER: "1"}
"""The headers of all calls that the dispatch engine makes."""
_NAME: Final = HEADER.lower().encode()


def was_dispatched(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Return whether a request has the header, with any value.

    Args:
        headers: Headers of an ASGI scope, with names in lower case.
    """
    return any(name == _NAME for name, _ in headers)
