"""Rules: decorated functions that decide about reviews, and their tests from Python."""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import copy_context
from queue import Empty, SimpleQueue
from reprlib import repr as shortened_repr
from typing import Any, Final, NamedTuple, get_args

import msgspec

from fleethook.admission.attribute_access_and_json import to_plain
from fleethook.admission.invalid_changes_in_tests import TOLERATED, list_added_faults
from fleethook.admission.mismatch_and_pod_templates import find_mismatch, list_targets
from fleethook.admission.parameters_and_typed_objects import PLAIN
from fleethook.admission.rule_call import NO_SETTINGS, Decided, Invocation, ServedRule, run_now
from fleethook.admission.rule_scope_and_options import Declaration
from fleethook.admission.store_parameter import FIND_NOTHING, Lookup, find_among
from fleethook.api_schema import NO_DEFINITIONS, Definitions, read_definitions
from fleethook.cel.program import EvaluationError
from fleethook.model.admission import AdmissionRequest, Kind, Operation, Resource, Response, StatusCause, allowed
from fleethook.model.gvk import guess_resource, gvk_of
from fleethook.model.json import JSONObject, as_object
from fleethook.model.rule_matching import EVERY
from fleethook.patch import apply
from fleethook.patch.diff import identical
from fleethook.workload_schema.admission_objects import decode, show_request
from fleethook.workload_schema.custom_resource_schema import CustomVersion, find_kind_version


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
        mistakes: Mistakes of the rule, with file and line: a result that breaks the schema of the kind, a change of a
            validating rule, and a mutating rule that changes its own result when it is asked again.
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
    mistakes: tuple[str, ...] = ()


