"""One evaluation as its functions see it: who may do what, how much was used, and what is still to be asked.

cel-cpp calls functions with their arguments and nothing else, and turns what they raise into text. So the evaluation
that is under way is kept here, and what is raised is kept with it.
"""

from collections.abc import Callable
from contextvars import ContextVar
from time import thread_time
from typing import Final

from app.dispatch.cel.access import AccessDecision, AccessDecisions, AccessQuestion
from app.dispatch.cel.reads import Path

# k8s.io/apiserver/pkg/apis/cel: PerCallLimit and RuntimeCELCostBudget, and what cel-go's cost of a check is there
# (pkg/cel/library/cost.go).
COST_OF_ONE: Final = 1_000_000
COST_OF_ALL: Final = 2_500_000
COST_OF_CHECK: Final = 350_000

# A unit of work takes cel-cpp about 0.25 us: it compares two members of an object, or copies three elements of a list.
# As many units as Kubernetes allows of its own cost are a quarter of a second, in which nothing else runs here.
MAX_WORK: Final = COST_OF_ONE
# Seconds of processor time: twenty times as long as MAX_WORK takes. Work is counted, so that a verdict does not depend
# on the machine; this limit is for the call that takes longer than its count says.
MAX_SECONDS: Final = 5.0
_WORK_BETWEEN_CLOCKS: Final = 1_000


class Exhausted(Exception):  # noqa: N818 - a limit that was reached, not a fault
    """The evaluation used up what it may."""


class Open(Exception):  # noqa: N818 - a question, not a fault
    """An access question has no answer yet."""


class Unknown(Exception):  # noqa: N818 - a limit of ours, not a fault
    """A function of Kubernetes cannot be evaluated here; the text names it."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        CURRENT.get().unsupported = what


def cost_of_text(length: int) -> int:
    """Return what it costs to walk over a text of ``length`` (cel-go: StringTraversalCostFactor)."""
    return -(-length // 10)


def cost_of_regex(text: str, pattern: str) -> int:
    """Return what it costs to match a text (cel-go: RegexStringLengthCostFactor, and a traversal)."""
    return cost_of_text(len(text) + 1) * -(-len(pattern) // 4)


class Run:
    """What one evaluation used and asked.

    Attributes:
        cost: what Kubernetes charges for the functions that charge here, in its units.
        work: what the evaluation made cel-cpp do, in units of about 0.25 us.
        exhausted: whether a limit was exceeded. The evaluation has no value then, whatever cel-cpp returns.
        questions: the access questions that have no answer yet.
        unsupported: the function that cannot be evaluated here.
    """

    __slots__ = ("access", "cost", "exhausted", "questions", "started", "unsupported", "weight_of", "work")

    def __init__(self, access: AccessDecisions | None, weight_of: Callable[[Path], int]) -> None:
        self.access: Final = access
        self.weight_of: Final = weight_of
        self.cost = 0
        self.work = 0
        self.exhausted = False
        self.questions: set[AccessQuestion] = set()
        self.unsupported = ""
        self.started: Final = thread_time()

    @property
    def used(self) -> int:
        """What counts for the budget of the webhook: cost or work, the larger one.

        Work beyond its limit was refused, not done, so it does not use up the budget of the other conditions.
        """
        return max(self.cost, min(self.work, MAX_WORK))

    def charge(self, cost: int = 0, *, work: int = 0) -> None:
        """Add to the cost and to the work.

        Raises:
            Exhausted: it is more than one expression may use.
        """
        self.cost += cost
        if not self.spend(work) or self.cost > COST_OF_ONE:
            self.exhausted = True
            raise Exhausted

    def spend(self, work: int) -> bool:
        """Add to the work, and return whether the evaluation may go on."""
        before, self.work = self.work, self.work + work
        if self.work > MAX_WORK or (
            # To look at the clock takes longer than most of what is counted.
            before // _WORK_BETWEEN_CLOCKS != self.work // _WORK_BETWEEN_CLOCKS
            and thread_time() - self.started > MAX_SECONDS
        ):
            self.exhausted = True
        return not self.exhausted

    def ask(self, question: AccessQuestion) -> AccessDecision:
        """Return the answer to a check.

        What has no answer costs nothing: with the answer, an expression may turn out not to need the next check. But no
        more is asked at once than could be paid for.

        Raises:
            Open: nobody has answered it yet.
            Exhausted: the expression has asked too much.
        """
        decision = (self.access or {}).get(question)
        if decision is None:
            if len(self.questions) < COST_OF_ONE // COST_OF_CHECK:
                self.questions.add(question)
            raise Open
        self.charge(COST_OF_CHECK)
        return decision


CURRENT: Final[ContextVar[Run]] = ContextVar("CURRENT")
