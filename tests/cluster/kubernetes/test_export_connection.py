"""Lists over all logical clusters name the identity of an APIExport; `tests/cli/serve/test_serve_kcp.py` reads one over HTTP."""

from pathlib import Path
from typing import Any

import pytest

from fleethook.cluster.api_errors import APIError, UnreachableError
from fleethook.cluster.kubernetes.export_connection import ExportConnection, list_urls
from fleethook.cluster.kubernetes.list_reading_and_decoding import EVERY_CLUSTER, find_list_path
from fleethook.cluster.kubernetes.watched_resources import WORKSPACES
from tests.kcp_export import BINDINGS, kcp_export

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


def make_slice(export: str, *urls: str) -> dict[str, Any]:
    return {"spec": {"export": {"name": export}}, "status": {"endpoints": [{"url": one} for one in urls]}}


def test_the_urls_are_those_of_the_export() -> None:
    slices = {"items": [make_slice("other", "https://o"), make_slice("guard", "https://a", "https://b"), {}]}
    assert list_urls(slices, "guard") == ["https://a", "https://b"]
    assert list_urls({}, "guard") == []


async def test_lists_are_empty_until_the_export_has_a_consumer(tmp_path: Path) -> None:
    with kcp_export(tmp_path) as (kcp, (_, config, *_rest)):
        async with ExportConnection(Path(config), context=None, export="guard") as connection:
            path = f"/clusters/*{BINDINGS}"
            assert (await connection.json("GET", path))["items"] == []
            kcp.bind("c")
            with pytest.raises(APIError, match="410 Expired: the APIExport has its first consumer"):
                async with connection.lines(path, query={"resourceVersion": ""}, idle=1):
                    pass
            assert len((await connection.json("GET", path))["items"]) == 1
            assert connection.provider == "p"


async def test_an_export_on_several_shards_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with kcp_export(tmp_path) as (kcp, (_, config, *_rest)):
        monkeypatch.setattr(
            kcp, "_list_slices", lambda: {"items": [make_slice("guard", "http://a/p/g", "http://b/p/g")]}
        )
        async with ExportConnection(Path(config), context=None, export="guard") as connection:
            with pytest.raises(UnreachableError, match="one for each shard, and a server reads one shard"):
                await connection.request("GET", f"/clusters/*{BINDINGS}")
