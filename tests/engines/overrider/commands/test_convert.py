import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.builders import node_pool, yurt_app_set
from tests.cli.commands import run_command
from tests.cli.converting import NODE_POOLS, STORIES, convert, dump_manifests, read_levels


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
    assert result.returncode == 0, result.stderr
    assert "error" not in read_levels(result)
    made = list(yaml.safe_load_all(result.stdout))
    assert made
    assert {(one["apiVersion"], one["kind"]) for one in made} == {("apps.openyurt.io/v1beta1", "YurtAppSet")}
    before = run_command("render", *files, "-o", "json")
    after = run_command("render", *NODE_POOLS, "-f", "-", "-o", "json", stdin=result.stdout)
    assert (before.returncode, after.returncode) == (0, 0), after.stderr
    assert summarize_workloads(before.stdout) == summarize_workloads(after.stdout)


def test_a_converted_set_is_rendered_without_node_pools() -> None:
    made = convert("-f", str(STORIES / "story-2"))
    assert read_levels(made) == ["warning"]
    after = run_command("render", "-f", "-", "-o", "json", stdin=made.stdout)
    before = run_command("render", "-f", str(STORIES / "story-2"), "-o", "json")
    assert summarize_workloads(before.stdout) == summarize_workloads(after.stdout)


def test_the_output_has_only_subjects_in_their_order() -> None:
    text = yaml.safe_dump_all(
        [yurt_app_set("second"), node_pool("hangzhou"), node_pool("beijing"), yurt_app_set("first")]
    )
    result = convert("-f", "-", stdin=text)
    assert [one["metadata"]["name"] for one in yaml.safe_load_all(result.stdout)] == ["second", "first"]


def test_strict_treats_warnings_as_errors() -> None:
    files = ("-f", str(STORIES / "story-2"))
    assert convert(*files).returncode == 0
    assert convert(*files, "--strict").returncode == 1


def test_only_one_subject_is_converted() -> None:
    files = ("-f", str(STORIES.parent / "nodepools.yaml"), str(STORIES))
    result = convert(*files, "--subject", "YurtAppDaemon/story-1/yurtappdaemon-demo")
    assert [one["kind"] for one in yaml.safe_load_all(result.stdout)] == ["YurtAppSet"]
    missing = convert(*files, "--subject", "YurtAppSet/none")
    assert (missing.returncode, "the input has no v1alpha1 YurtAppSet/none" in missing.stderr) == (2, True)


def test_a_misspelled_kind_is_reported() -> None:
    text = dump_manifests({**yurt_app_set(), "kind": "YurtAppSets"}, yurt_app_set("other"))
    result = convert("-f", "-", stdin=text)
    assert result.returncode == 1
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
        assert (result.returncode, result.stdout) == (2, "")
        assert text in result.stderr
