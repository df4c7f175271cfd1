"""Errors of requests to kube-apiserver, and the read of an object that may not exist."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from fleethook.model.json import JSON, JSONObject, as_object

if TYPE_CHECKING:
    from fleethook.cluster.apiserver_connection import Connection

FORBIDDEN: Final = 403
NOT_FOUND: Final = 404
CONFLICT: Final = 409
GONE: Final = 410


class UnreachableError(Exception):
    """The server did not answer: connection refused or lost, timeout, or untrusted certificate.

    The text names the reason and never contains credentials.
    """


class APIError(Exception):
    """The server answered with an error.

    Attributes:
        code: The HTTP status.
        reason: The reason of the Kubernetes Status, such as ``Conflict``; ``""`` if the body is not a Status.
        message: The message of the Status, or the beginning of the body.
        causes: The field and the message of each cause in the Status.
        continue_token: Continues an expired list with newer objects, ``""`` for other errors.
    """

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        causes: Sequence[tuple[str, str]] = (),
        *,
        continue_token: str = "",
    ) -> None:
        super().__init__(f"{code} {reason}: {message}" if reason else f"{code}: {message}")
        self.code = code
        self.reason = reason
        self.message = message
        self.causes = tuple(causes)
        self.continue_token = continue_token


class _Cause(msgspec.Struct):
    field: str = ""
    message: str = ""


class _Details(msgspec.Struct):
    causes: list[_Cause] | None = None


class _ListMeta(msgspec.Struct):
    continue_: str = msgspec.field(default="", name="continue")


class _Status(msgspec.Struct):
    metadata: _ListMeta | None = None
    code: int = 0
    reason: str = ""
    message: str = ""
    details: _Details | None = None


# msgspec describes a type at its first use. In two threads at once, this crashes the process.
_decode_status = msgspec.json.Decoder(_Status).decode
_MAX_TEXT = 500
_MAX_CAUSES = 50
_MAX_MESSAGE = 2000
# k8s.io/apiserver in kcp-dev/kubernetes, pkg/registry/generic/registry/store_kcp.go.
_NO_CLUSTER = ("cluster path is empty in the request context", "no cluster found in the context")
_NEED_CLUSTER = (
    "it is a kcp: give a context whose URL ends with /clusters/WORKSPACE (or --kcp, where the command has it)"
)


def parse_api_error(code: int, body: bytes) -> APIError:
    """Return the error for a response with ``code``, or 0 to take the one of the Status, and ``body``."""
    try:
        status = _decode_status(body)
    except msgspec.DecodeError:
        return APIError(code, "", _explain(body[:_MAX_TEXT].decode("utf-8", "replace").strip()))
    causes = ((status.details and status.details.causes) or ())[:_MAX_CAUSES]
    found = [(_shorten(cause.field), _shorten(cause.message)) for cause in causes]
    token = status.metadata.continue_ if status.metadata else ""
    return APIError(code or status.code, status.reason, _explain(_shorten(status.message)), found, continue_token=token)


def _explain(message: str) -> str:
    """Name the cause of an error of kcp that tells only its code."""
    known = any(part in message for part in _NO_CLUSTER)
    return f"{message.partition(' - RequestInfo')[0]}: {_NEED_CLUSTER}" if known else message


def _shorten(text: str) -> str:
    """Cut the middle out of a long text: it quotes the invalid value, and the reason follows at the end."""
    if len(text) <= _MAX_MESSAGE:
        return text
    half = _MAX_MESSAGE // 2
    return f"{text[:half]} [...] {text[-half:]}"


async def get_object(connection: "Connection", path: str, **rest: JSON) -> JSONObject | None:
    """Return the object at a path, None if it does not exist; arguments and errors as of `Connection.request`."""
    try:
        return dict(as_object(await connection.json("GET", path, **rest)))
    except APIError as error:
        if error.code != NOT_FOUND:
            raise
        return None
