"""A rule as servers and commands ask it, and the exception with which it refuses an object."""

import inspect
import threading
import traceback
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any, Final

from fleethook.admission.arguments_and_result import Invocation, Signature, shorten_text, write_warning
from fleethook.admission.existing_violations import REFUSALS, decides_itself, judge_update
from fleethook.admission.mismatch_and_pod_templates import bind_variables, find_template, place_refusal, show_template
from fleethook.admission.rule_scope_and_options import Declaration
from fleethook.admission.store_parameter import Lookup
from fleethook.cel.program import Program
from fleethook.model.admission import AdmissionRequest, Response, StatusCause, allowed

Function = Callable[..., Any]
Decided = tuple[Response, Invocation | None]
"""An answer, and the call of the function for it."""

NO_SETTINGS: Final[Mapping[str, Any]] = {}


class Denied(Exception):  # noqa: N818 - the name is the decision that a rule raises
    """Refuses the object.

    Attributes:
        message: The reason, for the user.
        field: The path of the field at fault, such as ``metadata.labels``.
        code: The HTTP status code, 400 to 599.
    """

    def __init__(self, message: str, *, field: str = "", code: int = 403) -> None:
        """Store the reason; raises TypeError or ValueError for a value that no response can have."""
        super().__init__(message)
        if not isinstance(field, str):
            raise TypeError(f"field: {field!r} is no text")
        given: object = code
        if not isinstance(given, int) or given not in range(400, 600):
            raise ValueError(f"code: {code!r} is no HTTP status code of a refusal: give one from 400 to 599")
        self.message: Final = message
        self.field: Final = field
        self.code: Final = code


def to_refusal(denial: Denied, *, warnings: tuple[str, ...] = ()) -> Response:
    """Return the response to a request that a rule refuses."""
    text, field = shorten_text(denial.message), shorten_text(denial.field)
    causes = (StatusCause(field=field, message=text),) if field else ()
    message = f"{field}: {text}" if field else text
    reason = "Invalid" if denial.code == 422 else "Forbidden"
    return Response(allowed=False, code=denial.code, reason=reason, message=message, causes=causes, warnings=warnings)


class ServedRule:
    """A rule, without its tests from Python.

    Attributes:
        declaration: The requests that it decides about.
        name: The name in webhook configurations, paths, metrics and logs.
        function: The decorated function.
        signature: Its parameters.
        is_async: Whether the rule is a coroutine function; an expression never is.
        expression: The rule in CEL; None for a rule in Python.
        followed: The kinds that the rule reads from ``store``.
        file: The path of the file with the function.
        line: The first line of the function or its decorators.
        place: The name of the file and the line.
    """

    def __init__(
        self,
        declaration: Declaration,
        function: Function,
        signature: Signature,
        *,
        expression: Program | None,
        message: str,
    ) -> None:
        """Prepare; ``message`` is the reason of a refusal by the expression."""
        self.declaration: Final = declaration
        self.followed: Final = declaration.followed
        self.function: Final = function
        self.signature: Final = signature
        self.name: Final = declaration.name
        code = inspect.unwrap(function).__code__
        self.file: Final = code.co_filename
        self.line: Final = code.co_firstlineno
        self.place: Final = f"{Path(self.file).name}:{self.line}"
        self.expression: Final = expression
        self.message: Final = message
        # A decorator may return a plain function that passes on the coroutine.
        is_async = any(map(inspect.iscoroutinefunction, (function, inspect.unwrap(function))))
        self.is_async: Final = is_async and expression is None
        self.__doc__ = function.__doc__
        self._decides_itself: Final = decides_itself(declaration, signature.names, expression)

    async def decide(self, request: AdmissionRequest, lookup: Lookup, settings: Mapping[str, Any]) -> Decided:
        """Answer a review. A failure is answered under the failure policy."""
        answer, invocation = await self._ask(request, lookup, settings)
        if answer.allowed or request.operation != "UPDATE" or answer.reason not in REFUSALS or self._decides_itself:
            return answer, invocation
        if invocation is not None and invocation.reads_more:
            return answer, invocation

        async def ask(other: AdmissionRequest) -> Response:
            return (await self._ask(other, lookup, settings))[0]

        return await judge_update(self.declaration, request, answer, ask), invocation

    async def _ask(self, request: AdmissionRequest, lookup: Lookup, settings: Mapping[str, Any]) -> Decided:
        if not (template := find_template(self.declaration, request)):
            return await self._call_rule(request, lookup, settings)
        shown = show_template(request, template)
        if shown is None:
            return allowed(), None
        answer, invocation = await self._call_rule(shown, lookup, settings)
        return place_refusal(answer, template) if answer.reason in REFUSALS else answer, invocation

    async def _call_rule(self, request: AdmissionRequest, lookup: Lookup, settings: Mapping[str, Any]) -> Decided:
        invocation = None
        try:
            if self.expression is not None:
                return self._evaluate(request, self.expression), None
            invocation = Invocation(self.signature, request, lookup=lookup, followed=self.followed, settings=settings)
            result = self.function(**invocation.arguments)
            if self.is_async and inspect.isawaitable(result):
                result = await result
            if self.declaration.mutates:
                return invocation.respond_to_mutation(result), invocation
            return invocation.respond_to_validation(result), invocation
        except BaseException as error:  # noqa: BLE001 - a rule may fail in any way
            return self._respond_to_error(error, invocation), invocation

    def _respond_to_error(self, error: BaseException, invocation: Invocation | None) -> Response:
        """Return the answer of a rule that raised an error or a refusal; raises KeyboardInterrupt for Ctrl+C."""
        while isinstance(error, BaseExceptionGroup):  # Of a TaskGroup. Its refusals count if nothing else failed.
            error = (error.split(Denied)[1] or error).exceptions[0]
        if isinstance(error, Denied):
            try:
                return to_refusal(error, warnings=invocation.warnings if invocation else ())
            except (AttributeError, TypeError) as unusable:  # A class of the author may lack the attributes.
                return self.fail(self._describe(unusable.with_traceback(error.__traceback__)))
        if isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread():
            raise error
        return self.fail(self._describe(error))

    def _evaluate(self, request: AdmissionRequest, expression: Program) -> Response:
        # A policy has the Namespace, which is unknown here: null would give another verdict.
        if expression.evaluate(bind_variables(request, has_namespace=False)):
            return allowed()
        return to_refusal(Denied(self.message))

    @property
    def failure(self) -> str:
        """The beginning of the message, or of the warning, of an answer without a result."""
        return f"the rule {self.name} failed, and failurePolicy {self.declaration.failure_policy}"

    def fail(self, problem: str) -> Response:
        """Return the answer of a rule that has no result, under its failure policy."""
        if self.declaration.failure_policy == "Ignore":
            return allowed(warnings=(write_warning(f"{self.failure} admits the object: {problem}"),))
        message = f"{self.failure} refuses the object: {problem}"
        return Response(allowed=False, code=500, reason="InternalError", message=message)

    def _describe(self, error: BaseException) -> str:
        frames = traceback.extract_tb(error.__traceback__)
        line = next((frame.lineno for frame in reversed(frames) if frame.filename == self.file), self.line)
        text = shorten_text(error)
        return f"{Path(self.file).name}:{line}: {type(error).__name__}{': ' if text else ''}{text}"


def run_at_once(work: Coroutine[Any, Any, Decided]) -> Decided:
    """Return the result of a coroutine that waits for nothing."""
    try:
        work.send(None)
    except StopIteration as end:
        decided: Decided = end.value
        return decided
    raise AssertionError("only a coroutine waits")
