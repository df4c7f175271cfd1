import shutil
from pathlib import Path

import yaml

from app.cli.interpret_chain import build_chain
from app.console.interpreters_state import make_state
from app.console.process import ConsoleOptions, open_context
from app.console.views.interpreters import LAYERS, OPERATIONS, find_cell
from app.control.worker import Worker
from app.interpret.lua.runner import Runner
from app.interpret.question import Question
from app.model.gvk import GroupVersionKind
from app.model.karmada import ConventionsMode
from app.outbound.client import HookClient
from app.settings import Settings
from tests.cli.interpreting import DATABASE, RETENTION
from tests.console.views.test_interpreters import FILES, find_answering_layer, make_object, read_all
from tests.console.visits import make_context
from tests.waiting import until

CUSTOMIZATION = """
apiVersion: config.karmada.io/v1alpha1
kind: ResourceInterpreterCustomization
metadata: {name: foo}
spec:
  target: {apiVersion: foo.example.com/v1alpha1, kind: Foo}
  customizations:
    healthInterpretation: {luaScript: "function InterpretHealth(obj) return true end"}
"""


async def test_the_kinds_follow_the_store() -> None:
    foo = GroupVersionKind("foo.example.com", "v1alpha1", "Foo")
    context, worker = make_context(), Worker()
    store, state = context.store, make_state(context)
    assert foo not in (await state.interpreters.get(worker)).kinds
    store.put(yaml.safe_load(CUSTOMIZATION))
    assert foo in (await state.interpreters.get(worker)).kinds


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
        interpreters = await make_state(context).interpreters.get(context.worker)
        chain = build_chain(client, Runner(), [DATABASE], read_all(*FILES), conventions=ConventionsMode.HEALTH)
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
        interpreters = await make_state(context).interpreters.get(context.worker)
    assert context.karmada_namespace == "other"
    layers = {find_cell(interpreters, kind, operation).layer for kind in interpreters.kinds for operation in OPERATIONS}
    assert layers == {"native", "annotation", "label", ""}


async def test_the_customizations_of_karmada_config_are_those_of_its_namespace() -> None:
    (document,) = (one.object for one in read_all(RETENTION / "karmada-config.yaml"))
    document["metadata"]["namespace"] = "other"
    layers = {}
    for namespace in ("other", "karmada-system"):
        context = make_context(document, karmada_namespace=namespace)
        found = await make_state(context).interpreters.get(context.worker)
        layers[namespace] = {find_cell(found, kind, one).layer for kind in found.kinds for one in OPERATIONS}
    assert "lua" in layers["other"]
    assert "lua" not in layers["karmada-system"]
