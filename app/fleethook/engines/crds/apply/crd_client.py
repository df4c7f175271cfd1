"""Requests to API servers about CRDs and instances, with errors as CRDsError."""

from collections.abc import Mapping
from typing import Final

import msgspec

from fleethook.cluster.api_errors import APIError, UnreachableError
from fleethook.cluster.connection import APPLY_PATCH, Connection
from fleethook.cluster.kubernetes.resources import api_path
from fleethook.engines.crds.apply.crd_patches import Patch
from fleethook.engines.crds.crds_errors import CRDsError, Exit
from fleethook.model.json import JSON, JSONObject, as_object

_NOT_FOUND: Final = 404
_TOO_MANY_REQUESTS: Final = 429
_SERVER_ERROR: Final = 500


async def request_object(
    connection: Connection, method: str, path: str, *, about: str, **rest: JSON
) -> Mapping[str, JSON] | None:
    """Send a request and return the object of the response, or None for 404.

    Args:
        connection: Connection to the API server.
        method: HTTP method.
        path: Path of the URL.
        about: The object or kind, for errors.
        rest: More arguments for `fleethook.cluster.connection.Connection.request`.

    Raises:
        CRDsError: NETWORK without a response; HTTP with the server's message if it refuses.
    """
    try:
        return as_object(await connection.json(method, path, **rest))
    except APIError as error:
        if error.code == _NOT_FOUND:
            return None
        transient = error.code >= _SERVER_ERROR or error.code == _TOO_MANY_REQUESTS
        raise CRDsError(Exit.HTTP, f"{about}: {error}", transient=transient) from None
    except UnreachableError as error:
        raise CRDsError(Exit.NETWORK, f"{about}: {error}", transient=True) from None
    except msgspec.DecodeError:
        raise CRDsError(Exit.HTTP, f"{about}: {connection.host} does not answer like an apiserver") from None


async def read_namespaced(host: Connection, namespace: str, plural: str, name: str) -> JSONObject | None:
    """Return an object of the core group in the namespace of an instance, or None for 404.

    Raises:
        CRDsError: USAGE if reading is forbidden, NETWORK without a response. The message has no value of the object.
    """
    try:
        return dict(as_object(await host.json("GET", f"{api_path('', 'v1')}/namespaces/{namespace}/{plural}/{name}")))
    except APIError as error:
        if error.code == _NOT_FOUND:
            return None
        raise CRDsError(Exit.USAGE, f"cannot read {plural}/{name}: {error}", transient=True) from None
    except (UnreachableError, msgspec.DecodeError) as error:
        raise CRDsError(Exit.NETWORK, f"cannot read {plural}/{name}: {error}", transient=True) from None


FIELD_MANAGER: Final = "karmada-operator"
"""The field manager of Karmada's operator, so that both can apply in turn without conflicts.

Upstream: operator/pkg/util/apiclient/idempotency.go (v1.17.1).
"""
STRATEGIC_MERGE_PATCH: Final = "application/strategic-merge-patch+json"
_CRDS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_KIND: Final = "customresourcedefinitions"


async def find(connection: Connection, name: str) -> Mapping[str, JSON] | None:
    """Return a stored CRD, or None if the server has none of that name; raises as `apply`."""
    return await _request(connection, "GET", name)


async def find_all(connection: Connection) -> list[Mapping[str, JSON]]:
    """Return all CRDs of the server; raises as `apply`."""
    found = as_object(await _request(connection, "GET", ""))
    items = found.get("items")
    return [as_object(one) for one in items] if isinstance(items, list) else []


async def apply(connection: Connection, name: str, crd: JSONObject, *, dry_run: bool) -> Mapping[str, JSON]:
    """Apply a CRD with force, and return the resulting object.

    Raises:
        CRDsError: NETWORK without a response, HTTP with the server's message if it refuses.
    """
    query = {"fieldManager": FIELD_MANAGER, "force": "true", **_build_dry_run_query(dry_run=dry_run)}
    return await _write(connection, name, query=query, body=crd, content_type=APPLY_PATCH)


async def patch(connection: Connection, one: Patch, *, dry_run: bool) -> Mapping[str, JSON]:
    """Send a patch and return the resulting CRD; raises as `apply`."""
    query = {"fieldManager": FIELD_MANAGER, **_build_dry_run_query(dry_run=dry_run)}
    return await _write(connection, one.crd, query=query, body=one.body, content_type=STRATEGIC_MERGE_PATCH)


def _build_dry_run_query(*, dry_run: bool) -> dict[str, str]:
    return {"dryRun": "All"} if dry_run else {}


async def _write(connection: Connection, name: str, **rest: JSON) -> Mapping[str, JSON]:
    found = await _request(connection, "PATCH", name, **rest)
    if found is None:
        raise CRDsError(Exit.HTTP, f"{name}: the server has no such CRD")
    return found


async def _request(connection: Connection, method: str, name: str, **rest: JSON) -> Mapping[str, JSON] | None:
    return await request_object(connection, method, f"{_CRDS}/{name}".rstrip("/"), about=name or _KIND, **rest)
