"""The registrar writes this server's configuration only if it differs, and survives an API server without Karmada."""

import asyncio
import logging
from typing import cast

import pytest

from fleethook.cluster.api_errors import APIError, UnreachableError
from fleethook.cluster.connection import Connection
from fleethook.cluster.store import Store
from fleethook.engines.interpret.hooks.interpreter_registrar import (
    PATH,
    InterpreterRegistrar,
    encode_ca_bundle,
    select_from_store,
)
from fleethook.engines.interpret.hooks.webhook_layer import DEFINITIONS_BY_KIND
from fleethook.model.gvk import GroupVersionKind
from fleethook.model.karmada import Operation
from tests.cluster.object_server import ObjectServer
from tests.engines.interpret.lua.customization_objects import customization

FOO = GroupVersionKind("example.org", "v1", "Foo")
BAR = GroupVersionKind("example.org", "v1", "Bar")
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
    registrar = registrar_of(server, store, FOO, BAR)
    assert await registrar.write() is True
    assert await registrar.write() is False
    (webhook,) = server.objects[PATH]["webhooks"]
    assert webhook["rules"][0]["kinds"] == ["Bar", "Foo"]


async def test_another_certificate_or_an_edit_is_a_difference(server: ObjectServer, store: Store) -> None:
    await registrar_of(server, store, FOO).write()
    assert await registrar_of(server, store, FOO, ca="two").write() is True
    for edited in ([], None, "text", [{"name": "w"}], [*server.objects[PATH]["webhooks"]] * 2):
        server.objects[PATH]["webhooks"] = edited
        assert await registrar_of(server, store, FOO, ca="two").write() is True


async def test_kinds_of_other_configurations_are_left_out_and_logged_once(
    server: ObjectServer, store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    store.put(CLAIM)
    assert [one.kind for one in select_from_store(store, [(FOO, Operation.HEALTH)]).left_out] == [FOO]
    registrar = registrar_of(server, store, FOO, BAR)
    with caplog.at_level(logging.WARNING):
        await registrar.write()
        await registrar.write()
    assert server.objects[PATH]["webhooks"][0]["rules"][0]["kinds"] == ["Bar"]
    assert len([one for one in caplog.records if "Foo" in one.getMessage()]) == 1


async def test_an_api_server_without_karmada_is_no_error(server: ObjectServer, store: Store) -> None:
    server.is_served = lambda _: False
    registrar = registrar_of(server, store, FOO)
    assert await registrar.write() is False
    assert registrar.absent
    server.is_served = lambda _: True
    assert await registrar.write() is True
    assert not registrar.absent


async def test_another_error_of_the_api_server_is_raised(server: ObjectServer, store: Store) -> None:
    server.error = APIError(403, "Forbidden", "no")
    with pytest.raises(APIError, match="no"):
        await registrar_of(server, store, FOO).write()


async def settle() -> None:
    for _ in range(50):
        await asyncio.sleep(0)


async def test_a_changed_customization_is_compared_at_once_and_other_objects_are_not(
    server: ObjectServer, store: Store
) -> None:
    task = asyncio.create_task(registrar_of(server, store, FOO).run())
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
    registrar = registrar_of(server, store, FOO)
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
