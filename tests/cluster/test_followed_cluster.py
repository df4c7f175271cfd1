"""The resources of several engines that a cluster follows."""

from pathlib import Path

from fleethook.cluster.followed_cluster import Cluster, Followed
from fleethook.cluster.kubernetes.watched_resources import DEFINITIONS, NAMESPACES, NODE_POOLS
from fleethook.cluster.store import Store
from fleethook.settings import Settings

FOLLOWED = [Followed((NAMESPACES, DEFINITIONS)), Followed((NODE_POOLS, DEFINITIONS), (NAMESPACES,)), Followed()]


def make_cluster(*, kcp: bool = False) -> Cluster:
    return Cluster(Settings(kubeconfig=Path("k"), kcp=kcp), Store(), FOLLOWED)


def test_a_resource_of_several_engines_is_followed_once_and_needed_if_one_needs_it() -> None:
    parts = [(part.name, part.needed) for part in make_cluster().source.parts()]
    assert parts == [
        ("namespaces", True),
        ("customresourcedefinitions.apiextensions.k8s.io", True),
        ("nodepools.apps.openyurt.io", True),
    ]


def test_a_resource_that_no_engine_needs_is_advisory() -> None:
    cluster = Cluster(Settings(kubeconfig=Path("k")), Store(), [Followed((), (NAMESPACES,))])
    assert [part.needed for part in cluster.source.parts()] == [False]


def test_the_message_about_a_cluster_without_resources_names_the_remedy() -> None:
    assert "check the server's URL in the kubeconfig file, and --kcp" in make_cluster().lack
    assert "in any logical cluster (/clusters/*)" in make_cluster(kcp=True).lack
