"""The chain of the server: its layers and their order."""

from collections.abc import Iterator

import pytest

from fleethook.cluster.store import Store
from fleethook.engines.interpret.interpreter_chain import Chain
from fleethook.engines.interpret.layer_order import assemble_chain
from fleethook.engines.interpret.lua.customizations_in_use_and_admission import Customizations
from fleethook.engines.interpret.lua.script_layer_and_runner import Runner
from fleethook.engines.interpret.webhooks.interpreter_webhooks_and_registration import DEFINITIONS_BY_KIND
from fleethook.engines.interpret.webhooks.webhook_layer import WebhookLayer
from fleethook.interpret.interpreter import Interpreter, Question
from fleethook.model.gvk import GroupVersionKind
from fleethook.model.karmada import Operation
from fleethook.outbound.calls_and_retries import HookClient
from tests.engines.interpret.lua.customization_objects import customization

FOO = GroupVersionKind("example.com", "v1", "Foo")
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
