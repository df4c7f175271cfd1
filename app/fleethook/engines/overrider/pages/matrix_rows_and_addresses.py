"""The matrix of subjects and node pools: its rows, the rows and columns of a page, and the addresses of its views."""

import re
from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode

from fleethook.cluster.partial_and_stale_objects import PartialObject, intern_text
from fleethook.cluster.store import ObjectKey, Store, StoreView
from fleethook.console.page_frame import Paging, paginate
from fleethook.engines.overrider.rollout.pool_previews_and_changes import CellKey, PoolWorkload
from fleethook.engines.overrider.subject.bound_overriders import overriders_of
from fleethook.engines.overrider.subject.subject_and_pools import Subject, pools_of_subject
from fleethook.engines.overrider.subject.workload_owner import WORKLOAD_INDEXES, binding_of, pool_of
from fleethook.engines.overrider.template.template_builder import workload_kinds
from fleethook.model.gvk import GroupKind
from fleethook.model.json import JSONObject
from fleethook.model.openyurt import GROUP, SUBJECT_KINDS, YURT_APP_OVERRIDER


class SubjectRow(NamedTuple):
    """A subject with its node pools.

    Attributes:
        key: The subject.
        pools: The names of its node pools, sorted.
        kinds: The kinds of its workloads.
        overrider: The name of the overrider in effect, ``""`` without one.
    """

    key: ObjectKey
    pools: Sequence[str]
    kinds: Sequence[str]
    overrider: str

    @property
    def title(self) -> str:
        """The kind, namespace, name and logical cluster."""
        inside = f" of {self.key.cluster}" if self.key.cluster else ""
        return f"{self.key.group_kind.kind} {self.key.namespace or 'default'}/{self.key.name}{inside}"

    @property
    def overrider_key(self) -> ObjectKey | None:
        """The overrider in effect, None without one."""
        key = ObjectKey(self.key.cluster, YURT_APP_OVERRIDER, self.key.namespace, self.overrider)
        return key if self.overrider else None

    @property
    def size(self) -> int:
        """The number of cells."""
        return len(self.pools) * len(self.kinds)


def list_subject_keys(store: Store) -> list[ObjectKey]:
    """Return the keys of all subjects, sorted by namespace, name, kind and cluster."""
    keys = [key for group_kind in SUBJECT_KINDS for key in store.keys(group_kind)]
    return sorted(keys, key=lambda key: (key.namespace, key.name, key.group_kind, key.cluster))


def make_row(store: StoreView, key: ObjectKey) -> SubjectRow | None:
    """Return the row of a subject, None if the subject does not exist."""
    document = store.get(*key)
    if document is None:
        return None
    overrider = find_overrider(store, key)
    # Subjects share most names of node pools. Equal strings of one object are compared and hashed in less time.
    pools = sorted(map(intern_text, pools_of_subject(key.group_kind, document, cluster=key.cluster, store=store)))
    name = "" if overrider is None else overrider["metadata"]["name"]
    return SubjectRow(key, pools, workload_kinds(document), name)


def find_overrider(store: StoreView, subject: ObjectKey) -> JSONObject | None:
    """Return the overrider in effect for a subject, None without one."""
    bound = overriders_of(store, subject)
    return bound[0] if bound else None


def find_cell(store: StoreView, key: CellKey) -> PoolWorkload | None:
    """Return a cell for a preview, None if its subject does not exist."""
    document = store.get(*key.subject)
    if document is None:
        return None
    subject = Subject(key.subject.group_kind, document, key.subject.cluster)
    return PoolWorkload(subject, find_overrider(store, key.subject), key.pool, key.kind)


def list_running(
    store: StoreView, subject: ObjectKey, kind: str, pools: Container[str] | None = None
) -> Mapping[str, Sequence[PartialObject]]:
    """Return the stored workloads of a subject by node pool, without those that are being deleted.

    Args:
        store: The workloads.
        subject: The subject.
        kind: Deployment or StatefulSet.
        pools: The node pools to return, None for all.
    """
    found: dict[str, list[PartialObject]] = {}
    for workload in store.find(WORKLOAD_INDEXES[kind], subject.cluster, subject):
        pool = pool_of(workload)
        if (pools is None or pool in pools) and not workload.deleting:
            found.setdefault(pool, []).append(workload)
    return found


