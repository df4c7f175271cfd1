"""The findings of ``fleethook lint``, counted by level, code and kind."""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from typing import Final, NamedTuple

from fleethook.cluster.manifests.yaml_reader import Document
from fleethook.cluster.store import Store, key_of
from fleethook.cluster.store.store import PARTIAL_KINDS
from fleethook.engines.dispatch.lint.lint import lint
from fleethook.engines.dispatch.owner.schema_owner import INDEXES
from fleethook.engines.overrider.preview.manifest_findings import check_documents
from fleethook.engines.overrider.subject.binding import OVERRIDERS_BY_SUBJECT
from fleethook.model.gvk import GroupKind

CLUSTER: Final = "cluster"
"""The source of objects that no file has."""


class FindingCount(NamedTuple):
    """The number of findings with a code about objects of a kind; ``level`` is ``error`` or ``warning``."""

    level: str
    code: str
    kind: str
    total: int


def collect_documents(store: Store) -> list[Document]:
    """Return the objects of a store that findings are about. Workloads are partial, and no finding is about them."""
    kinds = [kind for kind in store.counts() if kind not in PARTIAL_KINDS]
    return [Document(one, CLUSTER, 0) for kind in kinds for one in _list_objects(store, kind)]


def _list_objects(store: Store, kind: GroupKind) -> Iterator[dict[str, object]]:
    for key in list(store.keys(kind)):
        if (found := store.get(*key)) is not None:
            yield found


def select_checked(documents: Sequence[Document]) -> list[Document]:
    """Return the documents that findings are about: a fleet of 100,000 workloads would take minutes to check."""
    return [one for one in documents if key_of(one.object).group_kind not in PARTIAL_KINDS]


def count_findings(documents: Sequence[Document]) -> list[FindingCount]:
    """Return the numbers of findings about objects, errors first. It reads no other object, so a thread may call it."""
    store = Store([OVERRIDERS_BY_SUBJECT, *INDEXES])
    for one in documents:
        store.put(one.object)
    found: Counter[tuple[str, str, str]] = Counter()
    for about in check_documents(documents, store):
        found[about.level, about.finding.code, about.key.group_kind.kind] += 1
    for webhook in lint(store, places={key_of(one.object): one.place for one in documents}):
        found[webhook.level, webhook.code, webhook.kind] += 1
    return [FindingCount(*key, total) for key, total in sorted(found.items())]


def select_kinds(counts: Sequence[FindingCount], kinds: Collection[GroupKind]) -> list[FindingCount]:
    """Return the counts about some kinds."""
    names = {one.kind for one in kinds}
    return [one for one in counts if one.kind in names]
