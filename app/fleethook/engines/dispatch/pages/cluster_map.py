"""The map of logical clusters: the exports of resources, and the clusters that bind them.

A fleet of 200 clusters has few providers and many consumers with the same bindings. The map shows such consumers as one
node until a user expands it, and a search or a focus leaves only a part of the map.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from fleethook.cluster.store import Store
from fleethook.engines.dispatch.hooks.hooks import PHASES
from fleethook.model.json import JSON, as_object, as_text
from fleethook.model.kcp import API_BINDING, API_EXPORT

MAX_PLAIN_NODES: Final = 40
"""A map with more clusters shows consumers with the same bindings as one node."""
MAX_NODES: Final = 250
"""Nodes of one picture. A layout of more takes seconds in a browser; the table shows all bindings."""
MAX_ROWS: Final = 500

FLEET_KINDS: Final = frozenset({*PHASES.values(), API_BINDING, API_EXPORT})
"""The kinds that `read_fleet` reads."""

UNKNOWN: Final = "unknown"
"""The name of the provider of bindings that name none. No logical cluster has it, as its node has another kind."""


@dataclass(frozen=True)
class Binding:
    """An APIBinding: a row of the table."""

    consumer: str
    name: str
    provider: str
    """``""`` if the binding does not name it."""
    export: str
    resources: tuple[str, ...]
    """Bound resources, such as ``widgets.example.org``."""
    problem: str
    """``""`` if the binding is bound and its APIExport exists."""


@dataclass(frozen=True)
class Node:
    """A cluster, or several consumers with the same bindings."""

    id: str
    label: str
    clusters: tuple[str, ...]
    exports: tuple[str, ...]
    webhooks: int
    """Webhook configurations of the clusters."""
    is_focus: bool


@dataclass(frozen=True)
class Edge:
    """Bindings of a consumer, or of several, to a provider."""

    consumer: str
    """The id of a node."""
    provider: str
    exports: tuple[str, ...]
    resources: tuple[str, ...]
    has_problem: bool


@dataclass(frozen=True)
class MapFilter:
    """The parameters of the map.

    Attributes:
        text: Part of the name of a cluster, export or resource; ``""`` for all. Neighbours of matches are shown.
        focus: A cluster: only it and its neighbours are shown; ``""`` for none.
        expanded: Whether to show each consumer as a node of its own.
    """

    text: str = ""
    focus: str = ""
    expanded: bool = False


@dataclass(frozen=True)
class ClusterMap:
    """The picture, and the table of the same bindings."""

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    rows: tuple[Binding, ...]
    """At most `MAX_ROWS`."""
    bindings: int
    """Bindings that match the filter."""
    clusters: int
    """All clusters with an export, a binding or a webhook configuration."""
    is_collapsed: bool
    """Whether consumers with the same bindings are one node."""
    is_cut: bool
    """Whether there are more than `MAX_NODES` nodes. Then there is no picture."""


@dataclass(frozen=True)
class Fleet:
    """The bindings, exports and webhook configurations of a fleet, independent of the filter."""

    bindings: tuple[Binding, ...]
    exports: Mapping[str, tuple[str, ...]]
    webhooks: Mapping[str, int]

    @property
    def clusters(self) -> set[str]:
        """All clusters with an export, a binding or a webhook configuration."""
        ends = {end for one in self.bindings for end in (one.consumer, one.provider)}
        return (ends | self.exports.keys() | self.webhooks.keys()) - {""}


def read_fleet(view: Store) -> Fleet:
    """Return the bindings, exports and webhook configurations of all logical clusters."""
    exports: dict[str, list[str]] = defaultdict(list)
    for key in view.keys(API_EXPORT):
        exports[key.cluster].append(key.name)
    webhooks: dict[str, int] = defaultdict(int)
    for kind in PHASES.values():
        for key in view.keys(kind):
            webhooks[key.cluster] += 1
    bindings = sorted(_read_bindings(view, exports), key=lambda one: (one.consumer, one.name))
    return Fleet(tuple(bindings), {name: tuple(sorted(found)) for name, found in exports.items()}, dict(webhooks))


def _read_bindings(view: Store, exports: Mapping[str, Sequence[str]]) -> Iterator[Binding]:
    for key in view.keys(API_BINDING):
        document = as_object(view.get(*key))
        status = as_object(document.get("status"))
        reference = as_object(as_object(as_object(document.get("spec")).get("reference")).get("export"))
        provider, export = as_text(status.get("apiExportClusterName")), as_text(reference.get("name"))
        bound = status.get("boundResources")
        resources = tuple(sorted(map(_name_resource, bound if isinstance(bound, list) else ())))
        problem = _find_problem(provider, export, resources, exports)
        yield Binding(key.cluster, key.name, provider, export, resources, problem)


def _find_problem(provider: str, export: str, resources: Sequence[str], exports: Mapping[str, Sequence[str]]) -> str:
    if not resources:
        return "nothing is bound yet: requests for its resources are refused"
    if not provider:
        return "the binding does not name the logical cluster of its APIExport"
    if export not in exports.get(provider, ()):
        return f"the APIExport {export or '(none)'} is gone from {provider}"
    return ""


def _name_resource(value: JSON) -> str:
    resource, group = as_text(as_object(value).get("resource")), as_text(as_object(value).get("group"))
    return f"{resource}.{group}" if group else resource


def draw_map(fleet: Fleet, wanted: MapFilter) -> ClusterMap:
    """Return the map of the bindings that match a filter."""
    bindings = [one for one in fleet.bindings if _is_wanted(one, wanted)]
    alone = () if wanted.focus else (one for one in fleet.clusters if wanted.text.casefold() in one.casefold())
    shown = {_provider(one) for one in bindings} | {one.consumer for one in bindings} | set(alone)
    if wanted.focus in fleet.clusters:
        shown.add(wanted.focus)
    collapse = len(shown) > MAX_PLAIN_NODES and not wanted.expanded
    groups = _group(shown, bindings, fleet, keep={wanted.focus}) if collapse else {one: (one,) for one in shown}
    is_cut = len(groups) > MAX_NODES
    nodes = () if is_cut else tuple(_make_node(name, groups[name], fleet, wanted.focus) for name in sorted(groups))
    return ClusterMap(
        nodes=nodes,
        edges=() if is_cut else tuple(_make_edges(groups, bindings)),
        rows=tuple(bindings[:MAX_ROWS]),
        bindings=len(bindings),
        clusters=len(fleet.clusters),
        is_collapsed=any(len(one) > 1 for one in groups.values()),
        is_cut=is_cut,
    )


def _is_wanted(binding: Binding, wanted: MapFilter) -> bool:
    if wanted.focus and wanted.focus not in (binding.consumer, binding.provider):
        return False
    text = wanted.text.casefold()
    texts = (binding.consumer, binding.name, binding.provider, binding.export, *binding.resources)
    return not text or any(text in one.casefold() for one in texts)


def _provider(binding: Binding) -> str:
    return binding.provider or UNKNOWN


def _group(
    shown: Iterable[str], bindings: Sequence[Binding], fleet: Fleet, *, keep: set[str]
) -> dict[str, tuple[str, ...]]:
    """Return the clusters of each node. Consumers that provide nothing and have the same bindings share one."""
    providers = {_provider(one) for one in bindings} | fleet.exports.keys()
    used: dict[str, set[tuple[str, ...]]] = defaultdict(set)
    for one in bindings:
        used[one.consumer].add((_provider(one), one.export, "problem" if one.problem else "", *one.resources))
    groups: dict[tuple[object, ...], list[str]] = defaultdict(list)
    for name in sorted(shown):
        alone = name in providers or name in keep
        groups[(name,) if alone else ("consumers", frozenset(used[name]), name in fleet.webhooks)].append(name)
    return {members[0]: tuple(members) for members in groups.values()}


def _make_node(name: str, clusters: tuple[str, ...], fleet: Fleet, focus: str) -> Node:
    return Node(
        id=name,
        label=name if len(clusters) == 1 else f"{len(clusters)} clusters: {name} …",
        clusters=clusters,
        exports=fleet.exports.get(name, ()),
        webhooks=sum(fleet.webhooks.get(one, 0) for one in clusters),
        is_focus=name == focus,
    )


def _make_edges(groups: Mapping[str, Sequence[str]], bindings: Sequence[Binding]) -> Iterator[Edge]:
    node_of = {cluster: name for name, clusters in groups.items() for cluster in clusters}
    merged: dict[tuple[str, str], list[Binding]] = defaultdict(list)
    for one in bindings:
        merged[node_of[one.consumer], node_of[_provider(one)]].append(one)
    for (consumer, provider), same in sorted(merged.items()):
        yield Edge(
            consumer,
            provider,
            tuple(sorted({one.export for one in same})),
            tuple(sorted({resource for one in same for resource in one.resources})),
            any(one.problem for one in same),
        )
