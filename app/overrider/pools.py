"""Which node pools an entry applies to, and which node pools a subject has."""

from collections.abc import Sequence
from typing import Final

from app.model.gvk import GroupKind
from app.model.json import JSON, JSONObject, as_object
from app.model.openyurt import NODE_POOL, YURT_APP_SET
from app.model.selectors import compile_selector
from app.overrider.node_pools import NodePoolView
from app.overrider.subject_parts import SetSelections, is_v1beta1

EVERY_POOL: Final = "*"
EXCLUDE: Final = "-"


def applies_to(pools: JSON, pool: str) -> bool:
    """Return whether an entry with these ``pools`` applies to ``pool``.

    ``name`` selects that pool, ``*`` every pool, and ``-name`` excludes one wherever it stands in the list: upstream
    documents the exclusion and skips the element instead, so there it never excluded anything.
    """
    if not isinstance(pools, list):
        return False
    return f"{EXCLUDE}{pool}" not in pools and (pool in pools or EVERY_POOL in pools)


class PoolSelector:
    """The pools of an entry, compiled: whether it applies to one takes the same time however many it names."""

    __slots__ = ("_excluded", "every", "named")

    def __init__(self, pools: JSON) -> None:
        """Compile ``pools`` as `applies_to` reads them."""
        names = [item for item in pools if isinstance(item, str)] if isinstance(pools, list) else []
        self.every: Final = EVERY_POOL in names
        """Whether every pool is selected that is not excluded."""
        self.named: Final = frozenset(names)
        """The elements of the list, exclusions included."""
        self._excluded: Final = frozenset(item[len(EXCLUDE) :] for item in names if item.startswith(EXCLUDE))

    def selects(self, pool: str) -> bool:
        """Return whether the entry applies to ``pool``."""
        return pool not in self._excluded and (self.every or pool in self.named)


def pools_of_subject(group_kind: GroupKind, subject: JSONObject, *, cluster: str, store: NodePoolView) -> list[str]:
    """Return the names of the node pools that ``subject`` has workloads in, in a stable order.

    A YurtAppSet v1alpha1 lists them in its topology; a YurtAppDaemon selects NodePool objects by label; a YurtAppSet
    v1beta1 has those NodePools that it lists or selects. Where no NodePool is known at all, as in manifests without
    any, the pools that it lists are taken to exist.
    """
    spec = as_object(subject.get("spec"))
    if is_v1beta1(subject):
        return _pools_of_set(subject, list(store.each(cluster, NODE_POOL)))
    if group_kind == YURT_APP_SET:
        return [name for name in topology(spec) if name]
    selects = compile_selector(spec.get("nodepoolSelector"))
    return sorted(
        node_pool["metadata"]["name"]
        for node_pool in store.each(cluster, NODE_POOL)
        if selects(as_object(node_pool["metadata"].get("labels")))
    )


def _pools_of_set(subject: JSONObject, node_pools: Sequence[JSONObject]) -> list[str]:
    if not node_pools:
        return sorted(listed_pools(subject))
    selections = SetSelections(subject)
    named = ((node_pool["metadata"]["name"], node_pool) for node_pool in node_pools)
    return sorted(name for name, node_pool in named if selections.selects(name, node_pool))


def listed_pools(subject: JSONObject) -> list[str]:
    """Return the names in ``spec.pools`` of a YurtAppSet v1beta1."""
    listed = as_object(subject.get("spec")).get("pools")
    return [name for name in listed if isinstance(name, str) and name] if isinstance(listed, list) else []


def topology(spec: JSON) -> dict[str, JSONObject]:
    """Return a YurtAppSet's pools by name, leaving out what is not an object with a name."""
    pools = as_object(as_object(spec).get("topology")).get("pools")
    return {
        pool["name"]: pool
        for pool in (pools if isinstance(pools, list) else ())
        if isinstance(pool, dict) and isinstance(pool.get("name"), str)
    }
