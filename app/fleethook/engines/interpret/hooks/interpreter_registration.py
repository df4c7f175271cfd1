"""Builds this server's ResourceInterpreterWebhookConfiguration, with exactly the kinds and operations that it answers.

Karmada considers every operation that a rule names as enabled, and calls only the first webhook by name
(karmada v1.16 pkg/resourceinterpreter/customized/webhook). If a rule names more than the server answers, Karmada fails
where its own interpreters would have answered. If two configurations name one kind, the second is never called.
"""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from fleethook.cluster.store import Store
from fleethook.engines.interpret.hooks.hook_configuration import (
    CONFIGURATIONS,
    Hook,
    Target,
    is_own,
    matches,
    parse_hooks,
)
from fleethook.model.gvk import GroupKind, GroupVersionKind
from fleethook.model.json import JSONObject
from fleethook.model.karmada import (
    API_VERSION,
    INTERPRETER_CONFIGURATION,
    OWN_CONFIGURATION,
    VERSION,
    Operation,
)

WEBHOOK_NAME: Final = "interpret.fleethook.io"
PLURAL: Final = "resourceinterpreterwebhookconfigurations"
_TIMEOUT_SECONDS: Final = 10
_OPERATIONS: Final = tuple(operation for operation in Operation if operation is not Operation.PRUNE)
"""Karmada's operations, in the order of their names in rules."""

Answers = Iterable[tuple[GroupVersionKind, Operation]]


class LeftOut(NamedTuple):
    """A kind and operation that another webhook has already. Karmada never calls a second webhook."""

    kind: GroupVersionKind
    operation: Operation
    webhook: str
    """``CONFIGURATION/WEBHOOK``."""

    def __str__(self) -> str:
        kind = f"{self.kind.api_version} {self.kind.kind}"
        return f"{self.operation} of {kind} is not registered: webhook {self.webhook} already has it"


class Selection(NamedTuple):
    """The rules of a configuration."""

    rules: list[JSONObject]
    left_out: list[LeftOut]


def select(answers: Answers, others: Sequence[Hook]) -> Selection:
    """Return the rules that name exactly the kinds and operations that this server answers.

    Args:
        answers: The kinds and operations that this server answers.
        others: The webhooks that Karmada knows, with or without those of this server.
    """
    rivals = [hook for hook in others if not hook.proposed and not is_own(hook)]
    wanted: dict[GroupVersionKind, set[Operation]] = {}
    left_out = []
    for kind, operation in sorted(answers):
        if operation not in _OPERATIONS:
            continue
        rival = next((hook for hook in rivals if matches(hook, operation, Target(kind, "", namespaced=True))), None)
        if rival is None:
            wanted.setdefault(kind, set()).add(operation)
        else:
            left_out.append(LeftOut(kind, operation, rival.uid))
    return Selection(_group_rules(wanted), left_out)


def _group_rules(wanted: dict[GroupVersionKind, set[Operation]]) -> list[JSONObject]:
    """Return one rule for all kinds of a version with the same operations, because rules match every combination."""
    alike: dict[tuple[str, str, tuple[str, ...]], list[str]] = {}
    for kind, found in sorted(wanted.items()):
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


def list_hooks(configurations: Iterable[tuple[GroupKind, JSONObject]]) -> list[Hook]:
    """Return the webhooks of configurations, in the order in which Karmada matches them."""
    found = [hook for kind, one in configurations if kind in CONFIGURATIONS for hook in parse_hooks(kind, one)]
    return sorted(found, key=lambda hook: hook.uid)


def select_from_store(store: Store, answers: Answers) -> Selection:
    """Return the rules for the kinds and operations that no other configuration in the store names."""
    kind = INTERPRETER_CONFIGURATION
    return select(answers, list_hooks((kind, one) for one in store.each("", kind)))
