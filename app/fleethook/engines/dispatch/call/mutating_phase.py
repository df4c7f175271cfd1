"""Runs the mutating phase: webhooks are called one after the other, each with the patches of the previous ones.

Upstream: k8s.io/apiserver pkg/admission/plugin/webhook/mutating/dispatcher.go.
"""

from collections.abc import Sequence
from typing import Final

from fleethook.engines.dispatch.call.admission_review import ReviewError, WebhookResponse
from fleethook.engines.dispatch.call.patching import PatchedObject, check_patched
from fleethook.engines.dispatch.dispatch_errors import CallingError, StatusError, internal, timed_out
from fleethook.engines.dispatch.hooks.hook_index import RelevantHook
from fleethook.engines.dispatch.hooks.hooks import Hook
from fleethook.engines.dispatch.match.attributes import Attributes
from fleethook.engines.dispatch.match.should_call import MATCHED_PER_TURN, CallDecider, RequestContext, VersionedRequest
from fleethook.engines.dispatch.request_limits import too_many_webhooks
from fleethook.model.gvk import GroupVersionKind
from fleethook.model.json import JSON
from fleethook.patch import PatchError


class MutatingPhase:
    """The mutating phase of one request.

    kube-apiserver calls round 0, then round 1 if reinvocation is needed. Its built-in plugins run in between.

    Attributes:
        attributes: The request with the current object.
        needs_reinvocation: Whether a webhook changed the object, so that earlier webhooks are called again.
    """

    def __init__(
        self, relevant: Sequence[RelevantHook], attributes: Attributes, context: RequestContext, *, share: bool = False
    ) -> None:
        """Initialize the phase.

        Args:
            relevant: The webhooks whose rules match the request, in order.
            attributes: The request.
            context: The context of the request.
            share: Limit a webhook with failurePolicy Ignore to its share of the remaining time.
        """
        self._relevant: Final = tuple(relevant)
        self._context: Final = context
        self._decider: Final = CallDecider(context)
        self._share: Final = share
        self._invoked: set[str] = set()
        self._to_reinvoke: set[str] = set()
        self._last_output: JSON = attributes.object
        self._calls = 0
        self.attributes = attributes
        self.needs_reinvocation = False

    async def run_round(self, number: int) -> None:
        """Call the webhooks; in round 1, those that need reinvocation.

        Raises:
            StatusError: The request is refused.
        """
        if number and await self._context.patching.differ(self.attributes.object, self._last_output):
            self._require_reinvocation()
        try:
            for position, relevant in enumerate(self._relevant):
                if position % MATCHED_PER_TURN == MATCHED_PER_TURN - 1:
                    await self._context.turns.pause(self.attributes.cluster)
                if not await self._decider.should_call(relevant, self.attributes):
                    continue
                if number == 0 or relevant.hook.uid in self._to_reinvoke:
                    versioned = await self._decider.build_versioned(relevant, self.attributes)
                    await self._call(versioned, number, left=len(self._relevant) - position)
        finally:
            self._last_output = self.attributes.object

    def _require_reinvocation(self) -> None:
        self._to_reinvoke |= self._invoked

    async def _call(self, versioned: VersionedRequest, number: int, *, left: int) -> None:
        hook = versioned.relevant.hook
        self._calls += 1
        if self._calls > self._context.max_calls:
            raise too_many_webhooks(self.attributes, self._context.max_calls)
        try:
            changed = await self._call_and_patch(versioned, number, left=left)
        except CallingError as error:
            self._context.audit.record_call(hook, round_number=number, mutated=False)
            self._record_invocation(hook)
            if not hook.fails_open:
                raise internal(str(error)) from error
            self._context.audit.record_fail_open(hook, round_number=number, index=hook.position)
            if self._context.deadline.remaining <= 0 or (error.cut_short and not self._share):
                raise timed_out() from error
            return
        except StatusError:
            self._context.audit.record_call(hook, round_number=number, mutated=False)
            raise
        if changed:
            self._require_reinvocation()
            self.needs_reinvocation = True
        self._record_invocation(hook)

    def _record_invocation(self, hook: Hook) -> None:
        if hook.reinvoke_if_needed:
            self._invoked.add(hook.uid)

    def _limit_seconds(self, hook: Hook, left: int) -> float:
        remaining = self._context.deadline.remaining
        return remaining / left if self._share and hook.fails_open else remaining

    async def _call_and_patch(self, versioned: VersionedRequest, number: int, *, left: int) -> bool:
        """Call a webhook and apply its patch; return whether the patch changed the object."""
        relevant, kind, attributes = versioned
        hook, context = relevant.hook, self._context
        seconds = self._limit_seconds(hook, left)
        answer = await context.call_webhook(relevant, attributes, kind=kind, seconds=seconds)
        context.audit.record_annotations(hook, answer.audit_annotations)
        context.warnings.extend(answer.warnings)
        if not answer.allowed:
            raise answer.denial(hook.name)
        made, operations, changed, _ = await self._patch(hook, attributes.object, answer, kind=kind)
        if not operations:
            context.audit.record_call(hook, round_number=number, mutated=False)
            return False
        if kind != self.attributes.kind:
            # The client and the next webhook get the object in the version of the request.
            made = await context.convert(made, self.attributes.kind)
            changed = await context.patching.differ(made, self.attributes.object)
        if changed:
            self.attributes = self.attributes._replace(object=made)
        context.audit.record_call(hook, round_number=number, mutated=changed)
        if self.attributes.resource_name != "secrets":
            # An apiserver records patches from the audit level Request on. The level is unknown here, and the content
            # of a Secret must not reach a log.
            context.audit.record_patch(hook, operations, size=len(answer.patch), round_number=number)
        return changed

    async def _patch(
        self, hook: Hook, document: JSON, answer: WebhookResponse, *, kind: GroupVersionKind
    ) -> PatchedObject:
        try:
            patched = await self._context.patching.patch(document, answer)
        except ReviewError as error:
            raise CallingError(hook.name, str(error)) from None
        except PatchError as error:
            raise internal(f'the patch of admission webhook "{hook.name}" does not apply: {error}') from None
        check_patched(hook.name, patched, self.attributes.resource, kind)
        return patched
