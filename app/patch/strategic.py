"""Strategic merge patch, as k8s.io/apimachinery/pkg/util/strategicpatch applies it."""

from collections.abc import Iterable
from typing import Final

from app.model.json import JSON, JSONObject
from app.model.merge_keys import MergeSchema
from app.patch.equality import identical
from app.patch.pointer import escape

_DIRECTIVE: Final = "$patch"
_RETAIN: Final = "$retainKeys"
_DELETE_PREFIX: Final = "$deleteFromPrimitiveList/"
_ORDER_PREFIX: Final = "$setElementOrder/"
_ACTIONS: Final = frozenset({"delete", "replace", "merge"})
_ATOMIC: Final = MergeSchema()
_MISSING: Final = object()


class StrategicMergeError(ValueError):
    """A strategic merge patch that does not fit; the text starts with the JSON pointer of the place."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path or '/'}: {reason}")
        self.path = path
        self.reason = reason


def strategic_merge(original: JSON, patch: JSON, schema: MergeSchema) -> JSON:
    """Return ``original`` with ``patch`` merged into it.

    Null deletes a member; objects merge member by member; lists with a merge key merge element by element, other
    lists are replaced. ``$patch: delete|replace|merge``, ``$retainKeys``, ``$deleteFromPrimitiveList/<member>`` and
    ``$setElementOrder/<member>`` do what they do upstream.

    Args:
        original: The object; never changed. What the patch does not touch is shared with the result.
        patch: The patch.
        schema: Merge keys of the object.

    Raises:
        StrategicMergeError: An element without its merge key, a list where an object is, an unknown directive.
    """
    if not isinstance(original, dict) or not isinstance(patch, dict):
        raise StrategicMergeError("", "both the object and the patch must be JSON objects")
    merged = _merge_object(original, patch, schema, "")
    return {} if merged is _MISSING else merged


def _merge_object(original: JSONObject, patch: JSONObject, schema: MergeSchema, path: str) -> JSON:
    action = _action(patch, path)
    if action == "replace":
        return {name: value for name, value in patch.items() if name != _DIRECTIVE}
    if action == "delete":
        return _MISSING
    result = dict(original)
    if _RETAIN in patch:
        retained = _list(patch[_RETAIN], f"{path}/{_RETAIN}")
        result = {name: value for name, value in result.items() if name in retained}
    for name, value in patch.items():
        if name.startswith(_DELETE_PREFIX):
            _delete_scalars(result, name.removeprefix(_DELETE_PREFIX), value, path)
    for name, value in patch.items():
        if not name.startswith("$"):
            _merge_member(result, name, value, schema.fields.get(name, _ATOMIC), f"{path}/{escape(name)}")
        elif name not in (_DIRECTIVE, _RETAIN) and not name.startswith((_DELETE_PREFIX, _ORDER_PREFIX)):
            raise StrategicMergeError(f"{path}/{escape(name)}", "is an unknown directive")
    _apply_orders(result, original, patch, schema, path)
    same = len(result) == len(original) and all(original.get(name, _MISSING) is value for name, value in result.items())
    return original if same else result


def _apply_orders(result: JSONObject, original: JSONObject, patch: JSONObject, schema: MergeSchema, path: str) -> None:
    for name, value in patch.items():
        if name.startswith(_ORDER_PREFIX):
            member = name.removeprefix(_ORDER_PREFIX)
            _reorder(result, original, member, _list(value, path), schema.fields.get(member, _ATOMIC))


def _action(patch: JSONObject, path: str) -> str:
    action = patch.get(_DIRECTIVE, "merge")
    if action not in _ACTIONS:
        raise StrategicMergeError(f"{path}/{_DIRECTIVE}", f"must be delete, replace or merge, not {action!r}")
    return str(action)


def _list(value: JSON, path: str) -> list[JSON]:
    if not isinstance(value, list):
        raise StrategicMergeError(path, "must be a list")
    return value


def _merge_member(result: JSONObject, name: str, value: JSON, schema: MergeSchema, path: str) -> None:
    if value is None:
        result.pop(name, None)
        return
    present = result.get(name)
    if present is not None and isinstance(present, (dict, list)) and type(present) is not type(value):
        raise StrategicMergeError(path, f"the patch has {_kind(value)} where the object has {_kind(present)}")
    if isinstance(value, dict):
        merged = _merge_object(present or {}, value, schema, path)
    elif isinstance(value, list):
        merged = _merge_list(present or [], value, schema, path)
    else:
        merged = present if name in result and identical(present, value) else value
    if merged is _MISSING:
        result.pop(name, None)
    else:
        result[name] = merged


def _kind(value: JSON) -> str:
    return "an object" if isinstance(value, dict) else "a list" if isinstance(value, list) else "a scalar"


def _merge_list(original: list[JSON], patch: list[JSON], schema: MergeSchema, path: str) -> list[JSON]:
    if schema.primitive:
        added = [value for value in dict.fromkeys(patch) if value not in original]
        return [*original, *added] if added else original
    if schema.merge_key is None:
        return original if identical(original, patch) else patch
    if any(isinstance(element, dict) and element == {_DIRECTIVE: "replace"} for element in patch):
        return [element for element in patch if element != {_DIRECTIVE: "replace"}]
    return _merge_elements(original, patch, schema, path)


def _merge_elements(original: list[JSON], patch: list[JSON], schema: MergeSchema, path: str) -> list[JSON]:
    key = schema.merge_key or ""
    result = list(original)
    for number, element in enumerate(patch):
        place = f"{path}/{number}"
        if not isinstance(element, dict) or element.get(key) is None:
            raise StrategicMergeError(place, f"has no {key!r}, by which elements of this list are merged")
        position = _position(result, key, element[key])
        action = _action(element, place)
        stated = {name: value for name, value in element.items() if name != _DIRECTIVE}
        if action == "delete":
            result = [other for other in result if not (isinstance(other, dict) and other.get(key) == element[key])]
        elif position is None:
            result.append(_merge_object({}, stated, schema, place))
        elif action == "replace":
            result[position] = stated
        else:
            result[position] = _merge_object(result[position], stated, schema, place)
    same = len(result) == len(original) and all(left is right for left, right in zip(result, original, strict=True))
    return original if same else result


def _position(elements: list[JSON], key: str, value: JSON) -> int | None:
    for position, element in enumerate(elements):
        if isinstance(element, dict) and element.get(key) == value:
            return position
    return None


def _delete_scalars(result: JSONObject, name: str, values: JSON, path: str) -> None:
    present = result.get(name)
    unwanted = _list(values, f"{path}/{_DELETE_PREFIX}{name}")
    if isinstance(present, list) and any(value in unwanted for value in present):
        result[name] = [value for value in present if value not in unwanted]


def _reorder(result: JSONObject, original: JSONObject, name: str, order: list[JSON], schema: MergeSchema) -> None:
    """Sort a merged list: what the patch orders in its order, the server's own elements where they stood before it."""
    present = result.get(name)
    if not isinstance(present, list):
        return
    key = schema.merge_key
    wanted = [_identity(element, key) for element in order]
    before = [_identity(element, key) for element in original.get(name) or ()]
    ordered = [element for element in present if _identity(element, key) in wanted]
    ordered.sort(key=lambda element: wanted.index(_identity(element, key)))
    others = [element for element in present if _identity(element, key) not in wanted]
    result[name] = list(_interleave(others, ordered, before, key))


def _interleave(others: list[JSON], ordered: list[JSON], before: list[JSON], key: str | None) -> Iterable[JSON]:
    # mergeSortedSlice: a server-only element goes first only where it stood before the patched one on the server.
    left, right = list(others), list(ordered)
    while left and right:
        first, second = _identity(left[0], key), _identity(right[0], key)
        earlier = first in before and second in before and before.index(first) < before.index(second)
        yield left.pop(0) if earlier else right.pop(0)
    yield from left
    yield from right


def _identity(element: JSON, key: str | None) -> JSON:
    return element.get(key) if key is not None and isinstance(element, dict) else element
