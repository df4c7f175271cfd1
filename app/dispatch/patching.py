"""The patches of webhooks, applied within limits, and in a thread where that may hold up other requests.

An estimate of the work decides where, never a clock; both places give the same answer.
"""

from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeVar

from app.control.worker import Worker
from app.dispatch.admission_review import WebhookResponse, check_patch_type, decode_patch
from app.dispatch.attributes import restore_annotation
from app.model.json import JSON, JSONObject
from app.model.size import count_values
from app.patch import LIMITS, apply, diff
from app.patch.equality import identical

_T = TypeVar("_T")
# Bytes of a patch that is applied on the event loop: some 600 operations, which take 5 ms.
_SHORT_PATCH: Final = 16 * 1024
# Values of an object that is patched and compared on the event loop: a large Deployment has 1,000. To compare all of
# these takes 2 ms.
_SMALL_OBJECT: Final = 10_000


class PatchedObject(NamedTuple):
    """An object after a patch."""

    object: JSON
    operations: list[JSON]
    """The operations of the patch; an empty list if there is none."""
    changed: bool


def patch_object(document: JSON, answer: WebhookResponse) -> PatchedObject:
    """Return an object with a webhook's patch applied.

    Raises:
        ReviewError: The patch cannot be read, or is of a type that is not known.
        PatchError: It does not apply, or is beyond a limit.
    """
    LIMITS.check_size(len(answer.patch))
    operations = decode_patch(answer)
    if not operations or document is None:
        # In an apiserver's order: without an object, the type of the patch does not matter.
        return PatchedObject(document, operations, changed=False)
    check_patch_type(answer)
    made = apply(document, operations, dialect="kubernetes", limits=LIMITS)
    return PatchedObject(made, operations, changed=not identical(made, document))


def diff_response(sent: JSON, made: JSON) -> list[JSONObject]:
    """Return the patch that makes what webhooks made of what the caller sent."""
    return diff(sent, restore_annotation(made, sent))


class Patcher:
    """Works on the objects of one request."""

    def __init__(self, worker: Worker, cluster: str) -> None:
        """Prepare.

        Args:
            worker: Runs long work.
            cluster: The cluster of the request, for turns.
        """
        self._worker: Final = worker
        self._cluster: Final = cluster

    async def patch(self, document: JSON, answer: WebhookResponse) -> PatchedObject:
        """Return an object with a webhook's patch applied; raises as `patch_object` does."""
        if not answer.patch:
            return PatchedObject(document, [], changed=False)
        return await self._run(document, len(answer.patch), patch_object, document, answer)

    async def differ(self, one: JSON, other: JSON) -> bool:
        """Return whether two objects differ."""
        return not await self._run(one, 0, identical, one, other)

    async def diff_response(self, sent: JSON, made: JSON) -> list[JSONObject]:
        """Return the patch of the answer, as the function of that name does."""
        return await self._run(made, 0, diff_response, sent, made)

    async def _run(self, document: JSON, size: int, function: Callable[..., _T], *arguments: Any) -> _T:
        if size <= _SHORT_PATCH and count_values(document, limit=_SMALL_OBJECT) <= _SMALL_OBJECT:
            return function(*arguments)
        return await self._worker.run(self._cluster, function, *arguments)
