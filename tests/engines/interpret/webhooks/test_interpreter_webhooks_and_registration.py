"""Tests of parsing and matching hook configurations."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleethook.app import Fleethook, create_app
from fleethook.cluster.manifests.manifest_files import read_documents
from fleethook.cluster.manifests.yaml_decoding_and_lines import read_values
from fleethook.cluster.store import Store
from fleethook.engines.interpret.interpreter_chain import Chain
from fleethook.engines.interpret.interpreter_fixtures import read_fixtures
from fleethook.engines.interpret.lua.bundled_and_crossplane_kinds import BundleLayer
from fleethook.engines.interpret.lua.script_layer_and_runner import Runner
from fleethook.engines.interpret.native.native_kinds import NATIVE, NativeLayer
from fleethook.engines.interpret.webhooks.interpreter_webhooks_and_registration import (
    DEFINITIONS_BY_KIND,
    INDEXES,
    InterpretedKind,
    InterpreterWebhook,
    KarmadaInterpreters,
    build_configuration,
    choose_answers,
    find_target,
    is_own,
    matches,
    parse_webhooks,
    problems,
    read_karmada_interpreters,
    select,
    select_from_store,
)
from fleethook.engines.interpret.webhooks.webhook_layer import WebhookLayer
from fleethook.model.gvk import GroupVersionKind
from fleethook.model.json import JSONObject
from fleethook.model.karmada import (
    EXPLORING_CONFIGURATION,
    INTERPRETER_CONFIGURATION,
    InterpreterRegistration,
    Operation,
)
from fleethook.outbound.calls_and_retries import HookClient
from fleethook.settings import Settings
from tests.asgi_client import call
from tests.serving import EXAMPLES

FOO = GroupVersionKind("example.org", "v1", "Foo")
TARGET = InterpretedKind(FOO, "foos", namespaced=True)
RULE = {"apiGroups": ["example.org"], "apiVersions": ["v1"], "kinds": ["Foo"], "operations": ["Retain"]}
PROPOSED = {"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["foos"], "operations": ["*"]}


def parse(*webhooks: Any, proposed: bool = False) -> list[InterpreterWebhook]:
    kind = EXPLORING_CONFIGURATION if proposed else INTERPRETER_CONFIGURATION
    return list(parse_webhooks(kind, {"metadata": {"name": "c"}, "webhooks": list(webhooks)}))


def hook(*, proposed: bool = False, **webhook: Any) -> InterpreterWebhook:
    (made,) = parse({"name": "w", **webhook}, proposed=proposed)
    return made


def test_members_of_a_wrong_type_count_as_missing() -> None:
    bare = hook()
    assert hook(rules="x", clientConfig=[], timeoutSeconds="5", interpreterContextVersions={}) == bare
    assert (bare.uid, bare.rules, bare.timeout, bare.versions, bare.endpoint.url) == ("c/w", (), 10.0, (), "")
    assert parse(None, "w") == []
    assert list(parse_webhooks(INTERPRETER_CONFIGURATION, {"metadata": {"name": "c"}, "webhooks": {}})) == []


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


HOOK_RULE = {"apiGroups": ["*"], "apiVersions": ["v1"], "kinds": ["Foo"], "operations": ["InterpretHealth"]}
HOOK = {"name": "w.example.org", "clientConfig": {"url": "https://h/"}, "interpreterContextVersions": ["v1alpha1"]}
PROPOSED_HOOK_RULE = {"apiGroups": ["*"], "apiVersions": ["v1"], "resources": ["foos"], "operations": ["*"]}
PROPOSED_HOOK = {"name": "w.example.org", "clientConfig": {"url": "https://h/"}, "exploreReviewVersions": ["v1alpha1"]}


def find(webhook: dict[str, Any], *, proposed: bool = False) -> list[str]:
    kind = EXPLORING_CONFIGURATION if proposed else INTERPRETER_CONFIGURATION
    return [one.field for one in problems(kind, {"metadata": {"name": "c"}, "webhooks": [webhook]})]


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


def test_definitions_are_found_by_the_kind_that_they_define() -> None:
    store = Store(INDEXES)
    spec = {"group": "example.org", "names": {"kind": "Widget"}}
    definition = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "spec": spec}
    store.put({**definition, "metadata": {"name": "widgets.example.org"}})
    store.put({**definition, "metadata": {"name": "empty"}, "spec": {}})
    (found,) = store.find(DEFINITIONS_BY_KIND, "", ("example.org", "Widget"))
    assert found["metadata"]["name"] == "widgets.example.org"


FOO, BAR, BAZ = (GroupVersionKind("example.org", "v1", kind) for kind in ("Foo", "Bar", "Baz"))
ALL = InterpreterRegistration.ALL
KINDS = [
    GroupVersionKind(group, version, kind)
    for group in ("", "a", "b")
    for version in ("v1", "v2")
    for kind in ("X", "Y", "Z")
]
KNOWN = [operation for operation in Operation if operation is not Operation.PRUNE]
PAIRS = st.frozensets(st.tuples(st.sampled_from(KINDS), st.sampled_from(list(Operation))))


def make_hooks(rules: list[Any], name: str = "other") -> list[InterpreterWebhook]:
    made = {
        "metadata": {"name": name},
        "webhooks": [{"name": "w", "clientConfig": {"url": "https://x"}, "rules": rules}],
    }
    return list(parse_webhooks(INTERPRETER_CONFIGURATION, made))


def make_rule(kind: str = "*", operation: str = "*") -> dict[str, Any]:
    return {"apiGroups": ["example.org"], "apiVersions": ["*"], "kinds": [kind], "operations": [operation]}


@given(PAIRS, PAIRS)
def test_rules_match_exactly_the_unclaimed_answers(answers: Any, theirs: Any) -> None:
    others = [
        hook
        for kind, operation in theirs
        for hook in make_hooks(
            [
                {
                    "apiGroups": [kind.group],
                    "apiVersions": [kind.version],
                    "kinds": [kind.kind],
                    "operations": [operation],
                }
            ]
        )
    ]
    found = select(answers, others)
    own = make_hooks(found.rules, "fleethook")
    asked = {
        (kind, operation)
        for kind in KINDS
        for operation in Operation
        if any(matches(hook, operation, InterpretedKind(kind, "", namespaced=True)) for hook in own)
    }
    assert asked == {pair for pair in answers - theirs if pair[1] is not Operation.PRUNE}
    assert len(found.left_out) == len([pair for pair in answers & theirs if pair[1] is not Operation.PRUNE])


def test_kinds_with_the_same_operations_share_a_rule() -> None:
    answers = [(kind, operation) for kind in (FOO, BAR) for operation in (Operation.HEALTH, Operation.RETAIN)]
    assert select(answers, ()).rules == [
        {
            "apiGroups": ["example.org"], "apiVersions": ["v1"], "kinds": ["Bar", "Foo"],
            "operations": ["Retain", "InterpretHealth"],
        }
    ]  # fmt: skip


def test_rules_of_other_configurations_are_left_out_and_named() -> None:
    answers = [(FOO, Operation.HEALTH)]
    (left,) = select(answers, make_hooks([make_rule("Foo")])).left_out
    assert left == "InterpretHealth of example.org/v1 Foo is not registered: webhook other/w already has it"
    assert select(answers, make_hooks([make_rule()], "fleethook")).left_out == []


def test_configuration_without_rules_has_no_webhook() -> None:
    assert build_configuration([], {"url": "https://x"})["webhooks"] == []


KARMADA = KarmadaInterpreters(
    {(BAR, one) for one in (Operation.HEALTH, Operation.RETAIN)},
    {(BAZ, one) for one in (Operation.REPLICA, Operation.AGGREGATE_STATUS)},
)


def read_pairs(text: str) -> set[tuple[GroupVersionKind, Operation]]:
    """Return kinds and operations: ``Foo Health Retain, Bar Health``."""
    named = {one.value.removeprefix("Interpret"): one for one in Operation}
    kinds = {"Foo": FOO, "Bar": BAR, "Baz": BAZ}
    rows = [row.split() for row in text.split(", ") if row]
    return {(kinds[kind], named[one]) for kind, *operations in rows for one in operations}


@pytest.mark.parametrize(
    ("layers", "own", "missing", "everything"),
    [
        # The user's interpreters replace Karmada's.
        ({"lua": "Foo Health", "python": "Bar Retain"},
         "Foo Health, Bar Retain",
         "Foo Health, Bar Retain",
         "Foo Health, Bar Retain"),
        # Karmada lacks kinds or operations, which the bundle and the conventions answer.
        ({"bundle": "Baz Replica Retain", "conventions": "Bar Health"},
         "",
         "Baz Retain",
         "Baz Replica Retain, Bar Health"),
        # The kinds of Kubernetes are Karmada's.
        ({"native": "Bar Health, Foo Health"},
         "",
         "",
         "Bar Health, Foo Health"),
        # Components would replace the replicas that Karmada reads.
        ({"bundle": "Baz Component, Foo Component"},
         "",
         "Foo Component",
         "Foo Component, Baz Component"),
        # The bundle's status is for its own aggregation, or for the user's.
        ({"bundle": "Baz Status AggregateStatus, Bar Status"},
         "",
         "",
         "Baz Status AggregateStatus, Bar Status"),
        ({"bundle": "Baz Status", "python": "Baz AggregateStatus, Bar Status"},
         "Baz AggregateStatus, Bar Status",
         "Baz AggregateStatus Status, Bar Status",
         "Baz AggregateStatus Status, Bar Status"),
    ],
)  # fmt: skip
def test_the_choice_decides_what_karmada_asks(layers: dict[str, str], own: str, missing: str, everything: str) -> None:
    given = {name: read_pairs(answers) for name, answers in layers.items()}
    for choice, expected in zip(
        (InterpreterRegistration.OWN, InterpreterRegistration.MISSING, ALL), (own, missing, everything), strict=True
    ):
        assert choose_answers(given, choice, KARMADA) == read_pairs(expected), choice


def test_karmadas_interpreters_are_the_operations_of_its_fixtures() -> None:
    found = read_karmada_interpreters()
    fixtures = Path(__file__).parents[3] / "conformance" / "karmada" / "thirdparty"
    asked = {
        (case.question.kind, case.question.operation)
        for path in fixtures.rglob("*.yaml")
        for value in read_values(path.read_text("utf-8"), source=path.name)
        for case in read_fixtures(value.value)
    }
    # Karmada has no fixture of this one.
    sidecar_set = GroupVersionKind("apps.kruise.io", "v1alpha1", "SidecarSet")
    assert asked | {(sidecar_set, Operation.RETAIN)} == found.thirdparty
    assert {kind for kind, _ in found.native} == NATIVE.keys()


def test_by_default_karmada_interprets_its_own_kinds_and_the_bundle_the_others() -> None:
    karmada = read_karmada_interpreters()
    chain = Chain([BundleLayer(Runner()), NativeLayer()])
    missing = choose_answers(chain.answers(), InterpreterRegistration.MISSING, karmada)
    assert not missing & {*karmada.native, *karmada.thirdparty}
    assert choose_answers(chain.answers(), ALL, karmada) >= missing | {*karmada.thirdparty}
    flux = {kind.version: one for kind, one in missing if kind.kind == "HelmRelease" and one is Operation.HEALTH}
    assert flux.keys() == {"v2", "v2beta2"}, "Karmada has the version v2beta1"


@pytest.mark.parametrize(("name", "asked"), [("fleethook", False), ("other", True)])
def test_this_server_does_not_ask_itself(name: str, asked: bool) -> None:
    store = Store([DEFINITIONS_BY_KIND])
    config = build_configuration(select([(FOO, Operation.HEALTH)], ()).rules, {"url": "https://x"})
    config["metadata"] = {"name": name}
    store.put(config)
    layer = WebhookLayer(store, HookClient(allow_private=True), observe=lambda *_: None)
    assert bool(layer.list_webhooks()) is asked
    assert list(layer.answers()) == []


def test_every_operation_of_karmada_can_be_registered() -> None:
    rules = select([(FOO, operation) for operation in Operation], ()).rules
    assert [one["operations"] for one in rules] == [[operation.value for operation in KNOWN]]


FOO_KIND = GroupVersionKind("example.org", "v1", "Foo")
BAR_KIND = GroupVersionKind("example.org", "v1", "Bar")
CLAIM = {
    "apiVersion": "config.karmada.io/v1alpha1",
    "kind": "ResourceInterpreterWebhookConfiguration",
    "metadata": {"name": "other"},
    "webhooks": [{"name": "w", "clientConfig": {"url": "https://x"}, "rules": [
        {"apiGroups": ["example.org"], "apiVersions": ["*"], "kinds": ["Foo"], "operations": ["*"]}]}],
}  # fmt: skip


def test_kinds_of_other_configurations_are_left_out() -> None:
    store = Store([DEFINITIONS_BY_KIND])
    for name in ("other", "another"):
        store.put(CLAIM | {"metadata": {"name": name}})
    found = select_from_store(store, {"python": [(FOO_KIND, Operation.HEALTH)]}, InterpreterRegistration.OWN)
    text = "InterpretHealth of example.org/v1 Foo is not registered: webhook another/w already has it"
    assert found.left_out == [text], "Karmada asks the first webhook by name"
