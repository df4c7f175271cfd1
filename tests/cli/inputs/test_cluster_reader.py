"""Reading a cluster, by ``fleethook render``."""

from fleethook.cli.inputs.cluster_reader import describe_missing, describe_rules
from fleethook.cluster.kubernetes.watched_resources import (
    DEPLOYMENTS,
    NAMESPACES,
    NODE_POOLS,
    STATEFUL_SETS,
    karmada_config,
)
from tests.builders import entry, image, node_pool, overrider, yurt_app_set
from tests.cli.commands import Result, invoke
from tests.cli.fake_cluster import Cluster


def test_resources_of_a_group_are_one_rule() -> None:
    assert describe_missing([DEPLOYMENTS, NODE_POOLS, STATEFUL_SETS, NAMESPACES], where=[]) == (
        "add to a ClusterRole that is bound to the user: "
        '{apiGroups: ["apps"], resources: [deployments, statefulsets], verbs: [list]}, '
        '{apiGroups: ["apps.openyurt.io"], resources: [nodepools], verbs: [list]}, '
        '{apiGroups: [""], resources: [namespaces], verbs: [list]}'
    )


def test_an_object_of_one_namespace_needs_a_role_there() -> None:
    assert describe_missing([NODE_POOLS, karmada_config("karmada-system")], where=[]).endswith(
        "; add to a Role in the namespace karmada-system that is bound to the user: "
        '{apiGroups: [""], resources: [configmaps], verbs: [list]}'
    )


def test_logical_clusters_are_named_and_each_resource_once() -> None:
    where = [f"/clusters/{number}" for number in range(9)]
    text = describe_missing([NODE_POOLS, NODE_POOLS], where=where)
    assert "bound to the user in /clusters/0, /clusters/1, /clusters/2, /clusters/3, /clusters/4: " in text
    assert text.count("nodepools") == 1


def test_rights_with_the_same_verbs_are_one_rule() -> None:
    rights = [("apps", "deployments", "patch"), ("", "secrets", "list"), ("apps", "statefulsets", "patch")]
    assert describe_rules(rights) == (
        'add to a ClusterRole that is bound to the user: {apiGroups: ["apps"], resources: [deployments, statefulsets], '
        'verbs: [patch]}, {apiGroups: [""], resources: [secrets], verbs: [list]}'
    )


YURT = "/apis/apps.openyurt.io"


ALPHA, BETA = f"{YURT}/v1alpha1", f"{YURT}/v1beta1"


RULE = overrider(entry("*", items=[image("nginx", "nginx:2")]))
POOLS = [node_pool("hangzhou"), node_pool("beijing")]


def render(*arguments: str, stdin: str = "") -> Result:
    return invoke(["render", *arguments], stdin=stdin)


def test_subjects_and_overriders_of_a_cluster_are_rendered(cluster: tuple[Cluster, tuple[str, ...]]) -> None:
    held, options = cluster
    held.lists = {
        f"{ALPHA}/yurtappsets": [yurt_app_set("a"), yurt_app_set("demo")],
        f"{ALPHA}/yurtappoverriders": [RULE],
        f"{YURT}/v1beta2/nodepools": POOLS,
    }
    result = render(*options)
    assert result.exit_code == 0, result.stderr
    assert result.stdout.count("image: nginx:2") == 2
    assert "does not serve yurtappdaemons.apps.openyurt.io" in result.stderr


def test_a_cluster_that_forbids_reading_exits_2(cluster: tuple[Cluster, tuple[str, ...]]) -> None:
    held, options = cluster
    held.lists, held.forbidden = {f"{BETA}/yurtappsets": []}, ("yurtappdaemons", "nodepools")
    result = render(*options)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "fleethook: cannot read the cluster: " in result.stderr
    assert "yurtappdaemons is forbidden" in result.stderr
    missing = '{apiGroups: ["apps.openyurt.io"], resources: [yurtappdaemons, nodepools], verbs: [list]}'
    assert f"fleethook: add to a ClusterRole that is bound to the user: {missing}\n" in result.stderr


def test_a_list_that_is_no_list_exits_2(cluster: tuple[Cluster, tuple[str, ...]]) -> None:
    held, options = cluster
    held.lists = {f"{BETA}/yurtappsets": []}
    held.answer = lambda _: (200, ["a proxy's page"])  # type: ignore[method-assign]
    result = render(*options)
    assert result.exit_code == 2
    assert "/apis/apps.openyurt.io/v1alpha1/yurtappoverriders: the answer is no list of objects: " in result.stderr
