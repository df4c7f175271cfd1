"""Reports the entries of an overrider that have another form as tweaks."""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from fleethook.cluster.store import ObjectKey
from fleethook.cluster.store.store import key_of
from fleethook.engines.overrider.convert.pool_conversion import Part, PoolConversion
from fleethook.engines.overrider.convert.remarks import Remark, Subject
from fleethook.engines.overrider.entries.pool_exclusion import EVERY_POOL, EXCLUDE, PoolSelector
from fleethook.model.json import JSON, JSONObject, as_object
from fleethook.model.openyurt import NODE_POOL, NODEPOOL_TOKEN, YURT_APP_DAEMON

_TOLERATIONS: Final = "/spec/template/spec/tolerations"
_BASIC: Final = ("image", "replicas")
_LEAVING: Final = ("initialReplicas", "leave")
_ELEMENT_SELECTOR: Final = re.compile(r"/\[[^/]*=")


def describe_entries(
    subject: Subject, conversions: Sequence[PoolConversion], tweaks: Sequence[JSONObject]
) -> Iterator[Remark]:
    """Yield a remark for each entry, item and patch that has another form as a tweak.

    Args:
        subject: The subject with its overrider.
        conversions: The conversions of the node pools.
        tweaks: The tweaks of the converted subject.
    """
    selectors = [tweak["nodepoolSelector"] for tweak in tweaks if "nodepoolSelector" in tweak]
    if subject.key.group_kind == YURT_APP_DAEMON and _find_tolerating_pools(conversions):
        text = "the tolerations of the NodePools' taints become patches: edit them when a taint changes"
        yield Remark(
            "warning", "taints", subject.key, "spec.nodepoolSelector", text, _find_tolerating_pools(conversions)
        )
    if subject.overrider is None:
        return
    late = {field for one in conversions for field in one.late_items}
    key = key_of(subject.overrider)
    for number, entry in enumerate(subject.overrider.get("entries") or ()):
        if not isinstance(entry, dict):
            continue
        selects, cluster, store = PoolSelector(entry).selects, subject.key.cluster, subject.store
        pools = tuple(one.pool for one in conversions if selects(one.pool, store.get(cluster, NODE_POOL, "", one.pool)))
        if pools and isinstance(selector := entry.get("poolSelector"), dict) and selector not in selectors:
            text = "the selector becomes a list of node pools: add new node pools to the tweak"
            yield Remark("warning", "listed-pools", key, f"entries[{number}].poolSelector", text)
        yield from _describe_entry(entry, f"entries[{number}]", late, key)
        if not pools:
            yield Remark("note", "unused", key, f"entries[{number}]", "applies to no node pool, so it is not converted")
    yield from _describe_unset(conversions, subject)


def _describe_unset(conversions: Sequence[PoolConversion], subject: Subject) -> Iterator[Remark]:
    assert subject.overrider is not None
    text = "sets members to null or zero that OpenYurt's controller would otherwise keep"
    for one in conversions:
        if one.unset:
            field = max((part.field for part in one.parts if part.owner), default="")
            key = key_of(subject.overrider) if field else subject.key
            yield Remark("note", "unset", key, field, text, (one.pool,))


def _find_tolerating_pools(conversions: Sequence[PoolConversion]) -> tuple[str, ...]:
    return tuple(one.pool for one in conversions if any(map(_sets_tolerations, one.parts)))


def _sets_tolerations(part: Part) -> bool:
    paths = (patch["path"] for patch in part.tweaks.get("patches", ()))
    return not part.owner and any(path.startswith(_TOLERATIONS) for path in paths)


def _describe_entry(entry: JSONObject, field: str, late: set[str], key: ObjectKey) -> Iterator[Remark]:
    listed = entry.get("pools") or []
    every = isinstance(listed, list) and EVERY_POOL in listed
    if every and any(isinstance(name, str) and name.startswith(EXCLUDE) for name in listed):
        text = "the exclusion becomes a list of node pools: add new node pools to the tweak"
        yield Remark("warning", "listed-pools", key, f"{field}.pools", text)
    for position, item in enumerate(entry.get("items") or ()):
        yield from _describe_item(as_object(item), f"{field}.items[{position}]", late, key, every=every)
    for position, patch in enumerate(entry.get("patches") or ()):
        path, at = str(as_object(patch).get("path", "")), f"{field}.patches[{position}]"
        if NODEPOOL_TOKEN in path:
            yield _report_one_per_pool(f"{at}.path", key, every=every)
        if _ELEMENT_SELECTOR.search(path):
            text = "the converted path selects list elements by index: edit it when the template's list changes"
            yield Remark("note", "index", key, f"{at}.path", text)


def _describe_item(item: JSON, field: str, late: set[str], key: ObjectKey, *, every: bool) -> Iterator[Remark]:
    member = next((name for name, value in item.items() if value is not None), "")
    if member in _LEAVING:
        text = (
            f"{member} has no form in tweaks: OpenYurt's controller sets the replicas at each revision, also those of "
            "an autoscaler; keep an overrider with this item"
        )
        yield Remark("error", "lost", key, field, text)
    elif field in late:
        text = f"{member} becomes a patch, because a patch precedes it and OpenYurt applies patches last"
        yield Remark("note", "patch", key, field, text)
    elif member not in _BASIC:
        yield Remark("note", "patch", key, field, f"{member} becomes patches, which select list elements by index")
    elif NODEPOOL_TOKEN in str(item):
        yield _report_one_per_pool(field, key, every=every)


def _report_one_per_pool(field: str, key: ObjectKey, *, every: bool) -> Remark:
    text = f"{NODEPOOL_TOKEN} becomes one tweak for each node pool"
    if every:
        return Remark("warning", "listed-pools", key, field, f"{text}: add one for each new node pool")
    return Remark("note", "listed-pools", key, field, text)
