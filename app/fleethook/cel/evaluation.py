"""One evaluation of an expression: its frame, its usage and its errors.

Functions receive only their arguments, so a context variable holds the current evaluation.
"""

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Final, TypeAlias

# cel-go, interpreter/runtimecost.go: the error of an expression that exceeds its cost limit.
COST_EXCEEDED: Final = "operation cancelled: actual cost limit exceeded"


class ExpressionError(ValueError):
    """An expression does not compile, or its type is not bool; the text is kube-apiserver's."""


class EvaluationError(Exception):
    """The evaluation of an expression ended in an error.

    Attributes:
        cause: The error without the expression.
        cost: The cost until the error, for the budget of the webhook.
        used: The usage until the error, for the budget of the request (`Evaluation.used`).
    """

    def __init__(self, expression: str, cause: str, *, cost: int = 0, used: int = 0) -> None:
        super().__init__(f"expression '{expression}' resulted in error: {cause}")
        self.cause: Final = cause
        self.cost: Final = cost
        self.used: Final = used


class CostError(EvaluationError):
    """An expression exceeded its limit for cost or for work."""

    def __init__(self, expression: str, *, cost: int = 0, used: int = 0) -> None:
        super().__init__(expression, COST_EXCEEDED, cost=cost, used=used)


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


# k8s.io/apiserver/pkg/apis/cel/config.go: PerCallLimit.
MAX_COST: Final = 1_000_000
# For some functions, Kubernetes charges less than they take: for `==` it ignores nested values, for a sum of lists it
# charges a constant. The work counts compared, copied and created elements in addition to the cost. An object of 3 MiB
# has fewer than two million elements, and a list of that length takes 16 MiB.
MAX_WORK: Final = 2_000_000
# As many elements take the time of one unit of cost.
WORK_PER_COST: Final = 4


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
