"""Finds the scripts for a question, and runs them: fast ones on the event loop, slow ones on threads.

Most scripts take less than a millisecond, and starting one on a thread takes longer. So a script starts on the event
loop, with a small part of its limits. If it needs more, it is stopped and restarted on a thread, which is safe because
scripts have no side effects. Lua runs without the GIL, so the event loop continues meanwhile. The next calls of such a
script start on a thread.
"""

import contextlib
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from fleethook.engines.interpret.interpreter_chain import Handler, Observe, ignore_call
from fleethook.engines.interpret.lua.customization_rules_and_configmap import CustomizationRule
from fleethook.engines.interpret.lua.lua_documents import describe_type, expect_list, expect_object
from fleethook.engines.interpret.lua.lua_machine import LoadedScript, LuaError, Machine, ScriptLimits
from fleethook.interpret.interpreter import Answer, InterpretError, Question
from fleethook.model.gvk import GroupVersionKind
from fleethook.model.json import JSON
from fleethook.model.karmada import PATCHING, Operation
from fleethook.server.reviews.records_and_traces import AskedCall
from fleethook.work.threads_and_gc import Worker

SCRIPT_LIMITS: Final = ScriptLimits(seconds=1.0, instructions=20_000_000, memory=32 << 20)
"""Limits of one call of a script."""
_EVENT_LOOP_LIMITS: Final = ScriptLimits(seconds=0.005, instructions=100_000, memory=4 << 20)
"""Limits of a script on the event loop."""
_LIMIT_ERRORS: Final = frozenset({"deadline", "instructions", "memory"})
_THREADS: Final = 6
"""Threads of slow scripts; a single script has half of them."""
MAX_WAITING: Final = 128
"""Calls that may run on threads or wait."""
MAX_WAITING_EACH: Final = 64
"""Calls of one script that may run on threads or wait."""
_MAX_REMEMBERED: Final = 1000
_CALLS_UNTIL_RETRY: Final = 50
"""Calls of a slow script that start on a thread, before one starts on the event loop again."""
_MAX_IDLE_BYTES: Final = 12 << 20
"""Bytes; a machine with more memory after a call is not reused."""


class ScriptCall(NamedTuple):
    """One call of a script's function (`Machine.call`)."""

    program: LoadedScript
    function: str
    documents: Sequence[JSON]
    numbers: Sequence[int] = ()
    results: int = 1
    with_globals: bool = False
    references: Sequence[JSON] = ()
    """Documents that determine the types of empty tables in the results."""


class Runner:
    """Runs scripts within limits, for one event loop."""

    def __init__(
        self,
        limits: ScriptLimits = SCRIPT_LIMITS,
        *,
        make_machine: Callable[[], Machine] = Machine,
        max_waiting: int = MAX_WAITING,
        max_waiting_each: int = MAX_WAITING_EACH,
        calls_until_retry: int = _CALLS_UNTIL_RETRY,
    ) -> None:
        """Prepare; the first calls create machines and threads.

        Args:
            limits: Limits of a script on a thread.
            make_machine: Makes a machine.
            max_waiting: Calls that may run on threads or wait.
            max_waiting_each: The same for calls of one script.
            calls_until_retry: Calls of a slow script that start on a thread, before one starts on the event loop again.
        """
        self.limits: Final = limits
        self._make_machine: Final = make_machine
        self._max_waiting: Final = max_waiting
        self._max_waiting_each: Final = max_waiting_each
        self._calls_until_retry: Final = calls_until_retry
        self._worker: Final = Worker(_THREADS, name="lua")
        self._idle: Final[list[Machine]] = []
        self._slow: Final[dict[str, int]] = {}

    def prepare(self) -> None:
        """Create a machine, so that the first call does not wait for it."""
        with self._machine():
            pass

    def run(self, call: ScriptCall, *, at_once: bool = True) -> list[JSON] | Awaitable[list[JSON]]:
        """Return the results of a script's function, or an awaitable of them; raises LuaError, also when awaited.

        Args:
            call: The call.
            at_once: Whether it may run on the event loop. Large objects may not, because the limits do not count all
                work of the host.
        """
        script = call.program.id
        left = self._slow.pop(script, 0)
        if left > 1:
            self._slow[script] = left - 1
        if at_once and not left:
            try:
                return self._run(call, _EVENT_LOOP_LIMITS)
            except LuaError as error:
                if error.kind not in _LIMIT_ERRORS:
                    raise
            if len(self._slow) >= _MAX_REMEMBERED:
                self._slow.clear()
            self._slow[script] = self._calls_until_retry
        return self._run_on_thread(call)

    async def _run_on_thread(self, call: ScriptCall) -> list[JSON]:
        worker = self._worker
        if len(worker) >= self._max_waiting or worker.count(call.program.id) >= self._max_waiting_each:
            text = f"{len(worker)} calls of slow scripts are running or waiting: try again later"
            raise InterpretError(text, code=503)
        return await worker.run(call.program.id, self.run_now, call)

    def run_now(self, call: ScriptCall) -> list[JSON]:
        """Return the results of a script's function with its full limits, on this thread; raises LuaError."""
        return self._run(call, self.limits)

    def try_at_once(self, program: LoadedScript) -> list[str]:
        """Run the top level of a script and return the functions that it defines; raises LuaError."""
        with self._machine() as machine:
            return machine.try_(program, _EVENT_LOOP_LIMITS)

    def printed(self) -> list[str]:
        """Return the lines that the last call printed; for commands, which run one call at a time."""
        return self._idle[-1].printed() if self._idle else []

    def close(self) -> None:
        """Stop the threads; running calls end at their limits."""
        self._worker.close()

    def _run(self, call: ScriptCall, limits: ScriptLimits) -> list[JSON]:
        with self._machine() as machine:
            return machine.call(
                call.program,
                call.function,
                call.documents,
                call.numbers,
                results=call.results,
                limits=limits,
                with_globals=call.with_globals,
                references=call.references,
            )

    @contextlib.contextmanager
    def _machine(self) -> Iterator[Machine]:
        # `list.pop` and `list.append` are atomic, so no lock is necessary.
        try:
            machine = self._idle.pop()
        except IndexError:
            machine = self._make_machine()
        try:
            yield machine
        except InterpretError as error:
            self._keep(machine)
            if isinstance(error, LuaError) and error.kind == "deadline":
                error.code = 504
            raise
        # After any other error, the state of the machine is unknown.
        self._keep(machine)

    def _keep(self, machine: Machine) -> None:
        if not machine.spoiled and machine.memory() < _MAX_IDLE_BYTES:
            self._idle.append(machine)


