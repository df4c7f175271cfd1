"""Asking one webhook (research 2.11)."""

import time
import uuid
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

import msgspec

from app.dispatch.attributes import Attributes
from app.dispatch.failures import CallingError, StatusError
from app.dispatch.hook_set import Relevant
from app.dispatch.hooks import Hook
from app.dispatch.review import Answer, ReviewError, review_of, review_version, understand
from app.model.gvk import GroupVersionKind
from app.outbound.client import HookClient
from app.outbound.errors import CallError

# What may be asked on a dry run.
_WITHOUT_EFFECTS: Final = ("None", "NoneOnDryRun")


class Deadline(NamedTuple):
    """When a request has to be answered."""

    at: float
    """By the clock."""
    clock: Callable[[], float] = time.monotonic

    @property
    def remaining(self) -> float:
        """Seconds that are left; none or less once it has passed."""
        return self.at - self.clock()


class Observe(Protocol):
    """Told of each call of a webhook."""

    def __call__(self, hook: Hook, *, outcome: str, code: int, seconds: float) -> None:
        """Note how a call ended, with which HTTP status, and after how long."""


class Caller:
    """Asks webhooks, over connections that no two logical clusters share."""

    def __init__(self, client: HookClient, *, observe: Observe) -> None:
        """Prepare; ``observe`` is told of each call."""
        self._client: Final = client
        self._observe: Final = observe

    async def ask(
        self, relevant: Relevant, attributes: Attributes, *, kind: GroupVersionKind, seconds: float
    ) -> Answer:
        """Return what a webhook answers.

        Args:
            relevant: The webhook, and as what it sees the request.
            attributes: The request, its objects in the kind that the webhook is sent.
            kind: That kind.
            seconds: How long it may take.

        Raises:
            CallingError: It was not reached, or its answer is none.
            StatusError: It may not be asked.
        """
        hook = relevant.hook
        if attributes.dry_run:
            _check_dry_run(hook)
        uid = str(uuid.uuid4())
        try:
            version = review_version(hook.review_versions)
        except ReviewError as error:
            raise CallingError(hook.name, f"could not create admission objects: {error}") from None
        if hook.endpoint is None:
            raise CallingError(hook.name, f"could not get REST client: {hook.problem}")
        review = review_of(attributes, relevant.invocation, kind=kind, version=version, uid=uid)
        text = await self._post(hook, msgspec.json.encode(review), seconds=seconds)
        try:
            return understand(text, uid=uid, version=version, mutating=hook.phase == "mutating")
        except ReviewError as error:
            raise CallingError(hook.name, f"received invalid webhook response: {error}") from None

    async def _post(self, hook: Hook, body: bytes, *, seconds: float) -> bytes:
        assert hook.endpoint is not None
        if seconds <= 0:
            raise CallingError(
                hook.name, f'failed to call webhook: Post "{hook.endpoint.url}": context deadline exceeded'
            )
        started = time.perf_counter()
        outcome, code = "failed", 0
        try:
            text = await self._client.post(hook.endpoint, body, seconds=seconds, partition=hook.cluster)
            outcome, code = "answered", 200
        except CallError as error:
            outcome, code = "timed out" if error.timed_out else "failed", error.code
            raise CallingError(hook.name, str(error)) from error
        finally:
            self._observe(hook, outcome=outcome, code=code, seconds=time.perf_counter() - started)
        return text


def _check_dry_run(hook: Hook) -> None:
    if hook.side_effects is None:
        raise CallingError(hook.name, "Webhook SideEffects is nil")
    if hook.side_effects not in _WITHOUT_EFFECTS:
        raise StatusError(400, "BadRequest", f'admission webhook "{hook.name}" does not support dry run')