class Surroundings(NamedTuple):
    """The facts besides a request on which an answer depends.

    Attributes:
        namespace_labels: The labels of the namespace.
        version: The version of a custom resource, None for a built-in kind and for one without definition.
        definitions: The schemas of custom resources.
        lookup: Finds other objects.
        settings: The settings of rules.
    """

    namespace_labels: Mapping[str, str] = {}
    version: CustomVersion | None = None
    definitions: Definitions = NO_DEFINITIONS
    lookup: Lookup = FIND_NOTHING
    settings: Mapping[str, Any] = NO_SETTINGS


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
        settings: Mapping[str, Any] = NO_SETTINGS,
    ) -> Review:
        """Return the answer of the rule without a server, for tests.

        The rule gets the object as kube-apiserver shows it to webhooks: with the defaults of built-in kinds and of
        CustomResourceDefinitions in ``store``, and as a validating rule with a name in place of ``generateName``.
        A mutating rule is asked again about its own result, as kube-apiserver does after a change of a later webhook.
        kube-apiserver refuses an object that the rule has made invalid with code 422, and so does this method.

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
        around = find_surroundings(document or old or {}, store, namespace_labels=namespace_labels, settings=settings)
        request = build_request(
            document,
            old,
            rules=[self],
            operation=operation,
            resource=resource,
            subresource=subresource,
            user=user,
            dry_run=dry_run,
            name=name,
        )
        return next(ask_in_order([self], request, around))[2]


def _start_caller() -> SimpleQueue[Callable[[], None]]:
    """Return the queue of a new thread for calls of rules. Nothing can end a call that hangs, but the process can."""
    calls = SimpleQueue[Callable[[], None]]()

    def run() -> None:
        while True:
            calls.get()()

    threading.Thread(target=run, name="rule", daemon=True).start()
    return calls


_idle: Final[list[SimpleQueue[Callable[[], None]]]] = []


def ask_in_order(
    rules: Sequence[Rule], request: AdmissionRequest, around: Surroundings, *, has_defaults: bool = False
) -> Iterator[tuple[Rule, AdmissionRequest, Review]]:
    """Yield rules with the requests that kube-apiserver shows to them, and their answers.

    Mutating rules are first, and each rule gets the object with the changes before it.

    Args:
        rules: The rules.
        request: The request, with the object as a client sends it.
        around: The facts besides the request.
        has_defaults: Whether kube-apiserver has stored the object, and so has set the defaults already.
    """
    mutating, validating = ([one for one in rules if one.declaration.mutates is mutates] for mutates in (True, False))
    shown: AdmissionRequest | None = None
    for rule in mutating:
        shown = shown or (request if has_defaults else show_request(request, around.version, validating=False))
        (review,), before = _ask([rule], shown, around), shown
        if review.patch:
            # After a change, kube-apiserver only sets defaults again.
            request = shown = shown.with_objects(decode(review.object, around.version), shown.old_object)
            if not review.mistakes:
                repetitions = tuple(f"{rule.place}: {one}" for one in _list_repetitions(rule, shown, around))
                review = review._replace(mistakes=repetitions)
        yield rule, before, review
    if validating:
        shown = request if has_defaults else show_request(request, around.version, validating=True)
        for rule, review in zip(validating, _ask(validating, shown, around), strict=True):
            yield rule, shown, review


def _ask(rules: Sequence[Rule], request: AdmissionRequest, around: Surroundings) -> list[Review]:
    """Return the answers of the rules to which kube-apiserver sends a request, with their mistakes, and of others."""
    reviews = [_find_unasked(rule, request, around) for rule in rules]
    asked = [rule for rule, review in zip(rules, reviews, strict=True) if review is None]
    decided = iter(_decide_in_time(asked, request, around))
    return [
        review or _check(rule, *next(decided), request, around) for rule, review in zip(rules, reviews, strict=True)
    ]


def _find_unasked(rule: Rule, request: AdmissionRequest, around: Surroundings) -> Review | None:
    """Return the answer without a question to the rule, None if kube-apiserver sends it the request."""
    try:
        mismatch = find_mismatch(rule.declaration, request, around.namespace_labels)
    except EvaluationError as error:
        return _make_review(rule.fail(f"{rule.place}: match_conditions: {error}"), request.object)
    return _make_review(allowed(), request.object, reason=mismatch) if mismatch else None


def _decide_in_time(rules: Sequence[Rule], request: AdmissionRequest, around: Surroundings) -> list[Decided]:
    """Return the answers with the calls of the functions; that of a failed rule after the time limit, as a server.

    A thread asks all rules, one after the other, because a change of threads takes longer than a usual rule.
    """
    if not rules:
        return []
    results, context, refusals = SimpleQueue[Decided](), copy_context(), dict[Rule, Decided]()

    async def decide(rule: Rule) -> Decided:
        decided = await rule.ask(request, around.lookup, around.settings)
        if not rule.is_judged(request, decided):
            return decided
        refusals[rule] = decided
        return await rule.judge(request, decided[0], around.lookup, around.settings), decided[1]

    def run_all() -> None:
        for rule in rules:
            run = (lambda ask, one: asyncio.run(ask(one))) if rule.is_async else run_now
            results.put(context.copy().run(run, decide, rule))

    caller = _idle.pop() if _idle else _start_caller()
    caller.put(run_all)
    found = list[Decided]()
    for number, rule in enumerate(rules, 1):
        try:
            found.append(results.get(timeout=rule.declaration.timeout))
        except Empty:
            failed = rule.fail(f"{rule.place}: no answer after {rule.declaration.timeout} s"), None
            return [*found, refusals.get(rule, failed), *_decide_in_time(rules[number:], request, around)]
    _idle.append(caller)
    return found


def _check(
    rule: Rule, answer: Response, invocation: Invocation | None, request: AdmissionRequest, around: Surroundings
) -> Review:
    """Return an answer with the mistakes of its rule."""
    mistakes = list[str]()
    changed = apply(request.object, answer.patch) if answer.patch else request.object
    is_checked = answer.patch and not request.sub_resource
    if is_checked and (faults := list_added_faults(request, changed, around.definitions)):
        mistakes.append(f"its changes are invalid: {'; '.join(faults)}")
        answer = _refuse_faults(rule, answer, faults)
        changed = changed if answer.allowed else request.object
    elif invocation is not None and not rule.declaration.mutates and _has_changed_object(invocation):
        mistakes.append("it changes its object, and @validate drops the changes: use @mutate, or read with .get()")
    return _make_review(answer, changed, mistakes=tuple(f"{rule.place}: {mistake}" for mistake in mistakes))


def _has_changed_object(call: Invocation) -> bool:
    """Return whether a rule has changed its object."""
    codec, value = call.signature.codec, call.arguments.get(call.signature.object_name)
    try:
        if call.document is not None and to_plain(call.document, call.before) is not call.before:
            return True
        if codec is PLAIN or not value:
            return False
        text = bytes(call.review.old_object_raw if call.review.operation == "DELETE" else call.review.object_raw)
        return not identical(codec.encode(value), codec.encode(codec.decode(text)))
    except (TypeError, ValueError):
        return True


def _refuse_faults(rule: Rule, answer: Response, faults: Sequence[str]) -> Response:
    """Return the answer of kube-apiserver to a result with faults: it tolerates some."""
    refused = [fault for fault in faults if not any(text in fault for text in TOLERATED)]
    if not refused:
        return answer
    text = f"{rule.place}: its changes are invalid: {'; '.join(refused)}"
    return Response(allowed=False, code=422, reason="Invalid", message=text, warnings=(*answer.warnings, text))


def _list_repetitions(rule: Rule, repeated: AdmissionRequest, around: Surroundings) -> Iterator[str]:
    """Yield the mistake of a rule that does not leave its own result as it is."""
    with contextlib.suppress(EvaluationError):
        if find_mismatch(msgspec.structs.replace(rule.declaration, namespace_selector={}), repeated, {}):
            return
    if rule.declaration.side_effects != "None":  # The first call has had the effect.
        repeated = msgspec.structs.replace(repeated, dry_run=True)
    again = _decide_in_time([rule], repeated, around)[0][0]
    asked = "asked again about its own result, as kube-apiserver does if a later webhook changes the object,"
    # A member that only has its default comes back after each removal, which is harmless.
    if again.patch and decode(apply(repeated.object, again.patch), around.version) != repeated.object:
        paths = ", ".join(str(one["path"]) for one in again.patch)
        yield f"{asked} it changes {paths}: change only what is missing"
    for text in (again.message, *again.warnings):
        if text and (not again.allowed or text.startswith(rule.failure)):
            yield f"{asked} it answers: {text}"


def find_surroundings(
    document: Mapping[str, Any],
    store: Iterable[JSONObject],
    *,
    namespace_labels: Mapping[str, str] | None = None,
    settings: Mapping[str, Any] = NO_SETTINGS,
) -> Surroundings:
    """Return the facts about an object that other objects tell."""
    objects = list(store)
    lookup = find_among(objects)
    version = find_kind_version(objects, document)
    return Surroundings(namespace_labels or {}, version, read_definitions(objects), lookup, settings)


def build_request(  # noqa: PLR0913 - as `Rule.review`
    document: Mapping[str, Any] | None,
    old: Mapping[str, Any] | None = None,
    *,
    rules: Iterable[Rule] = (),
    operation: Operation,
    resource: str = "",
    subresource: str = "",
    user: Mapping[str, Any] | None = None,
    dry_run: bool = False,
    name: str | None = None,
) -> AdmissionRequest:
    """Return the request of a review, as a client makes it; raises ValueError for one that kube-apiserver never sends.

    Args as those of `Rule.review`; ``rules`` may know the plural of the kind.
    """
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
    stored = given if operation == "DELETE" or (operation == "UPDATE" and old is None) else old
    return AdmissionRequest(
        uid="test",
        operation=operation,
        kind=Kind(group, version, kind),
        resource=find_resource(shown, rules, resource, subresource),
        sub_resource=subresource,
        name=(metadata.get("name") or "") if name is None else name,
        namespace=metadata.get("name" if is_namespace else "namespace") or "",
        user_info=_encode(user or {}),
        object_raw=_encode(None if operation == "DELETE" else document),
        old_object_raw=_encode(stored),
        dry_run=dry_run,
    )


def find_resource(document: JSONObject, rules: Iterable[Rule], resource: str = "", subresource: str = "") -> Resource:
    """Return the resource of an object: that of a rule about its kind, or a guess."""
    group, version, kind = gvk_of(document)
    if resource and not subresource:
        return Resource(group, version, resource)
    targets = [target for rule in rules for target in list_targets(rule.declaration)]
    for target in sorted(targets, key=lambda one: (one.resource != resource, subresource not in one.subresources)):
        if plural := _choose_resource(target, document, subresource):
            # The kind of a subresource may have another group, as Scale and Eviction have.
            if subresource and EVERY not in (target.group, target.version):
                group, version = target.group, target.version
            return Resource(group, version, resource or plural)
    return Resource(group, version, resource or guess_resource(kind))


def _choose_resource(declaration: Declaration, document: Mapping[str, Any], subresource: str) -> str:
    """Return the resource of a rule if a request about an object has it, ``""`` if only the kind tells the resource."""
    kind = str(document.get("kind", "")).lower()
    # Without the last letter, a kind begins its plural, which has at most two letters more.
    is_similar = declaration.resource.startswith(kind[:-1]) and len(declaration.resource) <= len(kind) + 2
    is_own = kind == declaration.kind.lower() if declaration.kind else is_similar
    return declaration.resource if declaration.resource != "*" and (subresource or is_own) else ""


def _check_metadata(metadata: Any) -> Mapping[str, Any]:
    """Return the metadata; raises ValueError for those that kube-apiserver never sends."""
    given = as_object(metadata)
    members = {name: given.get(name) for name in ("name", "generateName", "namespace")}
    for each in ("labels", "annotations"):
        members.update({f"{each}/{name}": text for name, text in as_object(given.get(each)).items()})
    wrong = next((name for name, text in members.items() if not isinstance(text, str | None)), None)
    if wrong is not None:
        raise ValueError(f"/metadata/{wrong} is {members[wrong]!r}: give a text, in YAML with quotes")
    return given


def _encode(value: Any) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(value))


def _make_review(response: Response, changed: Any, *, reason: str = "", mistakes: tuple[str, ...] = ()) -> Review:
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
        mistakes=mistakes,
    )
