"""The objects and reviews that ``webhook test`` sends, the requests about them, and the calls of webhooks."""

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from fleethook.api_schema import check_object
from fleethook.cli.command_line import fail
from fleethook.cli.inputs.cluster_reader import ListRequest, Show, stream_lists
from fleethook.cli.inputs.kcp_export import stream_consumers
from fleethook.cli.inputs.objects_with_changes import InputObjects, SourceOptions
from fleethook.cli.output.text_output import write_error
from fleethook.cli.trial_report import Trial, TrialReport, remove_stored
from fleethook.cluster.kubernetes.watched_resources import (
    WatchedResource,
    decode_object,
)
from fleethook.cluster.manifests.yaml_decoding_and_lines import Document
from fleethook.cluster.store import Store, key_of
from fleethook.engines.dispatch.attributes_and_cluster_annotation import Attributes
from fleethook.engines.dispatch.call.review_response_and_patch import ReviewError, check_patched
from fleethook.engines.dispatch.call.webhook_call_and_audit import Audit
from fleethook.engines.dispatch.dispatcher import Dispatcher
from fleethook.engines.dispatch.errors_and_deadline import (
    BUDGET_SECONDS,
    CallingError,
    Deadline,
    StatusError,
    denial,
    forbidden,
)
from fleethook.engines.dispatch.match.equivalent_resources import (
    DEFINITIONS_BY_RESOURCE,
    find_equivalents,
    is_namespaced,
)
from fleethook.engines.dispatch.match.selectors_and_decision import CallDecider, RequestContext
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
from fleethook.engines.dispatch.resource_of_manifest import ResourceName, parse_resource
from fleethook.engines.dispatch.schema_owner_and_cluster_paths import BINDINGS_BY_RESOURCE, find_owner, list_exported
from fleethook.engines.dispatch.webhooks.cluster_webhooks import RelevantWebhook
from fleethook.engines.dispatch.webhooks.webhook_defaults_and_compilation import PHASES
from fleethook.model.gvk import DEFINITION, GroupVersionKind, GroupVersionResource
from fleethook.model.json import JSON, JSONObject, as_object, list_objects, list_texts
from fleethook.model.kcp import (
    API_BINDING,
    API_EXPORT,
    API_RESOURCE_SCHEMA,
    BOUND_DEFINITIONS,
    LOGICAL_CLUSTER,
)
from fleethook.model.rule_matching import EVERY
from fleethook.outbound.calls_and_retries import HookClient
from fleethook.patch import PatchError
from fleethook.work.threads_and_gc import run_work

# Kinds that configure dispatching. `webhook test` sends objects of all other kinds.
_CONFIGURATION_KINDS: Final = {
    *PHASES.values(),
    API_BINDING,
    API_EXPORT,
    API_RESOURCE_SCHEMA,
    DEFINITION,
    LOGICAL_CLUSTER,
}


def select_objects(stored: Iterable[Document]) -> Iterator[InputDocument]:
    """Yield all objects without configuration."""
    for document in stored:
        key = key_of(document.object)
        if key.group_kind not in _CONFIGURATION_KINDS:
            yield InputDocument(document.object, document.place, key.cluster)


# For a resource without definition, such as one of an aggregated API; the first one that is served is read.
_USUAL_VERSIONS: Final = ("v1", "v2", "v1beta1", "v1alpha1")


