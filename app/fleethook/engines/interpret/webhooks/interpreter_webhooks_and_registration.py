"""Parses, matches and validates the webhooks of interpreters, and builds the configuration that fleethook registers.

ResourceExploringWebhookConfiguration is the kind of Karmada's proposal of 2021; Karmada shipped
ResourceInterpreterWebhookConfiguration instead (karmada v1.16 pkg/util/interpreter).

Karmada considers every operation that a rule names as enabled, and calls only the first webhook by name
(karmada v1.16 pkg/resourceinterpreter/customized/webhook). It calls webhooks before its own interpreters, and fails if
a webhook does not answer. So the rules of this server's configuration name only kinds that it answers, and by default
none that Karmada interprets itself. If two configurations name one kind, the second is never called.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from importlib import resources
from typing import Any, Final, NamedTuple

import yaml

from fleethook.cluster.store import Index, Store, Stored
from fleethook.model import admission
from fleethook.model.admission import AdmissionRequest, Response, StatusCause, not_for_review
from fleethook.model.formats.client_config_and_addresses import WebhookEndpoint, client_config_problems
from fleethook.model.formats.field_errors import (
    FAILURE_POLICIES,
    SCOPES,
    FieldError,
    choice_problems,
    first_problems,
    list_problems,
    name_problems,
    timeout_problems,
    version_problems,
    webhooks_problems,
)
from fleethook.model.gvk import DEFINITION, GroupKind, GroupVersionKind, guess_plural, parse_api_version
from fleethook.model.json import JSON, JSONObject, as_list, as_object, as_text, list_objects, list_texts
from fleethook.model.karmada import (
    API_VERSION,
    CONFIG_MAP,
    CUSTOMIZATION,
    EXPLORING_CONFIGURATION,
    INTERPRETER_CONFIGURATION,
    OPERATIONS,
    VERSION,
    InterpreterRegistration,
    Operation,
    operation_named,
)

EVERY: Final = "*"
DEFAULT_TIMEOUT_SECONDS: Final = 10
OWN_CONFIGURATION: Final = "fleethook"
"""The name of the ResourceInterpreterWebhookConfiguration with which Karmada calls this server."""
REGISTERED_FROM: Final = frozenset({CUSTOMIZATION, CONFIG_MAP, INTERPRETER_CONFIGURATION})
"""The kinds whose objects decide which questions of Karmada this server answers. A change registers again."""


class InterpreterWebhook(NamedTuple):
    """One webhook of a configuration."""

    uid: str
    """``<configuration>/<webhook>``: its name in messages and its sort key."""
    proposed: bool
    """Whether its reviews have the proposed kind ``ExploreReview``."""
    rules: tuple[JSONObject, ...]
    endpoint: WebhookEndpoint
    timeout: float
    ignore_failures: bool
    versions: tuple[str, ...]


class InterpretedKind(NamedTuple):
    """The properties of a kind that rules match."""

    kind: GroupVersionKind
    resource: str
    """The plural name."""
    namespaced: bool


def parse_webhooks(group_kind: GroupKind, configuration: JSONObject) -> Iterator[InterpreterWebhook]:
    """Yield the webhooks of a configuration; a member of a wrong type counts as missing."""
    name = configuration["metadata"]["name"]
    proposed = group_kind == EXPLORING_CONFIGURATION
    for webhook in list_objects(configuration.get("webhooks")):
        timeout = webhook.get("timeoutSeconds")
        yield InterpreterWebhook(
            uid=f"{name}/{webhook.get('name') or ''}",
            proposed=proposed,
            rules=tuple(list_objects(webhook.get("rules"))),
            endpoint=_parse_endpoint(as_object(webhook.get("clientConfig"))),
            timeout=float(timeout if isinstance(timeout, int) and timeout > 0 else DEFAULT_TIMEOUT_SECONDS),
            # ResourceInterpreterWebhookConfiguration has no failurePolicy, so every failure is an error.
            ignore_failures=proposed and webhook.get("failurePolicy") == "Ignore",
            versions=tuple(as_list(webhook.get(versions_member(proposed=proposed)))),
        )


def versions_member(*, proposed: bool) -> str:
    """Return the name of the member that lists the review versions of a webhook."""
    return "exploreReviewVersions" if proposed else "interpreterContextVersions"


def _parse_endpoint(config: Any) -> WebhookEndpoint:
    ca_bundle = as_text(config.get("caBundle"))
    service = as_object(config.get("service"))
    if service:
        server_name = f"{service.get('name')}.{service.get('namespace')}.svc"
        path = str(service.get("path") or "").lstrip("/")
        return WebhookEndpoint(f"https://{server_name}:{service.get('port') or 443}/{path}", server_name, ca_bundle)
    url = config.get("url")
    return WebhookEndpoint(url if isinstance(url, str) else "", "", ca_bundle)


def is_own(webhook: InterpreterWebhook) -> bool:
    """Return whether a webhook belongs to the configuration that this server registers."""
    return not webhook.proposed and webhook.uid.partition("/")[0] == OWN_CONFIGURATION


def matches(webhook: InterpreterWebhook, operation: Operation, target: InterpretedKind) -> bool:
    """Return whether any rule of a webhook matches an operation on a target."""
    return any(_rule_matches(rule, operation, target, proposed=webhook.proposed) for rule in webhook.rules)


def _rule_matches(rule: JSONObject, operation: Operation, target: InterpretedKind, *, proposed: bool) -> bool:
    operations = list_texts(rule.get("operations"))
    named = set(map(operation_named, operations))
    if EVERY not in operations and operation not in named:
        return False
    group, version, _ = target.kind
    if not _has_name(rule.get("apiGroups"), group) or not _has_name(rule.get("apiVersions"), version):
        return False
    if not proposed:
        return _has_name(rule.get("kinds"), target.kind.kind)
    scope = rule.get("scope") or EVERY
    in_scope = scope == EVERY or (scope == "Namespaced") == target.namespaced
    return in_scope and any(name in (EVERY, "*/*", target.resource) for name in as_list(rule.get("resources")))


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


def problems(group_kind: GroupKind, configuration: JSONObject) -> Iterator[FieldError]:
    """Yield the problems of a configuration (karmada v1.16 pkg/webhook/configuration/validating.go)."""
    proposed = group_kind == EXPLORING_CONFIGURATION
    yield from webhooks_problems(configuration.get("webhooks"), partial(_webhook_problems, proposed=proposed))


def _webhook_problems(webhook: JSONObject, field: str, *, proposed: bool) -> Iterator[FieldError]:
    from fleethook.outbound.certificate_trust import bundle_problems  # noqa: PLC0415 - lint reads the index without cryptography

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


def _rule_problems(rule: Any, field: str, *, proposed: bool) -> Iterator[FieldError]:
    configurable = [row for row in OPERATIONS if _is_configurable(row.operation, proposed=proposed)]
    known = sorted({EVERY, *(row.proposed if proposed else row.operation.value for row in configurable)})
    operations = rule.get("operations")
    yield from list_problems(operations, f"{field}.operations", "operations", empty_items=True)
    for index, name in enumerate(list_texts(operations)):
        yield from choice_problems(name, f"{field}.operations[{index}]", known)
    yield from list_problems(rule.get("apiGroups"), f"{field}.apiGroups", "API groups", empty_items=True)
    yield from list_problems(rule.get("apiVersions"), f"{field}.apiVersions", "API versions", empty_items=False)
    if not proposed:
        yield from list_problems(rule.get("kinds"), f"{field}.kinds", "kinds", empty_items=False)
        return
    yield from list_problems(rule.get("resources"), f"{field}.resources", "resources", empty_items=False)
    yield from choice_problems(rule.get("scope"), f"{field}.scope", SCOPES)


def _is_configurable(operation: Operation, *, proposed: bool) -> bool:
    # The proposal has a webhook for Prune and none for InterpretComponent; Karmada shipped the opposite.
    return operation is not (Operation.COMPONENT if proposed else Operation.PRUNE)


def validate_configuration(request: AdmissionRequest) -> Response:
    """Answer the review of a webhook configuration with all of its problems."""
    answer = not_for_review(request, CONFIGURATIONS)
    if answer is not None:
        return answer
    return refuse_problems(problems(GroupKind(request.kind.group, request.kind.kind), request.object))


def refuse_problems(problems_found: Iterable[FieldError], *, warnings: Sequence[str] = ()) -> Response:
    """Deny an object with the problems that `first_problems` lists; allow it if there are none."""
    causes = [StatusCause(field, text, "FieldValueInvalid") for field, text in first_problems(problems_found)]
    if not causes:
        return admission.allowed(warnings=warnings)
    texts = [f"{cause.field}: {cause.message}" for cause in causes]
    return admission.invalid(texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]", causes)


def _list_definition_kinds(_cluster: str, definition: Stored) -> list[tuple[str, str]]:
    spec = as_object(definition.get("spec"))
    return [(str(spec.get("group") or ""), str(as_object(spec.get("names")).get("kind") or ""))]


DEFINITIONS_BY_KIND: Final = Index("definitions_by_kind", DEFINITION, _list_definition_kinds)
INDEXES: Final = (DEFINITIONS_BY_KIND,)


WEBHOOK_NAME: Final = "interpret.fleethook.io"
PLURAL: Final = "resourceinterpreterwebhookconfigurations"
_TIMEOUT_SECONDS: Final = 10
_OPERATIONS: Final = tuple(operation for operation in Operation if operation is not Operation.PRUNE)
"""Karmada's operations, in the order of their names in rules."""

