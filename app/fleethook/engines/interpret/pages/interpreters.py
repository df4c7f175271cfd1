"""The section ``/interpreters``: the pages of the matrix and of the playground."""

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import Final, NamedTuple
from urllib.parse import urlencode

from fastapi import APIRouter
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse

from fleethook.cluster.store import ObjectKey, Store
from fleethook.console.attention_lines import Attention, AttentionLine
from fleethook.console.context import ConsoleContext, ConsolePage, Section, has_kinds
from fleethook.console.forms_and_guard import FormFields
from fleethook.console.page_frame import Context, find_context, render
from fleethook.console.shared_value import KeptValue, Watch
from fleethook.engines.interpret.interpret_settings import InterpretSettings
from fleethook.engines.interpret.pages.interpreter_matrix import (
    LAYERS,
    NONE,
    OPERATIONS,
    Cell,
    Interpreters,
    MatrixFilter,
    build_interpreters,
    build_matrix,
    list_documents,
)
from fleethook.engines.interpret.pages.playground import (
    EXAMPLES,
    PlaygroundForm,
    PlaygroundResult,
    fill_form,
    find_script,
    number_lines,
    playground_url,
    run_form,
)
from fleethook.engines.interpret.webhooks.webhook_configuration import CONFIGURATIONS
from fleethook.interpret.interpreter import Interpreter, load
from fleethook.model.json import as_object
from fleethook.model.karmada import CONFIG_MAP, CONFIG_MAP_NAME, CUSTOMIZATION, Operation
from fleethook.settings import Settings
from fleethook.work.threads_and_gc import Worker


class InterpretersState(NamedTuple):
    """The values that the pages of the section share.

    Attributes:
        interpreters: The chain, the kinds, and the objects with invalid scripts.
        playground: Runs scripts, so that neither the event loop nor the worker of the other pages waits for them.
    """

    interpreters: Watch[Interpreters]
    playground: Worker


def load_interpreters(settings: Settings) -> Sequence[Interpreter]:
    """Return the interpreters in Python of the settings; raises LoadError."""
    return [interpreter for source in settings.section(InterpretSettings).interpreters for interpreter in load(source)]


def make_state(context: ConsoleContext) -> InterpretersState:
    """Return the values for the objects and interpreters of a console; nothing is computed before it is needed."""
    settings, interpreters = context.settings.section(InterpretSettings), load_interpreters(context.settings)

    def prepare() -> Callable[[], Interpreters]:
        return partial(
            build_interpreters, list(list_documents(context.store)), interpreters=interpreters,
            namespace=settings.karmada_namespace, bundle=settings.bundle, conventions=settings.interpret_conventions,
        )  # fmt: skip

    return InterpretersState(Watch(context.store, prepare), Worker(name="playground"))


INTERPRETERS: Final = KeptValue(make_state)


router: Final = APIRouter(prefix="/interpreters")


async def find_attention(request: Request) -> Attention:
    """Return the customizations with invalid scripts."""
    store = find_context(request).store
    if not store.has(CUSTOMIZATION) and not store.has(CONFIG_MAP):
        return Attention()
    found = INTERPRETERS.find(request).interpreters.find()
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

_OPERATIONS: Final = tuple(one.value for one in OPERATIONS)


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
    found = await INTERPRETERS.find(request).interpreters.get()
    if found.value is None or found.problem:
        raise HTTPException(500, found.problem)
    matrix = await context.worker.run("", build_matrix, found.value, matrix_filter)
    asked = operation if operation in _OPERATIONS else Operation.HEALTH.value
    return render(
        request,
        "interpreters/matrix.html",
        command=_make_command(context, asked),
        command_title="One answer on the command line, with the object in object.yaml",
        fill_command=context.fill_command("resourceinterpretercustomizations"),
        matrix=matrix,
        wanted=matrix_filter,
        query={"q": q, "layer": layer, "operation": operation, "kinds": kinds},
        layers=(*LAYERS, NONE),
        operations=_OPERATIONS,
        script_url=script_url,
        tab="matrix",
    )


def _make_command(context: ConsoleContext, operation: str, *files: str) -> str:
    python = [
        word
        for source in context.settings.section(InterpretSettings).interpreters
        for word in ("--interpreters", source)
    ]
    options = shlex.join(["--operation", operation, *files, "--desired-file", "object.yaml", *python])
    return f"fleethook interpret run {options} {context.command_source}".strip()


@router.get("/playground")
async def show_playground(
    request: Request, context: Context, operation: str = Operation.HEALTH.value, customization: str = ""
) -> HTMLResponse:
    """Show the playground with the script of a customization for an operation, or with an example."""
    form = fill_form(operation)
    if not customization:
        return await _render(request, context, form, None)
    stored = context.store.get("", CUSTOMIZATION, "", customization)
    script = find_script(stored, form.operation)
    if script is None:
        raise HTTPException(404, f"{CUSTOMIZATION.kind} {customization} has no script for {form.operation}")
    return await _render(request, context, replace(form, code=script.code, desired=script.example), None)


def script_url(cell: Cell) -> str:
    """Return the address of the script that answers, ``""`` if no single customization has it."""
    kind, _, name = cell.interpreter.partition(" ")
    if kind != CUSTOMIZATION.kind or " " in name:
        return ""
    return playground_url(cell.operation.value, name)


@router.post("/playground")
async def run_playground(request: Request, context: Context, fields: FormFields) -> HTMLResponse:
    """Run the typed script, and show its result."""
    form = _read_form(fields)
    result = await INTERPRETERS.find(request).playground.run("", run_form, form)
    return await _render(request, context, form, result)


def _read_form(fields: Mapping[str, str]) -> PlaygroundForm:
    known = asdict(PlaygroundForm())
    return PlaygroundForm(**{name: fields.get(name, default) for name, default in known.items()})


async def _render(
    request: Request, context: ConsoleContext, form: PlaygroundForm, result: PlaygroundResult | None
) -> HTMLResponse:
    error = None if result is None else result.error
    return render(
        request,
        "interpreters/playground.html",
        command=_make_command(context, form.operation, "-f", "customization.yaml"),
        command_title="The same on the command line, with the export and the object in files",
        status=422 if error else 200,
        form=form,
        result=result,
        error=error,
        lines=number_lines(form.code, error.line) if error and error.field == "code" and error.line else (),
        operations=_OPERATIONS,
        examples=tuple(EXAMPLES),
        tab="playground",
    )
