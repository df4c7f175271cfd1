"""Rules of the customizations in the store: the last valid version of each object, and problems of newer versions."""

import asyncio
import logging
from collections.abc import Iterator
from typing import Final, NamedTuple

from fleethook.cluster.store import ObjectKey, Store, Stored
from fleethook.engines.interpret.lua.layer import Rules, index_rules
from fleethook.engines.interpret.lua.rules import (
    ParsedRules,
    Rule,
    RuleProblem,
    describe_object,
    read_config_map,
    read_customization,
)
from fleethook.model.json import JSONObject
from fleethook.model.karmada import CONFIG_MAP, CONFIG_MAP_NAME, CUSTOMIZATION

_log: Final = logging.getLogger(__name__)


class Refused(NamedTuple):
    """An invalid object; an earlier version of it may be in use."""

    document: JSONObject
    problems: tuple[RuleProblem, ...]
    in_use: bool
    """Whether an earlier version is in use."""

    @property
    def text(self) -> str:
        """The message for logs, Events and readiness."""
        used = "invalid, its last valid version stays in use" if self.in_use else "invalid, not used"
        found = "; ".join(f"{problem.place}: {problem.text}" for problem in self.problems)
        return f"{describe_object(self.document)}: {used}: {found}"


class Customizations:
    """The customizations of users: ResourceInterpreterCustomizations and the ConfigMap ``karmada-config``."""

    def __init__(self, store: Store, *, namespace: str) -> None:
        """Follow the store.

        Args:
            store: ResourceInterpreterCustomizations and ConfigMaps.
            namespace: The namespace of ``karmada-config``.
        """
        self._namespaces: Final = ("", namespace)
        self._good: Final[dict[ObjectKey, list[Rule]]] = {}
        self._refused: Final[dict[ObjectKey, Refused]] = {}
        self._rules: Rules | None = None
        self.changed: Final = asyncio.Event()
        """Set whenever the refused objects change."""
        store.subscribe(self._update)

    def _update(self, key: ObjectKey, _before: Stored | None, after: JSONObject | None) -> None:
        if key.cluster or not self._has_rules(key):
            return
        if after is None:
            self._good.pop(key, None)
            self._clear_refusal(key)
            self._rules = None
            return
        found = read_object(key, after)
        if found.problems:
            self._refuse(key, after, found)
            return
        self._good[key] = found.rules
        self._rules = None
        self._clear_refusal(key)

    def _has_rules(self, key: ObjectKey) -> bool:
        if key.group_kind == CUSTOMIZATION:
            return True
        return key.group_kind == CONFIG_MAP and key.name == CONFIG_MAP_NAME and key.namespace in self._namespaces

    def _refuse(self, key: ObjectKey, document: JSONObject, found: ParsedRules) -> None:
        refused = Refused(document, tuple(found.problems), key in self._good)
        self._refused[key] = refused
        self.changed.set()
        _log.error("customization refused: %s", refused.text)

    def _clear_refusal(self, key: ObjectKey) -> None:
        if self._refused.pop(key, None) is not None:
            self.changed.set()

    def rules(self) -> Rules:
        """Return the rules by kind and operation. Customizations come first, by name, then the ConfigMap."""
        if self._rules is None:
            ordered = sorted(self._good.items(), key=lambda item: (item[0].group_kind == CONFIG_MAP, item[0].name))
            self._rules = index_rules(rule for _, rules in ordered for rule in rules)
        return self._rules

    def refused(self) -> Iterator[Refused]:
        """Yield the objects that are refused now."""
        yield from self._refused.values()

    def counts(self) -> tuple[int, int]:
        """Return the number of scripts in use and the number of refused objects."""
        return sum(map(len, self._good.values())), len(self._refused)


def read_object(key: ObjectKey, document: JSONObject) -> ParsedRules:
    """Return the rules of a customization or of ``karmada-config``, and its problems."""
    if key.group_kind == CUSTOMIZATION:
        return read_customization(document)
    return read_config_map(document)
