"""The findings of lint about overriders and subjects: the cells that they concern, and the overview."""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

from fleethook.cluster.manifests.yaml_reader import Document
from fleethook.cluster.store import PARTIAL_KINDS, ObjectKey, Store, StoreView, key_of
from fleethook.console.attention import AttentionLine, ObjectFinding, list_object_lines, read_since
from fleethook.console.context import ConsoleContext
from fleethook.engines.overrider.entries.entry_selection import EVERY_POOL, EXCLUDE, PoolSelector
from fleethook.engines.overrider.pages.fleet import CellKey, SubjectRow, find_overrider
from fleethook.engines.overrider.rollout.manifest_findings import ManifestFinding, check_documents
from fleethook.engines.overrider.rules.finding import Finding
from fleethook.engines.overrider.subject.owner_index import OVERRIDERS_BY_SUBJECT
from fleethook.model.json import JSON, JSONObject, as_list, as_object
from fleethook.model.openyurt import NODE_POOL, YURT_APP_OVERRIDER

CLUSTER: Final = "cluster"
"""The source of objects that no file has."""
LEVELS: Final = ("error", "warning")
_ENTRY: Final = re.compile(r"entries\[(\d+)\]")


def collect_documents(context: ConsoleContext) -> list[Document]:
    """Return the objects that findings are about, with their files. No finding is about a workload."""
    if context.manifests is not None:
        found = context.manifests.documents()
        return [one for one in found if key_of(one.object).group_kind not in PARTIAL_KINDS]
    kinds = [kind for kind in context.store.counts() if kind not in PARTIAL_KINDS]
    stored = (context.store.get(*key) for kind in kinds for key in list(context.store.keys(kind)))
    return [Document(one, CLUSTER, 0) for one in stored if one is not None]


def find_all(documents: Sequence[Document]) -> tuple[ManifestFinding, ...]:
    """Return the findings of ``fleethook lint``, errors first. It reads no other object, so a thread may call it."""
    store = Store([OVERRIDERS_BY_SUBJECT])
    for one in documents:
        store.put(one.object)
    return tuple(sorted(check_documents(documents, store), key=lambda one: LEVELS.index(one.level)))


def prepare_findings(context: ConsoleContext) -> Callable[[], tuple[ManifestFinding, ...]]:
    """Return the work that finds all mistakes in the present objects."""
    return partial(find_all, collect_documents(context))


class Concerned:
    """The cells, node pools and objects that findings concern."""

    def __init__(self, store: StoreView, findings: Iterable[ManifestFinding]) -> None:
        """Prepare.

        Args:
            store: The overriders and NodePools.
            findings: The findings.
        """
        self._store: Final = store
        self._selectors: Final[dict[tuple[ObjectKey, int], PoolSelector | None]] = {}
        self._by_object: Final[dict[ObjectKey, list[ManifestFinding]]] = {}
        for one in findings:
            self._by_object.setdefault(one.key, []).append(one)

    def find(self, *keys: ObjectKey | None) -> list[ManifestFinding]:
        """Return the findings about some objects."""
        return [one for key in keys if key is not None for one in self._by_object.get(key, ())]

    def find_of_row(self, row: SubjectRow, pools: Collection[str]) -> list[ManifestFinding]:
        """Return the findings that concern the workloads of a subject in some node pools."""
        found = self.find(row.key, row.overrider_key)
        return [one for one in found if any(self.includes(one, pool) for pool in pools)]

    def find_of_cell(self, key: CellKey) -> list[ManifestFinding]:
        """Return the findings that concern a cell."""
        overrider = find_overrider(self._store, key.subject)
        name = "" if overrider is None else overrider["metadata"]["name"]
        return self.find_of_row(SubjectRow(key.subject, (), (), name), (key.pool,))

    def find_of_pool(self, rows: Iterable[SubjectRow], pool: str) -> list[ManifestFinding]:
        """Return the findings that concern the workloads of some subjects in a node pool."""
        return [
            one
            for row in rows
            if row.has_pool(pool)
            for one in self.find(row.key, row.overrider_key)
            if self.includes(one, pool)
        ]

    def includes(self, one: ManifestFinding, pool: str) -> bool:
        """Return whether a finding concerns a node pool: its entry selects the pool, or it is about no entry."""
        found = _ENTRY.match(one.finding.field)
        if found is None or one.key.group_kind != YURT_APP_OVERRIDER:
            return True
        selector = self._find_selector(one.key, int(found[1]))
        node_pool = self._store.get(one.key.cluster, NODE_POOL, "", pool)
        return selector is not None and selector.selects(pool, node_pool if isinstance(node_pool, dict) else None)

    def _find_selector(self, key: ObjectKey, number: int) -> PoolSelector | None:
        if (key, number) not in self._selectors:
            entries = as_list(as_object(self._store.get(*key)).get("entries"))
            self._selectors[key, number] = PoolSelector(entries[number]) if number < len(entries) else None
        return self._selectors[key, number]


