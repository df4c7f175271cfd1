"""The customizations in the store, as rules: the last good set of each object, and what is wrong with newer ones."""

import asyncio
import logging
from collections.abc import Iterator
from typing import Final, NamedTuple

from app.interpret.lua.layer import Rules, index_rules
from app.interpret.lua.rules import ParsedRules, Rule, RuleProblem, describe_object, read_config_map, read_customization
from app.model.json import JSONObject
from app.model.karmada import CONFIG_MAP, CONFIG_MAP_NAME, CUSTOMIZATION
from app.store import ObjectKey, Store, Stored

_log: Final = logging.getLogger(__name__)


class Refused(NamedTuple):
    """An object of which an earlier version is used, or nothing."""

    document: JSONObject
    problems: tuple[RuleProblem, ...]
    in_use: bool
    """Whether there is an earlier version that is used."""

    @property
    def text(self) -> str:
        """What a person is told."""
        used = "invalid, its last valid version stays in use" if self.in_use else "invalid, not used"
        found = "; ".join(f"{problem.place}: {problem.text}" for problem in self.problems)
        return f"{describe_object(self.document)}: {used}: {found}"


class Customizations:
    """What users customize by scripts."""

    def __init__(self, store: Store, *, namespace: str) -> None:
        """Follow the store.

        Args:
            store: ResourceInterpreterCustomizations and ConfigMaps.
            namespace: Where ``karmada-config`` is.
        """
        self._namespaces: Final = ("", namespace)
        self._good: Final[dict[ObjectKey, list[Rule]]] = {}
        self._refused: Final[dict[ObjectKey, Refused]] = {}
        self._rules: Rules | None = None
        self.changed: Final = asyncio.Event()
        """Set with every change of what is refused."""
        store.subscribe(self._put)

    def _put(self, key: ObjectKey, _before: Stored | None, after: JSONObject | None) -> None:
        if key.cluster or not self._is_ours(key):
            return
        if after is None:
            self._good.pop(key, None)
            self._forgive(key)
            self._rules = None
            return
        found = read_object(key, after)
        if found.problems:
            self._refuse(key, after, found)
            return
        self._good[key] = found.rules
        self._rules = None
        self._forgive(key)

    def _is_ours(self, key: ObjectKey) -> bool:
        if key.group_kind == CUSTOMIZATION:
            return True
        return key.group_kind == CONFIG_MAP and key.name == CONFIG_MAP_NAME and key.namespace in self._namespaces

    def _refuse(self, key: ObjectKey, document: JSONObject, found: ParsedRules) -> None:
        refused = Refused(document, tuple(found.problems), key in self._good)
        self._refused[key] = refused
        self.changed.set()
        _log.error("customization refused: %s", refused.text)

    def _forgive(self, key: ObjectKey) -> None:
        if self._refused.pop(key, None) is not None:
            self.changed.set()

    def rules(self) -> Rules:
        """Return the rules, by kind and operation: of several objects for one the first by name, then the ConfigMap."""
        if self._rules is None:
            ordered = sorted(self._good.items(), key=lambda item: (item[0].group_kind == CONFIG_MAP, item[0].name))
            self._rules = index_rules(rule for _, rules in ordered for rule in rules)
        return self._rules

    def refused(self) -> Iterator[Refused]:
        """Yield what is refused at the moment."""
        yield from self._refused.values()

    def counts(self) -> tuple[int, int]:
        """Return how many scripts are in use, and how many objects are refused."""
        return sum(map(len, self._good.values())), len(self._refused)


def read_object(key: ObjectKey, document: JSONObject) -> ParsedRules:
    """Return what an object says, which is a customization or ``karmada-config``."""
    if key.group_kind == CUSTOMIZATION:
        return read_customization(document)
    return read_config_map(document)
