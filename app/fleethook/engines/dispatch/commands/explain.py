"""``fleethook explain``: list the webhooks that a request is sent to, and the reason for skipping each other one."""

import asyncio
from collections.abc import Collection, Iterator, Sequence
from difflib import SequenceMatcher
from pathlib import Path
from typing import Annotated, Final, NamedTuple

from fleethook.cli.command_line import CHECK_FAILED, Option, fail
from fleethook.cli.inputs.cluster_reader import ListRequest, read_lists
from fleethook.cli.inputs.manifests import fail_input, read_values
from fleethook.cli.inputs.objects_with_changes import (
    SourceOptions,
    fill_store,
    find_workspace,
    read_source,
    select_dispatching,
    warn_about,
)
from fleethook.cli.options import FilesArgument, InputOptions, Output, TextOutputOption
from fleethook.cli.output.text_output import Styled, concatenate, styled, write_error, write_json, write_styled
from fleethook.cluster.kubernetes.watched_resources import API_RESOURCE_SCHEMAS, DEFINITIONS, decode_object
from fleethook.cluster.manifests.manifest_files import name_source
from fleethook.cluster.manifests.yaml_decoding_and_lines import ManifestError
from fleethook.cluster.store import ObjectKey, Store, StoreView, key_of
from fleethook.engines.dispatch.dispatcher import Dispatcher
from fleethook.engines.dispatch.errors_and_deadline import StatusError
from fleethook.engines.dispatch.explanation import ExplainedWebhook, Explanation, explain_input
from fleethook.engines.dispatch.match.equivalent_resources import find_definition
from fleethook.engines.dispatch.offline_dispatcher_and_replay import build_offline_dispatcher
from fleethook.engines.dispatch.request_from_manifest import (
    InputDocument,
    InputRequest,
    InputRequestError,
    RequestOperation,
    RequestOptions,
    find_problem,
    is_review,
    make_input_request,
)
from fleethook.engines.dispatch.schema_owner_and_cluster_paths import INDEXES, find_owner, resolve
from fleethook.model.formats.text import list_names
from fleethook.model.json import JSONObject, as_object
from fleethook.model.kcp import (
    API_EXPORT,
    LOGICAL_CLUSTER,
    PATH_ANNOTATION,
    SHARD_ANNOTATION,
    WORKSPACE,
    cluster_of,
    is_cluster,
)

