"""Reads the objects of a kcp that the provider of an APIExport may read.

A provider has rights in its own workspace, and reads the APIBindings of all consumers in the virtual workspace of its
APIExport (kcp, pkg/virtual/apiexport). Each shard has one, and an APIExportEndpointSlice has their URLs.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from fleethook.cli.command_line import fail
from fleethook.cli.inputs.cluster_reader import (
    CLUSTER,
    ListRequest,
    Show,
    UnservedError,
    describe_rules,
    list_missing,
    read_resource,
    stream_listed,
)
from fleethook.cli.output.text_output import show_progress, write_error
from fleethook.cluster.api_errors import APIError, UnreachableError
from fleethook.cluster.kubernetes.list_reading_and_decoding import EVERY_CLUSTER
from fleethook.cluster.kubernetes.watched_resources import (
    API_RESOURCE_SCHEMAS,
    APIBINDINGS,
    APIEXPORTS,
    DEFINITIONS,
    MUTATING_CONFIGURATIONS,
    NAMESPACES,
    VALIDATING_CONFIGURATIONS,
    WatchedResource,
)
from fleethook.cluster.manifests.yaml_decoding_and_lines import Document
from fleethook.cluster.store import key_of
from fleethook.model.formats.text import list_names
from fleethook.model.json import JSONObject
from fleethook.model.kcp import API_EXPORT, CLUSTER_ANNOTATION, cluster_of

if TYPE_CHECKING:
    from fleethook.cluster.apiserver_connection import Connection

_OWN: Final = (
    DEFINITIONS, NAMESPACES, MUTATING_CONFIGURATIONS, VALIDATING_CONFIGURATIONS, APIEXPORTS, API_RESOURCE_SCHEMAS,
)  # fmt: skip
_StreamConsumers = Callable[["Connection"], AsyncIterator[Document]]
"""Yields objects of all consumers of a virtual workspace."""


def read_export(export: str, kubeconfig: Path | None, *, context: str | None) -> list[Document]:
    """Return the provider's objects and the bindings of its consumers. Exits with a message if they cannot be read.

    Args:
        export: Name of the APIExport.
        kubeconfig: File with the credentials; the URL of its server names the provider's workspace.
        context: Context of the kubeconfig, None for its current context.
    """

    async def read() -> list[Document]:
        with show_progress() as show:
            own = [ListRequest(resource) for resource in _OWN]
            return [document async for document in _stream(export, kubeconfig, context, own, _stream_bindings, show)]

    return asyncio.run(read())


async def stream_consumers(
    export: str, resources: Sequence[WatchedResource], kubeconfig: Path | None, *, context: str | None, show: Show
) -> AsyncIterator[Document]:
    """Yield the objects of all consumers of an export. Arguments and exits as for `read_export`."""

    def stream(connection: "Connection") -> AsyncIterator[Document]:
        lists = [ListRequest(resource, EVERY_CLUSTER) for resource in resources]
        return stream_listed(connection, lists, show=show)

    async for document in _stream(export, kubeconfig, context, (), stream, show):
        yield document


def find_provider(documents: Iterable[Document], export: str) -> str:
    """Return the logical cluster of an APIExport, ``""`` outside kcp. Exits with a message if it is unknown."""
    keys = (key_of(document.object) for document in documents)
    object_key = next((key for key in keys if (key.group_kind, key.name) == (API_EXPORT, export)), None)
    if object_key is None:
        fail(f"--kcp-export: the workspace of the kubeconfig has no APIExport {export}")
    return object_key.cluster


def set_cluster(document: Document, cluster: str) -> Document:
    """Return an object in a logical cluster, if it names none."""
    if not cluster or cluster_of(document.object):
        return document
    metadata = document.object["metadata"]
    placed = {**metadata, "annotations": {**(metadata.get("annotations") or {}), CLUSTER_ANNOTATION: cluster}}
    return document._replace(object={**document.object, "metadata": placed})


async def _stream(
    export: str,
    kubeconfig: Path | None,
    context: str | None,
    own: Sequence[ListRequest],
    behind: _StreamConsumers,
    show: Show,
) -> AsyncIterator[Document]:
    """Yield objects of the provider's workspace, and those that a function yields in each virtual workspace."""
    from fleethook.cluster.apiserver_connection import Connection  # noqa: PLC0415 - see fleethook.cluster

    try:
        async with Connection(kubeconfig, context=context) as connection:
            if "/clusters/" not in connection.host:
                fail(f"--kcp-export: {connection.host} names no workspace: give a context with …/clusters/WORKSPACE")
            await check_rights(connection, own)
            async for document in stream_listed(connection, own, show=show):
                yield document
            urls = await find_urls(connection, export)
        for url in urls:
            async with Connection(kubeconfig, context=context, server=url) as connection:
                async for document in behind(connection):
                    yield document
    except (APIError, UnreachableError) as error:
        fail(f"cannot read the consumers of APIExport {export}: {error}")


async def check_rights(connection: "Connection", own: Sequence[ListRequest] = ()) -> None:
    """Exit with a message that names all rights that the user lacks in the workspace of the export."""
    rights = [(request.resource.group, request.resource.plural, "list") for request in own]
    rights += [("apis.kcp.io", "apiexportendpointslices", "list"), ("apis.kcp.io", "apiexports/content", "list")]
    try:
        missing = await list_missing(connection, rights)
    except APIError:  # The user may not ask. The lists tell then.
        return
    if missing:
        fail(f"--kcp-export: {connection.host}: {describe_rules(missing)}")


async def find_urls(connection: "Connection", export: str) -> list[str]:
    """Return the URLs of the virtual workspaces. Exits with a message if there are none."""
    from fleethook.cluster.kubernetes.export_connection import SLICES, list_urls  # noqa: PLC0415 - as above

    urls = list_urls(await connection.json("GET", SLICES), export)
    if not urls:
        fail(
            f"APIExport {export} has no virtual workspace in {connection.host}: check the name and the context; kcp "
            "writes its URL to an APIExportEndpointSlice as soon as the export has consumers"
        )
    return urls


async def _stream_bindings(connection: "Connection") -> AsyncIterator[Document]:
    """Yield the bindings of consumers, and their Namespaces if the export claims them."""
    try:
        found = await read_resource(connection, APIBINDINGS, prefix=EVERY_CLUSTER)
    except UnservedError as error:
        fail(f"{connection.host} is no virtual workspace of an APIExport: {error}")
    namespaces: list[JSONObject] = []
    with contextlib.suppress(UnservedError):
        namespaces = await read_resource(connection, NAMESPACES, prefix=EVERY_CLUSTER)
    # Without an accepted claim for Namespaces, the list has none of a consumer.
    if missing := {cluster_of(one) for one in found} - {cluster_of(one) for one in namespaces}:
        write_error(
            f"note: Namespaces of consumers {list_names(sorted(missing))} are unknown, because the APIExport has no "
            "accepted claim for them; webhooks with a namespaceSelector cannot be explained"
        )
    for document in (*found, *namespaces):
        yield Document(document, CLUSTER, 0)
