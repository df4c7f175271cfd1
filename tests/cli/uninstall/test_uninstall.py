"""The arguments and the output of `fleethook uninstall`; tests/e2e/test_uninstall.py has a real apiserver."""

import json
from pathlib import Path

import pytest

from fleethook.cli.uninstall.uninstall import _format_row, _summarize
from fleethook.cli.uninstall.uninstall_cluster import Removal, RemovalAction
from tests.cli.commands import invoke
from tests.cli.fake_cluster import serve_cluster

DELETED = Removal(RemovalAction.DELETED, "ClusterRole", "", "fleethook")
RESTORED = Removal(RemovalAction.RESTORED, "Deployment", "n", "web")
LEFT = Removal(RemovalAction.LEFT, "Deployment", "n", "old", "it has no owner")


def test_rows_name_the_change_in_the_past_or_as_a_plan() -> None:
    assert [_format_row(one, dry_run=False) for one in (DELETED, RESTORED, LEFT)] == [
        "deleted   ClusterRole fleethook", "restored  Deployment n/web", "left      Deployment n/old: it has no owner",
    ]  # fmt: skip
    assert _format_row(DELETED, dry_run=True) == "would delete   ClusterRole fleethook"
    assert _summarize([DELETED, RESTORED, LEFT], dry_run=True) == (
        "1 would be deleted, 1 would be restored, 0 would be cleaned, 1 left"
    )


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ([], "give one of --kubeconfig, --context and --in-cluster"),
        (["--in-cluster", "--kubeconfig", "x"], "give only one of --kubeconfig and --in-cluster"),
        (["--in-cluster"], "not finished, repeat the command: credentials cannot be read"),
    ],
)
def test_invalid_arguments_are_named(arguments: list[str], problem: str) -> None:
    result = invoke(["uninstall", *arguments])
    assert (result.exit_code, problem in result.stderr) == (2, True)


def test_a_cluster_without_fleethook_is_complete_and_a_missing_right_is_said_once(tmp_path: Path) -> None:
    with serve_cluster(tmp_path) as (cluster, options):
        done = invoke(["uninstall", *options])
        assert done == (0, "nothing of fleethook is registered\n", "")
        cluster.lists["/api/v1/secrets"] = []
        answer = cluster.answer
        refusal = {"kind": "Status", "reason": "Forbidden", "message": 'User "u" cannot list resource "secrets"'}
        cluster.answer = lambda url: (403, refusal) if "/secrets" in url else answer(url)  # type: ignore[method-assign]
        partly = invoke(["uninstall", *options, "--output", "json"])
    assert partly.exit_code == 1
    assert json.loads(partly.stdout) == {
        "dryRun": False,
        "complete": False,
        "objects": [
            {"action": "left", "kind": "secrets", "namespace": "", "name": "", "detail": "no right to list"},
        ],
    }  # fmt: skip
    assert partly.stderr == (
        "fleethook: the user lacks rights: add to a ClusterRole that is bound to the user: "
        '{apiGroups: [""], resources: [secrets], verbs: [list]}\n'
    )
