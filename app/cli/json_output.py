"""JSON for a terminal, in a module of its own: commands that print none start without msgspec."""

import json
from typing import Any

import msgspec

from app.cli.terminal import write_document
from app.model.text import escape_json


def write_json(value: Any, *, indent: int | None = 2) -> None:
    """Write a value to standard output as JSON in ASCII; other types than JSON's and msgspec's are their texts."""
    write_document(f"{escape_json(json.dumps(value, indent=indent, default=_builtin))}\n")


def _builtin(value: object) -> Any:
    return msgspec.to_builtins(value) if isinstance(value, msgspec.Struct) else str(value)
