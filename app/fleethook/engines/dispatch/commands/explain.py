"""``fleethook explain``: list the webhooks that a request is sent to, and the reason for skipping each other one."""

import asyncio
import time
from collections.abc import Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, NamedTuple

import msgspec

from fleethook.cli.exit_codes import CHECK_FAILED, fail
from fleethook.cli.inputs.sources import ClusterOptions, SourceOptions, read_source, select_dispatching, warn_about
from fleethook.cli.options import FilesArgument, InputOptions, TextOutput, TextOutputOption
from fleethook.cli.output.findings_output import report_input_errors
from fleethook.cli.output.text_output import write_error
from fleethook.cli.parameters import Option
from fleethook.cluster.store import Store, StoreView, key_of
from fleethook.engines.dispatch.call.call import Deadline
from fleethook.engines.dispatch.commands.explain_inputs import (
    read_inputs,
    read_objects,
    read_old,
    resolve_cluster,
    select_all,
)
from fleethook.engines.dispatch.commands.explain_output import (
    ExplainedRequest,
    View,
    describe_refusal,
    print_differences,
    print_explained,
)
from fleethook.engines.dispatch.dispatch_errors import StatusError
from fleethook.engines.dispatch.dispatcher import Dispatcher
from fleethook.engines.dispatch.explain import BUDGET_SECONDS, Explanation
from fleethook.engines.dispatch.explain import explain as explain_request
from fleethook.engines.dispatch.factory import build_offline_dispatcher
from fleethook.engines.dispatch.hooks.hooks import PHASES
from fleethook.engines.dispatch.review.request_plan import (
    InputDocument,
    Operation,
    PlanError,
    PlannedRequest,
    RequestOptions,
    is_review,
    plan_request,
)
from fleethook.engines.dispatch.schema_owner import INDEXES
from fleethook.model.formats.text import list_some
from fleethook.model.json import JSONObject, as_object


class PhaseName(StrEnum):
    """The two phases of admission."""

    MUTATING = "mutating"
    VALIDATING = "validating"


def explain(
    files: FilesArgument = None,
    filename: Annotated[
        list[Path] | None,
        Option(
            "--filename",
            "-f",
            help="File or directory of APIBindings, APIExports, schemas, webhook configurations and Namespaces; "
            "'-' for standard input; may be repeated.",
        ),
    ] = None,
    request: Annotated[
        list[Path] | None,
        Option("--request", help="Object or AdmissionReview to explain; '-' for standard input; may be repeated."),
    ] = None,
    live: ClusterOptions = ClusterOptions(),
    reading: InputOptions = InputOptions(),
    every: Annotated[
        bool, Option("--all", help="Explain every object of the manifests, or of --resource in a cluster.")
    ] = False,
    resource: Annotated[
        list[str] | None,
        Option(
            metavar="PLURAL[.VERSION][.GROUP][/SUBRESOURCE]",
            help="Resource that the objects are sent to, such as deployments.apps/scale (default: that of their kind). "
            "With --all, resource of a cluster to explain (default: those in the rules of changed webhooks); may be "
            "repeated.",
        ),
    ] = None,
    cluster: Annotated[
        str | None,
        Option(help="Logical cluster, by name or path; '' for a plain cluster (default: the object's)."),
    ] = None,
    operation: Annotated[
        Operation | None,
        Option(
            help="Operation of the request (default: the review's, or CREATE, or the only one of a subresource). "
            "DELETECOLLECTION is the DELETE of an object with its collection or namespace: request.name is empty."
        ),
    ] = None,
    subresource: Annotated[str, Option(help="Subresource, such as status or scale.")] = "",
    old: Annotated[Path | None, Option(help="Stored object, for UPDATE and DELETE.")] = None,
    user: Annotated[str, Option(help="User name of the request.")] = "",
    group: Annotated[list[str] | None, Option(help="Group of the user; may be repeated.")] = None,
    dry_run: Annotated[bool, Option("--dry-run", help="Explain a dry run.")] = False,
    phase: Annotated[PhaseName | None, Option(help="Explain only this phase.")] = None,
    as_kcp: Annotated[
        bool, Option("--as-kcp", help="Behave like kcp: allow requests whose schema owner is ambiguous.")
    ] = False,
    output: TextOutputOption = TextOutput.TEXT,
) -> None:
    """List the webhooks that a request is sent to, and the reason for skipping each other one.

    The command calls neither admission webhooks nor conversion webhooks. Configurations come from
    FILES or a cluster. `--output json` prints one document for each object, or a list with `--all`.

    With --change or --without, each request is explained before and after the change, and the differences are printed.
    With `--all`, only requests that are sent to other webhooks are listed.

    --verbose also shows all checks, and those of webhooks that are called.

    Exit codes: 0 success; 1 a request is refused before any webhook is called, because its schema owner is unclear or a
    check cannot be evaluated; 2 invalid arguments or unreadable input.
    """
    given = [*(files or ()), *(filename or ())]
    if bool(request) == every:
        fail("give either --request OBJECT or --all")
    source_options = live.beside(given, reading=reading)
    _check_selection(source_options, resource or (), every=every)
    with report_input_errors(output):
        resources = select_dispatching(kcp=live.kcp or live.kcp_export is not None)
        source = read_source(source_options, resources, every_kind=every, expects_namespace=False)
        stored = None if old is None else read_old(old)
    warn_about(source.documents, {one.group_kind for one in resources})
    store = source.store(INDEXES)
    named = None if cluster is None else resolve_cluster(store, cluster, source.unread)
    if request:
        with report_input_errors(output):
            inputs = [_place(one, live.namespace) for path in request for one in read_inputs(path, named)]
    elif source_options.reads_cluster:
        inputs = read_objects(source, store, source_options, resource or (), subresource=subresource, cluster=named)
    else:
        inputs = list(select_all(source.documents, named))
    if old is not None:
        _check_old(operation, subresource, inputs)
    user_info: JSONObject = {"username": user, "groups": group or []} if user or group else {}
    clusters = {key_of(one.object).cluster for one in source.documents}
    plain = "" if clusters == {""} or (source_options.reads_cluster and "" in clusters) else None
    named_resource = resource[0] if resource and not every else ""
    options = RequestOptions(operation, subresource, user_info, stored, dry_run, plain, named_resource)
    task = _Task(inputs, options, phase, sorted(clusters - {""}), as_kcp=as_kcp)
    explained = _explain(store, task)
    before = _explain(source.store_before(INDEXES), task) if source_options.changes else None
    _print_notes([*explained, *(before or ())])
    view = View(output, tuple(PHASES) if phase is None else (phase.value,), every=every, verbose=reading.verbose)
    if before is None:
        print_explained([one.explained for one in explained], view)
    else:
        pairs = zip(before, explained, strict=True)
        print_differences([(one.explained, other.explained) for one, other in pairs], view)
    if any(describe_refusal(one.explained.explanation) for one in explained):
        raise SystemExit(CHECK_FAILED)


