"""The webhook configurations of every logical cluster, compiled when they change."""

from typing import Final

from app.dispatch.defaults import defaulted
from app.dispatch.hook_set import HookSet, joined
from app.dispatch.hooks import PHASES, Phase, compile_hooks
from app.model.json import JSONObject
from app.store import ObjectKey, Store, Stored


class Configurations:
    """Follows a store; the cluster is part of every look-up."""

    def __init__(self, store: Store) -> None:
        """Prepare."""
        self._store: Final = store
        self._sets: Final[dict[tuple[str, Phase], HookSet]] = {}
        store.subscribe(self._changed)

    def _changed(self, key: ObjectKey, _before: Stored | None, _after: JSONObject | None) -> None:
        for phase, group_kind in PHASES.items():
            if key.group_kind == group_kind:
                self._sets.pop((key.cluster, phase), None)

    def hooks(self, cluster: str, phase: Phase) -> HookSet:
        """Return the webhooks of a logical cluster, by the names of their configurations and as declared there."""
        found = self._sets.get((cluster, phase))
        if found is None:
            found = self._compile(cluster, phase)
            if found.hooks:
                # Clusters without any are not remembered: who asks can name as many as they like.
                self._sets[cluster, phase] = found
        return found

    def _compile(self, cluster: str, phase: Phase) -> HookSet:
        configurations = sorted(
            self._store.each(cluster, PHASES[phase]), key=lambda one: str(one["metadata"]["name"]).encode()
        )
        return joined(compile_hooks(phase, cluster, defaulted(one)) for one in configurations)
