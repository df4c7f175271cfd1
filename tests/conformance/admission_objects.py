"""The objects of admission_objects.yaml, and the differences by which the file describes reviewed objects."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from fleethook.patch.pointer_and_limits import escape

_TEXT = (Path(__file__).parent / "admission_objects.yaml").read_text()
ABSENT = "(absent)"
_UNPREDICTABLE = {
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}": "(uid)",
    r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ": "(time)",
    r"(kube-api-access-|generated-)[a-z0-9]{5}": r"\1(random)",
}


def load(namespace: str) -> dict[str, Any]:
    """Return the definitions and the cases for a namespace."""
    found: dict[str, Any] = yaml.safe_load(_TEXT.replace("{namespace}", namespace))
    return found


def list_differences(before: Any, after: Any, pointer: str = "") -> dict[str, Any]:
    """Return the values of ``after`` that ``before`` has not, by JSON pointer; lists of another length as a whole."""
    return dict(_find_differences(before, after, pointer))


def _find_differences(before: Any, after: Any, pointer: str) -> Iterator[tuple[str, Any]]:
    if isinstance(before, dict) and isinstance(after, dict):
        for name in sorted(before.keys() | after.keys()):
            inner = before.get(name, ABSENT), after.get(name, ABSENT)
            yield from _find_differences(*inner, f"{pointer}/{escape(name)}")
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for position, (one, other) in enumerate(zip(before, after, strict=True)):
            yield from _find_differences(one, other, f"{pointer}/{position}")
    elif before != after or type(before) is not type(after):
        yield pointer, after


def mask(shown: Any) -> Any:
    """Return an object without managedFields, and with marks for values that no one can predict."""
    if isinstance(shown, dict):
        return {name: mask(value) for name, value in shown.items() if name not in ("managedFields", "resourceVersion")}
    if isinstance(shown, list):
        return [mask(one) for one in shown]
    if isinstance(shown, str):
        for pattern, name in _UNPREDICTABLE.items():
            shown = re.sub(pattern, name, shown)
    return shown
