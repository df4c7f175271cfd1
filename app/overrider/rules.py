"""Rules for a YurtAppOverrider in itself, without its subject.

The CustomResourceDefinition enforces a part of them. They are repeated here because these rules also judge manifests
that no apiserver has seen, and because a message can say what to write.
"""

from collections.abc import Iterator, Mapping, Sequence

from app.model.gvk import GroupKind
from app.model.json import JSON, JSONObject
from app.model.openyurt import GROUP, SUBJECT_VERSIONS, VERSION, VERSION_V1BETA1
from app.model.spelling import suggestion
from app.overrider.finding import Finding
from app.overrider.item_rules import check_item
from app.overrider.members import ENTRY, METADATA, OVERRIDER, SUBJECT, meant_members, unknown_members
from app.overrider.owner import SUBJECT_KINDS
from app.overrider.patch_rules import check_patch
from app.overrider.pools import EVERY_POOL, EXCLUDE, PoolSelector
from app.overrider.shapes import mistyped, type_name


def check_overrider(overrider: JSONObject) -> Iterator[Finding]:
    """Yield the mistakes in an overrider that show without its subject, with field paths."""
    yield from unknown_members(overrider, OVERRIDER, field="", owner="a YurtAppOverrider")
    yield from unknown_members(overrider["metadata"], METADATA, field="metadata", owner="metadata")
    yield from _check_subject(overrider.get("subject"))
    entries = overrider.get("entries")
    if entries is None:
        if "entries" not in meant_members(overrider, OVERRIDER):
            yield Finding("required", "entries", "is required; write [] to override nothing")
    elif not isinstance(entries, list):
        yield mistyped("entries", "a list", entries)
    else:
        for number, entry in enumerate(entries):
            yield from _check_entry(f"entries[{number}]", entry)


def _check_subject(subject: JSON) -> Iterator[Finding]:
    if not isinstance(subject, dict):
        yield Finding("required", "subject", "is required: the YurtAppSet or YurtAppDaemon to override")
        return
    kinds = sorted(group_kind.kind for group_kind in SUBJECT_KINDS)
    kind = subject.get("kind")
    if kind not in kinds:
        hint = suggestion(kind, kinds) if isinstance(kind, str) else ""
        yield Finding("unsupported", "subject.kind", f"must be one of {', '.join(kinds)}, not {kind!r}{hint}")
    version = subject.get("apiVersion")
    known = [f"{GROUP}/{one}" for one in SUBJECT_VERSIONS.get(GroupKind(GROUP, str(kind)), (VERSION, VERSION_V1BETA1))]
    if version and version not in known:
        owner = kind if kind in kinds else "a subject"
        message = f"must be {' or '.join(known)}, not {version!r}; {owner} has no other version to override"
        yield Finding("unsupported", "subject.apiVersion", message)
    name = subject.get("name")
    if not isinstance(name, str) or not name:
        yield Finding("required", "subject.name", "is required")
    yield from _check_subject_members(subject)


def _check_subject_members(subject: Mapping[str, JSON]) -> Iterator[Finding]:
    for finding in unknown_members(subject, SUBJECT, field="subject", owner="a subject"):
        if finding.field.casefold() == "subject.namespace":
            message = "is not a field: a subject is always in the namespace of its overrider; remove it"
            yield finding._replace(message=message)
        else:
            yield finding


def _check_entry(field: str, entry: JSON) -> Iterator[Finding]:
    if not isinstance(entry, dict):
        yield mistyped(field, "an object", entry)
        return
    pools = entry.get("pools")
    found = [*_check_pools(f"{field}.pools", pools)] if "pools" not in meant_members(entry, ENTRY) else []
    found += unknown_members(entry, ENTRY, field=field, owner="an entry")
    yield from found
    named = selected_names(pools)
    for member, check in (("items", check_item), ("patches", check_patch)):
        elements = entry.get(member)
        if elements is None:
            continue
        if not isinstance(elements, list):
            yield mistyped(f"{field}.{member}", "a list", elements)
            continue
        for number, element in enumerate(elements):
            yield from check(element, f"{field}.{member}[{number}]", pools=named)
    if not found and not entry.get("items") and not entry.get("patches"):
        yield Finding("no-effect", field, "changes nothing: it has neither items nor patches")


def _check_pools(field: str, pools: JSON) -> Iterator[Finding]:
    if isinstance(pools, str):
        meant = ", ".join(f"- {name}" for name in pools.split())
        message = f"must be a list, not the text {pools!r}; each pool takes a dash: {meant}"
        yield Finding("invalid", field, message)
    elif pools is None:
        yield Finding("required", field, "names no node pool; write '*' for all of them")
    elif not isinstance(pools, list):
        yield mistyped(field, "a list of node pools", pools)
    else:
        broken = [finding for number, pool in enumerate(pools) for finding in _check_pool(f"{field}[{number}]", pool)]
        yield from broken
        if not broken and (problem := _selects_nothing(pools)) is not None:
            yield Finding("unused-entry", field, problem)


def _check_pool(field: str, pool: JSON) -> Iterator[Finding]:
    if isinstance(pool, str) and pool not in ("", EXCLUDE):
        return
    message = "must be a pool's name, -name or '*'"
    if isinstance(pool, dict) and (misplaced := [member for member in ENTRY if member in pool]):
        message += f"; {' and '.join(misplaced)} must be indented like pools, without a dash"
    elif not isinstance(pool, str):
        message += f", not {type_name(pool)}"
        if isinstance(pool, (int, float)) and not isinstance(pool, bool):
            message += f': quote it, as in "{pool}"'
    yield Finding("invalid", field, message)


def _selects_nothing(names: Sequence[JSON]) -> str | None:
    if not names:
        return "is empty, so the entry applies to no node pool"
    if not selected_names(names) and EVERY_POOL not in names:
        return "only excludes node pools, so the entry applies to none; add '*' for all others"
    if EVERY_POOL in names or any(map(PoolSelector(names).selects, selected_names(names))):
        return None
    return "excludes every node pool that it names, so the entry applies to none"


def selected_names(pools: JSON) -> list[str]:
    """Return the node pools that a list selects by name."""
    named = pools if isinstance(pools, list) else ()
    return [name for name in named if isinstance(name, str) and name and name != EVERY_POOL and name[0] != EXCLUDE]
