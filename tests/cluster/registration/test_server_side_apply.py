from typing import Any

import pytest

from fleethook.cluster.api_errors import APIError
from fleethook.cluster.registration.server_side_apply import apply_object, get_object, owns_fields, release_fields


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


OURS, HELM = {"manager": "m", "operation": "Apply"}, {"manager": "helm", "operation": "Apply"}


def owned(*managers: dict[str, str]) -> dict[str, Any]:
    return {"metadata": {"resourceVersion": "7", "managedFields": [*managers]}}


async def test_all_entries_of_a_manager_are_released_in_one_write_of_this_version() -> None:
    connection = Connection()
    update = {**OURS, "operation": "Update"}
    assert await release_fields(connection, "/p", owned(OURS, HELM, update), manager="m") == {}  # type: ignore[arg-type]
    ((_, options),) = connection.requests
    assert options["body"] == [
        {"op": "replace", "path": "/metadata/resourceVersion", "value": "7"},
        {"op": "replace", "path": "/metadata/managedFields", "value": [HELM]},
    ]


@pytest.mark.parametrize("managers", [(), (HELM,), (OURS,)])
async def test_nothing_is_written_without_an_entry_or_if_none_would_be_left(managers: tuple[dict[str, str]]) -> None:
    connection, stored = Connection(), owned(*managers)
    assert await release_fields(connection, "/p", stored, manager="m") is stored  # type: ignore[arg-type]
    assert connection.requests == []
    assert owns_fields(stored, "m") == (OURS in managers)
    assert not owns_fields({}, "m")


@pytest.mark.parametrize("code", [409, 403])
async def test_only_a_conflict_is_left_to_the_next_call(code: int) -> None:
    class Refusing(Connection):
        async def request(self, *_: str, **__: Any) -> bytes:
            raise APIError(code, "", "no")

    stored = owned(OURS, HELM)
    work = release_fields(Refusing(), "/p", stored, manager="m")  # type: ignore[arg-type]
    if code == 409:
        assert await work is stored
    else:
        with pytest.raises(APIError):
            await work
