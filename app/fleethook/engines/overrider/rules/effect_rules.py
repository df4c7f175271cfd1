"""Finds overriders without effect: their subject has no controller or no node pool."""

from collections.abc import Iterator
from typing import Final

from fleethook.cluster.store import StoreView
from fleethook.engines.overrider.admission.dry_run import Subject
from fleethook.engines.overrider.openyurt.owner_controller import DAEMONS_WITHOUT_CONTROLLER, has_no_daemon_controller
from fleethook.engines.overrider.rules.entry_pool_rules import knows_node_pools
from fleethook.engines.overrider.rules.finding import Finding
from fleethook.engines.overrider.subject.absent_pools import absent_pools, describe_lack_of_pools
from fleethook.engines.overrider.subject.node_pools import NodePoolView
from fleethook.engines.overrider.subject.pools import pools_of_subject
from fleethook.engines.overrider.subject.subject_parts import depends_on_node_pools
from fleethook.engines.overrider.subject.unaffected_workloads import list_names
from fleethook.model.formats.size import count_values
from fleethook.model.gvk import GroupKind
from fleethook.model.json import as_object
from fleethook.model.openyurt import GROUP, YURT_APP_DAEMON
from fleethook.model.selectors import validate_selector

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
    found = next(validate_selector(selector, "/spec/nodepoolSelector"), None)
    return None if found is None else " ".join(found)


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
