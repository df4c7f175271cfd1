"""The mutating phase: one webhook after the other, each seeing what those before it made (research 2.9)."""

from collections.abc import Sequence
from typing import Final

from app.dispatch.admission_review import ReviewError, WebhookResponse
from app.dispatch.attributes import Attributes
from app.dispatch.errors import CallingError, StatusError, internal, timed_out
from app.dispatch.hook_index import RelevantHook
from app.dispatch.hooks import Hook
from app.dispatch.limits import too_many_webhooks
from app.dispatch.patching import PatchedObject
from app.dispatch.should_call import MATCHED_PER_TURN, CallDecider, RequestContext, VersionedRequest
from app.model.json import JSON
from app.patch import PatchError


class MutatingPhase:
    """One request on its way through mutating webhooks.

    An apiserver runs `round` 0, and once more as 1 if `again` says so; what else changes the object there - its own
    plugins - does so in between.

    Attributes:
        attributes: The request, its object as it is by now.
        again: Whether a webhook changed the object, so that those before it are to see it once more.
    """

    def __init__(
        self, relevant: Sequence[RelevantHook], attributes: Attributes, context: RequestContext, *, share: bool = False
    ) -> None:
        """Prepare.

        Args:
            relevant: The webhooks whose rules are about the request, in order.
            attributes: The request.
            context: What this needs of the world.
            share: Whether a webhook whose failure is ignored may take only its share of the time that is left.
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
        """Ask the webhooks; in round 1 those that are to be asked again.

        Raises:
            StatusError: The request is refused.
        """
        if number and await self._context.patching.differ(self.attributes.object, self._last_output):
            self._require_reinvoking()
        try:
            for position, relevant in enumerate(self._relevant):
                if position % MATCHED_PER_TURN == MATCHED_PER_TURN - 1:
                    await self._context.turns.pause(self.attributes.cluster)
                if not await self._decider.should_call(relevant, self.attributes):
                    continue
                if number == 0 or relevant.hook.uid in self._to_reinvoke:
                    versioned = await self._decider.versioned(relevant, self.attributes)
                    await self._ask(versioned, number, left=len(self._relevant) - position)
        finally:
            self._last_output = self.attributes.object

    def _require_reinvoking(self) -> None:
        self._to_reinvoke |= self._invoked

    async def _ask(self, versioned: VersionedRequest, number: int, *, left: int) -> None:
        hook = versioned.relevant.hook
        self._calls += 1
        if self._calls > self._context.max_calls:
            raise too_many_webhooks(self.attributes, self._context.max_calls)
        try:
            changed = await self._change(versioned, number, left=left)
        except CallingError as error:
            self._context.audit.record_call(hook, round_number=number, mutated=False)
            self._note(hook)
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
            self._require_reinvoking()
            self.needs_reinvocation = True
        self._note(hook)

    def _note(self, hook: Hook) -> None:
        if hook.reinvoked:
            self._invoked.add(hook.uid)

    def _seconds(self, hook: Hook, left: int) -> float:
        remaining = self._context.deadline.remaining
        return remaining / left if self._share and hook.fails_open else remaining

    async def _change(self, versioned: VersionedRequest, number: int, *, left: int) -> bool:
        """Ask a webhook and take over what it changes; return whether it changed anything."""
        relevant, kind, attributes = versioned
        hook, context = relevant.hook, self._context
        answer = await context.call_webhook(relevant, attributes, kind=kind, seconds=self._seconds(hook, left))
        context.audit.record_annotations(hook, answer.audit_annotations)
        context.warnings.extend(answer.warnings)
        if not answer.allowed:
            raise answer.denial(hook.name)
        made, operations, changed = await self._patched(hook, attributes.object, answer)
        if not operations:
            context.audit.record_call(hook, round_number=number, mutated=False)
            return False
        if kind != self.attributes.kind:
            # Sent back in the version of the request: the client gets it, and the next webhook starts from it.
            made = await context.convert(made, self.attributes.kind)
            changed = await context.patching.differ(made, self.attributes.object)
        if changed:
            self.attributes = self.attributes._replace(object=made)
        context.audit.record_call(hook, round_number=number, mutated=changed)
        if self.attributes.resource_name != "secrets":
            # An apiserver writes patches down from the audit level Request on. The level is not known here, and the
            # content of a Secret must not get into a log.
            context.audit.record_patch(hook, operations, size=len(answer.patch), round_number=number)
        return changed

    async def _patched(self, hook: Hook, document: JSON, answer: WebhookResponse) -> PatchedObject:
        try:
            patched = await self._context.patching.patch(document, answer)
        except ReviewError as error:
            raise CallingError(hook.name, str(error)) from None
        except PatchError as error:
            raise internal(f'the patch of admission webhook "{hook.name}" does not apply: {error}') from None
        if patched.operations and document is None:
            text = "attempted to modify the object, which is not supported for this operation"
            raise internal(f'admission webhook "{hook.name}" {text}')
        if patched.operations and not isinstance(patched.object, dict):
            raise internal(f'the patch of admission webhook "{hook.name}" leaves no object')
        return patched
