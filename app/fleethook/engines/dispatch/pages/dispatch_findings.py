"""The findings about webhook configurations and APIBindings, each with links to the objects that it concerns."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlencode

from fleethook.cluster.store import ObjectKey, Store
from fleethook.console.rendering import take_page
from fleethook.engines.dispatch.dispatcher import NAMESPACE
from fleethook.engines.dispatch.hooks.hooks import PHASES
from fleethook.engines.dispatch.lint.codes import CODES, MEANINGS, Finding, Level
from fleethook.engines.dispatch.lint.lint import lint
from fleethook.engines.dispatch.pages.dispatch_view import write_choice
from fleethook.model.gvk import DEFINITION, GroupKind
from fleethook.model.kcp import API_BINDING, API_EXPORT, API_RESOURCE_SCHEMA, LOGICAL_CLUSTER, WORKSPACE

LEVELS: Final[tuple[Level, ...]] = ("error", "warning")
PAGE_ROWS: Final = 100
LINTED: Final = frozenset(
    {*PHASES.values(), API_BINDING, API_EXPORT, API_RESOURCE_SCHEMA, LOGICAL_CLUSTER, WORKSPACE, DEFINITION, NAMESPACE}
)
"""The kinds that the checks read."""
_GROUPS: Final = {kind.kind: kind.group for kind in (*PHASES.values(), API_BINDING)}
"""The API groups of the kinds that findings are about."""


@dataclass(frozen=True)
class FindingRow:
    """A finding, with the addresses of the objects that it concerns."""

    finding: Finding
    meaning: str
    object_address: str
    """The page that shows the object."""
    map_query: str
    """The query string of the map with the focus on the cluster, ``""`` for a plain cluster."""


@dataclass(frozen=True)
class FindingFilter:
    """The parameters of the list; ``""`` for all levels, codes or clusters. Pages begin at 1."""

    level: str = ""
    code: str = ""
    cluster: str = ""
    page: int = 1


@dataclass(frozen=True)
class FindingList:
    """A page of findings, errors first, and the numbers of all findings by level and code."""

    rows: tuple[FindingRow, ...]
    found: int
    by_level: Mapping[str, int]
    by_code: Mapping[str, int]
    page: int
    pages: int


def find_all(store: Store, *, places: Mapping[ObjectKey, str] | None = None) -> tuple[Finding, ...]:
    """Return all findings, as ``fleethook lint`` reports them. Large fleets take seconds, so keep the result."""
    return tuple(lint(store, places=places or {}))


def list_findings(findings: tuple[Finding, ...], wanted: FindingFilter) -> FindingList:
    """Return a page of the findings that match a filter."""
    matching = [one for one in findings if _is_wanted(one, wanted)]
    matching.sort(key=lambda one: LEVELS.index(one.level))  # stable: within a level by cluster, kind and name
    shown, paging = take_page(matching, wanted.page, PAGE_ROWS)
    levels, codes = Counter(one.level for one in findings), Counter(one.code for one in findings)
    return FindingList(
        rows=tuple(map(_make_row, shown)),
        found=len(matching),
        by_level={level: levels[level] for level in LEVELS},
        by_code={code: codes[code] for code in CODES if codes[code]},
        page=paging.page,
        pages=paging.pages,
    )


def _is_wanted(finding: Finding, wanted: FindingFilter) -> bool:
    return (
        wanted.level in ("", finding.level)
        and wanted.code in ("", finding.code)
        and wanted.cluster in ("", finding.cluster)
    )


def _make_row(finding: Finding) -> FindingRow:
    query = urlencode({"focus": finding.cluster}) if finding.cluster else ""
    group = _GROUPS[finding.kind]
    choice = write_choice(ObjectKey(finding.cluster, GroupKind(group, finding.kind), "", finding.configuration))
    return FindingRow(finding, MEANINGS[finding.code], f"/dispatch/object?{urlencode({'choice': choice})}", query)
