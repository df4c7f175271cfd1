"""The findings of lint about overriders and subjects: their list, the cells that they concern, and the overview."""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from fleethook.cluster.manifests.yaml_reader import Document
from fleethook.cluster.store import PARTIAL_KINDS, ObjectKey, Store, StoreView, key_of
from fleethook.console.attention import AttentionLine, ObjectFinding, list_object_lines, read_since
from fleethook.console.context import ConsoleContext
from fleethook.console.rendering import Paging, take_page
from fleethook.engines.overrider.entries.entry_selection import EVERY_POOL, EXCLUDE, PoolSelector
from fleethook.engines.overrider.pages.fleet import CellKey, CellState, SubjectRow, find_overrider
from fleethook.engines.overrider.pages.matrix import States
from fleethook.engines.overrider.rollout.manifest_findings import ManifestFinding, check_documents
from fleethook.engines.overrider.rules.finding import Finding
from fleethook.engines.overrider.subject.owner_index import OVERRIDERS_BY_SUBJECT
from fleethook.model.json import JSON, JSONObject, as_list, as_object
from fleethook.model.openyurt import NODE_POOL, YURT_APP_OVERRIDER

CLUSTER: Final = "cluster"
"""The source of objects that no file has."""
LEVELS: Final = ("error", "warning")
PAGE_ROWS: Final = 100
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


class FindingFilter(NamedTuple):
    """The parameters of the list; ``""`` selects everything.

    Attributes:
        level: ``error`` or ``warning``.
        code: A code.
        kind: The kind of the object.
        text: Part of the kind, namespace and name of the object, or of the finding, in any case.
        pool: A node pool that the findings concern.
        page: The page, from 1.
    """

    level: str = ""
    code: str = ""
    kind: str = ""
    text: str = ""
    pool: str = ""
    page: int = 1

    def parameters(self) -> dict[str, str]:
        """Return the parameters that differ from their defaults, without the page, for a URL."""
        shown = self._replace(page=1)._asdict()
        return {name: str(value) for name, value in shown.items() if value and name != "page"}


class FindingList(NamedTuple):
    """A page of findings, errors first, and the numbers of all findings by level and code."""

    rows: Sequence[ManifestFinding]
    paging: Paging
    by_level: Mapping[str, int]
    by_code: Mapping[str, int]


def list_findings(findings: Iterable[ManifestFinding], wanted: FindingFilter, concerned: "Concerned") -> FindingList:
    """Return a page of the findings that match a filter."""
    known = list(findings)
    text = wanted.text.casefold()
    matching = [
        one
        for one in known
        if wanted.level in ("", one.level)
        and wanted.code in ("", one.finding.code)
        and wanted.kind in ("", one.key.group_kind.kind)
        and text in one.text.casefold()
        and (not wanted.pool or concerned.includes(one, wanted.pool))
    ]
    rows, paging = take_page(matching, wanted.page, PAGE_ROWS)
    levels, codes = Counter(one.level for one in known), Counter(one.finding.code for one in known)
    return FindingList(rows, paging, {level: levels[level] for level in LEVELS}, dict(sorted(codes.items())))


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

    def find_of_pools(self, rows: Iterable[SubjectRow], pools: Collection[str]) -> list[ManifestFinding]:
        """Return the findings that concern the workloads of some subjects in some node pools."""
        return [
            one
            for row in rows
            for one in self.find(row.key, row.overrider_key)
            if any(row.has_pool(pool) and self.includes(one, pool) for pool in pools)
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
    found: Iterable[ManifestFinding],
    failing: Collection[ObjectKey | None],
    address_of: Callable[[FindingFilter], str],
) -> list[AttentionLine]:
    """Return the lines about findings.

    Args:
        found: The findings.
        failing: The overriders whose subjects already have a line for failing workloads; the failure gets no second
            line.
        address_of: Returns the address of a list of findings.
    """
    known = [one for one in found if one.finding.code != "does-not-fit" or one.key not in failing]
    shown = [one for one in known if needs_attention(one.finding)]
    return list_object_lines(
        (
            ObjectFinding(one.level, one.finding.code, one.key.group_kind.kind, describe_key(one.key), one.finding.text)
            for one in shown
        ),
        {describe_key(one.key): address_of(FindingFilter(text=f"{describe_key(one.key)}:")) for one in shown},
        lambda code, kind: address_of(FindingFilter("warning", code, kind)),
    )


def list_cell_lines(
    rows: Iterable[SubjectRow], states: States, address_of: Callable[[SubjectRow, str], str]
) -> list[AttentionLine]:
    """Return the lines about workloads that cannot be rendered, or that differ from their plan.

    Args:
        rows: The subjects.
        states: The known states.
        address_of: Returns the address of the cells of a subject with a state, ``""`` for all states.
    """
    return [line for row in rows for line in _judge_row(row, states.get(row.key, {}), address_of)]


def _judge_row(
    row: SubjectRow, states: Mapping[tuple[str, str], CellState], address_of: Callable[[SubjectRow, str], str]
) -> Iterator[AttentionLine]:
    errors = [(pool, one) for (_, pool), one in states.items() if one.state == "error"]
    rolls = [(pool, one) for (_, pool), one in states.items() if one.state == "rolls"]
    others = [(pool, one) for (_, pool), one in states.items() if one.state not in ("error", "rolls") and one.text]
    if errors:
        reason = f"{_count(errors, row)} cannot be rendered: {_describe_first(errors)}"
        yield AttentionLine("failing", row.title, reason, address_of(row, "error"))
    if rolls:
        reason = f"{_count(rolls, row)} differ from the plan: {_describe_first(rolls)}"
        yield AttentionLine("waiting", row.title, reason, address_of(row, "rolls"))
    if others:
        reason = f"{_count(others, row)} differ from the plan without a rollout: {_describe_first(others)}"
        yield AttentionLine("waiting", row.title, reason, address_of(row, ""))


def _count(cells: Sequence[tuple[str, CellState]], row: SubjectRow) -> str:
    return f"{len(cells)} of {row.size} workloads"


def _describe_first(cells: Sequence[tuple[str, CellState]]) -> str:
    pool, state = min(cells, key=lambda one: one[0])
    return f"in {pool}, {state.text}"


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
