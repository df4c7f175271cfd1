"""The section ``/interpreters`` with its matrix: the kinds, and the layer that answers each operation on them."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple
from urllib.parse import urlencode

from fastapi import APIRouter
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse

from fleethook.cluster.store import ObjectKey, Store, StoreView
from fleethook.console.attention_lines import Attention, AttentionLine
from fleethook.console.context import ConsoleContext, ConsolePage, Section, has_kinds
from fleethook.console.page_frame import Context, build_fill_command, find_context, render, take_page
from fleethook.console.shared_value import KeptValue, Watch
from fleethook.engines.interpret.interpret_settings import InterpretSettings
from fleethook.engines.interpret.interpreter_chain import Chain
from fleethook.engines.interpret.layer_order import LAYERS, assemble_chain
from fleethook.engines.interpret.lua.customization_rules_and_configmap import FUNCTIONS, describe_object, read_target
from fleethook.engines.interpret.lua.customizations_in_use_and_admission import Customizations, Refused
from fleethook.engines.interpret.lua.script_layer_and_runner import Runner
from fleethook.engines.interpret.pages import playground
from fleethook.engines.interpret.pages.playground import make_run_command, playground_url
from fleethook.engines.interpret.webhooks.interpreter_webhooks_and_registration import (
    CONFIGURATIONS,
    DEFINITIONS_BY_KIND,
    parse_webhooks,
)
from fleethook.engines.interpret.webhooks.webhook_layer import WebhookLayer
from fleethook.interpret.interpreter import Interpreter, Question, load
from fleethook.model.gvk import DEFINITION, GroupVersionKind, list_served_kinds
from fleethook.model.json import JSON, JSONObject, as_list, as_object
from fleethook.model.karmada import CONFIG_MAP, CONFIG_MAP_NAME, CUSTOMIZATION, ConventionsMode, Operation
from fleethook.outbound.calls_and_retries import HookClient
from fleethook.settings import Settings

NONE: Final = "none"
"""The filter for cells that no layer answers."""
OPERATIONS: Final = tuple(Operation)
PAGE_ROWS: Final = 100

_EVERY: Final = "*"
INTERPRETED: Final = (*CONFIGURATIONS, CUSTOMIZATION, DEFINITION, CONFIG_MAP)
"""The kinds that configure interpreters."""


@dataclass(frozen=True)
class Cell:
    """The layer that answers an operation on a kind."""

    operation: Operation
    layer: str
    """``""`` if no layer answers."""
    interpreter: str
    """The customization, webhook, function or bundled script that answers."""
    later: tuple[str, ...]
    """The later layers that could answer, too."""


@dataclass(frozen=True)
class KindRow:
    """A kind, with a cell for each operation that the filter shows."""

    kind: GroupVersionKind
    cells: tuple[Cell, ...]


class RefusedObject(NamedTuple):
    """An object with invalid scripts.

    Attributes:
        about: Its kind and name.
        text: Its problems.
        kind: The kind that it customizes, None if it names none.
        scripts: The addresses of its scripts in the playground, by operation.
    """

    about: str
    text: str
    kind: GroupVersionKind | None
    scripts: Mapping[str, str]


@dataclass(frozen=True)
class MatrixFilter:
    """The parameters of the matrix.

    Attributes:
        text: Part of apiVersion and kind, ignoring case; ``""`` for all.
        layer: One of `LAYERS`, or `NONE`, that a cell must have; ``""`` for all.
        operation: The only operation to show; ``""`` for all.
        page: The page, from 1.
        shows_all: Whether to show kinds for which the user has no interpreter. They are also shown for a text or a
            layer.
    """

    text: str = ""
    layer: str = ""
    operation: str = ""
    page: int = 1
    shows_all: bool = False


@dataclass(frozen=True)
class Matrix:
    """The rows of one page, and the numbers of the others."""

    rows: tuple[KindRow, ...]
    operations: tuple[Operation, ...]
    found: int
    """Kinds that match the filter."""
    total: int
    page: int
    pages: int
    refused: tuple[RefusedObject, ...]
    """Objects that are invalid and therefore not used."""


@dataclass(frozen=True)
class Interpreters:
    """The chain of a set of objects, and the kinds that it knows."""

    chain: Chain
    kinds: tuple[GroupVersionKind, ...]
    own: frozenset[GroupVersionKind]
    """Kinds of the user's own interpreters, also of invalid ones."""
    refused: tuple[RefusedObject, ...]


