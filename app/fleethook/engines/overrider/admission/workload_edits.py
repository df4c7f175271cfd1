"""The members that an update changes, and the edits that it cannot make: those that a render replaces, and replicas."""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Final, NamedTuple

import msgspec

from fleethook.engines.overrider.plan.plan_and_digest import Plan
from fleethook.engines.overrider.plan.plan_cache import PoolPlan
from fleethook.engines.overrider.render.list_differences import find_differences
from fleethook.engines.overrider.render.plan_selection import Rendering
from fleethook.engines.overrider.render.undo_and_annotations import RESERVED_PREFIX
from fleethook.model.admission import AdmissionRequest
from fleethook.model.json import JSON, JSONObject, as_object, as_text
from fleethook.model.openyurt import POOL_PATCH_ANNOTATION, REVISION_LABEL
from fleethook.patch import apply, format_pointer

_ABSENT: Final = msgspec.Raw(b"")


class _Labels(msgspec.Struct, rename={"revision": REVISION_LABEL}):
    revision: msgspec.Raw = _ABSENT


class _PoolPatch(msgspec.Struct, rename={"pool_patch": POOL_PATCH_ANNOTATION}):
    pool_patch: msgspec.Raw = _ABSENT


class _Metadata(msgspec.Struct):
    labels: _Labels | None = None
    annotations: _PoolPatch | None = None


class _Workload(msgspec.Struct):
    metadata: _Metadata | None = None
    spec: msgspec.Raw = _ABSENT


class _Members(msgspec.Struct):
    metadata: msgspec.Raw = _ABSENT
    spec: msgspec.Raw = _ABSENT


_decode_workload: Final = msgspec.json.Decoder(_Workload).decode


_decode_members: Final = msgspec.json.Decoder(_Members).decode


class WorkloadChange(NamedTuple):
    """The members of a workload that an update changes. Objects of an unexpected shape count as changed."""

    spec: bool
    revision: bool
    """Whether OpenYurt's controller may have written another template.

    The controllers name the revision of the template in a label, and the patch of the node pool, which is no part of
    the revision, in an annotation.
    """


UNKNOWN_CHANGE: Final = WorkloadChange(spec=True, revision=True)


def compare_workload(request: AdmissionRequest) -> WorkloadChange:
    """Return the members of a workload that an update changes."""
    try:
        before, after = _decode_workload(request.old_object_raw), _decode_workload(request.object_raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return UNKNOWN_CHANGE
    is_same = bytes(before.spec) == bytes(after.spec)
    return WorkloadChange(spec=not is_same, revision=_read_revision(before) != _read_revision(after))


def _read_stored_members(request: AdmissionRequest) -> JSONObject:
    """Return the stored values of those members among ``metadata`` and ``spec`` that an update may change."""
    try:
        before, after = _decode_members(request.old_object_raw), _decode_members(request.object_raw)
        pairs = {"metadata": (before.metadata, after.metadata), "spec": (before.spec, after.spec)}
        changed = {name: known for name, (known, now) in pairs.items() if bytes(known) != bytes(now)}
        return {name: msgspec.json.decode(known) if bytes(known) else {} for name, known in changed.items()}
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}


def _read_revision(workload: _Workload) -> tuple[bytes, bytes]:
    metadata = workload.metadata or _Metadata()
    label = metadata.labels.revision if metadata.labels else _ABSENT
    annotation = metadata.annotations.pool_patch if metadata.annotations else _ABSENT
    return bytes(label), bytes(annotation)


MAX_REPLACED: Final = 5


# They write the values of the template, and read no warnings.
_CONTROLLERS: Final = "system:serviceaccount:"


def warn_about_replaced_edits(request: AdmissionRequest, workload: JSONObject, rendering: Rendering) -> list[str]:
    """Return a warning about the edits of a person that the template or an entry replaces."""
    plan = rendering.plan
    if plan is None or not plan.applies or as_text(as_object(request.user).get("username")).startswith(_CONTROLLERS):
        return []
    stored = _select_writable(_read_stored_members(request))
    asked = _select_writable({name: workload.get(name) for name in stored})
    edited = frozenset(difference.address for difference in find_differences(stored, asked, leaves=True))
    if plan.leaves_replicas:
        edited -= {("spec", "replicas")}  # `keep_replicas` has a warning of its own.
    if not edited:
        return []
    rendered: JSONObject = apply(workload, rendering.operations)
    rendered = _select_writable({name: rendered.get(name) for name in stored})
    around = edited | {one[:end] for one in edited for end in range(1, len(one))}
    places = (_find_edit(one.address, edited, around) for one in find_differences(asked, rendered, leaves=True))
    pointers = [format_pointer(place) for place in dict.fromkeys(places) if place]
    if not pointers:
        return []
    listed = ", ".join(pointers[:MAX_REPLACED]) + (" and others" if len(pointers) > MAX_REPLACED else "")
    return [f"replaced: {listed}: edit the owner or YurtAppOverrider {rendering.overrider}, which decide these values"]


