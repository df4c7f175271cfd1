from typing import Any

import pytest

from app.kube.errors import APIError
from app.registration.server_side_apply import apply_object, get_object


class Connection:
    """Records writes, and answers each read with an object or an error."""

    def __init__(self, present: Any = None) -> None:
        self.present = present
        self.requests: list[Any] = []

    async def json(self, method: str, path: str) -> Any:
        assert (method, path) == ("GET", "/p")
        if isinstance(self.present, Exception):
            raise self.present
        return self.present

    async def request(self, *arguments: str, **options: Any) -> bytes:
        self.requests.append((arguments, options))
        return b"{}"


async def test_a_missing_object_is_none() -> None:
    assert await get_object(Connection({"a": 1}), "/p") == {"a": 1}  # type: ignore[arg-type]
    assert await get_object(Connection(APIError(404, "NotFound", "x")), "/p") is None  # type: ignore[arg-type]


async def test_other_errors_are_raised() -> None:
    with pytest.raises(APIError, match="may not"):
        await get_object(Connection(APIError(403, "Forbidden", "may not")), "/p")  # type: ignore[arg-type]


async def test_objects_are_applied_by_force_as_their_field_manager() -> None:
    connection = Connection()
    assert await apply_object(connection, "/p", {"kind": "K"}, manager="m") == b"{}"  # type: ignore[arg-type]
    assert connection.requests == [
        (
            ("PATCH", "/p"),
            {
                "query": {"fieldManager": "m", "force": "true"},
                "body": {"kind": "K"},
                "content_type": "application/apply-patch+yaml",
            },
        )
    ]
