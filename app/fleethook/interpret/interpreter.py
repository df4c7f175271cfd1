"""Interpreters: the question to one, its answer or error, and interpreters in Python.

Users interpret a kind with decorated functions in one file.
"""

import importlib
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from fleethook.model.gvk import GroupVersionKind, parse_api_version
from fleethook.model.json import JSON, JSONObject
from fleethook.model.karmada import PATCHING, Operation
from fleethook.python_files import run_file


class InterpretError(ValueError):
    """An operation failed; the text names the member at fault and the reason.

    Attributes:
        code: The HTTP status code of the answer.
    """

    def __init__(self, message: str, *, code: int = 422) -> None:
        super().__init__(message)
        self.code = code


class Question(NamedTuple):
    """One operation on one object."""

    operation: Operation
    kind: GroupVersionKind
    object: JSONObject
    observed: JSONObject | None = None
    """Retain: the object as observed in the member cluster."""
    replicas: int = 0
    """ReviseReplica: the desired number of replicas."""
    items: Sequence[JSONObject] | None = None
    """AggregateStatus: the AggregatedStatusItems of the review. Scripts get nil for None, an empty list for ``[]``."""
    large: bool = False
    """Whether the review is so large that no work on it may run on the event loop."""


class Answer(NamedTuple):
    """The answer of an interpreter; only the members of the operation are set."""

    object: JSONObject | None = None
    """The changed object."""
    replicas: int | None = None
    requirements: JSON = None
    components: list[JSONObject] | None = None
    status: JSON = None
    healthy: bool | None = None
    dependencies: list[JSONObject] | None = None
    rule: str | None = None
    """The rule that decided, for explanations."""


Function = Callable[..., Any]
"""Interprets one operation; `ask` lists the arguments and the results."""


def _ask_replicas(function: Function, question: Question) -> Answer:
    found = function(question.object)
    replicas, requirements = found if isinstance(found, tuple) else (found, None)
    return Answer(replicas=replicas, requirements=requirements)


# A table is faster than a match statement: operations are strings, and the ninth case would take nine comparisons.
_ASK: Final[Mapping[Operation, Callable[[Function, Question], Answer]]] = {
    Operation.REPLICA: _ask_replicas,
    Operation.COMPONENT: lambda function, question: Answer(components=function(question.object)),
    Operation.REVISE_REPLICA: lambda function, question: Answer(object=function(question.object, question.replicas)),
    Operation.RETAIN: lambda function, question: Answer(object=function(question.object, question.observed or {})),
    Operation.AGGREGATE_STATUS: lambda function, question: Answer(
        object=function(question.object, list(question.items or ()))
    ),
    Operation.PRUNE: lambda function, question: Answer(object=function(question.object)),
    Operation.STATUS: lambda function, question: Answer(status=function(question.object)),
    Operation.HEALTH: lambda function, question: Answer(healthy=function(question.object)),
    Operation.DEPENDENCY: lambda function, question: Answer(dependencies=function(question.object)),
}


def ask(function: Function, question: Question) -> Answer:
    """Return the answer of a function.

    Arguments and results by operation: Replica(object) -> count, or count and requirements;
    Component(object) -> components; ReviseReplica(object, replicas), Retain(desired, observed),
    AggregateStatus(object, items) and Prune(object) -> the object; Status(object) -> status; Health(object) -> bool;
    Dependency(object) -> references.
    """
    return _ASK[question.operation](function, question)


F = TypeVar("F", bound=Callable[..., Any])


class LoadError(ValueError):
    """A file or module of interpreters cannot be loaded; the text names it and the reason."""


