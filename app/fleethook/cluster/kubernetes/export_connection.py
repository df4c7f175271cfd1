"""A connection to all consumers of an APIExport of kcp.

A provider reads and writes the objects that consumers let it claim in the virtual workspace of its export (kcp,
pkg/virtual/apiexport). An APIExportEndpointSlice has the URL, as soon as the export has a consumer.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, Final

from fleethook.cluster.api_errors import GONE, APIError, UnreachableError
from fleethook.cluster.apiserver_connection import Connection
from fleethook.model.json import JSON, as_object, as_text, list_objects

SLICES: Final = "/apis/apis.kcp.io/v1alpha1/apiexportendpointslices"
CLUSTERS: Final = "/clusters/"
"""The beginning of the paths of consumers; ``/clusters/*`` reads all of them."""
_NONE_YET: Final = b'{"kind":"List","apiVersion":"v1","metadata":{},"items":[]}'
_ASK_SECONDS: Final = 0.5
"""Between two requests for the URL. The first workspace is covered within two seconds."""


def list_urls(slices: JSON, export: str) -> list[str]:
    """Return the URLs of the virtual workspaces of an export, one for each shard, in a list of endpoint slices."""
    items = list_objects(as_object(slices).get("items"))
    named = [item for item in items if as_object(as_object(item.get("spec")).get("export")).get("name") == export]
    endpoints = [one for item in named for one in list_objects(as_object(item.get("status")).get("endpoints"))]
    return list(dict.fromkeys(url for one in endpoints if (url := as_text(one.get("url")))))


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
