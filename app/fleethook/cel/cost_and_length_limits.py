"""The limits of expressions: their length, and the cost and the work of an evaluation, with its usage.

Functions receive only their arguments, so a context variable holds the current evaluation.
"""

import re
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Final, NamedTuple

from fleethook.cel.compile_error_list import ExpressionError

# k8s.io/apiserver/pkg/apis/cel/config.go: PerCallLimit.
MAX_COST: Final = 1_000_000
# For some functions, Kubernetes charges less than they take: for `==` it ignores nested values, for a sum of lists it
# charges a constant. The work counts compared, copied and created elements in addition to the cost. An object of 3 MiB
# has fewer than two million elements, and a list of that length takes 16 MiB.
MAX_WORK: Final = 2_000_000
# As many elements take the time of one unit of cost.
WORK_PER_COST: Final = 4


class EvaluationLimits(NamedTuple):
    """The limits of one evaluation: the cost in Kubernetes' units, and the work in elements (`MAX_WORK`)."""

    cost: int
    work: int


LIMITS: Final = EvaluationLimits(MAX_COST, MAX_WORK)
# About 1 ms: a unit of cost takes about 0.5 us here. Only loops over large objects cost more.
INLINE_LIMITS: Final = EvaluationLimits(cost=2_000, work=4_000)
"""The limits on an event loop. An evaluation that needs more runs again in a thread, with its full limits."""

# cel-go: parser/parser.go, expressionSizeCodePointLimit.
MAX_LENGTH: Final = 100_000
# The expansion of these macros repeats their receiver, so each macro in a chain doubles the expression before the type
# check. cel-go has no limit for that either.
_REPEATING_MACRO: Final = re.compile(r"\bopt(?:Flat)?Map\b")
MAX_EXPANDED_LENGTH: Final = 2_000_000


def check_length(expression: str) -> None:
    """Raise ExpressionError if an expression is too long for the type checker."""
    if len(expression) > MAX_LENGTH:
        raise ExpressionError(f"compilation failed: the expression is longer than {MAX_LENGTH} characters")
    if compute_expanded_length(expression) > MAX_EXPANDED_LENGTH:
        raise ExpressionError("compilation failed: too many optMap and optFlatMap for an expression of this length")


def compute_expanded_length(expression: str) -> int:
    """Return the maximum length of an expression after the expansion of its macros."""
    return len(expression) << min(len(_REPEATING_MACRO.findall(expression)), 64)


class LimitReachedError(Exception):
    """The evaluation reached its limit for cost or for work."""


class Evaluation:
    """The usage of one evaluation.

    Attributes:
        cost: Kubernetes' charge, in its units; set at the end of the evaluation.
        work: The number of elements that functions compared, copied or created.
    """

    __slots__ = ("_max_work", "cost", "work")

    def __init__(self, *, max_work: int = MAX_WORK) -> None:
        self._max_work: Final = max_work
        self.cost = 0
        self.work = 0

    @property
    def used(self) -> int:
        """The usage of the request's budget: the cost, and the work in units of cost."""
        return self.cost + self.work // WORK_PER_COST

    def spend(self, work: int) -> None:
        """Add to the work; callers do so before they do the work.

        Raises:
            LimitReachedError: The work exceeds the limit for one expression.
        """
        self.work += work
        if self.work > self._max_work:
            raise LimitReachedError


CURRENT: Final[ContextVar[Evaluation]] = ContextVar("CURRENT")


def spend(work: int) -> None:
    """Add to the work of the current evaluation; raises LimitReachedError."""
    CURRENT.get().spend(work)


def run_without_request(code: Callable[[], Any]) -> Any:
    """Run code that reads no variable, such as a constant part of an expression."""
    token = CURRENT.set(Evaluation())
    try:
        return code()
    finally:
        CURRENT.reset(token)
