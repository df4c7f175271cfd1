"""The paths of lists, the decoding of lists and watch events, and the resourceVersion that a watch has reached.

A list over all logical clusters of a kcp has a path of its own. For a resource that an APIExport of kcp's root
provides, the path names the identity of that export: ``workspaces:HASH``. Without it, kcp answers 404
(pkg/server/bootstrap/identity.go). kcp keeps the identity in the status of the APIExport, which only the root shard
has, and copies it to a ConfigMap of each shard
(pkg/reconciler/apis/identitycache/api_export_identity_controller.go).
"""

import asyncio
from collections.abc import Awaitable, Mapping
from typing import Final, NamedTuple, Protocol

import msgspec

from fleethook.cluster.api_errors import APIError
from fleethook.cluster.kubernetes.resources import BUILT_IN, KCP, WatchedResource, api_path
from fleethook.model.json import JSON, JSONObject, as_object
from fleethook.model.kcp import API_EXPORT

EVERY_CLUSTER: Final = "/clusters/*"
"""The prefix of the paths that read all logical clusters of a kcp."""

EVERY_SHARD: Final = "/services/cache/shards/*/clusters/*"
"""The prefix of the paths that read all shards in the cache server of a kcp (pkg/cache/server)."""

_ROOT: Final = "/clusters/root"
_COPIES: Final = "/clusters/system:shard/api/v1/namespaces/default/configmaps/apiexport-identity-cache"
_NOT_FOUND: Final = 404
_FORBIDDEN: Final = 403


class _Reader(Protocol):
    def request(self, method: str, path: str, *, query: Mapping[str, str] | None = None) -> Awaitable[bytes]:
        """Return the response body; raises APIError, UnreachableError."""


def is_required(resource: WatchedResource, prefix: str) -> bool:
    """Return whether each apiserver of this kind serves a resource below a prefix, so that a 404 is a fault."""
    return resource.group_kind in BUILT_IN or (prefix in (EVERY_CLUSTER, EVERY_SHARD) and resource in KCP)


async def find_list_path(reader: _Reader, resource: WatchedResource, prefix: str) -> str:
    """Return the path that lists and watches a resource; raises APIError, UnreachableError.

    Args:
        reader: Connection to the apiserver.
        resource: The resource.
        prefix: Prefix of its path, such as `EVERY_CLUSTER`.
    """
    path = prefix + resource.path
    if prefix != EVERY_CLUSTER or not resource.export:
        return path
    return f"{path}:{await read_identity(reader, resource.export)}"


async def read_identity(reader: _Reader, export: str) -> str:
    """Return the identity of an APIExport of root.

    Raises:
        APIError: No source of the identity can be read. The code is 403 if a right is missing, otherwise 404.
        UnreachableError: The apiserver did not answer.
    """
    failed: dict[str, APIError] = {}
    exports = [f"{_ROOT}{api_path(API_EXPORT.group, one)}/apiexports/{export}" for one in ("v1alpha2", "v1alpha1")]
    for path in (*exports, _COPIES):
        try:
            document = msgspec.json.decode(await reader.request("GET", path))
        except APIError as error:
            if error.code not in (_FORBIDDEN, _NOT_FOUND):
                raise
            failed[path] = error
            continue
        holder = as_object(as_object(document).get("data" if path == _COPIES else "status"))
        found: JSON = holder.get(export if path == _COPIES else "identityHash")
        if isinstance(found, str) and found:
            return found
        failed[path] = APIError(_NOT_FOUND, "", "it has no identity yet")
    refused = any(one.code == _FORBIDDEN for one in failed.values())
    tried = "; ".join(f"{path}: {error}" for path, error in failed.items())
    raise APIError(
        _FORBIDDEN if refused else _NOT_FOUND,
        "Forbidden" if refused else "NotFound",
        f"the identity of the APIExport {export} of root cannot be read, which the list needs: {tried}",
    )


