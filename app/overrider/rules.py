"""What a YurtAppOverrider must look like, whatever it is bound to.

The CustomResourceDefinition says part of this too. It is repeated here because these rules also judge manifests that
no apiserver has seen, and because a message can say what was meant.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from app.model.admission import StatusCause
from app.model.json import JSON, JSONObject, as_object
from app.model.openyurt import API_VERSION, POOL_NAME_LABEL
from app.overrider.owner import SUBJECT_KINDS
from app.overrider.pools import EXCLUDE
from app.patch import parse_pointer

_REQUIRED: Final = "FieldValueRequired"
_INVALID: Final = "FieldValueInvalid"
_FORBIDDEN: Final = "FieldValueForbidden"
_UNSUPPORTED: Final = "FieldValueNotSupported"

_OPERATIONS: Final = ("add", "remove", "replace")
_ITEM_MEMBERS: Final = ("image", "replicas")
# The first tokens of a pointer that no override may write to; a pointer to something that contains one is refused too.
_PROTECTED: Final[tuple[tuple[str, ...], ...]] = (
    ("apiVersion",),
    ("kind",),
    ("status",),
    ("spec", "selector"),
    ("metadata", "name"),
    ("metadata", "generateName"),
    ("metadata", "namespace"),
    ("metadata", "uid"),
    ("metadata", "resourceVersion"),
    ("metadata", "generation"),
    ("metadata", "creationTimestamp"),
    ("metadata", "deletionTimestamp"),
    ("metadata", "finalizers"),
    ("metadata", "managedFields"),
    ("metadata", "ownerReferences"),
    ("metadata", "labels", POOL_NAME_LABEL),
    ("spec", "template", "metadata", "labels", POOL_NAME_LABEL),
)
# These contain protected members and much besides; replacing them whole is caught by rehearsing the render.
_REHEARSED: Final = frozenset(
    {("metadata", "labels"), ("spec", "template")}
    | {("spec", "template", "metadata")}
    | {("spec", "template", "metadata", "labels")}
)


def check_overrider(overrider: JSONObject) -> Iterator[StatusCause]:
    """Yield everything that is wrong with the overrider in itself, with field paths."""
    yield from _check_subject(overrider.get("subject"))
    entries = overrider.get("entries")
    if entries is None:
        yield StatusCause("entries", "is required; write [] to override nothing", _REQUIRED)
    elif not isinstance(entries, list):
        yield StatusCause("entries", f"must be a list, not {_type(entries)}", _INVALID)
    else:
        for number, entry in enumerate(entries):
            yield from _check_entry(f"entries[{number}]", entry)


def _check_subject(subject: JSON) -> Iterator[StatusCause]:
    if not isinstance(subject, dict):
        yield StatusCause("subject", "is required: the YurtAppSet or YurtAppDaemon to override", _REQUIRED)
        return
    kinds = sorted(group_kind.kind for group_kind in SUBJECT_KINDS)
    if subject.get("kind") not in kinds:
        yield StatusCause(
            "subject.kind", f"must be one of {', '.join(kinds)}, not {subject.get('kind')!r}", _UNSUPPORTED
        )
    version = subject.get("apiVersion")
    if version and version != API_VERSION:
        message = f"must be {API_VERSION}, not {version!r}; workloads of other versions are not rendered by overriders"
        yield StatusCause("subject.apiVersion", message, _UNSUPPORTED)
    name = subject.get("name")
    if not isinstance(name, str) or not name:
        yield StatusCause("subject.name", "is required", _REQUIRED)
    for member in subject.keys() - {"apiVersion", "kind", "name"}:
        message = "is not a field"
        if member.lower() == "namespace":
            message += ": a subject is always in the namespace of its overrider; remove it"
        yield StatusCause(f"subject.{member}", message, _FORBIDDEN)


def _check_entry(field: str, entry: JSON) -> Iterator[StatusCause]:
    if not isinstance(entry, dict):
        yield StatusCause(field, f"must be an object, not {_type(entry)}", _INVALID)
        return
    yield from _check_pools(f"{field}.pools", entry.get("pools"))
    for member, check in (("items", _check_item), ("patches", _check_patch)):
        elements = entry.get(member)
        if elements is None:
            continue
        if not isinstance(elements, list):
            yield StatusCause(f"{field}.{member}", f"must be a list, not {_type(elements)}", _INVALID)
            continue
        for number, element in enumerate(elements):
            yield from check(f"{field}.{member}[{number}]", element)
    for member in entry.keys() - {"pools", "items", "patches"}:
        yield StatusCause(f"{field}.{member}", "is not a field; an entry has pools, items and patches", _FORBIDDEN)


def _check_pools(field: str, pools: JSON) -> Iterator[StatusCause]:
    if isinstance(pools, str):
        meant = ", ".join(f"- {name}" for name in pools.split())
        yield StatusCause(field, f"must be a list, not the text {pools!r}; each pool takes a dash: {meant}", _INVALID)
    elif not isinstance(pools, list) or not pools:
        yield StatusCause(field, "names no node pool; write '*' for all of them", _REQUIRED)
    else:
        for number, pool in enumerate(pools):
            if not isinstance(pool, str) or pool in ("", EXCLUDE):
                yield StatusCause(f"{field}[{number}]", "must be a pool's name, -name or '*'", _INVALID)


def _check_item(field: str, item: JSON) -> Iterator[StatusCause]:
    members = [member for member in _ITEM_MEMBERS if as_object(item).get(member) is not None]
    if len(members) != 1 or as_object(item).keys() - set(_ITEM_MEMBERS):
        found = ", ".join(sorted(as_object(item))) or "none"
        yield StatusCause(field, f"must have exactly one of image and replicas, not {found}", _INVALID)
        return
    if members == ["image"]:
        yield from _check_image(f"{field}.image", item["image"])
    else:
        replicas = item["replicas"]
        if type(replicas) is not int or replicas < 0:
            yield StatusCause(f"{field}.replicas", f"must be a whole number from 0, not {replicas!r}", _INVALID)


def _check_image(field: str, image: JSON) -> Iterator[StatusCause]:
    for member in ("containerName", "imageClaim"):
        value = as_object(image).get(member)
        if not isinstance(value, str) or not value.strip():
            yield StatusCause(f"{field}.{member}", "is required", _REQUIRED)


def _check_patch(field: str, patch: JSON) -> Iterator[StatusCause]:
    if not isinstance(patch, dict):
        yield StatusCause(field, f"must be an object, not {_type(patch)}", _INVALID)
        return
    operation = patch.get("operation")
    if operation not in _OPERATIONS:
        message = f"must be one of {', '.join(_OPERATIONS)}, not {operation!r}"
        yield StatusCause(f"{field}.operation", message, _UNSUPPORTED)
    yield from _check_value(f"{field}.value", operation, patch)
    yield from _check_path(f"{field}.path", operation, patch.get("path"))


def _check_value(field: str, operation: JSON, patch: Mapping[str, JSON]) -> Iterator[StatusCause]:
    # Clients built on Go types send a value they do not have as null, so null cannot be told from absent on a remove.
    if operation == "remove" and patch.get("value") is not None:
        yield StatusCause(field, "must be empty when operation is remove", _FORBIDDEN)
    elif operation in ("add", "replace") and "value" not in patch:
        yield StatusCause(field, f"is required when operation is {operation}; null unsets", _REQUIRED)


def _check_path(field: str, operation: JSON, path: JSON) -> Iterator[StatusCause]:
    if not isinstance(path, str):
        yield StatusCause(field, "is required: a JSON pointer such as /spec/replicas", _REQUIRED)
        return
    try:
        tokens = parse_pointer(path)
    except ValueError as error:
        yield StatusCause(field, f"{error}; a JSON pointer looks like /spec/replicas", _INVALID)
        return
    if tokens and tokens[-1] == "-" and operation in ("remove", "replace"):
        message = f"{path} is the place after the last element, where there is nothing to {operation}"
        yield StatusCause(field, f"{message}; to append, use operation add", _INVALID)
    if (protected := _protected(tokens)) is not None:
        yield StatusCause(field, f"{path} would change {protected}, which overrides may not do", _FORBIDDEN)


def _protected(tokens: tuple[str, ...]) -> str | None:
    if tokens in _REHEARSED:
        return None
    for protected in _PROTECTED:
        shared = min(len(tokens), len(protected))
        if tokens[:shared] == protected[:shared]:
            return "/" + "/".join(token.replace("/", "~1") for token in protected)
    return None


def _type(value: JSON) -> str:
    names = {str: "text", list: "a list", dict: "an object", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number")
