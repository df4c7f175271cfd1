"""The pages of interpreters: the matrix and the playground."""

import asyncio
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from fleethook.console.console_server import ConsoleOptions, open_context
from fleethook.engines.interpret.commands.interpret_inputs import build_chain
from fleethook.engines.interpret.lua.script_runner import Runner
from fleethook.engines.interpret.pages.interpreter_matrix import LAYERS, OPERATIONS, build_interpreters, find_cell
from fleethook.engines.interpret.pages.interpreters import make_state
from fleethook.interpret.interpreter import Question
from fleethook.model.karmada import ConventionsMode
from fleethook.outbound.calls_and_retries import HookClient
from fleethook.settings import Settings
from tests.cli.interpreting import DATABASE, DIRECTORY, RETENTION, run
from tests.console.pages.reading import HOSTILE, Page, get, submit
from tests.console.visits import console_of, make_context, visit
from tests.engines.interpret.pages.test_interpreter_matrix import (
    CUSTOMIZATION,
    FILES,
    find_answering_layer,
    make_object,
    read_all,
)
from tests.waiting import until


async def test_the_script_of_an_invalid_customization_opens_in_the_playground() -> None:
    broken = yaml.safe_load(CUSTOMIZATION.replace("return true end", "return return"))
    page = await get(console_of(broken), "/interpreters")
    (address,) = (one for one in page.addresses if one.startswith("/interpreters/playground?"))
    path, _, query = address.partition("?")
    assert "return return" in (await get(console_of(broken), path, query)).text


async def test_every_cell_of_a_console_is_the_layer_that_the_command_asks(tmp_path: Path) -> None:
    """The matrix has the interpreters of ``--interpreters``, by the settings that the command line makes."""
    for file in FILES:
        shutil.copy(file, tmp_path)
    compared = set()
    async with (
        open_context(
            Settings(interpreters=[DATABASE], interpret_conventions=ConventionsMode.HEALTH),
            ConsoleOptions(files=(tmp_path,)),
        ) as context,
        HookClient(allow_private=True) as client,
    ):
        await until(lambda: all(part.synced for part in context.parts()), what="the manifests are read")
        interpreters = (await make_state(context).interpreters.get()).value
        chain, _ = build_chain(client, Runner(), [DATABASE], read_all(*FILES), conventions=ConventionsMode.HEALTH)
        for kind in interpreters.kinds:
            for operation in OPERATIONS:
                document = make_object(kind)
                question = Question(operation, kind, document, document, 2, [])
                layer = find_cell(interpreters, kind, operation).layer
                assert (kind, operation, layer) == (kind, operation, await find_answering_layer(chain, question))
                compared.add(layer)
    assert compared == {*LAYERS, ""}


async def test_bundle_and_namespace_are_those_of_the_settings(tmp_path: Path) -> None:
    settings = Settings(manifests=tmp_path, bundle=False, karmada_namespace="other")
    async with open_context(settings, ConsoleOptions()) as context:
        interpreters = (await make_state(context).interpreters.get()).value
    assert context.settings is settings
    layers = {find_cell(interpreters, kind, operation).layer for kind in interpreters.kinds for operation in OPERATIONS}
    assert layers == {"native", ""}


async def test_the_customizations_of_karmada_config_are_those_of_its_namespace() -> None:
    (document,) = (one.object for one in read_all(RETENTION / "karmada-config.yaml"))
    document["metadata"]["namespace"] = "other"
    layers = {}
    for namespace in ("other", "karmada-system"):
        context = make_context(document, settings=Settings(karmada_namespace=namespace))
        found = (await make_state(context).interpreters.get()).value
        layers[namespace] = {find_cell(found, kind, one).layer for kind in found.kinds for one in OPERATIONS}
    assert "lua" in layers["other"]
    assert "lua" not in layers["karmada-system"]


GAME = "apiVersion: games.example.com/v1\nkind: Game\nmetadata: {name: chess}\nspec: {players: 2}\n"
CODE = "function ReviseReplica(obj, replicas)\n  obj.spec.players = replicas\n  return obj\nend\n"
FORM = {"operation": "ReviseReplica", "code": CODE, "desired": GAME, "replicas": "5"}


def examples() -> list[dict[str, Any]]:
    files = (DIRECTORY / "configuration.yaml", DIRECTORY / "definitions.yaml")
    return [one for file in files for one in yaml.safe_load_all(file.read_text())]


async def test_the_filters_are_in_the_address() -> None:
    app = console_of(*examples())
    page = await get(app, "/interpreters", "q=foo.example&operation=Retain")
    assert "1 of" in page.text
    assert "fleethook interpret run --operation Retain" in page.text
    everything = await get(app, "/interpreters")
    assert "bundle" in everything.text


