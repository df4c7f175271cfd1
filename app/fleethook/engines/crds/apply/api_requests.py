"""Requests to an API server for the commands and the controller, with errors as CRDsError."""

from collections.abc import Mapping
from typing import Final

import msgspec

from fleethook.cluster.api_errors import APIError, UnreachableError
from fleethook.cluster.connection import Connection
from fleethook.cluster.kubernetes.resources import api_path
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
