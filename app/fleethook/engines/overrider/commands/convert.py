"""``fleethook convert``: convert v1alpha1 subjects with their overriders to v1beta1 YurtAppSets."""

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Annotated, Final, NamedTuple

from fleethook.cli.exit_codes import CHECK_FAILED, fail
from fleethook.cli.inputs.cluster_reader import read_cluster
from fleethook.cli.inputs.manifests import read_objects
from fleethook.cli.inputs.sources import ClusterOptions, select_namespace
from fleethook.cli.inputs.what_if import parse_name
from fleethook.cli.options import (
    ContextOption,
    FilenameOption,
    FilesArgument,
    InClusterOption,
    InputOptions,
    KubeconfigOption,
    NamespaceOption,
    SubjectOption,
)
from fleethook.cli.output.findings_output import ObjectRow, count_levels, describe_object, report_input_errors
from fleethook.cli.output.text_output import (
    Styled,
    concatenate,
    styled,
    write,
    write_document,
    write_error,
    write_json,
    write_styled,
)
from fleethook.cli.parameters import Option
from fleethook.cluster.kubernetes.resources import RESOURCES, WORKLOADS
from fleethook.cluster.manifests.kubectl_values import NoAliasDumper, yaml_text
from fleethook.cluster.manifests.yaml_reader import Document, FieldLines
from fleethook.cluster.store import ObjectKey, Store, key_of
from fleethook.engines.overrider.convert.conversion import (
    Converted,
    convert,
    find_unconverted_overriders,
    merge_remarks,
)
from fleethook.engines.overrider.convert.remarks import Remark
from fleethook.engines.overrider.rollout.manifest_findings import check_kind
from fleethook.engines.overrider.subject.owner_index import OVERRIDERS_BY_SUBJECT
from fleethook.engines.overrider.subject.unreached_workloads import Orphan, find_orphans
from fleethook.model.gvk import GroupKind
from fleethook.model.json import JSON, JSONObject
from fleethook.model.openyurt import SUBJECT_KINDS

_MAX_POOLS: Final = 5  # that a line of the report names


class Row(ObjectRow, frozen=True):
    """One line of the report, as ``--output json`` prints it. Errors are losses; notes name the new form of an entry.

    Attributes:
        field: Path of the field in the object, ``""`` for the object itself.
        pools: Node pools concerned, empty for all.
        path: JSON pointer of the difference in the workloads, ``""`` if there is none.
        text: The message.
        place: ``FILE:LINE``, ``""`` for an object of a cluster.
    """

    field: str
    pools: tuple[str, ...]
    path: str
    text: str
    place: str


class Places:
    """Files and lines of objects."""

    def __init__(self, documents: Sequence[Document], keys: Sequence[ObjectKey]) -> None:
        """Prepare.

        Args:
            documents: Objects of files.
            keys: The key of each document, in the same order.
        """
        self._documents = dict(zip(keys, documents, strict=True))
        self._lines = FieldLines()

    def find(self, key: ObjectKey, field: str) -> str:
        """Return ``FILE:LINE`` of a field, ``""`` for an object of a cluster."""
        document = self._documents.get(key)
        return "" if document is None else f"{document.source}:{self._lines.line(document, field)}"


def make_row(remark: Remark, places: Places) -> Row:
    """Return the row of a remark."""
    key = remark.key
    place = places.find(key, remark.field)
    return Row(
        remark.level,
        remark.code,
        key.cluster,
        key.group_kind.kind,
        key.namespace,
        key.name,
        remark.field,
        remark.pools,
        remark.path,
        remark.text,
        place,
    )


def make_orphan_row(orphan: Orphan) -> Row:
    """Return the row of a workload without a subject."""
    key = orphan.key
    rendered = ", and it still has the changes of an overrider" if orphan.rendered else ""
    text = f"{orphan.reason}{rendered}; delete it when the workload that replaces it is ready"
    return Row(
        "warning",
        "orphan",
        key.cluster,
        key.group_kind.kind,
        key.namespace,
        key.name,
        "",
        (orphan.pool,),
        "",
        text,
        "",
    )