async def test_the_matrix_follows_the_store() -> None:
    app = console_of()
    assert "0 of" in (await get(app, "/interpreters", "q=foo.example")).text
    for document in examples():
        app._app.state.context.store.put(document)
    assert "1 of" in (await get(app, "/interpreters", "q=foo.example")).text


async def test_the_playground_shows_result_changes_cost_and_export() -> None:
    status, page = await submit(console_of(), "/interpreters/playground", FORM)
    assert status == 200
    assert "Instructions" in page.text
    assert "- players: 2" in page.text
    assert "+ players: 5" in page.text
    assert "customization.yaml" in page.text


async def test_the_shown_export_passes_interpret_test(tmp_path: Any) -> None:
    """The files are taken from the page."""
    app = console_of()
    first = await visit(app, "/interpreters/playground")
    assert first.status == 200
    _, page = await submit(app, "/interpreters/playground", FORM)
    files = read_files(page)
    assert sorted(files) == ["customization.yaml", "testdata/playground-test.yaml"]
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    # The command runs its own event loop, so it needs a thread.
    code, out, error = await asyncio.to_thread(run, "test", str(tmp_path))
    assert (code, error) == (0, ""), out


def read_files(page: Page) -> dict[str, str]:
    """Return the exported files of a page: each path, and the text that follows the button."""
    text = "".join(page.words)
    parts = re.split(r"(customization\.yaml|testdata/playground-test\.yaml)Copy", text)
    return {name: body.split("\n\n\n")[0] for name, body in zip(parts[1::2], parts[2::2], strict=True)}


async def test_an_error_is_shown_at_its_line() -> None:
    code = CODE.replace("obj.spec.players", "obj.no.players")
    status, page = await submit(console_of(), "/interpreters/playground", {**FORM, "code": code})
    assert status == 422
    assert "Line 2: game-games-example-com/replicaRevision:2:" in page.text
    assert "2 obj.no.players = replicas" in page.text


async def test_a_cell_leads_to_the_script_that_answers() -> None:
    customization = yaml.safe_load(CUSTOMIZATION)
    target, name = customization["spec"]["target"], customization["metadata"]["name"]
    app = console_of(customization)
    page = await get(app, "/interpreters", f"q={target['kind']}")
    address = f"/interpreters/playground?operation=InterpretHealth&customization={name}"
    assert [one for one in page.addresses if "customization=" in one] == [address]
    shown = await get(app, *address.split("?"))
    assert "function InterpretHealth(obj) return true end" in shown.text
    assert f"kind: {target['kind']}" in shown.text


@pytest.mark.parametrize("query", ["customization=nothing", "operation=InterpretStatus&customization=NAME"])
async def test_a_script_that_is_not_stored_is_not_found(query: str) -> None:
    customization = yaml.safe_load(CUSTOMIZATION)
    query = query.replace("NAME", customization["metadata"]["name"])
    assert (await visit(console_of(customization), "/interpreters/playground", query=query)).status == 404


@pytest.mark.parametrize("text", HOSTILE)
async def test_hostile_texts_stay_texts(text: str) -> None:
    kind = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": text}}
    spec = {"group": text, "names": {"kind": text, "plural": text}, "versions": [{"name": text, "served": True}]}
    customization = {
        "apiVersion": "config.karmada.io/v1alpha1", "kind": "ResourceInterpreterCustomization",
        "metadata": {"name": text},
        "spec": {"target": {"apiVersion": text, "kind": text}, "customizations": {text: {"luaScript": text}}},
    }  # fmt: skip
    app = console_of({**kind, "spec": spec}, customization, *examples())
    assert text.replace("\u202e", "").split("\u2066")[0].split()[0] in (await get(app, "/interpreters")).text.replace(
        "\u202e", ""
    )
    fields = dict.fromkeys(("operation", "code", "desired", "observed", "items", "replicas"), text)
    await submit(app, "/interpreters/playground", fields)
    await submit(app, "/interpreters/playground", {**FORM, "code": f"--[==[{text}]==] error([==[{text}]==])\n{CODE}"})


def test_customizations_with_invalid_scripts_are_found_with_their_problem() -> None:
    def customize(name: str, script: str) -> dict[str, Any]:
        target = {"apiVersion": "example.org/v1", "kind": "Widget"}
        return {
            "apiVersion": "config.karmada.io/v1alpha1",
            "kind": "ResourceInterpreterCustomization",
            "metadata": {"name": name},
            "spec": {"target": target, "customizations": {"healthInterpretation": {"luaScript": script}}},
        }

    good = customize("good", "function InterpretHealth(observed) return true end")
    (found,) = build_interpreters([good, customize("bad", "functio")], namespace="karmada-system").refused
    assert found.about == "ResourceInterpreterCustomization bad"
    assert found.text.startswith("invalid, not used: spec.customizations.healthInterpretation.luaScript: ")
