"""Match conditions as programs: compiled once, evaluated for every request."""

import re
from typing import Final, NamedTuple

from cel_expr_python import cel
from google.protobuf.message import DecodeError

from app.dispatch.cel.environment import check
from app.dispatch.cel.errors import CostError, EvaluationError, ExpressionError, UndecidedError, UnsupportedError
from app.dispatch.cel.frame import ABSENT, COST, FIRST_LOCAL, Frame
from app.dispatch.cel.plan import Plan
from app.dispatch.cel.run import CURRENT, MAX_COST, MAX_WORK, Exhausted, Run
from app.dispatch.cel.scope import Scope
from app.dispatch.cel.texts import compile_text
from app.dispatch.cel.values import NO_SUCH_OVERLOAD, CelError


class Limits(NamedTuple):
    """What one evaluation may use: cost in Kubernetes' units, and elements that Kubernetes does not charge for."""

    cost: int
    work: int


class Measured(NamedTuple):
    """What a condition says, and what that used.

    Attributes:
        value: what it says.
        cost: what Kubernetes charges for it.
        used: what counts for the budget of the request.
    """

    value: bool
    cost: int
    used: int


LIMITS: Final = Limits(MAX_COST, MAX_WORK)
# cel-cpp refuses more than 100,000 code points and more than 32 levels by itself; an object of Kubernetes that holds
# the expression has at most 1.5 MiB.
_LONGEST: Final = 100_000
# Each of these macros repeats what it is called on, so a chain of them doubles with every link before anything is
# checked; cel-go has no bound for that either.
_REPEATING: Final = re.compile(r"\bopt(?:Flat)?Map\b")
_LONGEST_REPEATED: Final = 2_000_000
# Protobuf reads at most 100 levels, which are some 20 loops within each other; cel-go takes more.
_TOO_DEEP: Final = "compilation failed: the expression is nested too deeply"


class Program:
    """A condition that can be evaluated."""

    __slots__ = ("_plan", "expression")

    def __init__(self, expression: str, plan: Plan) -> None:
        self.expression: Final = expression
        self._plan: Final = plan

    @property
    def size(self) -> int:
        """The number of its nodes, by which caches count."""
        return self._plan.nodes

    def evaluate(self, scope: Scope) -> bool:
        """Return what the condition says of a request.

        Raises:
            EvaluationError: it ended in an error, or used more than it may (CostError).
            UndecidedError: it depends on access questions that ``scope.access`` has no answers for.
        """
        return self.measure(scope).value

    def measure(self, scope: Scope, limits: Limits = LIMITS) -> Measured:
        """Return what the condition says of a request, and what that used; `evaluate` has the errors."""
        run = Run(scope.access, max_work=limits.work)
        frame: Frame = [0, limits.cost, *scope.variables, *([ABSENT] * (self._plan.slots - FIRST_LOCAL))]
        token = CURRENT.set(run)
        try:
            value = self._plan.code(frame)
            exhausted = frame[COST] > limits.cost
        except Exhausted:
            value, exhausted = None, True
        finally:
            CURRENT.reset(token)
            run.cost = frame[COST]
        if exhausted:
            raise CostError(self.expression, cost=run.cost, used=run.used)
        if type(value) is bool:
            return Measured(value, run.cost, run.used)
        raise self._error(run, value)

    def _error(self, run: Run, value: object) -> Exception:
        text = value.text if isinstance(value, CelError) else NO_SUCH_OVERLOAD
        if run.unsupported:
            text = f"not supported here: {run.unsupported}"
            return UnsupportedError(self.expression, text, cost=run.cost, used=run.used)
        if run.questions:
            return UndecidedError(frozenset(run.questions))
        return EvaluationError(self.expression, text, cost=run.cost, used=run.used)


def compile_condition(expression: str) -> Program:
    """Return the program of a match condition.

    Raises:
        ExpressionError: the text is no expression, or its type is not bool; in the words of an apiserver.
    """
    if len(expression) > _LONGEST:
        raise ExpressionError(f"compilation failed: the expression is longer than {_LONGEST} characters")
    if len(expression) << min(len(_REPEATING.findall(expression)), 64) > _LONGEST_REPEATED:
        raise ExpressionError("compilation failed: too many optMap and optFlatMap for an expression of this length")
    try:
        type_, plan = check(expression)
    except TypeError:
        # What is no text in UTF-8, a lone surrogate, does not even reach cel-cpp.
        raise ExpressionError("compilation failed: the expression is not valid UTF-8") from None
    except DecodeError:
        raise ExpressionError(_TOO_DEEP) from None
    except RuntimeError as error:
        raise ExpressionError(f"compilation failed: {compile_text(str(error))}") from None
    if type_ != cel.Type.BOOL:
        raise ExpressionError("must evaluate to bool")
    return Program(expression, plan)
