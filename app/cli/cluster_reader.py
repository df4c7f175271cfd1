"""Reading the objects of a cluster once, for a command."""

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

_PAGE: Final = "500"
_NOT_SERVED: Final = 404


class Resource(NamedTuple):
    """A resource to read."""

    group_kind: GroupKind
    plural: str
    versions: tuple[str, ...]
    """The first one that the apiserver serves is read."""
    selector: str = ""


OPENYURT: Final = (
    Resource(YURT_APP_SET, "yurtappsets", ("v1beta1", "v1alpha1")),
    Resource(YURT_APP_DAEMON, "yurtappdaemons", ("v1alpha1",)),
    Resource(YURT_APP_OVERRIDER, "yurtappoverriders", ("v1alpha1",)),
    Resource(NODE_POOL, "nodepools", ("v1beta2", "v1beta1", "v1alpha1")),
)
"""What overriders are about. A v1beta1 object that is read as v1alpha1 lacks what that version cannot say."""
WORKLOADS: Final = (
    Resource(GroupKind("apps", "Deployment"), "deployments", ("v1",), POOL_NAME_LABEL),
    Resource(GroupKind("apps", "StatefulSet"), "statefulsets", ("v1",), POOL_NAME_LABEL),
)
"""The workloads of node pools."""


def read_cluster(resources: Sequence[Resource], *, kubeconfig: Path | None, context: str | None) -> list[JSONObject]:
    """Return the objects of a cluster; leaves with a message if it cannot be read.

    Args:
        resources: What to read. A resource that is not served has no objects.
        kubeconfig: The file with the credentials, None for the service account of the pod that this runs in.
        context: The context in that file, None for its current one.
    """
    from app.kube.connection import Connection  # noqa: PLC0415 - see app.kube
    from app.kube.errors import APIError, UnreachableError  # noqa: PLC0415 - as above

    async def read() -> list[JSONObject]:
        async with Connection(kubeconfig, context=context) as connection:
            return [document for resource in resources for document in await read_resource(connection, resource)]

    try:
        return asyncio.run(read())
    except (APIError, UnreachableError) as error:
        fail(f"the cluster cannot be read: {error}")


async def read_resource(connection: "Connection", resource: Resource) -> list[JSONObject]:
    """Return the objects of a resource, none if it is not served; raises APIError, UnreachableError."""
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
    query = {"limit": _PAGE, **({"labelSelector": resource.selector} if resource.selector else {})}
    found: list[JSONObject] = []
    while True:
        page = await connection.json("GET", path, query=query)
        # The items of a list do not say what they are.
        found += [{**item, "apiVersion": f"{group}/{version}", "kind": kind} for item in page.get("items") or ()]
        token = (page.get("metadata") or {}).get("continue")
        if not token:
            return found
        query = {**query, "continue": token}
