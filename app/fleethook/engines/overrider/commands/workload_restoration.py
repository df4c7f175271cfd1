"""The part of overriders in ``fleethook uninstall``: restore the workloads.

The template of the subject is laid over a workload, as the webhook does after the deletion of an overrider.
"""

import asyncio
from collections.abc import Collection, Iterator, Sequence
from typing import Final, NamedTuple

import msgspec

from fleethook.cli.uninstall import WEBHOOK_SUFFIX, Uninstaller, make_row, names_of, path_of, write_note
from fleethook.cluster.api_errors import CONFLICT, NOT_FOUND, APIError
from fleethook.cluster.apiserver_connection import JSON_PATCH
from fleethook.cluster.kubernetes.watched_resources import (
    NODE_POOLS,
    WORKLOADS,
    YURT_APP_DAEMONS,
    YURT_APP_OVERRIDERS,
    YURT_APP_SETS,
    WatchedResource,
)
from fleethook.cluster.store import Store, key_of
from fleethook.engines.overrider.controller.openyurt_waits_and_nudges import NUDGED_ANNOTATION
from fleethook.engines.overrider.entries.steps_and_limits import RenderError
from fleethook.engines.overrider.plan.plan_cache import PlanCache
from fleethook.engines.overrider.render.undo_and_annotations import (
    TRIGGER_MARK,
    UNDO_ANNOTATION,
    LastRender,
    has_trigger,
    read_last_render,
)
from fleethook.engines.overrider.render.workload_render_and_name_conflicts import RenderTarget, render
from fleethook.engines.overrider.subject.bound_overriders import OVERRIDERS_BY_SUBJECT
from fleethook.engines.overrider.subject.workload_owner import find_owner
from fleethook.engines.overrider.template.pool_template_and_placement import SubjectError
from fleethook.model.json import JSONObject, as_object
from fleethook.model.openyurt import TRIGGER_ANNOTATION
from fleethook.patch import apply, diff

_INTERNAL: Final = 500
# An apiserver follows webhook configurations by watches, usually within milliseconds.
_MAX_TRIES: Final = 40
_PAUSE_SECONDS: Final = 0.25
_AT_ONCE: Final = 10


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

    def plan(self, workload: JSONObject) -> Restoration:
        """Return the restoration of a stored Deployment or StatefulSet."""
        last_render = read_last_render(workload)
        if workload["metadata"].get("deletionTimestamp"):
            return Restoration()
        if last_render is None:
            return Restoration(diff(workload, _remove_trigger(workload)))
        try:
            rendered = self._render(workload, last_render)
        except (SubjectError, RenderError) as error:
            return Restoration(problem=str(error), rendered=True)
        return Restoration(diff(workload, _remove_trigger(rendered)), rendered=True)

    def _render(self, workload: JSONObject, last_render: LastRender) -> JSONObject:
        if last_render.undo_text and not _is_object(last_render.undo_text):
            raise SubjectError(f"its annotation {UNDO_ANNOTATION} is damaged")
        owner = find_owner(workload["metadata"])
        if owner is None:
            raise SubjectError("it has no owner")
        target = RenderTarget(workload["kind"], workload["metadata"].get("namespace") or "", owner, creating=False)
        rendering = render(workload, target, last_render=last_render, store=self._store, plans=self._plans)
        restored: JSONObject = apply(workload, rendering.operations)
        return restored


def has_traces(text: msgspec.Raw) -> bool:
    """Return whether an encoded workload may have annotations of fleethook."""
    encoded = bytes(text)
    return b"fleethook.io/" in encoded or TRIGGER_MARK.encode() in encoded


def list_nudged(subjects: Collection[JSONObject]) -> Iterator[JSONObject]:
    """Yield the subjects with an annotation of `fleethook.engines.overrider.controller.openyurt_waits_and_nudges`."""
    return (subject for subject in subjects if NUDGED_ANNOTATION in (subject["metadata"].get("annotations") or {}))


def _is_object(text: str) -> bool:
    try:
        return isinstance(msgspec.json.decode(text), dict)
    except msgspec.DecodeError:
        return False


def _remove_trigger(workload: JSONObject) -> JSONObject:
    annotations = as_object(workload["metadata"].get("annotations"))
    if not has_trigger(workload["metadata"]):
        return workload
    kept = {name: value for name, value in annotations.items() if name != TRIGGER_ANNOTATION}
    metadata = {name: value for name, value in workload["metadata"].items() if name != "annotations" or kept}
    return {**workload, "metadata": {**metadata, **({"annotations": kept} if kept else {})}}


async def restore_all(uninstaller: Uninstaller) -> None:
    """Restore workloads, and remove the annotations of their subjects and the status of overriders."""
    inputs: list[JSONObject] = []
    for resource in (YURT_APP_SETS, YURT_APP_DAEMONS, NODE_POOLS):
        objects = await uninstaller.list_objects(resource)
        if objects is None:
            write_note(f"workloads are not restored: their templates need all {resource.name}")
            return
        inputs += objects
    restorer = Restorer(inputs)
    slots = asyncio.Semaphore(_AT_ONCE)

    async def restore(resource: WatchedResource, workload: JSONObject) -> None:
        async with slots:
            await _restore(uninstaller, restorer, resource, workload)

    for resource in WORKLOADS:
        # A workload that lost the label of its node pool keeps its overrides, too.
        workloads = await uninstaller.list_objects(resource._replace(selector=""), keep=has_traces)
        await asyncio.gather(*(restore(resource, one) for one in workloads or ()))
    for resource in (YURT_APP_SETS, YURT_APP_DAEMONS):
        nudged = [one for one in list_nudged(inputs) if key_of(one).group_kind == resource.group_kind]
        for one in nudged:
            change: JSONObject = {"metadata": {"annotations": {NUDGED_ANNOTATION: None}}}
            await uninstaller.clean(resource, one, change, f"annotation {NUDGED_ANNOTATION}")
    for one in await uninstaller.list_objects(YURT_APP_OVERRIDERS) or ():
        if one.get("status"):
            await uninstaller.clean(YURT_APP_OVERRIDERS, one, {"status": None}, "status", subresource="/status")


async def _restore(
    uninstaller: Uninstaller, restorer: Restorer, resource: WatchedResource, workload: JSONObject
) -> None:
    """Restore one workload; another client may change it meanwhile."""
    key, path = key_of(workload), path_of(resource, workload)
    problem = "the apiserver renders it again"
    for attempt in range(_MAX_TRIES):
        plan = restorer.plan(workload)
        if plan.problem:
            detail = f"{plan.problem}; it keeps its overrides until you edit or delete it"
            uninstaller.add(make_row("left", key, detail))
            return
        if not plan.operations and not attempt:
            return
        done = make_row("restored" if plan.rendered or attempt else "cleaned", key)
        if not plan.operations or uninstaller.is_trial:
            uninstaller.add(done)
            return
        version = {
            "op": "replace", "path": "/metadata/resourceVersion", "value": workload["metadata"]["resourceVersion"]
        }  # fmt: skip
        body = [version, *plan.operations]
        try:
            text = await uninstaller.connection.request("PATCH", path, body=body, content_type=JSON_PATCH)
            workload = resource.decode(text)
            if not restorer.plan(workload).operations:
                uninstaller.add(done)
                return
        except APIError as error:
            problem = error.message
            is_late = error.code == _INTERNAL and WEBHOOK_SUFFIX in problem
            if error.code not in (CONFLICT, NOT_FOUND) and not is_late:
                uninstaller.refuse(error, done, resource, "patch")
                return
        # Another client has written or deleted the workload, or kube-apiserver does not know yet that webhooks
        # are gone.
        await asyncio.sleep(_PAUSE_SECONDS)
        found = await uninstaller.get(resource, *names_of(workload), row=done)
        if found is None:
            return
        workload = found
    uninstaller.add(make_row("left", key, f"{_MAX_TRIES} writes failed: {problem}"))
