from typing import Any

import pytest

from fleethook.admission import Rule, RuleError, mutate, validate

POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "n", "labels": {"app": "web"}}}


def rule(*arguments: Any, **options: Any) -> Rule:
    @validate(*(arguments or ("v1", "Pod")), **options)
    def checks_pods() -> None:
        pass

    return checks_pods


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("apps/v1", "Deployment"), ("apps", "v1", "Deployment", "deployments")),
        (("v1", "configmaps"), ("", "v1", "", "configmaps")),
        (("networking.k8s.io/v1", "NetworkPolicy"), ("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies")),
        (("*/*", "*"), ("*", "*", "", "*")),
    ],
)
def test_a_rule_names_a_kind_or_a_resource(arguments: Any, expected: Any) -> None:
    one = rule(*arguments).declaration
    assert (one.group, one.version, one.kind, one.resource) == expected


def test_the_defaults() -> None:
    one = rule().declaration
    assert (one.name, one.operations, one.failure_policy) == ("checks-pods", ("CREATE", "UPDATE"), "Fail")
    assert (one.scope, one.side_effects, one.timeout, one.order, one.follows) == ("*", "None", 5, 0, ())


def test_a_mutating_rule_ignores_failures_by_default() -> None:
    @mutate("v1", "Pod")
    def sets_defaults() -> None:
        pass

    assert sets_defaults.declaration.failure_policy == "Ignore"


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"on": "CREAT"}, "on: 'CREAT' is unknown: give CREATE, UPDATE, DELETE or CONNECT"),
        ({"on": ()}, "on: the rule has no operation"),
        ({"scope": "All"}, "scope: 'All' is unknown"),
        ({"failure_policy": "Retry"}, "failure_policy: 'Retry' is unknown: give Fail or Ignore"),
        ({"side_effects": "Some"}, "side_effects: 'Some' is unknown"),
        ({"templates": 1}, "templates: 1 is no truth value"),
        ({"templates": True, "subresource": "resize"}, "templates: only a rule about Pods sees those in templates"),
        ({"timeout": 31}, "timeout: 31 is not a number of seconds from 1 to 30"),
        ({"namespace_selector": {"team": "web"}}, "namespace_selector: 'team' is unknown: give matchLabels"),
        ({"object_selector": {"matchLabels": {"a b": "c"}}}, "object_selector/matchLabels: "),
        (
            {"match_conditions": {"named": "object.metadata.name =="}},
            r"match_conditions\['named'\]: compilation failed",
        ),
        ({"match_conditions": {"named": "1"}}, r"match_conditions\['named'\]: must evaluate to bool"),
        ({"match_conditions": {str(one): "true" for one in range(64)}}, "66 conditions are more than 64"),
        ({"name": "Checks_Pods"}, "the name 'Checks_Pods' is no DNS label"),
        ({"follows": ("v1",)}, "follows: .* is no pair of apiVersion and kind"),
        ({"follows": "ConfigMap"}, "follows: 'ConfigMap' is no pair of apiVersion and kind"),
        ({"follows": ("v1", "configmaps")}, "follows: .* is no pair of apiVersion and kind"),
        ({"follows": 5}, "follows: 5 is no pair of apiVersion and kind, or list of pairs"),
        ({"follows": ("ConfigMap", "v1")}, "follows: .* is no pair of apiVersion and kind"),
        ({"follows": ("a/b/c", "ConfigMap")}, "'a/b/c' is no apiVersion"),
        ({"timeout": True}, "timeout: True is no whole number of seconds"),
        ({"match_conditions": {5: "true"}}, "match_conditions: 5 is no name"),
        ({"subresource": "a/b"}, "subresource: 'a/b' is no name of Kubernetes"),
        ({"resource": "Pods"}, "resource: 'Pods' is no name of Kubernetes"),
        ({"resource": "pods/exec"}, "'pods/exec' has a slash: give 'pods', and subresource='exec'"),
    ],
)
def test_a_bad_argument_is_an_error_with_file_and_line(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(RuleError, match=rf"test_rule_scope_and_options\.py:\d+: checks_pods: .*{problem}"):
        rule(**options)


def test_a_bad_kind_is_an_error() -> None:
    with pytest.raises(RuleError, match="names neither a kind nor a resource"):
        rule("v1")
    with pytest.raises(RuleError, match="'a/b/c' is no apiVersion"):
        rule("a/b/c", "Pod")
    with pytest.raises(RuleError, match="'Pod' is no apiVersion"):
        rule("Pod", "v1")
    with pytest.raises(RuleError, match="kind: 'po d' is no name of Kubernetes"):
        rule("v1", "Po d")


def test_a_star_stands_for_all_operations() -> None:
    assert rule(on="*").declaration.operations == ("CREATE", "UPDATE", "DELETE", "CONNECT")


def test_a_mutating_rule_takes_no_deletions() -> None:
    with pytest.raises(RuleError, match="a DELETE has no object to change"):

        @mutate("v1", "Pod", on="DELETE")
        def sets_defaults() -> None:
            pass


def test_the_followed_kinds() -> None:
    assert {
        str(one) for one in rule(follows=[("v1", "ConfigMap"), ("apps/v1", "Deployment")]).declaration.followed
    } == {
        "ConfigMap",
        "Deployment.apps",
    }
