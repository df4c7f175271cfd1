"""Node pools that an overrider names and its subject does not have."""

from collections.abc import Collection, Iterator
from typing import Final

from app.model.gvk import GroupKind
from app.model.json import JSONObject, as_object
from app.model.openyurt import NODE_POOL, YURT_APP_DAEMON
from app.model.spelling import suggestion
from app.overrider.finding import Finding
from app.overrider.pools import EVERY_POOL, EXCLUDE, applies_to, pools_of_subject
from app.overrider.rehearsal import Subject
from app.overrider.subject_parts import is_v1beta1
from app.store import StoreView

# A comparison of two names takes some 15 µs and a review must not hold the server: at most 75 ms for all suggestions.
_MAX_SUGGESTIONS: Final = 5
_MAX_COMPARED: Final = 1000


def check_pools(
    overrider: JSONObject, subject: Subject, *, unused: Collection[str], store: StoreView
) -> Iterator[Finding]:
    """Yield the node pools that entries name and ``subject`` lacks, and the entries that apply to none of its pools.

    Args:
        overrider: An overrider whose entries have the right shape.
        subject: Its subject.
        unused: Paths of entries that are known to apply to no node pool at all.
        store: The node pools.
    """
    group_kind, document, cluster = subject
    pools = pools_of_subject(group_kind, document, cluster=cluster, store=store)
    owner = f"{group_kind.kind} {document['metadata']['name']}"
    if selects_node_pools(group_kind, document) and not knows_node_pools(store, cluster):
        return  # Their names come from NodePools, so none can be called unknown.
    known, suggestions = set(pools), _MAX_SUGGESTIONS if len(pools) <= _MAX_COMPARED else 0
    for number, entry in enumerate(overrider.get("entries") or ()):
        field, listed = f"entries[{number}]", as_object(entry).get("pools")
        for position, written in enumerate(listed if isinstance(listed, list) else ()):
            name = written.removeprefix(EXCLUDE) if isinstance(written, str) else ""
            if name in ("", EVERY_POOL) or name in known:
                continue
            hint = suggestion(name, pools, quote="'") if suggestions > 0 else ""
            suggestions -= 1
            yield Finding("unknown-pool", f"{field}.pools[{position}]", f"{owner} has no node pool {name!r}{hint}")
        if pools and field not in unused and not any(applies_to(listed, pool) for pool in pools):
            yield Finding("unused-entry", field, f"applies to none of the node pools of {owner}")


def selects_node_pools(group_kind: GroupKind, subject: JSONObject) -> bool:
    """Return whether labels of NodePools decide which node pools a subject has."""
    selector = as_object(subject.get("spec")).get("nodepoolSelector")
    return group_kind == YURT_APP_DAEMON or (is_v1beta1(subject) and isinstance(selector, dict))


def knows_node_pools(store: StoreView, cluster: str) -> bool:
    """Return whether there is any NodePool in a cluster."""
    return next(store.each(cluster, NODE_POOL), None) is not None
