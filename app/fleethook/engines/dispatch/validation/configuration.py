"""Validates Mutating- and ValidatingWebhookConfigurations, with the texts and in the order of an apiserver.

Upstream: kubernetes v1.36, pkg/apis/admissionregistration/validation.
"""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from fleethook.engines.dispatch.hooks.hook_defaults import MUTATING
from fleethook.engines.dispatch.validation.match_conditions import (
    CompileExpression,
    condition_problems,
    list_expressions,
)
from fleethook.engines.dispatch.validation.metadata import metadata_problems
from fleethook.engines.dispatch.validation.rules import rules_problems
from fleethook.model.formats.client_config import client_config_problems
from fleethook.model.formats.field_errors import (
    FAILURE_POLICIES,
    Problem,
    choice_problems,
    mistyped,
    name_problems,
    required,
    texts_of,
    timeout_problems,
    version_problems,
    webhooks_problems,
)
from fleethook.model.formats.names import selector_problems
from fleethook.model.json import JSON, JSONObject, as_object, decode_bytes

REVIEW_VERSIONS: Final = ("v1", "v1beta1")

_NAME_SEGMENTS: Final = 3
_MATCH_POLICIES: Final = ("Equivalent", "Exact")
_REINVOCATION_POLICIES: Final = ("IfNeeded", "Never")
_NO_SIDE_EFFECTS: Final = ("None", "NoneOnDryRun")
_SIDE_EFFECTS: Final = ("None", "NoneOnDryRun", "Some", "Unknown")


class _Ratchet(NamedTuple):
    """The rules that an update may violate because the stored configuration already does."""

    side_effects: bool = False
    unknown_versions: bool = False
    equal_names: bool = False
    label_values: bool = False
    conditions: bool = False
    expressions: frozenset[str] = frozenset()


def configuration_problems(
    kind: str, configuration: JSONObject, *, old: JSONObject | None = None, compile_expression: CompileExpression
) -> Iterator[Problem]:
    """Yield all errors of a configuration.

    Args:
        kind: ``MutatingWebhookConfiguration`` or ``ValidatingWebhookConfiguration``.
        configuration: The configuration with its defaults; members may have any type.
        old: The stored configuration with its defaults, for an update. Errors in it may stay.
        compile_expression: Raises ValueError with the error of a match condition.
    """
    yield from metadata_problems(configuration.get("metadata"), "metadata")
    webhooks = configuration.get("webhooks")
    listed = webhooks if isinstance(webhooks, list) else []
    ratchet = _Ratchet() if old is None else _build_ratchet(listed, _list_webhooks(old))

    def check(webhook: JSONObject, field: str) -> Iterator[Problem]:
        yield from _webhook_problems(webhook, field, mutating=kind == MUTATING, ratchet=ratchet)
        yield from _condition_problems(webhook, field, ratchet, compile_expression)
        versions, recognised = webhook.get("admissionReviewVersions"), not ratchet.unknown_versions
        yield from version_problems(
            versions, f"{field}.admissionReviewVersions", REVIEW_VERSIONS, recognised=recognised
        )

    yield from webhooks_problems(webhooks, check, unique_names=not ratchet.equal_names)


def _webhook_problems(webhook: JSONObject, field: str, *, mutating: bool, ratchet: _Ratchet) -> Iterator[Problem]:
    yield from name_problems(webhook.get("name"), f"{field}.name", segments=_NAME_SEGMENTS)
    yield from rules_problems(webhook.get("rules"), f"{field}.rules")
    yield from choice_problems(webhook.get("failurePolicy"), f"{field}.failurePolicy", FAILURE_POLICIES)
    yield from choice_problems(webhook.get("matchPolicy"), f"{field}.matchPolicy", _MATCH_POLICIES)
    allowed = _SIDE_EFFECTS if ratchet.side_effects else _NO_SIDE_EFFECTS
    if webhook.get("sideEffects") is None:
        yield required(f"{field}.sideEffects", f"must specify one of {', '.join(allowed)}")
    yield from choice_problems(webhook.get("sideEffects"), f"{field}.sideEffects", allowed)
    yield from timeout_problems(webhook.get("timeoutSeconds"), f"{field}.timeoutSeconds")
    for member in ("namespaceSelector", "objectSelector"):
        yield from selector_problems(webhook.get(member), f"{field}.{member}", any_value=ratchet.label_values)
    if mutating:
        policy = webhook.get("reinvocationPolicy")
        yield from choice_problems(policy, f"{field}.reinvocationPolicy", _REINVOCATION_POLICIES)
    config = webhook.get("clientConfig")
    yield from client_config_problems(config, f"{field}.clientConfig")
    yield from _encoding_problems(as_object(config).get("caBundle"), f"{field}.clientConfig.caBundle")


def _encoding_problems(bundle: JSON, field: str) -> Iterator[Problem]:
    # An apiserver accepts any bytes as a bundle. The first call fails if they are not a certificate.
    if bundle is None:
        return
    try:
        decode_bytes(bundle)
    except ValueError:
        yield mistyped(field, "bytes in base64")


def _condition_problems(
    webhook: JSONObject, field: str, ratchet: _Ratchet, compile_expression: CompileExpression
) -> Iterator[Problem]:
    if ratchet.conditions:
        return
    yield from condition_problems(
        webhook.get("matchConditions"),
        f"{field}.matchConditions",
        known=ratchet.expressions,
        compile_expression=compile_expression,
    )


def _build_ratchet(webhooks: Sequence[JSON], old: Sequence[JSONObject]) -> _Ratchet:
    """Return the rules that an update may violate. As upstream, one webhook that violates a rule exempts all."""
    names = [_read_text(webhook.get("name")) for webhook in old]
    return _Ratchet(
        side_effects=any(webhook.get("sideEffects") not in _NO_SIDE_EFFECTS for webhook in old),
        unknown_versions=any(_has_only_unknown_versions(webhook.get("admissionReviewVersions")) for webhook in old),
        equal_names=len(set(names)) < len(names),
        label_values=any(_has_invalid_selector(webhook) for webhook in old),
        conditions=len(webhooks) == len(old)
        and all(_list_conditions(new) == _list_conditions(before) for new, before in zip(webhooks, old, strict=True)),
        expressions=frozenset(
            expression for webhook in old for expression in list_expressions(webhook.get("matchConditions"))
        ),
    )


def _list_webhooks(configuration: JSONObject) -> list[JSONObject]:
    webhooks = configuration.get("webhooks")
    return [dict(as_object(webhook)) for webhook in webhooks] if isinstance(webhooks, list) else []


def _has_only_unknown_versions(versions: JSON) -> bool:
    # A webhook without versions is older than the requirement, and does not exempt others.
    return bool(versions) and not set(texts_of(versions)) & set(REVIEW_VERSIONS)


def _has_invalid_selector(webhook: JSONObject) -> bool:
    return any(
        problem
        for member in ("namespaceSelector", "objectSelector")
        for problem in selector_problems(webhook.get(member), "")
    )


def _list_conditions(webhook: JSON) -> list[tuple[str, str]] | None:
    # As in Go, a missing list differs from an empty list.
    conditions = as_object(webhook).get("matchConditions")
    if not isinstance(conditions, list):
        return None
    members = [as_object(condition) for condition in conditions]
    return [(_read_text(one.get("name")), _read_text(one.get("expression"))) for one in members]


def _read_text(value: JSON) -> str:
    # Only strings are compared: a comparison of deeply nested documents fails.
    return value if isinstance(value, str) else ""
