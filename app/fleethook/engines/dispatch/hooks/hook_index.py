"""Finds the webhooks of a logical cluster and a phase by operation, group and resource of a request.

The index of a cluster is compiled again when one of its configurations changes.
"""

import asyncio
from bisect import bisect_left, insort
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import accumulate, chain, groupby, product
from typing import Any, Final, NamedTuple, TypeAlias

from fleethook.cluster.store import ObjectKey, Store, Stored
from fleethook.engines.dispatch.hooks.hooks import PHASES, Hook, Phase, WebhookCompiler, set_webhook_defaults
from fleethook.engines.dispatch.match.equivalent_resources import Equivalent
from fleethook.engines.dispatch.match.rules import EquivalentIndex, Invocation, find_invocation
from fleethook.model.gvk import GroupVersionKind
from fleethook.model.json import JSON, JSONObject, count_values
from fleethook.model.webhook_rules import EVERY, Rule, RuleAttributes
from fleethook.work.garbage import GCFreezer
from fleethook.work.pausing import Pauses, Work, begin, do_at_once
from fleethook.work.turns import Executor, Turns

# A fleet repeats the same operations on about a hundred resources. A request can name any resource, hence the limit.
_MAX_CACHED: Final = 4096
# The length of the names in a cached request: no Kubernetes resource has longer names.
_MAX_CHARACTERS: Final = 2048
# A configuration with more keys is examined in every request.
_MAX_KEYS: Final = 1024
# Keys of a rule per listed name. The index stays proportional to the size of the configurations.
_KEYS_PER_NAME: Final = 4
# Names that are compared before other requests get a turn: about 2 ms. A webhook counts as 20 names.
_SLICE: Final = 10_000
_PER_HOOK: Final = 20


class RelevantHook(NamedTuple):
    """A webhook whose rules match a request."""

    hook: Hook
    invocation: Invocation


_Question: TypeAlias = tuple[RuleAttributes, GroupVersionKind, tuple[Equivalent, ...]]
_Key: TypeAlias = tuple[str, str, str]
"""Operation, group and resource as rules list them."""


class HookGroup(NamedTuple):
    """The webhooks of one configuration, and their positions by key."""

    hooks: tuple[Hook, ...]
    positions: dict[_Key, tuple[int, ...]]


def group_hooks(hooks: tuple[Hook, ...]) -> Work[HookGroup]:
    """Build the group of the webhooks of one configuration."""
    pauses = Pauses(_SLICE)
    found: dict[_Key, list[int]] = {}
    for number, hook in enumerate(hooks):
        for rule in hook.rules:
            lists = _list_names(rule)
            count = len(lists[0]) * len(lists[1]) * len(lists[2])
            if count <= _MAX_KEYS:
                for key in product(*lists):
                    numbers = found.setdefault(key, [])
                    if not numbers or numbers[-1] != number:
                        numbers.append(number)
            if max(count, len(found)) > _MAX_KEYS:
                return HookGroup(hooks, {(EVERY, EVERY, EVERY): tuple(range(len(hooks)))})
            if pauses.due(1 + count):
                yield None
    return HookGroup(hooks, {key: tuple(numbers) for key, numbers in found.items()})


def _list_names(rule: Rule) -> tuple[Collection[str], Collection[str], Collection[str]]:
    """Return the operations, groups and resources that index a rule, `EVERY` in place of long lists."""
    resources = {resource for resource, _ in rule.resources}
    limit = _KEYS_PER_NAME * (len(rule.operations) + len(rule.groups) + len(resources))
    for operations in (rule.operations, (EVERY,)):
        if len(operations) * len(rule.groups) * len(resources) <= limit:
            return operations, rule.groups, resources
    return (EVERY,), (EVERY,), resources


class _Candidates(NamedTuple):
    """The webhooks that may match a request."""

    entries: list[tuple[_Key, tuple[tuple[str, HookGroup], ...]]]
    """The configurations of each key."""
    first: dict[str, int]
    """The position of each configuration's first webhook among all webhooks."""

    def each(self, pauses: Pauses) -> Work[list[tuple[int, Hook]]]:
        """Return the webhooks with their positions, in order."""
        found: dict[str, tuple[HookGroup, tuple[int, ...]]] = {}
        for key, entries in self.entries:
            for name, group in entries:
                positions = group.positions[key]
                _, others = found.get(name, (group, ()))
                found[name] = (group, others + positions)
                if pauses.due(len(positions)):
                    yield None
        listed: list[tuple[int, Hook]] = []
        for name in sorted(found):
            (group, positions), first = found[name], self.first[name]
            listed += [(first + position, group.hooks[position]) for position in sorted(set(positions))]
            if pauses.due(len(positions)):
                yield None
        return listed


