"""Findings about all configurations and APIBindings of a cluster, each with its remedy."""

import base64
import copy
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleethook.admission.rule_scope_and_options import NOT_DELETED
from fleethook.cluster.certificates.authority_and_serving_certificate import new_authority
from fleethook.cluster.store import key_of
from fleethook.engines.dispatch.lint.configuration_validation import CODES, WebhookFinding
from fleethook.engines.dispatch.lint.rule_and_binding_checks import configuration_warnings, lint
from tests.engines.dispatch.builders import (
    WIDGETS,
    binding,
    configuration,
    definition,
    export,
    logical_cluster,
    namespace,
    store_of,
    webhook,
)
from tests.engines.dispatch.lint.builders import (
    ALL,
    NODES,
    NOT_ITSELF,
    NOT_OF_KUBERNETES,
    OWN,
    PODS,
    WIDGET,
    Documents,
    condition,
    exported,
    find_issues,
    list_codes,
    mutating,
    own,
    rule,
    schema,
    slow,
    validating,
)
from tests.engines.dispatch.lint.configuration_builders import open_rule, valid_webhook, webhook_configuration


def test_clusters_are_linted_separately() -> None:
    other = definition("d", "widgets.example.org", "v1")
    assert list_codes(WIDGET, other, mutating(slow("a", 30)), mutating(slow("a", 30), cluster="d")) == []
    assert list_codes(WIDGET, validating(webhook(), cluster="d")) == ["unserved-resource"]


def test_webhooks_without_an_endpoint_do_not_count_in_the_budget() -> None:
    both = [slow(name, 30, clientConfig=OWN) for name in "ab"]
    assert list_codes(WIDGET, mutating(*both)) == ["service-in-logical-cluster"] * 2


def test_ambiguous_resources_are_reported_once_for_all_bindings() -> None:
    bindings = [
        binding("c", owner, "gadgets.example.org", "widgets.example.org", name=owner) for owner in ("p", "q", "r")
    ]
    issues = [text for code, _, text in find_issues(*bindings) if code == "binding-owner"]
    assert [text.partition(":")[0] for text in issues] == [
        "several APIBindings of c list gadgets.example.org",
        "several APIBindings of c list widgets.example.org",
    ]


def test_bindings_are_linted_in_their_own_cluster() -> None:
    bound = binding("c", "p", "widgets.example.org")
    assert find_issues(bound, export("p", "widgets.example.org"), binding("d", "c", "widgets.example.org"))[0][0] == (
        "binding-incomplete"
    )


TWO = [binding("c", owner, "widgets.example.org", name=owner) for owner in ("p", "q")]


LEASES = {**PODS, "apiGroups": ["coordination.k8s.io"], "resources": ["leases"]}


def make_expired_bundle() -> str:
    """Return a caBundle of two CAs that ended on 2020-01-06."""
    made = [new_authority(now=datetime(2020, 1, 1, tzinfo=UTC), lifetime=timedelta(days=5)) for _ in range(2)]
    return base64.b64encode(b"".join(one.certificate_pem for one in made)).decode()


EXPIRED = make_expired_bundle()


UNBOUND = binding("c", "p", phase="Binding")


