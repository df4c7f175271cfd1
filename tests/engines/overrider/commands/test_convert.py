import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.builders import entry, node_pool, overrider, pool, yurt_app_set
from tests.cli.commands import invoke
from tests.cli.converting import NODE_POOLS, STORIES, convert, dump_manifests, read_levels


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
    assert result.exit_code == 1
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


def summarize_workloads(text: str) -> dict[tuple[str, str], Any]:
    """Return replicas, containers, volumes and tolerations that `render` prints, by subject and pool."""
    shown = {}
    for row in json.loads(text):
        spec = row["workload"]["spec"]
        pods = spec["template"]["spec"]
        name = row["subject"].partition(" ")[2]
        # Upstream's Go types write empty resources that the template does not have.
        own = [{member: value for member, value in one.items() if value != {}} for one in pods["containers"]]
        shown[name, row["pool"]] = (spec.get("replicas"), own, pods.get("volumes"), pods.get("tolerations"))
    return shown


@pytest.mark.parametrize("story", ["story-1", "story-2", "story-3", "story-4", "story-5"])
def test_the_stories_are_converted_without_loss(story: str) -> None:
    files = (*NODE_POOLS, "-f", str(STORIES / story))
    result = convert(*files)
    assert result.exit_code == 0, result.stderr
    assert "error" not in read_levels(result)
    made = list(yaml.safe_load_all(result.stdout))
    assert made
    assert {(one["apiVersion"], one["kind"]) for one in made} == {("apps.openyurt.io/v1beta1", "YurtAppSet")}
    before = invoke(["render", *files, "-o", "json"])
    after = invoke(["render", *NODE_POOLS, "-f", "-", "-o", "json"], stdin=result.stdout)
    assert (before.exit_code, after.exit_code) == (0, 0), after.stderr
    assert summarize_workloads(before.stdout) == summarize_workloads(after.stdout)


def test_a_converted_set_is_rendered_without_node_pools() -> None:
    made = convert("-f", str(STORIES / "story-2"))
    assert read_levels(made) == ["warning"]
    after = invoke(["render", "-f", "-", "-o", "json"], stdin=made.stdout)
    before = invoke(["render", "-f", str(STORIES / "story-2"), "-o", "json"])
    assert summarize_workloads(before.stdout) == summarize_workloads(after.stdout)


def test_the_output_has_only_subjects_in_their_order() -> None:
    text = yaml.safe_dump_all(
        [yurt_app_set("second"), node_pool("hangzhou"), node_pool("beijing"), yurt_app_set("first")]
    )
    result = convert("-f", "-", stdin=text)
    assert [one["metadata"]["name"] for one in yaml.safe_load_all(result.stdout)] == ["second", "first"]


def test_strict_treats_warnings_as_errors() -> None:
    files = ("-f", str(STORIES / "story-2"))
    assert convert(*files).exit_code == 0
    assert convert(*files, "--strict").exit_code == 1


def test_only_one_subject_is_converted() -> None:
    files = ("-f", str(STORIES.parent / "nodepools.yaml"), str(STORIES))
    result = convert(*files, "--subject", "YurtAppDaemon/story-1/yurtappdaemon-demo")
    assert [one["kind"] for one in yaml.safe_load_all(result.stdout)] == ["YurtAppSet"]
    missing = convert(*files, "--subject", "YurtAppSet/none")
    assert (missing.exit_code, "the input has no v1alpha1 YurtAppSet/none" in missing.stderr) == (2, True)


def test_a_misspelled_kind_is_reported() -> None:
    text = dump_manifests({**yurt_app_set(), "kind": "YurtAppSets"}, yurt_app_set("other"))
    result = convert("-f", "-", stdin=text)
    assert result.exit_code == 1
    assert "did you mean YurtAppSet?" in result.stderr


def test_invalid_arguments_and_unreadable_input_exit_2(tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text("a: [")
    for arguments, text in (
        ((), "give -f FILE, --kubeconfig FILE or --in-cluster"),
        (("-f", str(tmp_path / "bad.yaml")), "bad.yaml:2: "),
        (NODE_POOLS, "nothing to convert: the input has no v1alpha1 YurtAppSet or YurtAppDaemon"),
        (("--context", "a", *NODE_POOLS), "there is no kubeconfig: $KUBECONFIG names"),
        (("--in-cluster", "--kubeconfig", "x"), "give only one of --kubeconfig and --in-cluster"),
        (("--kubeconfig", str(tmp_path / "none")), "--kubeconfig: there is no file"),
        (("--to", "v1", *NODE_POOLS), "v1beta1"),
    ):
        result = convert(*arguments)
        assert (result.exit_code, result.stdout) == (2, "")
        assert text in result.stderr
