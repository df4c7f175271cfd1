"""Compiles calls: evaluate the arguments, charge the cost, call the function (cel-go: interpreter/interpretable.go).

As in cel-go, a call evaluates all arguments before it returns the first error among them, so costs are equal.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

from fleethook.cel.evaluation import COST, LIMIT, Evaluate, Frame, LimitReachedError
from fleethook.cel.plan.costs import CallCost
from fleethook.cel.values.values import NO_SUCH_OVERLOAD, NONE, CelError, Optional

_NO_SUCH_OVERLOAD: Final = CelError(NO_SUCH_OVERLOAD)
# Functions raise these errors for invalid arguments. Their texts become the error of the expression.
_CALL_ERRORS: Final = (ValueError, TypeError, ArithmeticError, LookupError)
# cel-go evaluates all arguments of a call with at most this many, even after an error.
_MAX_STRICT_ARGUMENTS: Final = 2


def charge(frame: Frame, cost: int) -> None:
    """Add to the cost; raises LimitReachedError."""
    frame[COST] += cost
    # cel-go's cost is unsigned: a negative sum, which flatten(-1) can make, exceeds each limit.
    if not 0 <= frame[COST] <= frame[LIMIT]:
        raise LimitReachedError


def describe_fault(fault: Exception) -> CelError:
    """Return the error for an exception of a function."""
    if isinstance(fault, UnicodeEncodeError):
        # Decoded JSON may have a lone surrogate, which is no UTF-8.
        return CelError("a text is not valid UTF-8")
    return CelError(str(fault))


def attempt(code: Callable[..., Any], arguments: Sequence[Any]) -> Any:
    """Call a function and return its result, or its exception as a `CelError`."""
    try:
        return code(*arguments)
    except LimitReachedError:
        raise
    except _CALL_ERRORS as fault:
        return describe_fault(fault)
    except Exception as fault:  # noqa: BLE001 - `Evaluation` records pending checks
        return CelError(str(fault))


def compile_call(
    code: Callable[..., Any], arguments: Sequence[Evaluate], cost: CallCost, *, charges_errors: bool = True
) -> Evaluate:
    """Return code that evaluates arguments and calls a function.

    Args:
        code: The function.
        arguments: The code of its arguments.
        cost: The cost of the call.
        charges_errors: Whether to charge for a call with an error among its arguments.
    """
    charges_errors = charges_errors and len(arguments) <= _MAX_STRICT_ARGUMENTS

    def call(frame: Frame) -> Any:
        values = [argument(frame) for argument in arguments]
        error = _find_error(values)
        if error is None and cost.by_result is None:
            charge(frame, cost.fixed if cost.by_arguments is None else cost.by_arguments(values))
            return attempt(code, values)
        result = attempt(code, values) if error is None else error
        if cost.by_result is not None and (error is None or charges_errors):
            charge(frame, cost.by_result(result if error is None else values[0]))
        elif charges_errors:
            charge(frame, cost.fixed if cost.by_arguments is None else cost.by_arguments(values))
        return result

    return call


def _find_error(values: Sequence[Any]) -> CelError | None:
    for value in values:
        if type(value) is CelError:
            return value
    return None


def compile_check(code: Callable[..., Any], arguments: Sequence[Evaluate], cost: CallCost) -> Evaluate:
    """Return code for a check of the authorizer, which charges only for a check with a decision.

    Once one check is decided, the expression may not need the next one.
    """

    def call(frame: Frame) -> Any:
        values = [argument(frame) for argument in arguments]
        error = _find_error(values)
        result = attempt(code, values) if error is None else error
        if error is not None or type(result) is not CelError:
            charge(frame, cost.fixed)
        return result

    return call


def compile_logic(left: Evaluate, right: Evaluate, *, decisive: bool) -> Evaluate:
    """Return code for ``||`` (the decisive operand is true) or ``&&`` (the decisive operand is false)."""

    def decide(frame: Frame) -> Any:
        one = left(frame)
        if one is decisive:
            return decisive
        other = right(frame)
        if other is decisive:
            return decisive
        for value in (one, other):
            if type(value) is not bool:
                return value if type(value) is CelError else _NO_SUCH_OVERLOAD
        return not decisive

    return decide


def compile_not_strictly_false(argument: Evaluate) -> Evaluate:
    """Return code for the condition of a comprehension, which continues after an error."""

    def call(frame: Frame) -> Any:
        frame[COST] += 1
        return argument(frame) is not False

    return call


def compile_conditional(condition: Evaluate, yes: Evaluate, no: Evaluate) -> Evaluate:
    """Return code for ``c ? a : b``."""

    def choose(frame: Frame) -> Any:
        value = condition(frame)
        if value is True:
            return yes(frame)
        if value is False:
            return no(frame)
        return value if type(value) is CelError else _NO_SUCH_OVERLOAD

    return choose


def compile_optional_or(left: Evaluate, right: Evaluate, *, unwrapped: bool) -> Evaluate:
    """Return code for ``or`` and ``orValue``, which evaluate the second operand only if the first one has no value."""

    def choose(frame: Frame) -> Any:
        value = left(frame)
        if type(value) is not Optional:
            return value
        if value is NONE:
            return right(frame)
        return value.value if unwrapped else value

    return choose
