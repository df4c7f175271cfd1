"""How large a value is: what it takes to compare, to copy or to convert it."""

from typing import Any

from app.dispatch.cel.run import cost_of_text


def weight(value: Any) -> int:
    """Return 1 for each value in ``value``, itself included, and 1 for every ten characters of its texts and keys."""
    if isinstance(value, str | bytes | bytearray):
        return 1 + cost_of_text(len(value))
    if not isinstance(value, list | dict):
        return 1
    total = 0
    level: list[Any] = [value]
    while level:
        total += len(level)
        below: list[Any] = []
        for one in level:
            if isinstance(one, str | bytes | bytearray):
                total += cost_of_text(len(one))
            elif isinstance(one, list):
                below += one
            elif isinstance(one, dict):
                total += sum(cost_of_text(len(key)) for key in one if isinstance(key, str))
                below += one.values()
        level = below
    return total
