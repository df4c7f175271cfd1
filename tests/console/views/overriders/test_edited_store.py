from typing import Any

from app.console.views.overriders.edited_store import EditedStore
from app.model.openyurt import YURT_APP_OVERRIDER, YURT_APP_SET
from app.overrider.binding import OVERRIDERS_BY_SUBJECT, overriders_of
from app.store import ObjectKey
from tests.builders import API, overrider, yurt_app_set
from tests.console.views.overriders.fleet_stores import make_store

KEY = ObjectKey("", YURT_APP_OVERRIDER, "default", "demo1")
OTHER = {"apiVersion": API, "kind": "YurtAppSet", "name": "other"}


def bound_names(store: EditedStore, subject: str) -> list[str]:
    found = overriders_of(store, cluster="", namespace="default", group_kind=YURT_APP_SET, name=subject)
    return [one["metadata"]["name"] for one in found]


def edit(after: dict[str, Any], *objects: dict[str, Any]) -> EditedStore:
    return EditedStore(make_store(yurt_app_set(), *objects), KEY, after)


def test_the_edited_object_replaces_the_former_one() -> None:
    after = overrider(labels={"new": "yes"})
    store = edit(after, overrider(), overrider(name="demo2"))
    assert store.get(*KEY) is after
    assert bound_names(store, "demo") == ["demo1", "demo2"]
    assert [one for one in store.each("", YURT_APP_OVERRIDER) if one["metadata"]["name"] == "demo1"] == [after]
    assert len(list(store.each("", YURT_APP_OVERRIDER))) == 2


def test_an_object_that_moves_to_another_subject_leaves_the_former_one() -> None:
    store = edit(overrider(subject=OTHER), overrider())
    assert (bound_names(store, "demo"), bound_names(store, "other")) == ([], ["demo1"])


def test_a_new_object_is_added() -> None:
    store = edit(overrider())
    assert bound_names(store, "demo") == ["demo1"]
    assert store.has(YURT_APP_OVERRIDER)


def test_other_kinds_and_clusters_are_those_of_the_store() -> None:
    store = edit(overrider(), overrider(annotations={"kcp.io/cluster": "root:a"}))
    assert store.get("", YURT_APP_SET, "default", "demo") is not None
    assert len(store.find(OVERRIDERS_BY_SUBJECT, "root:a", ("default", "YurtAppSet", "demo"))) == 1
    assert len(list(store.each("root:a", YURT_APP_OVERRIDER))) == 1
    assert store.has(YURT_APP_SET)
    assert store.knows("root:a")
    assert store.knows("")
    assert not store.knows("root:b")
