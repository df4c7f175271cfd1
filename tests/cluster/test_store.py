from typing import Any

from fleethook.cluster.partial_and_stale_objects import PartialObject
from fleethook.cluster.store import Index, ObjectKey, Store, key_of
from fleethook.engines.overrider.subject.bound_overriders import OVERRIDERS_BY_SUBJECT
from fleethook.model.gvk import GroupKind
from tests.builders import entry, overrider, store_of, workload, yurt_app_set

SET = GroupKind("apps.openyurt.io", "YurtAppSet")
KEY = ("default", "YurtAppSet", "demo")


def test_an_object_is_found_by_cluster_kind_namespace_and_name() -> None:
    document = yurt_app_set()
    store = store_of(document)
    assert store.get("", SET, "default", "demo") is document
    for place in (("ws", SET, "default", "demo"), ("", SET, "other", "demo"), ("", SET, "default", "x")):
        assert store.get(*place) is None
    assert store.get("", GroupKind("apps.openyurt.io", "YurtAppDaemon"), "default", "demo") is None


def test_an_object_of_one_cluster_is_never_found_in_another() -> None:
    document = overrider(entry("*"), annotations={"kcp.io/cluster": "ws1"})
    store = store_of(document)
    assert store.find(OVERRIDERS_BY_SUBJECT, "ws1", KEY) == (document,)
    assert store.find(OVERRIDERS_BY_SUBJECT, "", KEY) == ()
    assert list(store.each("", GroupKind("apps.openyurt.io", "YurtAppOverrider"))) == []


def test_an_index_follows_replacement_and_removal() -> None:
    first = overrider(entry("*"))
    store = store_of(first)
    moved = {**first, "subject": {"kind": "YurtAppSet", "name": "other"}}
    store.put(moved)
    assert store.find(OVERRIDERS_BY_SUBJECT, "", KEY) == ()
    assert store.find(OVERRIDERS_BY_SUBJECT, "", (*KEY[:2], "other")) == (moved,)
    store.remove(key_of(moved))
    assert store.find(OVERRIDERS_BY_SUBJECT, "", (*KEY[:2], "other")) == ()
    assert sum(store.counts().values()) == 0


def test_find_returns_objects_in_the_order_of_names() -> None:
    names = ["c", "a", "b"]
    store = store_of(*(overrider(entry("*"), name=name) for name in names))
    assert [found["metadata"]["name"] for found in store.find(OVERRIDERS_BY_SUBJECT, "", KEY)] == sorted(names)


def test_subscribers_get_the_former_and_the_new_object() -> None:
    told: list[tuple[str, object, object]] = []
    store = Store()
    end = store.subscribe(lambda key, before, after: told.append((key.name, before, after)))
    first, second = overrider(entry("*")), overrider(entry("beijing"))
    store.put(first)
    store.put(overrider(entry("*")))
    store.put(second)
    store.remove(key_of(second))
    store.remove(key_of(second))
    assert told == [("demo1", None, first), ("demo1", first, second), ("demo1", second, None)]
    end()
    store.put(first)
    assert len(told) == 3


def test_subscribers_get_complete_workloads_and_indexes_partial_ones() -> None:
    by_name = Index("by_name", GroupKind("apps", "Deployment"), lambda _cluster, kept: [kept.name])
    store, told = Store([by_name]), []
    store.subscribe(lambda _key, _before, after: told.append(after))
    document = workload()
    store.put(document)
    assert told == [document]
    (kept,) = store.find(by_name, "", document["metadata"]["name"])
    assert isinstance(kept, PartialObject)
    store.remove(key_of(document))
    assert store.find(by_name, "", document["metadata"]["name"]) == ()


def test_the_names_of_one_namespace_are_listed() -> None:
    here, there = yurt_app_set(), {**yurt_app_set(), "metadata": {"name": "demo", "namespace": "other"}}
    store = store_of(here, there)
    assert store.names_in("", SET, "default") == ["demo"]
    assert store.names_in("", SET, "nowhere") == []
    assert store.names_in("", SET, "other") == ["demo"]
    assert store.namespaces(SET) == [("", "default"), ("", "other")]
    store.remove(key_of(here))
    assert store.names_in("", SET, "default") == []
    assert store.namespaces(SET) == [("", "other")]
    assert list(store.each("", SET)) == [there]


def test_equal_members_of_a_changed_object_stay_the_same_objects() -> None:
    first = yurt_app_set()
    store = store_of(first)
    told: list[object] = []
    store.subscribe(lambda _key, _before, after: told.append(after))
    store.put({**yurt_app_set(), "status": {"readyReplicas": 1}})
    stored = store.get("", SET, "default", "demo")
    assert stored == {**yurt_app_set(), "status": {"readyReplicas": 1}}
    assert stored["spec"] is first["spec"]
    assert told == [stored]


def test_a_cluster_neither_replaces_nor_removes_the_entries_of_another() -> None:
    """Any tenant may choose the index key of its objects."""
    by_claim = Index("by_claim", SET, lambda _cluster, kept: [kept["metadata"]["annotations"]["claim"]])
    store = Store([by_claim])

    def claiming(cluster: str, claim: str) -> dict[str, Any]:
        made = yurt_app_set()
        return {**made, "metadata": {**made["metadata"], "annotations": {"kcp.io/cluster": cluster, "claim": claim}}}

    victim = claiming("ws3", "mine")
    store.put(victim)
    store.put(claiming("ws2", "mine"))
    assert store.find(by_claim, "ws3", "mine") == (victim,)
    store.put(claiming("ws2", "other"))
    store.remove(key_of(claiming("ws2", "other")))
    assert store.find(by_claim, "ws3", "mine") == (victim,)
    assert store.find(by_claim, "ws2", "mine") == ()


def test_has_is_true_while_any_cluster_has_an_object_of_the_kind() -> None:
    store = Store()
    first, second = ({**overrider(entry("*"), annotations={"kcp.io/cluster": one})} for one in ("ws1", "ws2"))
    kind = key_of(first).group_kind
    assert not store.has(kind)
    for document in (first, second, {**first, "spec": {}}):
        store.put(document)
    store.remove(key_of(first))
    store.remove(key_of(first))
    assert store.has(kind)
    store.remove(key_of(second))
    assert not store.has(kind)


def test_a_copy_has_some_kinds_and_knows_all_clusters() -> None:
    index = Index("by_name", GroupKind("", "Pod"), lambda _cluster, one: [one["metadata"]["name"]])
    store = Store([index])
    for name in ("a", "b"):
        store.put({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}})
    store.put({"apiVersion": "v1", "kind": "Other", "metadata": {"name": "o", "annotations": {"kcp.io/cluster": "c"}}})
    copied = store.copy([GroupKind("", "Pod")])
    store.remove(ObjectKey("", GroupKind("", "Pod"), "", "a"))
    assert [key.name for key in copied.keys(GroupKind("", "Pod"))] == ["a", "b"]
    assert len(copied.find(index, "", "a")) == 1
    assert store.find(index, "", "a") == ()
    assert list(copied.keys(GroupKind("", "Other"))) == []
    assert (copied.knows("c"), copied.has(GroupKind("", "Other")), copied.knows("d")) == (True, True, False)
