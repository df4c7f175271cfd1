"""Costs of calls as Kubernetes charges them.

cel-go: interpreter/runtimecost.go, ext/lists.go, ext/sets.go; k8s.io/apiserver/pkg/cel/library/cost.go. Members, loops
and constructors are charged where they are planned.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from google.protobuf.message import Message

from app.dispatch.cel.evaluation import COST_OF_CHECK, spend
from app.dispatch.cel.library.addresses import size_of_address
from app.dispatch.cel.library.formats import regex_size_of
from app.dispatch.cel.values import NONE, Optional

CostOfArguments: TypeAlias = Callable[[Sequence[Any]], int]

# cel-go: common/cost.go
COST_OF_MEMBER: Final = 1
COST_OF_LIST: Final = 10
COST_OF_MAP: Final = 30
_TRAVERSAL: Final = 0.1
_REGEX: Final = 0.25
# pkg/cel/library/cost.go: half a requirement for each character, a list and a struct for each requirement.
_COST_OF_REQUIREMENT: Final = 50
_SIZED: Final = (str, bytes, list, dict)


class CallCost(NamedTuple):
    """The cost of a call: ``fixed``, or by the arguments, or by the result if that is set."""

    fixed: int = 1
    by_arguments: CostOfArguments | None = None
    by_result: Callable[[Any], int] | None = None


def size_of(value: Any) -> int:
    """Return the size of a value: the length of a text, list or map, and 1 for all others."""
    if isinstance(value, _SIZED):
        return len(value)
    return size_of_address(value)


def _size_in_optional(value: Any) -> int:
    # Only cel-go's own costs look into optionals.
    if isinstance(value, Optional) and value is not NONE:
        return _size_in_optional(value.value)
    return size_of(value)


def _traversal(size: float) -> int:
    return math.ceil(size * _TRAVERSAL)


def _by_first(arguments: Sequence[Any]) -> int:
    return _traversal(size_of(arguments[0]))


def _by_first_twice(arguments: Sequence[Any]) -> int:
    return math.ceil(size_of(arguments[0]) * 2 * _TRAVERSAL)


def _by_second_size(arguments: Sequence[Any]) -> int:
    return size_of(arguments[1])


def cost_of_equality(left: Any, right: Any) -> int:
    """Return the cost of ``==``: that of the smaller value, 1 for a value of a type that Kubernetes adds."""
    return 1 if isinstance(left, Message) else cost_of_comparison(left, right)


def cost_of_comparison(left: Any, right: Any) -> int:
    """Return the cost of ``!=``, and of an order among texts: that of the smaller value."""
    return _traversal(min(_size_in_optional(left), _size_in_optional(right)))


def _by_smaller(arguments: Sequence[Any]) -> int:
    return cost_of_comparison(*arguments)


def _by_sum(arguments: Sequence[Any]) -> int:
    return _traversal(size_of(arguments[0]) + size_of(arguments[1]))


def _by_product(arguments: Sequence[Any]) -> int:
    return _traversal(size_of(arguments[0])) * _traversal(size_of(arguments[1]))


def _by_regex(arguments: Sequence[Any]) -> int:
    return _traversal(1.0 + size_of(arguments[0])) * math.ceil(size_of(arguments[1]) * _REGEX)


def _by_selector(arguments: Sequence[Any]) -> int:
    size = size_of(arguments[1])
    return COST_OF_LIST + _traversal(size) + math.ceil(math.ceil(size * 0.5) * _COST_OF_REQUIREMENT)


def _by_elements(arguments: Sequence[Any]) -> int:
    return _cost_of_traversal(arguments[0])


def _cost_of_traversal(value: Any) -> int:
    """Return the cost of walking over all that is in a value."""
    cost, level = 0, [value]
    while level:
        spend(len(level))
        below: list[Any] = []
        for one in level:
            if isinstance(one, list):
                below += one
            elif isinstance(one, dict):
                below += one.keys()
                below += one.values()
            elif isinstance(one, str | bytes):
                cost += int(len(one if isinstance(one, bytes) else one.encode(errors="replace")) * _TRAVERSAL)
            else:
                cost += 1
        level = below
    return cost


def _by_address(arguments: Sequence[Any]) -> int:
    return _traversal(2 * size_of(arguments[0]))


def _by_network(arguments: Sequence[Any]) -> int:
    return _by_address(arguments) + _traversal(size_of(arguments[0])) + 1


def _and_parsing(cost: CostOfArguments) -> CostOfArguments:
    return lambda arguments: cost(arguments) + _traversal(size_of(arguments[1]))


def _by_format(arguments: Sequence[Any]) -> int:
    regex = regex_size_of(arguments[0])
    return 1 if regex is None else _traversal(1.0 + size_of(arguments[1])) * math.ceil(regex * _REGEX)


def _list_made(size: int, factor: float = 1.0) -> int:
    return int(size * factor) + 1 + COST_OF_LIST


def _by_compared_pairs(values: Any) -> int:
    if not isinstance(values, list):
        return 1
    factor = 2.0 + (_TRAVERSAL if values and isinstance(values[0], str | bytes) else 0.0)
    return _list_made(len(values) ** 2, factor)


def _by_first_pairs(arguments: Sequence[Any]) -> int:
    return _by_compared_pairs(arguments[0])


def _by_key_pairs(arguments: Sequence[Any]) -> int:
    return _by_compared_pairs(arguments[1])


def _by_depth(arguments: Sequence[Any]) -> int:
    depth = arguments[1] if len(arguments) > 1 and isinstance(arguments[1], int) else 1
    return _list_made(size_of(arguments[0]), max(0, depth))


def _by_sets(factor: int) -> CostOfArguments:
    return lambda arguments: 1 + factor * size_of(arguments[0]) * size_of(arguments[1])


def _by_range(arguments: Sequence[Any]) -> int:
    return _list_made(max(0, arguments[0])) if isinstance(arguments[0], int) else _list_made(1)


def _by_slice(arguments: Sequence[Any]) -> int:
    values, start, end = arguments
    known = isinstance(start, int) and isinstance(end, int) and isinstance(values, list)
    return _list_made(end - start if known and 0 <= start <= end <= len(values) else 1)


def _by_joined(result: Any) -> int:
    return math.ceil(size_of(result) * 2 * _TRAVERSAL)


def _named(names: str, cost: CallCost) -> dict[str, CallCost]:
    return dict.fromkeys(names.split(), cost)


# pkg/cel/library/cost.go, by the name of the function. A function that is not here costs 1 or what cel-go charges.
_BY_NAME: Final[dict[str, CallCost]] = {
    "check": CallCost(COST_OF_CHECK),
    **_named("fieldSelector labelSelector", CallCost(by_arguments=_by_selector)),
    **_named("isSorted sum max min indexOf lastIndexOf", CallCost(by_arguments=_by_elements)),
    **_named(
        "url lowerAscii upperAscii substring trim cidr isIP isCIDR quantity isQuantity semver isSemver",
        CallCost(by_arguments=_by_first),
    ),
    **_named("replace split ip.isCanonical", CallCost(by_arguments=_by_first_twice)),
    "join": CallCost(by_result=_by_joined),
    **_named("find findAll", CallCost(by_arguments=_by_regex)),
    # The member `ip` of a network is there already.
    "ip": CallCost(by_arguments=lambda arguments: _by_first(arguments) if isinstance(arguments[0], str) else 1),
    "containsIP": CallCost(by_arguments=_by_address),
    "containsCIDR": CallCost(by_arguments=_by_network),
    "validate": CallCost(by_arguments=_by_format),
}
# cel-go, by the overload. Kubernetes' own rows have the names that `functions.Function` gives them.
_BY_OVERLOAD: Final[dict[str, CallCost]] = {
    # A text of dynamic type is not charged for: cel-go knows no overload then.
    "kubernetes.containsIP:member:net.CIDR:string": CallCost(by_arguments=_and_parsing(_by_address)),
    "kubernetes.containsCIDR:member:net.CIDR:string": CallCost(by_arguments=_and_parsing(_by_network)),
    **_named(
        "starts_with_string ends_with_string string_to_bytes bytes_to_string kubernetes.string:function:bytes "
        "strings_quote kubernetes.strings.quote:function:string string_format "
        "kubernetes.format:member:string:list<dyn>",
        CallCost(by_arguments=lambda arguments: _traversal(_size_in_optional(arguments[0]))),
    ),
    "in_list": CallCost(by_arguments=_by_second_size),
    **{
        f"kubernetes.{operator}:function:{kind}:{kind}": CallCost(by_arguments=_by_smaller)
        for operator in ("_<_", "_<=_", "_>_", "_>=_")
        for kind in ("string", "bytes")
    },
    **_named("add_string add_bytes", CallCost(by_arguments=_by_sum)),
    "kubernetes.matches:member:string:string": CallCost(by_arguments=_by_regex),
    "contains_string": CallCost(by_arguments=_by_product),
    "list_slice": CallCost(by_arguments=_by_slice),
    **_named("list_flatten list_flatten_int", CallCost(by_arguments=_by_depth)),
    "list_range": CallCost(by_arguments=_by_range),
    "list_reverse": CallCost(by_arguments=lambda arguments: _list_made(size_of(arguments[0]))),
    "list_distinct": CallCost(by_arguments=_by_first_pairs),
    **_named("list_sets_contains_list list_sets_intersects_list", CallCost(by_arguments=_by_sets(1))),
    "list_sets_equivalent_list": CallCost(by_arguments=_by_sets(2)),
}
_NOMINAL: Final = CallCost()


def cost_of_call(function: str, overloads: Sequence[str], table: Mapping[str, CallCost] = _BY_OVERLOAD) -> CallCost:
    """Return the cost of a call.

    Args:
        function: the name of the function.
        overloads: those that the check found. If there are several, cel-go charges 1.
        table: the costs by overload.
    """
    overload = overloads[0] if len(overloads) == 1 else ""
    if overload in table:
        return table[overload]
    if overload.startswith("list_") and overload.endswith("_sort"):
        return CallCost(by_arguments=_by_first_pairs)
    if overload.startswith("list_") and overload.endswith("_sortByAssociatedKeys"):
        return CallCost(by_arguments=_by_key_pairs)
    return _BY_NAME.get(function, _NOMINAL)
