"""The rules of this server's configuration name exactly the kinds and operations that it answers."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleethook.cluster.store import Store
from fleethook.engines.interpret.chain import Chain, NativeLayer
from fleethook.engines.interpret.hooks.hook_configuration import Hook, Target, matches, parse_hooks
from fleethook.engines.interpret.hooks.interpreter_registration import (
    build_configuration,
    list_hooks,
    select,
    select_from_store,
)
from fleethook.engines.interpret.hooks.webhook_layer import DEFINITIONS_BY_KIND, WebhookLayer
from fleethook.engines.interpret.native import NATIVE
from fleethook.model.gvk import GroupVersionKind
from fleethook.model.karmada import INTERPRETER_CONFIGURATION, Operation
from fleethook.outbound.client import HookClient

FOO, BAR = GroupVersionKind("example.org", "v1", "Foo"), GroupVersionKind("example.org", "v1", "Bar")
KINDS = [
    GroupVersionKind(group, version, kind)
    for group in ("", "a", "b")
    for version in ("v1", "v2")
    for kind in ("X", "Y", "Z")
]
KNOWN = [operation for operation in Operation if operation is not Operation.PRUNE]
PAIRS = st.frozensets(st.tuples(st.sampled_from(KINDS), st.sampled_from(list(Operation))))


def make_hooks(rules: list[Any], name: str = "other") -> list[Hook]:
    made = {
        "metadata": {"name": name},
        "webhooks": [{"name": "w", "clientConfig": {"url": "https://x"}, "rules": rules}],
    }
    return list(parse_hooks(INTERPRETER_CONFIGURATION, made))


def make_rule(kind: str = "*", operation: str = "*") -> dict[str, Any]:
    return {"apiGroups": ["example.org"], "apiVersions": ["*"], "kinds": [kind], "operations": [operation]}


@given(PAIRS, PAIRS)
def test_rules_match_exactly_the_unclaimed_answers(answers: Any, theirs: Any) -> None:
    others = [
        hook
        for kind, operation in theirs
        for hook in make_hooks(
            [
                {
                    "apiGroups": [kind.group],
                    "apiVersions": [kind.version],
                    "kinds": [kind.kind],
                    "operations": [operation],
                }
            ]
        )
    ]
    found = select(answers, others)
    own = make_hooks(found.rules, "fleethook")
    asked = {
        (kind, operation)
        for kind in KINDS
        for operation in Operation
        if any(matches(hook, operation, Target(kind, "", namespaced=True)) for hook in own)
    }
    assert asked == {pair for pair in answers - theirs if pair[1] is not Operation.PRUNE}
    left = {(one.kind, one.operation) for one in found.left_out}
    assert left == {pair for pair in answers & theirs if pair[1] is not Operation.PRUNE}


def test_kinds_with_the_same_operations_share_a_rule() -> None:
    answers = [(kind, operation) for kind in (FOO, BAR) for operation in (Operation.HEALTH, Operation.RETAIN)]
    assert select(answers, ()).rules == [
        {
            "apiGroups": ["example.org"], "apiVersions": ["v1"], "kinds": ["Bar", "Foo"],
            "operations": ["Retain", "InterpretHealth"],
        }
    ]  # fmt: skip


def test_rules_of_other_configurations_are_left_out_and_named() -> None:
    answers = [(FOO, Operation.HEALTH)]
    (left,) = select(answers, make_hooks([make_rule("Foo")])).left_out
    assert str(left) == "InterpretHealth of example.org/v1 Foo is not registered: webhook other/w already has it"
    assert select(answers, make_hooks([make_rule()], "fleethook")).left_out == []


def test_configuration_without_rules_has_no_webhook() -> None:
    assert build_configuration([], {"url": "https://x"})["webhooks"] == []


def test_native_layer_answers_kubernetes_kinds() -> None:
    answers = Chain([NativeLayer()]).answers()
    native = {(kind, operation) for kind, functions in NATIVE.items() for operation in functions}
    scaled = {kind for kind in NATIVE if {(kind, Operation.REPLICA), (kind, Operation.REVISE_REPLICA)} <= native}
    assert {kind.kind for kind in scaled} == {"Deployment", "ReplicaSet", "StatefulSet", "Job"}
    every = {(kind, Operation.DEPENDENCY) for kind in NATIVE} | {(kind, Operation.RETAIN) for kind in scaled}
    assert answers == native | every
    assert not any(kind.kind == "ConfigMap" for kind, _ in answers)


@pytest.mark.parametrize(("name", "asked"), [("fleethook", False), ("other", True)])
def test_this_server_does_not_ask_itself(name: str, asked: bool) -> None:
    store = Store([DEFINITIONS_BY_KIND])
    config = build_configuration(select([(FOO, Operation.HEALTH)], ()).rules, {"url": "https://x"})
    config["metadata"] = {"name": name}
    store.put(config)
    layer = WebhookLayer(store, HookClient(allow_private=True), observe=lambda *_: None)
    assert layer.knows(FOO, Operation.HEALTH) is asked
    assert list(layer.answers()) == []


def test_webhooks_are_sorted_by_name() -> None:
    pairs = [
        (INTERPRETER_CONFIGURATION, {"metadata": {"name": name}, "webhooks": [{"name": "w"}]}) for name in ("b", "a")
    ]
    assert [hook.uid for hook in list_hooks(pairs)] == ["a/w", "b/w"]


def test_every_operation_of_karmada_can_be_registered() -> None:
    rules = select([(FOO, operation) for operation in Operation], ()).rules
    assert [one["operations"] for one in rules] == [[operation.value for operation in KNOWN]]


FOO_KIND = GroupVersionKind("example.org", "v1", "Foo")
BAR_KIND = GroupVersionKind("example.org", "v1", "Bar")
CLAIM = {
    "apiVersion": "config.karmada.io/v1alpha1",
    "kind": "ResourceInterpreterWebhookConfiguration",
    "metadata": {"name": "other"},
    "webhooks": [{"name": "w", "clientConfig": {"url": "https://x"}, "rules": [
        {"apiGroups": ["example.org"], "apiVersions": ["*"], "kinds": ["Foo"], "operations": ["*"]}]}],
}  # fmt: skip


def test_kinds_of_other_configurations_are_left_out() -> None:
    store = Store([DEFINITIONS_BY_KIND])
    store.put(CLAIM)
    assert [one.kind for one in select_from_store(store, [(FOO_KIND, Operation.HEALTH)]).left_out] == [FOO_KIND]