_STYLES: Final = {"call": "green", "skip": "dim", "error": "bold red", "unknown": "yellow"}


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
    live: SourceOptions = SourceOptions(),
    reading: InputOptions = InputOptions(),
    resource: Annotated[
        str,
        Option(
            metavar="[PLURAL[.VERSION][.GROUP]][/SUBRESOURCE]",
            help="Resource that the objects are sent to, such as deployments.apps/scale or /status (default: that of "
            "their kind).",
        ),
    ] = "",
    cluster: Annotated[
        str | None, Option(help="Logical cluster, by name or path; '' for a plain cluster (default: the object's).")
    ] = None,
    operation: Annotated[
        RequestOperation | None,
        Option(
            help="Operation of the request (default: the review's, or CREATE, or the only one of a subresource). "
            "DELETECOLLECTION is the DELETE of an object with its collection or namespace: request.name is empty."
        ),
    ] = None,
    old: Annotated[Path | None, Option(help="Stored object, for UPDATE and DELETE.")] = None,
    user: Annotated[str, Option(help="User name of the request.")] = "",
    group: Annotated[list[str] | None, Option(help="Group of the user; may be repeated.")] = None,
    dry_run: Annotated[bool, Option("--dry-run", help="Explain a dry run.")] = False,
    as_kcp: Annotated[
        bool, Option("--as-kcp", help="Behave like kcp: allow requests whose schema owner is ambiguous.")
    ] = False,
    output: TextOutputOption = Output.TEXT,
) -> None:
    """List the webhooks that a request is sent to, and the reason for skipping each other one.

    The command calls neither admission webhooks nor conversion webhooks. Configurations come from
    FILES or a cluster. `--output json` prints one document for each object.

    With --change, each request is explained before and after the change, and the differences are printed.

    --verbose also shows all checks, and those of webhooks that are called.

    Exit codes: 0 success; 1 a request is refused before all webhooks are called, because its schema owner is unclear,
    its namespace is missing, its schema refuses the object or a check cannot be evaluated; 2 invalid arguments or
    unreadable input.
    """
    if not request:
        fail("give the object to explain: --request OBJECT")
    source_options = live.beside([*(files or ()), *(filename or ())], reading=reading)
    resources = select_dispatching(kcp=live.kcp or live.kcp_export is not None)
    source = read_source(source_options, resources, expects_namespace=False)
    stored = None if old is None else read_old(old)
    warn_about(source.documents, {watched_resource.group_kind for watched_resource in resources}, strict=reading.strict)
    store = source.store(INDEXES)
    named = None if cluster is None else resolve_cluster(store, cluster, is_live=source_options.reads_cluster)
    inputs = [_place(input_document, live.namespace) for path in request for input_document in read_inputs(path, named)]
    if not inputs:
        fail(f"nothing to explain: there is no object in {', '.join(map(str, request))}")
    if old is not None:
        _check_old(operation, resource, inputs)
    user_info: JSONObject = {"username": user, "groups": group or []} if user or group else {}
    clusters = {key_of(document.object).cluster for document in source.documents}
    plain = "" if clusters == {""} or (source_options.reads_cluster and "" in clusters) else None
    if source_options.reads_cluster and not live.kcp and live.kcp_export is None:
        plain = find_workspace(source.documents) or plain
    options = RequestOptions(operation, user_info, stored, dry_run, plain, resource)
    task = _Task(inputs, options, sorted(clusters - {""}), as_kcp=as_kcp, source=source_options)
    explained = _explain(store, task, source.changed)
    before = _explain(fill_store(source.before, INDEXES), task) if source_options.change else explained
    write_error(*(f"note: {note}" for note in sorted({note for one in (*explained, *before) for note in one.notes})))
    for was, now in zip(before, explained, strict=True):
        if output is Output.JSON:
            changes = {"before": was.explanation, "after": now.explanation}
            write_json(changes if source_options.change else now.explanation)
            continue
        lines = list(_format_tree(now, verbose=reading.verbose))
        if source_options.change:
            lines = list(_mark_differences(list(_format_tree(was, verbose=reading.verbose)), lines))
        for line in lines:
            write_styled(line)
    if any(_is_refused(one.explanation) for one in explained):
        raise SystemExit(CHECK_FAILED)


def read_inputs(path: Path, cluster: str | None) -> Iterator[InputDocument]:
    """Yield the objects and reviews in a file. Exits with a message if a document is neither."""
    for found in read_values(path):
        place = f"{name_source(path)}:{found.line}"
        items = as_object(found.value).get("items")
        for item in items if isinstance(items, list) else (found.value,):
            if problem := find_problem(item):
                fail_input([ManifestError(name_source(path), found.line, problem)])
            yield InputDocument(item, place, cluster_of(item) or None if cluster is None else cluster)


def read_old(path: Path) -> JSONObject:
    """Return the only object in a file. Exits with a message if it holds several."""
    documents = list(read_inputs(path, None))
    if len(documents) != 1:
        fail(f"{path} holds {len(documents)} objects, expected one")
    return documents[0].document


