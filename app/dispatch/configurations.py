"""The webhook configurations of every logical cluster, compiled when they change."""

from collections.abc import Iterator
from typing import Final

from app.dispatch.defaults import defaulted
from app.dispatch.hook_set import HookSet, joined
from app.dispatch.hooks import PHASES, Hook, Phase, compile_hooks
from app.model.json import JSONObject
from app.store import ObjectKey, Store, Stored, key_of


class Configurations:
    """Follows a store; the cluster is part of every look-up."""

    def __init__(self, store: Store) -> None:
        """Prepare."""
        self._store: Final = store
        self._sets: Final[dict[tuple[str, Phase], HookSet]] = {}
        # By configuration: when one of many changes, only that one is compiled anew.
        self._compiled: Final[dict[ObjectKey, tuple[Hook, ...]]] = {}
        store.subscribe(self._changed)

    def _changed(self, key: ObjectKey, _before: Stored | None, _after: JSONObject | None) -> None:
        for phase, group_kind in PHASES.items():
            if key.group_kind == group_kind:
                self._sets.pop((key.cluster, phase), None)
                self._compiled.pop(key, None)

    def hooks(self, cluster: str, phase: Phase) -> HookSet:
        """Return the webhooks of a logical cluster, by the names of their configurations and as declared there."""
        found = self._sets.get((cluster, phase))
        if found is None:
            found = joined(self._hooks(cluster, phase))
            if found.hooks:
                # Clusters without any are not remembered: who asks can name as many as they like.
                self._sets[cluster, phase] = found
        return found

    def _hooks(self, cluster: str, phase: Phase) -> Iterator[tuple[Hook, ...]]:
        keys = ((key_of(one), one) for one in self._store.each(cluster, PHASES[phase]))
        for key, configuration in sorted(keys, key=lambda pair: pair[0].name.encode()):
            compiled = self._compiled.get(key)
            if compiled is None:
                compiled = tuple(compile_hooks(phase, cluster, defaulted(configuration)))
                self._compiled[key] = compiled
            yield compiled
