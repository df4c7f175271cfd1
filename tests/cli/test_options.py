"""The forms of objects that commands take: files as options and arguments, and forms of the last release."""

import pytest

from tests.cli.commands import invoke
from tests.serving import EXAMPLES

STORY = str(EXAMPLES / "yurtappoverrider" / "story-2")
KCP = str(EXAMPLES / "kcp-widgets")
WIDGET = str(EXAMPLES / "kcp-widgets" / "testdata" / "widget.yaml")
CLUSTER = ["--cluster", "ws3"]


@pytest.mark.parametrize(
    ("new", "other"),
    [
        (["render", "-f", STORY], ["render", STORY]),
        (["lint", "--filename", STORY], ["lint", STORY]),
        (["diff", "-f", STORY, "--against", STORY], ["diff", STORY, "--against", STORY]),
        (["explain", "--request", WIDGET, *CLUSTER, "-f", KCP], ["explain", "--request", WIDGET, *CLUSTER, KCP]),
    ],
)
def test_arguments_mean_the_same_as_the_option(new: list[str], other: list[str]) -> None:
    assert invoke(new) == invoke(other)
    assert invoke(new).stdout or new[0] == "lint"


@pytest.mark.parametrize(
    ("old", "new", "warning"),
    [
        (["lint", "--manifests", STORY], ["lint", "-f", STORY], "--manifests is now -f"),
        (["render", "--file", STORY], ["render", "-f", STORY], "--file is now -f"),
        (
            ["diff", "--file", STORY, "--against", STORY],
            ["diff", "-f", STORY, "--against", STORY],
            "--file is now -f",
        ),
        (
            ["diff", "-f", STORY, "--manifests", STORY],
            ["diff", "-f", STORY, "--against", STORY],
            "--manifests is now --against",
        ),
        (
            ["explain", "-f", WIDGET, *CLUSTER, "--manifests", KCP],
            ["explain", "--request", WIDGET, *CLUSTER, "-f", KCP],
            "--manifests is now -f, and -f is now --request",
        ),
        (
            ["explain", "--all", "--manifests", KCP],
            ["explain", "--all", "-f", KCP],
            "--manifests is now -f, and -f is now --request",
        ),
    ],
)
def test_a_form_of_the_last_release_has_one_warning(old: list[str], new: list[str], warning: str) -> None:
    expected, found = invoke(new), invoke(old)
    assert (found.exit_code, found.stdout) == (expected.exit_code, expected.stdout)
    warned = f"warning: {warning}; the next release will refuse the old form\n"
    assert found.stderr == f"{warned}{expected.stderr}"


def test_explain_still_takes_its_request_by_f_beside_a_cluster() -> None:
    found = invoke(["explain", "-f", WIDGET, "--kubeconfig", "/nowhere"])
    assert found.stderr.splitlines() == [
        "warning: -f is now --request; the next release will refuse the old form",
        "fleethook: --kubeconfig: there is no file /nowhere",
    ]


def test_one_subject_is_chosen_by_its_name() -> None:
    found = invoke(["render", STORY, "--subject", "yurtappset/yurtappset-demo", "-n", "story-2", "--pool", "hangzhou"])
    assert (found.exit_code, found.stdout.count("---")) == (0, 1)
    missing = invoke(["render", STORY, "--subject", "YurtAppSet/other"])
    assert missing.exit_code == 2
    assert "the files have no YurtAppSet/other with a node pool" in missing.stderr
