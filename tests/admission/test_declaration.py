from typing import Any

import pytest

from fleethook.admission import Denied, Rule, RuleError, mutate, validate

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
        ({"timeout": 31}, "timeout: 31 is not a number of seconds from 1 to 30"),
        ({"namespace_selector": {"team": "web"}}, "namespace_selector: 'team' is unknown: give matchLabels"),
        ({"object_selector": {"matchLabels": {"a b": "c"}}}, "object_selector/matchLabels: "),
        (
            {"match_conditions": {"named": "object.metadata.name =="}},
            r"match_conditions\['named'\]: compilation failed",
        ),
        ({"match_conditions": {"named": "1"}}, r"match_conditions\['named'\]: must evaluate to bool"),
        ({"match_conditions": {str(one): "true" for one in range(64)}}, "65 conditions are more than 64"),
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
    with pytest.raises(RuleError, match=rf"test_declaration\.py:\d+: checks_pods: .*{problem}"):
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


@pytest.mark.parametrize(
    ("arguments", "options", "reason"),
    [
        (("v1", "Pod"), {"on": "DELETE"}, "the operation is CREATE, not DELETE"),
        (("apps/v1", "Deployment"), {}, "the object is of core/v1, not of apps/v1"),
        (("v1", "Service"), {}, "the kind is Pod, not Service"),
        (("v1", "Pod"), {"subresource": "eviction"}, "the subresource is none, not eviction"),
        (("v1", "Pod"), {"scope": "Cluster"}, "the object is Namespaced, and the scope of the rule is Cluster"),
        (
            ("v1", "Pod"),
            {"namespace_selector": {"matchLabels": {"team": "web"}}},
            "namespace_selector does not select the labels of the namespace",
        ),
        (
            ("v1", "Pod"),
            {"object_selector": {"matchLabels": {"app": "db"}}},
            "object_selector does not select the labels of the object",
        ),
        (
            ("v1", "Pod"),
            {"match_conditions": {"named": "object.metadata.name == 'b'"}},
            "match_conditions['named'] is false",
        ),
    ],
)
def test_a_rule_that_is_not_asked_says_why(arguments: Any, options: dict[str, Any], reason: str) -> None:
    answer = rule(*arguments, **options).review(POD)
    assert (answer.matched, answer.allowed, answer.reason) == (False, True, reason)


@pytest.mark.parametrize(
    ("arguments", "resource", "reason"),
    [
        (("*/*", "pods"), "", ""),
        (("v1", "services"), "", "the resource is pods, not services"),
        (("*/*", "podtemplates"), "", "the resource is pods, not podtemplates"),
        (("*/*", "services"), "services", ""),
        (("*/*", "*"), "", ""),
    ],
)
def test_a_test_without_a_resource_has_that_of_the_kind(arguments: Any, resource: str, reason: str) -> None:
    assert rule(*arguments).review(POD, resource=resource).reason == reason


def test_the_case_of_a_kind_is_no_difference() -> None:
    def refuses() -> None:
        raise Denied("no")

    assert not validate("v1", "POD")(refuses).review(POD).allowed


def test_a_subresource_has_a_kind_of_its_own() -> None:
    scale = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "a", "namespace": "n"}}
    one = rule("apps/v1", "Deployment", subresource="scale", on="UPDATE")
    assert one.review(scale, operation="UPDATE", subresource="scale").matched
    other = one.review(scale, operation="UPDATE", subresource="scale", resource="statefulsets")
    assert other.reason == "the resource is statefulsets, not deployments"
    assert one.review(scale, operation="UPDATE", subresource="status").reason == "the subresource is status, not scale"


def test_all_filters_match() -> None:
    one = rule(
        "v1",
        "pods",
        namespace_selector={"matchLabels": {"team": "web"}},
        object_selector={"matchExpressions": [{"key": "app", "operator": "Exists"}]},
        match_conditions={"created": "request.operation == 'CREATE' && object.metadata.namespace == 'n'"},
        scope="Namespaced",
    )
    assert one.review(POD, namespace_labels={"team": "web"}).matched


def test_a_condition_without_a_result_is_a_failure_of_the_rule() -> None:
    answer = rule(match_conditions={"owned": "object.metadata.annotations.owner == 'x'"}).review(POD)
    assert (answer.allowed, answer.code) == (False, 500)
    assert "match_conditions: expression" in answer.message


def test_the_followed_kinds() -> None:
    assert {
        str(one) for one in rule(follows=[("v1", "ConfigMap"), ("apps/v1", "Deployment")]).declaration.followed
    } == {
        "ConfigMap",
        "Deployment.apps",
    }


def test_a_namespace_is_selected_by_its_own_labels() -> None:
    one = rule("v1", "Namespace", scope="Cluster", namespace_selector={"matchLabels": {"team": "web"}})
    namespace = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": "n", "namespace": "n", "labels": {"team": "web"}},
    }
    assert one.review(namespace).matched
