"""Converts the entries of each node pool to tweaks, and groups those of pools that need the same ones.

OpenYurt applies all replicas and images of a pool first, and then all patches. An item becomes replicas or an image
only if that order has the same result, which the conversion tries. Otherwise the item becomes patches. The tweaks of
each pool keep their order. Tweaks without a common pool may appear in any order.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import msgspec

from fleethook.engines.overrider.convert.states import PoolSource, State, as_v1beta1, base_of, states_of
from fleethook.engines.overrider.convert.subject_conversion import bare_document, with_tweaks
from fleethook.engines.overrider.convert.workload_diff import (
    Loss,
    Operation,
    applies,
    as_patch,
    fill_pool,
    find_losses,
    find_operations,
    own_maps,
    unset_operation,
    unset_removals,
    with_own_maps,
    with_tokens,
)
from fleethook.engines.overrider.entries.entry_selection import PoolSelector
from fleethook.engines.overrider.entries.items import container_names
from fleethook.engines.overrider.plan.plan import as_stored, compile_plan
from fleethook.engines.overrider.render.delta import name_tokens, value_at
from fleethook.engines.overrider.template.node_affinity import PoolSettings
from fleethook.engines.overrider.template.template import apply_tweaks
from fleethook.model.json import JSON, JSONObject, as_object
from fleethook.model.openyurt import YURT_APP_SET
from fleethook.workload_schema.value_marks import POOL_MARK


class Part(NamedTuple):
    """The tweak of one step: replicas, images or patches."""

    order: tuple[int, ...]
    owner: str
    """The path of the entry, ``""`` for the subject itself."""
    field: str
    tweaks: JSONObject
    """One of ``replicas``, ``containerImages`` and ``patches`` of a tweak."""


class PoolConversion(NamedTuple):
    """The tweaks of one node pool."""

    pool: str
    parts: tuple[Part, ...]
    states: tuple[State, ...]
    base: JSONObject
    rendered: JSONObject
    """The stored form of the workload before the conversion."""
    wanted: JSONObject
    """The expected result of the tweaks: ``rendered`` in the form of v1beta1."""
    late_items: tuple[str, ...]
    """Paths of items of images and replicas that became patches because a patch precedes them."""
    unset: tuple[str, ...]
    """Paths that a tweak sets to an explicit null or zero value."""


def convert_pool(source: PoolSource) -> PoolConversion:
    """Return the tweaks of one node pool; raises SubjectError or RenderError if v1alpha1 has no workload there."""
    rendered = _render_v1alpha1(source)
    base = base_of(source, source.pool)
    builder = _TweakBuilder(source, base)
    states = tuple(states_of(source, base))
    for state in states:
        builder.add(state)
    parts = builder.parts()
    wanted = as_stored(as_v1beta1(rendered, base, pool=source.pool))
    unset = _unset_survivors(source, parts, wanted)
    if unset and parts:
        patches = [as_patch(operation) for operation in unset]
        last = max(parts, key=lambda part: part.order)
        parts.append(Part(last.order, last.owner, last.field, {"patches": patches}))
    paths = tuple(operation["path"] for operation in unset)
    return PoolConversion(source.pool, tuple(parts), states, base, rendered, wanted, tuple(builder.late_items), paths)


def _render_v1alpha1(source: PoolSource) -> JSONObject:
    plan = compile_plan(
        source.group_kind,
        source.subject,
        {"entries": list(source.entries)},
        kind=source.kind,
        pool=source.pool,
        node_pool=source.node_pool,
        settings=PoolSettings(source.config),
    )
    return plan.rendered


class _TweakBuilder:
    """Collects the tweaks for the states so far; applied to the base, they result in the last state."""

    def __init__(self, source: PoolSource, base: JSONObject) -> None:
        self.late_items: list[str] = []
        self._source = source
        self._base, self._tweaked = base, base
        self._marks = base_of(source, POOL_MARK)
        self._before, self._before_marked = base, base
        self._operations: list[Operation] = []
        self._basic: list[Part] = []
        self._patches: list[tuple[State, Operation]] = []

    def add(self, state: State) -> None:
        """Add the tweaks from the previous state to ``state``."""
        before, self._before = self._before, state.workload
        marked, self._before_marked = self._before_marked, state.marked
        basic = _find_basic_tweaks(state, before)
        written = state.written, state.written_marked
        if basic is not None and self._add_basic(state, before, basic):
            if "containerImages" in basic:
                return
            before, marked = _set_spec(before, basic), _set_spec(marked, basic)
            written = None, None
        operations = find_operations(before, state.workload, written[0])
        shown = find_operations(marked, state.marked, written[1])
        if fill_pool(shown, self._source.pool) != operations:
            shown, marked = operations, before
        self._operations += operations
        self._patches += [(state, one) for one in unset_removals(marked, shown, self._source.kind)]

    def _add_basic(self, state: State, before: JSONObject, basic: JSONObject) -> bool:
        """Add replicas or an image; return whether the result stays the same although OpenYurt applies these first."""
        after = _set_spec(before, basic) if "replicas" in basic else state.workload
        if not _has_effect(basic, before):
            return True
        tweaked = self._apply(basic)
        if not applies(tweaked, self._operations, after):
            self.late_items += [state.field] if state.item else []
            return False
        self._tweaked = tweaked
        self._basic.append(Part(state.order, state.owner, state.field, basic))
        return True

    def _apply(self, basic: JSONObject) -> JSONObject:
        subject = {"spec": {"workload": {"workloadTweaks": [{"tweaks": basic}]}}}
        return apply_tweaks(self._tweaked, subject, [0], kind=self._source.kind, pool=self._source.pool)

    def parts(self) -> list[Part]:
        """Return the parts of all steps in order."""
        maps = own_maps(self._marks, bare_document(self._source.converted, self._source.kind))
        made = list(self._basic)
        done: list[Operation] = []
        for state, operation in self._patches:
            added = with_own_maps([*done, operation], maps)[len(with_own_maps(done, maps)) :]
            done.append(operation)
            patches: list[JSON] = [as_patch(with_tokens(one, self._source.pool)) for one in added]
            if made and made[-1].field == state.field and "patches" in made[-1].tweaks:
                patches = [*made.pop().tweaks["patches"], *patches]
            made.append(Part(state.order, state.owner, state.field, {"patches": patches}))
        return sorted(made, key=lambda part: part.order)


def _set_spec(workload: JSONObject, members: JSONObject) -> JSONObject:
    return {**workload, "spec": {**workload["spec"], **members}}


def _find_basic_tweaks(state: State, before: JSONObject) -> JSONObject | None:
    """Return the replicas or the image that a step sets as a tweak, None if it sets neither.

    Replicas become a patch only if no tweak can set them. OpenYurt's controller uses one variable for the replicas of a
    tweak and of the workloads, so a patch for one node pool would also affect the next.
    """
    replicas = state.workload["spec"].get("replicas")
    changed = replicas is not None and replicas != before["spec"].get("replicas")
    if changed or state.item.get("replicas") is not None:
        return {"replicas": replicas}
    if image := as_object(state.item.get("image")):
        return {"containerImages": [{"name": image.get("containerName"), "targetImage": image.get("imageClaim")}]}
    return None


def _has_effect(basic: JSONObject, before: JSONObject) -> bool:
    """Return whether a tweak has an effect; an image needs a container of that name."""
    return "replicas" in basic or basic["containerImages"][0]["name"] in container_names(before)


def workload_of(converted: JSONObject, source: PoolSource, *, tweaks: Sequence[int]) -> JSONObject:
    """Return the workload of a converted subject in a pool with some of its tweaks.

    Raises:
        SubjectError: The tweaks do not fit the template.
    """
    plan = compile_plan(
        YURT_APP_SET,
        converted,
        None,
        kind=source.kind,
        pool=source.pool,
        node_pool=source.node_pool,
        settings=PoolSettings(tweaks=tweaks),
    )
    return plan.bare


def _unset_survivors(source: PoolSource, parts: Sequence[Part], wanted: JSONObject) -> list[Operation]:
    """Return the operations that unset the members that OpenYurt keeps despite their removal."""
    if not any("patches" in part.tweaks for part in parts):
        return []
    tweaks = [{"pools": [source.pool], "tweaks": part.tweaks} for part in parts]
    got = workload_of(with_tweaks(source.converted, tweaks), source, tweaks=range(len(tweaks)))
    losses = find_losses(wanted, got, source.kind)
    return [operation for loss in losses if (operation := unset_operation(loss, source.kind)) is not None]


def step_of(loss: Loss, got: JSONObject, conversion: PoolConversion) -> State:
    """Return the last step that changed the path of a difference, or the last step if none did."""
    tokens = name_tokens(got, loss.path)
    before = conversion.base
    found = conversion.states[-1]
    for state in conversion.states:
        if value_at(before, tokens) != value_at(state.workload, tokens):
            found = state
        before = state.workload
    return found


Fits = Callable[[JSONObject], bool]
"""Returns whether a tweak alone fits the template, as OpenYurt's webhook checks it."""


