"""Match conditions as programs: compiled once, evaluated for every request."""

import re
from functools import lru_cache
from typing import Final

from cel_expr_python import cel
from google.protobuf.message import DecodeError

from app.dispatch.cel.environment import check, evaluating
from app.dispatch.cel.errors import CostError, EvaluationError, ExpressionError, UndecidedError, UnsupportedError
from app.dispatch.cel.run import CURRENT, Run
from app.dispatch.cel.scope import Scope, ValueOutOfRangeError
from app.dispatch.cel.syntax import Syntax
from app.dispatch.cel.texts import compile_text, evaluation_text, is_budget

# cel-cpp refuses more than 100,000 code points and more than 32 levels by itself; an object of Kubernetes that holds
# the expression has at most 1.5 MiB.
_LONGEST: Final = 100_000
# Each of these macros repeats what it is called on, so a chain of them doubles with every link before anything is
# checked; cel-go has no bound for that either.
_REPEATING: Final = re.compile(r"\bopt(?:Flat)?Map\b")
_LONGEST_REPEATED: Final = 2_000_000
# Protobuf reads at most 100 levels, which are some 20 loops within each other; cel-go takes more.
_TOO_DEEP: Final = "compilation failed: the expression is nested too deeply"
# Conditions of some thousand webhooks, each a few KiB when compiled.
_REMEMBERED: Final = 4_096


class Program:
    """A condition that can be evaluated."""

    __slots__ = ("_compiled", "_paths", "expression")

    def __init__(self, expression: str, syntax: Syntax) -> None:
        self.expression: Final = expression
        self._paths: Final = syntax.paths
        self._compiled: Final = evaluating().deserialize(syntax.serialized)

    def evaluate(self, scope: Scope) -> bool:
        """Return what the condition says of a request.

        Raises:
            EvaluationError: it ended in an error, or used more than it may (CostError).
            UndecidedError: it depends on access questions that ``scope.access`` has no answers for.
        """
        return self.measure(scope)[0]

    def measure(self, scope: Scope) -> tuple[bool, int]:
        """Return what the condition says of a request, and what that used of the budget; `evaluate` has the errors."""
        run = Run(scope.access, scope.weight)
        token = CURRENT.set(run)
        try:
            value = self._compiled.eval(scope.bound(self._paths))
            type_, plain = value.type(), value.value()
        except ValueOutOfRangeError as problem:
            raise EvaluationError(self.expression, str(problem)) from None
        except RuntimeError as error:
            raise self._error(run, str(error)) from None
        finally:
            CURRENT.reset(token)
        if run.exhausted:
            raise CostError(self.expression, cost=run.used)
        if type_ == cel.Type.BOOL:
            return bool(plain), run.used
        raise self._error(run, str(plain))

    def _error(self, run: Run, text: str) -> Exception:
        if run.exhausted or is_budget(text):
            return CostError(self.expression, cost=run.used)
        if run.unsupported:
            return UnsupportedError(self.expression, f"not supported here: {run.unsupported}", cost=run.used)
        if run.questions:
            return UndecidedError(frozenset(run.questions))
        return EvaluationError(self.expression, evaluation_text(text), cost=run.used)


@lru_cache(maxsize=_REMEMBERED)
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
        type_, syntax = check(expression)
    except TypeError:
        # What is no text in UTF-8, a lone surrogate, does not even reach cel-cpp.
        raise ExpressionError("compilation failed: the expression is not valid UTF-8") from None
    except DecodeError:
        raise ExpressionError(_TOO_DEEP) from None
    except RuntimeError as error:
        raise ExpressionError(f"compilation failed: {compile_text(str(error))}") from None
    if type_ != cel.Type.BOOL:
        raise ExpressionError("must evaluate to bool")
    try:
        return Program(expression, syntax)
    except RuntimeError:
        raise ExpressionError(_TOO_DEEP) from None