Answers = Collection[tuple[GroupVersionKind, Operation]]


class KarmadaInterpreters(NamedTuple):
    """The kinds and operations that Karmada interprets itself."""

    native: Answers
    """Those of Kubernetes' own kinds."""
    thirdparty: Answers
    """Those of well-known custom resources."""


@cache
def read_karmada_interpreters() -> KarmadaInterpreters:
    """Return the interpreters of the newest Karmada; the data file beside this module names the version."""
    text = resources.files(__package__).joinpath("karmada_interpreters.yaml").read_text("utf-8")
    tables = yaml.load(text, yaml.CSafeLoader)
    return KarmadaInterpreters(*(frozenset(_read_table(tables[name])) for name in KarmadaInterpreters._fields))


def _read_table(table: Mapping[str, Mapping[str, Sequence[str]]]) -> Iterator[tuple[GroupVersionKind, Operation]]:
    for api_version, kinds in table.items():
        group, version = parse_api_version(api_version)
        for kind, operations in kinds.items():
            yield from ((GroupVersionKind(group, version, kind), Operation(operation)) for operation in operations)


_BUILT_IN: Final = frozenset({"bundle", "native", "conventions"})
"""The layers that are part of fleethook. The others have the interpreters of users."""


def choose_answers(
    layers: Mapping[str, Answers], choice: InterpreterRegistration, karmada: KarmadaInterpreters
) -> frozenset[tuple[GroupVersionKind, Operation]]:
    """Return the kinds and operations about which Karmada asks this server.

    Args:
        layers: The kinds and operations that each layer answers, by the name of the layer.
        choice: OWN for those of users, ALL for all of them. MISSING adds to those of users the kinds and operations of
            the bundle and of conventions that Karmada does not interpret itself.
        karmada: The kinds and operations that Karmada interprets itself.
    """
    own = {answer for name, answers in layers.items() if name not in _BUILT_IN for answer in answers}
    if choice is InterpreterRegistration.OWN:
        return frozenset(own)
    if choice is InterpreterRegistration.ALL:
        return frozenset(answer for answers in layers.values() for answer in answers)
    known = {*karmada.native, *karmada.thirdparty}
    # Karmada does not ask about replicas if anybody answers about components (pkg/detector/detector.go).
    known |= {(kind, Operation.COMPONENT) for kind, operation in known if operation is Operation.REPLICA}
    chosen = own | ({*layers.get("bundle", ()), *layers.get("conventions", ())} - known)
    # Karmada copies the status of any kind. Only an aggregation of ours needs the generations that ours adds.
    return frozenset(chosen) - {
        one for one in chosen - own if one[1] is Operation.STATUS and (one[0], Operation.AGGREGATE_STATUS) not in chosen
    }


