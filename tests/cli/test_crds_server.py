"""The API server that CRDs are applied to or compared with."""

import contextlib
from pathlib import Path

import pytest

from app.cli.crds_server import connect, find_kubeconfig, format_changes
from app.crds.apply.diff import CRDChange
from app.crds.failures import CRDsError, Exit
from tests.crds.apply.apiserver import kubeconfig, serving


def test_changes_are_lines_and_their_absence_is_stated() -> None:
    assert format_changes([]) == ["no differences"]
    assert format_changes([CRDChange("a.example.org", "added"), CRDChange("b.example.org", "removed")]) == [
        "added    a.example.org", "removed  b.example.org",
    ]  # fmt: skip


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    return tmp_path


def test_the_given_file_wins_then_the_variable_then_the_home(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usual, variable, given = home / ".kube" / "config", home / "variable", home / "given"
    usual.parent.mkdir()
    for path in (usual, variable, given):
        path.write_text("")
    assert find_kubeconfig(None) == usual
    monkeypatch.setenv("KUBECONFIG", str(variable))
    assert find_kubeconfig(None) == variable
    assert find_kubeconfig(given) == given


def test_some_of_several_files_may_be_missing(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "there").write_text("")
    several = f"{home / 'missing'}:{home / 'there'}"
    monkeypatch.setenv("KUBECONFIG", several)
    assert str(find_kubeconfig(None)) == several
    monkeypatch.setenv("KUBECONFIG", str(home / "missing"))
    with pytest.raises(CRDsError, match=r"there is no kubeconfig: .*missing.*; give --kubeconfig") as raised:
        find_kubeconfig(None)
    assert raised.value.exit is Exit.USAGE
    with pytest.raises(CRDsError, match=r"there is no file .*other$") as raised:
        find_kubeconfig(home / "other")
    assert "give --kubeconfig" not in str(raised.value)


async def test_a_connection_ends_with_its_stack(tmp_path: Path) -> None:
    with serving() as (api, address):
        async with contextlib.AsyncExitStack() as stack:
            connection = await connect(stack, kubeconfig(tmp_path, address))
            api.disturb = lambda *_: (200, {"gitVersion": "v1"})
            assert await connection.json("GET", "/version") == {"gitVersion": "v1"}


async def test_a_malformed_kubeconfig_is_a_usage_error(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text("clusters: 5")
    with pytest.raises(CRDsError, match=f"the kubeconfig {path} cannot be used") as raised:
        async with contextlib.AsyncExitStack() as stack:
            await connect(stack, path)
    assert raised.value.exit is Exit.USAGE
