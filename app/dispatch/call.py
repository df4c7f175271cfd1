"""Asking one webhook (research 2.11)."""

import time
import uuid
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple, Protocol

import msgspec

from app.control.worker import Worker
from app.dispatch.admission_review import (
    ReviewError,
    WebhookResponse,
    build_review,
    choose_review_version,
    parse_response,
)
from app.dispatch.attributes import Attributes
from app.dispatch.errors import CallingError, StatusError, internal, too_many_requests
from app.dispatch.hook_index import RelevantHook
from app.dispatch.hooks import Hook
from app.model.gvk import GroupVersionKind
from app.outbound.client import Encode, HookClient, Parties
from app.outbound.credential import Credential
from app.outbound.errors import CallError, OverloadedError
from app.patch import PatchError

# Bytes of an answer that is decoded on the event loop: 0.5 ms.
_SHORT_ANSWER: Final = 64 * 1024
# Bytes of a review that is encoded on the event loop: 5 ms, if it is made of nested lists.
_SMALL_REVIEW: Final = 256 * 1024
# What may be asked on a dry run.
_WITHOUT_EFFECTS: Final = ("None", "NoneOnDryRun")
_SETTINGS: Final = {
    "connections": "dispatch_workspace_connections",
    "calls": "dispatch_workspace_calls",
    "total": "dispatch_calls",
}


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


FindCredential = Callable[[Hook], Credential | None]
"""Returns as whom a webhook is called, as `app.dispatch.credentials.reloader.Credentials.find` does."""


class WebhookCaller:
    """Asks webhooks, over connections that no two logical clusters share."""

    def __init__(self, client: HookClient, *, observe: Observe, find_credential: FindCredential | None = None) -> None:
        """Prepare.

        Args:
            client: Calls them.
            observe: Told of each call.
            find_credential: Says as whom; None for nobody in particular.
        """
        self._client: Final = client
        self._observe: Final = observe
        self._find_credential: Final = find_credential
        self._worker: Final = Worker()

    async def call(
        self, relevant: RelevantHook, attributes: Attributes, *, kind: GroupVersionKind, seconds: float
    ) -> WebhookResponse:
        """Return what a webhook answers.

        Args:
            relevant: The webhook, and as what it sees the request.
            attributes: The request, its objects in the kind that the webhook is sent.
            kind: That kind.
            seconds: How long the request can wait. The webhook has its own timeoutSeconds, if that is less.

        Raises:
            CallingError: It was not reached, or its answer is none.
            StatusError: It may not be asked, or this server has no room for the call.
        """
        hook = relevant.hook
        if attributes.dry_run:
            _check_dry_run(hook)
        uid = str(uuid.uuid4())
        try:
            version = choose_review_version(hook.review_versions)
        except ReviewError as error:
            raise CallingError(hook.name, f"could not create admission objects: {error}") from None
        if hook.endpoint is None:
            raise CallingError(hook.name, f"could not get REST client: {hook.problem}")
        review = build_review(attributes, relevant.invocation, kind=kind, version=version, uid=uid)
        # Encoded when the call may begin: of requests that wait there is no second copy.
        encode: Encode = partial(msgspec.json.encode, review)
        if attributes.size > _SMALL_REVIEW:
            encode = partial(self._worker.run, attributes.cluster, msgspec.json.encode, review)
        text = await self._post(hook, encode, consumer=attributes.cluster, seconds=seconds)
        understood = partial(parse_response, text, uid=uid, version=version, mutating=hook.phase == "mutating")
        try:
            if len(text) <= _SHORT_ANSWER:
                return understood()
            return await self._worker.run(attributes.cluster, understood)
        except ReviewError as error:
            raise CallingError(hook.name, f"received invalid webhook response: {error}") from None
        except PatchError as error:
            raise internal(f'the patch of admission webhook "{hook.name}" does not apply: {error}') from None

    def is_silent(self, hook: Hook, consumer: str) -> bool:
        """Return whether a webhook gave no answer to the last requests of a consumer, so that its breaker is open."""
        return hook.endpoint is not None and self._client.is_silent(hook.endpoint, Parties(hook.cluster, consumer))

    async def _post(self, hook: Hook, encode: Encode, *, consumer: str, seconds: float) -> bytes:
        assert hook.endpoint is not None
        if seconds <= 0:
            reason = f'failed to call webhook: Post "{hook.endpoint.url}": context deadline exceeded'
            raise CallingError(hook.name, reason, cut_short=True)
        started = time.perf_counter()
        outcome, code = "failed", 0
        try:
            text = await self._client.post(
                hook.endpoint,
                encode,
                seconds=hook.seconds,
                within=seconds,
                parties=Parties(hook.cluster, consumer),
                # To admit without asking is not what the policy says: only a failure of the webhook is ignored.
                insist=hook.fails_open,
                credential=None if self._find_credential is None else self._find_credential(hook),
            )
            outcome, code = "answered", 200
        except OverloadedError as error:
            outcome = "refused"
            raise too_many_requests(_overloaded(hook, error)) from error
        except CallError as error:
            outcome, code = "timed out" if error.timed_out else "failed", error.code
            raise CallingError(hook.name, str(error), cut_short=error.cut_short) from error
        finally:
            self._observe(hook, outcome=outcome, code=code, seconds=time.perf_counter() - started)
        return text


def _overloaded(hook: Hook, error: OverloadedError) -> str:
    setting = f" (setting {_SETTINGS[error.limit]})" if error.limit else ""
    return f'admission webhook "{hook.name}" was not called: {error}{setting}; try again later'


def _check_dry_run(hook: Hook) -> None:
    if hook.side_effects is None:
        raise CallingError(hook.name, "Webhook SideEffects is nil")
    if hook.side_effects not in _WITHOUT_EFFECTS:
        raise StatusError(400, "BadRequest", f'admission webhook "{hook.name}" does not support dry run')
