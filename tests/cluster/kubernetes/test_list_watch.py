"""Lists over all logical clusters name the identity of an APIExport; `tests/cli/serve/test_serve_kcp.py` reads one over HTTP."""

import asyncio

import pytest

from fleethook.cluster.api_errors import APIError
from fleethook.cluster.kubernetes.list_watch import (
    EVERY_CLUSTER,
    Progress,
    find_list_path,
    is_required,
)
from fleethook.cluster.kubernetes.resources import (
    APIBINDINGS,
    NAMESPACES,
    WORKSPACES,
    YURT_APP_SETS,
    WatchedResource,
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


async def test_a_bookmark_moves_what_was_seen_but_not_the_last_change() -> None:
    progress = Progress()
    progress.restart("10")
    progress.change("12")
    progress.advance("20")
    assert (progress.place, progress.seen, progress.changed) == ("20", 20, 12)


async def test_waiters_wake_when_their_version_was_seen() -> None:
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
        assert sorted(woken) == expected
    await asyncio.gather(*waiting)


async def test_a_list_of_a_restored_etcd_sets_the_progress_back() -> None:
    progress = Progress()
    progress.restart("1000")
    progress.restart("50")
    assert (progress.place, progress.seen, progress.changed) == ("50", 50, 50)
