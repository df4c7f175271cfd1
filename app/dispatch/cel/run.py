"""One evaluation as its functions see it: who may do what, how much was used, and what is still to be asked.

cel-cpp calls functions with their arguments and nothing else, and turns what they raise into text. So the evaluation
that is under way is kept here, and what is raised is kept with it.
"""

from contextvars import ContextVar
from time import thread_time
from typing import Final

from app.dispatch.cel.access import AccessDecision, AccessDecisions, AccessQuestion

# k8s.io/apiserver/pkg/apis/cel: PerCallLimit and RuntimeCELCostBudget, and what cel-go's cost of a check is there
# (pkg/cel/library/cost.go).
COST_OF_ONE: Final = 1_000_000
COST_OF_ALL: Final = 2_500_000
COST_OF_CHECK: Final = 350_000

# Kubernetes has no limit in time. Nothing else can run in this process while an expression is evaluated, and 1,000,000
# units of cost are roughly this long for cel-go.
LONGEST: Final = 0.1


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
    """What one evaluation used and asked."""

    __slots__ = ("access", "cost", "exhausted", "questions", "started", "unsupported")

    def __init__(self, access: AccessDecisions | None) -> None:
        self.access: Final = access
        self.cost = 0
        self.exhausted = False
        self.questions: set[AccessQuestion] = set()
        self.unsupported = ""
        self.started: Final = thread_time()

    def charge(self, cost: int) -> None:
        """Add to what was used.

        Raises:
            Exhausted: it is more than one expression may use, in cost or in time.
        """
        self.cost += cost
        if self.exhausted or self.cost > COST_OF_ONE or thread_time() - self.started > LONGEST:
            self.exhausted = True
            raise Exhausted

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


def tick(value: bool) -> bool:  # noqa: FBT001 - cel-cpp passes arguments by position
    """Return ``value`` if the evaluation may go on."""
    CURRENT.get().charge(0)
    return value


def weigh(value: object) -> bool:
    """Charge a sum whose type only shows now, and say that the evaluation may go on.

    Texts and lists double when they are added to themselves, and can be made to do so again and again.
    """
    if isinstance(value, str | bytes | bytearray):
        CURRENT.get().charge(cost_of_text(len(value)))
    elif isinstance(value, list):
        CURRENT.get().charge(len(value))
    return True


def weigh_size(size: int) -> bool:
    """Charge a list for its ``size``, and say that the evaluation may go on."""
    CURRENT.get().charge(size)
    return True


def weigh_product(one: int, other: int) -> bool:
    """Charge a comparison of each with each, and say that the evaluation may go on."""
    CURRENT.get().charge(max(0, one) * max(0, other))
    return True


def go() -> bool:
    """Say that the evaluation may go on."""
    CURRENT.get().charge(0)
    return True
