"""Applies the patches of webhooks within limits, in a thread if the work is large.

An estimate of the work selects the thread, never a clock. Both ways give the same result.
"""

from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeVar

from fleethook.engines.dispatch.call.admission_review import WebhookResponse, check_patch_type, decode_patch
from fleethook.engines.dispatch.call.object_types import (
    explain_wrong_kind,
    explain_wrong_member,
    explain_wrong_metadata,
)
from fleethook.engines.dispatch.dispatch_errors import CallingError, internal
from fleethook.engines.dispatch.match.attributes import restore_annotation
from fleethook.engines.dispatch.match.equivalent_resources import is_builtin
from fleethook.model.gvk import GroupVersionKind, GroupVersionResource
from fleethook.model.json import JSON, JSONObject, count_values
from fleethook.patch import apply, diff
from fleethook.patch.diff import identical
from fleethook.patch.limits import LIMITS
from fleethook.work.worker import Worker

_T = TypeVar("_T")
# The largest patch, in bytes, that is applied on the event loop: about 600 operations, 5 ms.
_SHORT_PATCH: Final = 16 * 1024
# The largest object, in values, that is patched and compared on the event loop. A large Deployment has 1,000 values;
# a comparison of 10,000 takes 2 ms.
_SMALL_OBJECT: Final = 10_000


class PatchedObject(NamedTuple):
    """A patched object."""

    object: JSON
    operations: list[JSON]
    """The operations of the patch, an empty list without a patch."""
    changed: bool
    misfit: str = ""
    """The member that does not fit its type after the patch, ``""`` if all of the metadata and of built-in kinds do."""


def patch_object(document: JSON, answer: WebhookResponse) -> PatchedObject:
    """Apply a webhook's patch to an object.

    Args:
        document: The object.
        answer: The webhook's answer.

    Raises:
        ReviewError: The patch cannot be decoded, or its type is unknown.
        PatchError: The patch does not apply, or exceeds a limit.
    """
    LIMITS.check_size(len(answer.patch))
    operations = decode_patch(answer)
    if not operations or document is None:
        # As in an apiserver, the type of the patch is not checked without an object.
        return PatchedObject(document, operations, changed=False)
    check_patch_type(answer)
    patched = apply(document, operations, dialect="kubernetes", limits=LIMITS)
    misfit = ""
    if isinstance(patched, dict) and isinstance(document, dict):
        api_version, kind = str(document.get("apiVersion")), str(document.get("kind"))
        misfit = explain_wrong_member(patched, api_version, kind) or explain_wrong_metadata(patched)
    return PatchedObject(patched, operations, changed=not identical(patched, document), misfit=misfit)


def check_patched(hook: str, patched: PatchedObject, resource: GroupVersionResource, kind: GroupVersionKind) -> None:
    """Refuse a patch of nothing, or one that yields an object that does not fit its types, as kube-apiserver does.

    kube-apiserver decodes the object. It does not decode the metadata of custom resources, and later drops the members
    that do not fit. Here that is a failure of the webhook, so that no part of a patch is lost silently.

    Args:
        hook: The name of the webhook.
        patched: The patched object.
        resource: The resource of the request.
        kind: The kind of the object before the patch.

    Raises:
        StatusError: The request is refused.
        CallingError: The webhook has failed.
    """
    if not patched.operations:
        return
    if patched.object is None:
        text = "attempted to modify the object, which is not supported for this operation"
        raise internal(f'admission webhook "{hook}" {text}')
    if not isinstance(patched.object, dict):
        raise internal(f'the patch of admission webhook "{hook}" replaces the object by another JSON type')
    builtin = is_builtin(resource.group, resource.resource)
    problem = explain_wrong_kind(patched.object, kind, is_builtin=builtin) or (patched.misfit if builtin else "")
    text = "yields an object that does not fit its types: "
    if problem:
        raise internal(f'the patch of admission webhook "{hook}" {text}{problem}')
    if patched.misfit:
        raise CallingError(hook, f"its patch {text}{patched.misfit}")


def diff_response(sent: JSON, patched: JSON) -> list[JSONObject]:
    """Return the patch from the object that the client sent to the object after all webhooks."""
    return diff(sent, restore_annotation(patched, sent))


class Patcher:
    """Patches and compares the objects of one request."""

    def __init__(self, worker: Worker, cluster: str) -> None:
        """Initialize the patcher.

        Args:
            worker: Runs long work in a thread.
            cluster: The cluster of the request, for fair scheduling.
        """
        self._worker: Final = worker
        self._cluster: Final = cluster

    async def patch(self, document: JSON, answer: WebhookResponse) -> PatchedObject:
        """Apply a webhook's patch to an object; raises as `patch_object` does."""
        if not answer.patch:
            return PatchedObject(document, [], changed=False)
        return await self._run(document, len(answer.patch), patch_object, document, answer)

    async def differ(self, one: JSON, other: JSON) -> bool:
        """Return whether two objects differ."""
        return not await self._run(one, 0, identical, one, other)

    async def diff_response(self, sent: JSON, patched: JSON) -> list[JSONObject]:
        """Return the patch of the response, as the function `diff_response` does."""
        return await self._run(patched, 0, diff_response, sent, patched)

    async def _run(self, document: JSON, size: int, function: Callable[..., _T], *arguments: Any) -> _T:
        if size <= _SHORT_PATCH and count_values(document, limit=_SMALL_OBJECT) <= _SMALL_OBJECT:
            return function(*arguments)
        return await self._worker.run(self._cluster, function, *arguments)
