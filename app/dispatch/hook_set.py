"""All webhooks of a logical cluster and a phase, found by what they are about instead of one after the other."""

from bisect import bisect_left, insort
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from itertools import accumulate, chain, groupby
from typing import Final, NamedTuple, TypeAlias

from app.control.slices import Pauses
from app.control.turns import Work, do_at_once
from app.dispatch.equivalents import Equivalent
from app.dispatch.hooks import EVERY, Hook
from app.dispatch.rules import Asked, Equivalents, Invocation, find_invocation
from app.model.gvk import GroupVersionKind

# What a fleet asks again and again: operations on some hundred resources. A request can name any resource, so it ends.
_REMEMBERED: Final = 4096
# Characters of the names in a request whose answer is remembered: longer names are no Kubernetes resource.
_MAX_CHARACTERS: Final = 2048
# A configuration that lists more resources is looked at in every request.
_MOST_KEYS: Final = 1024
# Listed names that are compared before others have a turn: about 2 ms. A webhook takes as long as so many of them.
_SLICE: Final = 10_000
_PER_HOOK: Final = 20


class Relevant(NamedTuple):
    """A webhook whose rules are about a request."""

    hook: Hook
    invocation: Invocation


_Key: TypeAlias = tuple[Asked, GroupVersionKind, tuple[Equivalent, ...]]


class HookGroup(NamedTuple):
    """The webhooks of one configuration, and where those are that list a resource."""

    hooks: tuple[Hook, ...]
    positions: dict[str, tuple[int, ...]]


def group_hooks(hooks: tuple[Hook, ...]) -> Work[HookGroup]:
    """Return the webhooks of one configuration as a group."""
    pauses = Pauses(_SLICE)
    found: dict[str, list[int]] = {}
    for number, hook in enumerate(hooks):
        for resource in {resource for rule in hook.rules for resource, _ in rule.resources}:
            found.setdefault(resource, []).append(number)
        if pauses.due(1 + hook.weight):
            yield None
    if len(found) > _MOST_KEYS:
        return HookGroup(hooks, {EVERY: tuple(range(len(hooks)))})
    return HookGroup(hooks, {resource: tuple(numbers) for resource, numbers in found.items()})


class _Candidates(NamedTuple):
    """Webhooks that list a resource."""

    entries: list[tuple[tuple[str, tuple[int, ...]], ...]]
    """For each resource, configurations and the positions in them."""
    groups: dict[str, HookGroup]
    first: dict[str, int]
    """The place of the first webhook of each configuration among all."""

    def each(self, pauses: Pauses) -> Work[list[tuple[int, Hook]]]:
        """Return the webhooks with their places, in order."""
        found: dict[str, tuple[int, ...]] = {}
        for entries in self.entries:
            for name, positions in entries:
                found[name] = found.get(name, ()) + positions
                if pauses.due(len(positions)):
                    yield None
        listed: list[tuple[int, Hook]] = []
        for name in sorted(found):
            first, hooks, positions = self.first[name], self.groups[name].hooks, found[name]
            listed += [(first + position, hooks[position]) for position in sorted(set(positions))]
            if pauses.due(len(positions)):
                yield None
        return listed


