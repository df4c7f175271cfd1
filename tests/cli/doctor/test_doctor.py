"""The options of ``fleethook doctor``, and clusters that it cannot read."""

from pathlib import Path

import pytest

from tests.cli.commands import invoke
from tests.cli.fake_cluster import Cluster


def test_the_cache_server_needs_a_kcp(tmp_path: Path) -> None:
    result = invoke(["doctor", "--kubeconfig", str(tmp_path / "c"), "--kcp-cache-kubeconfig", str(tmp_path / "c")])
    assert (result.exit_code, result.stderr) == (2, "fleethook: --kcp-cache-kubeconfig needs --kcp\n")


def doctor(*arguments: str, **environment: str) -> tuple[int, str, str]:
    result = invoke(["doctor", *arguments], env=environment)
    return result.exit_code, result.stdout, result.stderr


def test_without_a_kubeconfig_the_command_names_the_options(tmp_path: Path) -> None:
    code, out, err = doctor(HOME=str(tmp_path), KUBECONFIG="")
    where = f"$KUBECONFIG is not set, and there is no file {tmp_path}/.kube/config"
    assert (code, out) == (2, "")
    assert err == f"fleethook: there is no kubeconfig: {where}; give --kubeconfig FILE or --in-cluster\n"


def test_the_environment_names_the_kubeconfig(tmp_path: Path) -> None:
    code, _, err = doctor(HOME=str(tmp_path), KUBECONFIG=str(tmp_path / "nowhere"))
    assert code == 2
    assert str(tmp_path / "nowhere") in err


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (("--kubeconfig", "f", "--service-account", "name"), "'name' is not NAMESPACE/NAME"),
    ],
)
def test_contradicting_options_exit_2(arguments: tuple[str, ...], part: str) -> None:
    code, out, err = doctor(*arguments)
    assert (code, out, part in err) == (2, "", True)


def test_an_apiserver_that_cannot_be_read_exits_2(cluster: tuple[Cluster, tuple[str, ...]]) -> None:
    code, out, err = doctor(*cluster[1])
    assert (code, out) == (2, "")
    assert err.startswith("fleethook: cannot examine the cluster: ")
