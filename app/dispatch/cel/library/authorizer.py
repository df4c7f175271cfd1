"""The ``authorizer`` variable, which checks permissions of users (k8s.io/apiserver/pkg/cel/library/authz.go)."""

import json
from collections.abc import Mapping
from typing import Any, Final

from google.protobuf.message import Message

from app.dispatch.cel.access_check import AccessQuestion
from app.dispatch.cel.evaluation import CURRENT
from app.dispatch.cel.functions import Function
from app.dispatch.cel.protobuf_types import get_message_type
from app.model.json import JSON, as_object
from app.model.names import is_dns1123_label, is_dns1123_subdomain

_AUTHORIZER: Final = get_message_type("authorization.Authorizer")
_PATH_CHECK: Final = get_message_type("authorization.PathCheck")
_GROUP_CHECK: Final = get_message_type("authorization.GroupCheck")
_RESOURCE_CHECK: Final = get_message_type("authorization.ResourceCheck")
_DECISION: Final = get_message_type("authorization.Decision")

# k8s.io/apiserver/pkg/authentication/serviceaccount: MakeUsername, MakeGroupNames.
_SERVICE_ACCOUNTS: Final = "system:serviceaccount"


def build_authorizer(user: JSON) -> Message:
    """Return the variable ``authorizer`` for the ``userInfo`` of a request; members of wrong types are ignored."""
    info = as_object(user)
    groups = info.get("groups")
    extra = {
        key: [item for item in values if isinstance(item, str)]
        for key, values in as_object(info.get("extra")).items()
        if isinstance(values, list)
    }
    return _AUTHORIZER(
        user=_read_text(info, "username"),
        uid=_read_text(info, "uid"),
        groups=[group for group in groups if isinstance(group, str)] if isinstance(groups, list) else [],
        extra=json.dumps(extra, sort_keys=True),
    )


def build_request_resource(request: JSON) -> Message:
    """Return the variable ``authorizer.requestResource`` for an AdmissionRequest."""
    request = as_object(request)
    resource = as_object(request.get("resource"))
    return _extend_check(
        _RESOURCE_CHECK,
        build_authorizer(request.get("userInfo")),
        group=_read_text(resource, "group"),
        resource=_read_text(resource, "resource"),
        subresource=_read_text(request, "subResource"),
        namespace=_read_text(request, "namespace"),
        name=_read_text(request, "name"),
    )


def _read_text(document: Mapping[str, JSON], member: str) -> str:
    value = document.get(member)
    return value if isinstance(value, str) else ""


def _extend_check(type_: type[Message], check: Message, **members: str) -> Message:
    """Return the next message of a chain of calls: ``check`` as a ``type_``, with more members set."""
    link = type_.FromString(check.SerializeToString())
    for member, value in members.items():
        setattr(link, member, value)
    return link


def _add_path(check: Message, path: str) -> Message:
    if not path.strip():
        raise ValueError("path must not be empty")
    return _extend_check(_PATH_CHECK, check, path=path)


def _add_resource(check: Message, resource: str) -> Message:
    if not resource.strip():
        raise ValueError("resource must not be empty")
    return _extend_check(_RESOURCE_CHECK, check, resource=resource)


def _select_service_account(_check: Message, namespace: str, name: str) -> Message:
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
        # kube-apiserver checks resources in all versions.
        version="" if check.path else "*",
        resource=check.resource,
        subresource=check.subresource,
        namespace=check.namespace,
        name=check.name,
        field_selector=check.fieldSelector,
        label_selector=check.labelSelector,
    )
    return _DECISION(**CURRENT.get().ask(question)._asdict())


def _add_member(member: str) -> Any:
    return lambda check, value: _extend_check(_RESOURCE_CHECK, check, **{member: value})


_A, _P, _G, _R, _D = (
    f"kubernetes.authorization.{name}"
    for name in ("Authorizer", "PathCheck", "GroupCheck", "ResourceCheck", "Decision")
)
FUNCTIONS: Final = (
    Function("path", (_A, "string"), _P, _add_path),
    Function("group", (_A, "string"), _G, lambda check, group: _extend_check(_GROUP_CHECK, check, group=group)),
    Function("serviceAccount", (_A, "string", "string"), _A, _select_service_account),
    Function("resource", (_G, "string"), _R, _add_resource),
    Function("subresource", (_R, "string"), _R, _add_member("subresource")),
    Function("namespace", (_R, "string"), _R, _add_member("namespace")),
    Function("name", (_R, "string"), _R, _add_member("name")),
    Function("fieldSelector", (_R, "string"), _R, _add_member("fieldSelector")),
    Function("labelSelector", (_R, "string"), _R, _add_member("labelSelector")),
    Function("check", (_P, "string"), _D, _check),
    Function("check", (_R, "string"), _D, _check),
    Function("allowed", (_D,), "bool", lambda decision: decision.allowed),
    Function("reason", (_D,), "string", lambda decision: decision.reason),
    Function("errored", (_D,), "bool", lambda decision: bool(decision.error)),
    Function("error", (_D,), "string", lambda decision: decision.error),
)
