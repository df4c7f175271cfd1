"""The source against a scripted apiserver: live reads, field selections and changed definitions."""

import asyncio
from typing import Any

import pytest

from fleethook.cluster.api_errors import APIError
from fleethook.cluster.followed_objects import run_in_background
from fleethook.cluster.kubernetes.informer_and_backoff import Informer
from fleethook.cluster.kubernetes.kubernetes_source_and_live_reads import KubernetesSource
from fleethook.cluster.kubernetes.watched_resources import FieldSelection
from fleethook.cluster.store import Index, Store
from tests.apiserver_rules import not_found, parse_path
from tests.cluster.kubernetes.scripted import GADGETS, KIND, NOT_SERVED, Script, event, gadget, names, page
from tests.waiting import settled


async def test_a_live_list_updates_the_objects_of_a_namespace() -> None:
    script, store = Script(), Store()
    source = KubernetesSource([GADGETS], script, store, absent_seconds=10.0)
    script.lists.put_nowait(page(10, gadget("a", 3), gadget("b", 4), gadget("c", 5)))
    async with run_in_background(source.run(), name="source", ended=lambda _: None):
        await source.wait_synced()

        async def listed() -> Any:
            return page(30, gadget("a", 3), gadget("b", 22, changed=True), gadget("d", 23))

        script.singles["/apis/example.com/v1/namespaces/ns/gadgets"] = listed
        await source.read_namespace(KIND, cluster="", namespace="ns")
    assert names(store) == {"a": {}, "b": {"changed": True}, "d": {}}


BY_COLOR = Index("by_color", KIND, lambda _, one: [one["spec"].get("color")])
RED = FieldSelection(BY_COLOR, "red", "ns", (("spec.color", "red"),))


async def test_a_field_selection_updates_only_its_objects() -> None:
    script, store = Script(), Store([BY_COLOR])
    source = KubernetesSource([GADGETS], script, store, absent_seconds=10.0)
    known = [gadget("a", 3, color="red"), gadget("b", 4, color="red"), gadget("c", 5, color="blue")]
    script.lists.put_nowait(page(10, *known))
    async with run_in_background(source.run(), name="source", ended=lambda _: None):
        await source.wait_synced()

        async def listed() -> Any:
            return page(30, gadget("b", 22, color="red", changed=True), gadget("d", 23, color="red"))

        script.singles["/apis/example.com/v1/namespaces/ns/gadgets"] = listed
        await source.read_selected(RED, cluster="")
    red = {"color": "red"}
    assert names(store) == {"b": {**red, "changed": True}, "c": {"color": "blue"}, "d": red}


async def test_a_refused_field_selector_lists_the_namespace() -> None:
    script, store = Script(), Store([BY_COLOR])
    source = KubernetesSource([GADGETS], script, store, absent_seconds=10.0)
    script.lists.put_nowait(page(10))
    asked = 0
    async with run_in_background(source.run(), name="source", ended=lambda _: None):
        await source.wait_synced()

        async def refused_once() -> Any:
            nonlocal asked
            asked += 1
            if asked == 1:
                raise APIError(400, "BadRequest", "field label not supported: spec.color")
            return page(30, gadget("a", 20 + asked, color="red"))

        script.singles["/apis/example.com/v1/namespaces/ns/gadgets"] = refused_once
        await source.read_selected(RED, cluster="")
        assert (asked, list(names(store))) == (2, ["a"])


def source_of(script: Script, store: Store) -> tuple[KubernetesSource, Informer]:
    source = KubernetesSource([GADGETS], script, store, absent_seconds=1)
    return source, source.informer(KIND)


ONE = "/apis/example.com/v1/namespaces/ns/gadgets/a"


async def read_while(script: Script, store: Store, answer: Any, *meanwhile: dict[str, Any]) -> dict[str, Any]:
    """Read object ``a`` live; ``meanwhile`` are events between the server's read and the response."""
    source, informer = source_of(script, store)
    script.lists.put_nowait(page(10, gadget("a", 5)))
    async with run_in_background(informer.run(), name="informer", ended=lambda _: None):
        await informer.wait_synced()

        async def answered() -> Any:
            script.put(*meanwhile)
            await settled(lambda: informer.progress.seen >= 11 or not meanwhile)
            return answer

        script.singles[ONE] = answered
        await source.read_one(KIND, cluster="", namespace="ns", name="a")
    return names(store)


NOT_FOUND = not_found(parse_path(ONE))


async def test_a_live_read_may_be_ahead_of_the_watch() -> None:
    assert await read_while(Script(), Store(), gadget("a", 12, new=True)) == {"a": {"new": True}}
    assert await read_while(Script(), Store(), NOT_FOUND) == {}


async def test_a_live_read_does_not_restore_an_object_deleted_meanwhile() -> None:
    assert await read_while(Script(), Store(), gadget("a", 5), event("DELETED", gadget("a", 11))) == {}


async def test_a_live_read_does_not_remove_an_object_created_meanwhile() -> None:
    events = (event("DELETED", gadget("a", 10)), event("ADDED", gadget("a", 11, again=True)))
    assert await read_while(Script(), Store(), NOT_FOUND, *events) == {"a": {"again": True}}


async def test_a_live_read_does_not_replace_a_newer_object() -> None:
    events = (event("MODIFIED", gadget("a", 11, newest=True)),)
    assert await read_while(Script(), Store(), gadget("a", 7), *events) == {"a": {"newest": True}}


def definition_of(name: str) -> dict[str, Any]:
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": name}}


async def test_a_changed_definition_causes_a_request_for_its_resource() -> None:
    script, store = Script(), Store()
    source = KubernetesSource([GADGETS], script, store, absent_seconds=3600)
    script.lists.put_nowait(NOT_SERVED)
    async with run_in_background(source.run(), name="source", ended=pytest.fail):
        await source.wait_synced()
        await settled(script.lists.empty)
        script.lists.put_nowait(page(5, gadget("a", 3)))
        store.put(definition_of("widgets.example.com"))
        assert names(store) == {}
        store.put(definition_of("gadgets.example.com"))
        await settled(lambda: names(store))


async def test_advisory_kinds_do_not_delay_the_sync() -> None:
    script, store = Script(), Store()
    other = GADGETS._replace(plural="others", kind="Other")
    script.singles[other.path] = lambda: asyncio.sleep(0, APIError(403, "Forbidden", "cannot list others"))
    source = KubernetesSource([GADGETS, other], script, store, absent_seconds=1, advisory=[other.group_kind])
    assert not source.synced
    assert source.missing([KIND]) == "gadgets.example.com cannot be read: not listed yet"
    script.lists.put_nowait(page(1))
    async with run_in_background(source.run(), name="source", ended=pytest.fail):
        await asyncio.wait_for(source.wait_synced(), 5)
        await asyncio.wait_for(source.wait_tried(), 5)
        assert (source.synced, source.missing([KIND])) == (True, "")
        (advisory,) = (part for part in source.parts() if part.name == other.name)
        assert advisory.synced
        assert "cannot list others" in advisory.detail
        assert "cannot list others" in source.missing([other.group_kind])


def test_the_message_about_a_cluster_without_resources_names_the_remedy() -> None:
    source, of_kcp = (KubernetesSource([GADGETS], Script(), Store(), every_cluster=kcp) for kcp in (False, True))
    assert "check the server's URL in the kubeconfig file, and --kcp" in source.describe_lack("https://host")
    assert "in any logical cluster (/clusters/*)" in of_kcp.describe_lack("https://host")
