"""The section ``/dispatch``: explains requests, and shows objects with their findings."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode

from fastapi import APIRouter
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse

from fleethook.cluster.registration.paths import find_rule_path
from fleethook.cluster.store import ObjectKey, Store
from fleethook.console.attention_lines import Attention, FindingCount, LintFinding, list_object_lines
from fleethook.console.context import MUTATING, VALIDATING, ConsoleContext, ConsolePage, Hit, Section, has_kinds
from fleethook.console.forms_and_guard import FormError, FormFieldError, FormFields
from fleethook.console.page_frame import Context, build_fill_command, find_context, render
from fleethook.console.shared_value import KeptValue, Watch
from fleethook.engines.dispatch.dispatcher import Dispatcher
from fleethook.engines.dispatch.lint.configuration_validation import WebhookFinding
from fleethook.engines.dispatch.lint.rule_and_binding_checks import lint
from fleethook.engines.dispatch.match.selectors_and_decision import NAMESPACE
from fleethook.engines.dispatch.offline_dispatcher_and_replay import build_offline_dispatcher
from fleethook.engines.dispatch.pages.explain_form import (
    RequestForm,
    VerdictTree,
    explain_form,
    format_object,
    list_choices,
    make_command,
    read_choice,
    write_choice,
)
from fleethook.engines.dispatch.request_from_manifest import RequestOperation
from fleethook.engines.dispatch.webhooks.webhook_defaults_and_compilation import PHASES
from fleethook.model.gvk import DEFINITION, GroupKind
from fleethook.model.json import JSONObject, as_list, as_object, list_objects
from fleethook.model.kcp import API_BINDING, API_EXPORT, API_RESOURCE_SCHEMA, LOGICAL_CLUSTER, WORKSPACE

LINTED: Final = frozenset(
    {*PHASES.values(), API_BINDING, API_EXPORT, API_RESOURCE_SCHEMA, LOGICAL_CLUSTER, WORKSPACE, DEFINITION, NAMESPACE}
)
"""The kinds that the checks read."""
_GROUPS: Final = {kind.kind: kind.group for kind in (*PHASES.values(), API_BINDING)}
"""The API groups of the kinds that findings are about."""


def find_all(store: Store, *, places: Mapping[ObjectKey, str] | None = None) -> tuple[WebhookFinding, ...]:
    """Return all findings, as ``fleethook lint`` reports them. Large fleets take seconds, so keep the result."""
    return tuple(lint(store, places=places or {}))


def find_key(finding: WebhookFinding) -> ObjectKey:
    """Return the key of the object that a finding is about."""
    return ObjectKey(finding.cluster, GroupKind(_GROUPS[finding.kind], finding.kind), "", finding.configuration)


def object_url(key: ObjectKey) -> str:
    """Return the address of the page that shows an object."""
    return f"/dispatch/object?{urlencode({'choice': write_choice(key)})}"


class DispatchState(NamedTuple):
    """The values that the pages of the section share.

    Attributes:
        dispatcher: Keeps the compiled webhooks of the store.
        findings: The findings of ``fleethook lint``.
    """

    dispatcher: Dispatcher
    findings: Watch[tuple[WebhookFinding, ...]]


def make_state(store: Store) -> DispatchState:
    """Return the values for a store. Each one is computed when a page first needs it."""
    return DispatchState(build_offline_dispatcher(store), Watch(store, lambda: partial(find_all, store.copy(LINTED))))


DISPATCH: Final = KeptValue(lambda context: make_state(context.store))


async def find_attention(request: Request) -> Attention:
    """Return the findings about webhook configurations and bindings."""
    found = DISPATCH.find(request).findings.find()
    shown = found.value or ()
    lines = list_object_lines(
        LintFinding(
            finding.level,
            finding.code,
            finding.kind,
            _describe(finding),
            _name_webhook(finding),
            object_url(find_key(finding)),
        )
        for finding in shown
    )
    counts = Counter((finding.level, finding.code, finding.kind) for finding in shown)
    first = {(finding.level, finding.code, finding.kind): object_url(find_key(finding)) for finding in reversed(shown)}
    rows = [FindingCount(*key, total, first[key]) for key, total in counts.items()]
    return Attention(lines, rows, found.is_current, (found.problem,) if found.problem else ())


def _name_webhook(finding: WebhookFinding) -> str:
    return f"{f'webhook {finding.webhook}: ' if finding.webhook else ''}{finding.text}"


def _describe(finding: WebhookFinding) -> str:
    inside = f" in {finding.cluster}" if finding.cluster else ""
    return f"{finding.kind} {finding.configuration}{inside}"


async def list_webhooks(request: Request) -> Iterator[Hit]:
    """Return the webhooks of the configurations, each with its place on their page."""
    store = find_context(request).store
    keys = [key for kind in (MUTATING, VALIDATING) for key in store.keys(kind)]
    return (
        Hit(f"{name} of {key.name}", key.cluster, f"{object_url(key)}#webhook-{number}")
        for key in keys
        for number, name in enumerate(_list_names(store.get(*key)), 1)
    )


def _list_names(configuration: Any) -> list[str]:
    """Return the names of the webhooks of a configuration in order, none for another object."""
    return [str(as_object(webhook).get("name")) for webhook in as_list(as_object(configuration).get("webhooks"))]


router: Final = APIRouter(prefix="/dispatch")

PAGE: Final = ConsolePage(
    Section("/dispatch", "Dispatch", is_used=has_kinds(MUTATING, VALIDATING, API_BINDING)),
    router,
    attention=find_attention,
    addresses=dict.fromkeys((MUTATING, VALIDATING), lambda _store, key: object_url(key)),
    names={"Webhook": list_webhooks},
)

_OPERATIONS: Final = tuple(operation.value for operation in RequestOperation)


@router.get("")
async def show(request: Request, context: Context, choice: str = "", q: str = "") -> HTMLResponse:
    """Explain the request for an object of the store; the URL has all other fields of the form, too."""
    form = _read_form({**request.query_params, "document": "", "old": ""})
    if not choice:
        return await _show(request, context, form, q=q)
    key, document = _find_object(context, choice)
    chosen = replace(form, document=format_object(document), cluster=form.cluster or key.cluster)
    return await _show(request, context, chosen, q=q, choice=choice, explains=True)


def _find_object(context: ConsoleContext, choice: str) -> tuple[ObjectKey, JSONObject]:
    """Return the object that a parameter names; raises HTTPException."""
    key = read_choice(choice)
    document = None if key is None else context.store.get(*key)
    if key is None or not isinstance(document, dict):
        raise HTTPException(404, "there is no such object now: choose another one")
    return key, document


@router.get("/object")
async def show_object(request: Request, context: Context, choice: str = "") -> HTMLResponse:
    """Show an object with the findings about it."""
    key, document = _find_object(context, choice)
    read = None if context.manifests is None else context.manifests.find(key)
    findings = await DISPATCH.find(request).findings.get()
    return render(
        request,
        "dispatch/object.html",
        place="" if read is None else read.place,
        rules=_list_rules(document),
        command=_make_object_command(context, key),
        key=key,
        text=format_object(document),
        webhooks=_list_names(document),
        problem=findings.problem,
        found=[finding for finding in findings.value or () if find_key(finding) == key],
    )


def _list_rules(configuration: JSONObject) -> list[tuple[str, str]]:
    """Return the webhooks of admission rules in Python, each with the address of its page."""
    return [
        (str(one.get("name")), f"/rules/rule?{urlencode({'path': path})}")
        for one in list_objects(configuration.get("webhooks"))
        if (path := find_rule_path(one))
    ]


@router.post("")
async def explain_typed(request: Request, context: Context, fields: FormFields) -> HTMLResponse:
    """Explain the request for a typed object."""
    return await _show(request, context, _read_form(fields), explains=True)


def _read_form(fields: Mapping[str, str]) -> RequestForm:
    texts = {name: fields.get(name, "") for name in ("document", "cluster", "old", "user", "groups", "resource")}
    return RequestForm(
        **texts,
        operation=fields.get("operation", RequestOperation.CREATE.value),
        dry_run=fields.get("dry_run") == "true",
    )


async def _show(
    request: Request,
    context: ConsoleContext,
    form: RequestForm,
    *,
    q: str = "",
    choice: str = "",
    explains: bool = False,
) -> HTMLResponse:
    tree: VerdictTree | None = None
    error: FormError | None = None
    if explains:
        try:
            tree = await explain_form(context.store, DISPATCH.find(request).dispatcher, form)
        except FormFieldError as problem:
            error = problem.error
    return render(
        request,
        "dispatch/explain.html",
        command=make_command(context, form),
        command_title="The same on the command line, with the object of the form in object.yaml",
        fill_command=build_fill_command(context, "all"),
        status=422 if error else 200,
        form=form,
        tree=tree,
        hook_url=partial(_hook_url, (tree.explanation.owner.cluster if tree else None) or ""),
        error=error,
        q=q,
        choice=choice,
        choices=list_choices(context.store, context.store.counts(), text=q),
        operations=_OPERATIONS,
    )


def _hook_url(cluster: str, phase: str, uid: str) -> str:
    """Return the address of the configuration of an explained webhook."""
    kind = MUTATING if phase == "mutating" else VALIDATING
    return object_url(ObjectKey(cluster, kind, "", uid.partition("/")[0]))


def _make_object_command(context: ConsoleContext, key: ObjectKey) -> str:
    """Return the command that prints an object of a cluster, ``""`` for one of files or of a logical cluster."""
    if context.cluster is None or key.cluster:
        return ""
    kind = f"{key.group_kind.kind}.{key.group_kind.group}" if key.group_kind.group else key.group_kind.kind
    namespace = ["--namespace", key.namespace] if key.namespace else []
    return context.kubectl("get", kind, key.name, *namespace, "--output", "yaml")
