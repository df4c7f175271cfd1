"""The addresses of the section ``/overriders``: made for links, and read from requests."""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import urlencode

from fleethook.cluster.store import ObjectKey, PartialObject, Store
from fleethook.console.rendering import Paging
from fleethook.engines.overrider.pages.matrix import Query
from fleethook.engines.overrider.rollout.preview import CellKey
from fleethook.engines.overrider.subject.owner_index import binding_of, pool_of
from fleethook.model.gvk import GroupKind
from fleethook.model.openyurt import GROUP, YURT_APP_OVERRIDER

PREFIX: Final = "/overriders"
# Kubernetes allows names of 253 characters.
MAX_TEXT: Final = 300
_MAX_PAGE: Final = 1_000_000
_PART: Final = re.compile(r"((?:entries|subject)[^:]*): ", re.ASCII)


def parse_query(parameters: Mapping[str, str]) -> Query:
    """Return the query of a URL. A parameter with an unknown value has its default."""
    return Query(
        subject=parameters.get("subject", "")[:MAX_TEXT].strip(),
        pool=parameters.get("pool", "")[:MAX_TEXT].strip(),
        page=_parse_page(parameters.get("page")),
        columns=_parse_page(parameters.get("columns")),
    )


def _parse_page(text: str | None) -> int:
    is_number = text is not None and text.isascii() and text.isdecimal() and len(text) < len(str(_MAX_PAGE))
    return max(1, int(text)) if is_number and text is not None else 1


def matrix_url(query: Query) -> str:
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
    return matrix_url(Query(subject=f"{key.namespace or 'default'}/{key.name}"))


def workload_url(store: Store, key: ObjectKey) -> str:
    """Return the address of a workload: its cell in the matrix, or its reviews if no subject owns it."""
    workload = store.get(*key)
    binding = binding_of(workload, key.cluster) if isinstance(workload, PartialObject) else None
    if not isinstance(workload, PartialObject) or binding is None:
        return f"/reviews?{urlencode({'text': f'{key.namespace}/{key.name}'})}"
    return cell_url(CellKey(ObjectKey(*binding), pool_of(workload), key.group_kind.kind))


def link_pages(paging: Paging, turn: Callable[[int], Query]) -> dict[str, str]:
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
    "pool_url": lambda pool: matrix_url(Query(pool=pool)),
    "subject_url": subject_url,
}
"""The addresses that templates call."""
