"""The webhook layer: asking somebody's hook, in its shape, and believing it only so far (research 2.1 to 2.4)."""

import base64
import binascii
import time
import uuid
from functools import partial
from typing import Final, NamedTuple

import msgspec

from app.control.worker import Worker
from app.interpret.access import InterpretError
from app.interpret.chain import Handler, IgnoredError, Observe
from app.interpret.hook_configuration import CONFIGURATIONS, Hook, find_target, is_own, matches, parse_hooks
from app.interpret.question import Answer, Question
from app.model.gvk import GroupKind, GroupVersionKind
from app.model.json import JSON, JSONObject, as_object
from app.model.karmada import (
    API_VERSION,
    EXPLORE_REVIEW,
    INTERPRETER_CONTEXT,
    PATCHING,
    VERSION,
    Operation,
    proposed_name,
)
from app.model.size import count_values
from app.outbound.client import CallError, HookClient
from app.patch import LIMITS, PatchError, apply
from app.store import Index, ObjectKey, Store, Stored

# Bytes of an answer, and values of the object that it is about, that are looked at on the event loop. An answer without
# a patch is decoded, which takes no longer than to decode the question.
_SHORT_ANSWER: Final = 16 * 1024
_SMALL_OBJECT: Final = 10_000
_DEFINITION: Final = GroupKind("apiextensions.k8s.io", "CustomResourceDefinition")


def _kinds_of(_cluster: str, definition: Stored) -> list[tuple[str, str]]:
    spec = as_object(definition.get("spec"))
    return [(str(spec.get("group") or ""), str(as_object(spec.get("names")).get("kind") or ""))]


DEFINITIONS_BY_KIND: Final = Index("definitions_by_kind", _DEFINITION, _kinds_of)


class _Response(NamedTuple):
    """What a hook says, whatever its shape."""

    uid: str
    successful: bool
    reason: JSON
    members: JSONObject


class WebhookLayer:
    """Hooks of the configurations in the store: the first by name that has a matching rule."""

    name = "webhook"

    def __init__(self, store: Store, client: HookClient, *, observe: Observe) -> None:
        """Prepare.

        Args:
            store: Configurations and CustomResourceDefinitions; indexed by `DEFINITIONS_BY_KIND`.
            client: What calls.
            observe: Told of each call.
        """
        self._store: Final = store
        self._client: Final = client
        self._observe: Final = observe
        self._hooks: list[Hook] | None = None
        self._worker: Final = Worker()
        store.subscribe(self._changed)

    def _changed(self, key: ObjectKey, _before: Stored | None, _after: JSONObject | None) -> None:
        if key.group_kind in CONFIGURATIONS:
            self._hooks = None

    def _all(self) -> list[Hook]:
        if self._hooks is None:
            found = [
                hook
                for group_kind in CONFIGURATIONS
                for configuration in self._store.each("", group_kind)
                for hook in parse_hooks(group_kind, configuration)
                # This server would ask itself.
                if not is_own(hook)
            ]
            self._hooks = sorted(found, key=lambda hook: hook.uid)
        return self._hooks

    def _definition(self, group_kind: GroupKind) -> JSONObject | None:
        found = self._store.find(DEFINITIONS_BY_KIND, "", tuple(group_kind))
        return found[0] if found else None

    def knows(self, kind: GroupVersionKind, operation: Operation) -> bool:
        """Return whether there are hooks at all."""
        del kind, operation
        return bool(self._all())

    def answers(self) -> tuple[()]:
        """Return nothing: Karmada asks hooks of other people itself."""
        return ()

    def find(self, question: Question) -> Handler | None:
        """Return the hook to ask, None if no rule matches."""
        hooks = self._all()
        if not hooks:
            return None
        target = find_target(question.kind, question.object, self._definition)
        for hook in hooks:
            if matches(hook, question.operation, target):
                return Handler(hook.uid, partial(self._ask, hook))
        return None

    async def _ask(self, hook: Hook, question: Question) -> Answer:
        started = time.perf_counter()
        outcome = "failed"
        try:
            answer = await self._call(hook, question)
            outcome = "answered"
        except (CallError, InterpretError) as error:
            text = f'failed calling webhook "{hook.uid}": {error}'
            if hook.ignore_failures:
                outcome = "ignored"
                raise IgnoredError(text) from error
            raise InterpretError(text, code=500) from error
        finally:
            self._observe(hook.uid, outcome, time.perf_counter() - started)
        return answer

    async def _call(self, hook: Hook, question: Question) -> Answer:
        kind = EXPLORE_REVIEW if hook.proposed else INTERPRETER_CONTEXT
        if VERSION not in hook.versions:
            raise InterpretError(
                f"could not create {kind} objects: webhook does not accept known {kind} versions ({VERSION})"
            )
        uid = str(uuid.uuid4())
        body = msgspec.json.encode(build_review(question, uid=uid, proposed=hook.proposed))
        text = await self._client.post(hook.endpoint, body, seconds=hook.timeout)
        answered = partial(read_response, text, question, uid=uid, proposed=hook.proposed)
        try:
            if len(text) <= _SHORT_ANSWER and count_values(question.object, limit=_SMALL_OBJECT) <= _SMALL_OBJECT:
                return answered()
            return await self._worker.run("", answered)
        except InterpretError as error:
            raise InterpretError(f"received invalid webhook response: {error}", code=error.code) from error