BAD: list[tuple[str, Documents, str, str]] = [
    ("invalid", [WIDGET, validating(webhook(timeoutSeconds=31))], "", "webhooks[0].timeoutSeconds: Invalid value: 31: the timeout value must be between 1 and 30 seconds"),
    ("suspicious", [validating(webhook(clientConfig={"url": "https://localhost/w", "caBundle": "eA=="})), WIDGET], "", "webhooks[0].clientConfig.caBundle: every call will fail: "),
    ("never-called", [configuration("system:admin", "mutating")], "", "kcp ignores the webhooks of system:admin: register them in another cluster"),
    ("never-called", [validating(webhook(rules=[]))], "w.example.org", "it has no rules, so it is never called: add rules, or remove it"),
    ("never-called", [validating(rule(apiGroups=["admissionregistration.k8s.io"]))], "w.example.org", "rules[0]: webhooks are never called for resources of admissionregistration.k8s.io: remove the rule"),
    ("never-called", [WIDGET, validating(rule(scope="Cluster"))], "w.example.org", "rules[0] never matches: its scope is Cluster, that of widgets is Namespaced: set Namespaced or *"),
    ("never-called", [validating(webhook(rules=[{**NODES, "apiGroups": ["", "apps"], "scope": "Namespaced"}]))], "w.example.org", "rules[0] never matches: its scope is Namespaced, that of nodes is Cluster: set Cluster or *"),
    ("never-called", [validating(webhook(rules=[{**NODES, "scope": "Namespaced"}]))], "w.example.org", "rules[0] never matches: its scope is Namespaced, that of nodes is Cluster: set Cluster or *"),
    ("unserved-resource", [WIDGET, validating(rule(resources=["widget"]))], "w.example.org", "rules[0]: no definition, export or built-in type has widget of example.org in v1: correct the spelling or the version, or add its definition"),
    ("unserved-resource", [WIDGET, validating(rule(apiVersions=["v3"]))], "w.example.org", "rules[0]: no definition, export or built-in type has widgets of example.org in v3: "),
    ("unserved-resource", [WIDGET, validating(rule(resources=["widgets/scale"]))], "w.example.org", "rules[0]: no definition, export or built-in type has widgets/scale of example.org in v1: "),
    ("unserved-resource", [validating(webhook(rules=[{**PODS, "resources": ["pods/foo"]}]))], "w.example.org", "rules[0]: no definition, export or built-in type has pods/foo of the core group in v1: "),
    ("condition-error", [WIDGET, validating(condition("object.spec.size > 10", ("CREATE", "DELETE")))], "w.example.org", "matchConditions a: it reads object, which is null for DELETE, so these requests are refused (failurePolicy Fail): compare with null first, or remove the operation"),
    ("suspicious", [WIDGET, validating(condition("request.name == 'a' && oldObject.spec.size > 10"))], "w.example.org", "matchConditions a: it reads oldObject, which is null for CREATE, so some of these requests are refused (failurePolicy Fail): compare with null first, or remove the operation"),
    ("expired-authority", [WIDGET, validating(webhook(clientConfig={"url": "https://localhost/w", "caBundle": EXPIRED}))], "w.example.org", "clientConfig.caBundle: every call fails, because each of its certificates has expired on 2020-01-06: renew it"),
    *(
        ("stops-control-plane", [validating(webhook(rules=[one], **members), cluster="")], "w.example.org", f"its rules match {names}, and failurePolicy is Fail: while the webhook does not answer, {effect}: name only ")
        for one, members, names, effect in (
            (NODES, {}, "nodes", "nodes cannot join or report their state"),
            ({**NODES, "resources": ["*/status"], "operations": ["UPDATE"]}, {}, "nodes", "nodes cannot join or report their state"),
            ({**ALL, "apiGroups": ["authentication.k8s.io"]}, {}, "tokenreviews", "kubelets, webhooks and aggregated apiservers cannot authenticate callers"),
            ({**ALL, "apiGroups": ["certificates.k8s.io"], "resources": ["certificatesigningrequests/approval"]}, {}, "certificatesigningrequests", "kubelets get no new certificates"),
            ({**ALL, "apiGroups": ["authorization.k8s.io"], "scope": "Namespaced"}, {"namespaceSelector": NOT_OF_KUBERNETES}, "localsubjectaccessreviews", "kubelets and aggregated apiservers cannot authorize callers"),
            ({**LEASES, "operations": ["CREATE"]}, {"timeoutSeconds": 1}, "leases", "components lose their leader election, and nodes become NotReady"),
            (NODES, {"matchConditions": [{"name": "a", "expression": "request.userInfo.username != 'admin' && object.metadata.name != 'b'"}]}, "nodes", "nodes cannot join or report their state"),
            (ALL, {"matchConditions": [{"name": "a", "expression": NOT_DELETED}]}, "nodes, tokenreviews, subjectaccessreviews, localsubjectaccessreviews, selfsubjectaccessreviews, selfsubjectrulesreviews, certificatesigningrequests, leases", "nodes cannot join or report their state; kubelets, webhooks and aggregated apiservers cannot authenticate callers; kubelets and aggregated apiservers cannot authorize callers; clients cannot ask for their own rights; kubelets get no new certificates; components lose their leader election, and nodes become NotReady"),
        )
    ),
    ("stops-control-plane", [validating(webhook(rules=[LEASES], failurePolicy="Ignore", timeoutSeconds=5), cluster="")], "w.example.org", "its rules match leases, and timeoutSeconds is 5: while the webhook is slow, components lose their leader election, and nodes become NotReady: exclude Leases, "),
    *(
        ("never-called", [WIDGET, validating(condition(text))], "w.example.org", "matchConditions a: it is always false: remove the webhook, or the condition")
        for text in (" ( false ) ", "2 < 1")
    ),
    ("condition-error", [WIDGET, validating(condition("authorizer.path('/a').check('get').allowed()"))], "w.example.org", "matchConditions a: no request has an authorizer, so these requests are refused (failurePolicy Fail): remove it"),
    ("condition-error", [WIDGET, validating(condition("1/0 == 1"))], "w.example.org", "matchConditions a: its constants have an error, so all requests are refused (failurePolicy Fail): correct it"),
    ("shadowed", [binding("c", "p", "widgets.example.org"), export("p", "widgets.example.org"), validating(webhook())], "w.example.org", "rules[0]: APIBinding widgets binds widgets.example.org of p, whose webhooks are called instead: register the webhook in p"),
    ("too-many-webhooks", [WIDGET, validating(rule(apiVersions=["v1", *(f"w{number}" for number in range(10_000))]))], "", "its cluster has too many validating webhooks: their rules have too many names, "),
    ("service-in-logical-cluster", [WIDGET, validating(webhook(clientConfig=OWN))], "w.example.org", "clientConfig.service cannot be resolved for the logical cluster c: give a url"),
    ("self-lockout", [validating(own(), cluster="")], "w.example.org", "it must admit its own pods in hooks, but cannot while it is down (failurePolicy Fail): exclude the namespace with a namespaceSelector on kubernetes.io/metadata.name"),
    *(
        ("self-lockout", [validating(own(**members), cluster="")], "w.example.org", "it must admit its own pods in hooks, ")
        for members in (
            *({"matchConditions": [{"name": "a", "expression": one}]} for one in (NOT_DELETED, "request.userInfo.username != 'hook'")),
            *({"rules": [{**PODS, "resources": [one], "operations": ["CREATE"]}]} for one in ("pods/binding", "serviceaccounts/token")),
        )
    ),
    ("self-lockout", [validating(own(rules=[{**ALL, "apiGroups": ["apps"]}], namespaceSelector={"matchLabels": {"watched": "yes"}}), cluster=""), namespace("", "hooks", watched="yes")], "w.example.org", "it must admit its own pods in hooks, "),
    ("binding-owner", TWO, "", "several APIBindings of c list widgets.example.org: p (of p), q (of q); remove all but one"),
    ("binding-owner", [binding("c", "", "widgets.example.org")], "", "APIBinding widgets of c does not name the cluster of its APIExport (apiExportClusterName): wait until kcp sets it, or recreate the APIBinding ("),
    ("binding-owner", [binding("c", "p", "widgets.example.org")], "", "logical cluster p of the APIExport of APIBinding widgets of c is unknown: add the objects of that cluster ("),
    ("binding-incomplete", [binding("c", "p", "widgets.example.org"), export("p", "widgets.example.org", name="other")], "", "APIExport widgets of p is gone; the webhooks of p are still called: restore the APIExport, or remove the APIBinding ("),
    ("binding-incomplete", [UNBOUND], "", "nothing is bound yet (Binding): requests for its resources are refused until they are bound"),
]  # fmt: skip