def resolve_cluster(store: Store, cluster: str, *, is_live: bool) -> str:
    """Return the logical cluster of ``--cluster``, a name or a path. Exits with a message if it cannot be found.

    Objects of a cluster (``is_live``) lack the Workspaces that the user may not read.
    """
    if cluster and not is_cluster(cluster):
        fail(f"--cluster: {cluster!r} is not the name or the path of a logical cluster")
    path = resolve(store, cluster)
    known = [*store.keys(LOGICAL_CLUSTER)]
    if path.problem and len(known) == 1:  # An administrator of a workspace can write the annotation of its own only.
        metadata = as_object(as_object(store.get(*known[0])).get("metadata"))
        if as_object(metadata.get("annotations")).get(PATH_ANNOTATION) == cluster:
            return known[0].cluster
    if path.problem and is_live and store.has(API_EXPORT) and not store.has(WORKSPACE):
        hint = "give the name of the logical cluster, which is .spec.cluster of its Workspace"
        fail(f"--cluster: {cluster} cannot be followed, because no Workspace was read: {hint}")
    return path.cluster


def read_schema(store: Store, request: InputRequest, options: SourceOptions) -> JSONObject | None:
    """Return the definition of a request's custom resource with its schema, which a source of a cluster lacks.

    None if there is none. Exits with a message if it cannot be read.
    """
    group, resource = request.request.resource.group, request.request.resource.resource
    schema = find_owner(store, cluster=request.cluster, group=group, resource=resource).schema
    definition = find_definition(store, cluster=request.cluster, group=group, resource=resource, schema=schema)
    if definition is None:
        return None
    key, cache = key_of(definition), options.kcp_cache_kubeconfig
    one = (DEFINITIONS if schema is None else API_RESOURCE_SCHEMAS)._replace(decode=decode_object, only=("", key.name))
    # kcp has no list of all logical clusters with a field selector, and none of all shards.
    shard = definition["metadata"].get("annotations", {}).get(SHARD_ANNOTATION)
    if cache is not None and shard is not None:
        wanted = ListRequest(one, f"/services/cache/shards/{shard}/clusters/{key.cluster}")
        found = read_lists([wanted], cache, None)
    else:
        wanted = ListRequest(one, f"/clusters/{key.cluster}" if options.kcp else "")
        found = read_lists([wanted], options.kubeconfig, options.context)
    return next((document.object for document in found), None)


