"""Go's encoding/json, as it decodes a JSON document into a struct that already has values.

OpenYurt decodes the patched JSON of a workload into the workload itself. So members that a patch removes remain, and
elements of a list keep members of the former element at their index. This module does not use the code under test. It covers
only the members of tweaks, and assumes that no name differs from a field of Go only by case.
"""

from typing import Any

_MAPS = {"labels", "annotations", "nodeSelector", "matchLabels", "limits", "requests"}
"""Members that are maps of strings or quantities: decoding replaces their values."""
_VALUES = {"image", "name", "value", "type", "resources", "strategy", "updateStrategy"}
"""Members that are neither pointers, maps nor lists, which null leaves alone."""


def decode_into(live: Any, document: Any, member: str = "") -> Any:
    """Return ``live`` after decoding ``document`` into it; ``member`` is the name of the field or map."""
    if isinstance(document, dict):
        return _decode_object(live if isinstance(live, dict) else {}, document, member)
    if isinstance(document, list):
        elements = live if isinstance(live, list) else []
        return [_element(elements[index : index + 1], one) for index, one in enumerate(document)]
    return document


def _decode_object(live: dict[str, Any], document: dict[str, Any], member: str) -> dict[str, Any]:
    made = dict(live)
    for name, value in document.items():
        if member in _MAPS:
            made[name] = "" if value is None else value
        elif value is not None:
            made[name] = decode_into(live.get(name), value, name)
        elif name not in _VALUES:
            made.pop(name, None)
    return made


def _element(live: list[Any], document: Any) -> Any:
    if document is None:
        return live[0] if live else {"name": ""}
    return decode_into(live[0] if live else None, document)
