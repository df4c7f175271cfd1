"""JSON on standard output. A separate module, because commands without JSON start faster without msgspec."""

import json
from typing import Any

import msgspec

from fleethook.cli.output.terminal import write_document
from fleethook.model.formats.text import escape_json


def write_json(value: Any, *, indent: int | None = 2) -> None:
    """Write a value to standard output as ASCII JSON. Types that JSON and msgspec lack are written as `str`."""
    write_document(f"{escape_json(json.dumps(value, indent=indent, default=encode_other))}\n")


def encode_other(value: object) -> Any:
    """Return a value of a type that the json module lacks as one that it has."""
    return msgspec.to_builtins(value) if isinstance(value, msgspec.Struct) else str(value)
