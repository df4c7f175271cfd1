"""The page of the matrix, which names the layer that `fleethook interpret run` reports."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from fleethook.cluster.manifests.manifest_files import read_documents
from fleethook.cluster.manifests.yaml_decoding_and_lines import Document
from fleethook.cluster.store import Store
from fleethook.console.console_server import ConsoleOptions, open_context
from fleethook.engines.interpret.commands.interpret_inputs import build_chain
from fleethook.engines.interpret.interpreter_chain import ChainError
from fleethook.engines.interpret.layer_order import LAYERS
from fleethook.engines.interpret.lua.script_layer_and_runner import Runner
from fleethook.engines.interpret.pages.interpreters import (
    NONE,
    OPERATIONS,
    PAGE_ROWS,
    Interpreters,
    MatrixFilter,
    build_interpreters,
    build_matrix,
    find_cell,
    list_documents,
    watch_interpreters,
)
from fleethook.interpret.interpreter import Question, load
from fleethook.model.gvk import GroupVersionKind, parse_api_version
from fleethook.model.karmada import ConventionsMode, Operation
from fleethook.outbound.calls_and_retries import HookClient
from fleethook.settings import Settings
from tests.cli.interpreting import DATABASE, DIRECTORY, RETENTION
from tests.console.pages.reading import HOSTILE, get, submit
from tests.console.visits import console_of, make_context
from tests.engines.interpret.pages.test_playground import CUSTOMIZATION, FORM, REVISE
from tests.waiting import until

FILES = (
    DIRECTORY / "configuration.yaml",
    DIRECTORY / "definitions.yaml",
    RETENTION / "karmada-config.yaml",
)
NAMESPACE = "karmada-system"
FOO = GroupVersionKind("foo.example.com", "v1alpha1", "Foo")
BAR = GroupVersionKind("bar.example.com", "v1alpha1", "Bar")


def read_all(*paths: Path) -> list[Document]:
    return [one for path in paths for one in read_documents(path.read_text(), source=str(path))]


def interpreters_of(
    *documents: dict[str, Any], python: bool = False, conventions: ConventionsMode = ConventionsMode.OFF
) -> Interpreters:
    store = Store()
    for document in documents:
        store.put(document)
    return build_interpreters(
        list_documents(store),
        interpreters=load(DATABASE) if python else (),
        namespace=NAMESPACE,
        conventions=conventions,
    )


@pytest.fixture(scope="module")
def interpreters() -> Interpreters:
    return interpreters_of(*(one.object for one in read_all(*FILES)), python=True, conventions=ConventionsMode.ALL)


def layer_of_examples(interpreters: Interpreters, kind: GroupVersionKind, operation: Operation) -> str:
    return find_cell(interpreters, kind, operation).layer


def test_each_layer_answers_a_cell_of_the_examples(interpreters: Interpreters) -> None:
    found = {cell.layer for row in _all_rows(interpreters) for cell in row.cells}
    assert found == {*LAYERS, ""}


def _all_rows(interpreters: Interpreters) -> list[Any]:
    first = build_matrix(interpreters, MatrixFilter(shows_all=True))
    wanted = [MatrixFilter(page=number, shows_all=True) for number in range(1, first.pages + 1)]
    pages = [build_matrix(interpreters, one) for one in wanted]
    return [row for page in pages for row in page.rows]


def test_a_webhook_answers_only_what_its_rules_match(interpreters: Interpreters) -> None:
    """Once, the matrix named the webhook for every kind, because there was any webhook."""
    webhooks = {
        (row.kind, cell.operation) for row in _all_rows(interpreters) for cell in row.cells if cell.layer == "webhook"
    }
    assert webhooks == {
        (FOO, Operation.RETAIN), (FOO, Operation.HEALTH), (BAR, Operation.DEPENDENCY), (BAR, Operation.HEALTH),
    }  # fmt: skip


def make_object(kind: GroupVersionKind) -> dict[str, Any]:
    return {
        "apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": "x", "namespace": "default"},
        "spec": {"template": {"spec": {"containers": []}}, "credentials": "x"},
    }  # fmt: skip


async def find_answering_layer(chain: Any, question: Question) -> str:
    """Return the layer that the chain of ``interpret run`` asks: it answered, or it failed."""
    try:
        explained = await chain.answer(question)
    except ChainError as error:
        return "" if all(one.outcome == "none" for one in error.steps) else error.steps[-1].layer
    return str(explained.steps[-1].layer)


def test_a_customization_answers_before_the_webhook_that_it_hides() -> None:
    files = (one.object for one in read_all(*FILES))
    found = interpreters_of(*files, yaml.safe_load(CUSTOMIZATION))
    cell = find_cell(found, FOO, Operation.HEALTH)
    assert (cell.layer, cell.interpreter, cell.later) == (
        "lua", "ResourceInterpreterCustomization foo", ("webhook",),
    )  # fmt: skip


def test_an_invalid_customization_is_listed_and_not_used() -> None:
    broken = yaml.safe_load(CUSTOMIZATION.replace("return true end", "return return"))
    found = interpreters_of(broken)
    assert [(one.about, one.kind) for one in found.refused] == [("ResourceInterpreterCustomization foo", FOO)]
    (row,) = build_matrix(found, MatrixFilter(text=FOO.kind)).rows
    assert "lua" not in {one.layer for one in row.cells}


SHIPPED = {
    "apiVersion": "config.karmada.io/v1alpha1",
    "kind": "ResourceInterpreterWebhookConfiguration",
    "metadata": {"name": "shipped"},
    "webhooks": [
        {
            "name": "w.example.com",
            "rules": [
                {"operations": ["InterpretHealth"], "apiGroups": ["a.io"], "apiVersions": ["v1"], "kinds": ["Thing"]},
                {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "kinds": ["Other"]},
            ],
            "clientConfig": {"url": "https://localhost/w"},
            "interpreterContextVersions": ["v1alpha1"],
        }
    ],
}


def test_kinds_of_released_rules_are_rows() -> None:
    found = interpreters_of(SHIPPED)
    thing = GroupVersionKind("a.io", "v1", "Thing")
    assert [one for one in found.kinds if one.kind in ("Thing", "Other")] == [thing]
    assert find_cell(found, thing, Operation.HEALTH).layer == "webhook"
    assert find_cell(found, thing, Operation.REPLICA).layer == ""


def test_the_own_configuration_of_the_server_is_no_webhook() -> None:
    own = {**SHIPPED, "metadata": {"name": "fleethook"}}
    found = interpreters_of(own)
    assert find_cell(found, GroupVersionKind("a.io", "v1", "Thing"), Operation.HEALTH).layer == ""


def test_the_matrix_begins_with_the_kinds_that_concern_the_user(interpreters: Interpreters) -> None:
    own = ["Deployment", "Bar", "Database", "Foo", "GameServer"]
    assert [row.kind.kind for row in build_matrix(interpreters, MatrixFilter()).rows] == own
    everything = build_matrix(interpreters, MatrixFilter(shows_all=True))
    assert [row.kind.kind for row in everything.rows[:5]] == own
    assert everything.found == everything.total > 300


@pytest.mark.parametrize(
    ("wanted", "kinds"),
    [
        (MatrixFilter(text="EXAMPLE.COM/v1alpha1 foo"), ["Foo"]),
        (MatrixFilter(layer="webhook"), ["Bar", "Foo"]),
        (MatrixFilter(layer="webhook", operation="Retain"), ["Foo"]),
        (MatrixFilter(layer="python"), ["Database"]),
        (MatrixFilter(layer="lua"), ["Deployment", "GameServer"]),
        (MatrixFilter(text="no such kind"), []),
    ],
)
def test_filters_select_rows(interpreters: Interpreters, wanted: MatrixFilter, kinds: list[str]) -> None:
    matrix = build_matrix(interpreters, wanted)
    assert sorted(row.kind.kind for row in matrix.rows) == kinds
    assert matrix.found == len(kinds)
    assert matrix.total == len(interpreters.kinds)


def test_cells_without_an_answer_can_be_selected(interpreters: Interpreters) -> None:
    rows = build_matrix(interpreters, MatrixFilter(text="foo.example", layer=NONE, operation="InterpretReplica")).rows
    assert [row.kind for row in rows] == [FOO]
    assert [cell.operation for cell in rows[0].cells] == [Operation.REPLICA]
    assert build_matrix(interpreters, MatrixFilter(text="foo.example", layer=NONE, operation="Retain")).rows == ()


def test_long_matrices_have_pages() -> None:
    def definition(number: int) -> dict[str, Any]:
        return {
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": f"things.g{number:03}.io"},
            "spec": {
                "group": f"g{number:03}.io", "names": {"kind": "Thing", "plural": "things"}, "scope": "Cluster",
                "versions": [{"name": "v1", "served": True}, {"name": "v0", "served": False}],
            },
        }  # fmt: skip

    found = interpreters_of(*map(definition, range(2 * PAGE_ROWS + 1)))
    last = build_matrix(found, MatrixFilter(text=".io/v1 thing", page=9))
    assert (last.found, last.page, last.pages, len(last.rows)) == (2 * PAGE_ROWS + 1, 3, 3, 1)
    assert last.rows[0].kind == GroupVersionKind(*parse_api_version("g200.io/v1"), "Thing")


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
        interpreters = (await watch_interpreters(context).get()).value
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
        interpreters = (await watch_interpreters(context).get()).value
    assert context.settings is settings
    layers = {find_cell(interpreters, kind, operation).layer for kind in interpreters.kinds for operation in OPERATIONS}
    assert layers == {"native", ""}


async def test_the_customizations_of_karmada_config_are_those_of_its_namespace() -> None:
    (document,) = (one.object for one in read_all(RETENTION / "karmada-config.yaml"))
    document["metadata"]["namespace"] = "other"
    layers = {}
    for namespace in ("other", "karmada-system"):
        context = make_context(document, settings=Settings(karmada_namespace=namespace))
        found = (await watch_interpreters(context).get()).value
        layers[namespace] = {find_cell(found, kind, one).layer for kind in found.kinds for one in OPERATIONS}
    assert "lua" in layers["other"]
    assert "lua" not in layers["karmada-system"]


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
    await submit(app, "/interpreters/playground", {**FORM, "code": f"--[==[{text}]==] error([==[{text}]==])\n{REVISE}"})


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
