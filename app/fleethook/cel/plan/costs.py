"""The costs of calls in Kubernetes.

Sources: cel-go's interpreter/runtimecost.go, ext/lists.go and ext/sets.go, and
k8s.io/apiserver/pkg/cel/library/cost.go. The code of attributes, comprehensions and literals charges for itself.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from fleethook.cel.cost_and_length_limits import spend
from fleethook.cel.library.network_and_formats import get_regex_size, measure_address
from fleethook.cel.values.values_and_overloads import NONE, CelError, Foreign, Optional

CostOfArguments: TypeAlias = Callable[[Sequence[Any]], int]

# cel-go: common/cost.go
COST_OF_LIST: Final = 10
COST_OF_MAP: Final = 30
_TRAVERSAL_FACTOR: Final = 0.1
_REGEX_FACTOR: Final = 0.25
_SIZED: Final = (str, bytes, list, dict)


class CallCost(NamedTuple):
    """The cost of a call: a fixed one, or one that depends on the arguments or on the result."""

    fixed: int = 1
    by_arguments: CostOfArguments | None = None
    by_result: Callable[[Any], int] | None = None


def measure_size(value: Any) -> int:
    """Return the size of a value: the length of a string, list or map, the bytes of an address, 1 for all others."""
    if isinstance(value, _SIZED):
        return len(value)
    return measure_address(value)


def _measure_in_optional(value: Any) -> int:
    # The costs of cel-go use the value inside an optional, and those of Kubernetes do not.
    if isinstance(value, Optional) and value is not NONE:
        return _measure_in_optional(value.value)
    return measure_size(value)


def _charge_traversal(size: float) -> int:
    return math.ceil(size * _TRAVERSAL_FACTOR)


def _charge_by_first(arguments: Sequence[Any]) -> int:
    return _charge_traversal(measure_size(arguments[0]))


def _charge_by_first_twice(arguments: Sequence[Any]) -> int:
    return _charge_traversal(2 * measure_size(arguments[0]))


def _charge_by_smaller(arguments: Sequence[Any]) -> int:
    return _charge_traversal(min(map(_measure_in_optional, arguments)))


def _charge_equality(arguments: Sequence[Any]) -> int:
    # Kubernetes charges 1 for the types that it adds to CEL.
    return 1 if isinstance(arguments[0], Foreign) else _charge_by_smaller(arguments)


def _charge_by_sum(arguments: Sequence[Any]) -> int:
    return _charge_traversal(measure_size(arguments[0]) + measure_size(arguments[1]))


def _charge_by_product(arguments: Sequence[Any]) -> int:
    return _charge_traversal(measure_size(arguments[0])) * _charge_traversal(measure_size(arguments[1]))


def _charge_by_regex(arguments: Sequence[Any]) -> int:
    return _charge_traversal(1.0 + measure_size(arguments[0])) * math.ceil(measure_size(arguments[1]) * _REGEX_FACTOR)


def _charge_by_elements(arguments: Sequence[Any]) -> int:
    # cel-go's stack has no errors, so the second argument takes the place of the first one.
    failed = type(arguments[0]) is CelError and len(arguments) > 1
    return _compute_traversal_cost(arguments[1 if failed else 0])


def _compute_traversal_cost(value: Any) -> int:
    """Return the cost of visiting all values inside a value."""
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
                cost += int(len(one if isinstance(one, bytes) else one.encode(errors="replace")) * _TRAVERSAL_FACTOR)
            else:
                cost += 1
        level = below
    return cost


def _charge_by_network(arguments: Sequence[Any]) -> int:
    return _charge_by_first_twice(arguments) + _charge_traversal(measure_size(arguments[0])) + 1


def _add_parsing(cost: CostOfArguments) -> CostOfArguments:
    return lambda arguments: cost(arguments) + _charge_traversal(measure_size(arguments[1]))


def _charge_by_format(arguments: Sequence[Any]) -> int:
    regex = get_regex_size(arguments[0])
    return (
        1 if regex is None else _charge_traversal(1.0 + measure_size(arguments[1])) * math.ceil(regex * _REGEX_FACTOR)
    )


def _charge_new_list(size: int, factor: float = 1.0) -> int:
    return int(size * factor) + 1 + COST_OF_LIST


def _charge_by_compared_pairs(values: Any) -> int:
    if not isinstance(values, list):
        return 1
    factor = 2.0 + (_TRAVERSAL_FACTOR if values and isinstance(values[0], str | bytes) else 0.0)
    return _charge_new_list(len(values) ** 2, factor)


def _charge_distinct(arguments: Sequence[Any]) -> int:
    # cel-go panics for other values, and so does not charge for the call.
    return _charge_by_compared_pairs(arguments[0]) if isinstance(arguments[0], list) else 0


def _charge_by_depth(arguments: Sequence[Any]) -> int:
    depth = arguments[1] if len(arguments) > 1 and isinstance(arguments[1], int) else 1
    return _charge_new_list(measure_size(arguments[0]), depth)


def _charge_by_sets(factor: int) -> CostOfArguments:
    return lambda arguments: 1 + factor * measure_size(arguments[0]) * measure_size(arguments[1])


def _charge_by_range(arguments: Sequence[Any]) -> int:
    return _charge_new_list(max(0, arguments[0])) if isinstance(arguments[0], int) else _charge_new_list(1)


def _charge_by_slice(arguments: Sequence[Any]) -> int:
    values, start, end = arguments
    known = isinstance(start, int) and isinstance(end, int) and isinstance(values, list)
    return _charge_new_list(end - start if known and 0 <= start <= end <= len(values) else 1)


def _assign_cost(names: str, cost: CallCost) -> dict[str, CallCost]:
    return dict.fromkeys(names.split(), cost)


# pkg/cel/library/cost.go, by the name of the function. Other functions have cel-go's cost, or 1.
_BY_NAME: Final[dict[str, CallCost]] = {
    "_==_": CallCost(by_arguments=_charge_equality),
    "_!=_": CallCost(by_arguments=_charge_by_smaller),
    **_assign_cost("isSorted sum max min indexOf lastIndexOf", CallCost(by_arguments=_charge_by_elements)),
    **_assign_cost(
        "url lowerAscii upperAscii substring trim cidr isIP isCIDR quantity isQuantity semver isSemver",
        CallCost(by_arguments=_charge_by_first),
    ),
    **_assign_cost("replace split ip.isCanonical", CallCost(by_arguments=_charge_by_first_twice)),
    "join": CallCost(by_result=lambda result: math.ceil(measure_size(result) * 2 * _TRAVERSAL_FACTOR)),
    **_assign_cost("find findAll", CallCost(by_arguments=_charge_by_regex)),
    # ip(string) parses a string. The method ip() of a CIDR returns a stored value.
    "ip": CallCost(by_arguments=lambda arguments: _charge_by_first(arguments) if isinstance(arguments[0], str) else 1),
    "containsIP": CallCost(by_arguments=_charge_by_first_twice),
    "containsCIDR": CallCost(by_arguments=_charge_by_network),
    "validate": CallCost(by_arguments=_charge_by_format),
}
# cel-go's costs, by the overload.
_BY_OVERLOAD: Final[dict[str, CallCost]] = {
    # An argument of dynamic type leaves two overloads, and then parsing it costs nothing.
    "cidr_contains_ip_string": CallCost(by_arguments=_add_parsing(_charge_by_first_twice)),
    "cidr_contains_cidr_string": CallCost(by_arguments=_add_parsing(_charge_by_network)),
    **_assign_cost(
        "starts_with_string ends_with_string string_to_bytes bytes_to_string strings_quote string_format",
        CallCost(by_arguments=lambda arguments: _charge_traversal(_measure_in_optional(arguments[0]))),
    ),
    "in_list": CallCost(by_arguments=lambda arguments: measure_size(arguments[1])),
    **{
        f"{operator}_{kind}": CallCost(by_arguments=_charge_by_smaller)
        for operator in ("less", "less_equals", "greater", "greater_equals")
        for kind in ("string", "bytes")
    },
    **_assign_cost("add_string add_bytes", CallCost(by_arguments=_charge_by_sum)),
    "matches_string": CallCost(by_arguments=_charge_by_regex),
    "contains_string": CallCost(by_arguments=_charge_by_product),
    "list_slice": CallCost(by_arguments=_charge_by_slice),
    **_assign_cost("list_flatten list_flatten_int", CallCost(by_arguments=_charge_by_depth)),
    "lists_range": CallCost(by_arguments=_charge_by_range),
    "list_reverse": CallCost(by_arguments=lambda arguments: _charge_new_list(measure_size(arguments[0]))),
    "list_distinct": CallCost(by_arguments=_charge_distinct),
    **_assign_cost("list_sets_contains_list list_sets_intersects_list", CallCost(by_arguments=_charge_by_sets(1))),
    "list_sets_equivalent_list": CallCost(by_arguments=_charge_by_sets(2)),
}
_NOMINAL: Final = CallCost()


def find_call_cost(function: str, overloads: Sequence[str]) -> CallCost:
    """Return the cost of a call.

    Args:
        function: The name of the function.
        overloads: The overloads that the type checker found. cel-go charges 1 if there are several.
    """
    overload = overloads[0] if len(overloads) == 1 else ""
    if overload in _BY_OVERLOAD:
        return _BY_OVERLOAD[overload]
    if overload.startswith("list_") and overload.endswith("_sort"):
        return CallCost(by_arguments=lambda arguments: _charge_by_compared_pairs(arguments[0]))
    if overload.startswith("list_") and overload.endswith("_sortByAssociatedKeys"):
        return CallCost(by_arguments=lambda arguments: _charge_by_compared_pairs(arguments[1]))
    return _BY_NAME.get(function, _NOMINAL)