class HookSet:
    """Webhooks in the order in which an apiserver asks them: by the names of their configurations, and as declared.

    To replace one configuration costs as much as that configuration is large, however many others there are.
    """

    def __init__(self, hooks: Iterable[Hook] = ()) -> None:
        """Begin with some webhooks, those of one configuration after each other."""
        self._groups: Final[dict[str, HookGroup]] = {}
        self._names: Final[list[str]] = []
        # By resource, then by configuration.
        self._index: Final[dict[str, dict[str, tuple[int, ...]]]] = {}
        self._first: dict[str, int] | None = None
        self._remembered: Final[OrderedDict[object, tuple[Relevant, ...]]] = OrderedDict()
        self._kept = 0
        self._version = 0
        for name, group in groupby(hooks, key=lambda hook: hook.configuration):
            self.replace(name, do_at_once(group_hooks(tuple(group))))

    def replace(self, configuration: str, group: HookGroup | None) -> None:
        """Put webhooks in the place of those that a configuration had; None takes them away."""
        self._version += 1
        self._first = None
        self._remembered.clear()
        self._kept = 0
        former = self._groups.pop(configuration, None)
        if former is not None:
            del self._names[bisect_left(self._names, configuration)]
            for resource in former.positions:
                entries = self._index[resource]
                del entries[configuration]
                if not entries:
                    del self._index[resource]
        if group is not None and group.hooks:
            insort(self._names, configuration)
            self._groups[configuration] = group
            for resource, positions in group.positions.items():
                self._index.setdefault(resource, {})[configuration] = positions

    def __bool__(self) -> bool:
        """Return whether there are any webhooks."""
        return bool(self._groups)

    @property
    def hooks(self) -> tuple[Hook, ...]:
        """All webhooks, each with its place among them."""
        return tuple(hook._replace(position=place) for place, hook in enumerate(self.each()))

    def each(self) -> Iterator[Hook]:
        """Yield all webhooks, each with its place in its configuration: those of now, whatever changes."""
        return chain.from_iterable([self._groups[name].hooks for name in self._names])

    def relevant(
        self, asked: Asked, kind: GroupVersionKind, equivalents: tuple[Equivalent, ...]
    ) -> tuple[Relevant, ...]:
        """Return the webhooks whose rules are about a request, in order."""
        return do_at_once(self.find(asked, kind, equivalents))

    def find(
        self, asked: Asked, kind: GroupVersionKind, equivalents: tuple[Equivalent, ...]
    ) -> Work[tuple[Relevant, ...]]:
        """Return the webhooks whose rules are about a request, in order.

        The answer depends on nothing but the arguments and these webhooks, so it is remembered: the next request of
        the same kind pays for the webhooks that match, not for those that there are.
        """
        key = (asked, kind, equivalents)
        found = self._remembered.get(key)
        if found is None:
            version = self._version
            found = yield from _match(self._candidates(asked, equivalents), asked, kind, equivalents)
            if version == self._version:
                self._remember(key, found)
        return found

    def _remember(self, key: _Key, found: tuple[Relevant, ...]) -> None:
        """Keep an answer; those of one cluster take no more room than its webhooks do."""
        asked, kind, _ = key
        if key in self._remembered or sum(map(len, (asked.subresource, *asked.resource, *kind))) > _MAX_CHARACTERS:
            return
        self._remembered[key] = found
        self._kept += len(found)
        most = 4 * sum(len(group.hooks) for group in self._groups.values()) if self._kept > _REMEMBERED else _REMEMBERED
        while self._remembered and (len(self._remembered) > _REMEMBERED or self._kept > max(most, _REMEMBERED)):
            _, dropped = self._remembered.popitem(last=False)
            self._kept -= len(dropped)

    def _candidates(self, asked: Asked, equivalents: tuple[Equivalent, ...]) -> _Candidates:
        """Return where the webhooks are that list a resource of the request: a copy, whatever changes later."""
        resources = {EVERY, asked.resource.resource, *(equivalent.resource.resource for equivalent in equivalents)}
        entries = [tuple(self._index[resource].items()) for resource in resources if resource in self._index]
        return _Candidates(entries, dict(self._groups), self._first_positions())

    def _first_positions(self) -> dict[str, int]:
        if self._first is None:
            counts = (len(self._groups[name].hooks) for name in self._names)
            self._first = dict(zip(self._names, accumulate(counts, initial=0), strict=False))
        return self._first


def _match(
    candidates: _Candidates, asked: Asked, kind: GroupVersionKind, equivalents: tuple[Equivalent, ...]
) -> Work[tuple[Relevant, ...]]:
    pauses = Pauses(_SLICE)
    found: list[Relevant] = []
    known = Equivalents(equivalents)
    for position, hook in (yield from candidates.each(pauses)):
        invocation = yield from find_invocation(hook, asked, kind, known, pauses)
        if invocation is not None:
            found.append(Relevant(hook._replace(position=position), invocation))
        if pauses.due(_PER_HOOK):
            yield None
    return tuple(found)