def _check_old(operation: Operation | None, subresource: str, inputs: Sequence[InputDocument]) -> None:
    """Exit with a message if no request has a stored object. Reviews and subresources have their own operations."""
    is_default = operation is None and not subresource and not any(is_review(one.document) for one in inputs)
    if is_default or operation in (Operation.CREATE, Operation.CONNECT):
        fail(f"{operation or Operation.CREATE} does not use --old: give --operation UPDATE or DELETE, or leave it out")


def _check_selection(options: SourceOptions, resources: Sequence[str], *, every: bool) -> None:
    """Exit with a message if the options that select objects contradict each other."""
    if resources and every and not options.reads_cluster:
        fail("--resource needs a cluster with --all: give --kubeconfig or --in-cluster")
    if not every and len(resources) > 1:
        fail("--resource may be repeated only with --all")


def _place(one: InputDocument, namespace: str) -> InputDocument:
    """Return an object without namespace in the namespace of ``-n``, as kubectl creates it; reviews name theirs."""
    metadata = as_object(one.document.get("metadata"))
    if not namespace or not metadata or metadata.get("namespace") or as_object(one.document).get("kind") == "Namespace":
        return one
    return one._replace(document={**one.document, "metadata": {**metadata, "namespace": namespace}})


class _Task(NamedTuple):
    """Requests to explain.

    Attributes:
        inputs: Objects and reviews.
        options: Properties of the requests.
        phase: The only phase to explain, None for both.
        clusters: The logical clusters of the source.
        as_kcp: Whether to allow requests whose schema owner is ambiguous.
    """

    inputs: Sequence[InputDocument]
    options: RequestOptions
    phase: PhaseName | None
    clusters: Sequence[str]
    as_kcp: bool


class _Explained(NamedTuple):
    """An explained request, and notes about guesses."""

    explained: ExplainedRequest
    notes: tuple[str, ...]


def _explain(store: Store, task: _Task) -> list[_Explained]:
    dispatcher = build_offline_dispatcher(store, as_kcp=task.as_kcp)
    try:
        requests = [plan_request(store, one, task.options) for one in task.inputs]
    except PlanError as error:
        fail(str(error))
    explained = asyncio.run(_explain_all(dispatcher, requests, task.phase))
    return [
        _Explained(one, tuple(_list_notes(store, request, task.clusters)))
        for request, one in zip(requests, explained, strict=True)
    ]


def _list_notes(store: StoreView, request: PlannedRequest, clusters: Sequence[str]) -> Iterator[str]:
    yield from request.notes
    if not store.knows(request.cluster):
        others = f", but of {list_some(clusters)}" if clusters else ""
        yield f"there are no objects of {request.cluster or 'a plain cluster'}{others}"


def _print_notes(explained: Sequence[_Explained]) -> None:
    write_error(*(f"note: {note}" for note in sorted({note for one in explained for note in one.notes})))


async def _explain_all(
    dispatcher: Dispatcher, requests: Sequence[PlannedRequest], phase: PhaseName | None
) -> list[ExplainedRequest]:
    explained: list[ExplainedRequest] = []
    for planned in requests:
        deadline = Deadline(time.monotonic() + BUDGET_SECONDS)
        try:
            found = await explain_request(
                dispatcher,
                planned.request,
                validating=planned.validating,
                has_defaults=planned.has_defaults,
                cluster=planned.cluster,
                deadline=deadline,
            )
        except StatusError as error:
            fail(f"{planned.source.place}: {error}")
        explained.append(ExplainedRequest(planned.subject, planned.source.place, _select_phase(found, phase)))
    return explained


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