def build_interpreters(
    documents: Iterable[JSONObject],
    *,
    interpreters: Sequence[Interpreter] = (),
    namespace: str,
    bundle: bool = True,
    conventions: ConventionsMode = ConventionsMode.OFF,
) -> Interpreters:
    """Build the chain of objects. It only finds interpreters: none is called.

    Args:
        documents: Customizations, webhook configurations and CustomResourceDefinitions (`list_documents`).
        interpreters: Interpreters in Python.
        namespace: The namespace of ``karmada-config``.
        bundle: Whether to include the bundle.
        conventions: The operations to answer for kinds that nothing else interprets.
    """
    store = Store([DEFINITIONS_BY_KIND])
    customizations = Customizations(store, namespace=namespace)
    webhooks = WebhookLayer(store, HookClient(allow_private=False))
    for document in documents:
        store.put(document)
    chain = assemble_chain(customizations, webhooks, interpreters, Runner(), bundle=bundle, conventions=conventions)
    defined = {kind for document in store.each("", DEFINITION) for kind in list_served_kinds(document)}
    refused, answers = tuple(map(_describe_refused, customizations.refused())), chain.answers()
    own = {kind for name in ("lua", "python") for kind, _ in answers[name]} | set(_list_rule_kinds(store))
    own |= {refused_object.kind for refused_object in refused if refused_object.kind}
    own |= defined if webhooks.list_webhooks() else set()
    kinds = {kind for pairs in answers.values() for kind, _ in pairs} | defined | own
    return Interpreters(chain, tuple(sorted(kinds)), frozenset(own), refused)


def _describe_refused(one: Refused) -> RefusedObject:
    """Return an invalid object, whose fields may have any type."""
    about, spec = describe_object(one.document), as_object(one.document.get("spec"))
    name = str(as_object(one.document.get("metadata")).get("name"))
    rules = as_object(spec.get("customizations"))
    operations = [rule.operation.value for rule in FUNCTIONS if as_object(rules.get(rule.member)).get("luaScript")]
    scripts = {operation: playground_url(operation, name) for operation in operations}
    return RefusedObject(about, one.text.removeprefix(f"{about}: "), read_target(spec), scripts)


def list_documents(view: StoreView) -> Iterator[JSONObject]:
    """Yield the objects that configure interpreters, of the plain cluster."""
    for group_kind in INTERPRETED:
        for document in view.each("", group_kind):
            if isinstance(document, dict) and (
                group_kind != CONFIG_MAP or document["metadata"]["name"] == CONFIG_MAP_NAME
            ):
                yield document


def _list_rule_kinds(view: StoreView) -> Iterator[GroupVersionKind]:
    """Yield the kinds that rules of released configurations name without a wildcard."""
    for group_kind in CONFIGURATIONS:
        for configuration in view.each("", group_kind):
            if isinstance(configuration, dict):
                for rule in (rule for webhook in parse_webhooks(group_kind, configuration) for rule in webhook.rules):
                    yield from (
                        GroupVersionKind(group, version, kind)
                        for group in _names(rule.get("apiGroups"))
                        for version in _names(rule.get("apiVersions"))
                        for kind in _names(rule.get("kinds"))
                    )


def _names(value: JSON) -> list[str]:
    return [one for one in as_list(value) if isinstance(one, str) and one != _EVERY]


def find_cell(interpreters: Interpreters, kind: GroupVersionKind, operation: Operation) -> Cell:
    """Return the layer that answers an operation on a kind."""
    metadata = {"name": "x", "namespace": "default"}
    document: JSONObject = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata}
    handlers = interpreters.chain.list_handlers(Question(operation, kind, document))
    if not handlers:
        return Cell(operation, "", "", ())
    layer, handler = handlers[0]
    return Cell(operation, layer, handler.hook, tuple(name for name, _ in handlers[1:]))


def build_matrix(interpreters: Interpreters, selection: MatrixFilter) -> Matrix:
    """Return a page of the matrix; cells outside the page are computed only for the filter by layer.

    Args:
        interpreters: The kinds and the layers.
        selection: The kinds and operations to show. The kinds of the user's own interpreters come first.
    """
    operations = tuple(one for one in OPERATIONS if selection.operation in ("", one.value)) or OPERATIONS
    text = selection.text.casefold()
    kinds: Iterable[GroupVersionKind] = sorted(interpreters.kinds, key=lambda one: one not in interpreters.own)
    if not (selection.text or selection.layer or selection.shows_all):
        kinds = (kind for kind in kinds if kind in interpreters.own)
    kinds = [kind for kind in kinds if text in _describe(kind).casefold()]
    if selection.layer:
        kinds = [row.kind for row in _fill(interpreters, kinds, operations) if _has_layer(row, selection.layer)]
    matching = list(kinds)
    shown, paging = take_page(matching, selection.page, PAGE_ROWS)
    rows = tuple(_fill(interpreters, shown, operations))
    return Matrix(
        rows, operations, len(matching), len(interpreters.kinds), paging.page, paging.pages, interpreters.refused
    )


