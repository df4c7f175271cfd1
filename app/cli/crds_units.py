"""Parses ages and sizes with units: ``30d``, ``200MiB``."""

import re
from typing import Final

_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_BYTES: Final = {
    "": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30,
}  # fmt: skip
_NUMBER: Final = re.compile(r"(\d{1,15})\s*([A-Za-z]*)", re.ASCII)


def parse_age(text: str) -> int:
    """Return an age in seconds; raises ValueError."""
    return _parse(text, _SECONDS, "an age such as 30d or 12h")


def parse_size(text: str) -> int:
    """Return a size in bytes; raises ValueError."""
    return _parse(text, _BYTES, "a size such as 200MiB")


def _parse(text: str, units: dict[str, int], wanted: str) -> int:
    match = _NUMBER.fullmatch(text.strip())
    unit = None if match is None else units.get(match[2].lower())
    if match is None or unit is None:
        raise ValueError(f"{text!r} is not {wanted}")
    return int(match[1]) * unit
