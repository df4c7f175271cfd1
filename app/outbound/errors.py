"""What a call raises that brought no answer, and how foreign text is shown in it."""

from typing import Final

from yarl import URL

# What kube-apiserver shows of a body it does not understand (client-go rest/request.go).
SHOWN_BYTES: Final = 2048


class CallError(Exception):
    """A call that brought no answer that can be used; the text says why, and never what was sent."""

    def __init__(self, reason: str, *, code: int = 0, timed_out: bool = False, cut_short: bool = False) -> None:
        """Prepare.

        Args:
            reason: What happened.
            code: The HTTP status that was answered, 0 if there was none.
            timed_out: Whether the time was up.
            cut_short: Whether it was up before the webhook had its own time: the caller could not wait longer.
        """
        super().__init__(f"failed to call webhook: {reason}")
        self.reason: Final = reason
        self.code: Final = code
        self.timed_out: Final = timed_out
        self.cut_short: Final = cut_short


class NotCalledError(CallError):
    """A call that was not made, so that it says nothing about how the webhook is."""


class OverloadedError(NotCalledError):
    """A call for which this server had no room: neither the webhook's failure nor a verdict.

    Attributes:
        limit: The quota that was used up, a field of `app.outbound.call_slots.Quotas`; ``""`` for one of the system.
    """

    def __init__(self, reason: str, *, limit: str) -> None:
        """Prepare."""
        super().__init__(reason)
        self.limit: Final = limit


def posting(url: URL | str, reason: str) -> str:
    """Return the reason with what was called before it, as Go's ``url.Error`` has it."""
    return f"Post {quoted(str(url))}: {reason}"


def escaped(text: str) -> str:
    """Return ``text`` on one line: what is not printable stands as an escape, so that it cannot forge a log line."""
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode("ascii")
        for character in text
    )


def quoted(text: str) -> str:
    """Return ``text`` between quotation marks, escaped."""
    return '"' + escaped(text.replace("\\", "\\\\").replace('"', '\\"')) + '"'


def excerpt(body: bytes) -> str:
    """Return the beginning of a body as text, not escaped."""
    return body[:SHOWN_BYTES].decode("utf-8", "replace").strip()
