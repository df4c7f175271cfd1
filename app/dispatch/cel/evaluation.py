"""One evaluation as its functions see it: who may do what, how much was used, and what is still to be asked.

Functions get their arguments and nothing else, so the evaluation that is under way is kept here.
"""

from contextvars import ContextVar
from typing import Final

from app.dispatch.cel.access_check import AccessDecision, AccessDecisions, AccessQuestion

# k8s.io/apiserver/pkg/apis/cel/config.go: PerCallLimit.
MAX_COST: Final = 1_000_000
# Kubernetes charges some functions less than they take: `==` by the number of elements and not by what is in them, a
# sum of lists nothing at all. Elements that are compared, copied or made are counted beside the cost. Two million are
# more than an object of 3 MiB has, and as a list they take 16 MiB.
MAX_WORK: Final = 2_000_000
# Elements that take as long as one unit of cost.
WORK_PER_COST: Final = 4

# pkg/cel/library/cost.go
COST_OF_CHECK: Final = 350_000


class LimitReachedError(Exception):
    """The evaluation used up what it may."""


class PendingCheckError(Exception):
    """An access question has no answer yet."""


class UnsupportedFunctionError(Exception):
    """A function of Kubernetes cannot be evaluated here; the text names it."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        CURRENT.get().unsupported = what


class Evaluation:
    """What one evaluation used and asked.

    Attributes:
        cost: Kubernetes' charge, in its units; set when the evaluation has ended.
        checks: the access questions that were answered.
        work: the elements that were compared, copied or made beyond that.
        questions: the access questions that have no answer yet.
        unsupported: the function that cannot be evaluated here.
    """

    __slots__ = ("_access", "_max_work", "checks", "cost", "questions", "unsupported", "work")

    def __init__(self, access: AccessDecisions | None, *, max_work: int = MAX_WORK) -> None:
        self._access: Final = access
        self._max_work: Final = max_work
        self.checks = 0
        self.cost = 0
        self.work = 0
        self.questions: set[AccessQuestion] = set()
        self.unsupported = ""

    @property
    def used(self) -> int:
        """The part of the request's budget: the cost, and the work in units of cost.

        Checks of the authorizer do not: a request has a limit of its own for them.
        """
        return self.cost - self.checks * COST_OF_CHECK + self.work // WORK_PER_COST

    def spend(self, work: int) -> None:
        """Add to the work, before it is done.

        Raises:
            LimitReachedError: it is more than one expression may take.
        """
        self.work += work
        if self.work > self._max_work:
            raise LimitReachedError

    def ask(self, question: AccessQuestion) -> AccessDecision:
        """Return the answer to a check.

        No more is asked at once than an expression could pay for.

        Raises:
            PendingCheckError: nobody has answered it yet.
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
    """Add to the work of the evaluation that is under way; raises LimitReachedError."""
    CURRENT.get().spend(work)
