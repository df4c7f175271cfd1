"""``fleethook crds apply --instance`` and ``--all``: refusals before any server is asked."""

from pathlib import Path

import pytest

from tests.cli.commands import invoke
from tests.engines.crds.apply.apiserver import kubeconfig, serving


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--all", "--instance", "a/b"), "give --instance or --all, not both"),
        (
            ("--all", "--karmada", "k.yaml"),
            "give --karmada FILE or instances of a cluster (--instance, --all), not both",
        ),
        (("--all", "--name", "x"), "--name and --namespace are for one instance: give one --instance"),
        (("--instance", "a/b", "--instance", "a/c", "--namespace", "x"), "--name and --namespace are for one instance"),
        (("--instance", "demo"), "--instance demo: must be NAMESPACE/NAME"),
        (("--instance", "a/b/c"), "--instance a/b/c: must be NAMESPACE/NAME"),
        (("--all", "--kubeconfig", "/nowhere"), "--kubeconfig: there is no file /nowhere"),
        (("--all", "--ca-file", "/nowhere.pem"), "/nowhere.pem"),
    ],
)
def test_contradictory_options_are_refused(tmp_path: Path, arguments: tuple[str, ...], text: str) -> None:
    config = kubeconfig(tmp_path, "http://127.0.0.1:9")
    given = arguments if "--kubeconfig" in arguments else (*arguments, "--kubeconfig", str(config))
    result = invoke(["crds", "--data-dir", str(tmp_path / "data"), "apply", *given])
    assert result.exit_code == 2, result.output
    assert text in result.stderr
    assert result.stdout == ""


def test_a_cluster_without_the_kind_is_reported(tmp_path: Path) -> None:
    with serving() as (_, address):
        command = [
            "crds",
            "--data-dir",
            str(tmp_path / "data"),
            "apply",
            "--kubeconfig",
            str(kubeconfig(tmp_path, address)),
        ]
        every = invoke([*command, "--all"])
        assert (every.exit_code, "give the kubeconfig of the host cluster" in every.stderr) == (2, True)
        named = invoke([*command, "--instance", "ns/demo"])
    assert named.exit_code == 2
    assert named.stdout == f"failed   ns/demo  there is no Karmada ns/demo at {address}\n"
