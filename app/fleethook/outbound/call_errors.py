"""Errors of webhook calls, and escaping of untrusted text in them."""

from typing import Final

from yarl import URL

from fleethook.model.formats.text import escape_line

# client-go shows this many bytes of an unreadable body (k8s.io/client-go/rest/request.go).
MAX_SHOWN_BYTES: Final = 2048


class CallError(Exception):
    """A call without a usable response; the text gives the reason and never contains the request."""

    def __init__(self, reason: str, *, code: int = 0, timed_out: bool = False, cut_short: bool = False) -> None:
        """Prepare.

        Args:
            reason: The reason of the failure.
            code: The HTTP status of the response, 0 without a response.
            timed_out: Whether the deadline has passed.
            cut_short: Whether the caller's deadline has passed before the webhook's own timeout.
        """
        super().__init__(f"failed to call webhook: {reason}")
        self.reason: Final = reason
        self.code: Final = code
        self.timed_out: Final = timed_out
        self.cut_short: Final = cut_short


class NotCalledError(CallError):
    """The call was not made, so the error is no evidence about the webhook."""


class OverloadedError(NotCalledError):
    """This server had no capacity for the call: neither a failure of the webhook nor a verdict.

    Attributes:
        limit: The exhausted quota, a field of `fleethook.outbound.call_limits.Quotas`, or ``""`` for the system's.
    """

    def __init__(self, reason: str, *, limit: str) -> None:
        """Prepare."""
        super().__init__(reason)
        self.limit: Final = limit


def posting(url: URL | str, reason: str) -> str:
    """Return a reason with the called URL before it, in the form of Go's ``url.Error``."""
    return f"Post {quoted(str(url))}: {reason}"


def quoted(text: str) -> str:
    """Return ``text`` in quotation marks, escaped."""
    return '"' + escape_line(text.replace("\\", "\\\\").replace('"', '\\"')) + '"'


def excerpt(body: bytes) -> str:
    """Return the beginning of a body as text, not escaped."""
    return body[:MAX_SHOWN_BYTES].decode("utf-8", "replace").strip()