class HookIndex:
    """Webhooks in an apiserver's order: by configuration name, then as declared.

    The cost of replacing a configuration grows with its size, not with the number of others.
    """

    def __init__(self, hooks: Iterable[Hook] = ()) -> None:
        """Index webhooks; those of one configuration must be adjacent."""
        self._groups: Final[dict[str, HookGroup]] = {}
        self._names: Final[list[str]] = []
        # By key, then by configuration.
        self._index: Final[dict[_Key, dict[str, HookGroup]]] = {}
        self._first: dict[str, int] | None = None
        self._cache: Final[OrderedDict[object, tuple[RelevantHook, ...]]] = OrderedDict()
        self._cached_hooks = 0
        self._version = 0
        for name, group in groupby(hooks, key=lambda hook: hook.configuration):
            self.replace(name, do_at_once(group_hooks(tuple(group))))

    def replace(self, configuration: str, group: HookGroup | None) -> None:
        """Replace the webhooks of a configuration; None removes them."""
        self._version += 1
        self._first = None
        self._cache.clear()
        self._cached_hooks = 0
        former = self._groups.pop(configuration, None)
        if former is not None:
            del self._names[bisect_left(self._names, configuration)]
            for key in former.positions:
                entries = self._index[key]
                del entries[configuration]
                if not entries:
                    del self._index[key]
        if group is not None and group.hooks:
            insort(self._names, configuration)
            self._groups[configuration] = group
            for key in group.positions:
                self._index.setdefault(key, {})[configuration] = group

    def __bool__(self) -> bool:
        """Return whether there are any webhooks."""
        return bool(self._groups)

    @property
    def hooks(self) -> tuple[Hook, ...]:
        """All webhooks with their positions among all."""
        return tuple(hook._replace(position=place) for place, hook in enumerate(self.each()))

    def each(self) -> Iterator[Hook]:
        """Return an iterator over a snapshot of all webhooks, with their positions in their configurations."""
        return chain.from_iterable([self._groups[name].hooks for name in self._names])

    def find_relevant(
        self, attributes: RuleAttributes, kind: GroupVersionKind, equivalents: tuple[Equivalent, ...]
    ) -> tuple[RelevantHook, ...]:
        """Return the webhooks whose rules match a request, in order, without pauses."""
        return do_at_once(self.find(attributes, kind, equivalents))

    def find(
        self, attributes: RuleAttributes, kind: GroupVersionKind, equivalents: tuple[Equivalent, ...]
    ) -> Work[tuple[RelevantHook, ...]]:
        """Return the webhooks whose rules match a request, in order.

        The answer depends on the arguments and these webhooks only, so it is cached. The cost of the next request of
        the same kind grows with the number of its matching webhooks only.
        """
        question = (attributes, kind, equivalents)
        found = self._cache.get(question)
        if found is None:
            version = self._version
            found = yield from _match(self._list_candidates(attributes, equivalents), attributes, kind, equivalents)
            if version == self._version:
                self._put(question, found)
        return found

    def _put(self, question: _Question, found: tuple[RelevantHook, ...]) -> None:
        """Cache an answer. The cache of a cluster takes no more memory than its webhooks."""
        attributes, kind, _ = question
        if (
            question in self._cache
            or sum(map(len, (attributes.subresource, *attributes.resource, *kind))) > _MAX_CHARACTERS
        ):
            return
        self._cache[question] = found
        self._cached_hooks += len(found)
        limit = _MAX_CACHED
        if self._cached_hooks > limit:
            limit = max(limit, 4 * sum(len(group.hooks) for group in self._groups.values()))
        while self._cache and (len(self._cache) > _MAX_CACHED or self._cached_hooks > limit):
            _, dropped = self._cache.popitem(last=False)
            self._cached_hooks -= len(dropped)

    def _list_candidates(self, attributes: RuleAttributes, equivalents: tuple[Equivalent, ...]) -> _Candidates:
        """Return a snapshot of the webhooks that may match a request."""
        # A definition may have thousands of versions with the same keys.
        resources = {attributes.resource, *(equivalent.resource for equivalent in equivalents)}
        keys = {
            key
            for group, resource in {(one.group, one.resource) for one in resources}
            for key in product((attributes.operation, EVERY), (group, EVERY), (resource, EVERY))
        }
        entries = [(key, tuple(found.items())) for key in keys if (found := self._index.get(key)) is not None]
        return _Candidates(entries, self._find_first_positions())

    def _find_first_positions(self) -> dict[str, int]:
        if self._first is None:
            counts = (len(self._groups[name].hooks) for name in self._names)
            self._first = dict(zip(self._names, accumulate(counts, initial=0), strict=False))
        return self._first


def _match(
    candidates: _Candidates, attributes: RuleAttributes, kind: GroupVersionKind, equivalents: tuple[Equivalent, ...]
) -> Work[tuple[RelevantHook, ...]]:
    pauses = Pauses(_SLICE)
    found: list[RelevantHook] = []
    known = EquivalentIndex(equivalents)
    for position, hook in (yield from candidates.each(pauses)):
        invocation = yield from find_invocation(hook, attributes, kind, known, pauses)
        if invocation is not None:
            found.append(RelevantHook(hook._replace(position=position), invocation))
        if pauses.due(_PER_HOOK):
            yield None
    return tuple(found)


