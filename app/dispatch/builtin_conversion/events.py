"""Converts Events between ``v1`` and ``events.k8s.io/v1`` (pkg/apis/events/v1/conversion.go)."""

from typing import Final

from app.dispatch.builtin_conversion.go_json import as_struct
from app.model.json import JSONObject

GROUP: Final = "events.k8s.io"
_NEW_NAMES: Final = {
    "involvedObject": "regarding",
    "message": "note",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
    "reportingComponent": "reportingController",
}
_OLD_NAMES: Final = {new: old for old, new in _NEW_NAMES.items()}
_REPORTING: Final = ("reportingComponent", "reportingInstance")


def convert_event(event: JSONObject, api_version: str) -> JSONObject:
    """Convert an Event to the other version."""
    new = api_version.startswith(GROUP)
    names = _NEW_NAMES if new else _OLD_NAMES
    made = {names.get(name, name): value for name, value in event.items()}
    if new:
        for name in map(_NEW_NAMES.get, _REPORTING, _REPORTING):
            if made.get(name) == "":
                del made[name]
        if as_struct(made.get("series")):
            made["series"] = {"count": 0, **made["series"]}
    else:
        made = {**dict.fromkeys(_REPORTING, ""), **made}
        if as_struct(made.get("series")).get("count") == 0:
            made["series"] = {name: value for name, value in made["series"].items() if name != "count"}
    return {**made, "apiVersion": api_version}