def list_named_pools(overrider: Any) -> set[str]:
    """Return the node pools that the entries of an overrider select by name."""
    entries = as_object(overrider).get("entries")
    named = {name for one in (entries if isinstance(entries, list) else ()) for name in PoolSelector(one).named}
    return {name for name in named if name != EVERY_POOL and not name.startswith(EXCLUDE)}


def describe_key(key: ObjectKey) -> str:
    """Return the kind, namespace and name of an object, as findings begin."""
    name = f"{key.namespace}/{key.name}" if key.namespace else key.name
    return f"{key.group_kind.kind} {name}{f' of {key.cluster}' if key.cluster else ''}"


def needs_attention(finding: Finding) -> bool:
    """Return whether a finding has a line in "Needs attention".

    An error does, and a warning that something fails, differs or never applies. A warning that a part of an overrider
    changes nothing is a note: the workloads are as the overrider wants them.
    """
    return finding.code != "no-effect"


def list_finding_lines(
    found: Iterable[ManifestFinding], address_of: Callable[[ObjectKey, str], str]
) -> list[AttentionLine]:
    """Return the lines about findings; ``address_of`` returns the address of an object at the part of a finding."""
    shown = [one for one in found if needs_attention(one.finding)]
    addresses = {describe_key(one.key): address_of(one.key, one.finding.field) for one in reversed(shown)}
    return list_object_lines(
        (
            ObjectFinding(one.level, one.finding.code, one.key.group_kind.kind, describe_key(one.key), one.finding.text)
            for one in shown
        ),
        addresses,
        lambda code, kind: next(
            addresses[describe_key(one.key)]
            for one in shown
            if (one.finding.code, one.key.group_kind.kind) == (code, kind)
        ),
    )


def list_condition_lines(
    overriders: Iterable[tuple[ObjectKey, JSONObject]], address_of: Callable[[ObjectKey], str]
) -> list[AttentionLine]:
    """Return the lines about conditions that the controller wrote.

    Args:
        overriders: The overriders.
        address_of: Returns the address of the cells of an overrider.
    """
    return [
        AttentionLine(
            "failing" if one.get("status") == "False" else "waiting" if one.get("status") == "Unknown" else "warning",
            describe_key(key),
            f"{one.get('reason')}: {one.get('message')}",
            address_of(key),
            read_since(one.get("lastTransitionTime")),
        )
        for key, overrider in overriders
        for one in _select_conditions(as_object(overrider.get("status")).get("conditions"))
    ]


def _select_conditions(stored: JSON) -> Iterator[Mapping[str, Any]]:
    """Yield the conditions that need attention. Of several conditions with one reason, yield only the first."""
    reasons = set[Any]()
    for one in map(as_object, stored if isinstance(stored, list) else ()):
        needs_attention = one.get("status") in ("False", "Unknown") or one.get("type") == "Conflict"
        if needs_attention and one.get("reason") not in reasons and one.get("type") in _CONDITIONS:
            reasons.add(one.get("reason"))
            yield one


_CONDITIONS: Final = ("Bound", "Rendered", "Conflict")
"""The conditions of the controller; see `fleethook.engines.overrider.controller.status`."""
