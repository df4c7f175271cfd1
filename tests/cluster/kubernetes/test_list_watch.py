"""Lists over all logical clusters name the identity of an APIExport; `tests/cli/serve/test_serve_kcp.py` reads one over HTTP."""

import asyncio

import msgspec
import pytest

from fleethook.cluster.api_errors import APIError
from fleethook.cluster.kubernetes.list_watch import (
    EVERY_CLUSTER,
    Progress,
    as_number,
    decode_event,
    decode_page,
    failure_of,
    find_list_path,
    is_required,
    version_of,
)
from fleethook.cluster.kubernetes.resources import (
    APIBINDINGS,
    NAMESPACES,
    WORKSPACES,
    YURT_APP_SETS,
    WatchedResource,
    decode_metadata,
    decode_object,
)

NEW = "/clusters/root/apis/apis.kcp.io/v1alpha2/apiexports/tenancy.kcp.io"
OLD = NEW.replace("v1alpha2", "v1alpha1")
COPIES = "/clusters/system:shard/api/v1/namespaces/default/configmaps/apiexport-identity-cache"
EXPORT = b'{"status": {"identityHash": "1a"}}'
CONFIG_MAP = b'{"data": {"tenancy.kcp.io": "2b", "topology.kcp.io": "3c"}}'
ANY = "/clusters/*/apis/tenancy.kcp.io/v1alpha1/workspaces"


class Answers:
    """Answers by path: a body or a status."""

    def __init__(self, answers: dict[str, bytes | int]) -> None:
        self.answers = answers

    async def request(self, _method: str, path: str, *, query: object = None) -> bytes:
        del query
        answer = self.answers.get(path, 404)
        if isinstance(answer, int):
            raise APIError(answer, "", f"status {answer}")
        return answer


@pytest.mark.parametrize(
    ("answers", "identity"),
    [
        ({NEW: EXPORT, COPIES: CONFIG_MAP}, "1a"),
        ({OLD: EXPORT}, "1a"),
        ({COPIES: CONFIG_MAP}, "2b"),
        ({NEW: 403, OLD: 403, COPIES: CONFIG_MAP}, "2b"),
        ({NEW: b'{"status": {}}', COPIES: CONFIG_MAP}, "2b"),
    ],
)
async def test_the_identity_comes_from_root_or_from_the_copies_of_the_shard(
    answers: dict[str, bytes | int], identity: str
) -> None:
    assert await find_list_path(Answers(answers), WORKSPACES, EVERY_CLUSTER) == f"{ANY}:{identity}"


@pytest.mark.parametrize(
    ("answers", "code"), [({}, 404), ({OLD: 403}, 403), ({NEW: b"[]", COPIES: b"{}"}, 404), ({NEW: 500}, 500)]
)
async def test_an_unreadable_identity_is_an_error_that_names_the_paths(
    answers: dict[str, bytes | int], code: int
) -> None:
    with pytest.raises(APIError) as caught:
        await find_list_path(Answers(answers), WORKSPACES, EVERY_CLUSTER)
    assert caught.value.code == code
    assert all(one in caught.value.message for one in (NEW, OLD, COPIES)) is (code != 500)


@pytest.mark.parametrize("prefix", ["", "/clusters/root"])
async def test_one_cluster_needs_no_identity(prefix: str) -> None:
    assert await find_list_path(Answers({}), WORKSPACES, prefix) == prefix + WORKSPACES.path


@pytest.mark.parametrize(
    ("resource", "prefix", "required"),
    [
        (NAMESPACES, "", True), (NAMESPACES, EVERY_CLUSTER, True), (YURT_APP_SETS, "", False),
        (APIBINDINGS, "", False), (APIBINDINGS, EVERY_CLUSTER, True), (WORKSPACES, EVERY_CLUSTER, True),
    ],
)  # fmt: skip
def test_a_404_is_a_fault_of_kinds_that_need_no_definition(
    resource: WatchedResource, prefix: str, *, required: bool
) -> None:
    assert is_required(resource, prefix) is required


def test_a_page_leaves_its_items_undecoded() -> None:
    page = decode_page(b'{"metadata":{"resourceVersion":"7","continue":"c"},"items":[{"a":1},{"b":2}]}')
    assert ([bytes(item) for item in page.items], page.resource_version, page.continue_token) == (
        [b'{"a":1}', b'{"b":2}'], "7", "c",
    )  # fmt: skip


def test_an_empty_list_is_written_as_null_by_some_servers() -> None:
    assert decode_page(b'{"metadata":{},"items":null}') == ([], "", "", "")


def test_bookmarks_and_errors_are_decoded() -> None:
    event = decode_event(b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"12"}}}')
    assert (event.type, version_of(event.object)) == ("BOOKMARK", "12")
    event = decode_event(b'{"type":"ERROR","object":{"code":410,"reason":"Expired","message":"m","status":"Failure"}}')
    assert failure_of(event.object) == (410, "Expired", "m")


@pytest.mark.parametrize("line", [b"", b"{", b"[]", b'{"object":{}}', b'{"type":1,"object":{}}'])
def test_other_lines_than_events_are_errors(line: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        decode_event(line)


@pytest.mark.parametrize(("version", "number"), [("12", 12), ("", 0), ("abc", 0), ("-1", 0), ("9" * 19, int("9" * 19))])
def test_versions_are_compared_as_numbers(version: str, number: int) -> None:
    assert as_number(version) == number


def test_objects_are_decoded_without_managed_fields() -> None:
    text = b'{"metadata":{"name":"a","managedFields":[{}]},"spec":{"x":1}}'
    assert decode_object(text) == {"metadata": {"name": "a"}, "spec": {"x": 1}}


def test_partial_objects_are_decoded_from_metadata_only() -> None:
    text = b'{"metadata":{"name":"a","labels":{"l":"1"},"managedFields":[{}]},"spec":{"x":1}}'
    assert decode_metadata(text) == {"metadata": {"name": "a", "labels": {"l": "1"}}}


async def test_a_bookmark_moves_what_was_seen_but_not_the_last_change() -> None:
    progress = Progress()
    progress.restart("10")
    progress.change("12")
    progress.advance("20")
    assert (progress.place, progress.seen, progress.changed) == ("20", 20, 12)


async def test_waiters_wake_in_the_order_of_their_versions() -> None:
    progress = Progress()
    progress.restart("10")
    woken: list[int] = []

    async def wait(version: int) -> None:
        await progress.wait_for(version)
        woken.append(version)

    waiting = [asyncio.create_task(wait(version)) for version in (15, 12, 10, 15)]
    for place, expected in (("11", [10]), ("12", [10, 12]), ("30", [10, 12, 15, 15])):
        progress.advance(place)
        for _ in range(3):
            await asyncio.sleep(0)
        assert woken == expected
    await asyncio.gather(*waiting)


async def test_a_cancelled_waiter_does_not_disturb_the_others() -> None:
    progress = Progress()
    cancelled, other = (asyncio.create_task(progress.wait_for(version)) for version in (5, 6))
    await asyncio.sleep(0)
    cancelled.cancel()
    await asyncio.sleep(0)
    progress.advance("6")
    await asyncio.wait_for(other, 60)
    assert cancelled.cancelled()


async def test_a_list_of_a_restored_etcd_sets_the_progress_back() -> None:
    progress = Progress()
    progress.restart("1000")
    progress.restart("50")
    assert (progress.place, progress.seen, progress.changed) == ("50", 50, 50)
