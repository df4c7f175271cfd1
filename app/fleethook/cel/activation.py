"""The variables that expressions read (cel-go: interpreter/activation.go)."""

from functools import cached_property
from typing import Any, Final

from fleethook.cel.evaluation import ABSENT, AccessDecisions
from fleethook.cel.library.authorizer import build_authorizer, build_request_resource
from fleethook.cel.values.values import CelError
from fleethook.model.json import JSON, JSONObject

# k8s.io/apiserver/pkg/admission/plugin/cel/compile.go, BuildRequestType: no uid, object and oldObject.
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
# These members have `omitempty` in k8s.io/api/admission/v1. If they are empty, reading them is an error.
_OMITTED_EMPTY: Final = frozenset({"subResource", "requestSubResource", "name", "namespace"})


class Activation:
    """The variables of one request.

    Args:
        object_: The object in the version that the webhook receives, None if the request has none.
        old_object: The existing object in that version, None if the request has none.
        request: The AdmissionRequest. Expressions see the same members as in kube-apiserver.
        access: The decisions for access checks; None if no authorizer is available, which removes ``authorizer``.
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
            # A string with a lone surrogate is no UTF-8.
            error = CelError("a text is not valid UTF-8")
            return error, error
