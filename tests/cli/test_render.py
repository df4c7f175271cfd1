import json
import os
import subprocess
import sys
from pathlib import Path

import yaml

from tests.serving import EXAMPLES, ROOT
from tests.waiting import NET

STORIES = EXAMPLES / "yurtappoverrider"


def render(*arguments: str, stdin: str = "", **environment: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "app", "render", *arguments]
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=NET,
        check=False,
        input=stdin,
        env={**os.environ, **environment},
    )


def test_yaml_is_every_pools_workload() -> None:
    result = render("-f", str(STORIES / "story-2"))
    documents = list(yaml.safe_load_all(result.stdout))
    assert result.returncode == 0, result.stderr
    # The story sets replicas as the proposal does, which is worth a warning for each of its two entries.
    assert [
        line.partition(" replicas, but spec.topology.pools has")[1] != "" for line in result.stderr.splitlines()
    ] == [True] * 2
    found = {
        made["metadata"]["labels"]["apps.openyurt.io/pool-name"]: (
            made["spec"]["template"]["spec"]["containers"][0]["image"], made["spec"]["replicas"],
        )
        for made in documents
    }  # fmt: skip
    assert found == {"beijing": ("nginx:1.14.2", 3), "hangzhou": ("nginx:1.14.2", 3), "shanghai": ("nginx:1.13.2", 5)}


def test_diff_names_the_entry_that_set_each_field() -> None:
    result = render("-f", str(STORIES / "story-5"), "--pool", "beijing", "--output", "diff")
    assert result.returncode == 0, result.stderr
    lines = [line.strip() for line in result.stdout.splitlines()]
    assert lines[:4] == [
        "YurtAppSet story-5/yurtappset-demo, node pool beijing, Deployment by demo1",
        "/spec/template/spec/containers/0/image   # entries[0].items[0]",
        "- nginx:1.13.0",
        "+ nginx:1.14.2",
    ]
    assert any(
        line.endswith("# entries[2].patches[0]") and line.startswith("/spec/template/spec/volumes/1") for line in lines
    )
    assert "hangzhou" not in result.stdout


def test_diff_is_coloured_for_a_person() -> None:
    plain = render("-f", str(STORIES / "story-2"), "--output", "diff").stdout
    coloured = render("-f", str(STORIES / "story-2"), "--output", "diff", FORCE_COLOR="1", TERM="xterm-256color").stdout
    assert "\x1b[" not in plain
    assert "\x1b[32m" in coloured


def test_json_has_the_changes_and_their_sources() -> None:
    result = render("-f", str(STORIES / "story-3"), "--output", "json")
    rows = {row["pool"]: row for row in json.loads(result.stdout)}
    assert rows["hangzhou"]["changes"] == [
        {
            "path": "/spec/template/spec/containers/0/image",
            "before": "demo:1.0",
            "after": "xxx:latest",
            "source": "entries[0].items[0]",
        }
    ]
    assert rows["beijing"]["changes"] == []


def test_a_daemons_pools_come_from_the_node_pools_given() -> None:
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


def test_an_overrider_that_does_not_fit_exits_1_and_says_where() -> None:
    broken = (STORIES / "story-5" / "overrider.yaml").read_text().replace("volumes/-", "nothing/deep/-")
    result = render("-f", str(STORIES / "story-5" / "yurtappset.yaml"), "-f", "-", stdin=broken)
    assert result.returncode == 1
    assert (
        "<stdin>:22: error: YurtAppOverrider story-5/demo1: entries[1].patches[0]: node pool hangzhou: add /spec"
        in result.stderr
    )
    assert result.stderr.endswith("fleethook: 2 errors, 0 warnings\n")
    assert "pool-name: shanghai" in result.stdout, "what does fit is still shown"


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
