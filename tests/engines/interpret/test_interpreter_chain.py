"""Tests of the order in which layers are asked."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from fleethook.engines.interpret.interpreter_chain import (
    Chain,
    ChainError,
    ChainStep,
    Explained,
    Handler,
    IgnoredError,
    PythonLayer,
)
from fleethook.engines.interpret.native.native_kinds import NativeLayer
from fleethook.interpret.interpreter import Answer, Interpreter, InterpretError, Question
from fleethook.model.gvk import GroupVersionKind
from fleethook.model.karmada import Operation

FOO = GroupVersionKind("example.org", "v1", "Foo")
DEPLOYMENT = GroupVersionKind("apps", "v1", "Deployment")
QUESTION = Question(Operation.HEALTH, FOO, {})
WELL = Answer(healthy=True)


class StubLayer:
    """A layer that answers every question in one way, or none."""

    def __init__(self, name: str, answer: Callable[[Question], Any] | None = None) -> None:
        self.name = name
        self._answer = answer

    def find(self, question: Question) -> Handler | None:
        del question  # It answers questions about any kind.
        return None if self._answer is None else Handler(f"{self.name}-hook", self._answer, in_thread=True)

    def answers(self) -> Iterable[tuple[GroupVersionKind, Operation]]:
        return [(FOO, Operation.HEALTH)] if self._answer is not None else []


def fail(error: Exception) -> Callable[[Question], Any]:
    def raise_error(_question: Question) -> Answer:
        raise error

    return raise_error


async def test_the_first_layer_with_an_interpreter_answers() -> None:
    chain = Chain([StubLayer("a"), StubLayer("b", lambda _: WELL), StubLayer("c", fail(AssertionError()))])
    explained = await chain.answer(QUESTION)
    assert explained == Explained(WELL, (ChainStep("a", "", "none"), ChainStep("b", "b-hook", "answered")))


async def test_an_ignored_failure_asks_the_next_layer_and_an_error_ends_the_search() -> None:
    ignored = StubLayer("a", fail(IgnoredError("down")))
    assert (await Chain([ignored, StubLayer("b", lambda _: WELL)]).answer(QUESTION)).steps[0] == ChainStep(
        "a", "a-hook", "ignored", "down"
    )
    failing = Chain([StubLayer("a", fail(InterpretError("no", code=500))), StubLayer("b", lambda _: WELL)])
    with pytest.raises(ChainError, match="no") as caught:
        await failing.answer(QUESTION)
    assert (caught.value.code, caught.value.steps) == (500, (ChainStep("a", "a-hook", "failed", "no"),))


async def test_without_an_interpreter_the_error_is_karmadas() -> None:
    text = 'default InterpretHealth interpreter for "example.org/v1, Kind=Foo" not found'
    with pytest.raises(ChainError, match=text) as caught:
        await Chain([StubLayer("a"), NativeLayer()]).answer(QUESTION)
    assert (caught.value.code, len(caught.value.steps)) == (404, 2)


async def test_an_answer_that_does_not_fit_is_a_failure_of_its_layer() -> None:
    with pytest.raises(ChainError) as caught:
        await Chain([StubLayer("a", lambda _: Answer(healthy=None))]).answer(QUESTION)
    assert caught.value.steps[0].outcome == "failed"


def test_an_answer_without_waiting_is_returned_at_once() -> None:
    assert Chain([StubLayer("a", lambda _: WELL)]).begin(QUESTION) == Explained(
        WELL, (ChainStep("a", "a-hook", "answered"),)
    )


async def test_large_questions_are_answered_and_validated_off_the_loop() -> None:
    calls: list[str] = []

    async def off_loop(function: Callable[..., Any], *arguments: Any) -> Any:
        calls.append(getattr(function, "__name__", ""))
        return function(*arguments)

    def answer(_question: Question) -> Answer:
        return WELL

    chain = Chain([StubLayer("a", answer)])
    assert (await chain.answer(QUESTION, off_loop=off_loop)).answer == WELL
    assert calls == []
    assert (await chain.answer(QUESTION._replace(large=True), off_loop=off_loop)).answer == WELL
    assert calls == ["answer", "validate_answer"]


async def test_a_malformed_object_is_an_error_of_the_caller_in_the_native_layer() -> None:
    question = Question(Operation.REPLICA, DEPLOYMENT, {"spec": {"replicas": "three"}})
    with pytest.raises(ChainError) as caught:
        await Chain([NativeLayer()]).answer(question)
    assert caught.value.code == 422


def test_a_chain_answers_all_that_its_layers_answer() -> None:
    assert Chain([StubLayer("a", lambda _: WELL)]).answers() == {"a": {(FOO, Operation.HEALTH)}}


def make_interpreters() -> Iterator[Interpreter]:
    for healthy in (True, False):
        made = Interpreter("example.org/v1", "Foo")
        made.healthy(lambda _, healthy=healthy: healthy)
        yield made


async def test_the_first_python_interpreter_of_a_kind_wins() -> None:
    layer = PythonLayer(make_interpreters())
    assert (await Chain([layer]).answer(QUESTION)).answer.healthy is True
    assert list(layer.answers()) == [(FOO, Operation.HEALTH)]
    assert layer.find(Question(Operation.STATUS, FOO, {})) is None
