"""The frame of one evaluation: a list, because indexing a list by number is Python's fastest access.

A frame holds the current cost, the cost limit, the variables of the request, and the variables of comprehensions.
"""

from collections.abc import Callable
from typing import Any, Final, TypeAlias

Frame: TypeAlias = list[Any]
Evaluate: TypeAlias = Callable[[Frame], Any]
"""The code of a part of an expression: returns its value. Errors are values, too: `CelError`."""

COST: Final = 0
LIMIT: Final = 1
VARIABLES: Final = (
    "object",
    "oldObject",
    "namespaceObject",
    "request",
    "authorizer",
    "authorizer.requestResource",
)
FIRST_VARIABLE: Final = 2
FIRST_LOCAL: Final = FIRST_VARIABLE + len(VARIABLES)


class _Absent:
    """Marks a variable that does not exist, or an accumulator before its first read."""

    __slots__ = ()


ABSENT: Final = _Absent()