class InterpreterRules(NamedTuple):
    """The rules of a configuration."""

    rules: list[JSONObject]
    left_out: list[str]
    """A text for each kind and operation that another webhook has. Karmada never calls a second webhook."""


def select(answers: Answers, others: Sequence[InterpreterWebhook]) -> InterpreterRules:
    """Return the rules that name exactly the kinds and operations that this server answers.

    Args:
        answers: The kinds and operations that this server answers.
        others: The webhooks that Karmada knows, with or without those of this server.
    """
    rivals = [webhook for webhook in others if not webhook.proposed and not is_own(webhook)]
    answered: dict[GroupVersionKind, set[Operation]] = {}
    left_out = []
    for kind, operation in sorted(answers):
        if operation not in _OPERATIONS:
            continue
        target = InterpretedKind(kind, "", namespaced=True)
        rival = next((webhook for webhook in rivals if matches(webhook, operation, target)), None)
        if rival is None:
            answered.setdefault(kind, set()).add(operation)
        else:
            what = f"{operation} of {kind.api_version} {kind.kind}"
            left_out.append(f"{what} is not registered: webhook {rival.uid} already has it")
    return InterpreterRules(_group_rules(answered), left_out)


def _group_rules(answered: dict[GroupVersionKind, set[Operation]]) -> list[JSONObject]:
    """Return one rule for all kinds of a version with the same operations, because rules match every combination."""
    alike: dict[tuple[str, str, tuple[str, ...]], list[str]] = {}
    for kind, found in sorted(answered.items()):
        operations = tuple(operation.value for operation in _OPERATIONS if operation in found)
        alike.setdefault((kind.group, kind.version, operations), []).append(kind.kind)
    return [
        {"apiGroups": [group], "apiVersions": [version], "kinds": list(kinds), "operations": list(operations)}
        for (group, version, operations), kinds in alike.items()
    ]


