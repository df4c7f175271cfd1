"""Installing the registration, against an apiserver in memory; tests/e2e has a real one."""

import asyncio
import base64
import copy
import logging
from typing import Any

import pytest

from fleethook.cluster.api_errors import APIError
from fleethook.cluster.followed_objects import run_in_background
from fleethook.cluster.registration.registrar import (
    CAInjector,
    ChangingConfigurations,
    Registrar,
    Registration,
    RegistrationError,
    end_registration,
    owns_fields,
    release_fields,
)
from fleethook.cluster.registration.rule_webhooks_and_outage import SERVER_ANNOTATION
from fleethook.cluster.registration.webhook_configurations import LABELS, MUTATING, ServiceReference, configuration_path
from fleethook.engine import installed_engines
from tests.apiserver_rules import parse_path
from tests.cluster.object_server import ObjectServer
from tests.waiting import settled

PATH = configuration_path(MUTATING)
CONFIGURATION = {
    "apiVersion": "admissionregistration.k8s.io/v1", "kind": MUTATING, "metadata": {"name": "fleethook"},
}  # fmt: skip
BUNDLE = base64.b64encode(b"authority").decode()


async def inject(present: Any) -> tuple[list[tuple[str, str]], Any]:
    """Return the writes, and the webhooks that are stored."""
    server = ObjectServer()
    if present is not None:
        server.store(PATH, {**CONFIGURATION, **present})
    await CAInjector(server, lambda: b"authority").inject()  # type: ignore[arg-type]
    writes = [one for one in server.requests if one[0] != "GET"]
    return writes, server.objects.get(PATH, {}).get("webhooks")


def webhook(name: str, **client: str) -> dict[str, Any]:
    return {"name": name, "clientConfig": {"url": "https://x", **client}}


DEPLOYMENTS = "deployments.overrider.fleethook.io"


async def test_a_differing_bundle_is_written_and_no_other_field() -> None:
    writes, webhooks = await inject({"webhooks": [webhook(DEPLOYMENTS), webhook("somebody.else.io")]})
    assert writes == [("PATCH", PATH)]
    assert webhooks == [webhook(DEPLOYMENTS, caBundle=BUNDLE), webhook("somebody.else.io")]


@pytest.mark.parametrize(
    "present",
    [
        None,
        {},
        {"webhooks": []},
        {"webhooks": [webhook(DEPLOYMENTS, caBundle=BUNDLE)]},
        {"webhooks": [webhook("other.io")]},
    ],
    ids=["no configuration", "no member", "no webhooks", "as it should be", "only other webhooks"],
)
async def test_an_equal_or_missing_configuration_is_not_written(present: Any) -> None:
    assert await inject(present) == ([], (present or {}).get("webhooks"))


def list_written(server: ObjectServer) -> list[str]:
    return [parse_path(path).plural for method, path in server.requests if method == "PATCH"]


async def test_installation_waits_until_the_server_is_ready() -> None:
    server, ready, defined = ObjectServer(), asyncio.Event(), []

    async def wait_ready() -> None:
        await ready.wait()

    registrar = Registrar(
        server,  # type: ignore[arg-type]
        lambda: b"authority",
        check_seconds=3600,
        ready=wait_ready,
        defined=lambda: defined.append(len(list_written(server))),
    )
    service = ServiceReference("fleet", "fleethook")
    async with run_in_background(
        registrar.run(Registration(service, [], installed_engines())),
        name="registration",
        ended=pytest.fail,
    ):
        for _ in range(20):
            await asyncio.sleep(0)
        assert list_written(server) == []
        ready.set()
        await settled(registrar.installed.is_set)
    plurals = list_written(server)
    definitions = plurals.count("customresourcedefinitions")
    assert plurals[-2:] == ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"]
    # `defined` is called after each definition, so that its informer starts at once.
    assert defined == list(range(1, definitions + 1))


async def test_a_server_that_becomes_ready_during_a_comparison_is_installed_at_once() -> None:
    ready = asyncio.Event()

    class Slow(ObjectServer):
        async def json(self, method: str, path: str, **rest: Any) -> Any:
            ready.set()
            for _ in range(10):
                await asyncio.sleep(0)
            return await super().json(method, path, **rest)

    server = Slow()

    async def wait_ready() -> None:
        await ready.wait()

    registrar = Registrar(server, lambda: b"authority", check_seconds=3600, ready=wait_ready)  # type: ignore[arg-type]
    service = ServiceReference("fleet", "fleethook")
    async with run_in_background(
        registrar.run(Registration(service, [], installed_engines())),
        name="registration",
        ended=pytest.fail,
    ):
        await settled(registrar.installed.is_set)


def configuration(*names: str, server: str = "fleet") -> dict[str, Any]:
    return {
        **CONFIGURATION,
        "metadata": {
            "name": "rules",
            "labels": {"app.kubernetes.io/name": "fleethook"},
            "annotations": {"fleethook.io/registered-by": server},
        },
        "webhooks": [webhook(name) for name in names],
    }


