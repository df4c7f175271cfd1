"""The kinds that rendering depends on, and whether the server has read them."""

from collections.abc import Iterable, Iterator
from typing import Final

from fleethook.cluster.kubernetes.kubernetes_source import KubernetesSource
from fleethook.cluster.store import StoreView
from fleethook.engines.overrider.controller.subject_state import find_overriders
from fleethook.engines.overrider.subject.binding import Binding
from fleethook.engines.overrider.subject.subject_parts import depends_on_node_pools
from fleethook.model.gvk import GroupKind
from fleethook.model.json import JSONObject
from fleethook.model.openyurt import NODE_POOL, SUBJECT_KINDS, YURT_APP_OVERRIDER

_EVERY_KIND: Final = SUBJECT_KINDS | {NODE_POOL, YURT_APP_OVERRIDER}


def input_kinds(
    group_kind: GroupKind, subject: JSONObject | None, overriders: Iterable[JSONObject] = ()
) -> frozenset[GroupKind]:
    """Return the kinds that the workloads of a subject are rendered from.

    Args:
        group_kind: The subject's kind.
        subject: The subject as stored, None if the store does not hold it.
        overriders: The overriders of the subject.
    """
    node_pools = [NODE_POOL] if depends_on_node_pools(group_kind, subject or {}, overriders) else []
    return frozenset({YURT_APP_OVERRIDER, group_kind, *node_pools})


class InputKinds:
    """Keeps track of the kinds that were read, which decide the subjects that can be reconciled."""

    def __init__(self, source: KubernetesSource, store: StoreView) -> None:
        """Prepare.

        Args:
            source: Reads the kinds.
            store: The subjects.
        """
        self._source: Final = source
        self._store: Final = store
        self._read: Final[set[GroupKind]] = set()

    async def wait_for_overriders(self) -> None:
        """Wait until the overriders were read, and until each other kind was read or has failed once.

        Without the overriders, the controller would undo every override.
        """
        await self._source.wait_synced((YURT_APP_OVERRIDER,))
        await self._source.wait_tried(_EVERY_KIND)

    def note(self) -> frozenset[GroupKind]:
        """Record the kinds that were read until now, and return the others."""
        self._read.update(kind for kind in _EVERY_KIND if not self.problem(kind))
        return _EVERY_KIND - self._read

    def problem(self, kind: GroupKind) -> str:
        """Return the reason why a kind was not read, ``""`` if it was."""
        return self._source.missing((kind,))

    async def wait_for(self, kind: GroupKind) -> None:
        """Wait until a kind was read."""
        await self._source.wait_synced((kind,))

    def add(self, kind: GroupKind) -> None:
        """Record that a kind was read, after the comparisons without it were repeated."""
        self._read.add(kind)

    def were_read(self, binding: Binding) -> bool:
        """Return whether all kinds were read that a subject's workloads are rendered from."""
        return self._list_kinds(binding) <= self._read

    def dependents(self, kind: GroupKind, bindings: Iterable[Binding]) -> Iterator[Binding]:
        """Yield the subjects whose workloads are rendered from objects of a kind."""
        return (binding for binding in bindings if kind in self._list_kinds(binding))

    def _list_kinds(self, binding: Binding) -> frozenset[GroupKind]:
        return input_kinds(binding.group_kind, self._store.get(*binding), find_overriders(self._store, binding))
