"""Rules: decorated functions that decide about reviews, and their tests from Python."""

import asyncio
import inspect
import re
import threading
import traceback
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from pathlib import Path
from reprlib import repr as shortened_repr
from typing import Any, Final, NamedTuple, get_args

import msgspec

from fleethook.admission.declaration import Declaration, RuleError
from fleethook.admission.existing import REFUSALS, judge_update
from fleethook.admission.invocation import (
    Denied,
    Invocation,
    Lookup,
    find_among,
    read_signature,
    respond_to_denial,
    shorten_text,
    write_warning,
)
from fleethook.admission.matching import bind_variables, choose_resource, find_mismatch
from fleethook.admission.result_check import list_added_faults
from fleethook.cel import EvaluationError, PendingChecksError, Program
from fleethook.cel.program import INLINE_LIMITS, LIMITS, EvaluationLimits
from fleethook.model.admission import AdmissionRequest, Kind, Operation, Resource, Response, StatusCause, allowed
from fleethook.model.gvk import guess_resource, gvk_of
from fleethook.model.json import JSONObject, as_object
from fleethook.patch import apply
from fleethook.workload_schema.admission_objects import show_objects
from fleethook.workload_schema.schema_defaults import CustomVersion, find_kind_version

Function = Callable[..., Any]

_NO_SETTINGS: Final[Mapping[str, Any]] = {}
_NAMES_MORE: Final = re.compile(r"\b(oldObject|userInfo|options)\b")
"""The variables and members of an expression that depends on more than the object."""


class Review(NamedTuple):
    """The answer of a rule in a test.

    Attributes:
        allowed: Whether the object is admitted.
        matched: Whether kube-apiserver asks the rule at all.
        reason: Why it does not; ``""`` if it does.
        message: The reason of a refusal.
        code: The HTTP status code of a refusal.
        causes: The fields at fault.
        warnings: The warnings for the user.
        patch: The operations of the JSON Patch.
        object: The object with the patch.
    """

    allowed: bool
    matched: bool
    reason: str
    message: str
    code: int
    causes: tuple[StatusCause, ...]
    warnings: tuple[str, ...]
    patch: Sequence[JSONObject]
    object: Any


class ServedRule:
    """A rule as servers and commands ask it.

    Attributes:
        declaration: The requests that it decides about.
        name: The name in webhook configurations, paths, metrics and logs.
        function: The decorated function.
        is_async: Whether the rule is a coroutine function; an expression never is.
        expression: The rule in CEL; None for a rule in Python.
        followed: The kinds that the rule reads from ``store``.
    """

    def __init__(
        self, declaration: Declaration, function: Function, *, expression: Program | None, message: str
    ) -> None:
        """Read the parameters of the function; raises RuleError."""
        self.declaration: Final = declaration
        self.followed: Final = declaration.followed
        self.function: Final = function
        self.name: Final = declaration.name
        self.expression: Final = expression
        self.message: Final = message
        # A decorator may return a plain function that passes on the coroutine.
        is_async = any(map(inspect.iscoroutinefunction, (function, inspect.unwrap(function))))
        self.is_async: Final = is_async and expression is None
        self.__doc__ = function.__doc__
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise RuleError("the function has a yield, so a call does not run it: remove the yield")
        if declaration.inline and (self.is_async or expression is not None):
            raise RuleError("inline=True is for plain functions: remove it")
        self._signature: Final = read_signature(function, mutates=declaration.mutates)
        if expression is not None and (self._signature.names or self._signature.object_name):
            raise RuleError("a rule with an expression does not run its function: remove the parameters")
        # A rule about changes or callers, or one that changes something else, is not asked about the stored object.
        named = expression is not None and _NAMES_MORE.search(expression.expression) is not None
        self._decides_itself: Final = (
            declaration.existing == "refuse"
            or declaration.side_effects != "None"
            or "old" in self._signature.names
            or named
        )
        if "store" in self._signature.names and not declaration.follows:
            raise RuleError("the parameter 'store' needs the kinds to follow: give follows=('v1', 'ConfigMap')")

    @property
    def place(self) -> str:
        """File and line of the function."""
        return _find_place(self.function)

    @property
    def file(self) -> str:
        """The path of the file with the function."""
        return str(inspect.unwrap(self.function).__code__.co_filename)

    @property
    def line(self) -> int:
        """The first line of the function or its decorators."""
        return int(inspect.unwrap(self.function).__code__.co_firstlineno)

    def answer(
        self, request: AdmissionRequest, *, lookup: Lookup | None = None, settings: Mapping[str, Any] = _NO_SETTINGS
    ) -> Response:
        """Answer a review with a plain function or an expression, as `answer_async` does."""
        work = self.answer_async(request, lookup=lookup, settings=settings)
        try:
            work.send(None)
        except StopIteration as end:
            answer: Response = end.value
            return answer
        raise AssertionError("only a coroutine waits")

    async def answer_async(
        self, request: AdmissionRequest, *, lookup: Lookup | None = None, settings: Mapping[str, Any] = _NO_SETTINGS
    ) -> Response:
        """Answer a review; a failure is answered under the failure policy."""
        answer, decides_itself = await self._ask(request, lookup, settings)
        if request.operation != "UPDATE" or answer.reason not in REFUSALS or decides_itself:
            return answer

        async def ask(other: AdmissionRequest) -> Response:
            return (await self._ask(other, lookup, settings))[0]

        return await judge_update(self.declaration, request, answer, ask)

    async def _ask(
        self, request: AdmissionRequest, lookup: Lookup | None, settings: Mapping[str, Any]
    ) -> tuple[Response, bool]:
        """Return the answer to a request, and whether it depends on more than the object of the request."""
        invocation = None
        decides_itself = self._decides_itself
        try:
            if self.expression is not None:
                return self._evaluate(request, self.expression), decides_itself
            invocation = Invocation(self._signature, request, lookup=lookup, followed=self.followed, settings=settings)
            result = self.function(**invocation.arguments)
            if self.is_async and inspect.isawaitable(result):
                result = await result
            if self.declaration.mutates:
                return invocation.respond_to_mutation(result), decides_itself
            return invocation.respond_to_validation(result), decides_itself
        except BaseException as error:  # noqa: BLE001 - a rule may fail in any way
            reads_more = invocation is not None and invocation.reads_more
            return self._respond_to_error(error, invocation), decides_itself or reads_more

    def _respond_to_error(self, error: BaseException, invocation: Invocation | None) -> Response:
        """Return the answer of a rule that raised an error or a refusal; raises KeyboardInterrupt for Ctrl+C."""
        while isinstance(error, BaseExceptionGroup):  # Of a TaskGroup. Its refusals count if nothing else failed.
            error = (error.split(Denied)[1] or error).exceptions[0]
        if isinstance(error, Denied):
            try:
                return respond_to_denial(error, warnings=invocation.warnings if invocation else ())
            except (AttributeError, TypeError) as unusable:  # A class of the author may lack the attributes.
                return self.fail(self._describe(unusable.with_traceback(error.__traceback__)))
        if isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread():
            raise error
        return self.fail(self._describe(error))

    def answer_on_loop(self, request: AdmissionRequest) -> Response | None:
        """Return the answer of an expression within `INLINE_LIMITS`; None if it needs more or fails: ask `answer`."""
        if self.expression is None:
            return None
        try:
            answer = self._evaluate(request, self.expression, INLINE_LIMITS)
        except Exception:  # noqa: BLE001 - `answer` describes the failure
            return None
        # `answer` compares the refusal of an update with the stored object.
        return answer if answer.allowed or request.operation != "UPDATE" else None

    def _evaluate(self, request: AdmissionRequest, expression: Program, limits: EvaluationLimits = LIMITS) -> Response:
        # A policy has the Namespace, which is unknown here: null would give another verdict.
        if expression.measure(bind_variables(request, has_namespace=False), limits).value:
            return allowed()
        return respond_to_denial(Denied(self.message))

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
        if isinstance(error, PendingChecksError):
            return f"{self.place}: the expression needs an authorizer, which only kube-apiserver has"
        text = shorten_text(error)
        return f"{_find_place(self.function, error)}: {type(error).__name__}{': ' if text else ''}{text}"


class Rule(ServedRule):
    """One rule. It can be called like the function that it decorates."""

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Call the function."""
        return self.function(*arguments, **named)

    def review(  # noqa: PLR0913 - one parameter for each part of a request that rules read
        self,
        document: Mapping[str, Any] | None,
        *,
        operation: Operation = "CREATE",
        old: Mapping[str, Any] | None = None,
        resource: str = "",
        subresource: str = "",
        user: Mapping[str, Any] | None = None,
        dry_run: bool = False,
        name: str | None = None,
        namespace_labels: Mapping[str, str] | None = None,
        store: Iterable[JSONObject] = (),
        settings: Mapping[str, Any] = _NO_SETTINGS,
    ) -> Review:
        """Return the answer of the rule without a server, for tests.

        The rule gets the object as kube-apiserver shows it to webhooks: with the defaults of built-in kinds and of
        CustomResourceDefinitions in ``store``, and as a validating rule with a name in place of ``generateName``.

        Args:
            document: The object; for a DELETE, the object that is deleted.
            operation: The operation.
            old: The stored object of an UPDATE; the same as the object if missing.
            resource: The plural; guessed from the kind if missing.
            subresource: The subresource.
            user: The user: ``username`` and ``groups``.
            dry_run: Whether the request has no effect.
            name: The name of the request, if it is not that of the object: ``""`` for a deleted collection.
            namespace_labels: The labels of the namespace, for ``namespace_selector``.
            store: The other objects that exist.
            settings: The settings of rules.
        """
        stored = document if operation == "DELETE" or (operation == "UPDATE" and old is None) else old
        objects = list(store)
        request = build_request(
            None if operation == "DELETE" else document,
            stored,
            operation=operation,
            resource=resource or choose_resource(self.declaration, document or old or {}, subresource),
            subresource=subresource,
            user=user,
            dry_run=dry_run,
            name=name,
        )
        request = _show(request, find_kind_version(objects, document or old or {}), self.declaration)
        if subresource and "*" not in (self.declaration.group, self.declaration.version):
            # The kind of a subresource may have another group, as Scale and Eviction have.
            named = request.resource.resource
            request.resource = Resource(self.declaration.group, self.declaration.version, named)
        try:
            mismatch = find_mismatch(self.declaration, request, namespace_labels or {})
        except (EvaluationError, PendingChecksError) as error:
            return _make_review(request, self.fail(f"{self.place}: match_conditions: {error}"))
        if mismatch:
            return _make_review(request, allowed(), reason=mismatch)
        lookup = find_among(objects)
        answer = _run_to_end(self.answer_async(request, lookup=lookup, settings=settings))
        faults = list_added_faults(request, answer.patch) if answer.patch and not subresource else ()
        if faults:
            answer = self.fail(f"{self.place}: its changes are invalid: {'; '.join(faults)}")
        return _make_review(request, answer)


def _run_to_end(work: Coroutine[Any, Any, Response]) -> Response:
    """Return the result of a coroutine; in an event loop, another thread runs it."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(copy_context().run, asyncio.run, work).result()


def build_request(
    document: Mapping[str, Any] | None,
    old: Mapping[str, Any] | None,
    *,
    operation: Operation,
    resource: str = "",
    subresource: str = "",
    user: Mapping[str, Any] | None = None,
    dry_run: bool = False,
    name: str | None = None,
) -> AdmissionRequest:
    """Return the request of a review, as kube-apiserver sends it; raises ValueError for one that it never sends."""
    if operation not in get_args(Operation):
        raise ValueError(f"operation: {operation!r} is unknown: give one of {', '.join(get_args(Operation))}")
    if not isinstance(user, Mapping | None):
        raise TypeError(f"user: {user!r} is no user: give a dict with username and groups")
    given: Any = document if document is not None else old
    if not isinstance(given, Mapping) or not all(isinstance(given.get(one), str) for one in ("apiVersion", "kind")):
        raise ValueError(f"the object is {shortened_repr(given)}: give a dict with apiVersion and kind")
    shown = dict(given)
    group, version, kind = gvk_of(shown)
    metadata = _check_metadata(shown.get("metadata"))
    # A request about a Namespace has the Namespace's own name as namespace.
    is_namespace = (group, kind) == ("", "Namespace")
    return AdmissionRequest(
        uid="test",
        operation=operation,
        kind=Kind(group, version, kind),
        resource=Resource(group, version, resource or guess_resource(kind)),
        sub_resource=subresource,
        name=metadata.get("name", "") if name is None else name,
        namespace=metadata.get("name" if is_namespace else "namespace", ""),
        user_info=msgspec.Raw(msgspec.json.encode(user or {})),
        object_raw=msgspec.Raw(msgspec.json.encode(document)),
        old_object_raw=msgspec.Raw(msgspec.json.encode(old)),
        dry_run=dry_run,
    )


def _show(request: AdmissionRequest, version: CustomVersion | None, declared: Declaration) -> AdmissionRequest:
    """Return a request with the objects and the name that kube-apiserver shows to a rule."""
    new, old = show_objects(
        request.object,
        request.old_object,
        operation=request.operation,
        subresource=request.sub_resource,
        version=version,
        validating=not declared.mutates,
    )
    is_new = request.operation == "CREATE" and not request.sub_resource
    generated = as_object(as_object(new).get("metadata")).get("name", "") if is_new else ""
    return msgspec.structs.replace(
        request,
        name=request.name or generated,
        object_raw=msgspec.Raw(msgspec.json.encode(new)),
        old_object_raw=msgspec.Raw(msgspec.json.encode(old)),
    )


def _check_metadata(metadata: Any) -> Mapping[str, Any]:
    """Return the metadata; raises ValueError for those that kube-apiserver never sends."""
    given = as_object(metadata)
    members = {name: given.get(name, "") for name in ("name", "generateName", "namespace")}
    for each in ("labels", "annotations"):
        members.update({f"{each}/{name}": text for name, text in as_object(given.get(each)).items()})
    wrong = next((name for name, text in members.items() if not isinstance(text, str)), None)
    if wrong is not None:
        raise ValueError(f"/metadata/{wrong} is {members[wrong]!r}: give a text, in YAML with quotes")
    return given


def _make_review(request: AdmissionRequest, response: Response, *, reason: str = "") -> Review:
    changed = apply(request.object, response.patch) if response.patch else request.object
    return Review(
        allowed=response.allowed,
        matched=not reason,
        reason=reason,
        message=response.message,
        code=response.code,
        causes=response.causes,
        warnings=response.warnings,
        patch=response.patch,
        object=changed,
    )


def _find_place(function: Function, error: BaseException | None = None) -> str:
    """Return file and line of the function, or of its code that raised an error."""
    code = inspect.unwrap(function).__code__
    frames = traceback.extract_tb(error.__traceback__) if error is not None else []
    lines = [frame.lineno for frame in frames if frame.filename == code.co_filename]
    return f"{Path(code.co_filename).name}:{lines[-1] if lines else code.co_firstlineno}"