RULES = configuration_path(MUTATING, "rules")
ROLE = "/apis/rbac.authorization.k8s.io/v1/clusterroles/role"


class Changing:
    """A registrar of configurations that a test changes."""

    def __init__(self, *names: str, owner: str = "", check_seconds: float = 3600) -> None:
        self.server, self.changed, self.names = ObjectServer(), asyncio.Event(), names
        self.authority = b"authority"
        changing = ChangingConfigurations(lambda: [configuration(*self.names)], self.changed, owner)
        self.registrar = Registrar(  # type: ignore[arg-type]
            self.server, lambda: self.authority, check_seconds=check_seconds, changing=changing
        )

    def stored_webhooks(self) -> list[Any]:
        return [*self.server.objects.get(RULES, {}).get("webhooks", ())]

    def stored(self) -> list[str]:
        return [one["name"] for one in self.stored_webhooks()]


async def test_changed_configurations_are_applied_at_once_and_deleted_without_webhooks() -> None:
    one = Changing("a.b.c")
    async with run_in_background(one.registrar.run(None, injecting=False), name="r", ended=pytest.fail):
        await settled(lambda: one.stored() == ["a.b.c"])
        assert one.server.objects[RULES]["webhooks"] == [webhook("a.b.c", caBundle=BUNDLE)]
        one.names = ("a.b.c", "d.e.f")
        one.changed.set()
        await settled(lambda: one.stored() == ["a.b.c", "d.e.f"])
        one.names = ()
        one.changed.set()
        await settled(lambda: RULES not in one.server.objects)
    assert {path for _, path in one.server.requests} == {RULES}


async def test_an_unchanged_configuration_is_applied_once() -> None:
    one = Changing("a.b.c")
    await one.registrar.apply_changing()
    await one.registrar.apply_changing()
    assert [method for method, _ in one.server.requests] == ["GET", "PATCH", "GET"]


async def test_an_edit_is_undone_and_a_deleted_configuration_stays_deleted_until_it_changes() -> None:
    one = Changing("a.b.c")
    assert await one.registrar.apply_changing() is True
    one.server.store(RULES, {**configuration("a.b.c"), "webhooks": []})
    assert await one.registrar.apply_changing() is True
    assert one.stored() == ["a.b.c"]
    one.server.remove(RULES)
    assert await one.registrar.apply_changing() is False
    assert RULES not in one.server.objects
    one.names = ("d.e.f",)
    assert await one.registrar.apply_changing() is True
    assert one.stored() == ["d.e.f"]


async def test_a_configuration_that_another_leader_has_applied_is_no_change() -> None:
    first, second = Changing("a.b.c"), Changing("a.b.c")
    await first.registrar.apply_changing()
    second.registrar = Registrar(
        first.server,  # type: ignore[arg-type]
        lambda: b"authority",
        changing=ChangingConfigurations(lambda: [configuration("a.b.c")], asyncio.Event()),
    )
    assert await second.registrar.apply_changing() is False


KARMADA = "/apis/config.karmada.io/v1alpha1/resourceinterpreterwebhookconfigurations/fleethook"


async def test_a_kind_that_the_apiserver_does_not_serve_is_registered_once_it_does(
    caplog: pytest.LogCaptureFixture,
) -> None:
    one = Changing(owner="missing role")
    made: list[Any] = [webhook("a.b.c")]
    kind = {"apiVersion": "config.karmada.io/v1alpha1", "kind": "ResourceInterpreterWebhookConfiguration"}
    changing = ChangingConfigurations(
        lambda: [{**kind, "metadata": {"name": "fleethook"}, "webhooks": copy.deepcopy(made)}], asyncio.Event(), "role"
    )
    registrar = Registrar(one.server, lambda: b"authority", changing=changing)  # type: ignore[arg-type]
    one.server.is_served = lambda path: "karmada" not in path
    with caplog.at_level(logging.INFO):
        assert [await registrar.apply_changing() for _ in range(2)] == [False, False]
    assert [*registrar.unserved] == [KARMADA]
    assert len([each for each in caplog.records if "does not serve" in each.getMessage()]) == 1
    one.server.is_served = lambda _: True
    assert [await registrar.apply_changing() for _ in range(2)] == [True, False]
    assert (one.server.objects[KARMADA]["webhooks"], registrar.unserved) == ([webhook("a.b.c", caBundle=BUNDLE)], set())
    # Rules alone are deleted: Karmada's configuration stays without webhooks.
    made.clear()
    assert await registrar.apply_changing() is True
    assert one.server.objects[KARMADA]["webhooks"] == []


async def test_a_renewed_authority_is_written_into_changing_configurations() -> None:
    one = Changing("a.b.c", check_seconds=0)

    def read_authority() -> bytes:
        return b"".join(base64.b64decode(found["clientConfig"]["caBundle"]) for found in one.stored_webhooks())

    async with run_in_background(one.registrar.run(None, injecting=False), name="r", ended=pytest.fail):
        await settled(lambda: read_authority() == b"authority")
        one.authority = b"renewed"
        await settled(lambda: read_authority() == b"renewed")


