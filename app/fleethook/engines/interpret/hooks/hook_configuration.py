"""Parses, matches and validates hook configurations.

ResourceExploringWebhookConfiguration is the kind of Karmada's proposal of 2021; Karmada shipped
ResourceInterpreterWebhookConfiguration instead (karmada v1.16 pkg/util/interpreter).
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from fleethook.model import admission, karmada
from fleethook.model.admission import AdmissionRequest, Response, StatusCause, not_for_review
from fleethook.model.formats.client_config import client_config_problems
from fleethook.model.formats.field_errors import (
    FAILURE_POLICIES,
    SCOPES,
    Problem,
    choice_problems,
    first_problems,
    list_problems,
    name_problems,
    timeout_problems,
    version_problems,
    webhooks_problems,
)
from fleethook.model.gvk import GroupKind, GroupVersionKind, guess_plural
from fleethook.model.json import JSON, JSONObject, as_list, as_object, as_text
from fleethook.model.karmada import (
    EXPLORING_CONFIGURATION,
    INTERPRETER_CONFIGURATION,
    OPERATIONS,
    VERSION,
    Operation,
    operation_named,
)
from fleethook.outbound.endpoint import Endpoint
from fleethook.outbound.tls.trust import bundle_problems

EVERY: Final = "*"
DEFAULT_TIMEOUT_SECONDS: Final = 10


class InterpreterWebhook(NamedTuple):
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


class InterpretedKind(NamedTuple):
    """The properties of a kind that rules match."""

    kind: GroupVersionKind
    resource: str
    """The plural name."""
    namespaced: bool


def parse_hooks(group_kind: GroupKind, configuration: JSONObject) -> Iterator[InterpreterWebhook]:
    """Yield the hooks of a configuration; a member of a wrong type counts as missing."""
    name = configuration["metadata"]["name"]
    proposed = group_kind == EXPLORING_CONFIGURATION
    webhooks = configuration.get("webhooks")
    for webhook in webhooks if isinstance(webhooks, list) else ():
        if not isinstance(webhook, dict):
            continue
        timeout = webhook.get("timeoutSeconds")
        yield InterpreterWebhook(
            uid=f"{name}/{webhook.get('name') or ''}",
            proposed=proposed,
            rules=tuple(rule for rule in as_list(webhook.get("rules")) if isinstance(rule, dict)),
            endpoint=_parse_endpoint(as_object(webhook.get("clientConfig"))),
            timeout=float(timeout if isinstance(timeout, int) and timeout > 0 else DEFAULT_TIMEOUT_SECONDS),
            # ResourceInterpreterWebhookConfiguration has no failurePolicy, so every failure is an error.
            ignore_failures=proposed and webhook.get("failurePolicy") == "Ignore",
            versions=tuple(as_list(webhook.get(versions_member(proposed=proposed)))),
        )


def versions_member(*, proposed: bool) -> str:
    """Return the name of the member that lists the review versions of a hook."""
    return "exploreReviewVersions" if proposed else "interpreterContextVersions"


def _parse_endpoint(config: Any) -> Endpoint:
    ca_bundle = as_text(config.get("caBundle"))
    service = as_object(config.get("service"))
    if service:
        server_name = f"{service.get('name')}.{service.get('namespace')}.svc"
        path = str(service.get("path") or "").lstrip("/")
        return Endpoint(f"https://{server_name}:{service.get('port') or 443}/{path}", server_name, ca_bundle)
    url = config.get("url")
    return Endpoint(url if isinstance(url, str) else "", "", ca_bundle)


def is_own(hook: InterpreterWebhook) -> bool:
    """Return whether a hook belongs to the configuration that this server registers."""
    return not hook.proposed and hook.uid.partition("/")[0] == karmada.OWN_CONFIGURATION


def matches(hook: InterpreterWebhook, operation: Operation, target: InterpretedKind) -> bool:
    """Return whether any rule of a hook matches an operation on a target."""
    return any(_rule_matches(rule, operation, target, proposed=hook.proposed) for rule in hook.rules)


def _rule_matches(rule: JSONObject, operation: Operation, target: InterpretedKind, *, proposed: bool) -> bool:
    operations = as_list(rule.get("operations"))
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
    resources = as_list(rule.get("resources"))
    return in_scope and any(resource in (EVERY, "*/*", target.resource) for resource in resources)


def _has_name(names: JSON, name: str) -> bool:
    return isinstance(names, list) and (EVERY in names or name in names)


CONFIGURATIONS: Final = (EXPLORING_CONFIGURATION, INTERPRETER_CONFIGURATION)

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


def find_target(kind: GroupVersionKind, document: JSONObject, definition: Definition) -> InterpretedKind:
    """Return the plural name and the scope of a kind.

    They come from the CustomResourceDefinition of the kind. If there is none, the plural is Kubernetes' guess
    (k8s.io/apimachinery pkg/api/meta, UnsafeGuessKindToResource), and an object with a namespace is namespaced.
    """
    found = definition(kind.group_kind)
    if found is not None:
        spec = as_object(found.get("spec"))
        return InterpretedKind(
            kind, str(as_object(spec.get("names")).get("plural") or ""), spec.get("scope") == "Namespaced"
        )
    namespaced = kind.group_kind not in _CLUSTER_SCOPED
    if namespaced and not kind.group.endswith(("k8s.io", "apps", "batch", "policy", "autoscaling")) and kind.group:
        namespaced = bool(as_object(document.get("metadata")).get("namespace"))
    return InterpretedKind(kind, guess_plural(kind.kind.lower()), namespaced)


_NAME_SEGMENTS: Final = 2


def problems(group_kind: GroupKind, configuration: JSONObject) -> Iterator[Problem]:
    """Yield the problems of a configuration (karmada v1.16 pkg/webhook/configuration/validating.go)."""
    proposed = group_kind == EXPLORING_CONFIGURATION
    yield from webhooks_problems(configuration.get("webhooks"), partial(_webhook_problems, proposed=proposed))


def _webhook_problems(webhook: JSONObject, field: str, *, proposed: bool) -> Iterator[Problem]:
    yield from name_problems(webhook.get("name"), f"{field}.name", segments=_NAME_SEGMENTS)
    for position, rule in enumerate(as_list(webhook.get("rules"))):
        yield from _rule_problems(as_object(rule), f"{field}.rules[{position}]", proposed=proposed)
    yield from timeout_problems(webhook.get("timeoutSeconds"), f"{field}.timeoutSeconds")
    if proposed:
        yield from choice_problems(webhook.get("failurePolicy"), f"{field}.failurePolicy", FAILURE_POLICIES)
    config = webhook.get("clientConfig")
    yield from client_config_problems(config, f"{field}.clientConfig")
    yield from bundle_problems(as_object(config).get("caBundle"), f"{field}.clientConfig.caBundle")
    member = versions_member(proposed=proposed)
    yield from version_problems(webhook.get(member), f"{field}.{member}", (VERSION,))


def _rule_problems(rule: Any, field: str, *, proposed: bool) -> Iterator[Problem]:
    configurable = [row for row in OPERATIONS if _is_configurable(row.operation, proposed=proposed)]
    known = sorted({EVERY, *(row.proposed if proposed else row.operation.value for row in configurable)})
    operations = rule.get("operations")
    yield from list_problems(operations, f"{field}.operations", "operations", empty_items=True)
    for index, name in enumerate(as_list(operations)):
        if isinstance(name, str):
            yield from choice_problems(name, f"{field}.operations[{index}]", known)
    yield from list_problems(rule.get("apiGroups"), f"{field}.apiGroups", "API groups", empty_items=True)
    yield from list_problems(rule.get("apiVersions"), f"{field}.apiVersions", "API versions", empty_items=False)
    if not proposed:
        yield from list_problems(rule.get("kinds"), f"{field}.kinds", "kinds", empty_items=False)
        return
    yield from list_problems(rule.get("resources"), f"{field}.resources", "resources", empty_items=False)
    yield from choice_problems(rule.get("scope"), f"{field}.scope", SCOPES)


def _is_configurable(operation: Operation, *, proposed: bool) -> bool:
    # The proposal has a hook for Prune and none for InterpretComponent; Karmada shipped the opposite.
    return operation is not (Operation.COMPONENT if proposed else Operation.PRUNE)


def validate_configuration(request: AdmissionRequest) -> Response:
    """Answer the review of a hook configuration with all of its problems."""
    answer = not_for_review(request, CONFIGURATIONS)
    if answer is not None:
        return answer
    return refuse_problems(problems(GroupKind(request.kind.group, request.kind.kind), request.object))


def refuse_problems(problems_found: Iterable[Problem], *, warnings: Sequence[str] = ()) -> Response:
    """Deny an object with the problems that `first_problems` lists; allow it if there are none."""
    causes = [StatusCause(field, text, "FieldValueInvalid") for field, text in first_problems(problems_found)]
    if not causes:
        return admission.allowed(warnings=warnings)
    texts = [f"{cause.field}: {cause.message}" for cause in causes]
    return admission.invalid(texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]", causes)
