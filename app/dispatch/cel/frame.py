"""The state of one evaluation: a list that code indexes by number, which is Python's fastest.

A frame holds the cost so far, the limit of the cost, the variables of the request, and then the variables of loops.
"""

from collections.abc import Callable
from typing import Any, Final, TypeAlias

Frame: TypeAlias = list[Any]
Evaluate: TypeAlias = Callable[[Frame], Any]
"""Returns the value of a part of an expression. An error is a value: `CelError`."""

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
    """No value: the variable is not there, or nobody has read it yet."""

    __slots__ = ()


ABSENT: Final = _Absent()
