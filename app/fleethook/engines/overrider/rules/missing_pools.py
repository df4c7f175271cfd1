"""Finds names of missing node pools, entries that apply to no pool, and subjects without node pools or controller."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final, NamedTuple

from fleethook.cluster.store import StoreView
from fleethook.engines.overrider.entries.entry_selection import EVERY_POOL, EXCLUDE, selects_any, uses_labels
from fleethook.engines.overrider.rules.finding import Finding
from fleethook.engines.overrider.subject.subject_and_pools import (
    DAEMONS_WITHOUT_CONTROLLER,
    NodePoolView,
    PoolSelection,
    Subject,
    absent_pools,
    depends_on_node_pools,
    describe_lack_of_pools,
    has_no_daemon_controller,
    is_v1beta1,
    pools_of_subject,
    subject_name,
    tweaks_of,
)
from fleethook.model.formats.names_and_labels import validate_selector
from fleethook.model.formats.text import list_names, suggestion
from fleethook.model.gvk import GroupKind
from fleethook.model.json import JSON, JSONObject, as_list, as_object, count_values
from fleethook.model.openyurt import GROUP, NODE_POOL, YURT_APP_DAEMON

# Comparing two names takes some 15 µs, so all suggestions together take 75 ms.
_MAX_SUGGESTIONS: Final = 5
_MAX_COMPARED: Final = 1000


class SubjectPools(NamedTuple):
    """The node pools of a subject when its check began."""

    names: Sequence[str]
    complete: bool
    """Whether ``names`` has all pools of the subject, so that any other name is unknown."""
    node_pools: Mapping[str, JSONObject | None]
    """The NodePools whose labels select tweaks or entries; empty if none do."""
    has_labels: bool = True
    """Whether any NodePool is known, so that entries can select by labels."""
    effects: tuple[Finding, ...] = ()
    """Findings about the pools that do not depend on an overrider."""


def known_pools(subject: Subject, store: NodePoolView, *, overriders: Sequence[JSONObject | None] = ()) -> SubjectPools:
    """Return the node pools of a subject.

    Args:
        subject: The subject.
        store: The NodePools.
        overriders: The overriders that are checked with these pools. Their entries may select by labels.
    """
    group_kind, document, cluster = subject
    names = pools_of_subject(group_kind, document, cluster=cluster, store=store)
    labeled = names if is_v1beta1(document) or any(map(uses_labels, overriders)) else ()
    node_pools = {name: store.get(cluster, NODE_POOL, "", name) for name in labeled}
    # Labels select among NodePools. Without any NodePool, no name can be called unknown.
    has_labels = knows_node_pools(store, cluster)
    complete = not selects_node_pools(group_kind, document) or has_labels
    return SubjectPools(names, complete, node_pools, has_labels)


def check_pools(
    overrider: JSONObject, subject: Subject, pools: SubjectPools, *, unused: Collection[str]
) -> list[Finding]:
    """Return the node pools that entries name and ``subject`` lacks, and the entries that apply to none of its pools.

    Args:
        overrider: An overrider whose entries are valid.
        subject: Its subject.
        pools: The node pools of the subject.
        unused: Paths of entries that are known to apply to no node pool at all.
    """
    findings: list[Finding] = []
    if not pools.complete:
        return findings
    owner = f"{subject.group_kind.kind} {subject.document['metadata']['name']}"
    known = {name: pools.node_pools.get(name) for name in pools.names}
    suggestions = _MAX_SUGGESTIONS if len(pools.names) <= _MAX_COMPARED else 0
    for number, entry in enumerate(overrider.get("entries") or ()):
        field, listed = f"entries[{number}]", as_object(entry).get("pools")
        for position, name in _find_unknown_names(listed, known):
            hint = ""
            if suggestions > 0:
                suggestions -= 1
                hint = suggestion(name, pools.names, quote="'")
            message = f"{owner} has no node pool {name!r}{hint}"
            findings.append(Finding("unknown-pool", f"{field}.pools[{position}]", message))
        by_labels = isinstance(as_object(entry).get("poolSelector"), dict)
        if by_labels and not pools.has_labels:
            text = "no NodePool is known, so poolSelector selects none: give the NodePools, too"
            findings.append(Finding("not-checked", f"{field}.poolSelector", text))
        elif known and field not in unused and not selects_any(entry, known):
            findings.append(Finding("unused-entry", field, _describe_unused(owner, known, by_labels=by_labels)))
    return findings


def _describe_unused(owner: str, known: Mapping[str, JSONObject | None], *, by_labels: bool) -> str:
    text = f"applies to none of the node pools of {owner}"
    absent = [name for name, node_pool in known.items() if node_pool is None] if by_labels else []
    return f"{text}; there is no NodePool {list_names(absent)}, so it has no labels" if absent else text


def check_selections(subject: Subject, store: NodePoolView) -> Iterator[Finding]:
    """Yield the node pools that a subject and its tweaks name and that do not exist, and selections of no node pool.

    Args:
        subject: A subject of a valid shape.
        store: The NodePools. Without any, subjects that depend on them have no finding.
    """
    group_kind, document, cluster = subject
    pools, spec = known_pools(subject, store), as_object(document.get("spec"))
    if not depends_on_node_pools(group_kind, document):
        if not pools.names:
            yield Finding("no-pools", "spec.topology.pools", "is empty, so there are no workloads")
        return
    existing = {one["metadata"]["name"]: one for one in store.each(cluster, NODE_POOL)}
    if existing:
        yield from _check_selection(spec, existing)
    if pools.complete and pools.names:
        owner = f"{group_kind.kind} {document['metadata']['name']}"
        for number, tweak in enumerate(map(as_object, tweaks_of(document))):
            yield from _check_tweak(tweak, f"spec.workload.workloadTweaks[{number}]", owner, pools)


def _check_selection(spec: Mapping[str, JSON], existing: Mapping[str, JSONObject]) -> Iterator[Finding]:
    """Yield the names in ``spec.pools`` without NodePool, and a selector that selects none."""
    names = [*islice(existing, _MAX_COMPARED)]
    absent = ((number, name) for number, name in enumerate(as_list(spec.get("pools"))) if name not in existing)
    for number, name in islice(absent, _MAX_SUGGESTIONS):
        hint = suggestion(str(name), names, quote="'")
        yield Finding("no-pools", f"spec.pools[{number}]", f"there is no NodePool {name!r}{hint}")
    selector = spec.get("nodepoolSelector")
    by_labels = PoolSelection({"nodepoolSelector": selector})
    if isinstance(selector, dict) and not any(map(by_labels.selects, existing, existing.values())):
        text = f"selects none of the {len(existing)} NodePools: compare it with their labels"
        yield Finding("no-pools", "spec.nodepoolSelector", text)


def _check_tweak(tweak: Mapping[str, JSON], field: str, owner: str, pools: SubjectPools) -> Iterator[Finding]:
    """Yield the node pools that a tweak names and its set lacks, and a tweak that applies to no pool of the set."""
    known, listed, selection = pools.node_pools, as_list(tweak.get("pools")), PoolSelection(tweak)
    unknown = [(number, name) for number, name in enumerate(listed) if name not in known]
    for number, name in unknown[:_MAX_SUGGESTIONS]:
        hint = suggestion(str(name), pools.names[:_MAX_COMPARED], quote="'")
        yield Finding("unknown-pool", f"{field}.pools[{number}]", f"{owner} has no node pool {name!r}{hint}")
    by_labels = isinstance(tweak.get("nodepoolSelector"), dict)
    if by_labels and pools.has_labels and not any(map(selection.selects, known, known.values())):
        text = f"selects none of the node pools of {owner}, so the tweak applies to none"
        yield Finding("unused-entry", f"{field}.nodepoolSelector", text)


def _find_unknown_names(listed: JSON, known: Collection[str]) -> Iterator[tuple[int, str]]:
    for position, written in enumerate(as_list(listed)):
        name = written.removeprefix(EXCLUDE) if isinstance(written, str) else ""
        if name not in ("", EVERY_POOL) and name not in known:
            yield position, name


def selects_node_pools(group_kind: GroupKind, subject: JSONObject) -> bool:
    """Return whether labels of NodePools decide which node pools a subject has."""
    selector = as_object(subject.get("spec")).get("nodepoolSelector")
    return group_kind == YURT_APP_DAEMON or (is_v1beta1(subject) and isinstance(selector, dict))


def knows_node_pools(store: NodePoolView, cluster: str) -> bool:
    """Return whether there is any NodePool in a cluster."""
    return next(store.each(cluster, NODE_POOL), None) is not None


_MAX_SELECTOR_VALUES: Final = 1_000
"""Larger selectors are not checked. A check of so many values takes 2 ms, and users write about ten."""


def check_controller(kind: str, *, cluster: str, store: StoreView) -> Iterator[Finding]:
    """Yield a finding if no controller of OpenYurt creates the workloads of a kind of subject.

    Args:
        kind: The kind that an overrider names as its subject.
        cluster: Its logical cluster.
        store: The node pools and, if the server watches them, the CustomResourceDefinitions.
    """
    if GroupKind(GROUP, kind) == YURT_APP_DAEMON and has_no_daemon_controller(store, cluster):
        yield Finding("no-controller", "subject.kind", DAEMONS_WITHOUT_CONTROLLER)


def _find_selector_problem(subject: Subject) -> str | None:
    """Return the path and the first mistake of a subject's node pool selector, None without a mistake."""
    selector = as_object(subject.document.get("spec")).get("nodepoolSelector")
    if selector is None or not depends_on_node_pools(subject.group_kind, subject.document):
        return None
    if count_values(selector, limit=_MAX_SELECTOR_VALUES) > _MAX_SELECTOR_VALUES:
        return None
    problem = next(validate_selector(selector, "/spec/nodepoolSelector"), None)
    return None if problem is None else " ".join(problem)


