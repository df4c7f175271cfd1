"""Rules for a YurtAppOverrider alone, without its subject: its members, entries and patches.

The CustomResourceDefinition enforces some of them. This module repeats those, because the command line checks manifests
without an apiserver, and because these messages tell the author how to correct a mistake.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from fleethook.engines.overrider.entries.entry_selection import (
    EVERY_POOL,
    EXCLUDE,
    PoolSelector,
    sample_names,
    selected_names,
)
from fleethook.engines.overrider.entries.patch_paths import LIMITS, MAX_VALUES
from fleethook.engines.overrider.rules.finding import Finding
from fleethook.engines.overrider.rules.item_rules import check_item
from fleethook.engines.overrider.rules.patch_rules import check_patch
from fleethook.engines.overrider.rules.value_shapes import (
    ENTRY,
    METADATA,
    OVERRIDER,
    SELECTOR,
    SUBJECT,
    find_meant_fields,
    find_unknown_fields,
    mistyped,
    quote_advice,
    type_name,
)
from fleethook.model.formats.labels import validate_selector
from fleethook.model.formats.text import suggestion
from fleethook.model.gvk import GroupKind
from fleethook.model.json import JSON, JSONObject, count_values
from fleethook.model.openyurt import GROUP, SUBJECT_KINDS, SUBJECT_VERSIONS, VERSION, VERSION_V1BETA1

# Checking the name of a node pool takes some 0.5 µs, an item or a patch 30 µs.
_NAMES_PER_UNIT: Final = 60


class Part(NamedTuple):
    """A part of an overrider that is checked without a pause."""

    units: int
    """The work of the check, in items and patches."""
    findings: Iterator[Finding]


def check_overrider(overrider: JSONObject) -> Iterator[Finding]:
    """Yield the mistakes in an overrider that need no subject to be found, with field paths."""
    for part in check_parts(overrider):
        yield from part.findings


def check_parts(overrider: JSONObject) -> Iterator[Part]:
    """Yield the parts of `check_overrider`, in the order of the document, for callers that pause between them."""
    yield Part(1, _check_members(overrider))
    entries = overrider.get("entries")
    if isinstance(entries, list):
        for number, entry in enumerate(entries):
            yield from _split_entry(f"entries[{number}]", entry)


def _check_members(overrider: JSONObject) -> Iterator[Finding]:
    yield from find_unknown_fields(overrider, OVERRIDER, field="", owner="a YurtAppOverrider")
    yield from find_unknown_fields(overrider["metadata"], METADATA, field="metadata", owner="metadata")
    yield from _check_subject(overrider.get("subject"))
    entries = overrider.get("entries")
    if entries is None:
        if "entries" not in find_meant_fields(overrider, OVERRIDER):
            yield Finding("required", "entries", "is required; write [] to override nothing")
    elif not isinstance(entries, list):
        yield mistyped("entries", "a list", entries)


def _check_subject(subject: JSON) -> Iterator[Finding]:
    if not isinstance(subject, dict):
        yield Finding("required", "subject", "is required: the YurtAppSet or YurtAppDaemon to override")
        return
    kinds = sorted(group_kind.kind for group_kind in SUBJECT_KINDS)
    kind = subject.get("kind")
    if isinstance(kind, bool | int | float):
        yield Finding("invalid", "subject.kind", f"must be text, not {type_name(kind)}{quote_advice(kind)}")
    elif kind not in kinds:
        hint = suggestion(kind, kinds) if isinstance(kind, str) else ""
        yield Finding("unsupported", "subject.kind", f"must be one of {', '.join(kinds)}, not {kind!r}{hint}")
    version = subject.get("apiVersion")
    known = [f"{GROUP}/{one}" for one in SUBJECT_VERSIONS.get(GroupKind(GROUP, str(kind)), (VERSION, VERSION_V1BETA1))]
    if version and version not in known:
        owner = kind if kind in kinds else "a subject"
        message = f"must be {' or '.join(known)}, not {version!r}; {owner} has no other version to override"
        yield Finding("unsupported", "subject.apiVersion", message)
    name = subject.get("name")
    if isinstance(name, bool | int | float):
        yield Finding("invalid", "subject.name", f"must be text, not {type_name(name)}{quote_advice(name)}")
    elif not isinstance(name, str) or not name:
        yield Finding("required", "subject.name", "is required")
    yield from _check_subject_members(subject)


def _check_subject_members(subject: Mapping[str, JSON]) -> Iterator[Finding]:
    for finding in find_unknown_fields(subject, SUBJECT, field="subject", owner="a subject"):
        if finding.field.casefold() == "subject.namespace":
            message = "is not a field: a subject is always in the namespace of its overrider; remove it"
            yield finding._replace(message=message)
        else:
            yield finding


def _split_entry(field: str, entry: JSON) -> Iterator[Part]:
    if not isinstance(entry, dict):
        yield Part(1, iter([mistyped(field, "an object", entry)]))
        return
    pools = entry.get("pools")
    selector, meant = entry.get("poolSelector"), find_meant_fields(entry, ENTRY)
    by_labels = selector is not None or "poolSelector" in meant
    found = [] if "pools" in meant or (by_labels and pools is None) else [*_check_pools(f"{field}.pools", pools)]
    if by_labels:
        found = [one for one in found if one.code != "unused-entry"]
    found += [] if selector is None else _check_selector(f"{field}.poolSelector", selector, pools)
    found += find_unknown_fields(entry, ENTRY, field=field, owner="an entry")
    yield Part(1 + len(pools if isinstance(pools, list) else ()) // _NAMES_PER_UNIT, iter(found))
    samples = sample_names(selected_names(pools))
    for member, check in (("items", check_item), ("patches", check_patch)):
        elements = entry.get(member)
        if elements is not None and not isinstance(elements, list):
            yield Part(1, iter([mistyped(f"{field}.{member}", "a list", elements)]))
            continue
        if elements and len(elements) > LIMITS.operations:
            text = f"has {len(elements)} {member}, and the limit is {LIMITS.operations}: combine them"
            yield Part(1, iter([Finding("invalid", f"{field}.{member}", text)]))
            continue
        for number, element in enumerate(elements or ()):
            place = f"{field}.{member}[{number}]"
            if count_values(element, limit=MAX_VALUES) > MAX_VALUES:
                text = f"has more than {MAX_VALUES} values, which is the limit for one of the {member}: split it"
                yield Part(1, iter([Finding("invalid", place, text)]))
            else:
                yield Part(1, check(element, place, pools=samples))
    if not found and not entry.get("items") and not entry.get("patches"):
        yield Part(1, iter([Finding("no-effect", field, "changes nothing: it has neither items nor patches")]))


def _check_pools(field: str, pools: JSON) -> Iterator[Finding]:
    if isinstance(pools, str):
        meant = ", ".join(f"- {name}" for name in pools.split())
        message = f"must be a list, not the text {pools!r}; each pool takes a dash: {meant}"
        yield Finding("invalid", field, message)
    elif pools is None:
        yield Finding(
            "required", field, "names no node pool; write '*' for all of them, or poolSelector for some labels"
        )
    elif not isinstance(pools, list):
        yield mistyped(field, "a list of node pools", pools)
    else:
        broken = [finding for number, pool in enumerate(pools) for finding in _check_pool(f"{field}[{number}]", pool)]
        yield from broken
        if not broken and (problem := _selects_nothing(pools)) is not None:
            yield Finding("unused-entry", field, problem)


def _check_selector(field: str, selector: JSON, pools: JSON) -> Iterator[Finding]:
    """Yield the mistakes of a ``poolSelector``."""
    mistakes = [*check_selector(field, selector)]
    yield from mistakes
    if is_empty_selector(selector) and not mistakes:
        text = "is empty, and an empty selector would select every node pool: write pools: ['*'] for that"
        yield Finding("required", field, text)
    elif isinstance(pools, list) and EVERY_POOL in pools:
        yield Finding("no-effect", field, "changes nothing, because pools has '*': remove one of them")


def check_selector(field: str, selector: JSON) -> Iterator[Finding]:
    """Yield the mistakes in the form of a label selector."""
    if not isinstance(selector, dict):
        yield mistyped(field, "an object with matchLabels or matchExpressions", selector)
        return
    if count_values(selector, limit=MAX_VALUES) > MAX_VALUES:
        yield Finding("invalid", field, f"has more than {MAX_VALUES} values, which is the limit: split it")
        return
    yield from find_unknown_fields(selector, SELECTOR, field=field, owner="a selector")
    for pointer, problem in validate_selector(selector, ""):
        path = "".join(f"[{token}]" if token.isdecimal() else f".{token}" for token in pointer.split("/")[1:])
        yield Finding("invalid", f"{field}{path}", problem)


def is_empty_selector(selector: JSON) -> bool:
    """Return whether a label selector has no condition, so that it selects everything."""
    return isinstance(selector, dict) and not any(selector.get(name) for name in SELECTOR)


def _check_pool(field: str, pool: JSON) -> Iterator[Finding]:
    if isinstance(pool, str) and pool not in ("", EXCLUDE):
        return
    message = "must be a pool's name, -name or '*'"
    if isinstance(pool, dict) and (misplaced := [member for member in ENTRY if member in pool]):
        message += f"; {' and '.join(misplaced)} must be indented like pools, without a dash"
    elif not isinstance(pool, str):
        message += f", not {type_name(pool)}"
        message += quote_advice(pool)
    yield Finding("invalid", field, message)


def _selects_nothing(names: Sequence[JSON]) -> str | None:
    if not names:
        return "is empty, so the entry applies to no node pool"
    if not selected_names(names) and EVERY_POOL not in names:
        return "only excludes node pools, so the entry applies to none; add '*' for all others"
    if EVERY_POOL in names or any(map(PoolSelector({"pools": names}).selects, selected_names(names))):
        return None
    return "excludes every node pool that it names, so the entry applies to none"
