"""Asks the layers in order: the first layer with an interpreter for the kind and the operation answers."""

from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

from fleethook.engines.interpret.review.answer_validation import validate_answer
from fleethook.interpret.interpreter import Answer, Interpreter, InterpretError, Question, locate_function
from fleethook.model.gvk import GroupVersionKind
from fleethook.model.karmada import Operation
from fleethook.server.reviews.records_and_traces import AskedCall
from fleethook.work.threads_and_gc import Work, begin, finish

_NOT_FOUND: Final = 404

Observe = Callable[[str, str, float], None]
"""Called after each call of a hook or a script with its name, its outcome and its seconds."""


def ignore_call(name: str, outcome: str, seconds: float) -> None:
    """Drop a measurement: commands and the console have no metrics of calls."""
    del name, outcome, seconds


OffLoop = Callable[..., Awaitable[Any]]
"""Runs a function in a thread with the other arguments; returns its result, or raises its errors."""


class Handler(NamedTuple):
    """The interpreter of a layer for a question."""

    hook: str
    """Its name, for explanations and metrics."""
    answer: Callable[[Question], Answer | Awaitable[Answer]]
    """Raises InterpretError, or IgnoredError if the chain must ask the next layer."""
    in_thread: bool = False
    """Whether the chain calls ``answer`` in a thread for a large question. Other layers use their own threads."""
    describe: Callable[[], AskedCall] | None = None
    """Describes a webhook or a script, without key and answer. None for an interpreter that is part of this server."""
    place: str = ""
    """The place of a user's interpreter in errors about its answer, such as a file and a line."""


class IgnoredError(Exception):
    """A hook with ``failurePolicy: Ignore`` failed."""


_OWN_LAYERS: Final = frozenset({"native", "bundle", "conventions"})


class Layer(Protocol):
    """One source of interpreters."""

    @property
    def name(self) -> str:
        """Its name in explanations."""

    def find(self, question: Question) -> Handler | None:
        """Return the interpreter for a question, None if there is none."""

    def answers(self) -> Iterable[tuple[GroupVersionKind, Operation]]:
        """Return the kinds and operations that this layer answers without calling other servers."""


class ChainStep(NamedTuple):
    """The outcome of asking one layer."""

    layer: str
    hook: str
    outcome: str
    """``answered``, ``failed``, ``ignored`` or ``none``."""
    detail: str = ""


class Explained(NamedTuple):
    """An answer, with the outcome of each layer that was asked."""

    answer: Answer
    steps: tuple[ChainStep, ...]
    calls: tuple[AskedCall, ...] = ()
    """The answers of webhooks and scripts, if the chain traces calls."""
    place: str = ""
    """`Handler.place` of the interpreter that answered."""


class ChainError(InterpretError):
    """No layer answered, or a layer failed.

    Attributes:
        steps: The outcome of each layer that was asked.
        calls: The answers of webhooks and scripts, if the chain traces calls.
    """

    def __init__(self, error: InterpretError, steps: tuple[ChainStep, ...], calls: tuple[AskedCall, ...] = ()) -> None:
        super().__init__(str(error), code=error.code)
        self.steps: Final = steps
        self.calls: Final = calls


def explain_error(question: Question, error: ChainError) -> str:
    """Return the reason for a missing answer: the error of a layer, or that no layer has the rule."""
    if any(step.outcome != "none" for step in error.steps):
        return str(error)
    kind = f"{question.kind.api_version} {question.kind.kind}"
    layers = ", ".join(step.layer for step in error.steps)
    return f"rule is not set: no layer answers {question.operation} for {kind} (asked: {layers})"


