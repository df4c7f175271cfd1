"""Builds this server's ResourceInterpreterWebhookConfiguration, with the kinds and operations that Karmada asks about.

Karmada considers every operation that a rule names as enabled, and calls only the first webhook by name
(karmada v1.16 pkg/resourceinterpreter/customized/webhook). It calls webhooks before its own interpreters, and fails if
a webhook does not answer. So rules name only kinds that the server answers, and by default none that Karmada
interprets itself. If two configurations name one kind, the second is never called.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Final, NamedTuple

import yaml

from fleethook.cluster.store import Store
from fleethook.engines.interpret.hooks.hook_configuration import (
    InterpretedKind,
    InterpreterWebhook,
    is_own,
    matches,
    parse_hooks,
)
from fleethook.model.gvk import GroupVersionKind, parse_api_version
from fleethook.model.json import JSONObject
from fleethook.model.karmada import (
    API_VERSION,
    INTERPRETER_CONFIGURATION,
    OWN_CONFIGURATION,
    VERSION,
    InterpreterRegistration,
    Operation,
)

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
            yield from ((GroupVersionKind(group, version, kind), Operation(one)) for one in operations)


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
    own = {one for name, answers in layers.items() if name not in _BUILT_IN for one in answers}
    if choice is InterpreterRegistration.OWN:
        return frozenset(own)
    if choice is InterpreterRegistration.ALL:
        return frozenset(one for answers in layers.values() for one in answers)
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
    rivals = [hook for hook in others if not hook.proposed and not is_own(hook)]
    wanted: dict[GroupVersionKind, set[Operation]] = {}
    left_out = []
    for kind, operation in sorted(answers):
        if operation not in _OPERATIONS:
            continue
        rival = next(
            (hook for hook in rivals if matches(hook, operation, InterpretedKind(kind, "", namespaced=True))), None
        )
        if rival is None:
            wanted.setdefault(kind, set()).add(operation)
        else:
            what = f"{operation} of {kind.api_version} {kind.kind}"
            left_out.append(f"{what} is not registered: webhook {rival.uid} already has it")
    return InterpreterRules(_group_rules(wanted), left_out)


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


def select_from_store(store: Store, layers: Mapping[str, Answers], choice: InterpreterRegistration) -> InterpreterRules:
    """Return the rules for the chosen kinds and operations that no other configuration in the store names."""
    kind = INTERPRETER_CONFIGURATION
    answers = choose_answers(layers, choice, read_karmada_interpreters())
    others = [hook for one in store.each("", kind) for hook in parse_hooks(kind, one)]
    return select(answers, sorted(others, key=lambda hook: hook.uid))  # the order in which Karmada matches them
