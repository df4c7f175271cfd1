"""The chain of interpreters that `fleethook interpret` asks."""

from collections.abc import Sequence

from app.cli.exit_codes import fail
from app.cli.lua_scripts import describe_problems
from app.interpret.chain import Chain, ChainError
from app.interpret.layers import assemble_chain
from app.interpret.lua.customizations import Customizations
from app.interpret.lua.runner import Runner
from app.interpret.python_interpreter import Interpreter, LoadError, load
from app.interpret.question import Question
from app.interpret.webhook_layer import DEFINITIONS_BY_KIND, WebhookLayer
from app.outbound.client import HookClient
from app.settings import Settings
from app.store import Store
from app.store.yaml_reader import Document


def load_interpreters(sources: Sequence[str]) -> list[Interpreter]:
    """Return the interpreters in files or modules. Exits with a message if one cannot be loaded."""
    try:
        return [one for source in sources for one in load(source)]
    except LoadError as error:
        fail(str(error))


def build_chain(
    client: HookClient,
    runner: Runner,
    interpreters: Sequence[str],
    objects: Sequence[Document],
    *,
    bundle: bool = True,
) -> Chain:
    """Return the chain of all layers. Exits with a message if a script or an interpreter cannot be used.

    Args:
        client: Calls interpreter webhooks.
        runner: Runs Lua scripts.
        interpreters: Files or modules of interpreters in Python.
        objects: Customizations, webhook configurations and CustomResourceDefinitions.
        bundle: Whether to include the bundled interpreters.
    """
    store = Store([DEFINITIONS_BY_KIND])
    customizations = Customizations(store, namespace=Settings.model_fields["karmada_namespace"].default)
    hooks = WebhookLayer(store, client, observe=_ignore)
    problems = list(describe_problems(objects))
    if problems:
        fail("\nfleethook: ".join(problems))
    for document in objects:
        store.put(document.object)
    return assemble_chain(
        customizations, hooks, load_interpreters(interpreters), runner, bundle=bundle, observe=_ignore
    )


def _ignore(name: str, outcome: str, seconds: float) -> None:
    """Drop a measurement: a command has no metrics."""
    del name, outcome, seconds


def explain_error(question: Question, error: ChainError) -> str:
    """Return the reason for a missing answer: the error of a layer, or that no layer has the rule."""
    if any(step.outcome != "none" for step in error.steps):
        return str(error)
    kind = f"{question.kind.api_version} {question.kind.kind}"
    layers = ", ".join(step.layer for step in error.steps)
    return f"rule is not set: no layer answers {question.operation} for {kind} (asked: {layers})"
