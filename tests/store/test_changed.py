from app.model.gvk import GroupKind
from app.store import ObjectKey, Store
from app.store.changed import ChangedStore

KIND = GroupKind("", "ConfigMap")


def config(name: str, value: str, cluster: str = "") -> dict[str, object]:
    annotations = {"kcp.io/cluster": cluster} if cluster else {}
    metadata = {"name": name, "namespace": "d", "annotations": annotations}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": value}


def test_one_object_is_read_as_it_is_about_to_be_and_the_rest_as_it_is() -> None:
    store = Store()
    for one in (config("a", "1"), config("b", "1"), config("a", "1", "other")):
        store.put(one)
    changed = ChangedStore(store, ObjectKey("", KIND, "d", "a"), config("a", "2"))
    assert {one["metadata"]["name"]: one["data"] for one in changed.each("", KIND)} == {"a": "2", "b": "1"}
    assert changed.get("", KIND, "d", "a") == config("a", "2")
    assert changed.get("", KIND, "d", "b") == config("b", "1")
    assert changed.get("other", KIND, "d", "a") == config("a", "1", "other")
    assert [one["data"] for one in changed.each("other", KIND)] == ["1"]
    assert store.get("", KIND, "d", "a") == config("a", "1")


def test_an_object_may_be_new() -> None:
    changed = ChangedStore(Store(), ObjectKey("c", KIND, "d", "a"), config("a", "2"))
    assert [one["data"] for one in changed.each("c", KIND)] == ["2"]
    assert (changed.knows("c"), changed.knows("other")) == (True, False)
