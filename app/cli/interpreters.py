"""The interpreters that a command is given, as one chain."""

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from app.cli.failures import fail
from app.cli.manifests import files, mappings
from app.cli.scripts import refusals
from app.cli.verdicts import Verdict
from app.interpret.chain import Chain, ChainError
from app.interpret.fixtures import Difference, Fixture, FixtureError, compare_answer, is_fixture, read_fixtures
from app.interpret.layers import assemble_chain
from app.interpret.lua.customizations import Customizations
from app.interpret.lua.runner import Runner
from app.interpret.python_interpreter import Interpreter, LoadError, load
from app.interpret.question import Question
from app.interpret.webhook_layer import DEFINITIONS_BY_KIND, WebhookLayer
from app.outbound.client import HookClient
from app.settings import Settings
from app.store import Store
from app.store.store import key_of
from app.store.yaml_lines import FieldLines
from app.store.yaml_reader import Document


class Case(NamedTuple):
    """A fixture, and where it stands."""

    path: Path
    line: int
    fixture: Fixture


class Found(NamedTuple):
    """What directories of interpreters and fixtures hold."""

    cases: list[Case]
    objects: list[Document]
    interpreters: list[str]


def loaded(sources: Sequence[str]) -> list[Interpreter]:
    """Return the interpreters that are in files or modules; leaves with a message where one cannot be loaded."""
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
    """Return the chain of all layers; leaves with a message where something cannot be used.

    Args:
        client: What calls hooks.
        runner: What runs scripts.
        interpreters: Files or modules.
        objects: Customizations, hook configurations, definitions.
        bundle: Whether the bundle is asked.
    """
    store = Store([DEFINITIONS_BY_KIND])
    customizations = Customizations(store, namespace=Settings.model_fields["karmada_namespace"].default)
    hooks = WebhookLayer(store, client, observe=_unobserved)
    problems = list(refusals(objects))
    if problems:
        fail("\nfleethook: ".join(problems))
    for document in objects:
        store.put(document.object)
    return assemble_chain(customizations, hooks, loaded(interpreters), runner, bundle=bundle, observe=_unobserved)


def _unobserved(name: str, outcome: str, seconds: float) -> None:
    del name, outcome, seconds


def find(paths: Sequence[Path]) -> Found:
    """Return the fixtures in files and directories, and in directories also what they are to test."""
    found = Found([], [], [])
    for path in paths:
        if path.is_dir():
            found.interpreters.extend(str(file) for file in sorted(path.rglob("*.py")))
    for path in files(paths):
        for document in mappings(path):
            if is_fixture(document.object):
                found.cases.extend(_cases(path, document))
            elif not _is_object(document.object):
                fail(f"{path}:{document.line}: is neither a fixture (name, operation, output) nor an object to test")
            elif path not in paths:
                found.objects.append(document)
    return found


def _cases(path: Path, document: Document) -> Iterator[Case]:
    """Yield the fixtures of a document with the line of each; leaves with a message where one cannot be run."""
    lines, shared = FieldLines(), "tests" in document.object
    line, position = document.line, 0
    try:
        for position, one in enumerate(read_fixtures(document.object), start=1):
            line = lines.line(document, f"tests[{position - 1}]") if shared else document.line
            yield Case(path, line, one)
    except FixtureError as error:
        line = lines.line(document, f"tests[{position}]") if shared else document.line
        fail(f"{path}:{line}: {error}")


def _is_object(value: object) -> bool:
    if not isinstance(value, dict) or not isinstance(value.get("metadata"), dict):
        return False
    return all(isinstance(value.get(name), str) for name in ("apiVersion", "kind")) and bool(key_of(value).name)


def explain_error(question: Question, error: ChainError) -> str:
    """Return why there is no answer: the error of a layer, or that no layer has the rule."""
    if any(step.outcome != "none" for step in error.steps):
        return str(error)
    kind = f"{question.kind.api_version} {question.kind.kind}"
    layers = ", ".join(step.layer for step in error.steps)
    return f"rule is not set: nothing answers {question.operation} for {kind} (asked: {layers})"


async def judge(chain: Chain, case: Case) -> Verdict:
    """Return what becomes of a fixture."""
    started = time.perf_counter()
    layer, error, found = "", "", list[Difference]()
    try:
        explained = await chain.answer(case.fixture.question)
        layer = explained.steps[-1].layer
        found = list(compare_answer(case.fixture, explained.answer))
    except ChainError as problem:
        layer, error = problem.steps[-1].layer if problem.steps else "", explain_error(case.fixture.question, problem)
    seconds = time.perf_counter() - started
    operation = case.fixture.question.operation.value
    return Verdict(str(case.path), case.line, case.fixture.name, operation, layer, seconds, error, found)
