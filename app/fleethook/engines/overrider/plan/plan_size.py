"""Measures the memory of a plan: its own objects, without those that it shares with its subject."""

from collections.abc import Iterable
from gc import get_referents
from sys import getsizeof
from types import FunctionType, ModuleType
from typing import Any, Final

from fleethook.model.json import JSON
from fleethook.model.merge_keys import WORKLOAD

# Names of members are short, and the decoder and the compiler keep only one copy of each.
_MAX_NAME_LENGTH: Final = 40
# The header of the garbage collector on each container, and the rounding of the allocator.
_HEADER_BYTES: Final = 16
_SCALARS: Final = (bool, int, float, type(None), type, ModuleType)


def size_of(root: object, *, shared: JSON) -> int:
    """Return the bytes of all objects that ``root`` refers to, estimated within a tenth.

    Args:
        root: The object to measure.
        shared: A document that is not counted, nor any part of it.
    """
    seen = _SHARED_BY_ALL.copy()
    _add_parts(shared, seen)
    return _add_sizes(root, seen)


def _add_parts(value: JSON, seen: set[int]) -> None:
    kind = type(value)
    if kind is str:
        if len(value) > _MAX_NAME_LENGTH:
            seen.add(id(value))
    elif kind is dict or kind is list:
        seen.add(id(value))
        for inner in value.values() if kind is dict else value:
            _add_parts(inner, seen)


def _add_sizes(root: object, seen: set[int]) -> int:
    total = 0
    pending: list[Any] = [root]
    while pending:
        value = pending.pop()
        kind = type(value)
        if kind is str:
            if len(value) > _MAX_NAME_LENGTH and id(value) not in seen:
                seen.add(id(value))
                total += getsizeof(value)
        elif id(value) in seen:
            continue
        elif kind is dict or kind is list or not isinstance(value, _SCALARS):
            seen.add(id(value))
            total += getsizeof(value) + _HEADER_BYTES
            pending += _list_parts(value)
    return total


def _list_parts(value: Any) -> Iterable[object]:
    if type(value) is dict:
        return value.values()
    if type(value) is list:
        return value
    if isinstance(value, FunctionType):
        # A function also refers to the globals of its module. Only its closure is its own.
        return [cell.cell_contents for cell in value.__closure__ or ()]
    return get_referents(value)


def _find_merge_keys() -> set[int]:
    seen: set[int] = set()
    _add_sizes(WORKLOAD, seen)
    return seen


# All plans refer to the same merge keys of the API.
_SHARED_BY_ALL: Final = _find_merge_keys()