Rules = Mapping[tuple[GroupVersionKind, Operation], tuple[CustomizationRule, ...]]


def index_rules(rules: Iterable[CustomizationRule]) -> Rules:
    """Return the first rule for each kind and operation; all rules for dependencies, because the layer unites them."""
    found: dict[tuple[GroupVersionKind, Operation], tuple[CustomizationRule, ...]] = {}
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

    def answers(self) -> Iterable[tuple[GroupVersionKind, Operation]]:
        """Return the kinds and operations that have scripts."""
        return self._rules()

    def find(self, question: Question) -> Handler | None:
        """Return the script for a kind and operation."""
        rules = self._rules().get((question.kind, question.operation))
        if rules is None:
            return None
        hook = ", ".join(rule.source for rule in rules)
        answer = partial(self._unite_dependencies, rules) if len(rules) > 1 else partial(self._ask, rules[0])
        place = ", ".join(rule.location for rule in rules)
        return Handler(hook, answer, describe=partial(_describe_scripts, rules), place=place)

    def _ask(self, rule: CustomizationRule, question: Question) -> Answer | Awaitable[Answer]:
        started = time.perf_counter()
        try:
            returned = self._runner.run(_make_call(rule, question), at_once=not question.large)
            if isinstance(returned, list):
                answer = _make_answer(rule, question, returned)
                self._observe(rule.source, "answered", time.perf_counter() - started)
                return answer
        except InterpretError as error:
            self._observe(rule.source, _name_outcome(error), time.perf_counter() - started)
            raise
        return self._await_answer(rule, question, returned, started=started)

    async def _await_answer(
        self, rule: CustomizationRule, question: Question, returned: Awaitable[list[JSON]], *, started: float
    ) -> Answer:
        outcome = "failed"  # Also of a call that is cancelled.
        try:
            answer = _make_answer(rule, question, await returned)
            outcome = "answered"
        except InterpretError as error:
            outcome = _name_outcome(error)
            raise
        finally:
            self._observe(rule.source, outcome, time.perf_counter() - started)
        return answer

    async def _unite_dependencies(self, rules: tuple[CustomizationRule, ...], question: Question) -> Answer:
        """Return the dependencies that all scripts list."""
        dependencies = []
        for rule in rules:
            answer = self._ask(rule, question)
            if not isinstance(answer, Answer):
                answer = await answer
            dependencies += answer.dependencies or []
        return Answer(dependencies=dependencies)


def _name_outcome(error: InterpretError) -> str:
    return error.kind if isinstance(error, LuaError) else "failed"


def _describe_scripts(rules: tuple[CustomizationRule, ...]) -> AskedCall:
    source = ", ".join(rule.source for rule in rules)
    return AskedCall("script", rules[0].function.name, "", source, digest=",".join(rule.digest for rule in rules))


def _make_call(rule: CustomizationRule, question: Question) -> ScriptCall:
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
    return ScriptCall(rule.program, function.name, documents, numbers, function.results, rule.with_globals, references)


def _make_answer(rule: CustomizationRule, question: Question, returned: list[JSON]) -> Answer:
    operation, name = question.operation, f"{rule.location}: {rule.function.name}"
    first: Any = returned[0]
    if operation is Operation.REPLICA:
        if isinstance(first, bool) or not isinstance(first, int | float):
            raise InterpretError(f"{name} returned {describe_type(first)}, expected a number", code=500)
        requirements = None if returned[1] is None else expect_object(returned[1], f"{name}, second,") or None
        # Karmada truncates fractions, and scripts that divide rely on it.
        return Answer(replicas=int(first), requirements=requirements)
    if operation is Operation.HEALTH:
        if not isinstance(first, bool):
            raise InterpretError(f"{name} returned {describe_type(first)}, expected true or false", code=500)
        return Answer(healthy=first)
    if operation is Operation.STATUS:
        return Answer(status=expect_object(first, name))
    if operation is Operation.COMPONENT:
        return Answer(components=expect_list(first, name))
    if operation is Operation.DEPENDENCY:
        return Answer(dependencies=expect_list(first, name))
    return Answer(object=expect_object(first, name))
