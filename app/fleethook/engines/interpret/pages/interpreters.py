"""The section ``/interpreters``: the matrix of kinds and operations, and the playground."""

import shlex
from collections.abc import Mapping
from dataclasses import asdict
from typing import Final, NamedTuple

from fastapi import APIRouter
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse

from fleethook.cluster.kubernetes.resources import DEFINITIONS
from fleethook.cluster.store import Store
from fleethook.console.context import ConsoleContext
from fleethook.console.forms import FieldError, FormFields
from fleethook.console.rendering import Context, render
from fleethook.console.sections import ConsolePage, Section
from fleethook.console.shared_value import KeptValue, Memo
from fleethook.engines.interpret.pages.interpreters_view import (
    INTERPRETED,
    LAYERS,
    NONE,
    OPERATIONS,
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
    number_lines,
    run_form,
)
from fleethook.model.karmada import (
    CONFIG_MAP,
    CUSTOMIZATION,
    EXPLORING_CONFIGURATION,
    INTERPRETER_CONFIGURATION,
    Operation,
)
from fleethook.work.worker import Worker

_MAX_RUNNING: Final = 2
MAX_SCRIPTS: Final = 4
"""Scripts of the playground that run or wait; further ones are refused."""


class InterpretersState(NamedTuple):
    """The values.

    Attributes:
        interpreters: The chain and the kinds.
        playground: Runs scripts, so that neither the event loop nor the worker of the other pages waits for them.
    """

    interpreters: Memo[Interpreters]
    playground: Worker


def make_state(context: ConsoleContext) -> InterpretersState:
    """Return the values for the objects and interpreters of a console; nothing is computed before it is needed."""

    def compute(copy: Store) -> Interpreters:
        return build_interpreters(
            list_documents(copy),
            interpreters=context.interpreters,
            namespace=context.karmada_namespace,
            bundle=context.bundle,
            conventions=context.conventions,
        )

    return InterpretersState(
        Memo(context.store, INTERPRETED, compute),
        Worker(_MAX_RUNNING, name="playground"),
    )


INTERPRETERS: Final = KeptValue(make_state)


router: Final = APIRouter(prefix="/interpreters")

_INTERPRETING: Final = (CUSTOMIZATION, EXPLORING_CONFIGURATION, INTERPRETER_CONFIGURATION)

PAGE: Final = ConsolePage(
    Section("/interpreters", "Interpreters", _INTERPRETING, (DEFINITIONS.group_kind, CONFIG_MAP)),
    router,
    replayed=(*_INTERPRETING, CONFIG_MAP),
)

_OPERATIONS: Final = tuple(one.value for one in OPERATIONS)


@router.get("")
async def show(
    request: Request, context: Context, q: str = "", layer: str = "", operation: str = "", page: int = 1
) -> HTMLResponse:
    """Show the matrix."""
    wanted = MatrixFilter(q.strip(), layer, operation, page)
    interpreters = await INTERPRETERS.find(request).interpreters.get(context.worker)
    matrix = await context.worker.run("", build_matrix, interpreters, wanted)
    asked = operation if operation in _OPERATIONS else Operation.HEALTH.value
    return await render(
        request,
        "interpreters/matrix.html",
        command=_make_command(context, asked),
        matrix=matrix,
        wanted=wanted,
        query={"q": q, "layer": layer, "operation": operation},
        layers=(*LAYERS, NONE),
        operations=_OPERATIONS,
        tab="matrix",
    )


def _make_command(context: ConsoleContext, operation: str, *files: str) -> str:
    python = [word for source in context.interpreter_sources for word in ("--interpreters", source)]
    options = shlex.join(["--operation", operation, *files, "--desired-file", "object.yaml", *python])
    return f"fleethook interpret run {options} {context.command_source}".strip()


@router.get("/playground")
async def show_playground(request: Request, context: Context, operation: str = Operation.HEALTH.value) -> HTMLResponse:
    """Show the playground with the example of an operation."""
    return await _render(request, context, fill_form(operation), None)


@router.post("/playground")
async def run_playground(request: Request, context: Context, fields: FormFields) -> HTMLResponse:
    """Run the typed script, and show its result."""
    if not context.playground:
        raise HTTPException(403, "the playground is disabled (--no-playground)")
    form = _read_form(fields)
    playground = INTERPRETERS.find(request).playground
    if len(playground) >= MAX_SCRIPTS:
        busy = FieldError("code", "other scripts are running: try again in a few seconds")
        return await _render(request, context, form, PlaygroundResult(error=busy))
    return await _render(request, context, form, await playground.run("", run_form, form))


def _read_form(fields: Mapping[str, str]) -> PlaygroundForm:
    known = asdict(PlaygroundForm())
    return PlaygroundForm(**{name: fields.get(name, default) for name, default in known.items()})


async def _render(
    request: Request, context: ConsoleContext, form: PlaygroundForm, result: PlaygroundResult | None
) -> HTMLResponse:
    error = None if result is None else result.error
    return await render(
        request,
        "interpreters/playground.html",
        command=_make_command(context, form.operation, "-f", "customization.yaml"),
        status=422 if error else 200,
        form=form,
        result=result,
        error=error,
        lines=number_lines(form.code, error.line) if error and error.field == "code" and error.line else (),
        is_enabled=context.playground,
        operations=_OPERATIONS,
        examples=tuple(EXAMPLES),
        tab="playground",
    )
