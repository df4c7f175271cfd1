"""Computes and applies the undo of a render.

Each render starts from the workload as it was without overrides, which `retract` restores. So a render must record the
units that it added, and the values of other writers that it replaced. A unit is a value that the API treats as one: a
scalar, an atomic list, an element of another list, or an object, because kube-apiserver completes an added object. The
exceptions are maps and the objects of `_PARTED`, in which each client sets its own members.

The record is the annotation ``fleethook.io/undo``, a small strategic merge patch. Null and ``$patch: delete`` mark
added members and elements; a value is one that the render replaced. Values of the template are not recorded, because
the template is laid over the workload again: ``$patch: merge``, which changes nothing, marks the members that the
render replaced or removed. An empty list marks a list of the template to whose elements the render added members.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec

from fleethook.engines.overrider.render.list_elements_and_order import Identity, identify, index_elements, is_shared
from fleethook.engines.overrider.render.overlay_and_defaults import covers
from fleethook.model.json import ABSENT, JSON, JSONObject, as_object
from fleethook.model.merge_keys import MergeSchema
from fleethook.model.openyurt import TRIGGER_ANNOTATION

_NO_SCHEMA: Final = MergeSchema()
_DIRECTIVE: Final = "$patch"
_RESTORED: Final = {_DIRECTIVE: "merge"}
"""The step of a member or an element that the template restores."""
# Objects without defaults and choices of their own.
_PARTED: Final = frozenset(
    {
        "affinity", "capabilities", "dnsConfig", "lifecycle", "metadata", "nodeAffinity", "podAffinity",
        "podAntiAffinity", "resources", "securityContext", "spec", "template",
    }
)  # fmt: skip


def undo_of(
    before: JSONObject, after: JSONObject, *, template_fields: JSON, schema: MergeSchema, marks: bool = False
) -> JSONObject:
    """Return the undo from ``after`` to ``before``, without values that the template restores.

    Args:
        before: The workload without overrides, or a part of it.
        after: The same with overrides.
        template_fields: The members that the template names and therefore restores.
        schema: Merge keys.
        marks: Whether to mark the members that the template restores.
    """
    undo: JSONObject = {}
    for name, value in after.items():
        present = before.get(name, ABSENT)
        if present is value:
            continue
        child = schema.fields.get(name, _NO_SCHEMA)
        inner = as_object(template_fields).get(name, ABSENT)
        if present is ABSENT:
            if value or not is_shared(name, value, child):
                undo[name] = _undo_added(name, value, child)
        elif (step := _undo_changed(present, value, template_fields=inner, schema=child, marks=marks)) is not ABSENT:
            undo[name] = step
    gone = {name: value for name, value in before.items() if name not in after and value is not None}
    if marks:
        identifying = {member for member, _ in schema.identity}
        undo |= {name: _RESTORED for name in gone if name in as_object(template_fields) and name not in identifying}
    if schema.retain_keys and isinstance(template_fields, dict) and (schema.identity or "type" in template_fields):
        return undo  # The template restores its choice.
    return undo | {name: value for name, value in gone.items() if name not in as_object(template_fields)}


def as_annotation(undo: JSONObject) -> str:
    """Encode ``undo`` for an annotation with sorted keys; ``""`` for an empty undo."""
    return msgspec.json.encode(undo, order="sorted").decode() if undo else ""


def _undo_added(name: str, value: JSON, schema: MergeSchema) -> JSON:
    if isinstance(value, dict) and value and (name in _PARTED or is_shared(name, value, schema)):
        return {one: _undo_added(one, inner, schema.fields.get(one, _NO_SCHEMA)) for one, inner in value.items()}
    elements = index_elements(value, schema)
    # One step removes all elements with the same identity, which may repeat in env.
    return [_delete(element, schema) for (*_, n), element in elements.items() if n == 0] if elements else None


def _undo_changed(before: JSON, after: JSON, *, template_fields: JSON, schema: MergeSchema, marks: bool) -> JSON:
    """Return the undo of a changed member, ABSENT if none is needed."""
    if isinstance(before, dict) and isinstance(after, dict):
        return undo_of(before, after, template_fields=template_fields, schema=schema, marks=marks) or ABSENT
    present, rendered = index_elements(before, schema), index_elements(after, schema)
    if present is not None and rendered is not None:
        return _undo_elements(present, rendered, template_fields=template_fields, schema=schema, marks=marks) or ABSENT
    if before == after:
        return ABSENT
    if template_fields is ABSENT:
        return before
    # Laying the template over a list keeps further members of its elements, which are defaults otherwise.
    if isinstance(after, list) and covers(after, before):
        return []
    return _RESTORED if marks else ABSENT


def _undo_elements(
    before: Mapping[Identity, JSONObject],
    after: Mapping[Identity, JSONObject],
    *,
    template_fields: JSON,
    schema: MergeSchema,
    marks: bool,
) -> list[JSON]:
    template = index_elements(template_fields, schema) or {}
    undo: list[JSON] = []
    for identity, element in after.items():
        known = before.get(identity)
        if known is None:
            step = _delete(element, schema)
            undo += [] if step in undo else [step]
        elif known is not element and (
            step := undo_of(known, element, template_fields=template.get(identity, ABSENT), schema=schema, marks=marks)
        ):
            identifying = _select_identifying(element, schema)
            # A default that identifies the element may be absent in one of both. The template restores the element.
            undo.append(_delete(element, schema) if step.keys() & identifying.keys() else {**identifying, **step})
    gone = [element for identity, element in before.items() if identity not in after and identity in template]
    return [*undo, *({**_select_identifying(one, schema), **_RESTORED} for one in gone)] if marks else undo


def _select_identifying(element: JSONObject, schema: MergeSchema) -> JSONObject:
    return {name: element.get(name, default) for name, default in schema.identity if name in element or default}


def _delete(element: JSONObject, schema: MergeSchema) -> JSONObject:
    return {_DIRECTIVE: "delete", **_select_identifying(element, schema)}


def retract(
    current: JSONObject, undo: Mapping[str, JSON], schema: MergeSchema, *, rendered: JSON = None, empties: bool = True
) -> JSONObject:
    """Return ``current`` with ``undo`` applied, and without members that it empties.

    A replaced value is restored if the member that replaced it still exists, or if this call removes it. Otherwise the
    owner rewrote the object, and the replaced value is obsolete. Steps that do not fit the object are skipped.

    Args:
        current: The workload, or a part of it. It is not modified.
        undo: The undo of the last render.
        schema: Merge keys.
        rendered: The same part with the values that the last render set, None if they are not known. A value that
            differs was written since, so it stays.
        empties: Whether to remove the atomic lists to which the render added members; the template restores them.
    """
    result: JSONObject | None = None
    absent: list[str] = []
    for name, step in undo.items():
        present = current.get(name, ABSENT)
        if present is ABSENT:
            absent.append(name)
            continue
        known = rendered.get(name, {}) if isinstance(rendered, dict) else None
        child = schema.fields.get(name, _NO_SCHEMA)
        kept = present if step == [] and not empties else _retract_member(present, step, child, known, empties=empties)
        if kept is present:
            continue
        if result is None:
            result = dict(current)
        if kept is ABSENT or (kept in ({}, []) and (name in _PARTED or is_shared(name, kept, child))):
            del result[name]
        else:
            result[name] = kept
    if result is None:
        return current
    for name in absent:
        restored = _get_restored(undo[name])
        if restored is not ABSENT:
            result[name] = restored
    return result


def _retract_member(present: JSON, step: JSON, schema: MergeSchema, rendered: JSON, *, empties: bool) -> JSON:
    if isinstance(step, dict) and step:
        inner = isinstance(present, dict)
        return retract(present, step, schema, rendered=rendered, empties=empties) if inner else present
    if isinstance(step, list) and step and schema.identity:
        inner = isinstance(present, list)
        return _retract_elements(present, step, schema, rendered, empties=empties) if inner else present
    if rendered is not None and not isinstance(present, dict) and not covers(present, rendered):
        return present
    if step in (None, []):
        return ABSENT
    return present if step == present else step


def _retract_elements(
    present: list[JSON], undo: list[JSON], schema: MergeSchema, rendered: JSON, *, empties: bool
) -> list[JSON]:
    steps = {identity: step for step in undo if isinstance(step, dict) and (identity := identify(step, schema))}
    known = None if rendered is None else index_elements(rendered, schema) or {}
    kept: list[JSON] = []
    for element in present:
        identity = identify(element, schema) if isinstance(element, dict) else None
        step = steps.get(identity or ())
        if step is None or identity is None:
            kept.append(element)
        elif step.get(_DIRECTIVE) != "delete":
            inner = _without_identity(step, schema)
            values = None if known is None else known.get((*identity, 0), {})
            kept.append(retract(element, inner, schema, rendered=values, empties=empties))
    same = len(kept) == len(present) and all(left is right for left, right in zip(kept, present, strict=True))
    return present if same else kept


def _without_identity(step: JSONObject, schema: MergeSchema) -> JSONObject:
    identifying = _select_identifying(step, schema)
    return {name: inner for name, inner in step.items() if name not in identifying}


def _get_restored(step: JSON) -> JSON:
    """Return the values that a step restores, ABSENT if it restores none."""
    if step in (None, []):
        return ABSENT
    if isinstance(step, dict) and step:
        if _DIRECTIVE in step:
            return ABSENT
        values = {name: value for name, inner in step.items() if (value := _get_restored(inner)) is not ABSENT}
        return values or ABSENT
    if isinstance(step, list) and step:
        elements = [value for inner in step if (value := _get_restored(inner)) is not ABSENT]
        return elements or ABSENT
    return step


def select_restored(template_fields: JSONObject, undo: Mapping[str, JSON], schema: MergeSchema) -> JSONObject:
    """Return the members of a template, or of a part of it, that an undo marks as those that the template restores."""
    found = {
        name: _select_restored(template_fields[name], step, schema.fields.get(name, _NO_SCHEMA))
        for name, step in undo.items()
        if name in template_fields
    }
    return {name: value for name, value in found.items() if value is not ABSENT}


def _select_restored(value: JSON, step: JSON, schema: MergeSchema) -> JSON:
    if step in (_RESTORED, []):
        return value
    if isinstance(step, dict) and isinstance(value, dict):
        return select_restored(value, step, schema) or ABSENT
    elements = index_elements(value, schema) if isinstance(step, list) else None
    if elements is None:
        return ABSENT
    kept: list[JSON] = []
    for one in step:
        element = elements.get((*(identify(one, schema) or ()), 0)) if isinstance(one, dict) else None
        if element is None or one.get(_DIRECTIVE) == "delete":
            continue
        if _DIRECTIVE in one:
            kept.append(element)
        elif inner := select_restored(element, _without_identity(one, schema), schema):
            kept.append({**_select_identifying(element, schema), **inner})
    return kept or ABSENT


def restored_values(undo: JSONObject) -> JSONObject:
    """Return the values of other writers that an undo restores."""
    values = _get_restored(undo)
    return values if isinstance(values, dict) else {}


def merge_undos(first: JSONObject, second: JSONObject, schema: MergeSchema) -> JSONObject:
    """Merge two undos; the second one wins if both have a step for a member."""
    if not second:
        return first
    merged = dict(first)
    for name, step in second.items():
        known, child = first.get(name), schema.fields.get(name, _NO_SCHEMA)
        if isinstance(known, dict) and isinstance(step, dict) and _DIRECTIVE not in {*known, *step}:
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


def claims_replicas(undo: JSONObject) -> bool:
    """Return whether a render with this undo has set the replica count."""
    return "replicas" in as_object(undo.get("spec"))


def restore_replicas(workload: JSONObject, replicas: int | None) -> JSONObject:
    """Restore the template's replica count after an override that had claimed it."""
    if replicas is None or workload["spec"].get("replicas") == replicas:
        return workload
    return {**workload, "spec": {**workload["spec"], "replicas": replicas}}