# Values of webhooks that are compiled before other requests get a turn: about 3 ms.
_HOOKS_PER_PAUSE: Final = 1_000
# The largest webhook, in values, that is compiled on the event loop. A typical webhook has 40 values.
_LARGE: Final = 5_000
# The containers in memory for each compiled webhook.
_CONTAINERS: Final = 40


class _ClusterHooks:
    """The compiled webhooks of a logical cluster and a phase."""

    def __init__(self, documents: dict[str, JSONObject | None]) -> None:
        self.hooks: Final = HookIndex()
        # The configurations to compile, by name; None for a deleted one.
        self.changed: dict[str, JSONObject | None] = documents
        self.lock: Final = asyncio.Lock()


class Configurations:
    """Holds the compiled webhooks of a store's configurations, by cluster and phase."""

    def __init__(self, store: Store) -> None:
        """Subscribe to a store."""
        self._store: Final = store
        self._hooks: Final[dict[tuple[str, Phase], _ClusterHooks]] = {}
        self._lasting: Final = GCFreezer()
        store.subscribe(self._record_change)

    def _record_change(self, key: ObjectKey, _before: Stored | None, after: JSONObject | None) -> None:
        for phase, group_kind in PHASES.items():
            if key.group_kind == group_kind and (known := self._hooks.get((key.cluster, phase))) is not None:
                known.changed[key.name] = after

    def hooks(self, cluster: str, phase: Phase) -> HookIndex:
        """Return the webhooks of a logical cluster, without pauses."""
        known = self._find_hooks(cluster, phase)
        return HookIndex() if known is None else do_at_once(self._compile(known, cluster, phase))

    def find(self, cluster: str, phase: Phase, *, turns: Turns, worker: Executor) -> Work[HookIndex]:
        """Return the webhooks of a logical cluster; compiling yields to requests of other clusters.

        The result includes every change that the store had at the time of the call. If all webhooks are compiled, this
        waits for nothing.
        """
        known = self._find_hooks(cluster, phase)
        if known is None:
            return HookIndex()
        if not known.changed and not known.lock.locked():
            return known.hooks
        hooks: HookIndex = yield self._compile_in_turns(known, cluster, phase, turns, worker)
        return hooks

    async def _compile_in_turns(
        self, known: _ClusterHooks, cluster: str, phase: Phase, turns: Turns, worker: Executor
    ) -> HookIndex:
        async with known.lock:
            work = self._compile(known, cluster, phase)
            return await begin(turns.share(work, lane=cluster, worker=worker))

    def _find_hooks(self, cluster: str, phase: Phase) -> _ClusterHooks | None:
        known = self._hooks.get((cluster, phase))
        if known is None:
            documents = {one["metadata"]["name"]: one for one in self._store.each(cluster, PHASES[phase])}
            if not documents:
                # Clusters without configurations are not stored: a caller can name any number of clusters.
                return None
            known = self._hooks[cluster, phase] = _ClusterHooks(dict(documents))
        return known

    def _compile(self, known: _ClusterHooks, cluster: str, phase: Phase) -> Work[HookIndex]:
        """Compile the configurations that changed before the call."""
        pauses = Pauses(_HOOKS_PER_PAUSE)
        for name in list(known.changed):
            # It may have changed again, or a cancelled request may have compiled it.
            while name in known.changed:
                document = known.changed[name]
                group = None
                if document is not None:
                    hooks = yield from _compile_configuration(phase, cluster, document, pauses)
                    group = yield from group_hooks(hooks)
                    self._lasting.add(_CONTAINERS * len(hooks))
                if pauses.due():
                    yield None
                if known.changed.get(name, _ABSENT) is document:
                    del known.changed[name]
                    known.hooks.replace(name, group)
        if not known.hooks and not known.changed:
            self._hooks.pop((cluster, phase), None)
        return known.hooks


_ABSENT: Final[Any] = object()


def _compile_configuration(
    phase: Phase, cluster: str, configuration: JSONObject, pauses: Pauses
) -> Work[tuple[Hook, ...]]:
    compiler = WebhookCompiler(phase, cluster, configuration)
    webhooks = configuration.get("webhooks")
    hooks: list[Hook] = []
    for webhook in webhooks if isinstance(webhooks, list) else ():
        if not isinstance(webhook, dict):
            continue
        values = count_values(webhook, limit=_LARGE)
        compiling = _prepare_compile(compiler, configuration, webhook)
        if values > _LARGE:
            hooks.append((yield compiling))
        else:
            hooks.append(compiling())
        if pauses.due(values):
            yield None
    return tuple(hooks)


def _prepare_compile(compiler: WebhookCompiler, configuration: JSONObject, webhook: JSON) -> Callable[[], Hook]:
    return lambda: compiler.compile(set_webhook_defaults(webhook, str(configuration.get("kind"))))
