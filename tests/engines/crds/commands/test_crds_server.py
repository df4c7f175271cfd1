"""The API server that CRDs are applied to or compared with."""

import contextlib
from pathlib import Path

import pytest

from fleethook.cli.inputs.kubeconfig import Target
from fleethook.engines.crds.apply.diff import CRDChange
from fleethook.engines.crds.commands.crds_server import connect, format_changes
from fleethook.engines.crds.crds_errors import CRDsError, Exit
from tests.engines.crds.apply.apiserver import kubeconfig, serving


def test_changes_are_lines_and_their_absence_is_stated() -> None:
    assert format_changes([]) == ["no differences"]
    assert format_changes([CRDChange("a.example.org", "added"), CRDChange("b.example.org", "removed")]) == [
        "added    a.example.org", "removed  b.example.org",
    ]  # fmt: skip


async def test_a_connection_ends_with_its_stack(tmp_path: Path) -> None:
    with serving() as (api, address):
        async with contextlib.AsyncExitStack() as stack:
            connection = await connect(stack, Target(kubeconfig(tmp_path, address)))
            api.disturb = lambda *_: (200, {"gitVersion": "v1"})
            assert await connection.json("GET", "/version") == {"gitVersion": "v1"}


async def test_a_malformed_kubeconfig_is_a_usage_error(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text("clusters: 5")
    with pytest.raises(CRDsError, match=f"credentials cannot be read from {path}: it is malformed") as raised:
        async with contextlib.AsyncExitStack() as stack:
            await connect(stack, Target(path))
    assert raised.value.exit is Exit.USAGE
