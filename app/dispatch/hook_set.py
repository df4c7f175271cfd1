"""All webhooks of a logical cluster and a phase, found by what they are about instead of one after the other."""

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from typing import Final, NamedTuple

from app.dispatch.equivalents import Equivalent
from app.dispatch.hooks import EVERY, Hook, Rule
from app.dispatch.rules import Asked, Invocation, match_rules
from app.model.gvk import GroupVersionKind

# What a fleet asks again and again: operations on some hundred resources. A request can name any resource, so it ends.
_REMEMBERED: Final = 4096
_MOST_KEYS: Final = 1024


class Relevant(NamedTuple):
    """A webhook whose rules are about a request."""

    hook: Hook
    invocation: Invocation


class HookSet:
    """Webhooks in the order in which an apiserver asks them."""

    def __init__(self, hooks: Sequence[Hook]) -> None:
        self.hooks: Final = tuple(hooks)
        self._index: Final[dict[tuple[str, str, str], list[int]]] = {}
        for position, hook in enumerate(self.hooks):
            for key in {key for rule in hook.rules for key in _keys(rule)}:
                self._index.setdefault(key, []).append(position)
        self._remembered: Final[OrderedDict[object, tuple[Relevant, ...]]] = OrderedDict()

    def relevant(
        self, asked: Asked, kind: GroupVersionKind, equivalents: tuple[Equivalent, ...]
    ) -> tuple[Relevant, ...]:
        """Return the webhooks whose rules are about a request, in order.

        The answer depends on nothing but the arguments and these webhooks, so it is remembered: the next request of
        the same kind pays for the webhooks that match, not for those that there are.
        """
        key = (asked, kind, equivalents)
        found = self._remembered.get(key)
        if found is None:
            found = self._find(asked, kind, equivalents)
            if len(self._remembered) >= _REMEMBERED:
                self._remembered.popitem(last=False)
            self._remembered[key] = found
        return found

    def _find(self, asked: Asked, kind: GroupVersionKind, equivalents: tuple[Equivalent, ...]) -> tuple[Relevant, ...]:
        resources = {asked.resource, *(equivalent.resource for equivalent in equivalents)}
        keys = {
            key
            for group, _, resource in resources
            for key in product((asked.operation, EVERY), (group, EVERY), (resource, EVERY))
        }
        positions = {position for key in keys for position in self._index.get(key, ())}
        return tuple(
            Relevant(hook, invocation)
            for hook in (self.hooks[position] for position in sorted(positions))
            if (invocation := match_rules(hook, asked, kind, equivalents)) is not None
        )


def _keys(rule: Rule) -> Iterator[tuple[str, str, str]]:
    """Return what a rule is found by: operation, group and resource, each as it lists them."""
    resources = {resource for resource, _ in rule.resources}
    if len(rule.operations) * len(rule.groups) * len(resources) > _MOST_KEYS:
        # A rule that lists thousands is looked at in every request rather than found by millions of keys.
        return iter([(EVERY, EVERY, EVERY)])
    return product(rule.operations, rule.groups, resources)


def joined(groups: Iterable[Iterable[Hook]]) -> HookSet:
    """Return one set of all webhooks, each with its place among them."""
    hooks = (hook for group in groups for hook in group)
    return HookSet([hook._replace(position=position) for position, hook in enumerate(hooks)])
