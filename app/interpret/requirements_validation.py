"""Types of what a replica requires, as Karmada's decoder wants them (upstream: work/v1alpha2 ReplicaRequirements).

Karmada decodes an answer into Go types. A member of another type makes the whole answer unreadable there, with an
error that names no object, so it is refused here.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Final

from app.interpret.access import InterpretError, json_type
from app.model.json import JSON
from app.model.quantity import Quantity

Check = Callable[[JSON], str]
"""Returns the path below the value and the problem, ``""`` if there is none: most answers are right."""


def check_requirements(requirements: JSON, where: str) -> None:
    """Check the types of replica requirements.

    Args:
        requirements: ``requirements`` of an answer, or ``replicaRequirements`` of a component.
        where: Its path, for the error.

    Raises:
        InterpretError: A member has another type than Karmada expects; the text names its path.
    """
    if requirements is not None and (problem := _REQUIREMENTS(requirements)):
        raise InterpretError(f"{where}{problem}", code=500)


def _wrong(value: JSON, expected: str) -> str:
    return f" is {json_type(value)}, expected {expected}"


def _string(value: JSON) -> str:
    return "" if isinstance(value, str) else _wrong(value, "string")


def _integer(value: JSON) -> str:
    return "" if isinstance(value, int) and not isinstance(value, bool) else _wrong(value, "integer")


def _quantity(value: JSON) -> str:
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return _wrong(value, "a quantity such as 500m or 1Gi")
    return _quantity_problem(str(value))


@lru_cache(maxsize=4096)
def _quantity_problem(text: str) -> str:
    try:
        Quantity.parse(text)
    except ValueError as error:
        return f": {error}"
    return ""


def _map_of(check: Check) -> Check:
    def check_map(value: JSON) -> str:
        if not isinstance(value, dict):
            return _wrong(value, "object")
        for name, member in value.items():
            if member is not None and (problem := check(member)):
                return f".{name}{problem}"
        return ""

    return check_map


def _list_of(check: Check) -> Check:
    def check_list(value: JSON) -> str:
        if not isinstance(value, list):
            return _wrong(value, "array")
        for index, element in enumerate(value):
            if element is not None and (problem := check(element)):
                return f"[{index}]{problem}"
        return ""

    return check_list


def _struct(**members: Check) -> Check:
    def check_struct(value: JSON) -> str:
        if not isinstance(value, dict):
            return _wrong(value, "object")
        for name, member in value.items():
            if member is not None and name in members and (problem := members[name](member)):
                return f".{name}{problem}"
        return ""

    return check_struct


_EXPRESSIONS: Final = _list_of(_struct(key=_string, operator=_string, values=_list_of(_string)))
_AFFINITY: Final = _struct(
    nodeSelectorTerms=_list_of(_struct(matchExpressions=_EXPRESSIONS, matchFields=_EXPRESSIONS))
)  # fmt: skip
_TOLERATION: Final = _struct(
    key=_string, operator=_string, value=_string, effect=_string, tolerationSeconds=_integer
)  # fmt: skip
_CLAIM: Final = _struct(
    hardNodeAffinity=_AFFINITY, nodeSelector=_map_of(_string), tolerations=_list_of(_TOLERATION)
)  # fmt: skip
_REQUIREMENTS: Final = _struct(
    nodeClaim=_CLAIM, resourceRequest=_map_of(_quantity), namespace=_string, priorityClassName=_string
)  # fmt: skip
