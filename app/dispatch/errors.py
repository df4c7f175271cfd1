"""How dispatching fails, in the words of an apiserver (k8s.io/apiserver/pkg/admission/plugin/webhook/errors)."""

from typing import Final

import msgspec

from app.model.admission import Status, StatusCause, StatusDetails

_LOWEST_ERROR: Final = 400


class StatusError(Exception):
    """What the client is told: a ``metav1.Status``, whatever a failure policy says.

    Attributes:
        status: The status.
    """

    def __init__(self, code: int, reason: str, message: str, details: StatusDetails | None = None) -> None:
        super().__init__(message)
        self.status = Status(status="Failure", message=message, reason=reason, details=details, code=code)


class RejectedError(StatusError):
    """A webhook said no."""


class CallingError(Exception):
    """A webhook was not reached, or its answer is none; what follows is up to its failurePolicy.

    Attributes:
        name: Of the webhook.
        reason: What went wrong.
        cut_short: Whether the request could not wait as long as the webhook may take, which is no failure of it.
    """

    def __init__(self, name: str, reason: str, *, cut_short: bool = False) -> None:
        super().__init__(f'failed calling webhook "{name}": {reason}')
        self.name = name
        self.reason = reason
        self.cut_short = cut_short


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
    """Return apierrors.NewTooManyRequestsError, for a request for which this server has no room now."""
    return StatusError(429, "TooManyRequests", text)


def timed_out() -> StatusError:
    """Return apierrors.NewTimeoutError, for a request whose time is used up."""
    return StatusError(504, "Timeout", "Timeout: request did not complete within requested timeout")


def denial(name: str, result: Status | None) -> RejectedError:
    """Return how the denial of a webhook reads (webhook/errors.ToStatusErr).

    Args:
        name: Of the webhook.
        result: ``response.status``; None if it sent none.
    """
    given = Status() if result is None else result
    denied = f'admission webhook "{name}" denied the request'
    text = given.message or given.reason
    message = f"{denied}: {text}" if text else f"{denied} without explanation"
    code = given.code if given.code >= _LOWEST_ERROR else 400
    error = RejectedError(code, given.reason, message, given.details)
    if given.status not in ("", "Success"):
        error.status = msgspec.structs.replace(error.status, status=given.status)
    return error
