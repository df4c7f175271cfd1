"""``fleethook explain``: list the webhooks that a request is sent to, and the reason for skipping each other one."""

import asyncio
import time
from collections.abc import Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import msgspec
import typer

from app.cli.exit_codes import CHECK_FAILED, fail
from app.cli.explain_output import ExplainedRequest, Output, describe_refusal, make_row, print_all, print_rows
from app.cli.explain_request import (
    NAMESPACE,
    InputDocument,
    Operation,
    PlannedRequest,
    RequestOptions,
    is_review,
    plan_request,
)
from app.cli.json_output import write_json
from app.cli.manifests import read_objects, read_values
from app.cli.terminal import write_error
from app.dispatch.call import Deadline
from app.dispatch.dispatcher import Dispatcher
from app.dispatch.equivalent_resources import DEFINITION
from app.dispatch.errors import StatusError
from app.dispatch.explain import BUDGET_SECONDS, Explanation
from app.dispatch.explain import explain as explain_request
from app.dispatch.factory import INDEXES, build_offline_dispatcher
from app.dispatch.hooks import PHASES
from app.dispatch.workspace_paths import resolve_cluster
from app.model.admission import Kind
from app.model.json import JSON, JSONObject, as_object
from app.model.kcp import (
    API_BINDING,
    API_EXPORT,
    API_RESOURCE_SCHEMA,
    LOGICAL_CLUSTER,
    cluster_of,
    is_cluster,
)
from app.store import Store, StoreView, key_of
from app.store.yaml_reader import Document

# Kinds that configure dispatching. `--all` explains requests for all other kinds.
_CONFIGURATION_KINDS: Final = {
    *PHASES.values(),
    API_BINDING,
    API_EXPORT,
    API_RESOURCE_SCHEMA,
    DEFINITION,
    LOGICAL_CLUSTER,
}


class PhaseName(StrEnum):
    """The two phases of admission."""

    MUTATING = "mutating"
    VALIDATING = "validating"


def explain(
    manifests: Annotated[
        Path,
        typer.Option(
            help="Directory or file of APIBindings, APIExports, schemas, webhook configurations and Namespaces."
        ),
    ],
    file: Annotated[
        list[Path] | None,
        typer.Option("--file", "-f", help="Object or AdmissionReview to explain; '-' for stdin; may be repeated."),
    ] = None,
    every: Annotated[
        bool, typer.Option("--all", help="Explain every object of the manifests, each in its cluster.")
    ] = False,
    cluster: Annotated[
        str | None,
        typer.Option(help="Logical cluster, by name or path; '' for a plain cluster (default: the object's)."),
    ] = None,
    operation: Annotated[
        Operation | None, typer.Option(help="Operation of the request (default: the review's, or CREATE).")
    ] = None,
    subresource: Annotated[str, typer.Option(help="Subresource, such as status or scale.")] = "",
    old: Annotated[Path | None, typer.Option(help="Stored object, for UPDATE and DELETE.")] = None,
    user: Annotated[str, typer.Option(help="User name of the request.")] = "",
    group: Annotated[list[str] | None, typer.Option(help="Group of the user; may be repeated.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Explain a dry run.")] = False,
    phase: Annotated[PhaseName | None, typer.Option(help="Explain only this phase.")] = None,
    as_kcp: Annotated[
        bool, typer.Option("--as-kcp", help="Behave like kcp: allow requests whose schema owner is ambiguous.")
    ] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Show all checks, also of webhooks that are called.")
    ] = False,
    output: Annotated[Output, typer.Option("--output", "-o", help="Output format.")] = Output.TEXT,
) -> None:
    """List the webhooks that a request is sent to, and the reason for skipping each other one.

    The command works offline. It calls neither admission webhooks, nor conversion webhooks, nor the authorizer.
    `--output json` prints one document for each object, or a list with `--all`.

    Exit codes: 0 success; 1 a request is refused before any webhook is called, because its schema owner is unclear or a
    check cannot be evaluated; 2 invalid arguments or unreadable input.
    """
    if bool(file) == every:
        fail("give either -f FILE or --all")
    stored = read_objects([manifests])
    store = Store(INDEXES)
    for document in stored:
        store.put(document.object)
    named = None if cluster is None else _resolve_cluster(store, cluster)
    inputs = list(_select_all(stored, named)) if every else [one for path in file or () for one in _read(path, named)]
    user_info: JSONObject = {"username": user, "groups": group or []} if user or group else {}
    options = RequestOptions(operation, subresource, user_info, None if old is None else _read_old(old), dry_run)
    dispatcher = build_offline_dispatcher(store, as_kcp=as_kcp)
    requests = [plan_request(store, one, options) for one in inputs]
    for note in sorted({one.guess for one in requests if one.guess} | set(_note_unknown_clusters(store, requests))):
        write_error(f"note: {note}")
    explained = asyncio.run(_explain_all(dispatcher, requests, phase))
    if any(_uses_authorizer(one.explanation) for one in explained):
        write_error("note: matchConditions that use the authorizer cannot be evaluated offline, as in kcp")
    if every:
        rows = [make_row(one) for one in explained]
        write_json(rows) if output is Output.JSON else print_rows(rows)
    else:
        phases = tuple(PHASES) if phase is None else (phase.value,)
        print_all(explained, output, phases=phases, verbose=verbose)
    if any(describe_refusal(one.explanation) for one in explained):
        raise typer.Exit(CHECK_FAILED)


