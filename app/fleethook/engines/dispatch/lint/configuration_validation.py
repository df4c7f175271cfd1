"""Validates webhook configurations with the texts and in the order of an apiserver, and has the codes of lint findings.

Upstream: kubernetes v1.36, pkg/apis/admissionregistration/validation. ``finding_levels.txt`` lists the codes about
webhooks and their levels; `fleethook.engines.overrider.rules.finding` has those of overriders.
"""

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Final, Literal, NamedTuple

import msgspec

from fleethook.cel.compile_error_list import ExpressionError
from fleethook.cel.program import compile_condition
from fleethook.cel.values.values_and_overloads import can_parse
from fleethook.engines.dispatch.webhooks.webhook_defaults_and_compilation import MUTATING
from fleethook.model.formats.client_config_and_addresses import client_config_problems
from fleethook.model.formats.field_errors import (
    EVERY,
    FAILURE_POLICIES,
    SCOPES,
    FieldError,
    choice_problems,
    duplicate,
    invalid,
    list_problems,
    mistyped,
    name_problems,
    required,
    timeout_problems,
    version_problems,
    webhooks_problems,
)
from fleethook.model.formats.names_and_labels import label_key_problems, selector_problems
from fleethook.model.formats.text import decode_bytes
from fleethook.model.json import JSON, JSONObject, as_list, as_object, as_text, enumerate_objects, list_texts

_OPERATIONS: Final = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_EVERYTHING: Final = "*/*"


def rules_problems(rules: JSON, field: str) -> Iterator[FieldError]:
    """Yield the errors of a webhook's rules."""
    for index, rule in enumerate_objects(rules):
        yield from _rule_problems(rule, f"{field}[{index}]")


def _rule_problems(rule: dict[str, JSON], field: str) -> Iterator[FieldError]:
    operations = rule.get("operations")
    yield from list_problems(operations, f"{field}.operations", "operations", empty_items=True)
    for index, operation in enumerate(list_texts(operations)):
        yield from choice_problems(operation, f"{field}.operations[{index}]", _OPERATIONS)
    yield from list_problems(rule.get("apiGroups"), f"{field}.apiGroups", "API groups", empty_items=True)
    yield from list_problems(rule.get("apiVersions"), f"{field}.apiVersions", "API versions", empty_items=False)
    yield from resource_problems(list_texts(rule.get("resources")), f"{field}.resources")
    yield from choice_problems(rule.get("scope"), f"{field}.scope", SCOPES)


def resource_problems(resources: Sequence[str], field: str) -> Iterator[FieldError]:
    """Yield the errors of a rule's resources.

    As upstream, the order counts: a wildcard conflicts with later resources, not with earlier ones.
    """
    if not resources:
        yield required(field)
    before: set[str] = set()
    for index, resource in enumerate(resources):
        if not resource:
            yield required(f"{field}[{index}]")
        else:
            yield from _overlap_problems(resource, before, f"{field}[{index}]")
            before.add(resource)
    if len(resources) > 1 and _EVERYTHING in resources:
        yield invalid(field, resources, "if '*/*' is present, must not specify other resources")
    plurals = [resource for resource in resources if resource and "/" not in resource]
    # Upstream only checks whether the last of them is the wildcard.
    if EVERY in plurals and plurals[-1] != EVERY:
        yield invalid(field, resources, "if '*' is present, must not specify other resources without subresources")


def _overlap_problems(resource: str, before: Collection[str], field: str) -> Iterator[FieldError]:
    main, slash, sub = resource.partition("/")
    if not slash:
        return
    for wildcard in (f"{main}/*", f"*/{sub}"):
        if wildcard in before:
            yield invalid(field, resource, f"if '{wildcard}' is present, must not specify {resource}")


_MAX_CONDITIONS: Final = 64


def condition_problems(conditions: JSON, field: str) -> Iterator[FieldError]:
    """Yield the errors of match conditions."""
    if (count := len(as_list(conditions))) > _MAX_CONDITIONS:
        yield FieldError(field, f"Too many: {count}: must have at most {_MAX_CONDITIONS} items")
    seen: set[str] = set()
    for index, condition in enumerate_objects(conditions):
        place, name = f"{field}[{index}]", as_text(condition.get("name"))
        yield from _expression_problems(as_text(condition.get("expression")).strip(), f"{place}.expression")
        if not name:
            yield required(f"{place}.name")
        else:
            yield from (invalid(f"{place}.name", name, text) for text in label_key_problems(name))
        if name in seen:
            yield duplicate(f"{place}.name", name)
        if name:
            seen.add(name)