def build_configuration(rules: Sequence[JSONObject], client_config: JSONObject) -> JSONObject:
    """Return the configuration.

    Args:
        rules: As `select` returns them. Without rules, the configuration has no webhook: Karmada refuses an empty one.
        client_config: The address of this server for Karmada.
    """
    webhook: JSONObject = {
        "name": WEBHOOK_NAME,
        "clientConfig": client_config,
        "rules": list(rules),
        "interpreterContextVersions": [VERSION],
        "timeoutSeconds": _TIMEOUT_SECONDS,
    }
    return {
        "apiVersion": API_VERSION,
        "kind": INTERPRETER_CONFIGURATION.kind,
        "metadata": {"name": OWN_CONFIGURATION, "labels": {"app.kubernetes.io/name": "fleethook"}},
        "webhooks": [webhook] if rules else [],
    }


def select_from_store(store: Store, layers: Mapping[str, Answers], choice: InterpreterRegistration) -> InterpreterRules:
    """Return the rules for the chosen kinds and operations that no other configuration in the store names."""
    kind = INTERPRETER_CONFIGURATION
    answers = choose_answers(layers, choice, read_karmada_interpreters())
    others = [webhook for one in store.each("", kind) for webhook in parse_webhooks(kind, one)]
    return select(answers, sorted(others, key=lambda webhook: webhook.uid))  # the order in which Karmada matches them
