"""Validates webhook configurations with the texts and in the order of an apiserver, and has the codes of lint findings.

Upstream: kubernetes v1.36, pkg/apis/admissionregistration/validation. ``finding_levels.txt`` lists the codes about
webhooks and their levels; `fleethook.engines.overrider.rules.finding` has those of overriders.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Final, Literal, NamedTuple

import msgspec

from fleethook.cel.evaluation import ExpressionError
from fleethook.cel.program import compile_condition
from fleethook.engines.dispatch.webhooks.compiled_webhook import MUTATING
from fleethook.model.formats.client_config import client_config_problems
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
    subdomain_problems,
    timeout_problems,
    version_problems,
    webhooks_problems,
)
from fleethook.model.formats.labels import label_key_problems, labels_problems, selector_problems
from fleethook.model.json import JSON, JSONObject, as_list, as_object, decode_bytes, enumerate_objects, list_texts
from fleethook.outbound.certificate_trust import bundle_problems, list_skipped

_MAX_ANNOTATIONS: Final = 256 * 1024  # bytes of all keys and values (apimachinery: TotalAnnotationSizeLimitB)


def metadata_problems(metadata: JSON, field: str) -> Iterator[FieldError]:
    """Yield the errors in the metadata of a cluster-scoped object."""
    if metadata is not None and not isinstance(metadata, dict):
        yield mistyped(field, "an object")
        return
    members = as_object(metadata)
    texts: dict[str, str] = {}
    for member in ("generateName", "name", "namespace"):
        value = members.get(member)
        if value is not None and not isinstance(value, str):
            yield mistyped(f"{field}.{member}", "a string")
        else:
            texts[member] = value or ""
    yield from _metadata_name_problems(texts, field)
    if texts.get("namespace"):
        yield FieldError(f"{field}.namespace", "Forbidden: not allowed on this type")
    yield from labels_problems(members.get("labels"), f"{field}.labels")
    yield from _annotation_problems(members.get("annotations"), f"{field}.annotations")


def _metadata_name_problems(texts: dict[str, str], field: str) -> Iterator[FieldError]:
    prefix, name = texts.get("generateName"), texts.get("name")
    if prefix:
        # A suffix follows a trailing dash before the prefix becomes a name.
        likely = f"{prefix[:-2]}a" if len(prefix) > 1 and prefix.endswith("-") else prefix
        yield from (invalid(f"{field}.generateName", prefix, text) for text in subdomain_problems(likely))
    if name:
        yield from (invalid(f"{field}.name", name, text) for text in subdomain_problems(name))
    elif name is not None and not prefix:
        yield required(f"{field}.name", "name or generateName is required")


def _annotation_problems(annotations: JSON, field: str) -> Iterator[FieldError]:
    if annotations is None:
        return
    if not isinstance(annotations, dict):
        yield mistyped(field, "an object")
        return
    size = 0
    for key, value in annotations.items():
        name = str(key)
        yield from (invalid(field, name, text) for text in label_key_problems(name.lower()))
        if value is not None and not isinstance(value, str):
            yield mistyped(field, "an object of strings")
        size += sum(len(text.encode(errors="replace")) for text in (name, value) if isinstance(text, str))
    if size > _MAX_ANNOTATIONS:
        yield FieldError(field, f"Too long: may not be more than {_MAX_ANNOTATIONS} bytes")


_OPERATIONS: Final = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_EVERYTHING: Final = "*/*"


def rules_problems(rules: JSON, field: str) -> Iterator[FieldError]:
    """Yield the errors of a webhook's rules, None for no rules."""
    if rules is not None and not isinstance(rules, list):
        yield mistyped(field, "a list")
        return
    for index, rule in enumerate(rules or ()):
        place = f"{field}[{index}]"
        if isinstance(rule, dict):
            yield from _rule_problems(rule, place)
        else:
            yield mistyped(place, "an object")


def _rule_problems(rule: dict[str, JSON], field: str) -> Iterator[FieldError]:
    operations, resources = rule.get("operations"), rule.get("resources")
    yield from list_problems(operations, f"{field}.operations", "operations", empty_items=True)
    for index, operation in enumerate(as_list(operations)):
        if isinstance(operation, str):
            yield from choice_problems(operation, f"{field}.operations[{index}]", _OPERATIONS)
    yield from list_problems(rule.get("apiGroups"), f"{field}.apiGroups", "API groups", empty_items=True)
    yield from list_problems(rule.get("apiVersions"), f"{field}.apiVersions", "API versions", empty_items=False)
    if resources is not None and not isinstance(resources, list):
        yield mistyped(f"{field}.resources", "a list")
    else:
        yield from resource_problems(resources or (), f"{field}.resources")
    yield from choice_problems(rule.get("scope"), f"{field}.scope", SCOPES)


def resource_problems(resources: Sequence[JSON], field: str) -> Iterator[FieldError]:
    """Yield the errors of a rule's resources.

    As upstream, the order counts: a wildcard conflicts with later resources, not with earlier ones.
    """
    if not resources:
        yield required(field)
    before: set[str] = set()
    for index, resource in enumerate(resources):
        if not isinstance(resource, str):
            yield mistyped(f"{field}[{index}]", "a string")
        elif not resource:
            yield required(f"{field}[{index}]")
        else:
            yield from _overlap_problems(resource, before, f"{field}[{index}]")
            before.add(resource)
    named = list_texts(resources)
    if len(resources) > 1 and _EVERYTHING in named:
        yield invalid(field, named, "if '*/*' is present, must not specify other resources")
    plurals = [resource for resource in named if resource and "/" not in resource]
    # Upstream only checks whether the last of them is the wildcard.
    if EVERY in plurals and plurals[-1] != EVERY:
        yield invalid(field, named, "if '*' is present, must not specify other resources without subresources")