async def stream_inputs(
    source: InputObjects, store: Store, options: SourceOptions, wanted: Sequence[str], show: Show
) -> AsyncIterator[InputDocument]:
    """Yield the objects of resources. Exits with a message if nothing names a resource, or they cannot be read.

    Args:
        source: The webhook configurations and definitions of the cluster.
        store: Holds the same objects.
        options: Where the objects are.
        wanted: Resources that the user names, as ``PLURAL[.VERSION][.GROUP]``; by default those that rules name.
        show: Shows the progress.
    """
    exported = _find_exported(source, options.kcp_export)
    names = list(map(parse_resource, wanted)) or _find_named_by_rules(source, exported)
    if not names:
        fail("no rule names a resource: give --resource PLURAL.GROUP")
    # One version is enough: webhooks get the others converted.
    by_resource = {(name.group, name.plural): name for name in reversed(names)}
    is_kcp = options.kcp or options.kcp_export is not None
    lists = [request for name in by_resource.values() for request in _make_lists(store, name, kcp=is_kcp)]
    if options.kcp_export is None:
        documents = stream_lists(lists, options.kubeconfig, context=options.context, show=show)
    else:
        # The virtual workspace lists the objects of all consumers at once.
        resources = {(request.resource.group, request.resource.plural): request.resource for request in reversed(lists)}
        documents = stream_consumers(
            options.kcp_export, list(resources.values()), options.kubeconfig, context=options.context, show=show
        )
    async for document in documents:
        for selected in select_objects([document]):
            yield selected


def _find_exported(source: InputObjects, export: str | None) -> list[tuple[str, str]]:
    """Return group and plural of the resources that consumers bind by an APIExport."""
    exports = [document.object for document in source.documents if key_of(document.object).group_kind == API_EXPORT]
    return [named for one in exports if key_of(one).name == export for named in list_exported(one)]


def _find_named_by_rules(source: InputObjects, exported: Sequence[tuple[str, str]]) -> list[ResourceName]:
    """Return the resources in the rules of the configurations that are tried.

    A wildcard stands for the resources of the APIExport: its virtual workspace has no others of consumers.
    """
    configurations = [document.object for document in source.documents if key_of(document.object) in source.changed]
    webhooks = [one for configuration in configurations for one in list_objects(configuration.get("webhooks"))]
    named = {name for one in webhooks for rule in list_objects(one.get("rules")) for name in _find_named(rule)}
    wild = {name for name in named if EVERY in (name.plural, name.group)}
    expanded = {
        ResourceName(group, plural, resource_name.version)
        for resource_name in wild
        for group, plural in exported
        if resource_name.group in (EVERY, group) and resource_name.plural in (EVERY, plural)
    }
    if wild and not exported:
        write_error("note: a rule matches all resources or groups; name further ones by --resource")
    elif wild and not expanded:
        names = ", ".join(f"{plural}.{group}" for group, plural in exported)
        write_error(f"note: a rule matches all resources or groups, but none of the APIExport, which has {names}")
    return sorted(named - wild | expanded)


def _find_named(rule: Mapping[str, JSON]) -> Iterator[ResourceName]:
    """Yield the resources that a rule names, in the first version that it names."""
    version = next((one for one in list_texts(rule.get("apiVersions")) if one != EVERY), "")
    for group in list_texts(rule.get("apiGroups")):
        for text in list_texts(rule.get("resources")):
            plural, _, part = text.partition("/")
            if part in ("", EVERY):
                yield ResourceName(group, plural, version)


def _make_lists(store: Store, name: ResourceName, *, kcp: bool) -> Iterator[ListRequest]:
    clusters = _find_clusters(store, name) if kcp else [""]
    for cluster in clusters:
        first, *rest = _find_versions(store, name, cluster)
        resource = WatchedResource(name.group, first, name.plural, "", decode_object, older_versions=tuple(rest))
        yield ListRequest(resource, f"/clusters/{cluster}" if cluster else "")


def _find_clusters(store: Store, name: ResourceName) -> list[str]:
    """Return the logical clusters that serve a resource: by a binding or a definition, or all for a built-in one."""
    known = {key.cluster for kind in (API_BINDING, DEFINITION, LOGICAL_CLUSTER) for key in store.keys(kind)}
    known.discard(BOUND_DEFINITIONS)
    serving = {
        cluster
        for cluster in known
        if store.find(BINDINGS_BY_RESOURCE, cluster, (name.group, name.plural))
        or store.find(DEFINITIONS_BY_RESOURCE, cluster, (name.group, name.plural))
    }
    is_built_in = is_namespaced(store, cluster="", group=name.group, resource=name.plural) is not None
    return sorted(known if is_built_in and not serving else serving)


