"""The rules of this server's configuration name exactly the kinds and operations that it answers."""

import asyncio
import logging
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleethook.cluster.api_errors import APIError, UnreachableError
from fleethook.cluster.connection import Connection
from fleethook.cluster.store import Store
from fleethook.engines.interpret.chain import Chain, NativeLayer
from fleethook.engines.interpret.hooks.hook_configuration import Hook, Target, matches, parse_hooks
from fleethook.engines.interpret.hooks.interpreter_registration import (
    PATH,
    InterpreterRegistrar,
    build_configuration,
    encode_ca_bundle,
    list_hooks,
    select,
    select_from_store,
)
from fleethook.engines.interpret.hooks.webhook_layer import DEFINITIONS_BY_KIND, WebhookLayer
from fleethook.engines.interpret.native import NATIVE
from fleethook.model.gvk import GroupVersionKind
from fleethook.model.karmada import INTERPRETER_CONFIGURATION, Operation
from fleethook.outbound.client import HookClient
from tests.cluster.object_server import ObjectServer
from tests.engines.interpret.lua.customization_objects import customization

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


def count_writes(server: ObjectServer) -> int:
    return sum(method == "PATCH" for method, _ in server.requests)


@pytest.fixture
def server() -> ObjectServer:
    """Karmada's API server, which adds defaults."""
    made = ObjectServer()
    made.admit = lambda _, document: {
        **document, "webhooks": [{**one, "failurePolicy": "Fail"} for one in document["webhooks"]],
    }  # fmt: skip
    return made


@pytest.fixture
def store() -> Store:
    return Store([DEFINITIONS_BY_KIND])


def registrar_of(server: ObjectServer, store: Store, *kinds: GroupVersionKind, ca: str = "one") -> InterpreterRegistrar:
    return InterpreterRegistrar(
        cast("Connection", server),
        store,
        answers=lambda: [(kind, Operation.HEALTH) for kind in kinds],
        client_config=lambda: {"url": "https://fleethook", "caBundle": ca},
        check_seconds=3600,
    )


async def test_the_configuration_is_written_once_although_the_server_adds_defaults(
    server: ObjectServer, store: Store
) -> None:
    registrar = registrar_of(server, store, FOO_KIND, BAR_KIND)
    assert await registrar.write() is True
    assert await registrar.write() is False
    (webhook,) = server.objects[PATH]["webhooks"]
    assert webhook["rules"][0]["kinds"] == ["Bar", "Foo"]


async def test_another_certificate_or_an_edit_is_a_difference(server: ObjectServer, store: Store) -> None:
    await registrar_of(server, store, FOO_KIND).write()
    assert await registrar_of(server, store, FOO_KIND, ca="two").write() is True
    for edited in ([], None, "text", [{"name": "w"}], [*server.objects[PATH]["webhooks"]] * 2):
        server.objects[PATH]["webhooks"] = edited
        assert await registrar_of(server, store, FOO_KIND, ca="two").write() is True


async def test_kinds_of_other_configurations_are_left_out_and_logged_once(
    server: ObjectServer, store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    store.put(CLAIM)
    assert [one.kind for one in select_from_store(store, [(FOO_KIND, Operation.HEALTH)]).left_out] == [FOO_KIND]
    registrar = registrar_of(server, store, FOO_KIND, BAR_KIND)
    with caplog.at_level(logging.WARNING):
        await registrar.write()
        await registrar.write()
    assert server.objects[PATH]["webhooks"][0]["rules"][0]["kinds"] == ["Bar"]
    assert len([one for one in caplog.records if "Foo" in one.getMessage()]) == 1


async def test_an_api_server_without_karmada_is_no_error(server: ObjectServer, store: Store) -> None:
    server.is_served = lambda _: False
    registrar = registrar_of(server, store, FOO_KIND)
    assert await registrar.write() is False
    assert registrar.absent
    server.is_served = lambda _: True
    assert await registrar.write() is True
    assert not registrar.absent


async def test_another_error_of_the_api_server_is_raised(server: ObjectServer, store: Store) -> None:
    server.error = APIError(403, "Forbidden", "no")
    with pytest.raises(APIError, match="no"):
        await registrar_of(server, store, FOO_KIND).write()


async def settle() -> None:
    for _ in range(50):
        await asyncio.sleep(0)


async def test_a_changed_customization_is_compared_at_once_and_other_objects_are_not(
    server: ObjectServer, store: Store
) -> None:
    task = asyncio.create_task(registrar_of(server, store, FOO_KIND).run())
    await settle()
    asked = len(server.requests)
    store.put({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "n"}})
    await settle()
    assert (count_writes(server), len(server.requests)) == (1, asked)
    store.put(customization("foo", healthInterpretation="function InterpretHealth(o) return true end"))
    await settle()
    assert (count_writes(server), len(server.requests)) == (1, asked + 1)
    task.cancel()
    await asyncio.wait([task])
    assert len(server.requests) == asked + 1


async def test_a_failure_is_a_problem_until_a_write_succeeds(
    server: ObjectServer, store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    server.error = UnreachableError("no answer")
    registrar = registrar_of(server, store, FOO_KIND)
    task = asyncio.create_task(registrar.run())
    await settle()
    assert registrar.problem == "no answer"
    script = customization("foo", healthInterpretation="function InterpretHealth(o) return true end")
    store.put(script)
    await settle()
    assert len([one for one in caplog.records if "no answer" in one.getMessage()]) == 1
    server.error = None
    store.put({**script, "spec": {}})
    await settle()
    assert (registrar.problem, count_writes(server)) == ("", 1)
    task.cancel()
    await asyncio.wait([task])


def test_certificates_are_base64_in_the_configuration() -> None:
    assert encode_ca_bundle(b"-----BEGIN") == "LS0tLS1CRUdJTg=="
