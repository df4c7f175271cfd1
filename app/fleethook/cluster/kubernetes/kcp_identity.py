"""The paths of lists over all logical clusters of a kcp.

A list of a resource that an APIExport of kcp's root provides names the identity of that export: ``workspaces:HASH``.
Without it, kcp answers 404 (pkg/server/bootstrap/identity.go). kcp keeps the identity in the status of the APIExport,
which only the root shard has, and copies it to a ConfigMap of each shard
(pkg/reconciler/apis/identitycache/api_export_identity_controller.go).
"""

from collections.abc import Awaitable, Mapping
from typing import Final, Protocol

import msgspec

from fleethook.cluster.api_errors import APIError
from fleethook.cluster.kubernetes.resources import BUILT_IN, KCP, WatchedResource, api_path
from fleethook.model.json import JSON, as_object
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