class Interpreter:
    """The interpreter of one kind; its methods are decorators, one for each operation.

    Functions get copies. They may change a copy and return it, or change it and return nothing.
    """

    def __init__(self, api_version: str, kind: str) -> None:
        """Prepare an interpreter of ``kind``, such as ``("foo.example.com/v1alpha1", "Foo")``."""
        group, version = parse_api_version(api_version)
        self.kind: Final = GroupVersionKind(group, version, kind)
        self._functions: Final[dict[Operation, Function]] = {}
        self.functions: Final[Mapping[Operation, Function]] = MappingProxyType(self._functions)

    def _register(self, operation: Operation, function: F) -> F:
        if operation in self._functions:
            place = (
                f"{code.co_filename}:{code.co_firstlineno}: " if (code := getattr(function, "__code__", None)) else ""
            )
            name = function.__qualname__
            raise LoadError(f"{place}{self.kind.kind} has two functions for {operation}: {name} is the second")
        self._functions[operation] = function
        return function

    def replicas(self, function: F) -> F:
        """``(object) -> int``, or ``(object) -> (int, requirements of each replica)``."""
        return self._register(Operation.REPLICA, function)

    def components(self, function: F) -> F:
        """``(object) -> list`` of components: ``name``, ``replicas``, ``replicaRequirements``."""
        return self._register(Operation.COMPONENT, function)

    def revise_replicas(self, function: F) -> F:
        """``(object, replicas) -> object``."""
        return self._register(Operation.REVISE_REPLICA, function)

    def retain(self, function: F) -> F:
        """``(desired, observed) -> desired``, with the values that the member cluster decided."""
        return self._register(Operation.RETAIN, function)

    def status(self, function: F) -> F:
        """``(observed) -> dict``: the status to report."""
        return self._register(Operation.STATUS, function)

    def aggregate(self, function: F) -> F:
        """``(template, items) -> template``, with the aggregated status of all clusters."""
        return self._register(Operation.AGGREGATE_STATUS, function)

    def healthy(self, function: F) -> F:
        """``(observed) -> bool``."""
        return self._register(Operation.HEALTH, function)

    def dependencies(self, function: F) -> F:
        """``(object) -> list`` of references: apiVersion, kind, namespace, and name or labelSelector."""
        return self._register(Operation.DEPENDENCY, function)

    def pack(self, function: F) -> F:
        """``(object) -> object``: the object to send to a member cluster."""
        return self._register(Operation.PRUNE, function)

    def answer(self, question: Question) -> Answer:
        """Return the answer of the function for the question's operation; raises InterpretError."""
        function = self._functions[question.operation]
        given = question._replace(
            object=_copy_document(question.object),
            observed=None if question.observed is None else _copy_document(question.observed),
            items=[_copy_document(item) for item in question.items or ()],
        )
        try:
            answer = ask(function, given)
        except Exception as error:
            raise InterpretError(
                f"{_locate_error(error, function)}: {type(error).__name__}: {error}", code=500
            ) from error
        if question.operation in PATCHING and answer.object is None:
            return Answer(object=given.object)
        return answer


def _copy_document(document: JSONObject) -> JSONObject:
    copied: JSONObject = msgspec.json.decode(msgspec.json.encode(document))
    return copied


def _locate_error(error: Exception, function: Function) -> str:
    """Return file and line of the user's code that raised an error."""
    file = function.__code__.co_filename if hasattr(function, "__code__") else ""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    return f"{Path(file).name}:{lines[-1]}" if lines else getattr(function, "__qualname__", repr(function))


def locate_function(function: Function) -> str:
    """Return file and line of a function, ``""`` if it is no function in Python."""
    code = getattr(function, "__code__", None)
    return "" if code is None else f"{Path(code.co_filename).name}:{code.co_firstlineno}"


def interpreter(api_version: str, kind: str) -> Interpreter:
    """Return an interpreter of a kind; its methods are decorators."""
    return Interpreter(api_version, kind)


def load(source: str) -> list[Interpreter]:
    """Return the interpreters that a file or a module defines.

    Args:
        source: A path that ends in ``.py``, or the dotted name of a module.

    Raises:
        LoadError: The file or module cannot be read or run, or it defines no interpreter.
    """
    if source.endswith(".py"):
        module = run_file(Path(source), f"fleethook_interpreters_{Path(source).stem}", LoadError)
    else:
        try:
            module = importlib.import_module(source)
        except (Exception, SystemExit) as error:
            raise LoadError(f"{source}: {type(error).__name__}: {error}") from error
    interpreters = [value for value in vars(module).values() if isinstance(value, Interpreter)]
    if not interpreters:
        raise LoadError(f"{source}: no interpreter is defined: create one with `interpreter(apiVersion, kind)`")
    for one in interpreters:
        if not one.functions:
            raise LoadError(
                f"{source}: the interpreter of {one.kind.kind} has no operation: decorate a function with one"
            )
    return interpreters
