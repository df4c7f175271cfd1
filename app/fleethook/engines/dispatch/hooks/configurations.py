"""Compiles the webhook configurations of every logical cluster when they change."""

import asyncio
from collections.abc import Callable
from typing import Any, Final

from fleethook.cluster.store import ObjectKey, Store, Stored
from fleethook.cluster.store.object_memory import GCFreezer
from fleethook.engines.dispatch.hooks.hook_defaults import set_webhook_defaults
from fleethook.engines.dispatch.hooks.hook_index import HookIndex, group_hooks
from fleethook.engines.dispatch.hooks.hooks import PHASES, Hook, Phase, WebhookCompiler
from fleethook.model.json import JSON, JSONObject, count_values
from fleethook.work.fair_turns import Executor, Turns, Work, do_at_once, do_in_turns
from fleethook.work.immediate_steps import Steps
from fleethook.work.slices import Pauses

# Values of webhooks that are compiled before other requests get a turn: about 3 ms.
_SLICE: Final = 1_000
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

    def find(self, cluster: str, phase: Phase, *, turns: Turns, worker: Executor) -> Steps[HookIndex]:
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
            return await do_in_turns(work, turns=turns, worker=worker, cluster=cluster)

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
        pauses = Pauses(_SLICE)
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
