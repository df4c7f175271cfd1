"""What expressions see of one request."""

from functools import cached_property
from typing import Any, Final

from app.dispatch.cel.access_check import AccessDecisions
from app.dispatch.cel.frame import ABSENT
from app.dispatch.cel.library.authorizer import build_authorizer, build_request_resource
from app.dispatch.cel.values import CelError
from app.model.json import JSON, JSONObject

# k8s.io/apiserver/pkg/admission/plugin/cel/compile.go: an AdmissionRequest without uid, object and oldObject.
_MEMBERS: Final = (
    "kind",
    "resource",
    "subResource",
    "requestKind",
    "requestResource",
    "requestSubResource",
    "name",
    "namespace",
    "operation",
    "userInfo",
    "dryRun",
    "options",
)
# These have `omitempty` in k8s.io/api/admission/v1: what is empty is not there, and to read it is an error.
_OMITTED_EMPTY: Final = frozenset({"subResource", "requestSubResource", "name", "namespace"})


class Activation:
    """The variables of one request.

    Args:
        object_: the object as the webhook gets it, None if there is none.
        old_object: the object as it was, None if there is none.
        request: the AdmissionRequest. Only the members that expressions may see are read.
        access: the answers to access checks; None if there is nobody to ask, so that there is no ``authorizer``.
    """

    def __init__(
        self, *, object_: JSON, old_object: JSON, request: JSONObject, access: AccessDecisions | None = None
    ) -> None:
        self.access: Final = access
        self._object: Final = object_
        self._old_object: Final = old_object
        self._request: Final = request

    @cached_property
    def variables(self) -> tuple[Any, ...]:
        """The values of `frame.VARIABLES`."""
        request = {
            member: self._request[member]
            for member in _MEMBERS
            if member in self._request and not (member in _OMITTED_EMPTY and self._request[member] == "")
        }
        return (self._object, self._old_object, None, request, *self._build_authorizers())

    def _build_authorizers(self) -> tuple[Any, Any]:
        if self.access is None:
            return ABSENT, ABSENT
        try:
            return build_authorizer(self._request.get("userInfo")), build_request_resource(self._request)
        except UnicodeEncodeError:
            # Protobuf takes no lone surrogate.
            error = CelError("a text is not valid UTF-8")
            return error, error
