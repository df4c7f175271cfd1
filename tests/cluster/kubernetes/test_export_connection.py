from pathlib import Path
from typing import Any

import pytest

from fleethook.cluster.api_errors import APIError, UnreachableError
from fleethook.cluster.kubernetes.export_connection import ExportConnection, list_urls
from tests.kcp_export import BINDINGS, kcp_export


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
