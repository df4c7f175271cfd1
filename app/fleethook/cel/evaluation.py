"""The state of one evaluation that functions need: access decisions, usage, and pending access checks.

Functions receive only their arguments, so a context variable holds the current evaluation.
"""

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Final

from fleethook.cel.access_check import AccessDecision, AccessDecisions, AccessQuestion

# k8s.io/apiserver/pkg/apis/cel/config.go: PerCallLimit.
MAX_COST: Final = 1_000_000
# For some functions, Kubernetes charges less than they take: for `==` it ignores nested values, for a sum of lists it
# charges a constant. The work counts compared, copied and created elements in addition to the cost. An object of 3 MiB
# has fewer than two million elements, and a list of that length takes 16 MiB.
MAX_WORK: Final = 2_000_000
# As many elements take the time of one unit of cost.
WORK_PER_COST: Final = 4

# pkg/cel/library/cost.go
COST_OF_CHECK: Final = 350_000


class LimitReachedError(Exception):
    """The evaluation reached its limit for cost or for work."""


class PendingCheckError(Exception):
    """An access check has no decision yet."""


class Evaluation:
    """The usage and the access checks of one evaluation.

    Attributes:
        cost: Kubernetes' charge, in its units; set at the end of the evaluation.
        checks: The number of access checks with a decision.
        work: The number of elements that functions compared, copied or created.
        questions: The access checks without a decision.
    """

    __slots__ = ("_access", "_max_work", "checks", "cost", "questions", "work")

    def __init__(self, access: AccessDecisions | None, *, max_work: int = MAX_WORK) -> None:
        self._access: Final = access
        self._max_work: Final = max_work
        self.checks = 0
        self.cost = 0
        self.work = 0
        self.questions: set[AccessQuestion] = set()

    @property
    def used(self) -> int:
        """The usage of the request's budget: the cost, and the work in units of cost.

        Access checks do not count, because a request has a separate limit for them.
        """
        return self.cost - self.checks * COST_OF_CHECK + self.work // WORK_PER_COST

    def spend(self, work: int) -> None:
        """Add to the work; callers do so before they do the work.

        Raises:
            LimitReachedError: The work exceeds the limit for one expression.
        """
        self.work += work
        if self.work > self._max_work:
            raise LimitReachedError

    def ask(self, question: AccessQuestion) -> AccessDecision:
        """Return the decision for an access check.

        A check without a decision becomes pending. The number of pending checks is limited to the number of checks that
        an expression can pay for.

        Raises:
            PendingCheckError: The check has no decision yet.
        """
        decision = (self._access or {}).get(question)
        if decision is None:
            if len(self.questions) < MAX_COST // COST_OF_CHECK:
                self.questions.add(question)
            raise PendingCheckError
        self.checks += 1
        return decision


CURRENT: Final[ContextVar[Evaluation]] = ContextVar("CURRENT")


def spend(work: int) -> None:
    """Add to the work of the current evaluation; raises LimitReachedError."""
    CURRENT.get().spend(work)


def run_without_request(code: Callable[[], Any]) -> Any:
    """Run code that reads no variable, such as a constant part of an expression."""
    token = CURRENT.set(Evaluation(None))
    try:
        return code()
    finally:
        CURRENT.reset(token)
