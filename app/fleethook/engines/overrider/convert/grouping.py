"""Groups the tweaks of node pools into the tweaks of a set: pools that need the same tweak share it.

The tweaks of each pool keep their order. Tweaks without a common pool may appear in any order.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import msgspec

from fleethook.engines.overrider.convert.pool_conversion import Part, PoolConversion
from fleethook.engines.overrider.convert.states import PoolSource
from fleethook.engines.overrider.entries.pool_exclusion import PoolSelector
from fleethook.model.json import JSONObject, as_object

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
