"""The webhook layer: calls the webhooks of configurations and validates their responses.

The messages are those of karmada v1.16 pkg/resourceinterpreter/customized/webhook.
"""

import time
import uuid
from functools import partial
from typing import Final, NamedTuple

import msgspec

from fleethook.cluster.store import ObjectKey, Store, Stored
from fleethook.engines.interpret.interpreter_chain import Handler, IgnoredError, Observe, ignore_call
from fleethook.engines.interpret.webhooks.interpreter_webhooks_and_registration import (
    CONFIGURATIONS,
    DEFINITIONS_BY_KIND,
    InterpreterWebhook,
    find_target,
    is_own,
    matches,
    parse_webhooks,
)
from fleethook.interpret.interpreter import Answer, InterpretError, Question
from fleethook.model.formats.text import decode_bytes
from fleethook.model.gvk import GroupKind
from fleethook.model.json import JSON, JSONObject, as_object, count_values
from fleethook.model.karmada import (
    API_VERSION,
    EXPLORE_REVIEW,
    INTERPRETER_CONTEXT,
    PATCHING,
    VERSION,
    Operation,
    proposed_name,
)
from fleethook.outbound.call_errors_and_failure_log import CallError
from fleethook.outbound.calls_and_retries import HookClient
from fleethook.patch import PatchError, apply
from fleethook.patch.pointer_and_limits import LIMITS
from fleethook.recordings.recording_format import CallName
from fleethook.recordings.replay.review_replay import UNRECORDED, find_current, read_answer
from fleethook.server.reviews.records_and_traces import AskedCall
from fleethook.tracing.spans_and_otel_variables import child_span
from fleethook.work.threads_and_gc import Worker

# The largest answers (bytes) and objects (values) that the event loop handles. A thread handles larger ones, because
# applying a patch may take long.
_SHORT_ANSWER: Final = 16 * 1024
_SMALL_OBJECT: Final = 10_000


class _Response(NamedTuple):
    """The response of a webhook, independent of the kind of its review."""

    uid: str
    successful: bool
    reason: JSON
    members: JSONObject


class WebhookLayer:
    """Hooks of the configurations in the store: the first by name that has a matching rule."""

    name = "webhook"

    def __init__(self, store: Store, client: HookClient, *, observe: Observe = ignore_call) -> None:
        """Prepare.

        Args:
            store: Configurations and CustomResourceDefinitions; indexed by `DEFINITIONS_BY_KIND`.
            client: Calls the webhooks.
            observe: Called after each call.
        """
        self._store: Final = store
        self._client: Final = client
        self._observe: Final = observe
        self._webhooks: list[InterpreterWebhook] | None = None
        self._worker: Final = Worker()
        store.subscribe(self._drop_webhooks)

    def _drop_webhooks(self, key: ObjectKey, _before: Stored | None, _after: JSONObject | None) -> None:
        if key.group_kind in CONFIGURATIONS:
            self._webhooks = None

    def list_webhooks(self) -> list[InterpreterWebhook]:
        """Return the webhooks by name, without those of this server."""
        if self._webhooks is None:
            webhooks = [
                webhook
                for group_kind in CONFIGURATIONS
                for configuration in self._store.each("", group_kind)
                for webhook in parse_webhooks(group_kind, configuration)
                # Otherwise this server would call itself.
                if not is_own(webhook)
            ]
            self._webhooks = sorted(webhooks, key=lambda webhook: webhook.uid)
        return self._webhooks

    def _find_definition(self, group_kind: GroupKind) -> JSONObject | None:
        found = self._store.find(DEFINITIONS_BY_KIND, "", tuple(group_kind))
        return found[0] if found else None

    def answers(self) -> tuple[()]:
        """Return nothing, because Karmada calls these webhooks itself."""
        return ()

    def find(self, question: Question) -> Handler | None:
        """Return the first webhook by name with a matching rule, None if there is none."""
        webhooks = self.list_webhooks()
        if not webhooks:
            return None
        target = find_target(question.kind, question.object, self._find_definition)
        for webhook in webhooks:
            if matches(webhook, question.operation, target):
                ask, describe = partial(self._ask, webhook), partial(_describe_webhook, webhook)
                return Handler(webhook.uid, ask, describe=describe, place=webhook.uid)
        return None

    async def _ask(self, webhook: InterpreterWebhook, question: Question) -> Answer:
        started = time.perf_counter()
        outcome = "failed"
        try:
            with child_span("call webhook", "client", {"fleethook.webhook": webhook.uid}):
                answer = await self._call(webhook, question)
            outcome = "answered"
        except (CallError, InterpretError) as error:
            text = f'failed calling webhook "{webhook.uid}": {error}'
            if webhook.ignore_failures:
                outcome = "ignored"
                raise IgnoredError(text) from error
            raise InterpretError(text, code=500) from error
        finally:
            self._observe(webhook.uid, outcome, time.perf_counter() - started)
        return answer

    async def _call(self, webhook: InterpreterWebhook, question: Question) -> Answer:
        kind = EXPLORE_REVIEW if webhook.proposed else INTERPRETER_CONTEXT
        if VERSION not in webhook.versions:
            raise InterpretError(
                f"could not create {kind} objects: webhook does not accept known {kind} versions ({VERSION})"
            )
        uid = str(uuid.uuid4())
        body = msgspec.json.encode(build_review(question, uid=uid, proposed=webhook.proposed))
        text = await self._client.post(webhook.endpoint, body, seconds=webhook.timeout)
        answered = partial(read_response, text, question, uid=uid, proposed=webhook.proposed)
        try:
            if len(text) <= _SHORT_ANSWER and count_values(question.object, limit=_SMALL_OBJECT) <= _SMALL_OBJECT:
                return answered()
            return await self._worker.run(webhook.uid, answered)
        except InterpretError as error:
            raise InterpretError(f"received invalid webhook response: {error}", code=error.code) from error


