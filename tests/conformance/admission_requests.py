"""The requests of admission_requests.yaml."""

import json
import re
from pathlib import Path
from typing import Any

import yaml

_TEXT = (Path(__file__).parent / "admission_requests.yaml").read_text()


def load(namespace: str) -> dict[str, Any]:
    """Return definition, objects and requests for a namespace."""
    found: dict[str, Any] = yaml.safe_load(_TEXT.replace("{namespace}", namespace))
    return found


def describe_review(request: dict[str, Any]) -> list[Any]:
    """Return the members of a request of a review, as the file has them."""
    resource, kind = request["resource"], request["kind"]
    return [
        request["operation"],
        "/".join(filter(None, (*_values(resource, "group", "version", "resource"), request.get("subResource")))),
        "/".join(filter(None, _values(kind, "group", "version", "kind"))),
        re.sub("^generated-[a-z0-9]{5}$", "generated-(random)", request.get("name") or ""),
        request.get("namespace") or "",
        *((_decode(request.get(member)) or {}).get("kind") for member in ("object", "oldObject")),
    ]


def _values(members: dict[str, str], *names: str) -> list[str]:
    return [members[name] for name in names]


def _decode(value: Any) -> Any:
    return json.loads(value) if isinstance(value, str | bytes) else value
