"""The rules that a user lacks."""

from fleethook.cli.inputs.missing_rights import describe_missing, describe_rules
from fleethook.cluster.kubernetes.resources import DEPLOYMENTS, NAMESPACES, NODE_POOLS, STATEFUL_SETS, karmada_config


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
        'add to a ClusterRole that is bound to the user: {apiGroups: [""], resources: [secrets], verbs: [list]}, '
        '{apiGroups: ["apps"], resources: [deployments, statefulsets], verbs: [patch]}'
    )
