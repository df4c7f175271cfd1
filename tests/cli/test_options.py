"""The forms of objects that commands take: files as options and arguments, and forms of the last release."""

from pathlib import Path

import pytest

from fleethook.cli.options import load_settings
from fleethook.server_settings import CONFIG_VARIABLE
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


def test_one_subject_is_chosen_by_its_name() -> None:
    found = invoke(["render", STORY, "--subject", "yurtappset/yurtappset-demo", "-n", "story-2", "--pool", "hangzhou"])
    assert (found.exit_code, found.stdout.count("---")) == (0, 1)
    missing = invoke(["render", STORY, "--subject", "YurtAppSet/other"])
    assert missing.exit_code == 2
    assert "the files have no YurtAppSet/other with a node pool" in missing.stderr


def test_a_missing_file_of_settings_ends_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(CONFIG_VARIABLE, "")
    with pytest.raises(SystemExit) as left:
        load_settings({}, tmp_path / "none.yaml")
    assert left.value.code == 2
    assert capsys.readouterr().err == f"fleethook: --config: {tmp_path / 'none.yaml'} is not a file\n"
