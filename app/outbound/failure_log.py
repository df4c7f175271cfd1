"""Log lines about webhooks that break the connection: one for each webhook and minute, and no traceback."""

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final

import aiohttp

_log: Final = logging.getLogger(__name__)
_SECONDS: Final = 60.0
_MAX_WEBHOOKS: Final = 1_000


class FailureLog:
    """Logs the connection errors of webhooks. Beyond 1,000 webhooks in a minute, it logs nothing about further ones."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Prepare; ``clock`` returns seconds."""
        self._clock: Final = clock
        self._logged: Final[OrderedDict[str, tuple[float, int]]] = OrderedDict()

    def note(self, key: str, webhook: str, reason: str) -> None:
        """Log an error, unless a line about the webhook is less than a minute old; the next line counts it.

        Args:
            key: Identifies the webhook.
            webhook: The webhook in words.
            reason: The error, on one line.
        """
        now = self._clock()
        while self._logged and next(iter(self._logged.values()))[0] <= now - 2 * _SECONDS:
            self._logged.popitem(last=False)
        since, further = self._logged.get(key, (None, 0))
        if since is None and len(self._logged) >= _MAX_WEBHOOKS:
            return
        if since is not None and now < since + _SECONDS:
            self._logged[key] = since, further + 1
            return
        self._logged[key] = now, 0
        self._logged.move_to_end(key)
        more = f" ({further} more errors since the last line)" if further else ""
        _log.warning("%s breaks its connections: %s%s", webhook, reason, more)


def log_loop_error(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Handle an exception of the event loop: those of connections need no traceback, because each call reports its own.

    The arguments are those of ``loop.set_exception_handler``.
    """
    error = context.get("exception")
    is_fault = isinstance(error, OSError | aiohttp.ClientError)
    # uvloop raises RuntimeError if it writes to a transport that its other side has closed.
    if is_fault or (isinstance(error, RuntimeError) and not context.keys().isdisjoint({"transport", "protocol"})):
        _log.debug("a connection failed: %s: %s", context.get("message", ""), error)
    else:
        loop.default_exception_handler(context)
