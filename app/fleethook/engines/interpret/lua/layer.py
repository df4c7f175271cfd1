"""The Lua layers: customizations of users, and the bundle."""

import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final

from fleethook.engines.interpret.chain import Handler, Observe, ignore_call
from fleethook.engines.interpret.lua.convert import expect_list, expect_object
from fleethook.engines.interpret.lua.rules import Rule
from fleethook.engines.interpret.lua.runner import Call, Runner
from fleethook.engines.interpret.lua.vm import LuaError
from fleethook.interpret.question import Answer, Question
from fleethook.interpret.typed_members import InterpretError
from fleethook.model.gvk import GroupVersionKind
from fleethook.model.json import JSON
from fleethook.model.karmada import PATCHING, Operation
from fleethook.server.reviews.recording import AskedCall
from fleethook.tracing.spans import Span, start_child

_SPAN: Final = "run script"

Rules = Mapping[tuple[GroupVersionKind, Operation], tuple[Rule, ...]]


def index_rules(rules: Iterable[Rule]) -> Rules:
    """Return the first rule for each kind and operation; all rules for dependencies, because the layer unites them."""
    found: dict[tuple[GroupVersionKind, Operation], tuple[Rule, ...]] = {}
    for rule in rules:
        key = rule.kind, rule.function.operation
        if key not in found:
            found[key] = (rule,)
        elif rule.function.operation is Operation.DEPENDENCY:
            found[key] += (rule,)
    return found


class LuaLayer:
    """Finds the scripts for a kind and operation, and runs them."""

    def __init__(
        self, name: str, rules: Callable[[], Rules], runner: Runner, *, observe: Observe = ignore_call
    ) -> None:
        """Prepare.

        Args:
            name: The name of the layer in explanations.
            rules: Returns the current rules.
            runner: Runs the scripts.
            observe: Called after each call.
        """
        self.name: Final = name
        self._rules: Final = rules
        self._runner: Final = runner
        self._observe: Final = observe

    def knows(self, kind: GroupVersionKind, operation: Operation) -> bool:
        """Return whether there is a script for a kind and operation."""
        return (kind, operation) in self._rules()

    def answers(self) -> Iterable[tuple[GroupVersionKind, Operation]]:
        """Return the kinds and operations that have scripts."""
        return self._rules()

    def find(self, question: Question) -> Handler | None:
        """Return the script for a kind and operation."""
        rules = self._rules().get((question.kind, question.operation))
        if rules is None:
            return None
        hook = ", ".join(rule.source for rule in rules)
        if len(rules) > 1:
            return Handler(hook, partial(self._unite_dependencies, rules), describe=partial(_describe_scripts, rules))
        return Handler(hook, partial(self._ask, rules[0]), describe=partial(_describe_scripts, rules))

    def _ask(self, rule: Rule, question: Question) -> Answer | Awaitable[Answer]:
        started = time.perf_counter()
        span = start_child(
            _SPAN, attributes={"fleethook.script": rule.source, "fleethook.function": rule.function.name}
        )
        try:
            returned = self._runner.run(_make_call(rule, question), at_once=not question.large)
            if isinstance(returned, list):
                answer = _make_answer(rule, question, returned)
                self._report(rule, "answered", started, span)
                return answer
        except InterpretError as error:
            outcome = error.kind if isinstance(error, LuaError) else "failed"
            self._report(rule, outcome, started, span, error=str(error))
            raise
        return self._await_answer(rule, question, returned, started=started, span=span)

    async def _await_answer(
        self, rule: Rule, question: Question, returned: Awaitable[list[JSON]], *, started: float, span: Span | None
    ) -> Answer:
        outcome, problem = "failed", "the call was ended"
        try:
            answer = _make_answer(rule, question, await returned)
            outcome, problem = "answered", ""
        except InterpretError as error:
            outcome, problem = error.kind if isinstance(error, LuaError) else "failed", str(error)
            raise
        finally:
            self._report(rule, outcome, started, span, error=problem)
        return answer

    def _report(self, rule: Rule, outcome: str, started: float, span: Span | None, *, error: str = "") -> None:
        """Count a call, and end its span."""
        self._observe(rule.source, outcome, time.perf_counter() - started)
        if span is not None:
            span.note({"fleethook.outcome": outcome})
            span.end(error)

    async def _unite_dependencies(self, rules: tuple[Rule, ...], question: Question) -> Answer:
        """Return the dependencies that all scripts list."""
        dependencies = []
        for rule in rules:
            answer = self._ask(rule, question)
            if not isinstance(answer, Answer):
                answer = await answer
            dependencies += answer.dependencies or []
        return Answer(dependencies=dependencies)


def _describe_scripts(rules: tuple[Rule, ...]) -> AskedCall:
    source = ", ".join(rule.source for rule in rules)
    return AskedCall("script", rules[0].function.name, "", source, digest=",".join(rule.digest for rule in rules))


def _make_call(rule: Rule, question: Question) -> Call:
    documents: list[JSON] = [question.object]
    numbers: list[int] = []
    if question.operation is Operation.RETAIN:
        documents.append(question.observed or {})
    elif question.operation is Operation.AGGREGATE_STATUS:
        documents.append(None if question.items is None else list(question.items))
    elif question.operation is Operation.REVISE_REPLICA:
        numbers.append(question.replicas)
    function = rule.function
    # Only patches refer to the documents. Karmada omits all empty values from other answers.
    references = (question.object, question.observed) if question.operation in PATCHING else ()
    return Call(rule.program, function.name, documents, numbers, function.results, rule.with_globals, references)


def _make_answer(rule: Rule, question: Question, returned: list[JSON]) -> Answer:
    operation, name = question.operation, f"{rule.source}: {rule.function.name}"
    first = returned[0]
    if operation is Operation.REPLICA:
        # Karmada truncates fractions, and scripts that divide rely on it.
        replicas: Any = int(first) if isinstance(first, float) else first
        requirements = None if returned[1] is None else expect_object(returned[1], f"{name}, second,") or None
        return Answer(replicas=replicas, requirements=requirements)
    if operation is Operation.HEALTH:
        return Answer(healthy=first)
    if operation is Operation.STATUS:
        return Answer(status=expect_object(first, name))
    if operation is Operation.COMPONENT:
        return Answer(components=expect_list(first, name))
    if operation is Operation.DEPENDENCY:
        return Answer(dependencies=expect_list(first, name))
    return Answer(object=expect_object(first, name))
