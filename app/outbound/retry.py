"""When a webhook wants the same request again: ``Retry-After`` (client-go rest/with_retry.go and request.go)."""

import contextlib
import re
from typing import Final

import aiohttp

MAX_RETRIES: Final = 10
"""How often one call is repeated (client-go: ``maxRetries`` of a request)."""

_TOO_MANY_REQUESTS: Final = 429
_SERVER_ERROR: Final = 500
# Go's strconv.Atoi. A date, which RFC 9110 allows as well, is no number: client-go does not retry then.
_SECONDS: Final = re.compile(r"[+-]?[0-9]{1,18}", re.ASCII)
# client-go reads as much of an answer that it does not use, so that the connection can be used again.
_MAX_DISCARDED_BYTES: Final = 2048


def retry_after(response: aiohttp.ClientResponse) -> int | None:
    """Return how many seconds a webhook wants to be left alone before the same request, None if it wants none."""
    if response.status != _TOO_MANY_REQUESTS and response.status < _SERVER_ERROR:
        return None
    text = response.headers.get("Retry-After", "").strip(" \t")
    return max(int(text), 0) if _SECONDS.fullmatch(text) else None


async def discard(response: aiohttp.ClientResponse) -> None:
    """Leave an answer unread; its connection is used again only if the answer is short and complete."""
    left = _MAX_DISCARDED_BYTES
    complete = False
    try:
        # An answer that breaks off here is no reason not to ask again: client-go ignores such errors, too.
        with contextlib.suppress(aiohttp.ClientError, OSError):
            if (response.content_length or 0) <= left:
                while chunk := await response.content.read(left):
                    left -= len(chunk)
            complete = response.content.at_eof()
    finally:
        # Also if the time is up meanwhile.
        if complete:
            response.release()
        else:
            response.close()
