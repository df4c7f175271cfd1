"""Applies the patches of webhooks within limits, in a thread if the work is large.

An estimate of the work selects the thread, never a clock. Both ways give the same result.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, TypeVar

from fleethook.engines.dispatch.call.admission_review import WebhookResponse, check_patch_type, decode_patch
from fleethook.engines.dispatch.dispatch_errors import internal
from fleethook.engines.dispatch.match.equivalent_resources import is_builtin
from fleethook.engines.dispatch.match.rules import restore_annotation
from fleethook.model.gvk import GroupVersionKind, GroupVersionResource
from fleethook.model.json import JSON, JSONObject, count_values
from fleethook.patch import apply, diff
from fleethook.patch.diff import identical, text_size
from fleethook.patch.pointer import LIMITS
from fleethook.work.threads import Worker
from fleethook.workload_schema.defaults import add_defaults
from fleethook.workload_schema.schema_defaults import set_schema_defaults

_NAMES: Final = {dict: "object", list: "array", str: "string", bool: "bool", int: "number", float: "number"}


def explain_wrong_kind(document: JSONObject, kind: GroupVersionKind, *, is_builtin: bool) -> str:
    """Return why an apiserver cannot decode an object as a kind, ``""`` if it can.

    Args:
        document: The object.
        kind: Its kind before the patch.
        is_builtin: Whether the apiserver has a Go type for the kind. Such an object may lack its kind.
    """
    found, version = document.get("kind"), document.get("apiVersion")
    for name, value in (("kind", found), ("apiVersion", version)):
        if not isinstance(value, str | None):
            text = f"json: cannot unmarshal {_NAMES[type(value)]} into Go struct field .{name} of type string"
            return f"couldn't get version/kind; json parse error: {text}"
    if is_builtin:
        is_same = (found or kind.kind, version or kind.api_version) == (kind.kind, kind.api_version)
        return "" if is_same else f'no kind "{found}" is registered for version "{version}"'
    if not found:
        return "Object 'Kind' is missing"
    if version != kind.api_version:
        shown = f"{version or '/'}, Kind={found}"
        return f'{shown} is unstructured and is not suitable for converting to "{kind.api_version}"'
    return "" if isinstance(document.get("metadata", {}), dict) else "system metadata was not initialized"


_T = TypeVar("_T")
# The largest patch, in bytes, that is applied on the event loop: about 600 operations, 5 ms.
_SHORT_PATCH: Final = 16 * 1024
# The largest object, in values, that is patched and compared on the event loop. A large Deployment has 1,000 values;
# a comparison of 10,000 takes 2 ms.
_SMALL_OBJECT: Final = 10_000
# kube-apiserver accepts bodies of 3 MiB (k8s.io/apiserver pkg/server/config.go: MaxRequestBodyBytes).
_MAX_OBJECT: Final = 3 * 1024 * 1024
# As many members have at least 5 bytes each.
_MAX_DEFAULTS: Final = _MAX_OBJECT // 5


class PatchedObject(NamedTuple):
    """A patched object."""

    object: JSON
    operations: list[JSON]
    """The operations of the patch, an empty list without a patch."""
    changed: bool


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
    return PatchedObject(patched, operations, changed=not identical(patched, document))


def check_patched(hook: str, patched: PatchedObject, resource: GroupVersionResource, kind: GroupVersionKind) -> None:
    """Refuse a patch of nothing, or one that yields an object of another kind, as kube-apiserver does.

    kube-apiserver decodes the answer next, and refuses members that do not fit their types.

    Args:
        hook: The name of the webhook.
        patched: The patched object.
        resource: The resource of the request.
        kind: The kind of the object before the patch.

    Raises:
        StatusError: The request is refused.
    """
    if not patched.operations:
        return
    if patched.object is None:
        text = "attempted to modify the object, which is not supported for this operation"
        raise internal(f'admission webhook "{hook}" {text}')
    if not isinstance(patched.object, dict):
        raise internal(f'the patch of admission webhook "{hook}" replaces the object by another JSON type')
    problem = explain_wrong_kind(patched.object, kind, is_builtin=is_builtin(resource.group, resource.resource))
    if problem:
        text = "yields an object that does not fit its types: "
        raise internal(f'the patch of admission webhook "{hook}" {text}{problem}')


def diff_response(sent: JSON, patched: JSON) -> list[JSONObject]:
    """Return the patch from the object that the client sent to the object after all webhooks."""
    return diff(sent, restore_annotation(patched, sent))


def set_object_defaults(document: JSON, schema: Mapping[str, JSON] | None) -> JSON:
    """Return an object with the defaults of its schema, None for those of a built-in kind.

    Raises StatusError if they exceed the limits of an object.
    """
    if schema is None:
        return add_defaults(document) if isinstance(document, dict) else document
    try:
        made = set_schema_defaults(document, schema, max_members=_MAX_DEFAULTS)
    except ValueError as error:
        raise internal(f"the defaults of the object cannot be set: {error}") from None
    if text_size(made, _MAX_OBJECT) > _MAX_OBJECT:
        raise internal(f"the object has more than {_MAX_OBJECT} bytes with its defaults")
    return made


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

    async def set_defaults(self, document: JSON, schema: Mapping[str, JSON] | None) -> JSON:
        """Return an object with its defaults, as `set_object_defaults` does."""
        return await self._run(document, 0, set_object_defaults, document, schema)

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
