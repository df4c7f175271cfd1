"""The weight of a value, which determines how long its text takes."""

from typing import Any, Final

from fleethook.cel.values.equality import MAX_DEPTH

_CHARACTERS_PER_ELEMENT: Final = 10


def measure_weight(value: Any) -> int:
    """Count 1 for ``value`` and each value inside it, and 1 for every ten characters of strings and keys.

    Raises:
        ValueError: The value is nested too deeply for functions that are recursive.
    """
    total, depth, level = 0, 0, [value]
    while level:
        depth += 1
        if depth > MAX_DEPTH:
            raise ValueError(f"a value is nested deeper than {MAX_DEPTH} levels")
        total += len(level)
        below: list[Any] = []
        for one in level:
            if isinstance(one, str | bytes):
                total += len(one) // _CHARACTERS_PER_ELEMENT
            elif isinstance(one, list):
                below += one
            elif isinstance(one, dict):
                below += one.keys()
                below += one.values()
        level = below
    return total
