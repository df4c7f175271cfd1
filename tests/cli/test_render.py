import json
import subprocess
from pathlib import Path

from tests.cli.commands import run_command
from tests.serving import EXAMPLES

STORIES = EXAMPLES / "yurtappoverrider"


def render(*arguments: str, stdin: str = "", **environment: str) -> "subprocess.CompletedProcess[str]":
    return run_command("render", *arguments, stdin=stdin, **environment)


def test_the_pools_of_a_daemon_come_from_the_node_pools() -> None:
    result = render("-f", str(EXAMPLES / "nodepools.yaml"), "-f", str(STORIES / "story-1"), "-o", "json")
    assert [(row["subject"], row["pool"], row["kind"]) for row in json.loads(result.stdout)] == [
        ("YurtAppDaemon story-1/yurtappdaemon-demo", "hangzhou", "Deployment"),
        ("YurtAppDaemon story-1/yurtappdaemon-demo", "shanghai", "Deployment"),
        ("YurtAppSet story-1/yurtappset-stateful", "beijing", "StatefulSet"),
        ("YurtAppSet story-1/yurtappset-stateful", "shanghai", "StatefulSet"),
    ]


def test_standard_input_is_read() -> None:
    text = (STORIES / "story-2" / "yurtappset.yaml").read_text()
    assert render("-f", "-", "--pool", "beijing", stdin=text).stdout.count("kind: Deployment") == 1


def test_an_overrider_that_does_not_fit_exits_1_with_file_and_line() -> None:
    broken = (STORIES / "story-5" / "overrider.yaml").read_text().replace("volumes/-", "nothing/deep/-")
    result = render("-f", str(STORIES / "story-5" / "yurtappset.yaml"), "-f", "-", stdin=broken)
    assert result.returncode == 1
    assert (
        "<stdin>:22: error: YurtAppOverrider story-5/demo1: entries[1].patches[0]: node pool hangzhou: add /spec"
        in result.stderr
    )
    assert result.stderr.endswith("fleethook: 2 errors, 0 warnings\n")
    assert "pool-name: shanghai" in result.stdout, "pools without errors are printed"


def test_an_invalid_overrider_exits_1_with_file_and_line() -> None:
    broken = (STORIES / "story-2" / "overrider.yaml").read_text().replace("  - beijing\n", '  - ""\n')
    result = render("-f", str(STORIES / "story-2" / "yurtappset.yaml"), "-f", "-", stdin=broken)
    assert result.returncode == 1
    assert (
        "<stdin>:13: error: YurtAppOverrider story-2/demo1: entries[0].pools[0]: must be a pool's name" in result.stderr
    )


def test_unreadable_input_exits_2(tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text("a: [")
    for path, text in (
        (tmp_path / "bad.yaml", "bad.yaml:2: "),
        (tmp_path / "none.yaml", "No such file"),
        (tmp_path, "bad.yaml:2"),
    ):
        result = render("-f", str(path))
        assert (result.returncode, result.stdout) == (2, "")
        assert text in result.stderr


def test_nothing_to_render_exits_2() -> None:
    result = render("-f", str(STORIES / "story-2" / "overrider.yaml"))
    assert result.returncode == 2
    assert "no YurtAppSet or YurtAppDaemon" in result.stderr
    assert "with node pool 'nowhere'" in render("-f", str(STORIES / "story-2"), "--pool", "nowhere").stderr
