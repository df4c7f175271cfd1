"""``fleethook rules apply``: asks rules about the objects of files or of a cluster, each as a CREATE, with notes."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from msgspec.structs import replace

from fleethook.admission.decorators_and_files import load_rules
from fleethook.admission.mismatch_and_pod_templates import find_rule_mismatch, list_targets
from fleethook.admission.rule_in_tests import Review, Rule, Surroundings, ask_in_order, build_request, find_resource
from fleethook.admission.rule_scope_and_options import RuleError, is_control_plane, selects_by_labels
from fleethook.admission.store_parameter import find_among
from fleethook.api_schema import read_definitions
from fleethook.cli.command_line import Argument, Option, fail
from fleethook.cli.inputs.cluster_reader import describe_missing, stream_objects
from fleethook.cli.inputs.kcp_export import check_rights, find_urls
from fleethook.cli.inputs.kubeconfig import KubeconfigContext, TargetOptions, find_default_cluster
from fleethook.cli.inputs.manifests import read_manifests
from fleethook.cli.inputs.objects_with_changes import fill_store
from fleethook.cli.options import (
    FilenameOption,
    InputOptions,
    KcpExportOption,
    NamespaceOption,
    Output,
    TrialsOutputOption,
    load_settings,
)
from fleethook.cli.output.text_output import show_progress, write_error
from fleethook.cli.trial_report import Outcome, Trial, TrialReport, remove_stored
from fleethook.cluster.api_errors import FORBIDDEN, NOT_FOUND, APIError, UnreachableError
from fleethook.cluster.kubernetes.list_reading_and_decoding import EVERY_CLUSTER
from fleethook.cluster.kubernetes.watched_resources import (
    CONSUMERS,
    NAMESPACES,
    WatchedResource,
    api_path,
    decode_object,
)
from fleethook.cluster.manifests.yaml_decoding_and_lines import Document, FieldLines, ManifestError
from fleethook.cluster.registration.consumer_bindings_and_webhooks import Consumer, describe_state, judge_bindings
from fleethook.cluster.registration.rule_webhooks_and_outage import name_resources
from fleethook.model.admission import AdmissionRequest, read_cluster
from fleethook.model.formats.names_and_labels import read_labels
from fleethook.model.gvk import DEFINITION, gvk_of, parse_api_version
from fleethook.model.json import JSON, JSONObject, as_object, as_text, list_objects, list_texts
from fleethook.model.kcp import cluster_of
from fleethook.model.rule_matching import EVERY
from fleethook.workload_schema.custom_resource_schema import find_kind_version

if TYPE_CHECKING:
    from fleethook.cluster.apiserver_connection import Connection

Locate = Callable[[str], str]
"""Returns ``FILE:LINE`` of a field of the object, ``""`` for an object of a cluster."""


_GIVEN: Final = ("creationTimestamp", "generation", "uid")


class RuleTrials:
    """Asks rules about objects, and reports the outcomes.

    Attributes:
        rules: The rules in the order of kube-apiserver, mutating ones first.
        errors: The errors about objects that could not be examined.
        around: The facts that do not depend on the object.
        namespaces: The labels of namespaces by name.
        definitions: The CustomResourceDefinitions.
    """

    def __init__(self, rules: Sequence[Rule], report: TrialReport, *, user: JSONObject) -> None:
        """Prepare; ``user`` is that of the requests."""
        self.rules: Final = rules
        self.errors: Final[list[ManifestError]] = []
        self.around = Surroundings()
        self.namespaces: Mapping[str, Mapping[str, str]] = {}
        self.definitions: Sequence[JSONObject] = ()
        self._report: Final = report
        self._user: Final = user
        # The function of a rule that notifies somebody must not do so about each object.
        self._is_dry: Final = any(rule.declaration.side_effects != "None" for rule in rules)
        self._asked: Final[set[str]] = set()
        self._noted: Final[set[tuple[str, str]]] = set()

    def try_object(
        self,
        document: JSONObject,
        *,
        resource: str = "",
        stored: bool = False,
        source: str = "",
        line: int = 0,
        locate: Locate = lambda _: "",
    ) -> None:
        """Report the outcome of each rule that sees an object, and print a note if one cannot be examined.

        A refusal does not end the request, so that it does not hide another one.

        Args:
            document: The object.
            resource: The plural of its kind, if it is known.
            stored: Whether it comes from a cluster, so that it has all defaults.
            source: The file, or the resource of the cluster.
            line: The line in the file.
            locate: Returns the place of a field.
        """
        try:
            for trial in self._try(document, resource, stored=stored, locate=locate):
                self._report.add(trial)
        except (ValueError, TypeError) as error:  # kube-apiserver never sends such an object.
            self.errors.append(ManifestError(source, line, f"cannot be given to rules: {error}"))

    def note_unasked(self) -> None:
        """Tell which rules have not been asked."""
        for rule in self.rules:
            if rule.name not in self._asked:
                declared = rule.declaration
                requests = f"{', '.join(declared.operations)} of {', '.join(name_resources(declared))}"
                write_error(f"note: {rule.place}: no object is given to {rule.name}, which gets {requests}")

    def _try(self, document: JSONObject, resource: str, *, stored: bool, locate: Locate) -> Iterator[Trial]:
        new = document
        if stored:
            # kube-apiserver shows no status of a new object, and these metadata to validating rules.
            new = remove_stored(document)
            given = {name: one for name, one in document["metadata"].items() if name in _GIVEN}
            new = {**new, "metadata": {**new["metadata"], **given}, **({"status": {}} if "status" in document else {})}
        request = build_request(
            new, rules=self.rules, operation="CREATE", resource=resource, user=self._user, dry_run=self._is_dry
        )
        around = self.around._replace(
            namespace_labels=self.namespaces.get(request.namespace, {}),
            version=find_kind_version(self.definitions, document),
        )
        trial = _describe_object(request)
        seen = [rule for rule in self.rules if not find_rule_mismatch(rule.declaration, request)]
        for rule in self.rules:
            if rule in seen:
                self._note_labels(rule, request.namespace)
            else:
                self._note_version(rule, request, locate)
        for rule, shown, review in ask_in_order(seen, request, around, has_defaults=stored):
            yield self._describe(trial._replace(before=shown.object), rule, review, locate)

    def _describe(self, trial: Trial, rule: Rule, answer: Review, locate: Locate) -> Trial:
        """Return the outcome of a rule."""
        members = {**trial.members, "rule": rule.name, "ruleAt": f"{rule.file}:{rule.line}"}
        trial = trial._replace(asked=f"{rule.name} ({rule.place})", members=members)
        if not answer.matched:
            return trial
        self._asked.add(rule.name)
        failure = next((one for one in (answer.message, *answer.warnings) if one.startswith(rule.failure)), "")
        told = (failure, answer.message)
        warnings = tuple(one for one in dict.fromkeys((*answer.warnings, *answer.mistakes)) if one not in told)
        if answer.allowed and not failure and not answer.patch:
            return trial._replace(outcome="allowed", warnings=warnings)
        outcome: Outcome = "failed" if failure else "changed" if answer.allowed else "refused"
        field = answer.causes[0].field if answer.causes else ""
        return trial._replace(
            outcome=outcome,
            message=failure or answer.message,
            field=field,
            place=locate(field),
            patch=tuple(answer.patch) if outcome == "changed" else (),
            after=answer.object,
            warnings=warnings,
        )

    def _note_version(self, rule: Rule, request: AdmissionRequest, locate: Locate) -> None:
        """Tell that an object has another version than a rule wants: kube-apiserver would convert it."""
        wanted, version, kind = rule.declaration.version, request.kind.version, request.kind.kind
        if not find_rule_mismatch(replace(rule.declaration, version=EVERY), request):
            text = (
                f"{locate('') or kind}: {rule.name} ({rule.place}) decides about {wanted} of {kind}; "
                f"kube-apiserver would convert {version}: write the object in {wanted} to examine it"
            )
            self._note((rule.name, f"{kind} {version}"), text)

    def _note_labels(self, rule: Rule, namespace: str) -> None:
        """Tell that the labels of a namespace are unknown, if they decide."""
        if namespace and namespace not in self.namespaces and selects_by_labels(rule.declaration):
            text = (
                f"{rule.place}: {rule.name} selects namespaces by labels, and the Namespace {namespace} is not "
                "among the objects, so it has only the label of its name"
            )
            self._note((rule.name, ""), text)

    def _note(self, key: tuple[str, str], text: str) -> None:
        if key not in self._noted:
            self._noted.add(key)
            write_error(f"note: {text}")


def _describe_object(request: AdmissionRequest) -> Trial:
    kind, name = request.kind.kind, request.name
    if not name:
        name = str(as_object(as_object(request.object).get("metadata")).get("generateName") or "")
    namespace, cluster = "" if kind == "Namespace" else request.namespace, read_cluster(request)
    members: JSONObject = {"kind": kind, "namespace": namespace, "name": name} | (
        {"cluster": cluster} if cluster else {}
    )
    subject = f"{kind} {namespace}{'/' if namespace else ''}{name}{f' in {cluster}' if cluster else ''}"
    return Trial("", subject, members, "not sent")


def apply_rules(
    files: Annotated[list[Path], Argument(metavar="RULES...", help="Files (*.py) of admission rules.")],
    filename: FilenameOption = None,
    namespace: NamespaceOption = "",
    cluster: TargetOptions = TargetOptions(),
    reading: InputOptions = InputOptions(),
    user: Annotated[str, Option(help="User name of the requests.")] = "",
    group: Annotated[list[str] | None, Option(help="Group of the user; may be repeated.")] = None,
    config: Annotated[Path | None, Option(help="YAML file of the server's settings; FLEETHOOK_* overrides it.")] = None,
    kcp_export: KcpExportOption = None,
    output: TrialsOutputOption = Output.TEXT,
) -> None:
    """Ask rules about the objects of files or of a cluster, and print the refusals and the changes.

    Each object is given to each rule that would see it, as a CREATE, in this process. Nothing is written. A rule gets
    the changes of the mutating rules before it, and a refusal does not hide another one.

    With files, the labels of namespaces and the objects of `store` are those of the files. With --kubeconfig, --context
    or --in-cluster, the command reads the kinds that the rules name in pages, so it needs no memory for each object.

    Exit codes: 0 nothing is refused; 1 a rule refuses an object, or failed; 2 invalid arguments, unreadable input or
    an invalid rule.
    """
    if filename and cluster.is_given:
        fail("give only one of -f and a cluster (--kubeconfig, --context, --in-cluster)")
    rules = load_or_fail(files)
    if kcp_export is not None and (filename or any(selects_by_labels(one.declaration) for one in rules)):
        fail("--kcp-export is for neither -f nor rules that select namespaces by labels, which differ by workspace")
    report = TrialReport("fleethook rules apply", output, reading, noun="rule")
    trials = RuleTrials(rules, report, user={"username": user, "groups": group or []})
    trials.around = Surroundings(settings=_read_settings(rules, config))
    if filename:
        _apply_to_files(trials, filename, namespace, reading)
    else:
        target = cluster.find() if cluster.is_given else KubeconfigContext(find_default_cluster(None, None))
        try:
            asyncio.run(_apply_to_cluster(trials, target, namespace, kcp_export))
        except (APIError, UnreachableError) as error:
            fail(f"cannot read the cluster: {error}")
    trials.note_unasked()
    report.finish(trials.errors)


def load_or_fail(files: Sequence[Path]) -> Sequence[Rule]:
    """Return the rules of files. Exits with a message for a file that cannot be used."""
    try:
        return load_rules(files)
    except RuleError as error:
        fail(str(error))


def _read_settings(rules: Iterable[Rule], config: Path | None) -> Mapping[str, Any]:
    if not any("settings" in rule.signature.names for rule in rules):
        return {}
    # Imported here because rules without settings start faster.
    from fleethook.engines.rules.rules_settings import RulesSettings  # noqa: PLC0415

    return load_settings({}, config).section(RulesSettings).rule_settings


def _apply_to_files(trials: RuleTrials, files: Sequence[Path], namespace: str, reading: InputOptions) -> None:
    """Ask the rules about the objects of files."""
    from fleethook.engines.dispatch.match.equivalent_resources import is_namespaced  # noqa: PLC0415 - only for files
    from fleethook.engines.dispatch.resource_of_manifest import map_kind  # noqa: PLC0415 - as above
    from fleethook.engines.dispatch.schema_owner_and_cluster_paths import INDEXES  # noqa: PLC0415 - as above

    read = read_manifests(files, reading, select=_generates_name)
    trials.errors.extend(read.errors)
    objects = [one.object for one in read.documents]
    store = fill_store(read.documents, INDEXES)
    trials.definitions = [one for one in objects if gvk_of(one).group_kind == DEFINITION]
    trials.namespaces = {
        str(one["metadata"]["name"]): read_labels(one) for one in objects if one["kind"] == "Namespace"
    }
    trials.around = trials.around._replace(definitions=read_definitions(trials.definitions), lookup=find_among(objects))
    for one in (*read.documents, *read.selected):
        kind = gvk_of(one.object)
        mapping = map_kind(store, cluster="", kind=kind)
        plural = mapping.destinations[0].resource.resource if mapping.is_known else ""
        resource = find_resource(one.object, trials.rules, plural).resource
        document = one.object
        in_namespace = is_namespaced(store, cluster="", group=kind.group, resource=resource)
        if in_namespace and not document["metadata"].get("namespace"):
            metadata = {**document["metadata"], "namespace": namespace or "default"}
            document = {**document, "metadata": metadata}
        if not namespace or document["metadata"].get("namespace", namespace) == namespace:
            locate = _make_locator(one)
            trials.try_object(document, resource=resource, source=one.source, line=one.line, locate=locate)


def _generates_name(value: JSON) -> bool:
    """Return whether a document is an object without a name, such as a Job that a pipeline creates."""
    document, metadata = as_object(value), as_object(as_object(value).get("metadata"))
    return all(map(as_text, (document.get("apiVersion"), document.get("kind"), metadata.get("generateName"))))


def _make_locator(document: Document) -> Callable[[str], str]:
    lines = FieldLines()
    return lambda field: f"{document.source}:{lines.line(document, field)}" if field else document.place


async def _apply_to_cluster(trials: RuleTrials, target: KubeconfigContext, namespace: str, export: str | None) -> None:
    """Ask the rules about the objects of a cluster; raises UnreachableError."""
    rules, errors, done = trials.rules, trials.errors, 0
    prefix = EVERY_CLUSTER if export else ""

    async def read(resource: WatchedResource, within: str = "") -> AsyncIterator[JSONObject]:
        """Yield the objects of a resource; an error ends them, and is kept."""
        known = set(map(str, errors))  # A rule can follow the kind that it reviews.
        errors.extend(one for one in _list_unread(consumers, resource) if str(one) not in known)
        try:
            async for one in stream_objects(connection, resource, namespace=within, prefix=prefix):
                yield one
        except APIError as error:
            if error.code == NOT_FOUND:
                if export is None:
                    where = within and f" in {within}"
                    write_error(f"note: the cluster serves no {resource.name} in {resource.version}{where}")
                return  # A virtual workspace serves the claimed resources only: `_list_unread` has the errors.
            remedy = f": {describe_missing([resource], where=())}" if error.code == FORBIDDEN else ""
            errors.append(ManifestError(resource.name, 0, f"cannot be read: {error}{remedy}"))

    with show_progress() as show:
        async with target.connect(export=export) as connection:
            if export:
                await check_rights(connection)
                await find_urls(connection, export)
            bindings = [one async for one in stream_objects(connection, CONSUMERS, prefix=prefix)] if export else []
            consumers = [one for one, _ in judge_bindings(bindings, ())]
            if any(selects_by_labels(one.declaration) for one in rules):
                trials.namespaces = {str(one["metadata"]["name"]): read_labels(one) async for one in read(NAMESPACES)}
            stored = [one for each in list_followed(rules) async for one in read(each)]
            lookup, paths = find_among(stored), {one.cluster: one.path for one in consumers}
            async for resource in _list_resources(connection, rules, errors, prefix):
                async for document in read(resource, namespace):
                    done += 1
                    show(f"{done:,} objects, {resource.name}")
                    source = f"{resource.name} {document['metadata'].get('name')}"
                    workspace = paths.get(cluster_of(document), "")
                    trials.around = trials.around._replace(lookup=lookup._replace(workspace=workspace))
                    trials.try_object(document, resource=resource.plural, stored=True, source=source)


def _list_unread(consumers: Iterable[Consumer], resource: WatchedResource) -> Iterator[ManifestError]:
    """Yield an error for each workspace that does not let the command read all objects of a resource."""
    for consumer in consumers:
        if problem := describe_state(consumer, [(resource.group, resource.plural)], complete=True)[1]:
            yield ManifestError(consumer.name, 0, f"its {resource.plural} cannot be read: {problem}")


def list_followed(rules: Iterable[Rule]) -> list[WatchedResource]:
    """Return the resources that rules read from the store."""
    named = dict.fromkeys(follow for rule in rules for follow in rule.declaration.follows)
    return [
        WatchedResource(*parse_api_version(api_version), plural, kind, decode_object)
        for api_version, kind, plural in named
    ]


async def _list_resources(
    connection: "Connection", rules: Sequence[Rule], errors: list[ManifestError], prefix: str
) -> AsyncIterator[WatchedResource]:
    """Yield the resources that rules see, each once; those of wildcards as the cluster serves them."""
    created = [rule.declaration for rule in rules if "CREATE" in rule.declaration.operations]
    targets = [target for one in created if one.subresource in ("", EVERY) for target in list_targets(one)]
    named = dict.fromkeys(
        (target.group, target.version, target.resource, "not-control-plane" in target.conditions) for target in targets
    )
    yielded = set[tuple[str, str]]()
    for group, version, plural, spares in sorted(named):
        found = [(group, version, plural)]
        if EVERY in found[0]:
            found = [one async for one in _discover(connection, *found[0], errors, prefix)]
        for one in found:
            if (one[0], one[2]) not in yielded and not (spares and is_control_plane(one[0], one[2])):
                yielded.add((one[0], one[2]))
                yield WatchedResource(*one, "", decode_object)


async def _discover(
    connection: "Connection", group: str, version: str, plural: str, errors: list[ManifestError], prefix: str
) -> AsyncIterator[tuple[str, str, str]]:
    """Yield group, version and plural of the resources that a cluster lists."""
    groups = [("", "v1", ["v1"])]
    for one in list_objects(as_object(await connection.json("GET", f"{prefix}/apis")).get("groups")):
        versions = [as_text(each.get("version")) for each in list_objects(one.get("versions"))]
        preferred = as_text(as_object(one.get("preferredVersion")).get("version"))
        groups.append((as_text(one.get("name")), preferred, versions))
    for name, preferred, versions in groups:
        wanted = preferred if version == EVERY else version
        if group not in (EVERY, name) or wanted not in versions:
            continue
        path = prefix + api_path(name, wanted)
        try:
            served = as_object(await connection.json("GET", path))
        except APIError as error:  # The server of an aggregated API may be down.
            errors.append(ManifestError(path, 0, f"cannot be read: {error}"))
            continue
        for resource in list_objects(served.get("resources")):
            found = as_text(resource.get("name"))
            if plural in (EVERY, found) and "list" in list_texts(resource.get("verbs")) and "/" not in found:
                yield name, wanted, found
