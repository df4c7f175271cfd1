"""The rules of this server's configuration name exactly the kinds and operations that it answers."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleethook.cluster.manifests.yaml_reader import read_values
from fleethook.cluster.store import Store
from fleethook.engines.interpret.chain import Chain, NativeLayer
from fleethook.engines.interpret.fixtures import read_fixtures
from fleethook.engines.interpret.hooks.definition_index import DEFINITIONS_BY_KIND
from fleethook.engines.interpret.hooks.hook_configuration import (
    InterpretedKind,
    InterpreterWebhook,
    matches,
    parse_hooks,
)
from fleethook.engines.interpret.hooks.interpreter_registration import (
    KarmadaInterpreters,
    build_configuration,
    choose_answers,
    read_karmada_interpreters,
    select,
    select_from_store,
)
from fleethook.engines.interpret.hooks.webhook_layer import WebhookLayer
from fleethook.engines.interpret.lua.bundle import BundleLayer
from fleethook.engines.interpret.lua.runner import Runner
from fleethook.engines.interpret.native import NATIVE
from fleethook.model.gvk import GroupVersionKind
from fleethook.model.karmada import INTERPRETER_CONFIGURATION, InterpreterRegistration, Operation
from fleethook.outbound.client import HookClient

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
    return list(parse_hooks(INTERPRETER_CONFIGURATION, made))


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
    assert bool(layer.list_hooks()) is asked
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
