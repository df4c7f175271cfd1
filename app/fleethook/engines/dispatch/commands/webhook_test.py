"""``fleethook webhook test``: send existing objects as dry-run reviews to webhooks that are not registered yet."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Final, NamedTuple
from urllib.parse import urlsplit

from fleethook.cli.command_line import CommandGroup, Option, fail
from fleethook.cli.inputs.kcp_export import find_provider, set_cluster
from fleethook.cli.inputs.kubeconfig import find_default_cluster
from fleethook.cli.inputs.manifests import fail_input, read_manifests
from fleethook.cli.inputs.objects_with_changes import (
    InputObjects,
    SourceOptions,
    check_options,
    read_source,
    select_dispatching,
    warn_about,
)
from fleethook.cli.options import (
    ContextOption,
    FilesArgument,
    InClusterOption,
    InputOptions,
    KcpCacheOption,
    KcpExportOption,
    KcpOption,
    KubeconfigOption,
    Output,
    TrialsOutputOption,
)
from fleethook.cli.output.text_output import show_progress, write_error
from fleethook.cli.trial_report import TrialReport
from fleethook.cluster.manifests.yaml_decoding_and_lines import Document, ManifestError
from fleethook.cluster.store import key_of
from fleethook.engines.dispatch.commands.explain import resolve_cluster
from fleethook.engines.dispatch.commands.webhook_test_objects_and_calls import (
    Called,
    plan_requests,
    read_reviews,
    select_objects,
    stream_inputs,
    try_all,
)
from fleethook.engines.dispatch.lint.configuration_validation import configuration_problems
from fleethook.engines.dispatch.request_from_manifest import (
    InputDocument,
    InputRequest,
    RequestOperation,
    is_review,
)
from fleethook.engines.dispatch.schema_owner_and_cluster_paths import INDEXES, resolve
from fleethook.engines.dispatch.webhooks.webhook_defaults_and_compilation import PHASES, set_defaults
from fleethook.model.json import JSON, JSONObject, as_list, as_object, list_objects
from fleethook.model.kcp import cluster_of

_USUAL: Final = (RequestOperation.CREATE, RequestOperation.UPDATE, RequestOperation.DELETE)


class LocationOptions(NamedTuple):
    """The options that say where objects come from, and who answers (`fleethook.cli.command_line`)."""

    objects: Annotated[
        list[Path] | None,
        Option(
            help="File or directory of objects to send in place of those of a cluster, with their "
            "CustomResourceDefinitions and Namespaces; may be repeated."
        ),
    ] = None
    records: Annotated[
        list[Path] | None,
        Option(
            help="Recording or directory of recordings whose reviews are sent in place of objects; may be repeated. "
            "Namespaces and CustomResourceDefinitions come from --objects or the cluster."
        ),
    ] = None
    namespace: Annotated[str, Option("--namespace", "-n", help="Send only objects of this namespace.")] = ""
    kubeconfig: KubeconfigOption = None
    context: ContextOption = None
    in_cluster: InClusterOption = False
    kcp: KcpOption = False
    kcp_cache_kubeconfig: KcpCacheOption = None
    kcp_export: KcpExportOption = None
    cluster: Annotated[
        str,
        Option(
            help="Logical cluster that the configurations will be in, by name or path, if they do not name it "
            "(default with --kcp-export: that of the APIExport)."
        ),
    ] = ""
    url: Annotated[
        str,
        Option(help="Send reviews to this URL in place of those of the webhooks. A URL without path keeps the path."),
    ] = ""
    ca_file: Annotated[Path | None, Option(help="Certificate authorities of --url, in place of caBundle.")] = None

    @property
    def is_kcp(self) -> bool:
        """Whether the objects are those of a kcp."""
        return self.kcp or self.kcp_export is not None


def send_objects(
    files: FilesArgument = None,
    filename: Annotated[
        list[Path] | None,
        Option(
            "--filename",
            "-f",
            help="File or directory of the webhook configurations; '-' for standard input; may be repeated.",
        ),
    ] = None,
    location: LocationOptions = LocationOptions(),
    reading: InputOptions = InputOptions(),
    resource: Annotated[
        list[str] | None,
        Option(
            metavar="PLURAL[.VERSION][.GROUP]",
            help="Resource of the cluster whose objects are sent (default: those that rules name); may be repeated.",
        ),
    ] = None,
    operation: Annotated[
        list[RequestOperation] | None,
        Option(
            help="Operation to try (default: CREATE, UPDATE, DELETE); may be repeated. DELETECOLLECTION is the DELETE "
            "of an object with its collection or namespace: request.name is empty."
        ),
    ] = None,
    user: Annotated[str, Option(help="User name of the requests.")] = "",
    group: Annotated[list[str] | None, Option(help="Group of the user; may be repeated.")] = None,
    output: TrialsOutputOption = Output.TEXT,
) -> None:
    """Send existing objects as dry-run reviews to webhooks that are not registered yet, and print the outcomes.

    The command writes nothing to the cluster. It reads the objects of the resources that rules name, and sends a review
    of each operation that they match: CREATE of the object, UPDATE without a change, and DELETE. Webhooks of
    subresources are not tried, because no objects of subresources exist. With --kcp or --kcp-export, the objects are
    those of all logical clusters whose schemas the configurations' cluster owns. With --records, the command sends
    recorded reviews.

    Each webhook gets the object itself, not the patches of other webhooks, and a failed call is reported with each
    failurePolicy. Webhooks get no managedFields. A webhook whose sideEffects forbid dry runs is not called.

    --verbose prints each outcome, and all outcomes of one kind.

    Exit codes: 0 nothing is refused; 1 a webhook would refuse an object, or did not answer; 2 invalid arguments,
    invalid configurations or unreadable input.
    """
    configurations = _read_configurations([*(files or ()), *(filename or ())], location, reading)
    source, options = _read_cluster(configurations, location, reading)
    store = source.store(INDEXES)
    if location.records and resource:
        fail("--resource reads objects of a cluster: give it without --records")
    if resource and not options.reads_cluster:
        fail("--resource needs a cluster: give --kubeconfig or --in-cluster in place of --objects")
    user_info: JSONObject = {"username": user, "groups": group or []} if user or group else {}
    report = TrialReport("fleethook webhook test", output, reading, noun="webhook")

    def plan(one: InputDocument) -> Iterator[InputRequest]:
        if location.namespace in ("", _find_namespace(one)):
            yield from plan_requests(store, one, operation or _USUAL, user_info, None if location.is_kcp else "")

    async def run() -> set[Called]:
        with show_progress() as show:
            if location.records:
                inputs = _stream(read_reviews(location.records))
            elif options.reads_cluster:
                inputs = stream_inputs(source, store, options, resource or (), show)
            else:
                inputs = _stream(select_objects(source.documents))
            return await try_all(store, inputs, plan, report, show)

    _note_silent(configurations, asyncio.run(run()))
    report.finish()


async def _stream(inputs: Iterable[InputDocument]) -> AsyncIterator[InputDocument]:
    for document in inputs:
        yield document


def _read_configurations(files: Sequence[Path], location: LocationOptions, reading: InputOptions) -> list[Document]:
    """Return the configurations with their new URLs. Exits with a message if there are none, or one is invalid."""
    if not files:
        fail("give the webhook configurations: -f FILE")
    manifests = read_manifests(files, reading)
    if location.url and (urlsplit(location.url).scheme != "https" or not urlsplit(location.url).hostname):
        fail(f"--url {location.url}: give an https URL")
    bundle = _read_bundle(location.ca_file)
    documents = [document for document in manifests.documents if key_of(document.object).group_kind in PHASES.values()]
    others = len(manifests.documents) - len(documents)
    if others:
        write_error(
            f"note: {others:,} objects of -f are no webhook configurations, and not sent: give them by --objects"
        )
    warn_about(documents, set(PHASES.values()), strict=reading.strict)
    configurations = [_move(one, location.url, bundle) for one in documents]
    for configuration in configurations:
        if location.kcp and not location.cluster and not cluster_of(configuration.object):
            fail(f"{configuration.place}: the logical cluster is unknown: give --cluster NAME")
    errors = [
        *manifests.errors,
        *(problem for configuration in configurations for problem in _list_problems(configuration)),
    ]
    if errors:
        fail_input(errors)
    if not configurations:
        fail(f"there are no webhook configurations in {', '.join(map(str, files))}")
    return configurations


def _list_problems(configuration: Document) -> Iterator[ManifestError]:
    kind = key_of(configuration.object).group_kind.kind
    defaulted = set_defaults(configuration.object)
    for problem in configuration_problems(kind, defaulted):
        yield ManifestError(configuration.source, configuration.line, f"{problem.field}: {problem.text}")


def _read_bundle(file: Path | None) -> str:
    import base64  # noqa: PLC0415 - only this option needs it

    if file is None:
        return ""
    try:
        return base64.b64encode(file.read_bytes()).decode()
    except OSError as error:
        fail(f"--ca-file {file}: {error.strerror}")


def _move(configuration: Document, url: str, bundle: str) -> Document:
    """Return a configuration whose webhooks are at another URL, and have another caBundle."""
    webhooks: list[JSON] = []
    for webhook in as_list(configuration.object.get("webhooks")):
        config = dict(as_object(as_object(webhook).get("clientConfig")))
        if url:
            moved = {member: value for member, value in config.items() if member != "service"}
            config = {**moved, "url": _keep_path(url, config)}
        if bundle:
            config["caBundle"] = bundle
        webhooks.append({**as_object(webhook), "clientConfig": config} if url or bundle else webhook)
    return configuration._replace(object={**configuration.object, "webhooks": webhooks}) if webhooks else configuration


def _keep_path(url: str, config: Mapping[str, JSON]) -> str:
    """Return a URL with the path of the present endpoint if it has none."""
    if urlsplit(url).path.strip("/"):
        return url
    path = as_object(config.get("service")).get("path") or urlsplit(str(config.get("url") or "")).path
    return f"{url.rstrip('/')}/{str(path).lstrip('/')}" if path else url


def _read_cluster(
    configurations: Sequence[Document], location: LocationOptions, reading: InputOptions
) -> tuple[InputObjects, SourceOptions]:
    """Return the objects that decide about webhooks, with no other configurations than these, and their source."""
    options = SourceOptions(
        location.objects or (), location.kubeconfig, location.context, location.in_cluster, location.kcp,
        reading=reading, kcp_cache_kubeconfig=location.kcp_cache_kubeconfig, kcp_export=location.kcp_export,
    )  # fmt: skip
    check_options(options, "--objects")
    if not options.files and not options.in_cluster:
        default_cluster = find_default_cluster(location.kubeconfig, location.context, files_option="--objects")
        options = options._replace(kubeconfig=default_cluster)
    read = read_source(options, select_dispatching(kcp=location.is_kcp), every_kind=True)
    others = [document for document in read.documents if key_of(document.object).group_kind not in PHASES.values()]
    cluster = _find_cluster(InputObjects(others, others, frozenset()), location)
    placed = [set_cluster(configuration, cluster) for configuration in configurations]
    return InputObjects([*others, *placed], [], frozenset(key_of(one.object) for one in placed)), options


def _find_cluster(source: InputObjects, location: LocationOptions) -> str:
    """Return the logical cluster of configurations without one. Exits with a message if it is unknown."""
    store = source.store(())
    if location.kcp_export is not None and not location.cluster:
        return find_provider(source.documents, location.kcp_export)
    cluster = resolve_cluster(store, location.cluster, is_live=not location.objects)
    if cluster and location.is_kcp and not store.knows(cluster):
        fail(f"--cluster: {resolve(store, location.cluster).problem or f'logical cluster {cluster} is unknown'}")
    return cluster


def _find_namespace(one: InputDocument) -> str:
    holder = as_object(one.document.get("request" if is_review(one.document) else "metadata"))
    return str(holder.get("namespace") or "")


def _note_silent(configurations: Sequence[Document], called: set[Called]) -> None:
    """Report webhooks that got no review, because a test without reviews says nothing."""
    phases = {kind: phase for phase, kind in PHASES.items()}
    for configuration in configurations:
        for webhook in list_objects(configuration.object.get("webhooks")):
            name, key = str(webhook.get("name")), key_of(configuration.object)
            if (phases[key.group_kind], f"{key.name}/{name}") not in called:
                write_error(f"note: {configuration.place}: no existing object is sent to webhook {name}")


webhook = CommandGroup("Test admission webhooks before they are registered.", {"test": send_objects})
