"""Sends the requests of `tests/conformance/fakes.yaml` to an apiserver, and compares its answers."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import yaml

from fleethook.cluster.apiserver_connection import APPLY_PATCH, JSON_PATCH, MERGE_PATCH

FACTS: Final[Any] = yaml.safe_load((Path(__file__).parent / "conformance" / "fakes.yaml").read_text())
_TYPES: Final = {"merge": MERGE_PATCH, "json": JSON_PATCH, "apply": APPLY_PATCH, "": "application/json"}

Send = Callable[[str, str, Any, str, dict[str, str]], tuple[int, Any]]
"""Sends method, path, body, content type and query; returns the status and the decoded body, a text if it is no JSON."""


def compare_answers(send: Send) -> list[str]:
    """Return the differences between the answers of an apiserver and the expected ones."""
    found = []
    for row in FACTS["requests"]:
        method, _, path = row["send"].partition(" ")
        resource, slash, rest = path.partition("/")
        path = FACTS["resources"][resource] + slash + rest if resource else path
        former = _read_version(send, path)
        body = _fill(row.get("body"), former)
        answer = send(method, path, body, _TYPES[row.get("type", "")], row.get("query", {}))
        found += [f"{row['send']}: {one}" for one in _compare(row, *answer)]
        if "changed" in row and (_read_version(send, path) != former) is not row["changed"]:
            found.append(f"{row['send']}: the resourceVersion is changed: {not row['changed']}")
    return found


def _read_version(send: Send, path: str) -> str:
    status, stored = send("GET", path.removesuffix("/status"), None, _TYPES[""], {})
    return str(stored["metadata"].get("resourceVersion", "")) if status == 200 else ""


def _fill(body: Any, version: str) -> Any:
    """Return a body with values in place of its placeholders."""
    if isinstance(body, dict):
        return {name: _fill(value, version) for name, value in body.items()}
    if isinstance(body, list):
        return [_fill(one, version) for one in body]
    return (
        {"STALE": "1", "CURRENT": version, "LONG": "x" * 256 * 1024}.get(body, body) if isinstance(body, str) else body
    )


def _compare(row: Any, status: int, body: Any) -> list[str]:
    found = [f"status {status}, not {row['status']}: {body}"] if status != row["status"] else []
    if "text" in row:
        return found + ([f"{body!r}, not {row['text']}"] if str(body).strip() != row["text"] else [])
    found += [
        f"{member} {body.get(member)!r}, not {row[member]!r}"
        for member in ("reason", "message")
        if member in row and body.get(member, "") != row[member]
    ]
    if "names" in row:
        names = [one["metadata"]["name"] for one in body["items"]]
        found += [f"the list has {names}"] if names != row["names"] else []
    return found + list(_find_missing(body, row.get("has", {}), ""))


def _find_missing(body: Any, wanted: Any, at: str) -> list[str]:
    if not isinstance(wanted, dict):
        return [f"{at} is {body!r}, not {wanted!r}"] if body != wanted else []
    if isinstance(body, list):
        body = dict(enumerate(body))
    return [
        one for name, value in wanted.items() for one in _find_missing((body or {}).get(name), value, f"{at}/{name}")
    ]
