"""The ``authorizer`` variable: checks of what a user may do (upstream: pkg/cel/library/authz.go)."""

import json
from collections.abc import Mapping
from typing import Any, Final

from google.protobuf.message import Message

from app.dispatch.cel.access_check import AccessQuestion
from app.dispatch.cel.evaluation import CURRENT
from app.dispatch.cel.functions import Function
from app.dispatch.cel.protobuf_types import message_type
from app.model.json import JSON, as_object
from app.model.meta import is_dns1123_label, is_dns1123_subdomain

_AUTHORIZER: Final = message_type("authorization.Authorizer")
_PATH_CHECK: Final = message_type("authorization.PathCheck")
_GROUP_CHECK: Final = message_type("authorization.GroupCheck")
_RESOURCE_CHECK: Final = message_type("authorization.ResourceCheck")
_DECISION: Final = message_type("authorization.Decision")

# k8s.io/apiserver/pkg/authentication/serviceaccount: MakeUsername, MakeGroupNames.
_SERVICE_ACCOUNTS: Final = "system:serviceaccount"


def authorizer_of(user: JSON) -> Message:
    """Return the variable ``authorizer`` for the ``userInfo`` of a request, whose members may be of any type."""
    info = as_object(user)
    groups = info.get("groups")
    extra = {
        key: [item for item in values if isinstance(item, str)]
        for key, values in as_object(info.get("extra")).items()
        if isinstance(values, list)
    }
    return _AUTHORIZER(
        user=_text(info, "username"),
        uid=_text(info, "uid"),
        groups=[group for group in groups if isinstance(group, str)] if isinstance(groups, list) else [],
        extra=json.dumps(extra, sort_keys=True),
    )


def request_resource_of(request: JSON) -> Message:
    """Return the variable ``authorizer.requestResource`` for an AdmissionRequest."""
    request = as_object(request)
    resource = as_object(request.get("resource"))
    return _next(
        _RESOURCE_CHECK,
        authorizer_of(request.get("userInfo")),
        group=_text(resource, "group"),
        resource=_text(resource, "resource"),
        subresource=_text(request, "subResource"),
        namespace=_text(request, "namespace"),
        name=_text(request, "name"),
    )


def _text(document: Mapping[str, JSON], member: str) -> str:
    value = document.get(member)
    return value if isinstance(value, str) else ""


def _next(type_: type[Message], check: Message, **members: str) -> Message:
    """Return ``check`` as a later link of the chain, with one more thing said."""
    link = type_.FromString(check.SerializeToString())
    for member, value in members.items():
        setattr(link, member, value)
    return link


def _path(check: Message, path: str) -> Message:
    if not path.strip():
        raise ValueError("path must not be empty")
    return _next(_PATH_CHECK, check, path=path)


def _resource(check: Message, resource: str) -> Message:
    if not resource.strip():
        raise ValueError("resource must not be empty")
    return _next(_RESOURCE_CHECK, check, resource=resource)


def _service_account(_check: Message, namespace: str, name: str) -> Message:
    if not is_dns1123_subdomain(name):
        raise ValueError("Invalid service account name")
    if not is_dns1123_label(namespace):
        raise ValueError("Invalid service account namespace")
    return _AUTHORIZER(
        user=f"{_SERVICE_ACCOUNTS}:{namespace}:{name}",
        groups=[f"{_SERVICE_ACCOUNTS}s", f"{_SERVICE_ACCOUNTS}s:{namespace}", "system:authenticated"],
        extra="{}",
    )


def _check(check: Any, verb: str) -> Message:
    extra = json.loads(check.extra or "{}")
    question = AccessQuestion(
        user=check.user,
        verb=verb,
        uid=check.uid,
        groups=tuple(check.groups),
        extra=tuple((key, tuple(values)) for key, values in extra.items()),
        path=check.path,
        group=check.group,
        # An apiserver's checks are for every version.
        version="" if check.path else "*",
        resource=check.resource,
        subresource=check.subresource,
        namespace=check.namespace,
        name=check.name,
        field_selector=check.fieldSelector,
        label_selector=check.labelSelector,
    )
    return _DECISION(**CURRENT.get().ask(question)._asdict())


def _said(member: str) -> Any:
    return lambda check, value: _next(_RESOURCE_CHECK, check, **{member: value})


_A, _P, _G, _R, _D = (
    f"kubernetes.authorization.{name}"
    for name in ("Authorizer", "PathCheck", "GroupCheck", "ResourceCheck", "Decision")
)
FUNCTIONS: Final = (
    Function("path", (_A, "string"), _P, _path),
    Function("group", (_A, "string"), _G, lambda check, group: _next(_GROUP_CHECK, check, group=group)),
    Function("serviceAccount", (_A, "string", "string"), _A, _service_account),
    Function("resource", (_G, "string"), _R, _resource),
    Function("subresource", (_R, "string"), _R, _said("subresource")),
    Function("namespace", (_R, "string"), _R, _said("namespace")),
    Function("name", (_R, "string"), _R, _said("name")),
    Function("fieldSelector", (_R, "string"), _R, _said("fieldSelector")),
    Function("labelSelector", (_R, "string"), _R, _said("labelSelector")),
    Function("check", (_P, "string"), _D, _check),
    Function("check", (_R, "string"), _D, _check),
    Function("allowed", (_D,), "bool", lambda decision: decision.allowed),
    Function("reason", (_D,), "string", lambda decision: decision.reason),
    Function("errored", (_D,), "bool", lambda decision: bool(decision.error)),
    Function("error", (_D,), "string", lambda decision: decision.error),
)
