"""Validates answers of every layer.

Source: karmada v1.16 pkg/resourceinterpreter/customized/webhook/request, pkg/util/interpreter/validation.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import msgspec

from fleethook.interpret.interpreter import Answer, InterpretError, Question
from fleethook.interpret.typed_fields import json_type
from fleethook.model.formats.names_and_labels import validate_selector
from fleethook.model.formats.quantity import Quantity
from fleethook.model.formats.text import nearest
from fleethook.model.json import JSON, JSONObject, as_object
from fleethook.model.karmada import PATCHING, Operation

Check = Callable[[JSON], str]
"""Returns the problem of a value, ``""`` if there is none."""


def check_requirements(requirements: JSON, where: str) -> None:
    """Check the types of replica requirements.

    Args:
        requirements: ``requirements`` of an answer, or ``replicaRequirements`` of a component.
        where: Its path, for the error.

    Raises:
        InterpretError: A member has another type than Karmada expects; the text names its path.
    """
    if requirements is not None and (problem := _find_mismatch(requirements, _REQUIREMENTS)):
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
    try:
        Quantity.parse(str(value))
    except ValueError as error:
        return f": {error}"
    return ""


def _find_mismatch(value: JSON, shape: Any) -> str:
    """Return the path below a value and the problem, ``""`` if there is none.

    Args:
        value: The value.
        shape: A `Check`, a list with the shape of the elements, or the shapes of members by name. The shape ``*`` is
            for all other members. Members that are null or have no shape are not checked.
    """
    if callable(shape):
        return str(shape(value))
    if not isinstance(value, type(shape)):
        return _describe_mismatch(value, "array" if isinstance(shape, list) else "object")
    is_list = isinstance(value, list)
    for name, member in enumerate(value) if is_list else value.items():
        inner = shape[0] if is_list else shape.get(name, shape.get("*"))
        if member is not None and inner is not None and (problem := _find_mismatch(member, inner)):
            return f"[{name}]{problem}" if is_list else f".{name}{problem}"
    return ""


_EXPRESSIONS: Final = [{"key": _check_string, "operator": _check_string, "values": [_check_string]}]
_TOLERATION: Final = dict.fromkeys(("key", "operator", "value", "effect"), _check_string) | {
    "tolerationSeconds": _check_integer
}
_COMPONENT_REQUIREMENTS: Final = {
    "nodeClaim": {
        "hardNodeAffinity": {"nodeSelectorTerms": [{"matchExpressions": _EXPRESSIONS, "matchFields": _EXPRESSIONS}]},
        "nodeSelector": {"*": _check_string},
        "tolerations": [_TOLERATION],
    },
    "resourceRequest": {"*": _check_quantity},
    "priorityClassName": _check_string,
}
_REQUIREMENTS: Final = {**_COMPONENT_REQUIREMENTS, "namespace": _check_string}
_COMPONENT: Final = {"name": _check_string, "replicas": _check_integer, "replicaRequirements": _COMPONENT_REQUIREMENTS}
_SELECTOR: Final = {"matchLabels": {"*": _check_string}, "matchExpressions": _EXPRESSIONS}
_DEPENDENCY: Final = {
    **dict.fromkeys(("apiVersion", "kind", "namespace", "name"), _check_string), "labelSelector": _SELECTOR
}  # fmt: skip
_ANSWERS: Final[Mapping[Operation, tuple[str, Any]]] = {
    Operation.REPLICA: ("requirements", _REQUIREMENTS),
    Operation.COMPONENT: ("components", [_COMPONENT]),
    Operation.DEPENDENCY: ("dependencies", [_DEPENDENCY]),
}
"""The member of `Answer` whose members Karmada knows, with its shape: karmada v1.19 pkg/apis/work/v1alpha2
(ReplicaRequirements, Component), pkg/apis/config/v1alpha1 (DependentObjectReference)."""
# "requests" is "resourceRequest". The shapes have few members, so that less similar names suffice.
_MIN_SIMILARITY: Final = 0.6


def list_unknown_members(operation: Operation, answer: Answer) -> Iterator[str]:
    """Yield a text for each member that Karmada drops, because its types lack it; the text suggests another one."""
    if operation in _ANSWERS:
        name, shape = _ANSWERS[operation]
        yield from _find_unknown(getattr(answer, name), shape, name)


def _find_unknown(value: JSON, shape: Any, where: str) -> Iterator[str]:
    if isinstance(value, list) and isinstance(shape, list):
        for index, element in enumerate(value):
            yield from _find_unknown(element, shape[0], f"{where}[{index}]")
    elif isinstance(value, dict) and isinstance(shape, dict) and "*" not in shape:
        for name, member in value.items():
            if name in shape:
                yield from _find_unknown(member, shape[name], f"{where}.{name}")
            else:
                yield f"{where} has no member {name}{_suggest_member(name, shape)}"


def _suggest_member(name: str, shape: Mapping[str, Any]) -> str:
    """Return the end of a message about an unknown member: the place of the member, or the one that was meant."""
    inner = [at for at, members in shape.items() if isinstance(members, dict) and name in members]
    if inner:
        return f"; it is a member of {inner[0]}"
    close = nearest(name, shape, similarity=_MIN_SIMILARITY)
    return f"; did you mean {close}?" if close else f"; its members are {', '.join(shape)}"


MAX_REPLICAS: Final = 2**31 - 1
_IDENTITY: Final = ("name", "namespace", "uid")


def validate_answer(question: Question, answer: Answer) -> Answer:
    """Return ``answer`` in its final form.

    Raises:
        InterpretError: The answer does not fit the question; the text names the member and the reason.
    """
    try:
        return _complete(question, answer)
    except InterpretError as error:
        unknown = list(list_unknown_members(question.operation, answer))
        if not unknown:
            raise
        raise InterpretError(f"{error}; {'; '.join(unknown)}", code=error.code) from None


def _complete(question: Question, answer: Answer) -> Answer:
    operation = question.operation
    if operation in PATCHING:
        return Answer(object=_require_same_object(question.object, answer.object))
    if operation is Operation.REPLICA:
        replicas = _require_replicas(answer.replicas, "replicas")
        requirements = _require_object(answer.requirements, "requirements")
        check_requirements(requirements, "requirements")
        return answer if replicas is answer.replicas else Answer(replicas=replicas, requirements=requirements)
    if operation is Operation.HEALTH:
        if not isinstance(answer.healthy, bool):
            raise InterpretError(f"healthy is {json_type(answer.healthy)}, expected true or false", code=500)
        return answer
    if operation is Operation.STATUS:
        return Answer(status=_require_object(answer.status, "status"))
    if operation is Operation.COMPONENT:
        return Answer(
            components=[
                _validate_component(one, index)
                for index, one in enumerate(_require_list(answer.components, "components"))
            ]
        )
    return Answer(dependencies=_sort_dependencies(_require_list(answer.dependencies, "dependencies")))


def _require_same_object(sent: JSONObject, answered: JSON) -> JSONObject:
    """Return the changed object; raises InterpretError if its identity changed."""
    if not isinstance(answered, dict):
        raise InterpretError(f"the answer is {json_type(answered)}, expected an object", code=500)
    metadata = answered.get("metadata")
    if metadata is None:
        metadata = {}
    if not isinstance(metadata, dict):
        raise InterpretError("metadata of the answer is not an object", code=500)
    for name in ("apiVersion", "kind"):
        if sent.get(name) != answered.get(name):
            raise InterpretError(f"{name} was changed: the answer must be the same object", code=500)
    known = as_object(sent.get("metadata"))
    for name in _IDENTITY:
        if known.get(name) != metadata.get(name) and not _is_pruned(name, metadata):
            raise InterpretError(f"metadata.{name} was changed: the answer must be the same object", code=500)
    return answered


def _is_pruned(name: str, metadata: JSONObject) -> bool:
    # Prune removes the uid, because the member cluster assigns its own.
    return name == "uid" and name not in metadata


def _require_replicas(value: Any, name: str) -> int:
    # Lua and JSON have one type of number, so 2.0 is an integer here.
    number = int(value) if isinstance(value, float) and value.is_integer() else value
    if isinstance(number, bool) or not isinstance(number, int):
        raise InterpretError(f"{name} is {json_type(value)}, expected an integer", code=500)
    if not 0 <= number <= MAX_REPLICAS:
        raise InterpretError(f"{name} is {number}, expected a replica count from 0 to {MAX_REPLICAS}", code=500)
    return number


def _require_object(value: JSON, name: str) -> JSON:
    if value is not None and not isinstance(value, dict):
        raise InterpretError(f"{name} is {json_type(value)}, expected an object", code=500)
    return value


def _require_list(value: JSON, name: str) -> list[JSON]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise InterpretError(f"{name} is {json_type(value)}, expected a list", code=500)
    return value


def _validate_component(component: JSON, index: int) -> JSONObject:
    where = f"components[{index}]"
    if not isinstance(component, dict) or not isinstance(component.get("name"), str) or not component["name"]:
        raise InterpretError(f"{where} has no name", code=500)
    check_requirements(component.get("replicaRequirements"), f"{where}.replicaRequirements")
    return {**component, "replicas": _require_replicas(component.get("replicas", 0), f"{where}.replicas")}


def _sort_dependencies(dependencies: list[JSON]) -> list[JSONObject]:
    """Return the references sorted by kind and name, without duplicates."""
    problems = list(dependency_problems(dependencies))
    if problems:
        raise InterpretError("; ".join(problems), code=500)
    # The JSON text is the key, because a dict is not hashable. Comparing 10,000 references pairwise takes a minute.
    unique: dict[bytes, JSONObject] = {}
    for dependency in dependencies:
        unique.setdefault(msgspec.json.encode(dependency, order="sorted"), dependency)
    return sorted(unique.values(), key=_make_sort_key)


def _make_sort_key(dependency: JSONObject) -> tuple[str, str, str, str]:
    members = ("apiVersion", "kind", "namespace", "name")
    api_version, kind, namespace, name = (str(dependency.get(member) or "") for member in members)
    return api_version, kind, namespace, name


def dependency_problems(dependencies: list[JSON]) -> Iterator[str]:
    """Yield the problems of references to other objects."""
    for index, dependency in enumerate(dependencies):
        where = f"dependencies[{index}]"
        if not isinstance(dependency, dict):
            yield f"{where}: Invalid value: expected an object"
            continue
        for member in ("apiVersion", "kind"):
            if not isinstance(dependency.get(member), str) or not dependency[member]:
                yield f'{where}.{member}: Invalid value: "": missing required {member}'
        selector = dependency.get("labelSelector")
        for member in ("namespace", "name"):
            if (value := dependency.get(member)) is not None and (problem := _check_string(value)):
                yield f"{where}.{member}{problem}"
        if not dependency.get("name") and selector is None:
            yield f"{where}: Invalid value: dependency can not leave name and labelSelector all empty"
        if selector is not None:
            for pointer, problem in validate_selector(selector, ""):
                yield f"{where}.labelSelector{pointer.replace('/', '.')}: {problem}"
