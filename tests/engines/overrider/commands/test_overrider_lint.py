from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from fleethook.cli.output.findings_output import FindingRow
from fleethook.cluster.manifests.yaml_decoding_and_lines import Document
from fleethook.engines.overrider.commands.overrider_lint import lint_overriders
from tests.builders import container, entry, image, overrider, patch, pod_template, pool, store_of, yurt_app_set
from tests.cli.commands import invoke
from tests.cli.fake_cluster import Cluster, serve_cluster


def test_a_row_names_the_object_and_the_field() -> None:
    objects = yurt_app_set(), overrider(entry("*", items=[image("nginx", "A:1")]))
    documents = [Document(one, "f.yaml", 7) for one in objects]

    (row,) = [one for one in lint_overriders(documents, store_of(*objects), None) if one.code == "image"]

    assert row == FindingRow(
        level="error", code="image", cluster="", kind="YurtAppOverrider", namespace="default", name="demo1",
        webhook="", field="entries[0].items[0].image.imageClaim", text=row.text, place="f.yaml:7",
    )  # fmt: skip


SUBJECT = yurt_app_set(template=pod_template(containers=[container("app")]), pools=[pool("a"), pool("b")])
RULE = overrider(entry("*", patches=[patch("add", "/spec/template/spec/containers/0/args", ["x"])]))
PATHS = "/apis/apps.openyurt.io/{}"
CAUSE = {"field": "spec.template.spec.containers[0].args[0]", "message": "Invalid value: x"}
REFUSED = (422, {"kind": "Status", "reason": "Invalid", "message": "is invalid", "details": {"causes": [CAUSE]}})
TEXT = "node pool a: kube-apiserver refuses the Deployment: /spec/template/spec/containers/0/args/0: Invalid value: x"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[tuple[Cluster, tuple[str, ...]]]:
    with serve_cluster(tmp_path) as (held, options):
        held.lists = {
            PATHS.format("v1alpha1/yurtappsets"): [SUBJECT],
            PATHS.format("v1alpha1/yurtappoverriders"): [RULE],
            "/apis/apps/v1/deployments": [],
        }
        yield held, options


def write(directory: Path, document: dict[str, Any]) -> str:
    path = directory / "change.yaml"
    path.write_text(yaml.safe_dump({**document, "metadata": {**document["metadata"], "namespace": "default"}}))
    return str(path)


@pytest.mark.parametrize("command", ["lint", "render"])
def test_the_workloads_of_a_cluster_are_sent_once(cluster: tuple[Cluster, tuple[str, ...]], command: str) -> None:
    held, options = cluster
    held.refused = [REFUSED]
    result = invoke([command, *options])
    assert result.exit_code == 1
    assert f"entries[0].patches[0]: {TEXT}" in result.stdout + result.stderr
    assert [(path, query) for path, query, _ in held.created[:1]] == [
        ("/apis/apps/v1/namespaces/default/deployments", "dryRun=All")
    ]
    assert len(held.created) == 2, "the workload, and that of the template"


def test_only_changed_overriders_are_sent(cluster: tuple[Cluster, tuple[str, ...]], tmp_path: Path) -> None:
    held, options = cluster
    held.refused = [REFUSED]
    other = {**RULE, "metadata": {"name": "other"}, "subject": {"kind": "YurtAppSet", "name": "other"}}
    assert TEXT not in invoke(["diff", "-f", write(tmp_path, other), *options]).stderr
    assert held.created == []
    changed = {**RULE, "entries": [{**RULE["entries"][0], "pools": ["a"]}]}
    assert TEXT in invoke(["diff", "-f", write(tmp_path, changed), *options]).stderr


def test_without_the_right_a_note_says_so(cluster: tuple[Cluster, tuple[str, ...]]) -> None:
    held, options = cluster
    held.refused = [(403, {"kind": "Status", "reason": "Forbidden", "message": 'cannot create resource "deployments"'})]
    result = invoke(["lint", "--strict", *options])
    assert (result.exit_code, result.stdout) == (0, "")
    assert "note: not checked by kube-apiserver, because fleethook lacks the right to create" in result.stderr


def test_an_overrider_with_an_error_is_not_sent(cluster: tuple[Cluster, tuple[str, ...]]) -> None:
    held, options = cluster
    held.lists[PATHS.format("v1alpha1/yurtappoverriders")] = [overrider(entry("*", items=[{"replicas": -1}]))]
    assert invoke(["lint", *options]).exit_code == 1
    assert held.created == []