_Addresses = AbstractSet[tuple[str, ...]]


def _find_edit(address: tuple[str, ...], edited: _Addresses, around: _Addresses) -> tuple[str, ...]:
    """Return the address of the edit around a replaced value, its own address if it contains edits, otherwise ()."""
    outer = (address[:end] for end in range(1, len(address) + 1))
    return next((one for one in outer if one in edited), address if address in around else ())


def _select_writable(members: JSONObject) -> JSONObject:
    """Return the members that users write, without fleethook's annotations."""
    if "metadata" not in members:
        return members
    metadata = as_object(members["metadata"])
    kept = {name: as_object(metadata.get(name)) for name in ("labels", "annotations")}
    kept = {
        name: {key: value for key, value in values.items() if not key.startswith(RESERVED_PREFIX)}
        for name, values in kept.items()
    }
    return {**members, "metadata": kept}


def keeps_spec(request: AdmissionRequest, workload: JSONObject) -> bool:
    """Return whether an update changes at most metadata and replicas."""
    if request.operation != "UPDATE":
        return False
    before = as_object(as_object(request.old_object).get("spec"))
    return _remove_replicas(before) == _remove_replicas(workload["spec"])


def _remove_replicas(spec: Mapping[str, JSON]) -> JSONObject:
    return {name: value for name, value in spec.items() if name != "replicas"}


def find_kept_replicas(plan: PoolPlan, sent: JSONObject, stored: Mapping[str, JSON]) -> int | None:
    """Return the number of replicas that an update must keep, None if the update may set its own.

    OpenYurt's controllers write the number of the template with each revision; those of 1.4 also if it differs. An
    autoscaler and ``kubectl scale`` use the scale subresource, which is not rendered. So this function takes the
    template's number for a write of OpenYurt, and any other number for a write of the other owner.

    Args:
        plan: The plan of the workload's pool.
        sent: The requested workload.
        stored: The stored workload.
    """
    before, after = (as_object(one.get("spec")).get("replicas") for one in (stored, sent))
    if not plan.leaves_replicas or type(before) is not int or before == after:
        return None
    numbers = map(plan.values.fill_number, _list_template_replicas(plan.shared.plan))
    return before if (1 if after is None else after) in numbers else None


def keep_replicas(rendering: Rendering, sent: JSONObject, stored: Mapping[str, JSON]) -> Rendering:
    """Return the rendering of an update with the stored number of replicas, if OpenYurt's controller resets it.

    Args:
        rendering: The rendering of ``sent``.
        sent: As in `find_kept_replicas`.
        stored: As in `find_kept_replicas`.
    """
    plan = rendering.plan
    kept = None if plan is None else find_kept_replicas(plan, sent, stored)
    if plan is None or kept is None:
        return rendering
    source = plan.shared.plan.source_of(("spec", "replicas"))
    text = (
        f"/spec/replicas: {sent['spec'].get('replicas')} is the number of the template, and {kept} stays: "
        f"{plan.values.fill_text(source)} leaves the replicas to another owner; use kubectl scale to set this number"
    )
    operations = [*rendering.operations, {"op": "add", "path": "/spec/replicas", "value": kept}]
    return rendering._replace(operations=operations, warnings=(*rendering.warnings, text))


def _list_template_replicas(plan: Plan) -> tuple[int, ...]:
    """Return the numbers of replicas that OpenYurt's controllers may write, with marks."""
    number = plan.create.bare["spec"].get("replicas", plan.template.default_replicas)
    # Without a number, OpenYurt 1.4 writes 0 into an existing workload, and kube-apiserver sets 1 in a new one.
    return (0, 1) if number is None else (number,)