def print_report(rows: Sequence[Row]) -> None:
    """Write the report to standard error, one line each."""
    for row in rows:
        write_error(f"{row.place or 'cluster'}: {row.level}: {_describe(row)}")


def _describe(row: Row) -> str:
    field = f"{row.field}: " if row.field else ""
    return f"{describe_object(row)}: {field}{_list_pools(row.pools)}{row.text}"


def _list_pools(names: Sequence[str]) -> str:
    if not names:
        return ""
    more = f" and {len(names) - _MAX_POOLS} more" if len(names) > _MAX_POOLS else ""
    return f"node pool{'s' if len(names) > 1 else ''} {', '.join(names[:_MAX_POOLS])}{more}: "


def _dump(value: JSON) -> str:
    """Return a value as YAML."""
    return yaml_text(value, dumper=NoAliasDumper)


def print_yaml(converted: Sequence[Converted]) -> None:
    """Write the converted objects to standard output, one document each."""
    for one in converted:
        if one.document is not None:
            write("---", f"# Converted from {_title(one)}.")
            write_document(_dump(one.document))


def print_json(converted: Sequence[Converted], rows: Sequence[Row]) -> None:
    """Write the converted objects and the report to standard output, as one JSON object."""
    objects = [one.document for one in converted if one.document is not None]
    write_json({"objects": objects, "report": rows})


def print_diff(converted: Sequence[Converted]) -> None:
    """Write the differences between the workloads before and after to standard output, by node pool."""
    for one in converted:
        for pool in one.pools:
            write_styled(styled(f"{_title(one)}, node pool {pool}", "bold"))
            remarks = [remark for remark in one.remarks if remark.path and pool in (remark.pools or one.pools)]
            if not remarks:
                write_styled(styled("  as before", "dim"))
            for line in _format_differences(remarks):
                write_styled(line)


def _format_differences(remarks: Sequence[Remark]) -> Iterator[Styled]:
    for remark in remarks:
        yield concatenate(styled(f"  {remark.path}"), styled(f"  # {remark.field}: {remark.text}", "cyan"))
        for sign, style, value in (("-", "red", remark.before), ("+", "green", remark.after)):
            if value is not None:
                text = _dump(value).removesuffix("...\n").rstrip("\n")
                yield styled("\n".join(f"    {sign} {line}" for line in text.split("\n")), style, keep="\n")


def _title(one: Converted) -> str:
    name = f"{one.key.namespace}/{one.key.name}" if one.key.namespace else one.key.name
    return f"{one.key.group_kind.kind} {name}{f' of {one.key.cluster}' if one.key.cluster else ''}"


_WORKLOAD_KINDS: Final[frozenset[GroupKind]] = frozenset(resource.group_kind for resource in WORKLOADS)


class Version(StrEnum):
    """Versions to convert to."""

    V1BETA1 = "v1beta1"


class Output(StrEnum):
    """Output formats of the command."""

    YAML = "yaml"
    JSON = "json"
    DIFF = "diff"


class _Input(NamedTuple):
    """The objects of files and of the cluster.

    Attributes:
        documents: Objects to convert.
        known: All objects. Of two with the same key, the later one counts.
        files: Objects of files, with their lines.
    """

    documents: list[JSONObject]
    known: list[JSONObject]
    files: list[Document]