@pytest.mark.parametrize(("code", "documents", "hook", "text"), BAD)
def test_each_issue_is_reported_alone_with_its_remedy(code: str, documents: Documents, hook: str, text: str) -> None:
    results = [one for one in find_issues(*documents) if one[0] != "suspicious" or code == "suspicious"]
    assert [(one[0], one[1]) for one in results] == [(code, hook)]
    shown = results[0][2]
    assert shown == text or (text.endswith((" ", "(")) and shown.startswith(text))


def test_every_code_has_a_case() -> None:
    assert {case[0] for case in BAD} == set(CODES)


FINE: list[tuple[str, Documents]] = [
    ("a plain webhook", [WIDGET, validating(webhook())]),
    ("updates of a subresource", [validating(webhook(rules=[{**PODS, "resources": ["pods/status"], "operations": ["UPDATE"]}]))]),
    ("evictions", [validating(webhook(rules=[{**PODS, "resources": ["pods/eviction"], "operations": ["CREATE"]}]))]),
    ("Leases with a short timeout", [validating(webhook(rules=[LEASES], timeoutSeconds=3, failurePolicy="Ignore"), cluster="")]),
    ("Leases of some namespaces", [validating(webhook(rules=[LEASES], namespaceSelector=NOT_OF_KUBERNETES), cluster="")]),
    *(
        (f"requests that {one} excludes", [validating(webhook(rules=[ALL], matchConditions=[{"name": "a", "expression": one}]), cluster="")])
        for one in ("!('system:nodes' in request.userInfo.groups)", "request.resource.resource == 'configmaps'", "request.kind.kind == 'Pod'", "object == null || object.metadata.labels.a == 'b'")
    ),
    ("nodes in a logical cluster", [validating(webhook(rules=[NODES]))]),
    ("nodes with Ignore", [validating(webhook(rules=[NODES], failurePolicy="Ignore"), cluster="")]),
    ("nodes that are deleted", [validating(webhook(rules=[{**NODES, "operations": ["DELETE"]}]), cluster="")]),
    ("nodes with a label", [validating(webhook(rules=[NODES], objectSelector={"matchLabels": {"a": "b"}}), cluster="")]),
    ("a condition that compares with null", [WIDGET, validating(condition("object == null || object.spec.size > 10", ("*",)))]),
    ("everything", [validating(webhook(rules=[ALL]))]),
    ("scope of the resource", [WIDGET, validating(rule(scope="Namespaced"))]),
    ("scope of one of several groups", [validating(webhook(rules=[{**NODES, "apiGroups": ["", "apps"], "scope": "Cluster"}]))]),
    ("scope of one of several resources", [validating(webhook(rules=[{**NODES, "resources": ["nodes", "pods"], "scope": "Cluster"}]))]),
    ("scope of what is not known", [validating(webhook(rules=[{**NODES, "resources": ["*"], "scope": "Cluster"}]))]),
    ("the second version", [WIDGET, validating(rule(apiVersions=["v2", "v3"]))]),
    ("subresources", [WIDGET, validating(rule(resources=["widgets/*"]))]),
    ("one group of the cross product", [validating(webhook(rules=[{**PODS, "apiGroups": ["", "apps"], "resources": ["pods", "deployments"]}]))]),
    ("a resource of any group", [validating(rule(apiGroups=["*"]))]),
    ("kcp's own types", [validating(rule(apiGroups=["tenancy.kcp.io"], resources=["workspaces"]))]),
    ("what is exported", [exported("c", "widgets.example.org"), schema("c", "widgets.example.org"), validating(webhook())]),
    ("what is exported, its schema elsewhere", [exported("c", "widgets.example.org"), validating(webhook())]),
    ("a connection", [validating(webhook(rules=[{**PODS, "resources": ["pods/exec"], "operations": ["CONNECT"]}]))]),
    ("connections", [validating(webhook(rules=[{**PODS, "resources": ["*/*"], "operations": ["CONNECT"]}]))]),
    ("conditions on the kind", [WIDGET, validating(condition("request.kind.kind == 'Widget' && 1/1 == 1"))]),
    ("what is exported and bound", [exported("c", "widgets.example.org"), binding("c", "p", "widgets.example.org"), export("p", "widgets.example.org"), validating(webhook())]),
    ("only what is in no namespace", [validating(own(rules=[{**ALL, "apiGroups": ["rbac.authorization.k8s.io"], "scope": "Cluster"}]), cluster="")]),
    ("itself left out", [validating(own(namespaceSelector=NOT_ITSELF), cluster="")]),
    ("only namespaces that ask for it", [validating(own(namespaceSelector={"matchLabels": {"watched": "yes"}}), cluster="")]),
    ("itself, which may be ignored", [validating(own(failurePolicy="Ignore"), cluster="")]),
    ("what it does not need", [validating(own(rules=[{**PODS, "resources": ["configmaps"]}]), cluster="")]),
    ("its deletion", [validating(own(rules=[{**PODS, "operations": ["DELETE"]}]), cluster="")]),
    ("a binding", [binding("c", "p", "widgets.example.org"), export("p", "widgets.example.org")]),
]  # fmt: skip