def remove_replicas(undo: JSONObject) -> JSONObject:
    """Return ``undo`` without the replica count, which always reverts to the template's."""
    spec = as_object(undo.get("spec"))
    if "replicas" not in spec:
        return undo
    kept = {name: step for name, step in spec.items() if name != "replicas"}
    return {**{name: step for name, step in undo.items() if name != "spec"}, **({"spec": kept} if kept else {})}


RENDERED_ANNOTATION: Final = "fleethook.io/rendered"
"""Hash of all inputs of the last render."""
UNDO_ANNOTATION: Final = "fleethook.io/undo"
TWEAKS_ANNOTATION: Final = "fleethook.io/tweaks"
"""The tweaks of the last render (`fleethook.engines.overrider.template.tweaks.encode_tweaks`)."""
TRIGGER_MARK: Final = "overrider@"
"""In the text by which our controller asks for a review. OpenYurt 1.4 writes a time into the same annotation."""
RENDER_ANNOTATIONS: Final = (RENDERED_ANNOTATION, UNDO_ANNOTATION, TWEAKS_ANNOTATION)
RESERVED_PREFIX: Final = "fleethook.io/"
"""The prefix of annotations and labels that only fleethook writes."""


class LastRender(NamedTuple):
    """The annotations that the last render set on a workload."""

    digest: str
    undo_text: str
    tweaks: str = ""

    @property
    def undo(self) -> JSONObject:
        """The undo, ``{}`` if the annotation is not valid: every writer of the workload can change it."""
        try:
            undo = msgspec.json.decode(self.undo_text or b"{}")
        except msgspec.DecodeError:
            return {}
        return undo if isinstance(undo, dict) else {}


