import json

import yaml

from tests.builders import entry, overrider, pool, yurt_app_set
from tests.cli.converting import NODE_POOLS, STORIES, convert, dump_manifests


def test_yaml_has_no_anchors() -> None:
    rule = (STORIES / "story-5" / "overrider.yaml").read_text()
    result = convert(*NODE_POOLS, "-f", str(STORIES / "story-5" / "yurtappset.yaml"), "-f", "-", stdin=rule)
    assert "&id" not in result.stdout


BROKEN = overrider(
    entry("beijing", patches=[{"operation": "replace", "path": "/spec/template/spec/volumes/0", "value": {}}])
)


LOST = overrider(
    entry(
        "beijing",
        patches=[
            {
                "operation": "add",
                "path": "/spec/template/spec/containers/0/env",
                "value": [{"name": "A", "value": "{{nodepool-name}}"}],
            }
        ],
    )
)


def test_a_loss_exits_1_and_names_line_entry_pool_and_path() -> None:
    result = convert("-f", "-", stdin=dump_manifests(LOST, yurt_app_set()))
    assert result.returncode == 1
    lost = next(line for line in result.stderr.splitlines() if ": error: " in line)
    assert lost.startswith(
        "<stdin>:4: error: YurtAppOverrider default/demo1: entries[0].patches[0]: node pool beijing: "
        "/spec/template/spec/containers/0/env/0/value has the value"
    )
    assert result.stderr.endswith("fleethook: 1 error, 2 warnings\n")
    assert yaml.safe_load(result.stdout)["kind"] == "YurtAppSet", "what can be converted is still printed"


def test_diff_shows_the_differences_by_node_pool() -> None:
    result = convert("-f", "-", "-o", "diff", stdin=dump_manifests(LOST, yurt_app_set(pools=[pool("beijing")])))
    lines = result.stdout.splitlines()
    assert lines[0] == "YurtAppSet default/demo, node pool beijing"
    at = next(number for number, line in enumerate(lines) if "/env/0/value" in line)
    assert "# entries[0].patches[0]: " in lines[at]
    assert lines[at + 1 : at + 3] == ["    - '{{nodepool-name}}'", "    + beijing"]


def test_diff_names_pools_without_differences() -> None:
    result = convert(*NODE_POOLS, "-f", str(STORIES / "story-3"), "-o", "diff")
    assert result.stdout.splitlines()[-2:] == ["YurtAppSet story-3/yurtappset-demo, node pool shanghai", "  as before"]
    assert result.stdout.count("as before") == 3


def test_json_has_the_objects_and_the_report() -> None:
    result = convert("-f", "-", "-o", "json", stdin=dump_manifests(BROKEN, yurt_app_set()))
    made = json.loads(result.stdout)
    assert [one["kind"] for one in made["objects"]] == ["YurtAppSet"]
    row = next(row for row in made["report"] if row["level"] == "error")
    assert (row["code"], row["name"], row["field"], row["pools"]) == (
        "not-rendered", "demo1", "entries[0].patches[0]", ["beijing"],
    )  # fmt: skip
    assert result.stderr == "fleethook: 1 error, 2 warnings\n"
