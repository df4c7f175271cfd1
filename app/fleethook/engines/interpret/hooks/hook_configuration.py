"""Parses and matches hook configurations.

ResourceExploringWebhookConfiguration is the kind of Karmada's proposal of 2021; Karmada shipped
ResourceInterpreterWebhookConfiguration instead (karmada v1.16 pkg/util/interpreter).
"""

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from fleethook.model import karmada
from fleethook.model.gvk import GroupKind, GroupVersionKind
from fleethook.model.json import JSON, JSONObject, as_object
from fleethook.model.karmada import EXPLORING_CONFIGURATION, INTERPRETER_CONFIGURATION, Operation, operation_named
from fleethook.outbound.endpoint import Endpoint

EVERY: Final = "*"
DEFAULT_TIMEOUT_SECONDS: Final = 10


class Hook(NamedTuple):
    """One webhook of a configuration."""

    uid: str
    """``<configuration>/<webhook>``: its name in messages and its sort key."""
    proposed: bool
    """Whether its reviews have the proposed kind ``ExploreReview``."""
    rules: tuple[JSONObject, ...]
    endpoint: Endpoint
    timeout: float
    ignore_failures: bool
    versions: tuple[str, ...]


class Target(NamedTuple):
    """The properties of a kind that rules match."""

    kind: GroupVersionKind
    resource: str
    """The plural name."""
    namespaced: bool


def parse_hooks(group_kind: GroupKind, configuration: JSONObject) -> Iterator[Hook]:
    """Yield the hooks of a configuration; a member of a wrong type counts as missing."""
    name = configuration["metadata"]["name"]
    proposed = group_kind == EXPLORING_CONFIGURATION
    webhooks = configuration.get("webhooks")
    for webhook in webhooks if isinstance(webhooks, list) else ():
        if not isinstance(webhook, dict):
            continue
        timeout = webhook.get("timeoutSeconds")
        yield Hook(
            uid=f"{name}/{webhook.get('name') or ''}",
            proposed=proposed,
            rules=tuple(rule for rule in list_or_empty(webhook.get("rules")) if isinstance(rule, dict)),
            endpoint=_parse_endpoint(as_object(webhook.get("clientConfig"))),
            timeout=float(timeout if isinstance(timeout, int) and timeout > 0 else DEFAULT_TIMEOUT_SECONDS),
            # ResourceInterpreterWebhookConfiguration has no failurePolicy, so every failure is an error.
            ignore_failures=proposed and webhook.get("failurePolicy") == "Ignore",
            versions=tuple(list_or_empty(webhook.get(versions_member(proposed=proposed)))),
        )


def list_or_empty(value: JSON) -> list[JSON]:
    """Return a value that is a list, an empty list for any other value."""
    return value if isinstance(value, list) else []


def versions_member(*, proposed: bool) -> str:
    """Return the name of the member that lists the review versions of a hook."""
    return "exploreReviewVersions" if proposed else "interpreterContextVersions"


def _parse_endpoint(config: Any) -> Endpoint:
    bundle = config.get("caBundle")
    ca_bundle = bundle if isinstance(bundle, str) else ""
    service = as_object(config.get("service"))
    if service:
        server_name = f"{service.get('name')}.{service.get('namespace')}.svc"
        path = str(service.get("path") or "").lstrip("/")
        return Endpoint(f"https://{server_name}:{service.get('port') or 443}/{path}", server_name, ca_bundle)
    url = config.get("url")
    return Endpoint(url if isinstance(url, str) else "", "", ca_bundle)


def is_own(hook: Hook) -> bool:
    """Return whether a hook belongs to the configuration that this server registers."""
    return not hook.proposed and hook.uid.partition("/")[0] == karmada.OWN_CONFIGURATION


def matches(hook: Hook, operation: Operation, target: Target) -> bool:
    """Return whether any rule of a hook matches an operation on a target."""
    return any(_rule_matches(rule, operation, target, proposed=hook.proposed) for rule in hook.rules)


def _rule_matches(rule: JSONObject, operation: Operation, target: Target, *, proposed: bool) -> bool:
    operations = list_or_empty(rule.get("operations"))
    named = {operation_named(name) for name in operations if isinstance(name, str)}
    if EVERY not in operations and operation not in named:
        return False
    group, version, _ = target.kind
    if not _has_name(rule.get("apiGroups"), group) or not _has_name(rule.get("apiVersions"), version):
        return False
    if not proposed:
        return _has_name(rule.get("kinds"), target.kind.kind)
    scope = rule.get("scope") or EVERY
    in_scope = scope == EVERY or (scope == "Namespaced") == target.namespaced
    resources = list_or_empty(rule.get("resources"))
    return in_scope and any(resource in (EVERY, "*/*", target.resource) for resource in resources)


def _has_name(names: JSON, name: str) -> bool:
    return isinstance(names, list) and (EVERY in names or name in names)


CONFIGURATIONS: Final = (EXPLORING_CONFIGURATION, INTERPRETER_CONFIGURATION)

_PLURALS: Final[dict[str, str]] = {"Ingress": "ingresses", "NetworkPolicy": "networkpolicies", "Endpoints": "endpoints"}
_CLUSTER_SCOPED: Final = frozenset(
    {
        GroupKind("", "PersistentVolume"), GroupKind("", "Namespace"), GroupKind("", "Node"),
        GroupKind("rbac.authorization.k8s.io", "ClusterRole"),
        GroupKind("rbac.authorization.k8s.io", "ClusterRoleBinding"),
        GroupKind("storage.k8s.io", "StorageClass"), GroupKind("apiextensions.k8s.io", "CustomResourceDefinition"),
        GroupKind("scheduling.k8s.io", "PriorityClass"),
    }
)  # fmt: skip

Definition = Callable[[GroupKind], JSONObject | None]
"""Returns the CustomResourceDefinition of a kind, None if it is not known."""


def find_target(kind: GroupVersionKind, document: JSONObject, definition: Definition) -> Target:
    """Return the plural name and the scope of a kind.

    They come from the CustomResourceDefinition of the kind. If there is none, the plural is Kubernetes' guess
    (k8s.io/apimachinery pkg/api/meta, UnsafeGuessKindToResource), and an object with a namespace is namespaced.
    """
    found = definition(kind.group_kind)
    if found is not None:
        spec = as_object(found.get("spec"))
        return Target(kind, str(as_object(spec.get("names")).get("plural") or ""), spec.get("scope") == "Namespaced")
    singular = kind.kind.lower()
    if kind.kind in _PLURALS:
        plural = _PLURALS[kind.kind]
    elif singular.endswith("s"):
        plural = singular + "es"
    elif singular.endswith("y"):
        plural = singular[:-1] + "ies"
    else:
        plural = singular + "s"
    namespaced = kind.group_kind not in _CLUSTER_SCOPED
    if namespaced and not kind.group.endswith(("k8s.io", "apps", "batch", "policy", "autoscaling")) and kind.group:
        namespaced = bool(as_object(document.get("metadata")).get("namespace"))
    return Target(kind, plural, namespaced)
