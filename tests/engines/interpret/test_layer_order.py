"""The chain of the server: its layers and their order."""

from collections.abc import Iterator
from typing import Any

import pytest

from fleethook.cluster.store import Store
from fleethook.engines.interpret.interpreter_chain import Chain, ChainError, ChainStep, NativeLayer
from fleethook.engines.interpret.layer_order import ConventionsLayer, assemble_chain
from fleethook.engines.interpret.lua.customizations import Customizations
from fleethook.engines.interpret.lua.script_runner import Runner
from fleethook.engines.interpret.webhooks.webhook_configuration import DEFINITIONS_BY_KIND
from fleethook.engines.interpret.webhooks.webhook_layer import WebhookLayer
from fleethook.interpret.interpreter import Interpreter, Question
from fleethook.model.gvk import GroupVersionKind
from fleethook.model.karmada import ConventionsMode, Operation
from fleethook.outbound.webhook_client import HookClient
from tests.engines.interpret.lua.customization_objects import customization

OFF, HEALTH, ALL = ConventionsMode.OFF, ConventionsMode.HEALTH, ConventionsMode.ALL
FOO = GroupVersionKind("example.com", "v1", "Foo")
OLD = FOO._replace(version="v1alpha1")
SCALE = {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"}


def define(group: str = "example.com", kind: str = "Foo", **versions: Any) -> dict[str, Any]:
    """Return a definition; the value of a version are its members."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind.lower()}s.{group}"},
        "spec": {
            "group": group,
            "names": {"kind": kind},
            "versions": [{"name": name, "served": True, **members} for name, members in versions.items()],
        },
    }


def layer_of(mode: ConventionsMode, *definitions: dict[str, Any]) -> ConventionsLayer:
    store = Store([DEFINITIONS_BY_KIND])
    for one in definitions:
        store.put(one)
    return ConventionsLayer(store, mode)


SCALED = define(v1={"subresources": {"scale": SCALE}}, v1alpha1={"subresources": {"status": {}}})


@pytest.mark.parametrize(
    ("mode", "answered"),
    [
        (OFF, set()),
        (HEALTH, {(FOO, Operation.HEALTH), (OLD, Operation.HEALTH)}),
        (
            ALL,
            {(kind, operation) for kind in (FOO, OLD) for operation in (Operation.HEALTH, Operation.DEPENDENCY)}
            | {(FOO, Operation.REPLICA), (FOO, Operation.REVISE_REPLICA)},
        ),
    ],
)
def test_the_layer_declares_what_it_answers_for_the_served_kinds(mode: ConventionsMode, answered: set[Any]) -> None:
    unserved = define(kind="Bar", v1={"served": False})
    layer = layer_of(mode, SCALED, unserved, define("policy.karmada.io", "Policy", v1={}), define(kind="", spec={}))
    assert {one for one in layer.answers() if one[0].kind in ("Foo", "Bar", "Policy")} == answered
    for kind, operation in answered:
        assert layer.find(Question(operation, kind, {})) is not None


@pytest.mark.parametrize("subresources", [None, {}, {"scale": None}, {"scale": {"specReplicasPath": 1}}])
def test_without_a_scale_subresource_replicas_are_unknown(subresources: Any) -> None:
    layer = layer_of(ALL, define(v1={"subresources": subresources}))
    for kind in (FOO, OLD, FOO._replace(kind="Undefined")):
        assert layer.find(Question(Operation.REPLICA, kind, {})) is None
        assert layer.find(Question(Operation.HEALTH, kind, {})) is not None


async def test_explanations_name_the_rule_and_what_decided() -> None:
    chain = Chain([NativeLayer(), layer_of(ALL, SCALED)])
    document = {"spec": {"size": 2}, "status": {"conditions": [{"type": "Ready", "status": "False", "reason": "No"}]}}
    explained = await chain.answer(Question(Operation.HEALTH, FOO, document))
    assert explained.answer.healthy is False
    assert explained.steps[-1] == ChainStep("conventions", "standard conditions", "answered", "Ready is False (No)")
    explained = await chain.answer(Question(Operation.REPLICA, FOO, document))
    assert (explained.answer.replicas, explained.steps[-1].hook) == (2, "scale subresource")
    explained = await chain.answer(Question(Operation.REVISE_REPLICA, FOO, document, replicas=5))
    assert explained.answer.object == {**document, "spec": {"size": 5}}
    with pytest.raises(ChainError, match="not found"):
        await chain.answer(Question(Operation.AGGREGATE_STATUS, FOO, document))


WORKFLOW = GroupVersionKind("argoproj.io", "v1alpha1", "Workflow")
HEALTHY = "function InterpretHealth(o) return true end"


@pytest.fixture
def runner() -> Iterator[Runner]:
    made = Runner()
    yield made
    made.close()


def chain_of(runner: Runner, *scripts: str, bundle: bool = False, traces: bool = False) -> Chain:
    """Return a chain with scripts for the health of Foo, and a Python interpreter that denies it."""
    store = Store([DEFINITIONS_BY_KIND])
    customizations = Customizations(store, namespace="karmada-system")
    for number, script in enumerate(scripts):
        store.put(customization(f"foo-{number}", healthInterpretation=script))
    python = Interpreter("example.com/v1", "Foo")
    python.healthy(lambda _: False)
    hooks = WebhookLayer(store, HookClient(allow_private=True), observe=lambda *_: None)
    return assemble_chain(customizations, hooks, [python], runner, bundle=bundle, traces=traces)


async def test_scripts_are_asked_before_webhooks_and_python(runner: Runner) -> None:
    explained = await chain_of(runner, HEALTHY).answer(Question(Operation.HEALTH, FOO, {}))
    assert explained.answer.healthy is True
    assert [step.layer for step in explained.steps] == ["lua"]
    explained = await chain_of(runner).answer(Question(Operation.HEALTH, FOO, {}))
    assert explained.answer.healthy is False
    assert [step.outcome for step in explained.steps] == ["none", "none", "answered"]


@pytest.mark.parametrize("bundle", [True, False])
def test_the_bundle_is_a_layer_only_if_it_is_asked_for(runner: Runner, *, bundle: bool) -> None:
    answers = chain_of(runner, bundle=bundle).answers()
    assert (FOO, Operation.HEALTH) in answers["python"]
    assert ((WORKFLOW, Operation.HEALTH) in answers.get("bundle", ())) is bundle
    assert (GroupVersionKind("apps", "v1", "Deployment"), Operation.HEALTH) in answers["native"]


@pytest.mark.parametrize("traces", [True, False])
async def test_calls_of_scripts_are_traced_only_if_they_are_asked_for(runner: Runner, *, traces: bool) -> None:
    explained = await chain_of(runner, HEALTHY, traces=traces).answer(Question(Operation.HEALTH, FOO, {}))
    assert [call.kind for call in explained.calls] == (["script"] if traces else [])
