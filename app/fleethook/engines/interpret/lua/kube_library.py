"""The library kube of scripts: quantities, and the requirements and dependencies of Pods.

It is exact where Karmada rounds (v1.16 pkg/resourceinterpreter/customized/declarative/luavm/kube.go).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from fleethook.engines.interpret.native.dependencies import list_template_dependencies
from fleethook.engines.interpret.native.replicas import requirements
from fleethook.interpret.interpreter import InterpretError
from fleethook.model.formats.quantity import Quantity
from fleethook.model.json import JSON, JSONObject

_INT64: Final = 2**63


def resource_add(*amounts: Any) -> str:
    """Return the sum of quantities as a quantity; nil counts as 0. Raises InterpretError."""
    total = Quantity(0)
    for position, amount in enumerate(amounts, start=1):
        if amount is not None:
            total += _parse_quantity(amount, position, "resourceAdd")
    return str(total)


def quantity_number(amount: Any = None) -> int | float:
    """Return a quantity as a number, 0 for nil; raises InterpretError, also for a negative quantity."""
    if amount is None:
        return 0
    value = _parse_quantity(amount, 1, "getResourceQuantity").value
    if value < 0:
        raise InterpretError(f"getResourceQuantity: {amount} is negative")
    whole = value.denominator == 1 and value.numerator < _INT64
    return value.numerator if whole else float(value)


def pod_requirements(template: Any = None) -> JSON:
    """Return the requirements of a Pod of a template; raises InterpretError."""
    return _read_template(template, requirements, "accuratePodRequirements takes a pod template")


def pod_dependencies(template: Any = None, namespace: Any = None) -> JSON:
    """Return the dependencies of a Pod of a template; raises InterpretError."""
    own = namespace if isinstance(namespace, str) and namespace else "default"
    return _read_template(
        template,
        lambda read: list(list_template_dependencies(read, own)),
        "getPodDependencies takes a pod template and a namespace",
    )


def _read_template(template: Any, read: Callable[[JSONObject], JSON], usage: str) -> JSON:
    """Return the result of ``read``. If it fails, read the template as Karmada does, which has only one empty table."""
    if not template and isinstance(template, list):
        template = {}
    if not isinstance(template, dict):
        raise InterpretError(usage)
    try:
        return read(template)
    except InterpretError:
        return read(_drop_empty_tables(template))


def _drop_empty_tables(value: Any) -> Any:
    """Return a value without members that are empty (karmada luavm/lua_convert.go); empty elements become objects."""
    if isinstance(value, dict):
        return {name: _drop_empty_tables(member) for name, member in value.items() if member not in ({}, [])}
    if isinstance(value, list):
        return [{} if element in (None, {}, []) else _drop_empty_tables(element) for element in value]
    return value


def _parse_quantity(amount: Any, position: int, function: str) -> Quantity:
    if isinstance(amount, bool) or not isinstance(amount, str | int | float):
        raise InterpretError(f"{function}: argument {position} is not a quantity")
    try:
        return Quantity.parse(amount if isinstance(amount, str) else f"{amount:f}".rstrip("0").rstrip("."))
    except ValueError as error:
        raise InterpretError(f"{function}: {error}") from None


FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = {
    "resourceAdd": resource_add,
    "getResourceQuantity": quantity_number,
    "accuratePodRequirements": pod_requirements,
    "getPodDependencies": pod_dependencies,
}
_MAX_ARGUMENTS: Final = {"getResourceQuantity": 1, "accuratePodRequirements": 1, "getPodDependencies": 2}


def call_function(name: str, arguments: Sequence[Any]) -> Any:
    """Return the result of a function of the library; raises InterpretError, also for too many arguments."""
    if len(arguments) > (limit := _MAX_ARGUMENTS.get(name, len(arguments))):
        raise InterpretError(f"{name} takes {limit} argument{'s' * (limit > 1)}, not {len(arguments)}")
    return FUNCTIONS[name](*arguments)
