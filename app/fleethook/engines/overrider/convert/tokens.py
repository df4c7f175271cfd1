"""Replaces the name of a node pool in tweaks: by a mark while pools are compared, and then by OpenYurt's token."""

from collections.abc import Iterator, Sequence
from typing import Final

from fleethook.engines.overrider.entries.value_marks import POOL_MARK
from fleethook.model.formats.names import label_value_problem
from fleethook.model.json import JSON, JSONObject
from fleethook.model.openyurt import TWEAK_POOL_TOKEN

# OpenYurt's webhook tries each tweak with an empty pool name, which is invalid in these members.
_NAMES: Final = ("name", "key")
_LABELS: Final = frozenset({"labels", "nodeSelector", "matchLabels"})


def replace_text(value: JSON, text: str, by: str) -> JSON:
    """Replace ``text`` in all texts and keys of a JSON value."""
    if isinstance(value, str):
        return value.replace(text, by)
    if isinstance(value, dict):
        return {replace_text(name, text, by): replace_text(inner, text, by) for name, inner in value.items()}
    return [replace_text(inner, text, by) for inner in value] if isinstance(value, list) else value


def fill_pool(operations: Sequence[JSONObject], pool: str) -> list[JSONObject]:
    """Replace the mark in operations by the name of a node pool."""
    return [replace_text(operation, POOL_MARK, pool) for operation in operations]


def with_tokens(operation: JSONObject, pool: str) -> JSONObject:
    """Replace the mark in an operation: in its value by OpenYurt's token, elsewhere by the pool's name.

    OpenYurt replaces its token only in values. A value that would be invalid with an empty name gets the pool's name.
    """
    path = operation["path"].replace(POOL_MARK, pool)
    if "value" not in operation:
        return {**operation, "path": path}
    literal = any(
        _is_invalid(place, text) for place, text in _find_marked_texts(operation["value"], tuple(path.split("/")))
    )
    shown = pool if literal else TWEAK_POOL_TOKEN
    return {**operation, "path": path, "value": replace_text(operation["value"], POOL_MARK, shown)}


def _is_invalid(place: Sequence[str], text: str) -> bool:
    """Return whether kube-apiserver refuses a text or a key if the name of the pool in it is empty."""
    *parents, last = place
    if POOL_MARK in last or last in _NAMES or last.endswith("Name"):
        return True
    return bool(_LABELS & set(parents[-1:])) and label_value_problem(text.replace(POOL_MARK, "")) is not None


def _find_marked_texts(value: JSON, place: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield the path and the text of each value or key with the mark; the path of a key ends with the key."""
    if isinstance(value, str) and POOL_MARK in value:
        yield place, value
    elif isinstance(value, dict):
        for name, inner in value.items():
            if POOL_MARK in name:
                yield (*place, name), name
            yield from _find_marked_texts(inner, (*place, name))
    elif isinstance(value, list):
        for inner in value:
            yield from _find_marked_texts(inner, place)
