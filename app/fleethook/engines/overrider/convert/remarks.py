"""The remarks of a conversion: lost values, refused tweaks, and entries that have another form as tweaks."""

import re
from collections.abc import Iterator, Sequence
from typing import Final, Literal, NamedTuple

from fleethook.cluster.store import ObjectKey, StoreView, key_of
from fleethook.engines.overrider.convert.pool_conversion import Part, PoolConversion, step_of, workload_of
from fleethook.engines.overrider.convert.states import PoolSource, is_confined, names_other_pool
from fleethook.engines.overrider.convert.subject_conversion import Trial, find_refusal
from fleethook.engines.overrider.convert.workload_diff import MISSING, Loss, find_losses
from fleethook.engines.overrider.entries.entry_selection import EVERY_POOL, EXCLUDE, PoolSelector
from fleethook.engines.overrider.rules.missing_pools import knows_node_pools
from fleethook.engines.overrider.template.node_affinity import SubjectError
from fleethook.model.json import JSON, JSONObject, as_object
from fleethook.model.openyurt import NODE_LABEL_NODEPOOL, NODE_POOL, NODEPOOL_TOKEN, YURT_APP_DAEMON
from fleethook.patch import format_pointer
from fleethook.workload_schema.go_structs import Kind

Level = Literal["error", "warning", "note"]


class Remark(NamedTuple):
    """One remark about an object of the input."""

    level: Level
    """An error is a loss. A warning is about later changes, such as a new node pool. A note explains the new form."""
    code: str
    """Their meanings are in docs/convert.md."""
    key: ObjectKey
    """The overrider or the subject."""
    field: str
    """Path of the member in that object, ``""`` for the object itself."""
    text: str
    pools: tuple[str, ...] = ()
    """The node pools of the remark; empty for all pools."""
    path: str = ""
    """JSON pointer of the difference in the workloads, ``""`` if there is none."""
    before: JSON = None
    """The value at that path before the conversion, None if there was none."""
    after: JSON = None
    """The value after it, None if there is none."""


class Subject(NamedTuple):
    """A subject of v1alpha1 that is converted."""

    key: ObjectKey
    document: JSONObject
    overrider: JSONObject | None
    """The overrider in effect."""
    kind: Kind
    store: StoreView


_SELECTOR = format_pointer(("spec", "template", "spec", "nodeSelector", NODE_LABEL_NODEPOOL))


def check_pools(subject: Subject, pools: Sequence[str]) -> Iterator[Remark]:
    """Yield remarks about node pools of a subject that do not exist."""
    key, store = subject.key, subject.store
    daemon = key.group_kind == YURT_APP_DAEMON
    if daemon and not pools and subject.overrider is not None:
        text = "selects no NodePool of the input, so no entry can be converted: add the NodePools"
        yield Remark("error", "no-node-pools", key, "spec.nodepoolSelector", text)
    if daemon:
        return
    if not knows_node_pools(store, key.cluster):
        text = (
            "the input has no NodePools, so all of them count as existing; v1beta1 needs the NodePools of its workloads"
        )
        yield Remark("warning", "no-node-pools", key, "spec.topology.pools", text)
        return
    for number, pool in enumerate(pools):
        if store.get(key.cluster, NODE_POOL, "", pool) is None:
            text = "the NodePool does not exist; v1beta1 creates no workload in it until it does"
            yield Remark("error", "no-node-pool", key, f"spec.topology.pools[{number}]", text, (pool,))


def refusals(tweaks: Sequence[JSONObject], trial: Trial, subject: Subject) -> Iterator[Remark]:
    """Yield the tweaks that OpenYurt's webhook refuses."""
    for tweak in tweaks:
        if reason := find_refusal(tweak, trial):
            text = f"OpenYurt's webhook refuses the converted object: a tweak does not fit the template alone: {reason}"
            yield Remark("error", "refused", subject.key, "", text, tuple(tweak.get("pools") or ()))


def compare_pool(
    conversion: PoolConversion, converted: JSONObject, *, source: PoolSource, subject: Subject, tweaks: Sequence[int]
) -> Iterator[Remark]:
    """Yield the differences between a pool's workload before and after the conversion.

    Args:
        conversion: The conversion of the pool.
        converted: The YurtAppSet v1beta1 with tweaks.
        source: The pool before the conversion.
        subject: The subject before the conversion.
        tweaks: The numbers of the tweaks that apply to the pool.
    """
    yield from _check_placement(conversion, source, subject)
    try:
        got = workload_of(converted, source, tweaks=tweaks)
    except SubjectError as error:
        text = f"the tweaks do not fit the template: {error}"
        yield Remark("error", "lost", subject.key, "", text, (source.pool,), "/")
        return
    for loss in find_losses(conversion.wanted, got, source.kind):
        step = step_of(loss, got, conversion)
        owner = key_of(subject.overrider) if step.owner and subject.overrider is not None else subject.key
        before, after = (None if value is MISSING else value for value in (loss.wanted, loss.got))
        yield Remark("error", "lost", owner, step.field, _describe(loss), (source.pool,), loss.path, before, after)


def _describe(loss: Loss) -> str:
    if loss.wanted is MISSING:
        return (
            f"{loss.path} is not removed: OpenYurt's controller keeps the members that a patch removes; take it out of "
            "the template, and add it in the node pools that need it"
        )
    if loss.got is MISSING:
        return f"{loss.path} is lost; set it in the template or in a tweak"
    return f"{loss.path} has the value {_shorten(loss.got)} instead of {_shorten(loss.wanted)}; set it in the template"


_MAX_SHOWN = 60


def _shorten(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}…"


def _check_placement(conversion: PoolConversion, source: PoolSource, subject: Subject) -> Iterator[Remark]:
    pool = source.pool
    if names_other_pool(conversion.rendered, pool):
        text = f"the pods ask for nodes of other node pools; v1beta1 places them on nodes of {pool} only"
        yield Remark("error", "elsewhere", subject.key, conversion.states[0].field, text, (pool,), _SELECTOR)
    elif not is_confined(conversion.rendered, pool):
        text = "nothing confines the pods to the nodes of the node pool; v1beta1 does"
        yield Remark("warning", "confined", subject.key, conversion.states[0].field, text, (pool,), _SELECTOR)


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