class _ListMeta(msgspec.Struct, rename={"resource_version": "resourceVersion", "continue_": "continue"}):
    resource_version: str = ""
    continue_: str = ""


class _List(msgspec.Struct):
    metadata: _ListMeta = msgspec.field(default_factory=_ListMeta)
    items: list[msgspec.Raw] | None = None
    kind: str = ""


class Page(NamedTuple):
    """One page of a list."""

    items: list[msgspec.Raw]
    resource_version: str
    continue_token: str
    """``""`` on the last page."""
    kind: str = ""
    """The kind of the list, such as ``DeploymentList``; ``""`` if it has none."""


class Event(msgspec.Struct):
    """One line of a watch: ``metav1.WatchEvent``."""

    type: str
    object: msgspec.Raw


class _Meta(msgspec.Struct, rename="camel"):
    resource_version: str = ""


class _Bookmark(msgspec.Struct):
    metadata: _Meta = msgspec.field(default_factory=_Meta)


class _Failure(msgspec.Struct):
    code: int = 0
    reason: str = ""
    message: str = ""


_decode_list: Final = msgspec.json.Decoder(_List).decode
_decode_event: Final = msgspec.json.Decoder(Event).decode
_decode_bookmark: Final = msgspec.json.Decoder(_Bookmark).decode
_decode_failure: Final = msgspec.json.Decoder(_Failure).decode


def decode_page(text: bytes) -> Page:
    """Return a page of a list; raises msgspec.DecodeError."""
    found = _decode_list(text)
    return Page(found.items or [], found.metadata.resource_version, found.metadata.continue_, found.kind)


def decode_event(line: bytes) -> Event:
    """Return a watch event; raises msgspec.DecodeError."""
    return _decode_event(line)


def version_of(text: bytes | msgspec.Raw) -> str:
    """Return the resourceVersion of an object or bookmark; raises msgspec.DecodeError."""
    return _decode_bookmark(text).metadata.resource_version


def failure_of(text: msgspec.Raw) -> tuple[int, str, str]:
    """Return code, reason and message of the ``metav1.Status`` in an ERROR event."""
    found = _decode_failure(text)
    return found.code, found.reason, found.message


def as_number(resource_version: str) -> int:
    """Return a resourceVersion as a number, 0 if it is not a number.

    Resource versions have always been etcd revisions. Since 1.35 Kubernetes guarantees that they can be compared as
    numbers (KEP-5504).
    """
    return int(resource_version) if resource_version.isdecimal() else 0


def number_of(document: JSONObject) -> int:
    """Return the resourceVersion of an object as a number, 0 if it has none."""
    return as_number(document["metadata"].get("resourceVersion") or "")


class Progress:
    """The progress of the watch of one resource.

    Attributes:
        place: The resourceVersion from which a watch continues.
        seen: The resourceVersion up to which all changes have been seen.
        changed: The resourceVersion of the last change that was seen; all replicas see the same one. A bookmark may
            move `seen` further, and each replica receives bookmarks at a different time.
    """

    def __init__(self) -> None:
        self.place = ""
        self.seen = 0
        self.changed = 0
        self._advanced: asyncio.Event | None = None

    async def wait_for(self, resource_version: int) -> None:
        """Return as soon as all changes up to ``resource_version`` have been seen."""
        while self.seen < resource_version:
            self._advanced = self._advanced or asyncio.Event()
            await self._advanced.wait()

    def restart(self, place: str) -> None:
        """Record that a complete list was read."""
        # A list is older than the former watch only if etcd was restored from a backup.
        self.seen = 0
        self.change(place)

    def change(self, place: str) -> None:
        """Record a change."""
        self.advance(place)
        self.changed = self.seen

    def advance(self, place: str) -> None:
        """Record a bookmark: no other change has a lower resourceVersion."""
        self.place = place
        self.seen = max(self.seen, as_number(place))
        if self._advanced is not None:
            self._advanced.set()
            self._advanced = None
