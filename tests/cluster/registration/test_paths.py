"""Tests of the paths of logical clusters."""

import pytest

from fleethook.cluster.registration.paths import CLUSTER_MUTATE, MUTATE_DEPLOYMENT, split_cluster_path


@pytest.mark.parametrize(
    ("path", "route", "cluster"),
    [
        ("/clusters/root:a/mutate", CLUSTER_MUTATE, "root:a"),
        ("/clusters/a/b/explain", "/clusters/{cluster}/explain", "a/b"),
        ("/clusters/a", "/clusters/{cluster}/a", ""),
        (MUTATE_DEPLOYMENT, MUTATE_DEPLOYMENT, ""),
        ("/cluster/a/mutate", "/cluster/a/mutate", ""),
    ],
)
def test_a_path_names_route_and_cluster(path: str, route: str, cluster: str) -> None:
    assert split_cluster_path(path) == (route, cluster)
