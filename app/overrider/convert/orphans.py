"""Workloads of node pools that no subject keeps any more, as an upgrade from OpenYurt 1.4 leaves them.

OpenYurt 1.5 and later find the workloads of a YurtAppSet by a label that those of 1.4 lack. They release these, and
create new ones beside them. The released workloads keep running, with everything that an overrider had set.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from app.model.json import JSON, JSONObject, as_object
from app.model.openyurt import POOL_NAME_LABEL, RENDERED_ANNOTATION
from app.overrider.owner import Owner, find_owner
from app.overrider.pools import pools_of_subject
from app.store import ObjectKey, StoreView
from app.store.store import key_of


class Orphan(NamedTuple):
    """A workload without a subject that keeps it."""

    key: ObjectKey
    pool: str
    reason: str
    rendered: bool
    """Whether it has what an overrider set."""


def find_orphans(workloads: Iterable[JSONObject], store: StoreView) -> Iterator[Orphan]:
    """Yield the workloads with a node pool's label whose owner is gone, or no longer has that node pool.

    Args:
        workloads: Deployments and StatefulSets.
        store: All subjects and NodePools of the same clusters.
    """
    pools: dict[ObjectKey, frozenset[str]] = {}
    for workload in workloads:
        metadata, key = as_object(workload.get("metadata")), key_of(workload)
        pool = as_object(metadata.get("labels")).get(POOL_NAME_LABEL)
        if not isinstance(pool, str):
            continue
        reason = _reason(key, pool, metadata, store, pools)
        if reason:
            rendered = RENDERED_ANNOTATION in as_object(metadata.get("annotations"))
            yield Orphan(key, pool, reason, rendered)


def _reason(
    key: ObjectKey,
    pool: str,
    metadata: Mapping[str, JSON],
    store: StoreView,
    pools: dict[ObjectKey, frozenset[str]],
) -> str:
    owner = find_owner(metadata)
    if owner is None:
        return "" if _has_controller(metadata) else "it has no owner"
    name = f"{owner.group_kind.kind} {owner.name}"
    subject = store.get(key.cluster, owner.group_kind, key.namespace, owner.name)
    if subject is None or _is_other(owner, subject):
        return f"its owner, {name}, is gone"
    of = ObjectKey(key.cluster, owner.group_kind, key.namespace, owner.name)
    if of not in pools:
        pools[of] = frozenset(pools_of_subject(owner.group_kind, subject, cluster=key.cluster, store=store))
    return "" if pool in pools[of] else f"its owner, {name}, has no node pool {pool}"


def _is_other(owner: Owner, subject: JSONObject) -> bool:
    """Return whether a subject is another object of the name of an owner."""
    uid = subject["metadata"].get("uid")
    return bool(uid and owner.uid and uid != owner.uid)


def _has_controller(metadata: Mapping[str, JSON]) -> bool:
    """Return whether an object of another kind owns a workload, such as a UnitedDeployment."""
    references = metadata.get("ownerReferences")
    return any(as_object(one).get("controller") for one in references) if isinstance(references, list) else False
