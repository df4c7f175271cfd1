"""Strategic merge patch, as k8s.io/apimachinery/pkg/util/strategicpatch applies it.

Accepted patches have upstream's result, with two exceptions:

- ``$patch: merge`` is accepted and has no effect. Upstream's design document names it, its code rejects it.
- New values never contain nulls or directives. Upstream keeps some of them and drops them in its typed decoding.

More patches are rejected than upstream rejects:

- an element without its merge key, even in a new list
- an object in place of a list
- further members in a list element with ``$patch: replace`` (upstream then drops the list)
- unknown directives
"""

from typing import Final

from fleethook.model.json import JSON, JSONObject
from fleethook.model.merge_keys import MergeSchema
from fleethook.patch.diff import identical
from fleethook.patch.limits import StrategicMergeError
from fleethook.patch.pointer import escape
from fleethook.patch.strategic_merge_lists import (
    delete_scalars,
    drop_deleted,
    identify_element,
    merge_scalars,
    order_list,
    parse_edits,
)

_DIRECTIVE: Final = "$patch"
_RETAIN: Final = "$retainKeys"
_DELETE_PREFIX: Final = "$deleteFromPrimitiveList/"
_ORDER_PREFIX: Final = "$setElementOrder/"
_ATOMIC: Final = MergeSchema()
_DROPPED: Final = object()


def strategic_merge(original: JSON, patch: JSON, schema: MergeSchema) -> JSON:
    """Return ``original`` with ``patch`` merged into it.

    Null deletes a member, and objects merge member by member. Lists with a merge key merge element by element, sets of
    scalars are united, other lists are replaced. In a merged list, elements of the patch keep the order of the patch
    or of its ``$setElementOrder``. Members without a schema merge by their JSON type.

    Args:
        original: The object. It stays unchanged and shares untouched branches with the result. A patch that changes
            nothing returns the object itself.
        patch: The patch, with upstream's directives ``$patch``, ``$retainKeys``, ``$deleteFromPrimitiveList/<member>``
            and ``$setElementOrder/<member>``.
        schema: The merge keys of the object.

    Raises:
        StrategicMergeError: The patch does not apply; see the module's docstring for all reasons.
    """
    if not isinstance(original, dict) or not isinstance(patch, dict):
        raise StrategicMergeError("", "both the object and the patch must be JSON objects")
    try:
        return _merge_object(original, patch, schema=schema, path="")
    except RecursionError:
        raise StrategicMergeError("", "the object or the patch is nested too deeply") from None


def _merge_object(original: JSONObject, patch: JSONObject, *, schema: MergeSchema, path: str) -> JSONObject:
    action = _read_action(patch, path)
    if action == "delete":
        return {} if original else original
    if action == "replace":
        replaced = _clean_new_object(patch, schema, path)
        return original if identical(original, replaced) else replaced
    result = dict(original)
    if _RETAIN in patch:
        _apply_retain_keys(result, patch, path)
    for name, value in patch.items():
        if not _is_directive(name, path):
            order = patch.get(_ORDER_PREFIX + name)
            child = schema.fields.get(name, _ATOMIC)
            _merge_member(result, name, value, order=order, schema=child, path=f"{path}/{escape(name)}")
    _order_unpatched_lists(result, patch, schema, path)
    # Upstream deletes from lists of scalars after it has merged them.
    for name, value in patch.items():
        if name.startswith(_DELETE_PREFIX):
            delete_scalars(result, name.removeprefix(_DELETE_PREFIX), value, path=f"{path}/{escape(name)}")
    same = len(result) == len(original) and all(original.get(name, _DROPPED) is value for name, value in result.items())
    return original if same else result


def _is_directive(name: str, path: str) -> bool:
    if not name.startswith("$"):
        return False
    if name not in (_DIRECTIVE, _RETAIN) and not name.startswith((_DELETE_PREFIX, _ORDER_PREFIX)):
        raise StrategicMergeError(f"{path}/{escape(name)}", "is an unknown directive")
    return True


def _read_action(patch: JSONObject, path: str) -> str:
    action = patch.get(_DIRECTIVE, "merge")
    if action not in ("delete", "replace", "merge"):
        raise StrategicMergeError(f"{path}/{_DIRECTIVE}", f"must be delete, replace or merge, not {action!r}")
    return str(action)


def _apply_retain_keys(result: JSONObject, patch: JSONObject, path: str) -> None:
    place, retained = f"{path}/{_RETAIN}", patch[_RETAIN]
    if not isinstance(retained, list):
        raise StrategicMergeError(place, "must be a list")
    for name, value in patch.items():
        if value is not None and not _is_directive(name, path) and name not in retained:
            raise StrategicMergeError(place, f"must name {name!r}, which the patch sets")
    for name in [name for name in result if name not in retained]:
        del result[name]


