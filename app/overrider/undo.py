"""Computes and applies the undo of a render.

Each render starts from the template, but keeps all members that the template does not name. So a render must record
which of these members it added, and which values of other writers it replaced. The record is the annotation
``fleethook.io/undo``, a small strategic merge patch that ``kubectl patch --type strategic`` can apply. Null and
``$patch: delete`` mark members and elements that the render added; a value is one that it replaced. The undo of an
added element also lists its members, which ``$patch: delete`` ignores. An edited overrider may add the same element
without one of them.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec

from app.model.json import JSON, JSONObject, as_object
from app.model.merge_keys import MergeSchema
from app.overrider.elements import Identity, identify, index_elements, is_shared
from app.overrider.overlay import EXCLUSIVE

RENDERED_ANNOTATION: Final = "fleethook.io/rendered"
"""Hash over all inputs of the render."""
UNDO_ANNOTATION: Final = "fleethook.io/undo"
RESERVED_PREFIX: Final = "fleethook.io/"
"""The prefix of annotations and labels that only fleethook writes."""

_NO_SCHEMA: Final = MergeSchema()
_MISSING: Final = object()
_DIRECTIVE: Final = "$patch"
EVERYTHING: Final = object()
"""Used as ``named``: the template names every existing member, so that only additions are undone."""


class Memory(NamedTuple):
    """The annotations that the last render set on a workload."""

    digest: str
    undo_text: str

    @property
    def undo(self) -> JSONObject:
        """The undo, ``{}`` if the annotation is not valid: every writer of the workload can change it."""
        try:
            undo = msgspec.json.decode(self.undo_text or b"{}")
        except msgspec.DecodeError:
            return {}
        return undo if isinstance(undo, dict) else {}


def remembered(workload: Mapping[str, JSON]) -> Memory | None:
    """Return the memory of the last render of ``workload``, None if it was never rendered."""
    annotations = as_object(as_object(workload.get("metadata")).get("annotations"))
    digest, undo_text = annotations.get(RENDERED_ANNOTATION), annotations.get(UNDO_ANNOTATION)
    if digest is None and undo_text is None:
        return None
    return Memory(digest if isinstance(digest, str) else "", undo_text if isinstance(undo_text, str) else "")


def undo_of(before: JSONObject, after: JSONObject, *, named: JSON, schema: MergeSchema) -> JSONObject:
    """Return the undo from ``after`` to ``before``, without values that the template restores.

    Args:
        before: The base, without overrides.
        after: The base with overrides applied.
        named: The members that the template names and therefore restores, or EVERYTHING.
        schema: Merge keys.
    """
    undo: JSONObject = {}
    for name, value in after.items():
        present = before.get(name, _MISSING)
        if present is value:
            continue
        child = schema.fields.get(name, _NO_SCHEMA)
        inner = named if named is EVERYTHING else as_object(named).get(name, _MISSING)
        if present is _MISSING:
            if value or not is_shared(name, value, child):
                undo[name] = _undo_added(value, child)
        elif (step := _undo_changed(present, value, named=inner, schema=child)) is not _MISSING:
            undo[name] = step
    if named is not EVERYTHING:
        undo |= {name: value for name, value in before.items() if name not in after and name not in as_object(named)}
    return undo


def as_annotation(undo: JSONObject) -> str:
    """Encode ``undo`` for an annotation with sorted keys; ``""`` for an empty undo."""
    return msgspec.json.encode(undo, order="sorted").decode() if undo else ""


def annotations_of(digest: str, undo_text: str) -> dict[str, str]:
    """Return the annotations that a render sets on a workload, without empty ones."""
    rendered = {RENDERED_ANNOTATION: digest} if digest else {}
    return {**rendered, UNDO_ANNOTATION: undo_text} if undo_text else rendered


def _undo_added(value: JSON, schema: MergeSchema) -> JSON:
    if isinstance(value, dict) and value:
        return {name: _undo_added(inner, schema.fields.get(name, _NO_SCHEMA)) for name, inner in value.items()}
    elements = index_elements(value, schema)
    # One step removes all elements with the same identity, which may repeat in env.
    return [_delete(element, schema) for (*_, n), element in elements.items() if n == 0] if elements else None


def _undo_changed(before: JSON, after: JSON, *, named: JSON, schema: MergeSchema) -> JSON:
    """Return the undo of a changed member, _MISSING if none is needed."""
    if isinstance(before, dict) and isinstance(after, dict):
        return undo_of(before, after, named=named, schema=schema) or _MISSING
    present, wanted = index_elements(before, schema), index_elements(after, schema)
    if present is not None and wanted is not None:
        return _undo_elements(present, wanted, named=named, schema=schema) or _MISSING
    return before if named is _MISSING and before != after else _MISSING


def _undo_elements(
    before: Mapping[Identity, JSONObject], after: Mapping[Identity, JSONObject], *, named: JSON, schema: MergeSchema
) -> list[JSON]:
    template = index_elements(named, schema) or {}
    absent = EVERYTHING if named is EVERYTHING else _MISSING
    undo: list[JSON] = []
    for identity, element in after.items():
        known = before.get(identity)
        if known is None:
            step = _delete(element, schema)
            undo += [] if step in undo else [step]
        elif known is not element and (
            step := undo_of(known, element, named=template.get(identity, absent), schema=schema)
        ):
            undo.append({**_select_identifying(element, schema), **step})
    return undo


def _select_identifying(element: JSONObject, schema: MergeSchema) -> JSONObject:
    return {member: element[member] for member, _ in schema.identity if member in element}


def _delete(element: JSONObject, schema: MergeSchema) -> JSONObject:
    identifying = _select_identifying(element, schema)
    members = {
        name: _undo_added(value, schema.fields.get(name, _NO_SCHEMA))
        for name, value in element.items()
        if name not in identifying
    }
    return {_DIRECTIVE: "delete", **identifying, **members}


def retract(current: JSONObject, undo: Mapping[str, JSON], schema: MergeSchema) -> JSONObject:
    """Return ``current`` with ``undo`` applied, and without members that it empties.

    A replaced value is restored if the member that replaced it still exists, or if this call removes it. Otherwise the
    owner rewrote the object, and the replaced value is obsolete. Steps that do not fit the object are skipped.
    """
    result: JSONObject | None = None
    absent: list[str] = []
    for name, step in undo.items():
        present = current.get(name, _MISSING)
        if present is _MISSING:
            absent.append(name)
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
    if result is None:
        return current
    for name in absent:
        restored = _get_restored(undo[name])
        if restored is not _MISSING:
            result[name] = restored
    return result


def _retract_member(present: JSON, step: JSON, schema: MergeSchema) -> JSON:
    if step is None:
        return _MISSING
    if isinstance(step, dict):
        return retract(present, step, schema) if isinstance(present, dict) else present
    if isinstance(step, list) and schema.identity:
        return _retract_elements(present, step, schema) if isinstance(present, list) else present
    return present if step == present else step


def _retract_elements(present: list[JSON], undo: list[JSON], schema: MergeSchema) -> list[JSON]:
    steps = {identity: step for step in undo if isinstance(step, dict) and (identity := identify(step, schema))}
    kept: list[JSON] = []
    for element in present:
        step = steps.get(identify(element, schema) or ()) if isinstance(element, dict) else None
        if step is None:
            kept.append(element)
        elif step.get(_DIRECTIVE) != "delete":
            inner = {name: part for name, part in step.items() if name not in _select_identifying(step, schema)}
            kept.append(retract(element, inner, schema))
    same = len(kept) == len(present) and all(left is right for left, right in zip(kept, present, strict=True))
    return present if same else kept


def _get_restored(step: JSON) -> JSON:
    """Return the values that a step restores, _MISSING if it restores none."""
    if step is None:
        return _MISSING
    if isinstance(step, dict):
        if _DIRECTIVE in step:
            return _MISSING
        values = {name: value for name, inner in step.items() if (value := _get_restored(inner)) is not _MISSING}
        return values or _MISSING
    if isinstance(step, list):
        elements = [value for inner in step if (value := _get_restored(inner)) is not _MISSING]
        return elements or _MISSING
    return step


def split_undo(undo: Mapping[str, JSON], places: JSON, schema: MergeSchema) -> tuple[JSONObject, JSONObject]:
    """Split ``undo`` into the steps of members that ``places`` has, too, and the other steps.

    Args:
        undo: The undo of the last render.
        places: Another undo, or the members that a template names.
        schema: Merge keys.
    """
    within: JSONObject = {}
    beyond: JSONObject = {}
    for name, step in undo.items():
        if not isinstance(places, dict) or name not in places:
            # A member that excludes another one is undone together with that one.
            shared = isinstance(places, dict) and not EXCLUSIVE.get(name, frozenset()).isdisjoint(places)
            (within if shared else beyond)[name] = step
            continue
        child, place = schema.fields.get(name, _NO_SCHEMA), places[name]
        inner: JSON
        outer: JSON
        if child.retain_keys and not child.identity:
            inner, outer = step, None
        elif isinstance(step, dict) and isinstance(place, dict):
            inner, outer = split_undo(step, place, child)
        elif isinstance(step, list) and isinstance(place, list) and child.identity:
            inner, outer = _split_elements(step, place, child)
        else:
            inner, outer = step, None
        if inner or not isinstance(inner, (dict, list)):
            within[name] = inner
        if outer:
            beyond[name] = outer
    return within, beyond


def _split_elements(undo: list[JSON], places: list[JSON], schema: MergeSchema) -> tuple[list[JSON], list[JSON]]:
    known = {identify(place, schema): place for place in places if isinstance(place, dict)}
    within: list[JSON] = []
    beyond: list[JSON] = []
    for step in undo:
        place = known.get(identify(step, schema)) if isinstance(step, dict) else None
        if place is None:
            beyond.append(step)
        elif schema.retain_keys or (_DIRECTIVE in place and _DIRECTIVE not in step):
            within.append(step)
        else:
            # An element that still exists keeps its directive. Members that no longer exist are undone.
            identifying = _select_identifying(step, schema)
            directive = {name: step[name] for name in (_DIRECTIVE,) if name in step}
            parts = {name: part for name, part in step.items() if name not in {*identifying, *directive}}
            kept, gone = split_undo(parts, place, schema)
            within += [{**directive, **identifying, **kept}] if kept or directive else []
            beyond += [{**identifying, **gone}] if gone else []
    return within, beyond


def merge_undos(first: JSONObject, second: JSONObject, schema: MergeSchema) -> JSONObject:
    """Merge two undos; the second one wins if both have a step for a member."""
    if not second:
        return first
    merged = dict(first)
    for name, step in second.items():
        known, child = first.get(name), schema.fields.get(name, _NO_SCHEMA)
        if isinstance(known, dict) and isinstance(step, dict) and _DIRECTIVE not in step:
            merged[name] = merge_undos(known, step, child)
        elif isinstance(known, list) and isinstance(step, list) and child.identity:
            merged[name] = _merge_element_undos(known, step, child)
        else:
            merged[name] = step
    return merged


def _merge_element_undos(first: list[JSON], second: list[JSON], schema: MergeSchema) -> list[JSON]:
    by_identity: dict[Identity | None, JSONObject] = {identify(step, schema): step for step in first}
    for step in second:
        identity = identify(step, schema)
        known = by_identity.get(identity)
        if known is None or _DIRECTIVE in known or _DIRECTIVE in step:
            by_identity[identity] = step
        else:
            by_identity[identity] = merge_undos(known, step, schema)
    return list(by_identity.values())


def outside_added(undo: JSONObject, memory: JSONObject, schema: MergeSchema) -> JSONObject:
    """Return ``undo`` without its steps inside elements that an earlier render added.

    Undo removes such an element with all its values, so replaced values in it need no steps.

    Args:
        undo: The undo of the values that a render replaced.
        memory: The undo of the earlier render.
        schema: Merge keys.
    """
    made: JSONObject = {}
    for name, step in undo.items():
        known, child = memory.get(name), schema.fields.get(name, _NO_SCHEMA)
        kept: JSON = step
        if isinstance(step, dict) and isinstance(known, dict):
            kept = outside_added(step, known, child)
        elif isinstance(step, list) and isinstance(known, list) and child.identity:
            kept = _filter_element_undos(step, known, child)
        if kept or kept is step:
            made[name] = kept
    return made


def _filter_element_undos(undo: list[JSON], memory: list[JSON], schema: MergeSchema) -> list[JSON]:
    known = {identify(step, schema): step for step in memory if isinstance(step, dict)}
    made: list[JSON] = []
    for step in undo:
        former = known.get(identify(step, schema)) if isinstance(step, dict) else None
        if former is None or _DIRECTIVE in step:
            made.append(step)
        elif _DIRECTIVE not in former:
            identifying = _select_identifying(step, schema)
            inner = {name: part for name, part in step.items() if name not in identifying}
            if kept := outside_added(inner, former, schema):
                made.append({**identifying, **kept})
    return made
