"""The errors of dispatching, with the texts of k8s.io/apiserver pkg/admission/plugin/webhook/errors; the deadline."""

import re
import time
from collections.abc import Callable
from functools import lru_cache
from typing import Final, NamedTuple
from urllib.parse import parse_qs

import msgspec

from fleethook.model.admission import Response, Status, StatusCause, StatusDetails


class StatusError(Exception):
    """The request is refused with a ``metav1.Status``, even with failurePolicy Ignore.

    Attributes:
        status: The status.
    """

    def __init__(self, code: int, reason: str, message: str, details: StatusDetails | None = None) -> None:
        super().__init__(message)
        self.status = Status(status="Failure", message=message, reason=reason, details=details, code=code)


class CallingError(Exception):
    """The call of a webhook failed; the failurePolicy applies.

    Attributes:
        name: The name of the webhook.
        reason: The reason of the failure.
        cut_short: Whether the request's deadline came before the webhook's timeout: not a failure of the webhook.
    """

    def __init__(self, name: str, reason: str, *, cut_short: bool = False) -> None:
        super().__init__(f'failed calling webhook "{name}": {reason}')
        self.name = name
        self.reason = reason
        self.cut_short = cut_short


def denial(name: str, result: Status | None) -> StatusError:
    """Return the denial of a webhook (upstream: webhook/errors.ToStatusErr).

    Args:
        name: The name of the webhook.
        result: ``response.status``, None without one.
    """
    given = Status() if result is None else result
    denied = f'admission webhook "{name}" denied the request'
    text = given.message or given.reason
    message = f"{denied}: {text}" if text else f"{denied} without explanation"
    error = StatusError(max(given.code, 400), given.reason, message, given.details)
    if given.status not in ("", "Success"):
        error.status = msgspec.structs.replace(error.status, status=given.status)
    return error


def internal(text: str) -> StatusError:
    """Return apierrors.NewInternalError."""
    details = StatusDetails(causes=(StatusCause(message=text),))
    return StatusError(500, "InternalError", f"Internal error occurred: {text}", details)


def forbidden(resource_name: str, name: str, text: str) -> StatusError:
    """Return admission.NewForbidden for a resource such as ``widgets.example.org``."""
    resource, _, group = resource_name.partition(".")
    details = StatusDetails(name=name, group=group, kind=resource)
    return StatusError(403, "Forbidden", f'{resource_name} "{name}" is forbidden: {text}', details)


def too_many_requests(text: str) -> StatusError:
    """Return apierrors.NewTooManyRequestsError, if this server has no capacity for a request."""
    return StatusError(429, "TooManyRequests", text)


def timed_out() -> StatusError:
    """Return apierrors.NewTimeoutError, if the deadline of a request has passed."""
    return StatusError(504, "Timeout", "Timeout: request did not complete within requested timeout")


def refusal(error: StatusError) -> Response:
    """Return the answer that refuses a request with a status."""
    status = error.status
    return Response(allowed=False, code=status.code, reason=status.reason, message=status.message, status=status)


class Deadline(NamedTuple):
    """The deadline of a request."""

    at: float
    """In seconds of the clock."""
    clock: Callable[[], float] = time.monotonic

    @property
    def remaining(self) -> float:
        """The remaining seconds, 0 or negative after the deadline."""
        return self.at - self.clock()

    def require_time(self) -> None:
        """Raise StatusError after the deadline."""
        if self.remaining <= 0:
            raise timed_out()


# kube-apiserver's default budget for admission plus storage: the longest any caller waits
# (k8s.io/apiserver pkg/endpoints/handlers/rest.go, requestTimeoutUpperBound).
BUDGET_SECONDS: Final = 34.0
# Seconds before the caller's deadline that are reserved for sending the answer.
_MARGIN_SECONDS: Final = 0.1
_MARGIN_SHARE: Final = 0.1
_UNITS: Final = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
_PART: Final = re.compile(r"(\d{1,9}(?:\.\d{0,9})?)(h|ms|m|s|us|µs|ns)", re.ASCII)
# Characters of a query whose seconds are cached.
_MAX_CACHED_QUERY: Final = 64


def parse_duration(duration: str) -> float | None:
    """Return a duration in Go's format (``1m30s``, ``500ms``) in seconds, None if the text has another format."""
    seconds, at = 0.0, 0
    while at < len(duration):
        part = _PART.match(duration, at)
        if part is None:
            return None
        seconds += float(part[1]) * _UNITS[part[2]]
        at = part.end()
    return seconds if duration else None


def find_budget(query: bytes) -> float:
    """Return the seconds within which a request has to be answered."""
    # An apiserver always sends the same few queries. Long queries are not cached.
    return _cached_budget(query) if len(query) <= _MAX_CACHED_QUERY else _compute_budget(query)


def _compute_budget(query: bytes) -> float:
    asked = parse_duration(parse_qs(query.decode("latin-1")).get("timeout", [""])[-1]) if query else None
    seconds = min(asked or BUDGET_SECONDS, BUDGET_SECONDS)
    return seconds - min(_MARGIN_SECONDS, seconds * _MARGIN_SHARE)


_cached_budget: Final = lru_cache(maxsize=256)(_compute_budget)
