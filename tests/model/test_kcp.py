from pathlib import Path
from typing import Any

import pytest
import yaml

from fleethook.model.gvk import parse_api_version
from fleethook.model.kcp import cluster_of, is_cluster, is_path, is_system, serves_without_binding


@pytest.mark.parametrize(
    ("document", "cluster"),
    [
        ({"metadata": {"annotations": {"kcp.io/cluster": "root:a"}}}, "root:a"),
        ({"metadata": {"annotations": {"kcp.io/cluster": 7}}}, ""),
        ({"metadata": {"annotations": None}}, ""),
        ({"metadata": []}, ""),
        ({}, ""),
    ],
)
def test_the_annotation_names_the_cluster(document: dict[str, Any], cluster: str) -> None:
    assert cluster_of(document) == cluster


@pytest.mark.parametrize("text", ["root", "root:org:ws", "2hf3k2", "system:admin", "a" * 63])
def test_names_and_paths_are_clusters(text: str) -> None:
    assert is_cluster(text)


@pytest.mark.parametrize("text", ["", "*", "Root", "root:", ":a", "a/b", "a" * 64, "root\n", "é"])
def test_other_texts_are_no_cluster(text: str) -> None:
    assert not is_cluster(text)


def test_system_clusters_are_names_and_not_paths() -> None:
    assert [is_path(text) for text in ("root:org", "root", "system:admin")] == [True, False, False]
    assert [is_system(text) for text in ("system:admin", "systems", "root:system:a")] == [True, False, False]


def test_a_kcp_serves_few_of_the_built_in_resources() -> None:
    served = yaml.safe_load((Path(__file__).parents[1] / "conformance" / "kcp_requests.yaml").read_text())["served"]
    listed = [(parse_api_version(version)[0], plural) for version, plurals in served.items() for plural in plurals]
    others = [
        ("", "pods"), ("apps", "deployments"), ("example.org", "widgets"), ("example.kcp.io", "widgets"),
        ("core.kcp.io", "shards"), ("tenancy.kcp.io", "workspaces"), ("topology.kcp.io", "partitions"),
    ]  # fmt: skip
    for wanted, resources in ((True, listed), (False, others)):
        for group, resource in resources:
            assert serves_without_binding(group, resource) is wanted, (group, resource)