def _describe_webhook(webhook: InterpreterWebhook) -> AskedCall:
    configuration, _, name = webhook.uid.partition("/")
    return AskedCall("webhook", name, "", configuration)


def build_review(question: Question, *, uid: str, proposed: bool) -> JSONObject:
    """Return the review for a webhook, in the kind that it accepts."""
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
    """Return the answer in the response of a webhook.

    Raises:
        InterpretError: The response does not answer the question. Rules and messages are Karmada's.
    """
    response = _decode_response(text, proposed=proposed)
    if response.uid != uid:
        raise InterpretError(f'expected response.uid "{uid}", got "{response.uid}"')
    if not response.successful:
        reason = as_object(response.reason)
        if not reason:
            raise InterpretError("webhook require response.status when response.successful is false")
        code, message = reason.get("code") or 0, reason.get("message") or ""
        raise InterpretError(f"webhook call failed, get status code: {code}, msg: {message}")
    return _make_answer(question, response.members, proposed=proposed)


_REQUIRED: Final = {Operation.REPLICA: "replicas", Operation.HEALTH: "healthy"}


def _make_answer(question: Question, members: JSONObject, *, proposed: bool) -> Answer:
    operation = question.operation
    if operation in PATCHING:
        return Answer(object=_apply_patch(question.object, members))
    status = "status" if proposed else "rawStatus"
    required = status if operation is Operation.STATUS else _REQUIRED.get(operation)
    if required is not None and members.get(required) is None:
        # "nill" is Karmada's spelling. Users may search for it.
        raise InterpretError(f"webhook returned {'nill' if required == status else 'nil'} response.{required}")
    return Answer(
        replicas=members.get("replicas"),
        requirements=members.get("replicaRequirements"),
        healthy=members.get("healthy"),
        status=members.get(status),
        components=members.get("components"),
        dependencies=members.get("dependencies"),
    )


def _decode_response(text: bytes, *, proposed: bool) -> _Response:
    try:
        review: JSON = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InterpretError(f"the body is not JSON: {str(error) or type(error).__name__}") from None
    members = review.get("response") if isinstance(review, dict) else None
    if not isinstance(members, dict):
        raise InterpretError("webhook response was absent")
    uid = members.get("uid")
    # ExploreReview has no member for a failure. fleethook adds `successful`, `code` and `message`.
    successful = members.get("successful", proposed) is True
    reason = {"code": members.get("code"), "message": members.get("message")} if proposed else members.get("status")
    return _Response(uid if isinstance(uid, str) else "", successful, reason, members)


def _apply_patch(document: JSONObject, members: JSONObject) -> JSONObject:
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
        decoded = decode_bytes(patch)
        LIMITS.check_size(len(decoded))
        operations = msgspec.json.decode(decoded)
        patched: JSONObject = apply(document, operations, dialect="kubernetes", limits=LIMITS)
    except (msgspec.DecodeError, TypeError, ValueError) as error:
        if isinstance(error, PatchError):
            raise InterpretError(f"the patch does not apply: {error}") from None
        raise InterpretError(f"response.patch is not a base64-encoded JSON Patch: {error}") from None
    return patched


class RecordedWebhookLayer(WebhookLayer):
    """Finds the webhooks of interpreters as a server does, and answers as they did."""

    async def _ask(self, webhook: InterpreterWebhook, question: Question) -> Answer:
        configuration, _, name = webhook.uid.partition("/")
        calls, key = find_current(), f"{question.operation.value}/{webhook.uid}"
        call = calls.take("webhook", name, key, cluster="", configuration=configuration)
        if call is None:
            raise InterpretError(UNRECORDED, code=500)
        if call.error:
            failure = call.failure or {}
            if failure.get("ignored") is True:
                raise IgnoredError(call.error)
            code = failure.get("code")
            raise InterpretError(call.error, code=code if isinstance(code, int) else 500)
        try:
            return Answer(**as_object(read_answer(call)))
        except (TypeError, ValueError) as error:
            calls.note_missing(CallName("webhook", configuration, name), f"the recorded answer is unreadable: {error}")
            raise InterpretError(UNRECORDED, code=500) from error
