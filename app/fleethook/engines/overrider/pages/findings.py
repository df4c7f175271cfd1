"""The findings of lint about overriders and subjects, for their pages and the overview."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

from fleethook.cluster.manifests.yaml_reader import Document
from fleethook.cluster.store import PARTIAL_KINDS, ObjectKey, Store, key_of
from fleethook.console.attention import AttentionLine, ObjectFinding, list_object_lines, read_since
from fleethook.console.context import ConsoleContext
from fleethook.engines.overrider.entries.entry_selection import EVERY_POOL, EXCLUDE, PoolSelector
from fleethook.engines.overrider.rollout.manifest_findings import ManifestFinding, check_documents
from fleethook.engines.overrider.rules.finding import Finding
from fleethook.engines.overrider.subject.owner_index import OVERRIDERS_BY_SUBJECT
from fleethook.model.json import JSON, JSONObject, as_object

CLUSTER: Final = "cluster"
"""The source of objects that no file has."""
LEVELS: Final = ("error", "warning")


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


def select_findings(found: Iterable[ManifestFinding] | None, *keys: ObjectKey | None) -> list[ManifestFinding]:
    """Return the findings about some objects; ``found`` is None before the first check."""
    return [one for one in found or () if one.key in keys]


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
