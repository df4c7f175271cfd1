"""Moves keys of maps that entries remove from the template to tweaks: labels, annotations, node selectors, limits.

OpenYurt's controller keeps keys that a patch removes from a map of the template. A patch can remove a key that another
tweak added.
"""

from collections.abc import Sequence

from app.model.json import JSON, JSONObject
from app.overrider.convert.remark import Remark
from app.overrider.subject_parts import TEMPLATES
from app.patch import identical, parse_pointer


def move_removed_keys(
    converted: JSONObject, remarks: Sequence[Remark], *, kind: str
) -> tuple[JSONObject, list[Remark]] | None:
    """Return a converted subject without the lost members of its template, None if there are none.

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
            template = _remove_member(template, tokens)
            text = f"{remark.path} moves from the template to tweaks, so that patches can remove it"
            moved.append(Remark("note", "moved", remark.key, remark.field, text, remark.pools))
    if not moved:
        return None
    workload = {**converted["spec"]["workload"], "workloadTemplate": {TEMPLATES[kind]: template}}
    return {**converted, "spec": {**converted["spec"], "workload": workload}}, moved


def _is_member(document: JSON, tokens: Sequence[str], value: JSON) -> bool:
    """Return whether a document has that value at that path."""
    for token in tokens:
        if isinstance(document, list):
            document = document[int(token)] if token.isdecimal() and int(token) < len(document) else None
        elif isinstance(document, dict):
            document = document.get(token)
    return bool(tokens) and value is not None and bool(identical(document, value))


def _remove_member(document: JSON, tokens: Sequence[str]) -> JSON:
    """Return a document without a member, and without objects that become empty."""
    token, rest = tokens[0], tokens[1:]
    if isinstance(document, list):
        return [_remove_member(one, rest) if str(number) == token else one for number, one in enumerate(document)]
    others = {name: value for name, value in document.items() if name != token}
    inner = _remove_member(document[token], rest) if rest else None
    return {name: inner if name == token else value for name, value in document.items()} if inner else others
