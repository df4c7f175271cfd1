"""The tweaks of a YurtAppSet v1beta1: applies them to the template of a pool, and remembers them for its workloads."""

from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from itertools import combinations
from typing import Final

import msgspec

from fleethook.engines.overrider.entries.steps_and_limits import LIMITS, TWEAK_POOL_TOKEN, fill_pool
from fleethook.engines.overrider.subject.subject_and_pools import tweaks_of
from fleethook.engines.overrider.template.pool_template_and_placement import SubjectError
from fleethook.model.json import JSON, JSONObject, as_list, as_object, list_objects
from fleethook.patch import PatchError, apply
from fleethook.workload_schema.go_structs import DecodeError, Kind, decode_into, print_workload

_TWEAKS: Final = "spec.workload.workloadTweaks"


def apply_tweaks(
    workload: JSONObject, subject: JSONObject, numbers: Sequence[int], *, kind: str, pool: str
) -> JSONObject:
    """Return ``workload`` with tweaks applied.

    Args:
        workload: The workload that the template describes.
        subject: A YurtAppSet v1beta1.
        numbers: The tweaks to apply, from `fleethook.engines.overrider.subject.subject_and_pools.SetSelections.tweaks`.
        kind: Deployment or StatefulSet.
        pool: The node pool's name.

    Raises:
        SubjectError: A tweak does not fit the template. OpenYurt's controller then writes no workload.
    """
    tweaks = [(number, dict(as_object(as_object(tweaks_of(subject)[number]).get("tweaks")))) for number in numbers]
    for _, tweak in tweaks:
        workload = _set_replicas(workload, tweak.get("replicas"))
        for image in list_objects(tweak.get("containerImages")):
            workload = _set_image(workload, image)
    fields, operations = list_operations(tweaks, pool)
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


def list_operations(tweaks: Sequence[tuple[int, JSONObject]], pool: str) -> tuple[list[str], list[JSONObject]]:
    """Return the operations of all patches, and the field path of each."""
    fields, operations = [], []
    for number, tweak in tweaks:
        for position, patch in enumerate(list_objects(tweak.get("patches"))):
            fields.append(f"{_TWEAKS}[{number}].tweaks.patches[{position}]")
            value = fill_pool(patch.get("value"), pool, token=TWEAK_POOL_TOKEN)
            operations.append({"op": patch.get("operation"), "path": patch.get("path"), "value": value})
    return fields, operations


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


def encode_tweaks(subject: JSONObject, numbers: Iterable[int]) -> str:
    """Return the text from which `decode_tweaks` reads tweaks, ``""`` if no labels of NodePools select tweaks.

    OpenYurt writes tweaks into a workload with each revision, which is a hash of ``spec.workload``. If the labels of a
    NodePool select other tweaks later, the workload keeps its values until the next revision. So it has to remember
    its tweaks.
    """
    if not _has_labelled_tweaks(subject):
        return ""
    return f"{_hash_revision(subject)}:{','.join(map(str, numbers))}"


def decode_tweaks(subject: JSONObject, text: str) -> tuple[int, ...] | None:
    """Return the numbers of the tweaks in ``text``, None if it is of another revision of the subject."""
    revision, _, listed = text.partition(":")
    if not text or revision != _hash_revision(subject):
        return None
    numbers = [int(one) for one in listed.split(",") if one.isdecimal()]
    return tuple(number for number in numbers if number < len(tweaks_of(subject)))


# More tweaks for one node pool whose labels changed since the last revision are unlikely.
_MAX_FLIPPED: Final = 4


def _has_labelled_tweaks(subject: JSONObject) -> bool:
    return any(as_object(tweak).get("nodepoolSelector") is not None for tweak in tweaks_of(subject))


def count_selections(subject: JSONObject) -> int:
    """Return how many selections of tweaks `list_selections` may yield for one node pool, with the present one."""
    return 2**_MAX_FLIPPED if _has_labelled_tweaks(subject) else 1


def list_selections(subject: JSONObject, pool: str, present: Iterable[int]) -> Iterator[str]:
    """Yield other tweaks that labels may have selected for a node pool before, as text (`encode_tweaks`).

    Args:
        subject: A YurtAppSet v1beta1.
        pool: The name of the pool.
        present: The tweaks that its labels select now.
    """
    tweaks = [as_object(tweak) for tweak in tweaks_of(subject)]
    labelled = [
        number
        for number, tweak in enumerate(tweaks)
        if tweak.get("nodepoolSelector") is not None and pool not in as_list(tweak.get("pools"))
    ][:_MAX_FLIPPED]
    for size in range(1, len(labelled) + 1):
        for flipped in combinations(labelled, size):
            yield encode_tweaks(subject, sorted(set(present).symmetric_difference(flipped)))


def _hash_revision(subject: JSONObject) -> str:
    revision = as_object(subject.get("spec")).get("workload")
    return sha256(msgspec.json.encode(revision, order="deterministic")).hexdigest()[:10]
