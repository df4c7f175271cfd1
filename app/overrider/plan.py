"""What will be done to a workload of one pool: compiled once per change of its inputs, used for every review."""

from hashlib import sha256
from typing import Final

import msgspec

from app.model.gvk import GroupKind
from app.model.json import JSON, JSONObject
from app.model.merge_keys import WORKLOAD
from app.model.openyurt import POOL_NAME_LABEL
from app.model.workloads import check_workload
from app.overrider.direct import DirectPatch, compile_direct
from app.overrider.overlay import overlay
from app.overrider.pools import applies_to
from app.overrider.steps import RenderError, SetImage, Step, compile_steps, container_names, run_steps
from app.overrider.template import PoolTemplate, apply_pool_patch, build_template, place, seed
from app.overrider.undo import annotations_of, as_annotation, undo_of
from app.patch import StrategicMergeError

# Part of every hash, so that a change of the rules themselves shows as a changed input.
_RULES_VERSION: Final = 1
_MISSING: Final = object()


class Plan(msgspec.Struct, frozen=True):
    """How one pool's workload of one subject is rendered."""

    template: PoolTemplate
    steps: tuple[Step, ...]
    """Empty where no entry applies to the pool."""
    digest: str
    """Hash over what the bare template is rendered to; kept on the workload as ``fleethook.io/rendered``.

    So two overriders that come to the same leave the same hash, and a workload whose hash is another has to be rendered
    again.
    """
    undo_text: str
    """What takes the steps' additions back, from rendering the bare template; kept as ``fleethook.io/undo``."""
    direct: DirectPatch | None
    """The patch of a workload that stands as the template wants it, None where each has to be rendered."""
    warnings: tuple[str, ...]
    error: RenderError | None
    """Why the steps do not even fit the bare template; on a living workload they still may."""


def compile_plan(
    group_kind: GroupKind,
    subject: JSONObject,
    overrider: JSONObject | None,
    *,
    kind: str,
    pool: str,
    node_pool: JSONObject | None,
) -> Plan:
    """Return the plan for ``subject``'s workloads of ``kind`` in ``pool``.

    Args:
        group_kind: YurtAppSet or YurtAppDaemon.
        subject: The subject as stored.
        overrider: The overrider in effect, or None to plan for the bare template.
        kind: Deployment or StatefulSet.
        pool: The pool's name.
        node_pool: The NodePool object, where it is known.

    Raises:
        SubjectError: Nothing can be built from the subject.
        RenderError: An entry is broken in itself.
    """
    template = build_template(group_kind, subject, kind=kind, pool=pool, node_pool=node_pool)
    entries = overrider.get("entries") if overrider else None
    steps = compile_steps(entries, pool)
    if not steps:
        return Plan(template, (), "", "", None, (), None)
    try:
        bare = base(seed(group_kind, subject, kind=kind, pool=pool), template, creating=True)
        rendered = checked(bare, run_steps(bare, steps))
    except RenderError as error:
        return Plan(template, steps, _digest(template, entries, pool=pool), "", None, (), error)
    except StrategicMergeError as error:
        digest = _digest(template, entries, pool=pool)
        return Plan(template, steps, digest, "", None, (), RenderError("the pool's patch", str(error)))
    undo = undo_of(bare, rendered, named=template.named_on_update, schema=WORKLOAD)
    undo_text = as_annotation(undo)
    digest = _hash(kind, pool, rendered, undo_text)
    direct = compile_direct(template, bare, steps, annotations_of(digest, undo_text))
    return Plan(template, steps, digest, undo_text, direct, _unknown_containers(bare, steps), None)


def base(workload: JSONObject, template: PoolTemplate, *, creating: bool) -> JSONObject:
    """Return ``workload`` as the template wants it, without overrides; what the template does not name survives.

    Raises:
        StrategicMergeError: The pool's own patch does not fit.
    """
    named = template.named if creating else template.named_on_update
    return apply_pool_patch(place(overlay(workload, named, WORKLOAD), template), template)


def checked(before: JSONObject, rendered: JSONObject) -> JSONObject:
    """Return ``rendered`` if overrides may do that to a workload.

    Raises:
        RenderError: A member has a type the API does not take, or a protected one was changed.
    """
    if (problem := check_workload(rendered)) is not None:
        raise RenderError("entries", f"the rendered workload is not valid: {problem}")
    if (path := protected_change(before, rendered)) is not None:
        raise RenderError("entries", f"{path} identifies the workload or selects its pods and cannot be overridden")
    return rendered


_IDENTITY: Final = ("name", "generateName", "namespace", "uid", "ownerReferences", "finalizers", "deletionTimestamp")


def protected_change(before: JSONObject, after: JSONObject) -> str | None:
    """Return the pointer of the first protected member that differs, or None.

    Protected is what names the workload and its owner, what selects its pods, and the label its pool is read from:
    whoever may edit an overrider must not thereby take a workload away from its owner.
    """
    for name in _IDENTITY:
        if before["metadata"].get(name, _MISSING) != after["metadata"].get(name, _MISSING):
            return f"/metadata/{name}"
    for name in ("apiVersion", "kind", "status"):
        if before.get(name, _MISSING) != after.get(name, _MISSING):
            return f"/{name}"
    if before["spec"].get("selector") != after["spec"].get("selector"):
        return "/spec/selector"
    if _label(before, POOL_NAME_LABEL) != _label(after, POOL_NAME_LABEL):
        return f"/metadata/labels/{POOL_NAME_LABEL.replace('/', '~1')}"
    for key in (before["spec"].get("selector") or {}).get("matchLabels") or {}:
        if _label(_pod_template(before), key) != _label(_pod_template(after), key):
            return f"/spec/template/metadata/labels/{key.replace('/', '~1')}"
    return None


def _pod_template(workload: JSONObject) -> JSONObject:
    template: JSONObject = workload["spec"].get("template") or {}
    return template


def _label(document: JSONObject, key: str) -> JSON:
    return ((document.get("metadata") or {}).get("labels") or {}).get(key)


def _digest(template: PoolTemplate, entries: JSON, *, pool: str) -> str:
    """Return a hash for a plan whose result is not known: over what it is made from."""
    applying = [
        entry
        for entry in (entries if isinstance(entries, list) else ())
        if isinstance(entry, dict) and applies_to(entry.get("pools"), pool)
    ]
    # Pools are left out: renaming another pool in the list does not change what this one gets.
    inputs = [[entry.get("items"), entry.get("patches")] for entry in applying]
    return _hash(template, inputs)


def _hash(*inputs: object) -> str:
    text = msgspec.json.encode([_RULES_VERSION, *inputs], order="deterministic")
    return sha256(text).hexdigest()[:16]


def _unknown_containers(bare: JSONObject, steps: tuple[Step, ...]) -> tuple[str, ...]:
    known = container_names(bare)
    return tuple(
        f"{step.field}: no container is named {step.container!r}; there are {', '.join(known) or 'none'}"
        for step in steps
        if isinstance(step, SetImage) and step.container not in known
    )
