"""The webhook configurations of every logical cluster, compiled when they change."""

import asyncio
from collections.abc import Callable
from typing import Any, Final

from app.control.slices import Pauses
from app.control.turns import Runs, Turns, Work, do_at_once, do_in_turns
from app.dispatch.defaults import set_webhook_defaults
from app.dispatch.hook_index import HookIndex, group_hooks
from app.dispatch.hooks import PHASES, Hook, Phase, WebhookCompiler
from app.model.json import JSON, JSONObject
from app.model.size import count_values
from app.store import ObjectKey, Store, Stored
from app.store.garbage import Lasting

# Values of webhooks that are compiled before others have a turn: about 3 ms.
_SLICE: Final = 1_000
# Values of a webhook that is compiled in a thread. A usual webhook has 40.
_LARGE: Final = 5_000
# Containers of a compiled webhook.
_CONTAINERS: Final = 40


class _Known:
    """The webhooks of a logical cluster and a phase."""

    def __init__(self, documents: dict[str, JSONObject | None]) -> None:
        self.hooks: Final = HookIndex()
        # By name, the configurations that have changed since; None for one that was deleted.
        self.changed: dict[str, JSONObject | None] = documents
        self.lock: Final = asyncio.Lock()


class Configurations:
    """Follows a store; the cluster is part of every look-up."""

    def __init__(self, store: Store) -> None:
        """Prepare."""
        self._store: Final = store
        self._known: Final[dict[tuple[str, Phase], _Known]] = {}
        self._lasting: Final = Lasting()
        store.subscribe(self._changed)

    def _changed(self, key: ObjectKey, _before: Stored | None, after: JSONObject | None) -> None:
        for phase, group_kind in PHASES.items():
            if key.group_kind == group_kind and (known := self._known.get((key.cluster, phase))) is not None:
                known.changed[key.name] = after

    def hooks(self, cluster: str, phase: Phase) -> HookIndex:
        """Return the webhooks of a logical cluster."""
        known = self._get(cluster, phase)
        return HookIndex() if known is None else do_at_once(self._compile(known, cluster, phase))

    async def find(self, cluster: str, phase: Phase, *, turns: Turns, worker: Runs) -> HookIndex:
        """Return the webhooks of a logical cluster, compiled in turns with other clusters.

        Every change is in it that the store held when this was called.
        """
        known = self._get(cluster, phase)
        if known is None:
            return HookIndex()
        if not known.changed and not known.lock.locked():
            return known.hooks
        async with known.lock:
            work = self._compile(known, cluster, phase)
            return await do_in_turns(work, turns=turns, worker=worker, cluster=cluster)

    def _get(self, cluster: str, phase: Phase) -> _Known | None:
        known = self._known.get((cluster, phase))
        if known is None:
            documents = {one["metadata"]["name"]: one for one in self._store.each(cluster, PHASES[phase])}
            if not documents:
                # Clusters without any are not remembered: a caller can name as many as it likes.
                return None
            known = self._known[cluster, phase] = _Known(dict(documents))
        return known

    def _compile(self, known: _Known, cluster: str, phase: Phase) -> Work[HookIndex]:
        """Bring the webhooks up to the configurations that changed before this began."""
        pauses = Pauses(_SLICE)
        for name in list(known.changed):
            # It may have changed again, or have been compiled by a request that was given up.
            while name in known.changed:
                document = known.changed[name]
                group = None
                if document is not None:
                    hooks = yield from _compile_one(phase, cluster, document, pauses)
                    group = yield from group_hooks(hooks)
                    self._lasting.add(_CONTAINERS * len(hooks))
                if pauses.due():
                    yield None
                if known.changed.get(name, _ABSENT) is document:
                    del known.changed[name]
                    known.hooks.replace(name, group)
        if not known.hooks and not known.changed:
            self._known.pop((cluster, phase), None)
        return known.hooks


_ABSENT: Final[Any] = object()


def _compile_one(phase: Phase, cluster: str, configuration: JSONObject, pauses: Pauses) -> Work[tuple[Hook, ...]]:
    compiler = WebhookCompiler(phase, cluster, configuration)
    webhooks = configuration.get("webhooks")
    hooks: list[Hook] = []
    for webhook in webhooks if isinstance(webhooks, list) else ():
        if not isinstance(webhook, dict):
            continue
        values = count_values(webhook, limit=_LARGE)
        compiling = _compiling(compiler, configuration, webhook)
        if values > _LARGE:
            hooks.append((yield compiling))
        else:
            hooks.append(compiling())
        if pauses.due(values):
            yield None
    return tuple(hooks)


def _compiling(compiler: WebhookCompiler, configuration: JSONObject, webhook: JSON) -> Callable[[], Hook]:
    return lambda: compiler.compile(set_webhook_defaults(webhook, str(configuration.get("kind"))))
