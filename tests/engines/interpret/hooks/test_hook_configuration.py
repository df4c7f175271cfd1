"""Tests of parsing and matching hook configurations."""

import json
from typing import Any

import pytest

from fleethook.app import Fleethook, create_app
from fleethook.cluster.manifests.manifest_reader import read_documents
from fleethook.engines.interpret.hooks.hook_configuration import (
    InterpretedKind,
    InterpreterWebhook,
    find_target,
    is_own,
    matches,
    parse_hooks,
    problems,
)
from fleethook.model.gvk import GroupVersionKind
from fleethook.model.json import JSONObject
from fleethook.model.karmada import EXPLORING_CONFIGURATION, INTERPRETER_CONFIGURATION, Operation
from fleethook.settings import Settings
from tests.asgi_client import call
from tests.serving import EXAMPLES

FOO = GroupVersionKind("example.org", "v1", "Foo")
TARGET = InterpretedKind(FOO, "foos", namespaced=True)
RULE = {"apiGroups": ["example.org"], "apiVersions": ["v1"], "kinds": ["Foo"], "operations": ["Retain"]}
PROPOSED = {"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["foos"], "operations": ["*"]}


def parse(*webhooks: Any, proposed: bool = False) -> list[InterpreterWebhook]:
    kind = EXPLORING_CONFIGURATION if proposed else INTERPRETER_CONFIGURATION
    return list(parse_hooks(kind, {"metadata": {"name": "c"}, "webhooks": list(webhooks)}))


def hook(*, proposed: bool = False, **webhook: Any) -> InterpreterWebhook:
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
    assert found == InterpretedKind(FOO, "fooz", namespaced=False)


HOOK_RULE = {"apiGroups": ["*"], "apiVersions": ["v1"], "kinds": ["Foo"], "operations": ["InterpretHealth"]}
HOOK = {"name": "w.example.org", "clientConfig": {"url": "https://h/"}, "interpreterContextVersions": ["v1alpha1"]}
PROPOSED_HOOK_RULE = {"apiGroups": ["*"], "apiVersions": ["v1"], "resources": ["foos"], "operations": ["*"]}
PROPOSED_HOOK = {"name": "w.example.org", "clientConfig": {"url": "https://h/"}, "exploreReviewVersions": ["v1alpha1"]}


def find(webhook: dict[str, Any], *, proposed: bool = False) -> list[str]:
    kind = EXPLORING_CONFIGURATION if proposed else INTERPRETER_CONFIGURATION
    return [one.field for one in problems(kind, {"metadata": {"name": "c"}, "webhooks": [webhook]})]


def test_valid_configurations_have_no_problem() -> None:
    assert find({**HOOK, "rules": [HOOK_RULE], "timeoutSeconds": 30}) == []
    assert find({**PROPOSED_HOOK, "rules": [PROPOSED_HOOK_RULE], "failurePolicy": "Ignore"}, proposed=True) == []


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"name": "w"}, "name"),
        ({"timeoutSeconds": 31}, "timeoutSeconds"),
        ({"clientConfig": {}}, "clientConfig"),
        ({"interpreterContextVersions": []}, "interpreterContextVersions"),
        ({"rules": [{**HOOK_RULE, "operations": []}]}, "rules[0].operations"),
        ({"rules": [HOOK_RULE, {**HOOK_RULE, "operations": ["Retain", "Guess"]}]}, "rules[1].operations[1]"),
        ({"rules": [{**HOOK_RULE, "operations": ["Prune"]}]}, "rules[0].operations[0]"),
        ({"rules": [{**HOOK_RULE, "kinds": []}]}, "rules[0].kinds"),
        ({"rules": [{**HOOK_RULE, "apiVersions": [""]}]}, "rules[0].apiVersions[0]"),
    ],
)
def test_a_wrong_member_is_named(change: dict[str, Any], field: str) -> None:
    assert find({**HOOK, **change}) == [f"webhooks[0].{field}"]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"failurePolicy": "Maybe"}, "failurePolicy"),
        ({"rules": [{**PROPOSED_HOOK_RULE, "scope": "Everywhere"}]}, "rules[0].scope"),
        ({"rules": [{**PROPOSED_HOOK_RULE, "resources": []}]}, "rules[0].resources"),
    ],
)
def test_the_proposed_kind_has_policy_resources_and_scope(change: dict[str, Any], field: str) -> None:
    assert find({**PROPOSED_HOOK, **change}, proposed=True) == [f"webhooks[0].{field}"]
    assert find({**HOOK, "failurePolicy": "Maybe", "rules": [{**HOOK_RULE, "scope": "Everywhere"}]}) == []


ROUTE = "/validate-config-karmada-io-v1alpha1-resourceexploringwebhookconfiguration"
(EXAMPLE,) = [
    one.object for one in read_documents((EXAMPLES / "interpreter" / "configuration.yaml").read_text(), source="")
]


@pytest.fixture
def app() -> Fleethook:
    return create_app(Settings(), log=None)


async def review(app: Fleethook, document: Any, kind: str = EXAMPLE["kind"], **fields: Any) -> dict[str, Any]:
    request = {
        "uid": "u", "operation": "CREATE", "object": document,
        "kind": {"group": "config.karmada.io", "version": "v1alpha1", "kind": kind}, **fields,
    }  # fmt: skip
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    response: dict[str, Any] = (await call(app, ROUTE, json.dumps(review).encode())).json()["response"]
    return response


def with_webhook(document: Any, **webhook: Any) -> Any:
    return {**document, "webhooks": [{**document["webhooks"][0], **webhook}]}


async def test_example_of_the_proposal_is_admitted(app: Fleethook) -> None:
    assert await review(app, EXAMPLE) == {"uid": "u", "allowed": True}


async def test_message_lists_several_problems_with_causes(app: Fleethook) -> None:
    one = (await review(app, with_webhook(EXAMPLE, timeoutSeconds=60)))["status"]
    text = "webhooks[0].timeoutSeconds: Invalid value: 60: the timeout value must be between 1 and 30 seconds"
    assert (one["code"], one["message"]) == (422, text)
    two = (await review(app, with_webhook(EXAMPLE, timeoutSeconds=60, name="")))["status"]
    assert two["message"] == f"[webhooks[0].name: Required value, {text}]"
    assert [cause["field"] for cause in two["details"]["causes"]] == ["webhooks[0].name", "webhooks[0].timeoutSeconds"]


async def test_shipped_configuration_has_its_own_members(app: Fleethook) -> None:
    response = await review(app, EXAMPLE, kind="ResourceInterpreterWebhookConfiguration")
    fields = {cause["field"] for cause in response["status"]["details"]["causes"]}
    assert {"webhooks[0].rules[0].kinds", "webhooks[0].interpreterContextVersions"} <= fields


async def test_deletion_is_allowed_and_other_kinds_are_refused(app: Fleethook) -> None:
    going = {**with_webhook(EXAMPLE, name=""), "metadata": {"name": "x", "deletionTimestamp": "2026-06-01T00:00:00Z"}}
    assert (await review(app, going))["allowed"]
    assert (await review(app, None, operation="DELETE"))["allowed"]
    assert (await review(app, EXAMPLE, kind="Pod"))["status"]["code"] == 400