class Selector(NamedTuple):
    """The ``poolSelector`` of an entry."""

    pools: frozenset[str]
    """The node pools of the subject that it selects."""
    selector: JSONObject


def find_selectors(overrider: JSONObject | None, sources: Sequence[PoolSource]) -> dict[str, Selector]:
    """Return the selectors of the entries that select node pools only by their labels, by the path of the entry."""
    found: dict[str, Selector] = {}
    for number, entry in enumerate(as_object(overrider).get("entries") or ()):
        if isinstance(as_object(entry).get("poolSelector"), dict) and not entry.get("pools"):
            selects = PoolSelector(entry).selects
            pools = frozenset(source.pool for source in sources if selects(source.pool, source.node_pool))
            found[f"entries[{number}]"] = Selector(pools, entry["poolSelector"])
    return found


def group_tweaks(
    conversions: Sequence[PoolConversion],
    *,
    every: frozenset[str],
    fits: Fits,
    selectors: Mapping[str, Selector] | None = None,
) -> list[JSONObject]:
    """Return ``spec.workload.workloadTweaks``.

    Args:
        conversions: The tweaks of the node pools.
        every: The names of all node pools of the set.
        fits: Whether a tweak alone fits the template. If a tweak depends on the patches of another one, all patches of
            a node pool become one tweak.
        selectors: The result of `find_selectors`. A tweak for the same node pools gets the selector of its entry.
    """
    build = partial(_group_parts, every=every, selectors=selectors or {})
    tweaks = build({one.pool: one.parts for one in conversions})
    if all(map(fits, tweaks)):
        return tweaks
    return build({one.pool: _join_patches(one.parts) for one in conversions})


