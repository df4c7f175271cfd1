"""The errors of dispatching, with the texts of k8s.io/apiserver pkg/admission/plugin/webhook/errors."""

from fleethook.model.admission import Status, StatusCause, StatusDetails


class StatusError(Exception):
    """The request is refused with a ``metav1.Status``, even with failurePolicy Ignore.

    Attributes:
        status: The status.
    """

    def __init__(self, code: int, reason: str, message: str, details: StatusDetails | None = None) -> None:
        super().__init__(message)
        self.status = Status(status="Failure", message=message, reason=reason, details=details, code=code)


class RejectedError(StatusError):
    """A webhook denied the request."""


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
