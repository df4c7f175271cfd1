"""Tests of parsing and matching hook configurations."""

from typing import Any

import pytest

from fleethook.engines.interpret.hooks.hook_configuration import Hook, Target, find_target, is_own, matches, parse_hooks
from fleethook.model.gvk import GroupVersionKind
from fleethook.model.json import JSONObject
from fleethook.model.karmada import EXPLORING_CONFIGURATION, INTERPRETER_CONFIGURATION, Operation

FOO = GroupVersionKind("example.org", "v1", "Foo")
TARGET = Target(FOO, "foos", namespaced=True)
RULE = {"apiGroups": ["example.org"], "apiVersions": ["v1"], "kinds": ["Foo"], "operations": ["Retain"]}
PROPOSED = {"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["foos"], "operations": ["*"]}


def parse(*webhooks: Any, proposed: bool = False) -> list[Hook]:
    kind = EXPLORING_CONFIGURATION if proposed else INTERPRETER_CONFIGURATION
    return list(parse_hooks(kind, {"metadata": {"name": "c"}, "webhooks": list(webhooks)}))


def hook(*, proposed: bool = False, **webhook: Any) -> Hook:
    (made,) = parse({"name": "w", **webhook}, proposed=proposed)
    return made


def test_members_of_a_wrong_type_count_as_missing() -> None:
    bare = hook()
    assert hook(rules="x", clientConfig=[], timeoutSeconds="5", interpreterContextVersions={}) == bare
    assert (bare.uid, bare.rules, bare.timeout, bare.versions, bare.endpoint.url) == ("c/w", (), 10.0, (), "")
    assert parse(None, "w") == []
    assert list(parse_hooks(INTERPRETER_CONFIGURATION, {"metadata": {"name": "c"}, "webhooks": {}})) == []


@pytest.mark.parametrize(
    ("config", "url", "server_name"),
    [
        ({"url": "https://h/p"}, "https://h/p", ""),
        ({"service": {"name": "s", "namespace": "n"}}, "https://s.n.svc:443/", "s.n.svc"),
        ({"service": {"name": "s", "namespace": "n", "port": 8443, "path": "/p"}}, "https://s.n.svc:8443/p", "s.n.svc"),
    ],
)
def test_an_endpoint_is_a_url_or_a_service(config: dict[str, Any], url: str, server_name: str) -> None:
    endpoint = hook(clientConfig={**config, "caBundle": "Zg=="}).endpoint
    assert (endpoint.url, endpoint.server_name, endpoint.ca_bundle) == (url, server_name, "Zg==")


def test_only_the_proposed_kind_has_a_failure_policy_and_its_own_versions() -> None:
    given = {"failurePolicy": "Ignore", "exploreReviewVersions": ["v1alpha1"], "interpreterContextVersions": ["v1"]}
    proposed, shipped = hook(proposed=True, **given), hook(**given)
    assert (proposed.ignore_failures, proposed.versions) == (True, ("v1alpha1",))
    assert (shipped.ignore_failures, shipped.versions) == (False, ("v1",))


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, True),
        ({"operations": ["*"]}, True),
        ({"operations": ["InterpretHealth"]}, False),
        ({"operations": "Retain"}, False),
        ({"apiGroups": ["*"], "apiVersions": ["*"], "kinds": ["*"]}, True),
        ({"apiGroups": [""]}, False),
        ({"apiVersions": ["v2"]}, False),
        ({"kinds": ["Bar"]}, False),
        ({"kinds": None}, False),
    ],
)
def test_a_rule_matches_group_version_kind_and_operation(change: dict[str, Any], *, expected: bool) -> None:
    assert matches(hook(rules=["x", {**RULE, **change}]), Operation.RETAIN, TARGET) is expected


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, True),
        ({"resources": ["*"]}, True),
        ({"resources": ["*/*"]}, True),
        ({"resources": ["bars"]}, False),
        ({"scope": "Namespaced"}, True),
        ({"scope": "Cluster"}, False),
        ({"scope": "*"}, True),
    ],
)
def test_a_proposed_rule_matches_resource_and_scope(change: dict[str, Any], *, expected: bool) -> None:
    assert matches(hook(proposed=True, rules=[{**PROPOSED, **change}]), Operation.RETAIN, TARGET) is expected


def test_a_hook_of_this_servers_configuration_is_its_own() -> None:
    own = hook()._replace(uid="fleethook/w")
    assert is_own(own)
    assert not is_own(own._replace(proposed=True))
    assert not is_own(hook())


@pytest.mark.parametrize(
    ("kind", "resource"),
    [("Foo", "foos"), ("Bus", "buses"), ("Policy", "policies"), ("Ingress", "ingresses"), ("Endpoints", "endpoints")],
)
def test_the_plural_is_kubernetes_guess(kind: str, resource: str) -> None:
    assert find_target(GroupVersionKind("", "v1", kind), {}, lambda _: None).resource == resource


@pytest.mark.parametrize(
    ("kind", "metadata", "namespaced"),
    [
        (FOO, {"namespace": "n"}, True),
        (FOO, {}, False),
        (GroupVersionKind("", "v1", "Node"), {"namespace": "n"}, False),
        (GroupVersionKind("apps", "v1", "Deployment"), {}, True),
    ],
)
def test_the_namespace_shows_the_scope_of_unknown_kinds(
    kind: GroupVersionKind, metadata: JSONObject, *, namespaced: bool
) -> None:
    assert find_target(kind, {"metadata": metadata}, lambda _: None).namespaced is namespaced


def test_a_definition_knows_plural_and_scope() -> None:
    definition = {"spec": {"names": {"plural": "fooz"}, "scope": "Cluster"}}
    found = find_target(FOO, {"metadata": {"namespace": "n"}}, lambda _: definition)
    assert found == Target(FOO, "fooz", namespaced=False)