def _resolve_cluster(store: Store, cluster: str) -> str:
    if cluster and not is_cluster(cluster):
        fail(f"--cluster: {cluster!r} is not the name or the path of a logical cluster")
    return resolve_cluster(store, cluster)


def _select_all(stored: Sequence[Document], cluster: str | None) -> Iterator[InputDocument]:
    """Yield the objects of a cluster, or of all clusters if it is None, without configuration."""
    for document, source, line, *_ in stored:
        key = key_of(document)
        if key.group_kind not in _CONFIGURATION_KINDS and cluster in (None, key.cluster):
            yield InputDocument(document, f"{source}:{line}", key.cluster)


def _read(path: Path, cluster: str | None) -> Iterator[InputDocument]:
    """Yield the objects and reviews in a file. Exits with a message if a document is neither."""
    for value, line, _ in read_values(path):
        place = f"{'<stdin>' if str(path) == '-' else path}:{line}"
        document = as_object(value)
        items = document.get("items")
        for one in items if isinstance(items, list) else (value,):
            problem = _find_problem(one)
            if problem:
                fail(f"{place}: {problem}")
            yield InputDocument(one, place, cluster_of(one) or None if cluster is None else cluster)


def _read_old(path: Path) -> JSONObject:
    found = list(_read(path, None))
    if len(found) != 1:
        fail(f"{path} holds {len(found)} objects, expected one")
    return found[0].document


def _find_problem(document: JSON) -> str:
    kind, api_version = as_object(document).get("kind"), as_object(document).get("apiVersion")
    if not (isinstance(kind, str) and kind and isinstance(api_version, str) and api_version):
        return "apiVersion and kind are required"
    if is_review(document):
        return ""
    metadata = document.get("metadata")
    if not isinstance(metadata, dict):
        return "metadata is required"
    texts = (metadata.get(member) for member in ("name", "generateName", "namespace"))
    return "" if all(one is None or isinstance(one, str) for one in texts) else "name and namespace must be text"


def _note_unknown_clusters(store: StoreView, requests: Sequence[PlannedRequest]) -> Iterator[str]:
    for one in requests:
        if not store.knows(one.cluster):
            yield f"the manifests have no objects of {one.cluster or 'a plain cluster'}"


async def _explain_all(
    dispatcher: Dispatcher, requests: Sequence[PlannedRequest], phase: PhaseName | None
) -> list[ExplainedRequest]:
    explained: list[ExplainedRequest] = []
    for request, cluster, source, _ in requests:
        deadline = Deadline(time.monotonic() + BUDGET_SECONDS)
        try:
            found = await explain_request(dispatcher, request, cluster=cluster, deadline=deadline)
        except StatusError as error:
            fail(f"{source.place}: {error}")
        namespace = request.namespace if request.kind != Kind(*NAMESPACE) else ""
        name = f"{namespace}/{request.name}" if namespace else request.name
        explained.append(ExplainedRequest(f"{request.kind.kind} {name}", source.place, _select_phase(found, phase)))
    return explained


def _uses_authorizer(explanation: Explanation) -> bool:
    hooks = (*explanation.mutating, *explanation.validating)
    return any("no such attribute(s): authorizer" in predicate.reason for one in hooks for predicate in one.predicates)


def _select_phase(explanation: Explanation, phase: PhaseName | None) -> Explanation:
    """Return an explanation with only one phase, or with both if ``phase`` is None."""
    if phase is None:
        return explanation
    return msgspec.structs.replace(
        explanation,
        mutating=explanation.mutating if phase is PhaseName.MUTATING else (),
        validating=explanation.validating if phase is PhaseName.VALIDATING else (),
        shadowed=tuple(one for one in explanation.shadowed if one.startswith(f"{phase}:")),
    )
