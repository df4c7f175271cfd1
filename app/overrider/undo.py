"""Taking an earlier render back.

A render is recomputed from the template, but what the template does not name survives it, so something has to know
which of those members an earlier render put there: otherwise ``add /spec/template/spec/volumes/-`` would append once
more at every update, and a deleted overrider would leave its additions behind for ever. That memory is the annotation
``fleethook.io/undo``: a strategic merge patch in the small (nulls and ``$patch: delete``), readable by a person and
applicable by ``kubectl patch --type strategic``.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from app.model.json import JSON, JSONObject
from app.model.merge_keys import MergeSchema

RENDERED_ANNOTATION: Final = "fleethook.io/rendered"
"""Hash over everything that a render depended on."""
UNDO_ANNOTATION: Final = "fleethook.io/undo"

_NO_SCHEMA: Final = MergeSchema()
_MISSING: Final = object()
_DIRECTIVE: Final = "$patch"


def undo_of(before: JSONObject, after: JSONObject, *, named: JSON, schema: MergeSchema) -> JSONObject:
    """Return what takes the additions of ``after`` over ``before`` away again.

    Args:
        before: The base, without overrides.
        after: The base with overrides applied.
        named: What the template names; a changed value under a named path needs no undo, the template restores it.
        schema: Merge keys.
    """
    undo: JSONObject = {}
    for name, value in after.items():
        present = before.get(name, _MISSING)
        if present is value:
            continue
        child = schema.fields.get(name, _NO_SCHEMA)
        inner = named.get(name, _MISSING) if isinstance(named, dict) else _MISSING
        if present is _MISSING:
            undo[name] = _undo_added(value, child)
        elif (step := _undo_changed(present, value, named=inner, schema=child)) is not _MISSING:
            undo[name] = step
    return undo


def as_annotation(undo: JSONObject) -> str:
    """Return ``undo`` as text for an annotation, always the same for the same undo; ``""`` where there is none."""
    return msgspec.json.encode(undo, order="sorted").decode() if undo else ""


def annotations_of(digest: str, undo_text: str) -> dict[str, str]:
    """Return the annotations that a render leaves on a workload; none for an empty text."""
    rendered = {RENDERED_ANNOTATION: digest} if digest else {}
    return {**rendered, UNDO_ANNOTATION: undo_text} if undo_text else rendered


def _undo_added(value: JSON, schema: MergeSchema) -> JSON:
    if isinstance(value, dict) and value:
        return {name: _undo_added(inner, schema.fields.get(name, _NO_SCHEMA)) for name, inner in value.items()}
    if isinstance(value, list) and value and schema.merge_key and _keyed(value, schema.merge_key):
        return [_delete(element, schema.merge_key) for element in value]
    return None


def _undo_changed(before: JSON, after: JSON, *, named: JSON, schema: MergeSchema) -> JSON:
    """Return the undo of a changed member, or _MISSING where none is needed."""
    if isinstance(before, dict) and isinstance(after, dict):
        return undo_of(before, after, named=named, schema=schema) or _MISSING
    key = schema.merge_key
    if key and _keyed(before, key) and _keyed(after, key):
        return _undo_elements(before, after, named=named, schema=schema, key=key) or _MISSING
    return None if named is _MISSING and before != after else _MISSING


def _undo_elements(
    before: list[JSONObject], after: list[JSONObject], *, named: JSON, schema: MergeSchema, key: str
) -> list[JSON]:
    present = {element[key]: element for element in before}
    wanted = {element[key]: element for element in named} if _keyed(named, key) else {}
    undo: list[JSON] = []
    for element in after:
        known = present.get(element[key])
        if known is None:
            undo.append(_delete(element, key))
        elif step := undo_of(known, element, named=wanted.get(element[key], _MISSING), schema=schema):
            undo.append({key: element[key], **step})
    return undo


def _keyed(value: JSON, key: str) -> bool:
    return isinstance(value, list) and all(
        isinstance(element, dict) and isinstance(element.get(key), (str, int)) for element in value
    )


def _delete(element: JSONObject, key: str) -> JSONObject:
    return {_DIRECTIVE: "delete", key: element[key]}


def retract(current: JSONObject, undo: Mapping[str, JSON], schema: MergeSchema) -> JSONObject:
    """Return ``current`` without what ``undo`` names; members emptied by that go too.

    ``undo`` comes from an annotation that anybody who may write the workload may write, so whatever does not fit the
    object is passed over.
    """
    result: JSONObject | None = None
    for name, step in undo.items():
        present = current.get(name, _MISSING)
        if present is _MISSING:
            continue
        kept = _retract_member(present, step, schema.fields.get(name, _NO_SCHEMA))
        if kept is present:
            continue
        if result is None:
            result = dict(current)
        if kept is _MISSING or kept in ({}, []):
            del result[name]
        else:
            result[name] = kept
    return current if result is None else result


def _retract_member(present: JSON, step: JSON, schema: MergeSchema) -> JSON:
    if step is None:
        return _MISSING
    if isinstance(step, dict) and isinstance(present, dict):
        return retract(present, step, schema)
    if isinstance(step, list) and isinstance(present, list) and schema.merge_key:
        return _retract_elements(present, step, schema, schema.merge_key)
    return present


def _retract_elements(present: list[JSON], undo: list[JSON], schema: MergeSchema, key: str) -> list[JSON]:
    steps = {step[key]: step for step in undo if isinstance(step, dict) and isinstance(step.get(key), (str, int))}
    kept: list[JSON] = []
    for element in present:
        step = steps.get(element.get(key)) if isinstance(element, dict) and _scalar(element.get(key)) else None
        if step is None:
            kept.append(element)
        elif step.get(_DIRECTIVE) != "delete":
            kept.append(retract(element, {name: part for name, part in step.items() if name != key}, schema))
    same = len(kept) == len(present) and all(left is right for left, right in zip(kept, present, strict=True))
    return present if same else kept


def _scalar(value: JSON) -> bool:
    return isinstance(value, (str, int))
