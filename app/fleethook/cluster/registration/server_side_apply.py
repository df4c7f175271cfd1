"""Reading and writing single objects of the registration."""

from collections.abc import Sequence
from typing import Final

import msgspec

from fleethook.cluster.api_errors import APIError
from fleethook.cluster.connection import APPLY_PATCH, JSON_PATCH, Connection
from fleethook.model.json import JSONObject, as_object

_CLUSTER_ROLES: Final = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
_OWNER: Final[JSONObject] = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole"}
_NOT_FOUND: Final = 404
_CONFLICT: Final = 409


async def get_object(connection: Connection, path: str) -> JSONObject | None:
    """Return the object at a path, None if it does not exist; raises APIError, UnreachableError."""
    try:
        present: JSONObject = await connection.json("GET", path)
    except APIError as error:
        if error.code == _NOT_FOUND:
            return None
        raise
    return present


async def read_owner(connection: Connection, cluster_role: str) -> JSONObject:
    """Return the member of ``metadata`` that names a ClusterRole as the owner; nothing for ``""``.

    Kubernetes deletes objects with their owner. If the ClusterRole does not exist, this raises APIError: nothing would
    ever delete them.
    """
    if not cluster_role:
        return {}
    found = as_object(await connection.json("GET", f"{_CLUSTER_ROLES}/{cluster_role}"))
    uid = as_object(found["metadata"])["uid"]
    return {"ownerReferences": [{**_OWNER, "name": cluster_role, "uid": uid}]}


async def apply_object(connection: Connection, path: str, body: JSONObject, *, manager: str) -> bytes:
    """Apply an object as a field manager and return the stored object; raises APIError, UnreachableError.

    The request takes over fields that another manager owns (``force``).
    """
    query = {"fieldManager": manager, "force": "true"}
    return await connection.request("PATCH", path, query=query, body=body, content_type=APPLY_PATCH)


async def patch_object(
    connection: Connection, path: str, version: str, operations: Sequence[JSONObject], *, manager: str
) -> JSONObject:
    """Change an object by a JSON patch and return the stored object.

    Raises:
        APIError: The apiserver refuses the write; 409 if the object has another resourceVersion.
        UnreachableError: The apiserver does not respond.
    """
    body = [{"op": "replace", "path": "/metadata/resourceVersion", "value": version}, *operations]
    query = {"fieldManager": manager}
    text = await connection.request("PATCH", path, query=query, body=body, content_type=JSON_PATCH)
    stored: JSONObject = msgspec.json.decode(text)
    return stored


def owns_fields(stored: JSONObject, manager: str) -> bool:
    """Return whether a field manager owns fields of an object."""
    entries = as_object(stored.get("metadata")).get("managedFields") or ()
    return any(one.get("manager") == manager for one in entries)


async def release_fields(connection: Connection, path: str, stored: JSONObject, *, manager: str) -> JSONObject:
    """Give up the ownership of all fields of a field manager, and return the stored object. The values stay.

    An installer that applies server-side, as Helm 4 does, can otherwise not remove an element of which another manager
    owns a field: the rest of the element stays and is invalid, so the upgrade or rollback fails.

    Raises:
        APIError: The apiserver refuses the write. A conflict is no error: the next call does the same.
        UnreachableError: The apiserver does not respond.
    """
    if not owns_fields(stored, manager):
        return stored
    metadata = stored["metadata"]
    kept = [one for one in metadata["managedFields"] if one.get("manager") != manager]
    if not kept:
        return stored  # Without an entry, the apiserver would later give all fields to another manager.
    change: JSONObject = {"op": "replace", "path": "/metadata/managedFields", "value": kept}
    try:
        return await patch_object(connection, path, metadata["resourceVersion"], [change], manager=manager)
    except APIError as error:
        if error.code != _CONFLICT:
            raise
        return stored
