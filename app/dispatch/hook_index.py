"""All webhooks of a logical cluster and a phase, found by what they are about instead of one after the other."""

from bisect import bisect_left, insort
from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator
from itertools import accumulate, chain, groupby, product
from typing import Final, NamedTuple, TypeAlias

from app.control.slices import Pauses
from app.control.turns import Work, do_at_once
from app.dispatch.equivalent_resources import Equivalent
from app.dispatch.hooks import EVERY, Hook, Rule
from app.dispatch.rules import EquivalentIndex, Invocation, RuleAttributes, find_invocation
from app.model.gvk import GroupVersionKind

# What a fleet asks again and again: operations on some hundred resources. A request can name any resource, so it ends.
_REMEMBERED: Final = 4096
# Characters of the names in a request whose answer is remembered: longer names are no Kubernetes resource.
_MAX_CHARACTERS: Final = 2048
# A configuration with more keys is looked at in every request.
_MOST_KEYS: Final = 1024
# Keys of a rule for each name that it lists, so that the index takes no more than a multiple of what was written.
_KEYS_PER_NAME: Final = 4
# Listed names that are compared before others have a turn: about 2 ms. A webhook takes as long as so many of them.
_SLICE: Final = 10_000
_PER_HOOK: Final = 20


class RelevantHook(NamedTuple):
    """A webhook whose rules are about a request."""

    hook: Hook
    invocation: Invocation


_Question: TypeAlias = tuple[RuleAttributes, GroupVersionKind, tuple[Equivalent, ...]]
_Key: TypeAlias = tuple[str, str, str]
"""Operation, group and resource, each as a rule lists it."""


class HookGroup(NamedTuple):
    """The webhooks of one configuration, and the positions of those that a key finds."""

    hooks: tuple[Hook, ...]
    positions: dict[_Key, tuple[int, ...]]


def group_hooks(hooks: tuple[Hook, ...]) -> Work[HookGroup]:
    """Return the webhooks of one configuration as a group."""
    pauses = Pauses(_SLICE)
    found: dict[_Key, list[int]] = {}
    for number, hook in enumerate(hooks):
        for rule in hook.rules:
            lists = _listed(rule)
            count = len(lists[0]) * len(lists[1]) * len(lists[2])
            if count <= _MOST_KEYS:
                for key in product(*lists):
                    numbers = found.setdefault(key, [])
                    if not numbers or numbers[-1] != number:
                        numbers.append(number)
            if max(count, len(found)) > _MOST_KEYS:
                return HookGroup(hooks, {(EVERY, EVERY, EVERY): tuple(range(len(hooks)))})
            if pauses.due(1 + count):
                yield None
    return HookGroup(hooks, {key: tuple(numbers) for key, numbers in found.items()})


def _listed(rule: Rule) -> tuple[Collection[str], Collection[str], Collection[str]]:
    """Return the operations, groups and resources that a rule is found by, or `EVERY` in the place of long lists."""
    resources = {resource for resource, _ in rule.resources}
    limit = _KEYS_PER_NAME * (len(rule.operations) + len(rule.groups) + len(resources))
    for operations in (rule.operations, (EVERY,)):
        if len(operations) * len(rule.groups) * len(resources) <= limit:
            return operations, rule.groups, resources
    return (EVERY,), (EVERY,), resources


