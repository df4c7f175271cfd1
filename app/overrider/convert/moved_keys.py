"""Keys of maps that entries remove and the template has: labels, annotations, node selectors, limits.

OpenYurt's controller keeps the keys of a map that a patch removes. A key that the template does not have, and that a
tweak adds, can be removed by a later patch.
"""

from collections.abc import Sequence

from app.model.json import JSON, JSONObject
from app.overrider.convert.remark import Remark
from app.overrider.subject_parts import TEMPLATES
from app.patch import identical, parse_pointer


def move_removed_keys(
    converted: JSONObject, remarks: Sequence[Remark], *, kind: str
) -> tuple[JSONObject, list[Remark]] | None:
    """Return a converted subject without the members of its template that survived, None if there are none.

    Args:
        converted: A YurtAppSet v1beta1 without tweaks.
        remarks: The losses of the conversion.
        kind: Deployment or StatefulSet.
    """
    templates = converted["spec"]["workload"]["workloadTemplate"]
    template, moved = templates[TEMPLATES[kind]], []
    for remark in remarks:
        # A template has its members at the same paths as a workload.
        tokens = parse_pointer(remark.path)
        if remark.code == "lost" and remark.before is None and _is_member(template, tokens, remark.after):
            template = _without(template, tokens)
            text = f"{remark.path} moves from the template to tweaks, so that patches can remove it"
            moved.append(Remark("note", "moved", remark.key, remark.field, text, remark.pools))
    if not moved:
        return None
    workload = {**converted["spec"]["workload"], "workloadTemplate": {TEMPLATES[kind]: template}}
    return {**converted, "spec": {**converted["spec"], "workload": workload}}, moved


def _is_member(document: JSON, tokens: Sequence[str], value: JSON) -> bool:
    """Return whether a document has a value as the member of an object."""
    for token in tokens:
        if isinstance(document, list):
            document = document[int(token)] if token.isdecimal() and int(token) < len(document) else None
        elif isinstance(document, dict):
            document = document.get(token)
    return bool(tokens) and value is not None and bool(identical(document, value))


def _without(document: JSON, tokens: Sequence[str]) -> JSON:
    """Return a document without a member, and without the objects that are emptied by that."""
    token, rest = tokens[0], tokens[1:]
    if isinstance(document, list):
        return [_without(one, rest) if str(number) == token else one for number, one in enumerate(document)]
    others = {name: value for name, value in document.items() if name != token}
    inner = _without(document[token], rest) if rest else None
    return {name: inner if name == token else value for name, value in document.items()} if inner else others
