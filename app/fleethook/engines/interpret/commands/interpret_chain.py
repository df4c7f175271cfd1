"""The chain of interpreters that `fleethook interpret` asks."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from fleethook.cli.inputs.kubeconfig import Target, TargetOptions
from fleethook.cli.inputs.manifests import fail_input
from fleethook.cli.inputs.sources import SourceOptions, check_options, read_source
from fleethook.cli.options import InputOptions
from fleethook.cluster.kubernetes.resources import INTERPRETING, karmada_config
from fleethook.cluster.manifests.manifest_reader import is_directory, list_files
from fleethook.cluster.manifests.yaml_reader import Document, ManifestError
from fleethook.cluster.store import Store
from fleethook.engines.interpret.chain import Chain, ChainError
from fleethook.engines.interpret.commands.lua_scripts import find_problems
from fleethook.engines.interpret.conventions.layer import make_conventions_layer
from fleethook.engines.interpret.hooks.webhook_layer import DEFINITIONS_BY_KIND, WebhookLayer
from fleethook.engines.interpret.interpret_settings import InterpretSettings
from fleethook.engines.interpret.layers import assemble_chain
from fleethook.engines.interpret.lua.customizations import Customizations
from fleethook.engines.interpret.lua.runner import Runner
from fleethook.interpret.python_interpreter import Interpreter, LoadError, load
from fleethook.interpret.question import Question
from fleethook.model.karmada import ConventionsMode
from fleethook.outbound.client import HookClient


def list_python_files(paths: Sequence[Path], exclude: Sequence[str]) -> Iterator[Path]:
    """Yield the Python files in directories that may define an interpreter. Other files are not run."""
    directories = [path for path in paths if is_directory(path)]
    for file in list_files(directories, exclude, testdata=True, suffix=".py"):
        if isinstance(file, Path) and _may_define_interpreter(file):
            yield file


def read_rules(
    karmada: TargetOptions, manifests: Sequence[Path] = (), reading: InputOptions = InputOptions()
) -> list[Document]:
    """Return customizations, webhook configurations and CRDs of Karmada's control plane or of files, none without both.

    Exits with a message if both are given, or the source cannot be read.
    """
    if not (manifests or karmada.is_given):
        return []
    cluster = karmada.find() if karmada.is_given else Target(None)
    is_pod = karmada.is_given and cluster.kubeconfig is None
    options = SourceOptions(manifests, cluster.kubeconfig, cluster.context, is_pod, reading=reading)
    check_options(options, "--manifests")
    config = karmada_config(InterpretSettings.model_fields["karmada_namespace"].default)
    return read_source(options, [*INTERPRETING, config]).documents


def _may_define_interpreter(file: Path) -> bool:
    try:
        return b"interpreter" in file.read_bytes()
    except OSError:
        return True


def load_interpreters(sources: Sequence[str]) -> list[Interpreter]:
    """Return the interpreters in files or modules. Exits with a message if one cannot be loaded."""
    found: list[Interpreter] = []
    for source in sources:
        try:
            found += load(source)
        except LoadError as error:
            fail_input([make_load_error(source, error)])
    return found


def make_load_error(source: str, error: LoadError) -> ManifestError:
    """Return the error of a file or module that cannot be loaded."""
    cause, text = error.__cause__, str(error).removeprefix(f"{source}: ")
    line = (cause.lineno if isinstance(cause, SyntaxError) and cause.filename == source else None) or 0
    return ManifestError(source, line, text)


def build_chain(
    client: HookClient,
    runner: Runner,
    interpreters: Sequence[str],
    objects: Sequence[Document],
    *,
    bundle: bool = True,
    conventions: ConventionsMode = ConventionsMode.OFF,
) -> Chain:
    """Return the chain of all layers. Exits with a message if a script or an interpreter cannot be used.

    Args:
        client: Calls interpreter webhooks.
        runner: Runs Lua scripts.
        interpreters: Files or modules of interpreters in Python.
        objects: Customizations, webhook configurations and CustomResourceDefinitions.
        bundle: Whether to include the bundled interpreters.
        conventions: The operations to answer for kinds that nothing else interprets.
    """
    store = Store([DEFINITIONS_BY_KIND])
    customizations = Customizations(store, namespace=InterpretSettings.model_fields["karmada_namespace"].default)
    hooks = WebhookLayer(store, client, observe=_ignore)
    problems = list(find_problems(objects))
    if problems:
        fail_input(problems)
    for document in objects:
        store.put(document.object)
    return assemble_chain(
        customizations,
        hooks,
        load_interpreters(interpreters),
        runner,
        bundle=store if bundle else None,
        observe=_ignore,
        conventions=make_conventions_layer(store, conventions),
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