def _order_unpatched_lists(result: JSONObject, patch: JSONObject, schema: MergeSchema, path: str) -> None:
    """Order lists for which the patch has a ``$setElementOrder`` and no elements."""
    for directive, order in patch.items():
        name = directive.removeprefix(_ORDER_PREFIX)
        if directive.startswith(_ORDER_PREFIX) and name not in patch and isinstance(result.get(name), list):
            place = f"{path}/{escape(directive)}"
            child = schema.fields.get(name, _ATOMIC)
            result[name] = order_list(result[name], order, named=(), schema=child, path=place)


def _merge_member(result: JSONObject, name: str, value: JSON, *, order: JSON, schema: MergeSchema, path: str) -> None:
    present = result.get(name)
    if value is None:
        merged: JSON = _DROPPED
    elif present is None:
        merged = _clean_new_value(value, schema, path)
        if order is not None and isinstance(merged, list):
            merged = order_list(merged, order, named=merged, schema=schema, path=path)
    elif type(present) is not type(value) and isinstance(value, dict | list) | isinstance(present, dict | list):
        raise StrategicMergeError(
            path, f"the patch has {_describe_type(value)} where the object has {_describe_type(present)}"
        )
    elif isinstance(value, dict):
        merged = _merge_object(present, value, schema=schema, path=path)
    elif isinstance(value, list):
        merged = _merge_list(present, value, order=order, schema=schema, path=path)
    else:
        merged = present if identical(present, value) else value
    if merged is _DROPPED:
        result.pop(name, None)
    else:
        result[name] = merged


def _describe_type(value: JSON) -> str:
    return "an object" if isinstance(value, dict) else "a list" if isinstance(value, list) else "a scalar"


def _merge_list(original: list[JSON], patch: list[JSON], *, order: JSON, schema: MergeSchema, path: str) -> list[JSON]:
    merged: list[JSON]
    if schema.primitive:
        merged = merge_scalars(original, patch, order=order, path=path)
    elif schema.merge_key is None:
        merged = _clean_new_value(patch, schema, path)
    else:
        merged = _merge_elements(original, patch, order=order, schema=schema, path=path)
    return original if identical(original, merged) else merged


def _merge_elements(
    original: list[JSON], patch: list[JSON], *, order: JSON, schema: MergeSchema, path: str
) -> list[JSON]:
    key = schema.merge_key or ""
    edits = parse_edits(patch, key, path)
    merged = [] if edits.replace else drop_deleted(original, key, deleted=edits.deleted, path=path)
    positions = {identify_element(element, key, path): at for at, element in reversed(list(enumerate(merged)))}
    for identity, place, element in edits.upserts:
        position = positions.get(identity)
        if edits.replace or position is None:
            positions.setdefault(identity, len(merged))
            merged.append(_clean_new_object(element, schema, place))
        else:
            merged[position] = _merge_object(merged[position], element, schema=schema, path=place)
    named = [element for _, _, element in edits.upserts]
    if order is None or edits.replace:
        wanted = named if order is None else order
        return order_list(merged, wanted, named=named, schema=schema, path=path, server=original)
    # Upstream deletes and appends in the array of the server's list. Thereby new elements get the places of deleted
    # ones, and upstream takes that array for the server's order (patch.go: mergePatchIntoOriginal).
    server = merged[: len(original)]
    return order_list(merged, order, named=named, schema=schema, path=path, server=server)


def _clean_new_value(value: JSON, schema: MergeSchema, path: str) -> JSON:
    """Return a new value without nulls and directives, or _DROPPED for an object with ``$patch``."""
    if isinstance(value, dict):
        if _DIRECTIVE in value:
            _read_action(value, path)
            return _DROPPED
        return _clean_new_object(value, schema, path)
    if not isinstance(value, list):
        return value
    fresh: list[JSON] = []
    for number, element in enumerate(value):
        kept = _clean_new_value(element, schema, f"{path}/{number}")
        if kept is not _DROPPED:
            if schema.merge_key is not None:
                identify_element(kept, schema.merge_key, f"{path}/{number}")
            fresh.append(kept)
    return fresh


def _clean_new_object(value: JSONObject, schema: MergeSchema, path: str) -> JSONObject:
    fresh: JSONObject = {}
    for name, inner in value.items():
        if inner is None or _is_directive(name, path):
            continue
        kept = _clean_new_value(inner, schema.fields.get(name, _ATOMIC), f"{path}/{escape(name)}")
        if kept is not _DROPPED:
            fresh[name] = kept
    return fresh