@pytest.mark.parametrize("documents", [case[1] for case in FINE], ids=[case[0] for case in FINE])
def test_valid_configurations_have_no_findings(documents: Documents) -> None:
    assert find_issues(*documents) == []


def test_a_finding_has_its_place() -> None:
    made = validating(webhook(rules=[]))
    assert lint(store_of(made), places={key_of(made): "a.yaml:7"}) == [
        WebhookFinding(
            level="error",
            code="never-called",
            cluster="c",
            kind="ValidatingWebhookConfiguration",
            configuration="hooks",
            webhook="w.example.org",
            text="it has no rules, so it is never called: add rules, or remove it",
            place="a.yaml:7",
        )
    ]


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3) | st.just("*"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


_MEMBERS = [*webhook(), "objectSelector", "namespaceSelector", "matchConditions", "timeoutSeconds", "failurePolicy"]


@given(member=st.sampled_from(_MEMBERS), value=_JSON, cluster=st.sampled_from(["", "c"]))
def test_members_of_any_type_do_not_raise(member: str, value: Any, cluster: str) -> None:
    made = {**webhook(), member: value}
    lint(store_of(WIDGET, validating(made, webhook(), cluster=cluster), mutating(made, made, cluster=cluster)))


@given(member=st.sampled_from(["apiGroups", "apiVersions", "resources", "operations", "scope"]), value=_JSON)
def test_rules_of_any_type_do_not_raise(member: str, value: Any) -> None:
    lint(store_of(WIDGET, mutating(rule(**{member: value}), own(), cluster="")))


@given(value=_JSON, part=st.sampled_from(["spec", "status"]), kind=st.sampled_from([0, 1, 2]))
def test_bindings_and_exports_of_any_type_do_not_raise(value: Any, part: str, kind: int) -> None:
    documents = [
        binding("c", "p", "widgets.example.org"),
        exported("c", "widgets.example.org"),
        schema("c", "widgets.example.org"),
    ]
    documents = copy.deepcopy(documents)
    documents[kind][part] = value
    lint(store_of(*documents, validating(webhook())))


def test_bound_resources_are_served_with_and_without_a_known_schema() -> None:
    bound = binding("c", "p", "widgets.example.org")
    nameless = copy.deepcopy(bound)
    del nameless["status"]["boundResources"][0]["schema"]
    for one in (bound, nameless):
        assert list_codes(one, export("p", "widgets.example.org"), validating(webhook())) == ["shadowed"]


def test_a_consumer_without_the_objects_of_the_provider_has_shadowed_webhooks() -> None:
    claims_only = binding("c", "g", name="guard")
    seen = [binding("c", "p", "widgets.example.org"), claims_only, logical_cluster("c")]
    ((code, _, text),) = find_issues(*seen, validating(webhook()))
    assert (code, "binds widgets.example.org of its provider, whose webhooks are called instead" in text) == (
        "shadowed",
        True,
    )


def test_the_bound_schema_decides_about_served_versions() -> None:
    documents = [
        binding("c", "p", "widgets.example.org"),
        export("p", "widgets.example.org"),
        schema("p", "widgets.example.org"),
    ]
    assert list_codes(*documents, validating(rule(apiVersions=["v2"]))) == ["unserved-resource", "shadowed"]


def test_each_rule_is_reported_with_its_index() -> None:
    unserved = {**WIDGETS, "resources": ["gadgets"]}
    issues = find_issues(WIDGET, validating(webhook(rules=[WIDGETS, unserved, unserved])))
    assert [text.partition(":")[0] for _, _, text in issues] == ["rules[1]", "rules[2]"]


@pytest.mark.parametrize(
    ("members", "text"),
    [
        ({"apiGroups": ["core"]}, 'apiGroups: the rule never matches: no API group is spelled like this (the group of pods is "")'),
        ({"apiGroups": ["Apps"]}, "apiGroups: the rule never matches: no API group is spelled like this"),
        ({"apiVersions": ["apps/v1"]}, "apiVersions: the rule never matches: no API version is spelled like this"),
        ({"resources": ["Pods", "Pods/status"]}, "resources: the rule never matches: resources are plurals in lower case"),
    ],
)  # fmt: skip
def test_rules_that_never_match_are_warnings(members: dict[str, list[str]], text: str) -> None:
    assert list(configuration_warnings(webhook_configuration(valid_webhook(rules=[open_rule(**members)])))) == [
        f"webhooks[0].rules[0].{text}"
    ]
    mixed = {member: [*values, "*"] for member, values in members.items()}
    assert [
        one
        for one in configuration_warnings(webhook_configuration(valid_webhook(rules=[open_rule(**mixed)])))
        if "never matches" in one
    ] == []


def test_invalid_bundles_are_warnings() -> None:
    unreadable = "Invalid value: unable to load root certificates: unable to parse bytes as PEM block"
    config = {"url": "https://a", "caBundle": "Zm9v"}
    assert list(configuration_warnings(webhook_configuration(valid_webhook(clientConfig=config)))) == [
        f"webhooks[0].clientConfig.caBundle: every call will fail: {unreadable}"
    ]