def _overlap_problems(resource: str, before: Collection[str], field: str) -> Iterator[FieldError]:
    main, slash, sub = resource.partition("/")
    if not slash:
        return
    for wildcard in (f"{main}/*", f"*/{sub}"):
        if wildcard in before:
            yield invalid(field, resource, f"if '{wildcard}' is present, must not specify {resource}")


_MAX_CONDITIONS: Final = 64


def condition_problems(conditions: JSON, field: str) -> Iterator[FieldError]:
    """Yield the errors of match conditions, None for none."""
    if conditions is None:
        return
    if not isinstance(conditions, list):
        yield mistyped(field, "a list")
        return
    if len(conditions) > _MAX_CONDITIONS:
        yield FieldError(field, f"Too many: {len(conditions)}: must have at most {_MAX_CONDITIONS} items")
    seen: set[str] = set()
    for index, condition in enumerate(conditions):
        place = f"{field}[{index}]"
        if not isinstance(condition, dict):
            yield mistyped(place, "an object")
            continue
        expression, name = condition.get("expression"), condition.get("name")
        yield from _expression_problems(expression, f"{place}.expression")
        yield from _condition_name_problems(name, f"{place}.name")
        if isinstance(name, str) and name:
            if name in seen:
                yield duplicate(f"{place}.name", name)
            seen.add(name)


def _expression_problems(expression: JSON, field: str) -> Iterator[FieldError]:
    if expression is not None and not isinstance(expression, str):
        yield mistyped(field, "a string")
        return
    trimmed = (expression or "").strip()
    if not trimmed:
        yield required(field)
        return
    try:
        compile_condition(trimmed)
    except ExpressionError as error:
        yield invalid(field, trimmed, str(error))


def _condition_name_problems(name: JSON, field: str) -> Iterator[FieldError]:
    if name is None or name == "":
        yield required(field)
    elif not isinstance(name, str):
        yield mistyped(field, "a string")
    else:
        yield from (invalid(field, name, text) for text in label_key_problems(name))


REVIEW_VERSIONS: Final = ("v1", "v1beta1")

_NAME_SEGMENTS: Final = 3
_MATCH_POLICIES: Final = ("Equivalent", "Exact")
_REINVOCATION_POLICIES: Final = ("IfNeeded", "Never")
_NO_SIDE_EFFECTS: Final = ("None", "NoneOnDryRun")


def configuration_problems(kind: str, configuration: JSONObject) -> Iterator[FieldError]:
    """Yield all errors of a new configuration.

    Args:
        kind: ``MutatingWebhookConfiguration`` or ``ValidatingWebhookConfiguration``.
        configuration: The configuration with its defaults; members may have any type.
    """
    yield from metadata_problems(configuration.get("metadata"), "metadata")
    webhooks = configuration.get("webhooks")

    def check(webhook: JSONObject, field: str) -> Iterator[FieldError]:
        yield from _webhook_problems(webhook, field, mutating=kind == MUTATING.kind)
        yield from condition_problems(webhook.get("matchConditions"), f"{field}.matchConditions")
        yield from version_problems(
            webhook.get("admissionReviewVersions"), f"{field}.admissionReviewVersions", REVIEW_VERSIONS
        )

    yield from webhooks_problems(webhooks, check)


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
    yield from _encoding_problems(as_object(config).get("caBundle"), f"{field}.clientConfig.caBundle")


def _encoding_problems(bundle: JSON, field: str) -> Iterator[FieldError]:
    # An apiserver accepts any bytes as a bundle. The first call fails if they are not a certificate.
    if bundle is None:
        return
    try:
        decode_bytes(bundle)
    except ValueError:
        yield mistyped(field, "bytes in base64")


_VERSION: Final = re.compile(r"\*|[a-z]([-a-z0-9]*[a-z0-9])?")
_RESOURCE: Final = re.compile(r"\*|[a-z0-9]([-a-z0-9]*[a-z0-9])?")


def configuration_warnings(configuration: JSONObject) -> Iterator[str]:
    """Yield likely mistakes in a configuration that an apiserver accepts, each with its field."""
    for index, members in enumerate_objects(configuration.get("webhooks")):
        field = f"webhooks[{index}]"
        bundle = as_object(members.get("clientConfig")).get("caBundle")
        for problem in bundle_problems(bundle, f"{field}.clientConfig.caBundle"):
            yield f"{problem.field}: every call will fail: {problem.text}"
        for text in list_skipped(bundle):
            yield f"{field}.clientConfig.caBundle: {text}; it is not used, and the others are"
        for position, rule in enumerate_objects(members.get("rules")):
            yield from _rule_warnings(rule, f"{field}.rules[{position}]")


def _rule_warnings(rule: JSON, field: str) -> Iterator[str]:
    groups, versions = list_texts(rule.get("apiGroups")), list_texts(rule.get("apiVersions"))
    resources = list_texts(rule.get("resources"))
    if groups and not any(_is_group(group) for group in groups):
        hint = ' (the group of pods is "")' if "core" in groups else ""
        yield f"{field}.apiGroups: the rule never matches: no API group is spelled like this{hint}"
    if versions and not any(_VERSION.fullmatch(version) for version in versions):
        yield f"{field}.apiVersions: the rule never matches: no API version is spelled like this"
    if resources and not any(_RESOURCE.fullmatch(resource.partition("/")[0]) for resource in resources):
        yield f"{field}.resources: the rule never matches: resources are plurals in lower case"


def _is_group(group: str) -> bool:
    # A group of "core" would be a name without a dot, which only an aggregated API could have.
    return group in ("", EVERY) or (group != "core" and not list(subdomain_problems(group)))


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
