"""What Go's encoding/json makes of a JSON document that it decodes into a struct that has values already.

OpenYurt decodes the patched JSON of a workload into the workload itself, so that what a patch removes is still there, and
elements of a list take members from those that had their index. Written out here, not by the code under test, and only as
far as tweaks reach: names differ from Go's fields in nothing but their case in no test.
"""

from typing import Any

_MAPS = {"labels", "annotations", "nodeSelector", "matchLabels", "limits", "requests"}
"""Members that are maps of strings or quantities: their values are replaced, not merged."""
_VALUES = {"image", "name", "value", "type", "resources", "strategy", "updateStrategy"}
"""Members that are neither pointers, maps nor lists, which null leaves alone."""


def decode_into(live: Any, document: Any, member: str = "") -> Any:
    """Return ``live`` after ``document`` was decoded into it; ``member`` is the name of the field or map."""
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
