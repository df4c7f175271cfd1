"""Compiles calls, literals and comprehensions (cel-go: interpreter/interpretable.go).

A call evaluates its arguments, charges the cost, and calls the function.

Comprehensions are the loops behind macros such as ``all`` and ``map``.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import repeat
from typing import Any, Final, NamedTuple, TypeAlias

from fleethook.cel.cost_and_length_limits import LimitReachedError
from fleethook.cel.plan.costs import COST_OF_LIST, COST_OF_MAP, CallCost
from fleethook.cel.values.times import Duration, Timestamp
from fleethook.cel.values.values_and_overloads import (
    NO_SUCH_OVERLOAD,
    NONE,
    CelError,
    GrowingList,
    GrowingMap,
    IdentityKey,
    Optional,
    Uint,
    get_kind,
)

Frame: TypeAlias = list[Any]
Evaluate: TypeAlias = Callable[[Frame], Any]
"""The code of a part of an expression: returns its value. Errors are values, too: `CelError`."""

COST: Final = 0
LIMIT: Final = 1


class _Absent:
    """Marks a variable that does not exist, or an accumulator before its first read."""

    __slots__ = ()


ABSENT: Final = _Absent()

_NO_SUCH_OVERLOAD: Final = CelError(NO_SUCH_OVERLOAD)
# cel-go evaluates all arguments of a call with at most this many, even after an error.
_MAX_STRICT_ARGUMENTS: Final = 2


def charge(frame: Frame, cost: int) -> None:
    """Add to the cost; raises LimitReachedError."""
    frame[COST] += cost
    # cel-go's cost is unsigned: a negative sum, which flatten(-1) can make, exceeds each limit.
    if not 0 <= frame[COST] <= frame[LIMIT]:
        raise LimitReachedError


def attempt(code: Callable[..., Any], arguments: Sequence[Any]) -> Any:
    """Call a function and return its result, or its exception as a `CelError`."""
    try:
        return code(*arguments)
    except LimitReachedError:
        raise
    except UnicodeEncodeError:
        # Decoded JSON may have a lone surrogate, which is no UTF-8.
        return CelError("a text is not valid UTF-8")
    except Exception as fault:  # noqa: BLE001 - the error of a function is that of the expression
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


# Other keys are no error in cel-go, which compares most of them by their identity.
_HASHED: Final = frozenset({str, int, bool, Uint, float, type(None), Duration, Timestamp})


def compile_list(elements: Sequence[Evaluate], optional: frozenset[int]) -> Evaluate:
    """Return code that creates a list; an element whose index is in ``optional`` is omitted if it has no value."""

    def make(frame: Frame) -> Any:
        frame[COST] += COST_OF_LIST
        made: list[Any] = []
        for position, element in enumerate(elements):
            value = element(frame)
            if type(value) is CelError:
                return value
            if position in optional:
                if type(value) is not Optional:
                    return CelError("cannot initialize optional list element from non-optional value")
                if value is NONE:
                    continue
                value = value.value
            made.append(value)
        return made

    return make


def compile_map(entries: Sequence[tuple[Evaluate, Evaluate, bool]]) -> Evaluate:
    """Return code that creates a map from codes of keys and values; an optional entry is omitted if it has no value."""

    def make(frame: Frame) -> Any:
        frame[COST] += COST_OF_MAP
        made: dict[Any, Any] = {}
        for compute_key, compute_value, optional in entries:
            key = compute_key(frame)
            if type(key) is CelError:
                return key
            value = compute_value(frame)
            if type(value) is CelError:
                return value
            if type(key) not in _HASHED:
                key = IdentityKey(key)
            if optional:
                if type(value) is not Optional:
                    return CelError("cannot initialize optional entry from non-optional value")
                if value is NONE:
                    made.pop(key, None)
                    continue
                value = value.value
            made[key] = value
        return made

    return make


# cel-go's error names Go types.
_GO_TYPES: Final = {
    "string": "types.String",
    "bytes": "types.Bytes",
    "int": "types.Int",
    "uint": "types.Uint",
    "double": "types.Double",
    "bool": "types.Bool",
    "null": "types.Null",
}


class Loop(NamedTuple):
    """The code of a comprehension, and the indices of its variables in a frame."""

    range: Evaluate
    condition: Evaluate
    step: Evaluate
    result: Evaluate
    accumulator: int
    first: int
    second: int
    has_pairs: bool
    """Whether the loop uses the second variable. The first variable then has the indices of a list."""


def compile_accumulator(slot: int, initial: Evaluate) -> Evaluate:
    """Return code that reads the accumulator of a comprehension and initializes it at the first read."""

    def read(frame: Frame) -> Any:
        value = frame[slot]
        if value is ABSENT:
            value = initial(frame)
            # cel-go takes an optional in an accumulator, such as that of optMap, for its value.
            if type(value) is Optional:
                value = value.value
            if type(value) is list and not value:
                value = GrowingList()
            elif type(value) is dict and not value:
                value = GrowingMap()
            frame[slot] = value
        return value

    return read


def compile_loop(loop: Loop) -> Evaluate:
    """Return code that evaluates a comprehension."""
    result, collected = loop.result, loop.accumulator

    def evaluate(frame: Frame) -> Any:
        values = loop.range(frame)
        if type(values) is CelError:
            return values
        frame[collected] = ABSENT
        if not isinstance(values, list | dict):
            name = _GO_TYPES.get(get_kind(type(values)), "ref.Val")
            return CelError(f"got '{name}', expected iterable type")
        _run_steps(loop, frame, values)
        if frame[COST] > frame[LIMIT]:
            raise LimitReachedError
        made = result(frame)
        frame[collected] = ABSENT
        if type(made) is GrowingList:
            return list(made)
        return dict(made) if type(made) is GrowingMap else made

    return evaluate


def _run_steps(loop: Loop, frame: Frame, values: Any) -> None:
    _, condition, step, _, collected, first, second, has_pairs = loop
    if isinstance(values, dict):
        pairs: Iterable[tuple[Any, Any]] = values.items()
    else:
        pairs = enumerate(values) if has_pairs else zip(values, repeat(None))
    for key, value in pairs:
        frame[first], frame[second] = key.value if type(key) is IdentityKey else key, value
        if condition(frame) is False:
            return
        frame[collected] = step(frame)
        if frame[COST] > frame[LIMIT]:
            raise LimitReachedError
