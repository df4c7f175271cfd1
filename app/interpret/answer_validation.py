"""What an answer has to be, whoever gave it (upstream: request/ and util/interpreter/validation)."""

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from app.interpret.access import InterpretError
from app.interpret.question import Answer, Question
from app.interpret.requirements_validation import check_requirements
from app.model.json import JSON, JSONObject
from app.model.karmada import PATCHING, Operation
from app.model.selectors import validate_selector

MAX_REPLICAS: Final = 2**31 - 1
_IDENTITY: Final = ("name", "namespace", "uid")


def validate_answer(question: Question, answer: Answer) -> Answer:
    """Return ``answer`` in its final form if it is one to the question.

    Raises:
        InterpretError: It is not; the text says what is wrong.
    """
    operation = question.operation
    if operation in PATCHING:
        return Answer(object=_same_object(question.object, answer.object))
    if operation is Operation.REPLICA:
        replicas = _replicas(answer.replicas, "replicas")
        requirements = _object(answer.requirements, "requirements")
        check_requirements(requirements, "requirements")
        return answer if replicas is answer.replicas else Answer(replicas=replicas, requirements=requirements)
    if operation is Operation.HEALTH:
        if not isinstance(answer.healthy, bool):
            raise InterpretError(f"healthy is {answer.healthy!r}, expected true or false", code=500)
        return answer
    if operation is Operation.STATUS:
        return Answer(status=_object(answer.status, "status"))
    if operation is Operation.COMPONENT:
        return Answer(
            components=[_component(one, index) for index, one in enumerate(_list(answer.components, "components"))]
        )
    return Answer(dependencies=_dependencies(_list(answer.dependencies, "dependencies")))


def _same_object(sent: JSONObject, answered: JSON) -> JSONObject:
    """Return the changed object, unless it is another one by now."""
    if not isinstance(answered, dict):
        raise InterpretError(f"the answer is {type(answered).__name__}, expected an object", code=500)
    metadata = answered.get("metadata")
    if metadata is not None and not isinstance(metadata, dict):
        raise InterpretError("metadata of the answer is not an object", code=500)
    for name in ("apiVersion", "kind"):
        if sent.get(name) != answered.get(name):
            raise InterpretError(f"{name} was changed: the answer must be the same object", code=500)
    for name in _IDENTITY:
        if (sent.get("metadata") or {}).get(name) != (metadata or {}).get(name) and not _pruned(name, metadata or {}):
            raise InterpretError(f"metadata.{name} was changed: the answer must be the same object", code=500)
    return answered


def _pruned(name: str, metadata: JSONObject) -> bool:
    # Packing takes the uid away: the member cluster gives its own.
    return name == "uid" and name not in metadata


def _replicas(value: Any, what: str) -> int:
    # Lua and JSON know one kind of number; a whole one is meant.
    number = int(value) if isinstance(value, float) and value.is_integer() else value
    if isinstance(number, bool) or not isinstance(number, int):
        raise InterpretError(f"{what} is {value!r}, expected an integer", code=500)
    if not 0 <= number <= MAX_REPLICAS:
        raise InterpretError(f"{what} is {number}, expected a replica count from 0 to {MAX_REPLICAS}", code=500)
    return number


def _object(value: JSON, what: str) -> JSON:
    if value is not None and not isinstance(value, dict):
        raise InterpretError(f"{what} is {type(value).__name__}, expected an object", code=500)
    return value


def _list(value: JSON, what: str) -> list[JSON]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise InterpretError(f"{what} is {type(value).__name__}, expected a list", code=500)
    return value


def _component(component: JSON, index: int) -> JSONObject:
    where = f"components[{index}]"
    if not isinstance(component, dict) or not isinstance(component.get("name"), str) or not component["name"]:
        raise InterpretError(f"{where} has no name", code=500)
    check_requirements(component.get("replicaRequirements"), f"{where}.replicaRequirements")
    return {**component, "replicas": _replicas(component.get("replicas", 0), f"{where}.replicas")}


def _dependencies(dependencies: list[JSON]) -> list[JSONObject]:
    """Return the references, each once, in the order of kind and name."""
    problems = list(dependency_problems(dependencies))
    if problems:
        raise InterpretError("; ".join(problems), code=500)
    # By text, as an object cannot be the key of a dictionary: to compare each with each would take a minute for 10,000.
    unique: dict[bytes, JSONObject] = {}
    for one in dependencies:
        unique.setdefault(msgspec.json.encode(one, order="sorted"), one)
    return sorted(unique.values(), key=_order)


def _order(dependency: JSONObject) -> tuple[str, str, str, str]:
    members = ("apiVersion", "kind", "namespace", "name")
    api_version, kind, namespace, name = (str(dependency.get(member) or "") for member in members)
    return api_version, kind, namespace, name


def dependency_problems(dependencies: list[JSON]) -> Iterator[str]:
    """Yield what is wrong with references to other objects."""
    for index, dependency in enumerate(dependencies):
        where = f"dependencies[{index}]"
        if not isinstance(dependency, dict):
            yield f"{where}: Invalid value: expected an object"
            continue
        for member in ("apiVersion", "kind"):
            if not isinstance(dependency.get(member), str) or not dependency[member]:
                yield f'{where}.{member}: Invalid value: "": missing required {member}'
        selector = dependency.get("labelSelector")
        if not dependency.get("name") and selector is None:
            yield f"{where}: Invalid value: dependency can not leave name and labelSelector all empty"
        if selector is not None:
            for pointer, problem in validate_selector(selector, ""):
                yield f"{where}.labelSelector{pointer.replace('/', '.')}: {problem}"
