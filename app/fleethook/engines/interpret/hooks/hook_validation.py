"""Validates hook configurations with the messages of karmada-webhook (karmada v1.16 pkg/webhook/configuration)."""

from collections.abc import Iterator
from functools import partial
from typing import Any, Final

from fleethook.engines.interpret.hooks.hook_configuration import EVERY, list_or_empty, versions_member
from fleethook.model.formats.client_config import client_config_problems
from fleethook.model.formats.field_errors import (
    FAILURE_POLICIES,
    SCOPES,
    Problem,
    choice_problems,
    list_problems,
    name_problems,
    timeout_problems,
    version_problems,
    webhooks_problems,
)
from fleethook.model.gvk import GroupKind
from fleethook.model.json import JSONObject, as_object
from fleethook.model.karmada import EXPLORING_CONFIGURATION, OPERATIONS, VERSION, Operation
from fleethook.outbound.tls.ca_bundle import bundle_problems

_NAME_SEGMENTS: Final = 2


def problems(group_kind: GroupKind, configuration: JSONObject) -> Iterator[Problem]:
    """Yield the problems of a configuration (karmada v1.16 pkg/webhook/configuration/validating.go)."""
    proposed = group_kind == EXPLORING_CONFIGURATION
    yield from webhooks_problems(configuration.get("webhooks"), partial(_webhook_problems, proposed=proposed))


def _webhook_problems(webhook: JSONObject, field: str, *, proposed: bool) -> Iterator[Problem]:
    yield from name_problems(webhook.get("name"), f"{field}.name", segments=_NAME_SEGMENTS)
    for position, rule in enumerate(list_or_empty(webhook.get("rules"))):
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
    for index, name in enumerate(list_or_empty(operations)):
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
