"""Applies the tweaks of a YurtAppSet v1beta1 like OpenYurt's controller.

Source: workloadmanager/tweaks.go (OpenYurt v1.7.0; v1.5 and v1.6 do the same). All replicas and images come first, then
the patches of all tweaks as one JSON Patch. The controller decodes the patched text into the struct that it encoded, so
members that a patch removes stay. A workload with an override must not differ from the others in that.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from fleethook.engines.overrider.entries.patch_limits import LIMITS
from fleethook.engines.overrider.schema.go_structs import DecodeError, Kind, decode_into, print_workload
from fleethook.engines.overrider.subject.subject_parts import tweaks_of
from fleethook.engines.overrider.template.pool_template import SubjectError
from fleethook.model.json import JSON, JSONObject, as_object
from fleethook.model.openyurt import TWEAK_POOL_TOKEN
from fleethook.patch import PatchError, apply

_TWEAKS: Final = "spec.workload.workloadTweaks"


def apply_tweaks(
    workload: JSONObject, subject: JSONObject, numbers: Sequence[int], *, kind: str, pool: str
) -> JSONObject:
    """Return ``workload`` with tweaks applied.

    Args:
        workload: The workload that the template describes.
        subject: A YurtAppSet v1beta1.
        numbers: The tweaks to apply, from `fleethook.engines.overrider.subject.subject_parts.SetSelections.tweaks`.
        kind: Deployment or StatefulSet.
        pool: The node pool's name.

    Raises:
        SubjectError: A tweak does not fit the template. OpenYurt's controller then writes no workload.
    """
    tweaks = [(number, dict(as_object(as_object(tweaks_of(subject)[number]).get("tweaks")))) for number in numbers]
    for _, tweak in tweaks:
        workload = _set_replicas(workload, tweak.get("replicas"))
        for image in _list_objects(tweak.get("containerImages")):
            workload = _set_image(workload, image)
    fields, operations = _list_operations(tweaks, pool)
    return _apply_patches(workload, fields, operations, kind=kind) if operations else workload


def _set_replicas(workload: JSONObject, replicas: JSON) -> JSONObject:
    if replicas is None:
        return workload
    return {**workload, "spec": {**workload["spec"], "replicas": replicas}}


def _set_image(workload: JSONObject, image: JSONObject) -> JSONObject:
    template = as_object(workload["spec"].get("template"))
    pod_spec = as_object(template.get("spec"))
    changed = {
        member: [_set_container_image(container, image) for container in pod_spec[member]]
        for member in ("containers", "initContainers")
        if isinstance(pod_spec.get(member), list)
    }
    spec = {**workload["spec"], "template": {**template, "spec": {**pod_spec, **changed}}}
    return {**workload, "spec": spec}


def _set_container_image(container: JSON, image: JSONObject) -> JSON:
    if not isinstance(container, dict) or container.get("name") != image.get("name"):
        return container
    return {**container, "image": image.get("targetImage", "")}


def _list_operations(tweaks: Sequence[tuple[int, JSONObject]], pool: str) -> tuple[list[str], list[JSONObject]]:
    """Return the operations of all patches, and the field path of each."""
    fields, operations = [], []
    for number, tweak in tweaks:
        for position, patch in enumerate(_list_objects(tweak.get("patches"))):
            fields.append(f"{_TWEAKS}[{number}].tweaks.patches[{position}]")
            value = _fill_pool(patch.get("value"), pool)
            operations.append({"op": patch.get("operation"), "path": patch.get("path"), "value": value})
    return fields, operations


def _fill_pool(value: JSON, pool: str) -> JSON:
    """Replace the token by the pool's name in a value. OpenYurt replaces it in the encoded text, so also in keys."""
    text = msgspec.json.encode(value).decode()
    if TWEAK_POOL_TOKEN not in text:
        return value
    return msgspec.json.decode(text.replace(TWEAK_POOL_TOKEN, pool))


def _apply_patches(
    workload: JSONObject, fields: Sequence[str], operations: Sequence[JSONObject], *, kind: str
) -> JSONObject:
    of: Kind = "StatefulSet" if kind == "StatefulSet" else "Deployment"
    for field, operation in zip(fields, operations, strict=True):
        if operation["path"] == "":
            raise SubjectError(
                f"{field}.path does not fit the template: it is empty, and no patch can replace the workload"
            )
    try:
        text = apply(print_workload(workload, of), operations, dialect="kubernetes", limits=LIMITS)
        return decode_into(workload, text, of)
    except PatchError as error:
        field = fields[error.index] if error.index is not None else _TWEAKS
        raise SubjectError(f"{field} does not fit the template: {error}") from error
    except DecodeError as error:
        raise SubjectError(f"{_TWEAKS}: the patched workload is not valid: {error}") from error


def _list_objects(value: JSON) -> list[JSONObject]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []
