"""One call of a rule: its arguments by name, the response to its result, and its failure."""

import asyncio
import inspect
import threading
import traceback
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

from fleethook.admission.attribute_access_and_json import to_plain, view
from fleethook.admission.existing_violations import decides_itself, judge_update
from fleethook.admission.mismatch_and_pod_templates import find_template, place_refusal, show_template
from fleethook.admission.parameters_and_typed_objects import PLAIN, Codec, Signature, carry_over, describe_misfit
from fleethook.admission.refusals_and_warnings import REFUSALS, Denied, shorten_text, to_refusal, write_warning
from fleethook.admission.request_parameter import Request, find_object
from fleethook.admission.rule_scope_and_options import Declaration
from fleethook.admission.store_parameter import Lookup, Objects
from fleethook.cel.program import Program, bind_variables
from fleethook.model.admission import AdmissionRequest, Response, allowed, patched, read_cluster
from fleethook.model.gvk import GroupKind, is_built_in
from fleethook.model.json import JSON, as_object
from fleethook.patch.diff import diff

# kube-apiserver refuses changes of these members, or ignores them.
_TYPE: Final = ("apiVersion", "kind")
_OF_APISERVER: Final = (
    "uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds",
    "managedFields", "selfLink",
)  # fmt: skip
"""Members of ``metadata``."""
_OF_METADATA: Final = ("name", "namespace", *_OF_APISERVER)
_NULL: Final = b"null"

T = TypeVar("T")


class Invocation:
    """One call of a rule.

    Attributes:
        signature: The parameters of the function.
        review: The request.
        arguments: The arguments.
    """

    def __init__(
        self,
        signature: Signature,
        review: AdmissionRequest,
        *,
        lookup: Lookup,
        followed: frozenset[GroupKind],
        settings: Mapping[str, Any],
    ) -> None:
        """Decode the object; raises an error if it does not fit the type of the parameter.

        Args:
            signature: The parameters of the rule.
            review: The request.
            lookup: Finds other objects.
            followed: The kinds that the rule reads from ``store``.
            settings: The settings of rules.
        """
        self.signature: Final = signature
        self.review: Final = review
        self._warnings: list[str] = []
        # It has no reference to this object: a cycle would keep each decoded object until a garbage collection.
        self._request: Request | None = None
        self._viewed: Any = None
        self._typed: JSON = None
        self.arguments: dict[str, Any] = {}
        for name in signature.names:
            if name == "request":
                self.arguments[name] = self._request = Request(review, lookup)
            elif name == "warnings":
                self.arguments[name] = self._warnings
            elif name == "store":
                self.arguments[name] = Objects(lookup, followed, lookup.cluster or read_cluster(review))
            elif name == "settings":
                self.arguments[name] = view(dict(settings))
            elif name == "old":
                text = bytes(review.old_object_raw)
                self.arguments[name] = None if text == _NULL else _decode_typed("old", signature.old_codec, text)
        if signature.object_name:
            self.arguments[signature.object_name] = self._decode()

    @property
    def before(self) -> JSON:
        """The object as kube-apiserver sent it."""
        return find_object(self.review)

    @property
    def document(self) -> Any:
        """The object as the rule sees it; None before it reads the object."""
        return self._viewed if self._request is None else vars(self._request).get("object")

    def _decode(self) -> Any:
        codec, review = self.signature.codec, self.review
        if codec is PLAIN:
            if self._request is not None:
                return self._request.object
            self._viewed = view(find_object(review))
            return self._viewed
        text = bytes(review.old_object_raw if review.operation == "DELETE" else review.object_raw)
        if text == _NULL:
            return None
        value = _decode_typed(self.signature.object_name, codec, text)
        if codec.is_partial:
            self._typed = codec.encode(value)
        return value

    @property
    def reads_more(self) -> bool:
        """Whether the rule has read the stored object, the user or the options of the request."""
        return self._request is not None and not vars(self._request).keys().isdisjoint(("old", "user", "options"))

    @property
    def warnings(self) -> tuple[str, ...]:
        """The warnings for the user."""
        return tuple(map(write_warning, self._warnings)) if self._warnings else ()

    def respond(self, result: Any, *, mutates: bool) -> Response:
        """Return the response to a rule that refused nothing: for a mutating one, the patch of its changes.

        Raises:
            TypeError: The result is no JSON object, or that of a validating rule.
            ValueError: The rule changed a field that identifies the object.
        """
        if not mutates:
            if result is not None:
                raise TypeError(
                    f"the rule returned {type(result).__name__}: raise Denied to refuse, and return nothing"
                )
            return allowed(warnings=self.warnings)
        found = self._find_changed(result)
        operations = [] if found is None else diff(self.before, found)
        if operations:
            before, after = as_object(self.before), as_object(found)
            _check_identity(before, after)
            if self.review.sub_resource == "status":
                _check_unchanged("spec", before, after, "declare no subresource")
            elif self._keeps_status:
                _check_unchanged("status", before, after, "declare subresource='status'")
        return patched(operations, warnings=self.warnings) if operations else allowed(warnings=self.warnings)

    @property
    def _keeps_status(self) -> bool:
        """Whether kube-apiserver ignores the status in this request."""
        return not self.review.sub_resource and is_built_in(self.review.kind.group)

    def _find_changed(self, result: Any) -> JSON:
        """Return the object with the changes of the rule; None if the rule has not read it."""
        codec, document = self.signature.codec, self.document
        if codec.is_partial:
            before = self.before
            given = self.arguments[self.signature.object_name]
            changed = given if result is None else result
            _require_type(changed, type(given))
            if document is not None and to_plain(document, before) is not before:
                raise TypeError(f"the rule changed request.object: change {self.signature.object_name!r} instead")
            return before if changed is None else carry_over(self._typed, codec.encode(changed), before)
        if result is not None and result is not document:
            _require_type(result, dict)
            return _keep_members(to_plain(result, self.before), self.before, self._keeps_status)
        if document is None:
            return None
        before = self.before
        changed = to_plain(document, before)
        if changed is not before and _lacks_all(changed, before):
            return _keep_members(changed, before, self._keeps_status)
        return changed


def _decode_typed(name: str, codec: Codec, text: bytes) -> Any:
    try:
        return codec.decode(text)
    except ValueError as error:
        raise TypeError(f"the object does not fit the type of {name!r}: {describe_misfit(error)}") from error


def _require_type(result: Any, type_: type) -> None:
    if not isinstance(result, type_):
        raise TypeError(f"the rule returned {type(result).__name__}: return the object, a {type_.__name__}, or nothing")


def _check_identity(before: Mapping[str, JSON], after: Mapping[str, JSON]) -> None:
    """Raise ValueError if a field that identifies the object differs."""
    metadata = as_object(before.get("metadata")), as_object(after.get("metadata"))
    for parent, members, old, new in (("", _TYPE, before, after), ("/metadata", _OF_METADATA, *metadata)):
        for member in members if old is not new else ():
            if old.get(member) != new.get(member):
                raise ValueError(f"the rule changed {parent}/{member}, which no webhook may change")


def _lacks_all(after: JSON, before: JSON) -> bool:
    """Return whether a rule has put other metadata in place of those of the apiserver, and did not just remove one."""
    metadata, former = as_object(as_object(after).get("metadata")), as_object(as_object(before).get("metadata"))
    given = former.keys() & _OF_APISERVER
    # A new object may have no more than managedFields.
    return metadata.keys().isdisjoint(given) and (len(given) > 1 or given == {"managedFields"})


def _keep_members(after: JSON, before: JSON, status: bool) -> JSON:  # noqa: FBT001 - the name says it
    """Return another object of a rule with the members of the apiserver that it lacks."""
    given = as_object(before)
    kept = {"status": given["status"]} if status and "status" in given else {}
    made = {**kept, **as_object(after)}
    metadata, former = made.get("metadata"), as_object(given.get("metadata"))
    if isinstance(metadata, dict):
        made["metadata"] = {**{name: former[name] for name in _OF_APISERVER if name in former}, **metadata}
    return made


def _check_unchanged(member: str, before: Mapping[str, JSON], after: Mapping[str, JSON], remedy: str) -> None:
    """Raise ValueError if a member differs whose changes kube-apiserver ignores in this request."""
    if before.get(member) != after.get(member):
        raise ValueError(f"the rule changed /{member}, which kube-apiserver ignores in this request: {remedy}")


Function = Callable[..., Any]
Decided = tuple[Response, Invocation | None]
"""An answer, and the call of the function for it."""

NO_SETTINGS: Final[Mapping[str, Any]] = {}


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

    async def ask(self, request: AdmissionRequest, lookup: Lookup, settings: Mapping[str, Any]) -> Decided:
        """Call the rule: no result admits, `Denied` refuses, and a failure is answered under the failure policy."""
        template = find_template(self.declaration, request)
        shown = show_template(request, template) if template else request
        if shown is None:
            return allowed(), None
        invocation = None
        try:
            if self.expression is not None:
                answer = self._evaluate(shown, self.expression)
            else:
                invocation = Invocation(self.signature, shown, lookup=lookup, followed=self.followed, settings=settings)
                result = self.function(**invocation.arguments)
                if self.is_async and inspect.isawaitable(result):
                    result = await result
                answer = invocation.respond(result, mutates=self.declaration.mutates)
        except BaseException as error:  # noqa: BLE001 - a rule may fail in any way
            answer = self._respond_to_error(error, invocation)
        if answer.allowed or answer.reason not in REFUSALS:
            return answer, invocation
        return place_refusal(answer, template) if template else answer, invocation

    def is_judged(self, request: AdmissionRequest, decided: Decided) -> bool:
        """Return whether `judge` decides about an answer: a refusal of an update, by a rule that sees only objects."""
        answer, invocation = decided
        is_refused_update = request.operation == "UPDATE" and not answer.allowed and answer.reason in REFUSALS
        return is_refused_update and not (self._decides_itself or (invocation and invocation.reads_more))

    async def judge(
        self,
        request: AdmissionRequest,
        refusal: Response,
        lookup: Lookup,
        settings: Mapping[str, Any],
        is_over: Callable[[], bool] = lambda: False,
    ) -> Response:
        """Return the answer to an update that the rule refuses, for which it is asked about the stored object, too.

        Args:
            request: The update.
            refusal: The answer of the rule.
            lookup: Finds other objects.
            settings: The settings of rules.
            is_over: Returns whether the caller has stopped waiting, so that no further question is asked.
        """

        async def ask(created: AdmissionRequest) -> Response:
            if is_over():
                raise asyncio.CancelledError
            return (await self.ask(created, lookup, settings))[0]

        return await judge_update(self.declaration, request, refusal, ask)

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


def run_now(ask: Callable[..., Coroutine[Any, Any, T]], *arguments: Any) -> T:
    """Return the result of `ServedRule.ask` or `judge` of a plain function, which wait for nothing."""
    try:
        ask(*arguments).send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    raise AssertionError("only a coroutine waits")
