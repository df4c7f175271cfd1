"""A connection to all consumers of an APIExport of kcp, and the identity of an APIExport in kcp's root.

A provider reads and writes the objects that consumers let it claim in the virtual workspace of its export (kcp,
pkg/virtual/apiexport). An APIExportEndpointSlice has the URL, as soon as the export has a consumer.

kcp keeps the identity in the status of the APIExport, which only the root shard has, and copies it to a ConfigMap of
each shard (pkg/reconciler/apis/identitycache/api_export_identity_controller.go).
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from fleethook.cluster.api_errors import FORBIDDEN, GONE, NOT_FOUND, APIError, UnreachableError
from fleethook.cluster.apiserver_connection import Connection
from fleethook.cluster.kubernetes.watched_resources import api_path
from fleethook.model.json import JSON, as_object, as_text, list_objects
from fleethook.model.kcp import API_EXPORT

if TYPE_CHECKING:
    from fleethook.cluster.kubernetes.list_reading_and_decoding import Reader

SLICES: Final = "/apis/apis.kcp.io/v1alpha1/apiexportendpointslices"
CLUSTERS: Final = "/clusters/"
"""The beginning of the paths of consumers; ``/clusters/*`` reads all of them."""
_ROOT: Final = "/clusters/root"
_COPIES: Final = "/clusters/system:shard/api/v1/namespaces/default/configmaps/apiexport-identity-cache"
_NONE_YET: Final = b'{"kind":"List","apiVersion":"v1","metadata":{},"items":[]}'
_ASK_SECONDS: Final = 0.5
"""Between two requests for the URL. The first workspace is covered within two seconds."""


def list_urls(slices: JSON, export: str) -> list[str]:
    """Return the URLs of the virtual workspaces of an export, one for each shard, in a list of endpoint slices."""
    items = list_objects(as_object(slices).get("items"))
    named = [item for item in items if as_object(as_object(item.get("spec")).get("export")).get("name") == export]
    endpoints = [one for item in named for one in list_objects(as_object(item.get("status")).get("endpoints"))]
    return list(dict.fromkeys(url for one in endpoints if (url := as_text(one.get("url")))))


async def read_identity(reader: "Reader", export: str) -> str:
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
            if error.code not in (FORBIDDEN, NOT_FOUND):
                raise
            failed[path] = error
            continue
        holder = as_object(as_object(document).get("data" if path == _COPIES else "status"))
        found: JSON = holder.get(export if path == _COPIES else "identityHash")
        if isinstance(found, str) and found:
            return found
        failed[path] = APIError(NOT_FOUND, "", "it has no identity yet")
    refused = any(api_error.code == FORBIDDEN for api_error in failed.values())
    tried = "; ".join(f"{path}: {error}" for path, error in failed.items())
    raise APIError(
        FORBIDDEN if refused else NOT_FOUND,
        "Forbidden" if refused else "NotFound",
        f"the identity of the APIExport {export} of root cannot be read, which the list needs: {tried}",
    )


class ExportConnection(Connection):
    """A connection to the workspace of a provider, which sends requests below `CLUSTERS` to the virtual workspace.

    Before the export has a consumer, lists are empty, and a watch waits for the first one.

    Attributes:
        provider: The logical cluster of the export, ``""`` until its virtual workspace is known.
    """

    def __init__(self, kubeconfig: Path | None, *, context: str | None, export: str) -> None:
        """Store the arguments.

        Args:
            kubeconfig: The kubeconfig file; the URL of its server names the provider's workspace.
            context: The context in the kubeconfig file; None for its current context.
            export: The name of the APIExport.
        """
        super().__init__(kubeconfig, context=context)
        self._files: Final = kubeconfig, context
        self._export: Final = export
        self.provider = ""
        self._behind: Connection | None = None
        self._opening: Final = asyncio.Lock()
        self._opened: Final = contextlib.AsyncExitStack()

    async def __aexit__(self, *error: object) -> None:
        """Close every connection."""
        await self._opened.aclose()
        await super().__aexit__(*error)

    async def request(self, method: str, path: str, **rest: Any) -> bytes:
        """Send a request as `Connection.request` does."""
        if not path.startswith(CLUSTERS):
            return await super().request(method, path, **rest)
        behind = await self._find()
        return _NONE_YET if behind is None else await behind.request(method, path, **rest)

    @contextlib.asynccontextmanager
    async def lines(self, path: str, *, query: Mapping[str, str], idle: float) -> AsyncIterator[AsyncIterator[bytes]]:
        """Open a watch as `Connection.lines` does."""
        while True:
            behind = await self._find()
            if behind is not None:
                break
            await asyncio.sleep(_ASK_SECONDS)
        if not query.get("resourceVersion"):  # The list before was empty, because the export had no consumer.
            raise APIError(GONE, "Expired", "the APIExport has its first consumer")
        async with behind.lines(path, query=query, idle=idle) as lines:
            yield lines

    async def _find(self) -> Connection | None:
        """Return the connection to the virtual workspace, None without a consumer; raises as `request`."""
        async with self._opening:
            if self._behind is None:
                slices = await self.json("GET", SLICES)
                urls = list_urls(slices, self._export)
                if len(urls) > 1:
                    raise UnreachableError(
                        f"APIExport {self._export} has the virtual workspaces {', '.join(urls)}, one for each shard, "
                        "and a server reads one shard"
                    )
                if urls:
                    kubeconfig, context = self._files
                    behind = Connection(kubeconfig, context=context, server=urls[0])
                    # …/services/apiexport/CLUSTER/EXPORT
                    self.provider = urls[0].rstrip("/").split("/")[-2]
                    self._behind = await self._opened.enter_async_context(behind)
            return self._behind