async def test_a_conflict_about_rules_does_not_keep_the_bundle_from_other_webhooks() -> None:
    one = Changing("a.b.c")
    one.server.store(RULES, configuration("a.b.c", server="other"))
    one.server.store(PATH, {**CONFIGURATION, "webhooks": [webhook(DEPLOYMENTS)]})
    async with run_in_background(one.registrar.run(None), name="r", ended=pytest.fail):
        await settled(lambda: bool(one.registrar.problem))
    assert one.server.objects[PATH]["webhooks"] == [webhook(DEPLOYMENTS, caBundle=BUNDLE)]


async def test_a_cluster_role_owns_the_configurations_if_it_exists() -> None:
    one = Changing("a.b.c", owner="role")
    await one.registrar.apply_changing()
    assert "ownerReferences" not in one.server.objects[RULES]["metadata"]
    one.server.store(ROLE, {"metadata": {"name": "role"}})
    one.names = (*one.names, "d.e.f")
    await one.registrar.apply_changing()
    (owner,) = one.server.objects[RULES]["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["uid"]) == (
        "ClusterRole",
        "role",
        one.server.objects[ROLE]["metadata"]["uid"],
    )


@pytest.mark.parametrize(
    ("present", "problem"),
    [
        (configuration("a.b.c", server="other"), "belongs to the servers in namespace other, not fleet: give"),
        ({**CONFIGURATION, "metadata": {"name": "rules"}, "webhooks": []}, "rules exists, and is not of fleethook"),
    ],
    ids=["another server", "another program"],
)
async def test_a_configuration_of_others_is_neither_replaced_nor_deleted(present: Any, problem: str) -> None:
    for names in (("a.b.c",), ()):
        one = Changing(*names)
        one.server.store(RULES, present)
        with pytest.raises(RegistrationError, match=problem):
            await one.registrar.apply_changing()
        assert [method for method, _ in one.server.requests] == ["GET"]


class Connection:
    """Records writes."""

    def __init__(self) -> None:
        self.requests: list[Any] = []

    async def request(self, *arguments: str, **options: Any) -> bytes:
        self.requests.append((arguments, options))
        return b"{}"


REGISTERED: dict[str, Any] = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "ValidatingWebhookConfiguration",
    "metadata": {"name": "n", "labels": LABELS, "annotations": {SERVER_ANNOTATION: "fleet"}},
}


@pytest.mark.parametrize(
    ("metadata", "number"),
    [({}, 1), ({"labels": {"app": "a"}}, 0), ({"annotations": {SERVER_ANNOTATION: "shop"}}, 0)],
    ids=["that of this server", "of another program", "of servers in another namespace"],
)
async def test_only_the_configurations_of_a_server_are_its_own(metadata: dict[str, Any], number: int) -> None:
    server, path = ObjectServer(), configuration_path("ValidatingWebhookConfiguration", "n")
    server.store(path, {**REGISTERED, "metadata": REGISTERED["metadata"] | metadata})
    assert len(await end_registration(server, [REGISTERED], deletes=False)) == number  # type: ignore[arg-type]
    assert await end_registration(server, [REGISTERED], deletes=True) == []  # type: ignore[arg-type]
    assert (path in server.objects) == (number == 0)


OURS, HELM = {"manager": "m", "operation": "Apply"}, {"manager": "helm", "operation": "Apply"}


def owned(*managers: dict[str, str]) -> dict[str, Any]:
    return {"metadata": {"resourceVersion": "7", "managedFields": [*managers]}}


async def test_all_entries_of_a_manager_are_released_in_one_write_of_this_version() -> None:
    connection = Connection()
    update = {**OURS, "operation": "Update"}
    assert await release_fields(connection, "/p", owned(OURS, HELM, update), manager="m") == {}  # type: ignore[arg-type]
    ((_, options),) = connection.requests
    assert options["body"] == [
        {"op": "replace", "path": "/metadata/resourceVersion", "value": "7"},
        {"op": "replace", "path": "/metadata/managedFields", "value": [HELM]},
    ]


@pytest.mark.parametrize("managers", [(), (HELM,), (OURS,)])
async def test_nothing_is_written_without_an_entry_or_if_none_would_be_left(managers: tuple[dict[str, str]]) -> None:
    connection, stored = Connection(), owned(*managers)
    assert await release_fields(connection, "/p", stored, manager="m") is stored  # type: ignore[arg-type]
    assert connection.requests == []
    assert owns_fields(stored, "m") == (OURS in managers)
    assert not owns_fields({}, "m")


@pytest.mark.parametrize("code", [409, 403])
async def test_only_a_conflict_is_left_to_the_next_call(code: int) -> None:
    class Refusing(Connection):
        async def request(self, *_: str, **__: Any) -> bytes:
            raise APIError(code, "", "no")

    stored = owned(OURS, HELM)
    work = release_fields(Refusing(), "/p", stored, manager="m")  # type: ignore[arg-type]
    if code == 409:
        assert await work is stored
    else:
        with pytest.raises(APIError):
            await work