def _expression_problems(expression: str, field: str) -> Iterator[FieldError]:
    if not expression:
        yield required(field)
        return
    try:
        compile_condition(expression)
    except ExpressionError as error:
        yield invalid(field, expression, str(error))


REVIEW_VERSIONS: Final = ("v1", "v1beta1")

_NAME_SEGMENTS: Final = 3
_MATCH_POLICIES: Final = ("Equivalent", "Exact")
_REINVOCATION_POLICIES: Final = ("IfNeeded", "Never")
_NO_SIDE_EFFECTS: Final = ("None", "NoneOnDryRun")


def configuration_problems(kind: str, configuration: JSONObject) -> Iterator[FieldError]:
    """Yield the errors of a new configuration, except those of its metadata and of wrong types.

    Args:
        kind: ``MutatingWebhookConfiguration`` or ``ValidatingWebhookConfiguration``.
        configuration: The configuration with its defaults; members may have any type.
    """

    def check(webhook: JSONObject, field: str) -> Iterator[FieldError]:
        yield from _webhook_problems(webhook, field, mutating=kind == MUTATING.kind)
        yield from condition_problems(webhook.get("matchConditions"), f"{field}.matchConditions")
        yield from version_problems(
            webhook.get("admissionReviewVersions"), f"{field}.admissionReviewVersions", REVIEW_VERSIONS
        )

    yield from webhooks_problems(configuration.get("webhooks"), check)


def _webhook_problems(webhook: JSONObject, field: str, *, mutating: bool) -> Iterator[FieldError]:
    yield from name_problems(webhook.get("name"), f"{field}.name", segments=_NAME_SEGMENTS)
    yield from rules_problems(webhook.get("rules"), f"{field}.rules")
    yield from choice_problems(webhook.get("failurePolicy"), f"{field}.failurePolicy", FAILURE_POLICIES)
    yield from choice_problems(webhook.get("matchPolicy"), f"{field}.matchPolicy", _MATCH_POLICIES)
    if webhook.get("sideEffects") is None:
        yield required(f"{field}.sideEffects", f"must specify one of {', '.join(_NO_SIDE_EFFECTS)}")
    yield from choice_problems(webhook.get("sideEffects"), f"{field}.sideEffects", _NO_SIDE_EFFECTS)
    yield from timeout_problems(webhook.get("timeoutSeconds"), f"{field}.timeoutSeconds")
    for member in ("namespaceSelector", "objectSelector"):
        yield from selector_problems(webhook.get(member), f"{field}.{member}")
    if mutating:
        policy = webhook.get("reinvocationPolicy")
        yield from choice_problems(policy, f"{field}.reinvocationPolicy", _REINVOCATION_POLICIES)
    config = webhook.get("clientConfig")
    yield from client_config_problems(config, f"{field}.clientConfig")
    # An apiserver accepts any bytes as a bundle. The first call fails if they are not a certificate.
    bundle = as_object(config).get("caBundle")
    if isinstance(bundle, str) and not can_parse(decode_bytes, bundle):
        yield mistyped(f"{field}.clientConfig.caBundle", "bytes in base64")


Level = Literal["error", "warning"]

_ROWS: Final = [
    line.split(maxsplit=2)
    for line in Path(__file__).with_name("finding_levels.txt").read_text(encoding="utf-8").splitlines()
]
"""Code, level and meaning, one in a line."""
CODES: Final[dict[str, Level]] = {code: "error" if level == "error" else "warning" for code, level, _ in _ROWS}
"""The level of each code: an error cannot work as written, a warning may be intended."""
MEANINGS: Final = {code: meaning for code, _, meaning in _ROWS}
"""The meaning of each code, for the documentation and the console."""


class Issue(NamedTuple):
    """One issue, with its remedy."""

    code: str
    text: str


class WebhookFinding(msgspec.Struct, frozen=True):
    """An issue, and its place."""

    level: Level
    code: str
    cluster: str
    kind: str
    """The kind of the object: one of the two kinds of configurations, or APIBinding."""
    configuration: str
    """The name of the object."""
    webhook: str
    """The name of the webhook, ``""`` for an issue of the object."""
    text: str
    place: str = ""
    """File and line, ``""`` if unknown."""
