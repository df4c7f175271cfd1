"""Reading and applying single objects of the registration."""

from typing import Final

from app.kube.connection import APPLY_PATCH, Connection
from app.kube.errors import APIError
from app.model.json import JSONObject

_NOT_FOUND: Final = 404


async def get_object(connection: Connection, path: str) -> JSONObject | None:
    """Return the object at a path, None if it does not exist; raises APIError, UnreachableError."""
    try:
        present: JSONObject = await connection.json("GET", path)
    except APIError as error:
        if error.code == _NOT_FOUND:
            return None
        raise
    return present


async def apply_object(connection: Connection, path: str, body: JSONObject, *, manager: str) -> bytes:
    """Apply an object as a field manager and return the stored object; raises APIError, UnreachableError.

    The request takes over fields that another manager owns (``force``).
    """
    query = {"fieldManager": manager, "force": "true"}
    return await connection.request("PATCH", path, query=query, body=body, content_type=APPLY_PATCH)