class Chain:
    """Layers that are asked in order.

    An error ends the search: a later layer must not guess for a kind that has an interpreter.
    """

    def __init__(self, layers: Sequence[Layer], *, traces: bool = False) -> None:
        """Make a chain.

        Args:
            layers: The layers in the order in which to ask them.
            traces: Add the calls to answers.
        """
        self._layers: Final = tuple(layers)
        self._traces: Final = traces

    def answers(self) -> dict[str, frozenset[tuple[GroupVersionKind, Operation]]]:
        """Return the kinds and operations that each layer answers without calling other servers, by its name."""
        return {layer.name: frozenset(layer.answers()) for layer in self._layers}

    def list_handlers(self, question: Question) -> list[tuple[str, Handler]]:
        """Return the names of the layers that have an interpreter for a question, with it, in the order of the chain.

        The first layer answers. The chain asks a later layer only if it ignores the failures of all earlier ones.
        """
        found = ((layer.name, layer.find(question)) for layer in self._layers)
        return [(name, handler) for name, handler in found if handler is not None]

    def begin(
        self, question: Question, *, off_loop: OffLoop | None = None
    ) -> Explained | Coroutine[Any, Any, Explained]:
        """Return the answer of the first layer that has an interpreter, at once if no layer has to wait.

        Args:
            question: The question.
            off_loop: Runs work on a large question in a thread; None to run it on the event loop.

        Raises:
            ChainError: No layer has an interpreter, or the interpreter failed. The coroutine raises it, too.
        """
        return begin(self._ask(question, off_loop))

    async def answer(self, question: Question, *, off_loop: OffLoop | None = None) -> Explained:
        """Return the answer of the first layer that has an interpreter, as `begin` does."""
        return await finish(self.begin(question, off_loop=off_loop))

    def _ask(self, question: Question, off_loop: OffLoop | None) -> Work[Explained]:
        """Ask the layers; yields the answers for which it waits, and receives their results."""
        steps: list[ChainStep] = []
        calls: list[AskedCall] = []
        for layer in self._layers:
            handler = layer.find(question)
            if handler is None:
                steps.append(ChainStep(layer.name, "", "none"))
                continue
            try:
                final = yield from _final(handler, question, off_loop if question.large else None)
            except IgnoredError as error:
                steps.append(ChainStep(layer.name, handler.hook, "ignored", str(error)))
                if self._traces:
                    calls += _note_call(handler, question, error=error)
                continue
            except InterpretError as error:
                if layer.name in _OWN_LAYERS and type(error) is InterpretError:
                    # Our own interpreters only fail if the object is malformed, apart from errors of Lua.
                    error.code = 422
                steps.append(ChainStep(layer.name, handler.hook, "failed", str(error)))
                if self._traces:
                    calls += _note_call(handler, question, error=error)
                raise ChainError(error, tuple(steps), tuple(calls)) from error
            if self._traces:
                calls += _note_call(handler, question, answer=final)
            step = ChainStep(layer.name, handler.hook, "answered", final.rule or "")
            return Explained(final, (*steps, step), tuple(calls), handler.place)
        group, version, kind = question.kind
        place = f"{group}/{version}" if group else version
        message = f'default {question.operation} interpreter for "{place}, Kind={kind}" not found'
        raise ChainError(InterpretError(message, code=_NOT_FOUND), tuple(steps), tuple(calls))


def _note_call(
    found: Handler,
    question: Question,
    *,
    answer: Answer | None = None,
    error: InterpretError | IgnoredError | None = None,
) -> Iterator[AskedCall]:
    """Yield the call of a webhook or a script."""
    if found.describe is None:
        return
    noted = found.describe()._replace(key=f"{question.operation.value}/{found.hook}")
    if answer is not None:
        members = {name: value for name, value in answer._asdict().items() if value is not None}
        yield noted._replace(answer=members)
    elif error is not None:
        code = error.code if isinstance(error, InterpretError) else 0
        yield noted._replace(error=str(error), failure={"code": code, "ignored": isinstance(error, IgnoredError)})


def _final(found: Handler, question: Question, off_loop: OffLoop | None) -> Work[Answer]:
    """Return the answer of a layer in its final form; raises InterpretError and IgnoredError."""
    if off_loop is not None and found.in_thread:
        answer = yield off_loop(found.answer, question)
    else:
        answer = found.answer(question)
    if not isinstance(answer, Answer):
        answer = yield answer
    try:
        answer = (
            validate_answer(question, answer)
            if off_loop is None
            else (yield off_loop(validate_answer, question, answer))
        )
    except InterpretError as error:
        if not found.place:
            raise
        raise InterpretError(f"{found.place}: {error}", code=error.code) from None
    return answer


class PythonLayer:
    """Python interpreters of users."""

    name = "python"

    def __init__(self, interpreters: Iterable[Interpreter]) -> None:
        """Take the interpreters; the first one for a kind and operation wins."""
        found: dict[tuple[GroupVersionKind, Operation], Interpreter] = {}
        for interpreter in interpreters:
            for operation in interpreter.functions:
                found.setdefault((interpreter.kind, operation), interpreter)
        self._found: Final[Mapping[tuple[GroupVersionKind, Operation], Interpreter]] = found

    def find(self, question: Question) -> Handler | None:
        """Return the interpreter for a kind and operation."""
        one = self._found.get((question.kind, question.operation))
        if one is None:
            return None
        function = one.functions[question.operation]
        name = getattr(function, "__qualname__", "function")
        return Handler(name, one.answer, in_thread=True, place=locate_function(function) or name)

    def answers(self) -> Iterable[tuple[GroupVersionKind, Operation]]:
        """Return the kinds and operations that there are functions for."""
        return self._found
