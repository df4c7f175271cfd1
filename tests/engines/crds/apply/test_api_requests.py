"""Requests to an API server, and their errors."""

from typing import Any

import pytest

from fleethook.cluster.connection import Connection
from fleethook.engines.crds.apply.api_requests import read_namespaced, request_object
from fleethook.engines.crds.crds_errors import CRDsError, Exit
from tests.engines.crds.apply.apiserver import ApiServer

PATH = "/apis/example.org/v1/widgets/a"
ERRORS = [
    ((403, {"message": "no", "reason": "Forbidden"}), Exit.HTTP, False),
    ((429, {"message": "no"}), Exit.HTTP, True),
    ((500, {"message": "no"}), Exit.HTTP, True),
    ((503, "no"), Exit.HTTP, True),
    ((200, "<html>"), Exit.HTTP, False),
    ("cut", Exit.NETWORK, True),
]


@pytest.mark.parametrize(("answer", "expected"), [((200, {"a": 1}), {"a": 1}), ((404, {"message": "no"}), None)])
async def test_an_object_is_returned_and_a_missing_one_is_none(
    api: ApiServer, connection: Connection, answer: Any, expected: Any
) -> None:
    api.disturb = lambda _asked, _times: answer
    assert await request_object(connection, "GET", PATH, about="widgets/a") == expected
    assert await read_namespaced(connection, "n", "secrets", "s") == expected


async def test_an_answer_that_is_no_object_has_no_members(api: ApiServer, connection: Connection) -> None:
    api.disturb = lambda _asked, _times: (200, ["a"])
    assert await request_object(connection, "GET", PATH, about="widgets/a") == {}


@pytest.mark.parametrize(("answer", "exit_code", "is_transient"), ERRORS)
async def test_each_error_names_the_object_and_whether_it_may_pass(
    api: ApiServer, connection: Connection, answer: Any, exit_code: Exit, *, is_transient: bool
) -> None:
    api.disturb = lambda _asked, _times: answer
    with pytest.raises(CRDsError, match=r"^widgets/a: ") as caught:
        await request_object(connection, "GET", PATH, about="widgets/a")
    assert (caught.value.exit, caught.value.transient) == (exit_code, is_transient)


@pytest.mark.parametrize(
    ("answer", "exit_code"),
    [((403, {"message": "no"}), Exit.USAGE), ((200, "<html>"), Exit.NETWORK), ("cut", Exit.NETWORK)],
)
async def test_an_object_of_an_instance_that_cannot_be_read_is_tried_again(
    api: ApiServer, connection: Connection, answer: Any, exit_code: Exit
) -> None:
    api.disturb = lambda _asked, _times: answer
    with pytest.raises(CRDsError, match=r"^cannot read secrets/s: ") as caught:
        await read_namespaced(connection, "n", "secrets", "s")
    assert (caught.value.exit, caught.value.transient) == (exit_code, True)
