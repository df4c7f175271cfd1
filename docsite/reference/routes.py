"""The page of routes, from the server's OpenAPI document."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from docsite.reference.tables import render_page, render_table
from fleethook.app import create_app
from fleethook.settings import Settings

_INTRODUCTION: Final = (
    "`/openapi.json` and `/docs` of a server have the types of each route. Errors are `Status` objects. If a review "
    "has a uid, the answer is HTTP 200 to that uid, with the reason inside. [Behavior of the server](server.md) has "
    "the limits."
)


def render_routes() -> str:
    """Return the page."""
    document = create_app(Settings(manifests=Path(__file__).parent), log=None).openapi()
    tables: dict[str, list[tuple[str, ...]]] = {}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            row = (
                f"`{method.upper()} {path}`",
                operation["summary"],
                _name_body(operation),
                ", ".join(_name_parameters(operation)),
                ", ".join(sorted(operation["responses"])),
            )
            tables.setdefault(operation["tags"][0], []).append(row)
    columns = ["route", "answer", "body", "query", "statuses"]
    sections = [part for tag, rows in tables.items() for part in (f"## {tag.title()}", render_table(columns, rows))]
    return render_page("Routes", _INTRODUCTION, *sections)


def _name_body(operation: dict[str, Any]) -> str:
    """Return the names of the types of the body, from the references to them."""
    text = json.dumps(operation.get("requestBody", {}))
    names = {part.partition('"')[0] for part in text.split("#/components/schemas/")[1:]}
    return ", ".join(f"`{name}`" for name in sorted(names))


def _name_parameters(operation: dict[str, Any]) -> Iterable[str]:
    return (f"`{one['name']}`" for one in operation.get("parameters", ()) if one["in"] == "query")
