from typing import Any

import pytest

from fleethook.model.kcp import cluster_of, is_cluster, is_path, is_system


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