def convert_command(
    files: FilesArgument = None,
    filename: FilenameOption = None,
    to: Annotated[Version, Option(help="Version to convert to.")] = Version.V1BETA1,
    namespace: NamespaceOption = "",
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    in_cluster: InClusterOption = False,
    subject: SubjectOption = None,
    reading: InputOptions = InputOptions(),
    output: Annotated[Output, Option("--output", "-o", help="Output format.")] = Output.YAML,
) -> None:
    """Convert v1alpha1 YurtAppSets and YurtAppDaemons with their overriders to v1beta1 YurtAppSets with tweaks.

    Prints the converted YurtAppSets in the order of their subjects, and no other object. Give the NodePools, too: they
    determine the pools of a YurtAppDaemon, and a v1beta1 YurtAppSet has workloads only in existing NodePools.

    The workload of every node pool is rendered before and after the conversion. The report goes to standard error, with
    file and line. Errors are losses: differences by node pool, path and entry. Warnings concern later changes, such as
    new node pools. Notes name the new form of an entry. `--output diff` shows the differences by node pool.

    With a cluster, overriders, subjects, NodePools and workloads are read, and -f is optional. The report then includes
    Deployments and StatefulSets that an upgrade of OpenYurt orphaned.

    Exit codes: 0 converted without loss; 1 converted with losses; 2 invalid arguments or unreadable input.
    """
    del to  # Only one version exists.
    live = ClusterOptions(namespace, kubeconfig, context, in_cluster)
    paths = [*(files or ()), *(filename or ())]
    name = None if subject is None else parse_name(subject, option="--subject")
    with report_input_errors(output):
        documents = read_objects(paths, reading) if paths else None
    given = _read_input(documents, live)
    if name is not None:
        given = given._replace(documents=[one for one in given.documents if name.matches(key_of(one))])
    store = Store([OVERRIDERS_BY_SUBJECT])
    for document in given.known:
        store.put(document)
    converted = list(convert(given.documents, store))
    rows = [*_make_report(given, converted, store)]
    _print(output, converted, rows)
    if not converted and not rows:
        fail(f"nothing to convert: the input has no v1alpha1 {subject or 'YurtAppSet or YurtAppDaemon'}")
    if any(row.level == "error" or (reading.strict and row.level == "warning") for row in rows):
        fail(count_levels(rows), code=CHECK_FAILED)


def _read_input(documents: Sequence[Document] | None, live: ClusterOptions) -> _Input:
    """Return the objects of files, of a cluster, or of both. With both, only those of the files are converted."""
    of_cluster: list[Document] = []
    files = select_namespace(documents or (), live.namespace)
    if documents is None or live.kubeconfig is not None or live.context is not None or live.in_cluster:
        options = live.beside()
        of_cluster = read_cluster([*RESOURCES, *WORKLOADS], options.kubeconfig, context=options.context).documents
    known = [one.object for one in (*select_namespace(of_cluster, live.namespace), *files)]
    return _Input([one.object for one in files] or known, known, files)


def _make_report(given: _Input, converted: Sequence[Converted], store: Store) -> Iterator[Row]:
    places = Places(given.files, [key_of(one.object) for one in given.files])
    yield from _find_unknown_kinds(given.files, places)
    remarks = [remark for one in converted for remark in one.remarks]
    remarks += find_unconverted_overriders(given.documents, store)
    yield from (make_row(remark, places) for remark in merge_remarks(remarks))
    workloads = [one for one in given.known if key_of(one).group_kind in _WORKLOAD_KINDS]
    if any(key_of(one).group_kind in SUBJECT_KINDS for one in given.known):
        yield from map(make_orphan_row, find_orphans(workloads, store))


def _find_unknown_kinds(files: Sequence[Document], places: Places) -> Iterator[Row]:
    for one in files:
        finding, key = check_kind(one.object), key_of(one.object)
        if finding is not None:
            remark = Remark("error", finding.code, key, finding.field, finding.message)
            yield make_row(remark, places)


def _print(output: Output, converted: Sequence[Converted], rows: Sequence[Row]) -> None:
    if output is Output.JSON:
        print_json(converted, rows)
        return
    if output is Output.DIFF:
        print_diff(converted)
    else:
        print_yaml(converted)
    print_report(rows)
