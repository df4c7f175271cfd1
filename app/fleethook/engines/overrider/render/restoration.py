"""Restores workloads as if they never had an overrider, while no server of fleethook runs.

The template of the subject is laid over the workload, as the webhook does after the deletion of an overrider.
"""

from collections.abc import Collection, Iterator, Sequence
from typing import Final, NamedTuple

import msgspec

from fleethook.cluster.store import ObjectKey, Store
from fleethook.engines.overrider.entries.entry_steps import RenderError
from fleethook.engines.overrider.plan.plan_cache import PlanCache
from fleethook.engines.overrider.render.render import RenderTarget, render
from fleethook.engines.overrider.render.undo import UNDO_ANNOTATION, Memory, remembered
from fleethook.engines.overrider.subject.binding import OVERRIDERS_BY_SUBJECT, find_owner
from fleethook.engines.overrider.subject.unreached_workloads import find_orphans
from fleethook.engines.overrider.template.pool_template import SubjectError
from fleethook.model.json import JSONObject, as_object
from fleethook.model.openyurt import NUDGED_ANNOTATION, TRIGGER_ANNOTATION
from fleethook.patch import apply, diff

# OpenYurt 1.4 writes a time into the same annotation; this text is only in ours
# (`fleethook.engines.overrider.admission.read_your_writes`).
_OWN_TRIGGER: Final = "overrider@"


class Restoration(NamedTuple):
    """The change that removes fleethook's traces from one workload."""

    operations: Sequence[JSONObject] = ()
    """A JSON patch, empty if the workload has no traces."""
    problem: str = ""
    """The reason why the workload cannot be restored, ``""`` if it can be."""
    rendered: bool = False
    """Whether the workload was rendered, so that its spec may change."""


class Restorer:
    """Computes the restoration of workloads."""

    def __init__(self, inputs: Collection[JSONObject]) -> None:
        """Prepare; ``inputs`` are all YurtAppSets, YurtAppDaemons and NodePools. Overriders are left out."""
        # Without overriders, each plan is the bare template.
        self._store: Final = Store([OVERRIDERS_BY_SUBJECT])
        for one in inputs:
            self._store.put(one)
        self._plans: Final = PlanCache()
        self._pools: Final[dict[ObjectKey, frozenset[str]]] = {}

    def plan(self, workload: JSONObject) -> Restoration:
        """Return the restoration of a stored Deployment or StatefulSet."""
        memory = remembered(workload)
        if workload["metadata"].get("deletionTimestamp"):
            return Restoration()
        if memory is None:
            return Restoration(diff(workload, _remove_trigger(workload)))
        try:
            rendered = self._render(workload, memory)
        except (SubjectError, RenderError) as error:
            return Restoration(problem=str(error), rendered=True)
        return Restoration(diff(workload, _remove_trigger(rendered)), rendered=True)

    def _render(self, workload: JSONObject, memory: Memory) -> JSONObject:
        if memory.undo_text and not _is_object(memory.undo_text):
            raise SubjectError(f"its annotation {UNDO_ANNOTATION} is damaged")
        for orphan in find_orphans([workload], self._store, known=self._pools):
            raise SubjectError(orphan.reason)
        owner = find_owner(workload["metadata"])
        if owner is None:
            raise SubjectError("no YurtAppSet or YurtAppDaemon owns it")
        target = RenderTarget(workload["kind"], workload["metadata"].get("namespace") or "", owner, creating=False)
        rendering = render(workload, target, memory=memory, store=self._store, plans=self._plans)
        restored: JSONObject = apply(workload, rendering.operations)
        return restored


def has_traces(text: msgspec.Raw) -> bool:
    """Return whether an encoded workload may have annotations of fleethook."""
    encoded = bytes(text)
    return b"fleethook.io/" in encoded or _OWN_TRIGGER.encode() in encoded


def list_nudged(subjects: Collection[JSONObject]) -> Iterator[JSONObject]:
    """Yield the subjects with an annotation of `fleethook.engines.overrider.controller.outdated_workloads`."""
    return (one for one in subjects if NUDGED_ANNOTATION in (one["metadata"].get("annotations") or {}))


def _is_object(text: str) -> bool:
    try:
        return isinstance(msgspec.json.decode(text), dict)
    except msgspec.DecodeError:
        return False


def _remove_trigger(workload: JSONObject) -> JSONObject:
    annotations = as_object(workload["metadata"].get("annotations"))
    if _OWN_TRIGGER not in str(annotations.get(TRIGGER_ANNOTATION)):
        return workload
    kept = {name: value for name, value in annotations.items() if name != TRIGGER_ANNOTATION}
    metadata = {name: value for name, value in workload["metadata"].items() if name != "annotations" or kept}
    return {**workload, "metadata": {**metadata, **({"annotations": kept} if kept else {})}}
