"""The interpreters that a command is given, as one chain."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from app.cli.failures import fail
from app.cli.manifests import documents, files, values
from app.cli.verdicts import Verdict
from app.interpret.chain import Chain, ChainError
from app.interpret.fixtures import Difference, Fixture, FixtureError, differences, fixtures, is_fixture
from app.interpret.layers import chain_of
from app.interpret.lua.customizations import Customizations
from app.interpret.lua.runner import Runner
from app.interpret.registry import Interpreter, LoadError, load
from app.interpret.webhook import DEFINITIONS_BY_KIND, WebhookLayer
from app.model.json import JSONObject
from app.outbound.client import HookClient
from app.settings import Settings
from app.store import Store
from app.store.store import key_of


class Case(NamedTuple):
    """A fixture, and where it stands."""

    path: Path
    line: int
    fixture: Fixture


class Found(NamedTuple):
    """What directories of interpreters and fixtures hold."""

    cases: list[Case]
    objects: list[JSONObject]
    interpreters: list[str]


def loaded(sources: Sequence[str]) -> list[Interpreter]:
    """Return the interpreters that are in files or modules; leaves with a message where one cannot be loaded."""
    try:
        return [one for source in sources for one in load(source)]
    except LoadError as error:
        fail(str(error))


def build_chain(
    client: HookClient, runner: Runner, interpreters: Sequence[str], objects: Sequence[JSONObject]
) -> Chain:
    """Return the chain of all layers; leaves with a message where something cannot be used.

    Args:
        client: What calls hooks.
        runner: What runs scripts.
        interpreters: Files or modules.
        objects: Customizations, hook configurations, definitions.
    """
    store = Store([DEFINITIONS_BY_KIND])
    customizations = Customizations(store, namespace=Settings.model_fields["karmada_namespace"].default)
    hooks = WebhookLayer(store, client, observe=_unobserved)
    for document in objects:
        store.put(document)
    for refused in customizations.refused():
        fail(refused.text)
    return chain_of(customizations, hooks, loaded(interpreters), runner, bundle=True, observe=_unobserved)


def _unobserved(name: str, outcome: str, seconds: float) -> None:
    del name, outcome, seconds


def objects_in(manifests: Sequence[Path]) -> list[JSONObject]:
    """Return the objects in files and directories; leaves with a message where one cannot be read."""
    return [document.object for document in documents(manifests)]


def find(paths: Sequence[Path]) -> Found:
    """Return the fixtures in files and directories, and in directories also what they are to test."""
    found = Found([], [], [])
    for path in paths:
        if path.is_dir():
            found.interpreters.extend(str(file) for file in sorted(path.rglob("*.py")))
    for path in files(paths):
        for value in values(path):
            if is_fixture(value.value):
                try:
                    found.cases.extend(Case(path, value.line, one) for one in fixtures(value.value))
                except FixtureError as error:
                    fail(f"{path}:{value.line}: {error}")
            elif not _is_object(value.value):
                fail(f"{path}:{value.line}: is neither a fixture (name, operation, output) nor an object to test")
            elif path not in paths:
                found.objects.append(value.value)
    return found


def _is_object(value: object) -> bool:
    if not isinstance(value, dict) or not isinstance(value.get("metadata"), dict):
        return False
    return all(isinstance(value.get(name), str) for name in ("apiVersion", "kind")) and bool(key_of(value).name)


async def judge(chain: Chain, case: Case) -> Verdict:
    """Return what becomes of a fixture."""
    started = time.perf_counter()
    layer, error, found = "", "", list[Difference]()
    try:
        explained = await chain.answer(case.fixture.question)
        layer = explained.steps[-1].layer
        found = list(differences(case.fixture, explained.answer))
    except ChainError as problem:
        layer, error = problem.steps[-1].layer if problem.steps else "", str(problem)
    seconds = time.perf_counter() - started
    operation = case.fixture.question.operation.value
    return Verdict(str(case.path), case.line, case.fixture.name, operation, layer, seconds, error, found)
