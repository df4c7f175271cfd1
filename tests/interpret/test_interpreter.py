"""Tests of the arguments and results of interpreters, by operation."""

from pathlib import Path
from typing import Any

import pytest

from fleethook.interpret.interpreter import (
    Answer,
    Interpreter,
    InterpretError,
    LoadError,
    Question,
    ask,
    interpreter,
    load,
)
from fleethook.model.gvk import GroupVersionKind
from fleethook.model.karmada import Operation

OBJECT, OBSERVED, ITEMS = {"a": 1}, {"b": 2}, [{"clusterName": "m1"}]
KIND = GroupVersionKind("example.org", "v1", "Foo")


@pytest.mark.parametrize(
    ("operation", "arguments", "member"),
    [
        (Operation.COMPONENT, (OBJECT,), "components"),
        (Operation.REVISE_REPLICA, (OBJECT, 3), "object"),
        (Operation.RETAIN, (OBJECT, OBSERVED), "object"),
        (Operation.AGGREGATE_STATUS, (OBJECT, ITEMS), "object"),
        (Operation.PRUNE, (OBJECT,), "object"),
        (Operation.STATUS, (OBJECT,), "status"),
        (Operation.HEALTH, (OBJECT,), "healthy"),
        (Operation.DEPENDENCY, (OBJECT,), "dependencies"),
        (Operation.REPLICA, (OBJECT,), "replicas"),
    ],
)
def test_an_operation_has_its_arguments_and_its_member_of_the_answer(
    operation: Operation, arguments: tuple[Any, ...], member: str
) -> None:
    def answer(*given: Any) -> str:
        assert given == arguments
        return "result"

    question = Question(operation, KIND, OBJECT, observed=OBSERVED, replicas=3, items=ITEMS)
    assert ask(answer, question) == Answer(**{member: "result"})


def test_a_replica_function_may_return_requirements() -> None:
    answer = ask(lambda _: (3, {"resourceRequest": {}}), Question(Operation.REPLICA, KIND, OBJECT))
    assert answer == Answer(replicas=3, requirements={"resourceRequest": {}})


def test_missing_inputs_are_empty() -> None:
    assert ask(lambda _, observed: observed, Question(Operation.RETAIN, KIND, OBJECT)).object == {}
    assert ask(lambda _, items: items, Question(Operation.AGGREGATE_STATUS, KIND, OBJECT)).object == []


FOO = {"apiVersion": "foo.example.com/v1", "kind": "Foo", "metadata": {"name": "a"}, "spec": {"size": 1}}


def make_interpreter() -> Interpreter:
    return interpreter("foo.example.com/v1", "Foo")


def test_functions_get_copies_and_may_change_them_or_return_them() -> None:
    foo = make_interpreter()

    @foo.revise_replicas
    def revise(document: dict, replicas: int) -> None:  # type: ignore[type-arg]
        document["spec"]["size"] = replicas

    question = Question(Operation.REVISE_REPLICA, foo.kind, FOO, replicas=4)
    answer = foo.answer(question)
    assert answer.object == {**FOO, "spec": {"size": 4}}
    assert FOO["spec"] == {"size": 1}


def test_error_names_file_and_line() -> None:
    foo = make_interpreter()

    @foo.healthy
    def healthy(observed: dict) -> bool:  # type: ignore[type-arg]
        return bool(observed["status"]["phase"])

    with pytest.raises(InterpretError, match=r"^test_interpreter\.py:\d+: KeyError: 'status'$"):
        foo.answer(Question(Operation.HEALTH, foo.kind, FOO))


def test_two_functions_for_an_operation_are_refused() -> None:
    foo = make_interpreter()
    foo.healthy(lambda _: True)
    with pytest.raises(LoadError, match="Foo has two functions for InterpretHealth"):
        foo.healthy(lambda _: False)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("x = 1\n", "mine.py: no interpreter is defined: create one"),
        ("\nimport nowhere_to_be_found\n", "mine.py:2: ModuleNotFoundError"),
        ("from beside import FOO\n1 / FOO\n", "mine.py:2: ZeroDivisionError"),
        ("def broken(:\n", "mine.py:1: SyntaxError"),
    ],
)
def test_file_that_cannot_be_loaded_is_named(tmp_path: Path, text: str, problem: str) -> None:
    file = tmp_path / "mine.py"
    file.write_text(text)
    (tmp_path / "beside.py").write_text("FOO = 0\n")
    with pytest.raises(LoadError, match=problem):
        load(str(file))


def test_missing_file_or_module_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(LoadError, match=r"none\.py: cannot be read: No such file"):
        load(str(tmp_path / "none.py"))
    with pytest.raises(LoadError, match=r"nowhere\.interpreters"):
        load("nowhere.interpreters")


def test_module_is_loaded_by_its_name() -> None:
    foo, bar = load("fleethook.engines.interpret.interpret_server")
    assert (foo.kind.kind, bar.kind.kind) == ("Foo", "Bar")