def _check_old(operation: RequestOperation | None, resource: str, inputs: Sequence[InputDocument]) -> None:
    """Exit with a message if no request has a stored object. Reviews and subresources have their own operations."""
    is_default = operation is None and "/" not in resource and not any(is_review(one.document) for one in inputs)
    if is_default or operation in (RequestOperation.CREATE, RequestOperation.CONNECT):
        fail(f"{operation or 'CREATE'} does not use --old: give --operation UPDATE or DELETE, or leave it out")


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
        clusters: The logical clusters of the source.
        as_kcp: Whether to allow requests whose schema owner is ambiguous.
        source: The source. A cluster has all its Namespaces, and not yet the schemas of custom resources.
    """

    inputs: Sequence[InputDocument]
    options: RequestOptions
    clusters: Sequence[str]
    as_kcp: bool
    source: SourceOptions


class _Explained(NamedTuple):
    """An explained request.

    Attributes:
        subject: Kind, namespace and name of the object.
        explanation: The webhooks and the reasons.
        notes: Guesses about the request.
    """

    subject: str
    explanation: Explanation
    notes: tuple[str, ...]


def _explain(store: Store, task: _Task, changed: Collection[ObjectKey] = ()) -> list[_Explained]:
    dispatcher, is_live = build_offline_dispatcher(store, as_kcp=task.as_kcp), task.source.reads_cluster
    try:
        requests = [make_input_request(store, document, task.options) for document in task.inputs]
        if is_live:
            custom = {(one.cluster, one.request.resource): one for one in requests if one.version is not None}
            for definition in [read_schema(store, input_request, task.source) for input_request in custom.values()]:
                if definition is not None and key_of(definition) not in changed:
                    store.put(definition)
            requests = [make_input_request(store, document, task.options) for document in task.inputs]
    except InputRequestError as error:
        fail(str(error))
    explained = asyncio.run(_explain_all(dispatcher, store, requests, task.source))
    return [
        _Explained(request.subject, explanation, tuple(_list_notes(store, request, task.clusters)))
        for request, explanation in zip(requests, explained, strict=True)
    ]


def _list_notes(store: StoreView, request: InputRequest, clusters: Sequence[str]) -> Iterator[str]:
    yield from request.notes
    if not store.knows(request.cluster):
        others = f", but of {list_names(sorted(clusters))}" if clusters else ""
        yield f"there are no objects of {request.cluster or 'a plain cluster'}{others}"


async def _explain_all(
    dispatcher: Dispatcher, store: Store, requests: Sequence[InputRequest], source: SourceOptions
) -> list[Explanation]:
    is_live, as_provider = source.reads_cluster, source.kcp_export is not None
    explained: list[Explanation] = []
    for planned in requests:
        try:
            explained.append(await explain_input(dispatcher, store, planned, is_live=is_live, as_provider=as_provider))
        except StatusError as error:
            fail(f"{planned.source.place}: {error}")
    return explained


def _is_refused(explanation: Explanation) -> bool:
    """Return whether a request is refused before any webhook is called."""
    webhooks = (*explanation.mutating, *explanation.validating)
    return (
        bool(explanation.refused)
        or explanation.owner.cluster is None
        or any(webhook.decision in ("error", "unknown") for webhook in webhooks)
    )


def _mark_differences(before: Sequence[Styled], after: Sequence[Styled]) -> Iterator[Styled]:
    """Yield the lines of the tree after a change, and with ``-`` those that it no longer has."""
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    for tag, start, end, new_start, new_end in matcher.get_opcodes():
        same = tag == "equal"
        for line in () if same else before[start:end]:
            yield concatenate(styled("- ", "red"), line)
        for line in after[new_start:new_end]:
            yield concatenate(styled("  " if same else "+ ", "" if same else "green"), line)


def _format_tree(explained: _Explained, *, verbose: bool) -> Iterator[Styled]:
    subject, explanation, _ = explained
    owner = explanation.owner
    request = f"{explanation.operation} of {explanation.resource}, {subject}, in {_name_cluster(explanation.cluster)}"
    yield styled(request, "bold")
    yield styled(f"owner: {'none' if owner.cluster is None else _name_cluster(owner.cluster)} ({owner.case})")
    for step in owner.trace:
        yield styled(f"  {step}", "bold red" if step == owner.problem else "cyan")
    for phase, webhooks in (("mutating", explanation.mutating), ("validating", explanation.validating)):
        yield styled(f"{phase}:" if webhooks else f"{phase}: no webhooks")
        for webhook in webhooks:
            yield from _format_webhook(webhook, verbose=verbose)
    if explanation.shadowed:
        yield styled("shadowed, because the schema is not the cluster's own:")
        for one in explanation.shadowed:
            yield styled(f"  {one}", "yellow")
    for note in explanation.notes:
        yield styled(f"note: {note}", "yellow")


def _name_cluster(name: str) -> str:
    """Return a logical cluster for messages."""
    return name or "the cluster"


def _format_webhook(webhook: ExplainedWebhook, *, verbose: bool) -> Iterator[Styled]:
    reason = f"{webhook.stage}: {webhook.reason}" if webhook.stage else webhook.reason
    yield concatenate(
        styled(f"  {webhook.decision:<6}", _STYLES[webhook.decision]), styled(" "), styled(f"{webhook.uid}  {reason}")
    )
    if verbose:
        for predicate in webhook.predicates:
            yield styled(
                f"           {'yes' if predicate.ok else 'no ':<4}{predicate.stage}: {predicate.reason}", "dim"
            )
    if webhook.nearest_miss:
        yield styled(f"         nearest miss: {webhook.nearest_miss}", "dim")
    for note in webhook.notes:
        yield styled(f"         note: {note}", "yellow")
