"""How a call to an apiserver fails."""

import msgspec


class UnreachableError(Exception):
    """No answer: refused, cut, timed out or not trusted; the text says which and never holds credentials."""


class APIError(Exception):
    """An answer that says no.

    Attributes:
        code: The HTTP status.
        reason: The Kubernetes status reason, such as ``Conflict``; ``""`` if the body is no Status.
        message: What the server said.
    """

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(f"{code} {reason}: {message}" if reason else f"{code}: {message}")
        self.code = code
        self.reason = reason
        self.message = message


class _Status(msgspec.Struct):
    reason: str = ""
    message: str = ""


_MAX_TEXT = 500
_MAX_MESSAGE = 2000


def parse_api_error(code: int, body: bytes) -> APIError:
    """Return the error that an answer with ``code`` and ``body`` is."""
    try:
        status = msgspec.json.decode(body, type=_Status)
    except msgspec.DecodeError:
        return APIError(code, "", body[:_MAX_TEXT].decode("utf-8", "replace").strip())
    return APIError(code, status.reason, _shorten(status.message))


def _shorten(text: str) -> str:
    """Return a text without its middle if it is long: that is the value that is refused, and the reason follows it."""
    if len(text) <= _MAX_MESSAGE:
        return text
    half = _MAX_MESSAGE // 2
    return f"{text[:half]} [...] {text[-half:]}"
