"""Match conditions as programs: compiled once, evaluated for every request."""

import re
from typing import Final, NamedTuple

from app.dispatch.cel.activation import Activation
from app.dispatch.cel.environment import check, plan
from app.dispatch.cel.errors import CostError, EvaluationError, ExpressionError, PendingChecksError, UnsupportedError
from app.dispatch.cel.evaluation import CURRENT, MAX_COST, MAX_WORK, Evaluation, LimitReachedError
from app.dispatch.cel.frame import ABSENT, COST, FIRST_LOCAL, Frame
from app.dispatch.cel.planner import Plan
from app.dispatch.cel.values import NO_SUCH_OVERLOAD, CelError


class Limits(NamedTuple):
    """The limits of one evaluation: cost in Kubernetes' units, and elements that Kubernetes does not charge for."""

    cost: int
    work: int


class Measurement(NamedTuple):
    """The verdict of a condition, and its use of the limits.

    Attributes:
        value: The verdict.
        cost: Kubernetes' charge for it.
        used: Its part of the budget of the request.
    """

    value: bool
    cost: int
    used: int


LIMITS: Final = Limits(MAX_COST, MAX_WORK)
# cel-cpp refuses more than 100,000 code points and more than 32 levels by itself; an object of Kubernetes that holds
# the expression has at most 1.5 MiB.
MAX_LENGTH: Final = 100_000
# Each of these macros repeats what it is called on, so a chain of them doubles with every link before anything is
# checked; cel-go has no bound for that either.
_REPEATING_MACRO: Final = re.compile(r"\bopt(?:Flat)?Map\b")
MAX_EXPANDED_LENGTH: Final = 2_000_000
# Characters of an expression that weigh as much as a node: a text literal is one node, however long it is.
_CHARACTERS_PER_NODE: Final = 500


class Program:
    """A condition that can be evaluated."""

    __slots__ = ("_plan", "expression")

    def __init__(self, expression: str, plan: Plan) -> None:
        self.expression: Final = expression
        self._plan: Final = plan

    @property
    def size(self) -> int:
        """The number of its nodes, by which caches count; long texts count as more."""
        return self._plan.nodes + len(self.expression) // _CHARACTERS_PER_NODE

    def evaluate(self, activation: Activation) -> bool:
        """Return what the condition says of a request.

        Raises:
            EvaluationError: it ended in an error, or used more than it may (CostError).
            PendingChecksError: it depends on access questions that ``activation.access`` has no answers for.
        """
        return self.measure(activation).value

    def measure(self, activation: Activation, limits: Limits = LIMITS) -> Measurement:
        """Return what the condition says of a request, and what that used; `evaluate` has the errors."""
        run = Evaluation(activation.access, max_work=limits.work)
        frame: Frame = [0, limits.cost, *activation.variables, *([ABSENT] * (self._plan.slots - FIRST_LOCAL))]
        token = CURRENT.set(run)
        try:
            value = self._plan.code(frame)
            exhausted = frame[COST] > limits.cost
        except LimitReachedError:
            value, exhausted = None, True
        finally:
            CURRENT.reset(token)
            run.cost = frame[COST]
        if exhausted:
            raise CostError(self.expression, cost=run.cost, used=run.used)
        if type(value) is bool:
            return Measurement(value, run.cost, run.used)
        raise self._build_error(run, value)

    def _build_error(self, run: Evaluation, value: object) -> Exception:
        text = value.text if isinstance(value, CelError) else NO_SUCH_OVERLOAD
        if run.unsupported:
            text = f"not supported here: {run.unsupported}"
            return UnsupportedError(self.expression, text, cost=run.cost, used=run.used)
        if run.questions:
            return PendingChecksError(frozenset(run.questions))
        return EvaluationError(self.expression, text, cost=run.cost, used=run.used)


def compile_condition(expression: str) -> Program:
    """Return the program of a match condition.

    Raises:
        ExpressionError: the text is no expression, or its type is not bool; in the words of an apiserver.
    """
    check_length(expression)
    is_bool, checked = check(expression)
    return build_program(expression, is_bool=is_bool, checked=checked)


def check_length(expression: str) -> None:
    """Refuse an expression that is too long to be checked; raises ExpressionError."""
    if len(expression) > MAX_LENGTH:
        raise ExpressionError(f"compilation failed: the expression is longer than {MAX_LENGTH} characters")
    if compute_expanded_length(expression) > MAX_EXPANDED_LENGTH:
        raise ExpressionError("compilation failed: too many optMap and optFlatMap for an expression of this length")


def compute_expanded_length(expression: str) -> int:
    """Return how long an expression is after its macros have repeated parts of it, at most."""
    return len(expression) << min(len(_REPEATING_MACRO.findall(expression)), 64)


def build_program(expression: str, *, is_bool: bool, checked: bytes) -> Program:
    """Return the program of an expression that `app.dispatch.cel.environment.check` has checked.

    Raises:
        ExpressionError: its type is not bool, or it is nested too deeply.
    """
    planned = plan(checked)
    if not is_bool:
        raise ExpressionError("must evaluate to bool")
    return Program(expression, planned)
