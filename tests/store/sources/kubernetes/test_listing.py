"""Lists against a scripted apiserver, without a watch."""

import asyncio

import pytest

from app.kube.errors import APIError
from app.store import Store
from app.store.sources.kubernetes.listing import Lister, NotServedError, RelistError, identified
from app.store.sources.kubernetes.versions import unknown_versions
from tests.store.sources.kubernetes.scripted import GADGETS, NOT_SERVED, Script, gadget, names, page


async def pause() -> None:
    await asyncio.sleep(0)


def lister(script: Script, store: Store, *older: str) -> Lister:
    resource = GADGETS._replace(older_versions=older)
    return Lister(resource, script, store, prefix="", served=unknown_versions, pause=pause)


async def test_a_list_replaces_all_objects_and_returns_its_resource_version() -> None:
    script, store = Script(), Store()
    reader = lister(script, store)
    script.lists.put_nowait(page(10, gadget("a", 3), gadget("b", 4)))
    assert await reader.read() == "10"
    script.lists.put_nowait(page(20, gadget("b", 4), more="token"))
    script.lists.put_nowait(page(21, gadget("c", 15)))
    assert await reader.read() == "21"
    assert list(names(store)) == ["b", "c"]
    assert [asked.get("continue") for asked in script.asked] == [None, None, "token"]


async def test_an_expired_continue_token_is_an_error_and_removes_no_object() -> None:
    script, store = Script(), Store()
    reader = lister(script, store)
    script.lists.put_nowait(page(10, gadget("a", 3)))
    await reader.read()
    script.lists.put_nowait(page(20, gadget("b", 4), more="token"))
    script.lists.put_nowait(APIError(410, "Expired", "The provided continue parameter is too old"))
    with pytest.raises(RelistError):
        await reader.read()
    assert list(names(store)) == ["a", "b"]


async def test_the_first_served_version_is_read() -> None:
    script, store = Script(), Store()
    reader = lister(script, store, "v1beta1")
    script.lists.put_nowait(NOT_SERVED)
    script.lists.put_nowait(page(10, gadget("a", 3)))
    assert await reader.read() == "10"
    assert reader.versions.current.version == "v1beta1"


async def test_without_a_served_version_the_list_fails() -> None:
    script = Script()
    for _ in range(2):
        script.lists.put_nowait(NOT_SERVED)
    with pytest.raises(NotServedError):
        await lister(script, Store(), "v1beta1").read()


async def test_other_errors_do_not_try_an_older_version() -> None:
    script = Script()
    script.lists.put_nowait(APIError(403, "Forbidden", "cannot list"))
    with pytest.raises(APIError, match="cannot list"):
        await lister(script, Store(), "v1beta1").read()
    assert len(script.asked) == 1


def test_items_get_the_kind_of_their_list() -> None:
    assert identified({"kind": "Other"}, GADGETS) == {"apiVersion": "example.com/v1", "kind": "Gadget"}
