"""Interpreters in Python: how a user teaches Karmada a kind, in one small file."""

import importlib
import importlib.util
import sys
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any, Final, TypeVar

import msgspec

from app.interpret.access import InterpretError
from app.interpret.question import Answer, Function, Question, ask
from app.model.gvk import GroupVersionKind, parse_api_version
from app.model.json import JSONObject
from app.model.karmada import PATCHING, Operation

F = TypeVar("F", bound=Callable[..., Any])


class LoadError(ValueError):
    """A file or module of interpreters that cannot be used; the text names it."""


class Interpreter:
    """What is known of one kind; its methods are decorators, one an operation.

    Functions are given copies, so they may change them and return them, or change them and return nothing.
    """

    def __init__(self, api_version: str, kind: str) -> None:
        """Prepare an interpreter of ``kind``, such as ``("foo.example.com/v1alpha1", "Foo")``."""
        group, version = parse_api_version(api_version)
        self.kind: Final = GroupVersionKind(group, version, kind)
        self._functions: Final[dict[Operation, Function]] = {}
        self.functions: Final[Mapping[Operation, Function]] = MappingProxyType(self._functions)

    def _set(self, operation: Operation, function: F) -> F:
        if operation in self._functions:
            raise LoadError(
                f"{self.kind.kind} has two functions for {operation}: {function.__qualname__} is the second"
            )
        self._functions[operation] = function
        return function

    def replicas(self, function: F) -> F:
        """``(object) -> int``, or the count and what each replica requires."""
        return self._set(Operation.REPLICA, function)

    def components(self, function: F) -> F:
        """``(object) -> list`` of components: name, replicas, what each requires."""
        return self._set(Operation.COMPONENT, function)

    def revise_replicas(self, function: F) -> F:
        """``(object, replicas) -> object``."""
        return self._set(Operation.REVISE_REPLICA, function)

    def retain(self, function: F) -> F:
        """``(desired, observed) -> desired``, with what the member cluster decided."""
        return self._set(Operation.RETAIN, function)

    def status(self, function: F) -> F:
        """``(observed) -> dict``: what is reported of its status."""
        return self._set(Operation.STATUS, function)

    def aggregate(self, function: F) -> F:
        """``(template, items) -> template``, with the status of all clusters."""
        return self._set(Operation.AGGREGATE_STATUS, function)

    def healthy(self, function: F) -> F:
        """``(observed) -> bool``."""
        return self._set(Operation.HEALTH, function)

    def dependencies(self, function: F) -> F:
        """``(object) -> list`` of references: apiVersion, kind, namespace, and name or labelSelector."""
        return self._set(Operation.DEPENDENCY, function)

    def pack(self, function: F) -> F:
        """``(object) -> object``: what a member cluster is sent."""
        return self._set(Operation.PRUNE, function)

    def answer(self, question: Question) -> Answer:
        """Return what the function for the question's operation says; raises InterpretError."""
        function = self._functions[question.operation]
        given = question._replace(
            object=_copy(question.object),
            observed=None if question.observed is None else _copy(question.observed),
            items=[_copy(item) for item in question.items or ()],
        )
        try:
            answer = ask(function, given)
        except Exception as error:
            raise InterpretError(f"{_place(error, function)}: {type(error).__name__}: {error}", code=500) from error
        if question.operation in PATCHING and answer.object is None:
            return Answer(object=given.object)
        return answer


def _copy(document: JSONObject) -> JSONObject:
    copied: JSONObject = msgspec.json.decode(msgspec.json.encode(document))
    return copied


def _place(error: Exception, function: Function) -> str:
    """Return file and line of the user's code in which an error arose."""
    file = function.__code__.co_filename if hasattr(function, "__code__") else ""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    return f"{Path(file).name}:{lines[-1]}" if lines else getattr(function, "__qualname__", repr(function))


def interpreter(api_version: str, kind: str) -> Interpreter:
    """Return an interpreter of a kind, whose methods are decorators."""
    return Interpreter(api_version, kind)


def load(source: str) -> list[Interpreter]:
    """Return the interpreters that a file or a module defines.

    Args:
        source: A path that ends in ``.py``, or the dotted name of a module.

    Raises:
        LoadError: It cannot be read or run, or defines none.
    """
    try:
        module = _from_file(Path(source)) if source.endswith(".py") else importlib.import_module(source)
    except LoadError:
        raise
    except Exception as error:
        raise LoadError(f"{source}: {type(error).__name__}: {error}") from error
    found = [value for value in vars(module).values() if isinstance(value, Interpreter)]
    if not found:
        raise LoadError(f"{source} defines no interpreter: create one with `interpreter(apiVersion, kind)`")
    return found


def _from_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise LoadError(f"{path} is not a file")
    name = f"fleethook_interpreters_{path.stem}"
    specification = importlib.util.spec_from_file_location(name, path)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules[name] = module
    specification.loader.exec_module(module)
    return module
