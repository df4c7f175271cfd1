"""Reading the objects of a cluster with list requests, once for a command."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from app.cli.exit_codes import fail
from app.model.gvk import GroupKind
from app.model.json import JSONObject
from app.model.openyurt import NODE_POOL, POOL_NAME_LABEL, YURT_APP_DAEMON, YURT_APP_OVERRIDER, YURT_APP_SET

if TYPE_CHECKING:
    from app.kube.connection import Connection

_PAGE_SIZE: Final = "500"  # as kubectl
_NOT_SERVED: Final = 404


class Resource(NamedTuple):
    """A resource to read.

    Attributes:
        group_kind: Group and kind of its objects.
        plural: Name of the resource in URLs.
        versions: Versions in order of preference; the first one that the apiserver serves is read.
        selector: Label selector, ``""`` for all objects.
    """

    group_kind: GroupKind
    plural: str
    versions: tuple[str, ...]
    selector: str = ""


OPENYURT: Final = (
    Resource(YURT_APP_SET, "yurtappsets", ("v1beta1", "v1alpha1")),
    Resource(YURT_APP_DAEMON, "yurtappdaemons", ("v1alpha1",)),
    Resource(YURT_APP_OVERRIDER, "yurtappoverriders", ("v1alpha1",)),
    Resource(NODE_POOL, "nodepools", ("v1beta2", "v1beta1", "v1alpha1")),
)
"""Overriders, their subjects and NodePools. The newest version comes first: an older one may lack fields."""
WORKLOADS: Final = (
    Resource(GroupKind("apps", "Deployment"), "deployments", ("v1",), POOL_NAME_LABEL),
    Resource(GroupKind("apps", "StatefulSet"), "statefulsets", ("v1",), POOL_NAME_LABEL),
)
"""Workloads that belong to a node pool."""


def read_cluster(resources: Sequence[Resource], *, kubeconfig: Path | None, context: str | None) -> list[JSONObject]:
    """Return the objects of a cluster. Exits with a message if the cluster cannot be read.

    Args:
        resources: Resources to read. A resource that the apiserver does not serve has no objects.
        kubeconfig: File with the credentials, None for the service account of this pod.
        context: Context of the kubeconfig, None for its current context.
    """
    from app.kube.connection import Connection  # noqa: PLC0415 - see app.kube
    from app.kube.errors import APIError, UnreachableError  # noqa: PLC0415 - as above

    async def read() -> list[JSONObject]:
        async with Connection(kubeconfig, context=context) as connection:
            return [document for resource in resources for document in await read_resource(connection, resource)]

    try:
        return asyncio.run(read())
    except (APIError, UnreachableError) as error:
        fail(f"cannot read the cluster: {error}")


async def read_resource(connection: "Connection", resource: Resource) -> list[JSONObject]:
    """Return the objects of a resource, none if the apiserver does not serve it; raises APIError, UnreachableError."""
    from app.kube.errors import APIError  # noqa: PLC0415 - see app.kube

    for version in resource.versions:
        try:
            return await _read_version(connection, resource, version)
        except APIError as error:
            if error.code != _NOT_SERVED:
                raise
    return []


async def _read_version(connection: "Connection", resource: Resource, version: str) -> list[JSONObject]:
    group, kind = resource.group_kind
    path = f"/apis/{group}/{version}/{resource.plural}"
    query = {"limit": _PAGE_SIZE, **({"labelSelector": resource.selector} if resource.selector else {})}
    found: list[JSONObject] = []
    while True:
        page = await connection.json("GET", path, query=query)
        # Items of a list have neither apiVersion nor kind.
        found += [{**item, "apiVersion": f"{group}/{version}", "kind": kind} for item in page.get("items") or ()]
        token = (page.get("metadata") or {}).get("continue")
        if not token:
            return found
        query = {**query, "continue": token}