class _Candidates(NamedTuple):
    """Webhooks that keys find."""

    entries: list[tuple[_Key, tuple[tuple[str, HookGroup], ...]]]
    """For each key, the configurations."""
    first: dict[str, int]
    """The place of the first webhook of each configuration among all."""

    def each(self, pauses: Pauses) -> Work[list[tuple[int, Hook]]]:
        """Return the webhooks with their places, in order."""
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
    """Webhooks in the order in which an apiserver asks them: by the names of their configurations, and as declared.

    To replace one configuration costs as much as that configuration is large, however many others there are.
    """

    def __init__(self, hooks: Iterable[Hook] = ()) -> None:
        """Begin with some webhooks, those of one configuration after each other."""
        self._groups: Final[dict[str, HookGroup]] = {}
        self._names: Final[list[str]] = []
        # By key, then by configuration.
        self._index: Final[dict[_Key, dict[str, HookGroup]]] = {}
        self._first: dict[str, int] | None = None
        self._remembered: Final[OrderedDict[object, tuple[RelevantHook, ...]]] = OrderedDict()
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
        """All webhooks, each with its place among them."""
        return tuple(hook._replace(position=place) for place, hook in enumerate(self.each()))

    def each(self) -> Iterator[Hook]:
        """Yield all webhooks, each with its place in its configuration: those of now, whatever changes."""
        return chain.from_iterable([self._groups[name].hooks for name in self._names])

    def find_relevant(
        self, asked: RuleAttributes, kind: GroupVersionKind, equivalents: tuple[Equivalent, ...]
    ) -> tuple[RelevantHook, ...]:
        """Return the webhooks whose rules are about a request, in order."""
        return do_at_once(self.find(asked, kind, equivalents))

    def find(
        self, asked: RuleAttributes, kind: GroupVersionKind, equivalents: tuple[Equivalent, ...]
    ) -> Work[tuple[RelevantHook, ...]]:
        """Return the webhooks whose rules are about a request, in order.

        The answer depends on nothing but the arguments and these webhooks, so it is remembered: the next request of
        the same kind pays for the webhooks that match, not for those that there are.
        """
        question = (asked, kind, equivalents)
        found = self._remembered.get(question)
        if found is None:
            version = self._version
            found = yield from _match(self._candidates(asked, equivalents), asked, kind, equivalents)
            if version == self._version:
                self._remember(question, found)
        return found

    def _remember(self, question: _Question, found: tuple[RelevantHook, ...]) -> None:
        """Keep an answer; those of one cluster take no more room than its webhooks do."""
        asked, kind, _ = question
        if question in self._remembered or sum(map(len, (asked.subresource, *asked.resource, *kind))) > _MAX_CHARACTERS:
            return
        self._remembered[question] = found
        self._kept += len(found)
        most = 4 * sum(len(group.hooks) for group in self._groups.values()) if self._kept > _REMEMBERED else _REMEMBERED
        while self._remembered and (len(self._remembered) > _REMEMBERED or self._kept > max(most, _REMEMBERED)):
            _, dropped = self._remembered.popitem(last=False)
            self._kept -= len(dropped)

    def _candidates(self, asked: RuleAttributes, equivalents: tuple[Equivalent, ...]) -> _Candidates:
        """Return the webhooks that may be about a request: a copy, whatever changes later."""
        # A definition may have thousands of versions, which have the same keys.
        resources = {asked.resource, *(equivalent.resource for equivalent in equivalents)}
        keys = {
            key
            for group, resource in {(one.group, one.resource) for one in resources}
            for key in product((asked.operation, EVERY), (group, EVERY), (resource, EVERY))
        }
        entries = [(key, tuple(found.items())) for key in keys if (found := self._index.get(key)) is not None]
        return _Candidates(entries, self._first_positions())

    def _first_positions(self) -> dict[str, int]:
        if self._first is None:
            counts = (len(self._groups[name].hooks) for name in self._names)
            self._first = dict(zip(self._names, accumulate(counts, initial=0), strict=False))
        return self._first


def _match(
    candidates: _Candidates, asked: RuleAttributes, kind: GroupVersionKind, equivalents: tuple[Equivalent, ...]
) -> Work[tuple[RelevantHook, ...]]:
    pauses = Pauses(_SLICE)
    found: list[RelevantHook] = []
    known = EquivalentIndex(equivalents)
    for position, hook in (yield from candidates.each(pauses)):
        invocation = yield from find_invocation(hook, asked, kind, known, pauses)
        if invocation is not None:
            found.append(RelevantHook(hook._replace(position=position), invocation))
        if pauses.due(_PER_HOOK):
            yield None
    return tuple(found)
