"""The ``authorizer`` variable, which checks permissions of users (k8s.io/apiserver/pkg/cel/library/authz.go)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from fleethook.cel.evaluation import CURRENT, AccessDecision, AccessQuestion
from fleethook.cel.values.values import Foreign, Function
from fleethook.model.formats.labels import is_dns1123_label, is_dns1123_subdomain
from fleethook.model.json import JSON, as_object

_PREFIX: Final = "kubernetes.authorization."


@dataclass(frozen=True)
class Authorizer(Foreign):
    """A user whose permissions can be checked."""

    kind: ClassVar[str] = f"{_PREFIX}Authorizer"
    question: AccessQuestion


@dataclass(frozen=True)
class _PathCheck(Authorizer):
    kind: ClassVar[str] = f"{_PREFIX}PathCheck"


@dataclass(frozen=True)
class _GroupCheck(Authorizer):
    kind: ClassVar[str] = f"{_PREFIX}GroupCheck"


@dataclass(frozen=True)
class _ResourceCheck(Authorizer):
    kind: ClassVar[str] = f"{_PREFIX}ResourceCheck"


@dataclass(frozen=True)
class _Decision(Foreign):
    kind: ClassVar[str] = f"{_PREFIX}Decision"
    answer: AccessDecision


# k8s.io/apiserver/pkg/authentication/serviceaccount: MakeUsername, MakeGroupNames.
_SERVICE_ACCOUNTS: Final = "system:serviceaccount"


def build_authorizer(user: JSON) -> Authorizer:
    """Return the variable ``authorizer`` for the ``userInfo`` of a request; members of wrong types are ignored.

    Raises:
        UnicodeEncodeError: A text cannot be encoded as UTF-8, so no request to an apiserver can contain it.
    """
    info = as_object(user)
    groups = info.get("groups")
    extra = {
        _require_utf8(key): tuple(_require_utf8(item) for item in values if isinstance(item, str))
        for key, values in as_object(info.get("extra")).items()
        if isinstance(values, list)
    }
    return Authorizer(
        AccessQuestion(
            user=_read_text(info, "username"),
            verb="",
            uid=_read_text(info, "uid"),
            groups=tuple(_require_utf8(group) for group in groups if isinstance(group, str))
            if isinstance(groups, list)
            else (),
            extra=tuple(sorted(extra.items())),
        )
    )


def build_request_resource(request: JSON) -> Authorizer:
    """Return the variable ``authorizer.requestResource`` for an AdmissionRequest."""
    request = as_object(request)
    resource = as_object(request.get("resource"))
    return _extend(
        _ResourceCheck,
        build_authorizer(request.get("userInfo")),
        group=_read_text(resource, "group"),
        resource=_read_text(resource, "resource"),
        subresource=_read_text(request, "subResource"),
        namespace=_read_text(request, "namespace"),
        name=_read_text(request, "name"),
        # kube-apiserver checks resources in all versions.
        version="*",
    )


def _read_text(document: Mapping[str, JSON], member: str) -> str:
    value = document.get(member)
    return _require_utf8(value) if isinstance(value, str) else ""


def _require_utf8(text: str) -> str:
    text.encode()
    return text


def _extend(type_: type[Authorizer], check: Authorizer, **members: Any) -> Authorizer:
    """Return the next link of a chain of calls: the check as a ``type_``, with more members set."""
    return type_(check.question._replace(**members))


def _add_path(check: Authorizer, path: str) -> Authorizer:
    if not path.strip():
        raise ValueError("path must not be empty")
    return _extend(_PathCheck, check, path=path)


def _add_resource(check: Authorizer, resource: str) -> Authorizer:
    if not resource.strip():
        raise ValueError("resource must not be empty")
    return _extend(_ResourceCheck, check, resource=resource, version="*")


def _select_service_account(_check: Authorizer, namespace: str, name: str) -> Authorizer:
    if not is_dns1123_subdomain(name):
        raise ValueError("Invalid service account name")
    if not is_dns1123_label(namespace):
        raise ValueError("Invalid service account namespace")
    groups = (f"{_SERVICE_ACCOUNTS}s", f"{_SERVICE_ACCOUNTS}s:{namespace}", "system:authenticated")
    return Authorizer(AccessQuestion(user=f"{_SERVICE_ACCOUNTS}:{namespace}:{name}", verb="", groups=groups))


def _check(check: Authorizer, verb: str) -> _Decision:
    return _Decision(CURRENT.get().ask(check.question._replace(verb=verb)))


def _add_member(member: str) -> Any:
    return lambda check, value: _extend(_ResourceCheck, check, **{member: value})


_A, _P, _G, _R, _D = (one.kind for one in (Authorizer, _PathCheck, _GroupCheck, _ResourceCheck, _Decision))
AUTHORIZER_FUNCTIONS: Final = (
    Function("path", (_A, "string"), _add_path),
    Function("group", (_A, "string"), lambda check, group: _extend(_GroupCheck, check, group=group)),
    Function("serviceAccount", (_A, "string", "string"), _select_service_account),
    Function("resource", (_G, "string"), _add_resource),
    Function("subresource", (_R, "string"), _add_member("subresource")),
    Function("namespace", (_R, "string"), _add_member("namespace")),
    Function("name", (_R, "string"), _add_member("name")),
    Function("fieldSelector", (_R, "string"), _add_member("field_selector")),
    Function("labelSelector", (_R, "string"), _add_member("label_selector")),
    Function("check", (_P, "string"), _check),
    Function("check", (_R, "string"), _check),
    Function("allowed", (_D,), lambda decision: decision.answer.allowed),
    Function("reason", (_D,), lambda decision: decision.answer.reason),
    Function("errored", (_D,), lambda decision: bool(decision.answer.error)),
    Function("error", (_D,), lambda decision: decision.answer.error),
)