def _fill(
    interpreters: Interpreters, kinds: Iterable[GroupVersionKind], operations: Sequence[Operation]
) -> Iterator[KindRow]:
    for kind in kinds:
        cells = tuple(find_cell(interpreters, kind, operation) for operation in operations)
        yield KindRow(kind, cells)


def _has_layer(row: KindRow, layer: str) -> bool:
    return any((cell.layer or NONE) == layer for cell in row.cells)


def _describe(kind: GroupVersionKind) -> str:
    return f"{kind.api_version} {kind.kind}"


def load_interpreters(settings: Settings) -> Sequence[Interpreter]:
    """Return the interpreters in Python of the settings; raises LoadError."""
    return [interpreter for source in settings.section(InterpretSettings).interpreters for interpreter in load(source)]


def watch_interpreters(context: ConsoleContext) -> Watch[Interpreters]:
    """Return the chain of a console, its kinds and its invalid objects; nothing is computed before it is needed."""
    settings, interpreters = context.settings.section(InterpretSettings), load_interpreters(context.settings)

    def prepare() -> Callable[[], Interpreters]:
        return partial(
            build_interpreters, list(list_documents(context.store)), interpreters=interpreters,
            namespace=settings.karmada_namespace, bundle=settings.bundle, conventions=settings.interpret_conventions,
        )  # fmt: skip

    return Watch(context.store, prepare)


INTERPRETERS: Final = KeptValue(watch_interpreters)


router: Final = APIRouter(prefix="/interpreters")
router.include_router(playground.router)


async def find_attention(request: Request) -> Attention:
    """Return the customizations with invalid scripts."""
    store = find_context(request).store
    if not store.has(CUSTOMIZATION) and not store.has(CONFIG_MAP):
        return Attention()
    found = INTERPRETERS.find(request).find()
    refused = found.value.refused if found.value else ()
    lines = [AttentionLine("failing", one.about, one.text, "/interpreters#refused") for one in refused]
    return Attention(lines, (), found.is_current, (found.problem,) if found.problem else ())


def _find_address(store: Store, key: ObjectKey) -> str:
    """Return the address of the kind that a customization interprets."""
    kind = as_object(as_object(as_object(store.get(*key)).get("spec")).get("target")).get("kind")
    return f"/interpreters?{urlencode({'q': kind})}" if isinstance(kind, str) else "/interpreters"


def _is_used(context: ConsoleContext) -> bool:
    """Return whether the source has interpreters besides those of fleethook itself."""
    if has_kinds(CUSTOMIZATION, *CONFIGURATIONS)(context) or context.settings.section(InterpretSettings).interpreters:
        return True
    return any(key.name == CONFIG_MAP_NAME for key in context.store.keys(CONFIG_MAP))


PAGE: Final = ConsolePage(
    Section("/interpreters", "Interpreters", is_used=_is_used),
    router,
    attention=find_attention,
    addresses={CUSTOMIZATION: _find_address},
    check=load_interpreters,
)


@router.get("")
async def show(
    request: Request,
    context: Context,
    q: str = "",
    layer: str = "",
    operation: str = "",
    page: int = 1,
    kinds: str = "",
) -> HTMLResponse:
    """Show the matrix."""
    matrix_filter = MatrixFilter(q.strip(), layer, operation, page, shows_all=kinds == "all")
    found = await INTERPRETERS.find(request).get()
    if found.value is None or found.problem:
        raise HTTPException(500, found.problem)
    matrix = await context.worker.run("", build_matrix, found.value, matrix_filter)
    asked = operation if operation in OPERATIONS else Operation.HEALTH.value
    return render(
        request,
        "interpreters/matrix.html",
        command=make_run_command(context, asked),
        command_title="One answer on the command line, with the object in object.yaml",
        fill_command=build_fill_command(context, "resourceinterpretercustomizations"),
        matrix=matrix,
        wanted=matrix_filter,
        query={"q": q, "layer": layer, "operation": operation, "kinds": kinds},
        layers=(*LAYERS, NONE),
        operations=OPERATIONS,
        script_url=script_url,
        tab="matrix",
    )


def script_url(cell: Cell) -> str:
    """Return the address of the script that answers, ``""`` if no single customization has it."""
    kind, _, name = cell.interpreter.partition(" ")
    if kind != CUSTOMIZATION.kind or " " in name:
        return ""
    return playground_url(cell.operation.value, name)