def build_review(question: Question, *, uid: str, proposed: bool) -> JSONObject:
    """Return the review that a hook is sent, in its shape."""
    document = question.object
    metadata = as_object(document.get("metadata"))
    request: JSONObject = {
        "uid": uid,
        "kind": question.kind._asdict(),
        "name": metadata.get("name") or "",
        "operation": proposed_name(question.operation) if proposed else question.operation.value,
        "object": document,
    }
    if metadata.get("namespace"):
        request["namespace"] = metadata["namespace"]
    if question.observed is not None:
        request["observedObject"] = question.observed
    if question.operation is Operation.REVISE_REPLICA or not proposed:
        request["replicas"] = question.replicas
    if question.operation is Operation.AGGREGATE_STATUS:
        request["aggregatedStatus"] = list(question.items or ())
    kind = EXPLORE_REVIEW if proposed else INTERPRETER_CONTEXT
    return {"apiVersion": API_VERSION, "kind": kind, "request": request}


def read_response(text: bytes, question: Question, *, uid: str, proposed: bool) -> Answer:
    """Return what a hook's answer says.

    Raises:
        InterpretError: It is no answer to the question, by the rules and in the words of upstream.
    """
    response = _response(text, proposed=proposed)
    if response.uid != uid:
        raise InterpretError(f'expected response.uid "{uid}", got "{response.uid}"')
    if not response.successful:
        reason = as_object(response.reason)
        if not reason:
            raise InterpretError("webhook require response.status when response.successful is false")
        code, message = reason.get("code") or 0, reason.get("message") or ""
        raise InterpretError(f"webhook call failed, get status code: {code}, msg: {message}")
    return _answer(question, response.members, proposed=proposed)


_REQUIRED: Final = {Operation.REPLICA: "replicas", Operation.HEALTH: "healthy"}


def _answer(question: Question, members: JSONObject, *, proposed: bool) -> Answer:
    operation = question.operation
    if operation in PATCHING:
        return Answer(object=_patched(question.object, members))
    status = "status" if proposed else "rawStatus"
    required = status if operation is Operation.STATUS else _REQUIRED.get(operation)
    if required is not None and members.get(required) is None:
        # Upstream's spelling: somebody may look for it.
        raise InterpretError(f"webhook returned {'nill' if required == status else 'nil'} response.{required}")
    return Answer(
        replicas=members.get("replicas"),
        requirements=members.get("replicaRequirements"),
        healthy=members.get("healthy"),
        status=members.get(status),
        components=members.get("components"),
        dependencies=members.get("dependencies"),
    )


def _response(text: bytes, *, proposed: bool) -> _Response:
    try:
        review: JSON = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InterpretError(f"the body is not JSON: {str(error) or type(error).__name__}") from None
    members = review.get("response") if isinstance(review, dict) else None
    if not isinstance(members, dict):
        raise InterpretError("webhook response was absent")
    uid = members.get("uid")
    # The proposal cannot say that a hook failed; ours says it by members of its own.
    successful = members.get("successful", proposed) is True
    reason = {"code": members.get("code"), "message": members.get("message")} if proposed else members.get("status")
    return _Response(uid if isinstance(uid, str) else "", successful, reason, members)


def _patched(document: JSONObject, members: JSONObject) -> JSONObject:
    patch, patch_type = members.get("patch"), members.get("patchType")
    if patch is None and patch_type is None:
        return document
    if patch_type is None:
        raise InterpretError("webhook returned nil response.patchType")
    if not patch:
        raise InterpretError("webhook returned empty response.patch")
    if patch_type != "JSONPatch":
        raise InterpretError(f'webhook returned invalid response.patchType of "{patch_type}"')
    try:
        decoded = base64.b64decode(patch, validate=True)
        LIMITS.check_size(len(decoded))
        operations = msgspec.json.decode(decoded)
        patched: JSONObject = apply(document, operations, dialect="kubernetes", limits=LIMITS)
    except (binascii.Error, msgspec.DecodeError, TypeError, ValueError) as error:
        if isinstance(error, PatchError):
            raise InterpretError(f"the patch does not apply: {error}") from None
        raise InterpretError(f"response.patch is not a base64-encoded JSON Patch: {error}") from None
    return patched