NEVER_RENDERED: Final = LastRender("", "")
"""The annotations of a workload whose own ones are forged; as the next render: without annotations."""


def read_last_render(workload: Mapping[str, JSON]) -> LastRender | None:
    """Return the annotations of the last render of ``workload``, None if it was never rendered."""
    annotations = as_object(as_object(workload.get("metadata")).get("annotations"))
    if annotations.keys().isdisjoint(RENDER_ANNOTATIONS):
        return None
    texts = [annotations.get(name) for name in RENDER_ANNOTATIONS]
    if texts == [None, None, None]:
        return None
    return LastRender(*(text if isinstance(text, str) else "" for text in texts))


def set_last_render(rendered: JSONObject, last_render: LastRender) -> JSONObject:
    """Return a rendered workload with the annotations of its render, and without those of a former one."""
    metadata = rendered["metadata"]
    annotations = metadata.get("annotations") or {}
    annotated = {name: text for name, text in zip(RENDER_ANNOTATIONS, last_render, strict=True) if text}
    known = {name: annotations[name] for name in RENDER_ANNOTATIONS if name in annotations}
    if known == annotated:
        return rendered
    kept = {name: value for name, value in annotations.items() if name not in known}
    merged: JSON = {**kept, **annotated}
    if merged:
        return {**rendered, "metadata": {**metadata, "annotations": merged}}
    return {**rendered, "metadata": {name: value for name, value in metadata.items() if name != "annotations"}}


def has_trigger(metadata: JSONObject) -> bool:
    """Return whether a workload has the annotation by which fleethook's controller asks for a review."""
    return TRIGGER_MARK in str(as_object(metadata.get("annotations")).get(TRIGGER_ANNOTATION))