def workload_key(workload: PartialObject, subject: ObjectKey, kind: str) -> ObjectKey:
    """Return the key of a workload of a subject."""
    return ObjectKey(subject.cluster, GroupKind("apps", kind), workload.namespace, workload.name)


class MatrixQuery(NamedTuple):
    """The parameters of the matrix, as the URL has them.

    Attributes:
        subject: Text that the title of a subject or the name of its overrider contains, in any case.
        pool: Text that the name of a node pool contains, in any case.
        page: The page, counted from 1.
        columns: The page of the columns, counted from 1.
    """

    subject: str = ""
    pool: str = ""
    page: int = 1
    columns: int = 1

    def parameters(self) -> dict[str, str]:
        """Return the parameters that differ from their defaults, for a URL."""
        default = MatrixQuery()
        return {name: str(value) for name, value in self._asdict().items() if value != getattr(default, name)}


class MatrixPage(NamedTuple):
    """The cells of one page.

    Attributes:
        rows: The rows.
        columns: The names of the node pools.
        cells: The cells to render.
        paging: The page of rows.
        column_paging: The page of columns.
    """

    rows: Sequence[SubjectRow]
    columns: Sequence[str]
    cells: Sequence[CellKey]
    paging: Paging
    column_paging: Paging


# A table of 40 rows and 30 columns fits a screen of 1440 x 900.
ROWS_ON_A_PAGE: Final = 40
COLUMNS_ON_A_PAGE: Final = 30


def select(rows: Sequence[SubjectRow], query: MatrixQuery) -> MatrixPage:
    """Return the cells that a query shows; ``rows`` are all subjects, in order."""
    subject_rows = filter_rows(rows, query)
    paging = paginate(len(subject_rows), query.page, ROWS_ON_A_PAGE)
    shown = subject_rows[paging.start : paging.start + ROWS_ON_A_PAGE]
    names = sorted({pool for row in shown for pool in row.pools})
    column_paging = paginate(len(names), query.columns, COLUMNS_ON_A_PAGE)
    columns = names[column_paging.start : column_paging.start + COLUMNS_ON_A_PAGE]
    shown_pools = frozenset(columns)
    cells = [
        CellKey(row.key, pool, kind) for row in shown for pool in row.pools if pool in shown_pools for kind in row.kinds
    ]
    return MatrixPage(shown, columns, cells, paging, column_paging)


def filter_rows(rows: Sequence[SubjectRow], query: MatrixQuery) -> list[SubjectRow]:
    """Return the rows whose subject matches, each with its matching node pools."""
    text, pool_text = query.subject.casefold(), query.pool.casefold()
    subject_rows = []
    for row in rows:
        if text and text not in row.title.casefold() and text not in row.overrider.casefold():
            continue
        pools = [pool for pool in row.pools if pool_text in pool.casefold()] if pool_text else row.pools
        # A subject without node pools is shown, because that is usually a mistake.
        if pools or not pool_text:
            subject_rows.append(row._replace(pools=pools))
    return subject_rows


PREFIX: Final = "/overriders"
# Kubernetes allows names of 253 characters.
MAX_TEXT: Final = 300
_MAX_PAGE: Final = 1_000_000
_PART: Final = re.compile(r"((?:entries|subject)[^:]*): ", re.ASCII)


def parse_query(parameters: Mapping[str, str]) -> MatrixQuery:
    """Return the query of a URL. A parameter with an unknown value has its default."""
    return MatrixQuery(
        subject=parameters.get("subject", "")[:MAX_TEXT].strip(),
        pool=parameters.get("pool", "")[:MAX_TEXT].strip(),
        page=_parse_page(parameters.get("page")),
        columns=_parse_page(parameters.get("columns")),
    )


