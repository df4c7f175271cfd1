import json
import subprocess

import yaml

from tests.cli.commands import run_command
from tests.serving import EXAMPLES

STORIES = EXAMPLES / "yurtappoverrider"


def render(*arguments: str, stdin: str = "", **environment: str) -> "subprocess.CompletedProcess[str]":
    return run_command("render", *arguments, stdin=stdin, **environment)


def test_yaml_has_the_workload_of_every_pool() -> None:
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


def test_diff_is_coloured_on_a_terminal() -> None:
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
