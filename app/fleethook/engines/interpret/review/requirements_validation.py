"""Validates the types of replica requirements (karmada v1.16 pkg/apis/work/v1alpha2, ReplicaRequirements).

Karmada decodes an answer into Go types. If one member has another type, Karmada cannot read the answer, and its error
does not name the object. So fleethook refuses such an answer.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Final

from fleethook.interpret.typed_members import InterpretError, json_type
from fleethook.model.formats.quantity import Quantity
from fleethook.model.json import JSON

Check = Callable[[JSON], str]
"""Returns the path below the value and the problem, ``""`` if there is none."""


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


def _describe_mismatch(value: JSON, expected: str) -> str:
    return f" is {json_type(value)}, expected {expected}"


def _check_string(value: JSON) -> str:
    return "" if isinstance(value, str) else _describe_mismatch(value, "string")


def _check_integer(value: JSON) -> str:
    return "" if isinstance(value, int) and not isinstance(value, bool) else _describe_mismatch(value, "integer")


def _check_quantity(value: JSON) -> str:
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return _describe_mismatch(value, "a quantity such as 500m or 1Gi")
    return _find_quantity_problem(str(value))


@lru_cache(maxsize=4096)
def _find_quantity_problem(text: str) -> str:
    try:
        Quantity.parse(text)
    except ValueError as error:
        return f": {error}"
    return ""


def _make_map_check(check: Check) -> Check:
    def check_map(value: JSON) -> str:
        if not isinstance(value, dict):
            return _describe_mismatch(value, "object")
        for name, member in value.items():
            if member is not None and (problem := check(member)):
                return f".{name}{problem}"
        return ""

    return check_map


def _make_list_check(check: Check) -> Check:
    def check_list(value: JSON) -> str:
        if not isinstance(value, list):
            return _describe_mismatch(value, "array")
        for index, element in enumerate(value):
            if element is not None and (problem := check(element)):
                return f"[{index}]{problem}"
        return ""

    return check_list


def _make_struct_check(**members: Check) -> Check:
    def check_struct(value: JSON) -> str:
        if not isinstance(value, dict):
            return _describe_mismatch(value, "object")
        for name, member in value.items():
            if member is not None and name in members and (problem := members[name](member)):
                return f".{name}{problem}"
        return ""

    return check_struct


_EXPRESSIONS: Final = _make_list_check(
    _make_struct_check(key=_check_string, operator=_check_string, values=_make_list_check(_check_string))
)
_AFFINITY: Final = _make_struct_check(
    nodeSelectorTerms=_make_list_check(_make_struct_check(matchExpressions=_EXPRESSIONS, matchFields=_EXPRESSIONS))
)  # fmt: skip
_TOLERATION: Final = _make_struct_check(
    key=_check_string, operator=_check_string, value=_check_string, effect=_check_string,
    tolerationSeconds=_check_integer,
)  # fmt: skip
_CLAIM: Final = _make_struct_check(
    hardNodeAffinity=_AFFINITY, nodeSelector=_make_map_check(_check_string), tolerations=_make_list_check(_TOLERATION)
)  # fmt: skip
_REQUIREMENTS: Final = _make_struct_check(
    nodeClaim=_CLAIM, resourceRequest=_make_map_check(_check_quantity), namespace=_check_string,
    priorityClassName=_check_string,
)  # fmt: skip
