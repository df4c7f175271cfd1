"""The name of a node pool in the values of tweaks: a mark while a conversion compares pools, then upstream's token."""

from collections.abc import Iterator, Sequence
from typing import Final

from app.model.json import JSON, JSONObject
from app.model.names import label_value_problem
from app.model.openyurt import TWEAK_POOL_TOKEN
from app.overrider.pool_mark import POOL_MARK

# OpenYurt's webhook tries each tweak with an empty name, so that these members would not be valid.
_NAMES: Final = ("name", "key")
_LABELS: Final = frozenset({"labels", "nodeSelector", "matchLabels"})


def replace_text(value: JSON, text: str, by: str) -> JSON:
    """Return a JSON value with ``text`` replaced in all texts and keys."""
    if isinstance(value, str):
        return value.replace(text, by)
    if isinstance(value, dict):
        return {replace_text(name, text, by): replace_text(inner, text, by) for name, inner in value.items()}
    return [replace_text(inner, text, by) for inner in value] if isinstance(value, list) else value


def fill_pool(operations: Sequence[JSONObject], pool: str) -> list[JSONObject]:
    """Return operations with the name of a node pool for the mark."""
    return [replace_text(operation, POOL_MARK, pool) for operation in operations]


def with_tokens(operation: JSONObject, pool: str) -> JSONObject:
    """Return an operation with upstream's token for the mark in its value, and with the pool's name elsewhere.

    Upstream fills in the token in values only. The name is written where a value with an empty name is not valid.
    """
    path = operation["path"].replace(POOL_MARK, pool)
    if "value" not in operation:
        return {**operation, "path": path}
    literal = any(_is_invalid(place, text) for place, text in _marked_texts(operation["value"], tuple(path.split("/"))))
    shown = pool if literal else TWEAK_POOL_TOKEN
    return {**operation, "path": path, "value": replace_text(operation["value"], POOL_MARK, shown)}


def _is_invalid(place: Sequence[str], text: str) -> bool:
    """Return whether an apiserver refuses a text, or the key of a map, with an empty name in it."""
    *parents, last = place
    if POOL_MARK in last or last in _NAMES or last.endswith("Name"):
        return True
    return bool(_LABELS & set(parents[-1:])) and label_value_problem(text.replace(POOL_MARK, "")) is not None


def _marked_texts(value: JSON, place: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield the places with the mark: the text there, or the key that is the end of the place."""
    if isinstance(value, str) and POOL_MARK in value:
        yield place, value
    elif isinstance(value, dict):
        for name, inner in value.items():
            if POOL_MARK in name:
                yield (*place, name), name
            yield from _marked_texts(inner, (*place, name))
    elif isinstance(value, list):
        for inner in value:
            yield from _marked_texts(inner, place)
