"""Retries that a webhook asks for by ``Retry-After`` (k8s.io/client-go/rest/with_retry.go and request.go)."""

import contextlib
import re
from typing import Final

import aiohttp

MAX_RETRIES: Final = 10
"""Retries of one call (``maxRetries`` of a request in client-go)."""

_TOO_MANY_REQUESTS: Final = 429
_SERVER_ERROR: Final = 500
# The syntax of Go's strconv.Atoi. For a date, which RFC 9110 also allows, client-go does not retry.
_SECONDS: Final = re.compile(r"[+-]?[0-9]{1,18}", re.ASCII)
# client-go reads this much of an unused response, so that the connection can be reused.
_MAX_DISCARDED_BYTES: Final = 2048


def retry_after(response: aiohttp.ClientResponse) -> int | None:
    """Return the seconds until the retry that a webhook asks for, None if it asks for none."""
    if response.status != _TOO_MANY_REQUESTS and response.status < _SERVER_ERROR:
        return None
    text = response.headers.get("Retry-After", "").strip(" \t")
    return max(int(text), 0) if _SECONDS.fullmatch(text) else None


async def discard(response: aiohttp.ClientResponse) -> None:
    """Discard a response; its connection is reused only if the response is short and complete."""
    left = _MAX_DISCARDED_BYTES
    complete = False
    try:
        # An incomplete response does not prevent the retry; client-go ignores such errors, too.
        with contextlib.suppress(aiohttp.ClientError, OSError):
            if (response.content_length or 0) <= left:
                while chunk := await response.content.read(left):
                    left -= len(chunk)
            complete = response.content.at_eof()
    finally:
        # This also runs if the deadline cancels the read.
        if complete:
            response.release()
        else:
            response.close()
