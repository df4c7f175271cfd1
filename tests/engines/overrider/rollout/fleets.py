"""Fleets of rendered workloads, and the predicted effects of edits on them."""

import copy
from collections.abc import Callable, Sequence
from typing import Any

from fleethook.cluster.store import key_of
from fleethook.engines.overrider.rollout.diff_prediction_and_totals import PredictedEffect, predict
from tests.builders import API_V1BETA1, owner, rendered, store_of, workload

Document = dict[str, Any]
REVISION = "apps.openyurt.io/controller-revision-hash"
SUBJECT_LABEL = "apps.openyurt.io/ref-yurtappset"


def run(
    pool: str,
    *objects: Document,
    kind: str = "Deployment",
    change: Callable[[Document], None] = lambda _: None,
    **fields: Any,
) -> Document:
    """Return the workload of a pool as OpenYurt's controller creates it and as these objects render it.

    Args:
        pool: The node pool.
        objects: The subject first, then overriders and NodePools.
        kind: Deployment or StatefulSet.
        change: A change of another writer after the rendering.
        fields: Fields of the workload's spec.
    """
    subject = objects[0]
    version = subject["apiVersion"]
    made = workload(
        kind, pool, owners=[owner(subject["kind"], subject["metadata"]["name"], apiVersion=version)], **fields
    )
    for metadata in (made["metadata"], made["spec"]["template"]["metadata"]):
        metadata["labels"][REVISION] = "demo-1"
    if version == API_V1BETA1:
        made["metadata"]["labels"][SUBJECT_LABEL] = subject["metadata"]["name"]
        made["spec"]["template"]["spec"]["nodeSelector"] = {"apps.openyurt.io/nodepool": pool}
    if subject["kind"] == "YurtAppDaemon":
        made["spec"]["template"]["spec"]["nodeSelector"] = {"apps.openyurt.io/nodepool": pool}
    stored: Document = rendered(made, *objects)
    change(stored)
    return stored


def effects(
    before: Sequence[Document], after: Sequence[Document], running: Sequence[Document]
) -> dict[str, PredictedEffect]:
    """Return the predicted effects by node pool, of the difference between two sets of objects."""
    keys = {key_of(one): one for one in before}
    keys_after = {key_of(one): one for one in after}
    changed = [key for key in keys.keys() | keys_after.keys() if keys.get(key) != keys_after.get(key)]
    unchanged = copy.deepcopy(list(running))
    found = predict(store_of(*before), store_of(*after), running, changed)
    assert list(running) == unchanged
    assert len({one.pool for one in found}) == len(found)
    return {one.pool: one for one in found}


def names(found: dict[str, PredictedEffect]) -> dict[str, str]:
    """Return the names of effects by node pool."""
    return {pool: one.effect.name for pool, one in found.items()}
