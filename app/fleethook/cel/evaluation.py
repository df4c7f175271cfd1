"""One evaluation of an expression: its frame, its usage, its access checks, and its errors.

The caller of this package creates a SubjectAccessReview for each access check; this package calls no API server.
Functions receive only their arguments, so a context variable holds the current evaluation.
"""

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Any, Final, NamedTuple, TypeAlias


class AccessQuestion(NamedTuple):
    """One check of the ``authorizer`` variable (upstream: k8s.io/apiserver/pkg/cel/library/authz.go).

    A non-resource check has a ``path``, a resource check has the resource attributes. ``extra`` is sorted by key, so
    that equal checks compare equal.
    """

    user: str
    verb: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()
    path: str = ""
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    field_selector: str = ""
    label_selector: str = ""


class AccessDecision(NamedTuple):
    """An authorizer's answer. ``error`` is its error message, ``""`` if it decided without an error."""

    allowed: bool
    reason: str = ""
    error: str = ""


AccessDecisions = Mapping[AccessQuestion, AccessDecision]


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


class PendingChecksError(Exception):
    """An expression needs decisions of an authorizer.

    The caller gets a decision for each of ``questions`` and evaluates the expression again.
    """

    def __init__(self, questions: frozenset[AccessQuestion]) -> None:
        super().__init__(f"{len(questions)} access checks have no decision yet")
        self.questions: Final = questions


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
