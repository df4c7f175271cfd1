"""Log lines about errors that tenants can cause: few for each of them, and no traceback."""

import asyncio
import logging
import time
from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import Any, Final

import aiohttp

_log: Final = logging.getLogger(__name__)
_SECONDS: Final = 60.0
_MAX_LINES: Final = 1_000
_MAX_LINES_EACH: Final = 20


class FailureLog:
    """Logs errors that others can cause: one line for each key and minute, and the number of errors since that line.

    In a minute, an owner of keys gets 20 lines and all owners get 1,000, so that no owner hides the errors of others.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Prepare; ``clock`` returns seconds."""
        self._clock: Final = clock
        self._logged: Final[OrderedDict[tuple[str, str], tuple[float, int]]] = OrderedDict()
        self._lines: Final[Counter[str]] = Counter()

    def note(self, owner: str, key: str, text: str, **fields: str) -> None:
        """Log an error, unless a line about the key is less than a minute old; the next line counts it.

        Args:
            owner: Causes the error: a logical cluster, or an address.
            key: Identifies the cause, for example one of the owner's webhooks.
            text: The error, on one line.
            fields: Further fields of the line.
        """
        now = self._clock()
        while self._logged and next(iter(self._logged.values()))[0] <= now - 2 * _SECONDS:
            (forgotten, _), _ = self._logged.popitem(last=False)
            self._lines[forgotten] -= 1
            if not self._lines[forgotten]:
                del self._lines[forgotten]
        since, further = self._logged.get((owner, key), (None, 0))
        if since is None:
            if len(self._logged) >= _MAX_LINES or self._lines[owner] >= _MAX_LINES_EACH:
                return
            self._lines[owner] += 1
        elif now < since + _SECONDS:
            self._logged[owner, key] = since, further + 1
            return
        self._logged[owner, key] = now, 0
        self._logged.move_to_end((owner, key))
        more = f" ({further} more errors since the last line)" if further else ""
        _log.warning("%s%s", text, more, extra={"fields": fields} if fields else None)


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
