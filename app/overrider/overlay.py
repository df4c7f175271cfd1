"""Laying what a template names over the object that came in.

Like the set half of a strategic merge, with three differences that rendering needs: elements that the template names
come first and in its order, so that an index in a patch means the template's index whatever other webhooks appended;
nothing is ever deleted because the template does not name it; and what cannot stand beside a value that is set
(another volume source, another probe handler) makes room for it.
"""

from collections.abc import Mapping
from typing import Final

from app.model.json import JSON, JSONObject
from app.model.merge_keys import MergeSchema

_NO_SCHEMA: Final = MergeSchema()
_MISSING: Final = object()

# Members of the pod API of which at most one may be set (k8s.io/api/core/v1: ProbeHandler, LifecycleHandler, EnvVar);
# volume sources and the deployment strategy are covered by their schema's retain_keys.
_HANDLERS: Final = frozenset({"exec", "httpGet", "tcpSocket", "grpc", "sleep"})
_ENV_SOURCES: Final = frozenset({"value", "valueFrom"})
_EXCLUSIVE: Final[Mapping[str, frozenset[str]]] = {
    **dict.fromkeys(_HANDLERS, _HANDLERS),
    **dict.fromkeys(_ENV_SOURCES, _ENV_SOURCES),
}


def overlay(current: JSON, named: JSON, schema: MergeSchema) -> JSON:
    """Return ``current`` with everything that ``named`` names set to its value.

    Args:
        current: The object or part of it that came in; never changed.
        named: What the template says about it.
        schema: Merge keys of this part.

    Returns:
        ``current`` itself where nothing differs; branches that do not change are shared with ``current``.
    """
    if type(named) is dict and type(current) is dict:
        return _overlay_object(current, named, schema)
    if type(named) is list and type(current) is list:
        return _overlay_list(current, named, schema)
    return current if current == named else named


def _overlay_object(current: JSONObject, named: JSONObject, schema: MergeSchema) -> JSONObject:
    result: JSONObject | None = None
    fields = schema.fields
    for name, value in named.items():
        present = current.get(name, _MISSING)
        # Whole branches are compared in C first: most of a template stands in the object as it is. That takes 1 for
        # 1.0 and for true, which an apiserver would not let differ in a member of one type.
        if present == value:
            continue
        if type(value) is dict or type(value) is list:
            new = value if present is _MISSING else overlay(present, value, fields.get(name, _NO_SCHEMA))
        else:
            new = value
        if new is not present:
            if result is None:
                result = dict(current)
            if present is _MISSING and name in _EXCLUSIVE:
                _make_room(result, _EXCLUSIVE[name])
            result[name] = new
    if result is None:
        return current
    if schema.retain_keys:
        return {name: value for name, value in result.items() if name in named}
    return result


def _make_room(target: JSONObject, group: frozenset[str]) -> None:
    for other in group:
        target.pop(other, None)


def _overlay_list(current: list[JSON], named: list[JSON], schema: MergeSchema) -> list[JSON]:
    key = schema.merge_key
    if key is not None and (wanted := _by_key(named, key)) is not None:
        present = _by_key(current, key)
        if present is not None:
            return _overlay_elements(current, present, wanted, schema)
    if len(current) == len(named) and all(map(_covers, current, named)):
        return current
    return named


def _overlay_elements(
    current: list[JSON], present: dict[JSON, JSONObject], wanted: dict[JSON, JSONObject], schema: MergeSchema
) -> list[JSON]:
    merged: list[JSON] = []
    for key, element in wanted.items():
        before = present.get(key)
        if before is None:
            merged.append(element)
        else:
            merged.append(before if before == element else _overlay_object(before, element, schema))
    if len(present) > len(wanted) or present.keys() - wanted.keys():
        merged += [element for key, element in present.items() if key not in wanted]
    same = len(merged) == len(current) and all(map(_is, merged, current))
    return current if same else merged


def _is(left: JSON, right: JSON) -> bool:
    return left is right


def _by_key(elements: list[JSON], key: str) -> dict[JSON, JSONObject] | None:
    """Index a list by its merge key; None if it cannot be (an element without it, or two alike: 53/TCP and 53/UDP)."""
    index: dict[JSON, JSONObject] = {}
    for element in elements:
        value = element.get(key) if type(element) is dict else None
        if value is None or isinstance(value, (dict, list)) or value in index:
            return None
        index[value] = element
    return index


def _covers(current: JSON, named: JSON) -> bool:
    """Return whether ``current`` says all that ``named`` says: equal but for members the apiserver defaulted."""
    if current == named:
        return True
    if type(named) is dict:
        return type(current) is dict and all(
            name in current and _covers(current[name], value) for name, value in named.items()
        )
    if type(named) is list:
        return type(current) is list and len(current) == len(named) and all(map(_covers, current, named))
    return False