def _join_patches(parts: Sequence[Part]) -> Sequence[Part]:
    """Merge all patches of a pool into one part."""
    patching = [part for part in parts if "patches" in part.tweaks]
    if len(patching) < 2:
        return parts
    joined = [patch for part in patching for patch in part.tweaks["patches"]]
    last = patching[-1]._replace(order=(9,), owner="", tweaks={"patches": joined})
    return [*(part for part in parts if "patches" not in part.tweaks), last]


class _Group:
    """A tweak under construction."""

    def __init__(self, owner: str, pools: frozenset[str], names: list[str]) -> None:
        self.owner, self.pools, self.names = owner, pools, names
        self.tweaks: JSONObject = {}

    def add(self, tweaks: JSONObject) -> None:
        for member, value in tweaks.items():
            self.tweaks[member] = [*self.tweaks.get(member, ()), *value] if isinstance(value, list) else value

    def build(self, every: frozenset[str], own: Selector | None) -> JSONObject:
        selection: JSONObject = {"nodepoolSelector": {}} if self.pools == every else {"pools": self.names}
        if own is not None and own.pools == self.pools:
            selection = {"nodepoolSelector": own.selector}
        members = ("replicas", "containerImages", "patches")
        return {**selection, "tweaks": {name: self.tweaks[name] for name in members if name in self.tweaks}}


def _group_parts(
    parts: dict[str, Sequence[Part]], *, every: frozenset[str], selectors: Mapping[str, Selector]
) -> list[JSONObject]:
    groups: list[_Group] = []
    for owner, names, tweaks in _find_shared_parts(parts):
        pools = frozenset(names)
        group = next((one for one in _list_joinable(groups, pools) if one.owner == owner and one.pools == pools), None)
        if group is None:
            group = _Group(owner, pools, names)
            groups.append(group)
        group.add(tweaks)
    return [group.build(every, selectors.get(group.owner)) for group in groups]


def _list_joinable(groups: Sequence[_Group], pools: frozenset[str]) -> Iterator[_Group]:
    """Yield groups from the last one backwards, up to and including the first that shares some of these pools."""
    for group in reversed(groups):
        yield group
        if group.pools & pools:
            return


def _find_shared_parts(parts: dict[str, Sequence[Part]]) -> Iterator[tuple[str, list[str], JSONObject]]:
    """Yield each distinct part in order, with its entry and the names of the pools that have it."""
    groups: dict[tuple[tuple[int, ...], int, bytes], tuple[str, list[str], JSONObject]] = {}
    for pool, own in parts.items():
        counts: dict[tuple[int, ...], int] = {}
        for part in own:
            number = counts[part.order] = counts.get(part.order, -1) + 1
            key = (part.order, number, msgspec.json.encode(part.tweaks, order="sorted"))
            groups.setdefault(key, (part.owner, [], part.tweaks))[1].append(pool)
    for key in sorted(groups, key=lambda key: key[:2]):
        yield groups[key]