def _parse_page(text: str | None) -> int:
    is_number = text is not None and text.isascii() and text.isdecimal() and len(text) < len(str(_MAX_PAGE))
    return max(1, int(text)) if is_number and text is not None else 1


def matrix_url(query: MatrixQuery) -> str:
    """Return the address of a view of the matrix."""
    return _join(PREFIX, query.parameters())


def cell_url(key: CellKey, *, everything: bool = False) -> str:
    """Return the address of the diff of one cell."""
    parameters = {**_describe(key.subject), "subject": key.subject.group_kind.kind, "pool": key.pool, "kind": key.kind}
    return _join(f"{PREFIX}/pool", {**parameters, **({"all": "1"} if everything else {})})


def parse_cell(parameters: Mapping[str, str]) -> CellKey:
    """Return the cell of a URL; it may name no existing object."""
    group_kind = GroupKind(GROUP, parameters.get("subject", ""))
    return CellKey(_parse_key(parameters, group_kind), parameters.get("pool", ""), parameters.get("kind", ""))


def overrider_url(key: ObjectKey, at: str = "") -> str:
    """Return the address of the page of an overrider, at a part such as ``entries[0].items[1]``."""
    return _join(f"{PREFIX}/overrider", {**_describe(key), **({"at": at} if at else {})})


def object_url(key: ObjectKey, at: str = "") -> str:
    """Return the address of the page about an object of a finding; that of an overrider shows the part ``at``."""
    if key.group_kind == YURT_APP_OVERRIDER:
        return overrider_url(key, at)
    return subject_url(key)


def find_part(text: str) -> str:
    """Return the part of an overrider that a message is about, such as ``entries[0].items[1]``; ``""`` for none."""
    found = _PART.match(text)
    return found[1] if found else ""


def parse_overrider_key(parameters: Mapping[str, str]) -> ObjectKey:
    """Return the overrider of a URL; it may name no existing object."""
    return _parse_key(parameters, YURT_APP_OVERRIDER)


def _parse_key(parameters: Mapping[str, str], group_kind: GroupKind) -> ObjectKey:
    return ObjectKey(
        parameters.get("cluster", ""), group_kind, parameters.get("namespace", ""), parameters.get("name", "")
    )


def _describe(key: ObjectKey) -> dict[str, str]:
    """Return the parameters that name an object, without empty ones."""
    found = {"cluster": key.cluster, "namespace": key.namespace, "name": key.name}
    return {name: value for name, value in found.items() if value}


def _join(path: str, parameters: Mapping[str, str]) -> str:
    return f"{path}?{urlencode(parameters)}" if parameters else path


def subject_url(key: ObjectKey) -> str:
    """Return the address of the row of a subject."""
    return matrix_url(MatrixQuery(subject=f"{key.namespace or 'default'}/{key.name}"))


def workload_url(store: Store, key: ObjectKey) -> str:
    """Return the address of a workload: its cell in the matrix, or its reviews if no subject owns it."""
    workload = store.get(*key)
    binding = binding_of(workload, key.cluster) if isinstance(workload, PartialObject) else None
    if not isinstance(workload, PartialObject) or binding is None:
        return f"/reviews?{urlencode({'text': f'{key.namespace}/{key.name}'})}"
    return cell_url(CellKey(binding, pool_of(workload), key.group_kind.kind))


def link_pages(paging: Paging, turn: Callable[[int], MatrixQuery]) -> dict[str, str]:
    """Return the addresses of the pages beside the present one, ``""`` for missing ones.

    Args:
        paging: The present page.
        turn: Returns the query of a page.
    """
    return {
        "previous": matrix_url(turn(paging.page - 1)) if paging.page > 1 else "",
        "next": matrix_url(turn(paging.page + 1)) if paging.page < paging.pages else "",
    }


LINKS: Final[Mapping[str, Any]] = {
    "cell_url": cell_url,
    "overrider_url": overrider_url,
    "find_part": find_part,
    "object_url": object_url,
    "pool_url": lambda pool: matrix_url(MatrixQuery(pool=pool)),
    "subject_url": subject_url,
}
"""The addresses that templates call."""
