"""Stores for the tests of the overriders page."""

from typing import Any

from fleethook.cluster.store import ObjectKey, Store
from fleethook.engines.overrider.rollout.pool_previews_and_changes import CellKey
from fleethook.engines.overrider.subject.bound_overriders import OVERRIDERS_BY_SUBJECT
from fleethook.engines.overrider.subject.workload_owner import WORKLOAD_INDEXES
from fleethook.model.openyurt import YURT_APP_SET

DEMO = ObjectKey("", YURT_APP_SET, "default", "demo")


def make_store(*objects: dict[str, Any]) -> Store:
    store = Store([OVERRIDERS_BY_SUBJECT, *WORKLOAD_INDEXES.values()])
    for one in objects:
        store.put(one)
    return store


def cell_key(pool: str = "hangzhou", kind: str = "Deployment", subject: ObjectKey = DEMO) -> CellKey:
    return CellKey(subject, pool, kind)