def _find_versions(store: Store, name: ResourceName, cluster: str) -> list[str]:
    """Return the versions to try: that of the name, then those of the definition."""
    schema = find_owner(store, cluster=cluster, group=name.group, resource=name.plural).schema
    equivalents = find_equivalents(
        store,
        cluster=cluster,
        resource=GroupVersionResource(name.group, name.version, name.plural),
        subresource="",
        kind=GroupVersionKind(name.group, name.version, ""),
        schema=schema,
    )
    versions = dict.fromkeys([name.version, *(equivalent.resource.version for equivalent in equivalents)])
    return [version for version in versions if version] or list(_USUAL_VERSIONS)


def read_reviews(paths: Sequence[Path]) -> Iterator[InputDocument]:
    """Yield the admission reviews of recordings. Reports records that are none, and exits if there are no others."""
    from fleethook.cli.replay import list_recordings, read_recordings  # noqa: PLC0415 - `explain` reads no recordings
    from fleethook.recordings.recording_format import BodyError, unwrap_body  # noqa: PLC0415 - as above

    skipped = found = 0
    for entry in read_recordings(
        list_recordings(paths), lambda problem: write_error(f"{problem.place}: {problem.reason}")
    ):
        try:
            review: JSON = msgspec.json.decode(unwrap_body(entry.record.review))
        except (BodyError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            review = None
        if find_problem(review) or not is_review(as_object(review)):
            skipped += 1
            continue
        found += 1
        yield InputDocument(dict(as_object(review)), f"{entry.file}:{entry.line}", entry.record.cluster or None)
    if skipped:
        write_error(f"note: {skipped:,} records are no admission reviews, and not sent")
    if not found:
        fail(f"there are no admission reviews in {', '.join(map(str, paths))}")


def plan_requests(
    store: Store,
    one: InputDocument,
    operations: Sequence[RequestOperation],
    user: JSONObject,
    default_cluster: str | None,
) -> Iterator[InputRequest]:
    """Yield the dry runs of an object, one for each operation, or that of a review."""
    if is_review(one.document):
        recorded = RequestOptions(None, user, None, dry_run=True, default_cluster=default_cluster)
        if as_object(one.document.get("request")).get("operation") in operations:
            yield _plan_one(store, one, recorded)
        return
    for operation in operations:
        options = RequestOptions(operation, user, None, dry_run=True, default_cluster=default_cluster)
        is_new = operation is RequestOperation.CREATE
        sent = one._replace(document=remove_stored(one.document)) if is_new else one
        yield _plan_one(store, sent, options)


def _plan_one(store: Store, sent: InputDocument, options: RequestOptions) -> InputRequest:
    try:
        return make_input_request(store, sent, options)
    except InputRequestError as error:
        fail(str(error))


# Requests in flight; the calls of a request follow each other.
_CONCURRENT: Final = 16
_UNCALLED: Final = "requests"
"""Stands for a webhook if a request is refused before any webhook is found."""

Called = tuple[str, str]
"""The phase of a webhook, and its name."""


async def try_all(
    store: Store,
    inputs: AsyncIterator[InputDocument],
    plan: Callable[[InputDocument], Iterator[InputRequest]],
    report: TrialReport,
    show: Show,
) -> set[Called]:
    """Report the outcomes in the order of the objects, and return the called webhooks."""
    called, done, running = set[Called](), 0, deque[asyncio.Task[list[Trial]]]()

    async def run(planned: InputRequest) -> list[Trial]:
        deadline = Deadline(time.monotonic() + BUDGET_SECONDS)
        return [one async for one in _try_request(planned, dispatcher, deadline)]

    async def finish() -> None:
        nonlocal done
        for trial in await running.popleft():
            report.add(trial)
            if trial.outcome != "not sent":
                called.add((str(trial.members["phase"]), trial.asked))
        done += 1
        show(f"{done:,} requests")

    async with HookClient(allow_private=True) as client:
        dispatcher = build_offline_dispatcher(store, client=client)
        async for document in inputs:
            for planned in plan(document):
                if len(running) == _CONCURRENT:
                    await finish()
                running.append(asyncio.create_task(run(planned)))
        while running:
            await finish()
    return called


async def _try_request(planned: InputRequest, dispatcher: Dispatcher, deadline: Deadline) -> AsyncIterator[Trial]:
    try:
        async for trial in try_webhooks(dispatcher, planned, deadline):
            yield trial
    except StatusError as error:
        yield _describe(planned, "validating", _UNCALLED)._replace(outcome="failed", message=str(error))


async def try_webhooks(dispatcher: Dispatcher, planned: InputRequest, deadline: Deadline) -> AsyncIterator[Trial]:
    """Call each webhook whose rules match a request, and yield the outcomes.

    In an apiserver, later webhooks get the patches of earlier ones, and a refusal ends the request. Here each webhook
    gets the request itself, so that one does not hide the faults of another. failurePolicy has no effect: a failed call
    is reported as such.

    Args:
        dispatcher: Calls the webhooks.
        planned: The request; it should be a dry run.
        deadline: The end of all calls.

    Raises:
        StatusError: The owner of the schema is unclear, or the request cannot be forwarded.
    """
    for phase in PHASES:
        request = planned.request if phase == "mutating" else planned.validating
        target = await run_work(dispatcher.find_target(request, cluster=planned.cluster, phase=phase))
        if target.ownership.cluster is None:
            attributes = target.attributes
            raise forbidden(attributes.resource_name, attributes.name, target.ownership.problem)
        if not target.relevant:
            continue
        context = await dispatcher.build_context(target, deadline, Audit(), [])
        decider = CallDecider(context)
        for one in target.relevant:
            trial = _describe(planned, one.webhook.phase, f"{one.webhook.configuration}/{one.webhook.name}")
            yield await _try(trial, one, target.attributes, decider, context)


def _describe(planned: InputRequest, phase: str, asked: str) -> Trial:
    """Return the outcome of a webhook for a request, before it is known."""
    request, (configuration, _, webhook) = planned.validating, asked.partition("/")
    members: JSONObject = {
        "cluster": planned.cluster, "operation": request.operation, "kind": request.kind.kind,
        "namespace": request.namespace, "name": request.name, "phase": phase, "configuration": configuration,
        "webhook": webhook,
    }  # fmt: skip
    subject = f"{request.operation} {planned.subject}{f' in {planned.cluster}' if planned.cluster else ''}"
    return Trial(asked, subject, members, "not sent")


async def _try(
    trial: Trial, relevant: RelevantWebhook, attributes: Attributes, decider: CallDecider, context: RequestContext
) -> Trial:
    webhook = relevant.webhook
    try:
        if not await decider.should_call(relevant, attributes):
            return trial
        versioned = await decider.build_versioned(relevant, attributes)
        answer = await context.call_webhook(
            relevant, versioned.attributes, kind=versioned.kind, seconds=context.deadline.remaining
        )
        trial = trial._replace(warnings=answer.warnings)
        if not answer.allowed:
            return trial._replace(outcome="refused", message=str(denial(webhook.name, answer.status)))
        before = versioned.attributes.object
        patched = await context.patching.patch(before, answer)
        check_patched(webhook.name, patched, attributes.resource, versioned.kind)
    except (CallingError, StatusError, PatchError, ReviewError) as error:
        return trial._replace(outcome="failed", message=str(error), warnings=())
    if not patched.changed:
        return trial._replace(outcome="allowed")
    if problem := _find_misfit(dict(as_object(patched.object)), dict(as_object(before))):
        return trial._replace(
            outcome="failed", message=f"after its patch, the apiserver refuses the object: {problem}", warnings=()
        )
    return trial._replace(outcome="changed", patch=tuple(patched.operations), before=before, after=patched.object)


def _find_misfit(patched: JSONObject, before: JSONObject) -> str:
    """Return the first error that a patch adds to an object of a built-in kind, ``""`` if it adds none."""
    known = check_object(before)
    found = (finding for finding in check_object(patched) if finding.level == "error" and finding not in known)
    return next((f"{finding.field}: {finding.message}" for finding in found), "")
