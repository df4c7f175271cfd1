"""Laying desired members over an object that holds other people's members as well.

Like the set half of a strategic merge, with three differences that rendering needs: every element that is there keeps
its place, so that neither a template nor an overrider moves what another webhook added; nothing is ever deleted
because it is not named; and a member that cannot stand beside one that is set (another volume source, another probe
handler) makes room for it.
"""

from collections.abc import Mapping
from typing import Final

from app.model.json import JSON, JSONObject
from app.model.merge_keys import MergeSchema
from app.overrider.elements import Identity, index_elements, merge_elements

_NO_SCHEMA: Final = MergeSchema()
_MISSING: Final = object()

# Members of the pod API of which at most one may be set (k8s.io/api/core/v1: ProbeHandler, LifecycleHandler, EnvVar);
# volume sources and the deployment strategy are covered by their schema's retain_keys.
_HANDLERS: Final = frozenset({"exec", "httpGet", "tcpSocket", "grpc", "sleep"})
_ENV_SOURCES: Final = frozenset({"value", "valueFrom"})
EXCLUSIVE: Final[Mapping[str, frozenset[str]]] = {
    **dict.fromkeys(_HANDLERS, _HANDLERS),
    **dict.fromkeys(_ENV_SOURCES, _ENV_SOURCES),
}


def overlay(current: JSON, named: JSON, schema: MergeSchema) -> JSON:
    """Return ``current`` with everything that ``named`` names set to its value.

    Args:
        current: The object or part of it that came in; never changed.
        named: What is desired of it.
        schema: Merge keys of this part.

    Returns:
        ``current`` itself where nothing differs; branches that do not change are shared with ``current``.
    """
    if type(named) is dict and type(current) is dict:
        return overlay_object(current, named, schema)
    if type(named) is list and type(current) is list:
        return _overlay_list(current, named, schema)
    return current if current == named else named


def overlay_object(current: JSONObject, named: JSONObject, schema: MergeSchema) -> JSONObject:
    """Return what `overlay` returns for two objects."""
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
            if present is _MISSING and name in EXCLUSIVE:
                _make_room(result, EXCLUSIVE[name])
            result[name] = new
    if result is None:
        return current
    if schema.retain_keys and _switches(current, named):
        return {name: value for name, value in result.items() if name in named}
    return result


def _switches(current: JSONObject, named: JSONObject) -> bool:
    """Return whether ``named`` chooses another member of a union, so that what is left of the former has to go.

    It does where it sets a member that is not there (another volume source), or a discriminator to another value
    (``type: Recreate``); members that an apiserver defaulted beside the same choice stay.
    """
    return any(
        name not in current or (type(value) not in (dict, list) and current[name] != value)
        for name, value in named.items()
    )


def _make_room(target: JSONObject, group: frozenset[str]) -> None:
    for other in group:
        target.pop(other, None)


def _overlay_list(current: list[JSON], named: list[JSON], schema: MergeSchema) -> list[JSON]:
    wanted = index_elements(named, schema)
    present = None if wanted is None else index_elements(current, schema)
    if wanted is not None and present is not None:
        return _overlay_elements(current, present, wanted, schema)
    if len(current) == len(named) and all(map(covers, current, named)):
        return current
    return named


def _overlay_elements(
    current: list[JSON],
    present: dict[Identity, JSONObject],
    wanted: dict[Identity, JSONObject],
    schema: MergeSchema,
) -> list[JSON]:
    merged = dict(present)
    for identity, element in wanted.items():
        before = present.get(identity)
        if before is None:
            merged[identity] = element
        elif before != element:
            merged[identity] = overlay_object(before, element, schema)
    return merge_elements(current, present, merged, list(wanted))


def covers(current: JSON, named: JSON) -> bool:
    """Return whether ``current`` says all that ``named`` says: equal but for members the apiserver defaulted."""
    if current == named:
        return True
    if type(named) is dict:
        return type(current) is dict and all(
            name in current and covers(current[name], value) for name, value in named.items()
        )
    if type(named) is list:
        return type(current) is list and len(current) == len(named) and all(map(covers, current, named))
    return False
