"""A patch, and the Deployment that it changes."""

import json
from typing import Any

from benchmarks.reviews import deployment, overrider

SIZE = 6000

OPERATIONS: list[dict[str, Any]] = [
    {"op": operation["operation"], "path": operation["path"], "value": operation["value"]}
    for operation in overrider()["entries"][1]["patches"]
] + [{"op": "replace", "path": "/spec/replicas", "value": 5}]
STRATEGIC = {"spec": {"template": {"spec": {"containers": [{"name": "app", "image": "x:2"}]}}}}


def build_document() -> dict[str, Any]:
    """Return the Deployment as an apiserver sends it, with managed fields of the usual size."""
    # Decoded from text, so that no value is shared.
    document: dict[str, Any] = json.loads(json.dumps(deployment()))
    fields = document["metadata"].setdefault("managedFields", [])
    while len(json.dumps(document)) < SIZE:
        fields.append({"manager": f"m{len(fields)}", "operation": "Update", "fieldsV1": {"f:spec": {"f:replicas": {}}}})
    return document