def check_node_pools(subject: Subject, *, store: NodePoolView) -> Iterator[Finding]:
    """Yield a finding if a subject has no node pool, or names one that does not exist.

    Args:
        subject: The subject of an overrider.
        store: The node pools. Without any, subjects that depend on them have no finding.
    """
    kind, document, cluster = subject
    if (problem := _find_selector_problem(subject)) is not None:
        name = f"{kind.kind} {document['metadata']['name']}"
        yield Finding("no-pools", "subject.name", f"{name}: {problem}, so it selects no node pool")
        return
    if depends_on_node_pools(kind, document) and not knows_node_pools(store, cluster):
        return
    absent = absent_pools(document, cluster=cluster, store=store)
    if not pools_of_subject(kind, document, cluster=cluster, store=store):
        yield Finding("no-pools", "subject.name", describe_lack_of_pools(kind, document, absent))
    elif absent:
        name = f"{kind.kind} {document['metadata']['name']}"
        yield Finding("no-pools", "subject.name", f"there is no NodePool {list_names(absent)}, which {name} names")


def lacks_pool(group_kind: GroupKind, subject: JSONObject, pool: str) -> str:
    """Return the message that a YurtAppSet has no workload in a node pool."""
    name = subject_name(group_kind, subject)
    if is_v1beta1(subject):
        return f"{name} has no pool {pool!r} in spec.pools, and spec.nodepoolSelector does not select it"
    return f"{name} has no pool {pool!r} in spec.topology.pools"
