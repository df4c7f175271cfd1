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
from fleethook.cli.output.ci_output import report_input_errors
from fleethook.cli.output.findings_output import count_levels
from fleethook.cli.parameters import Option
from fleethook.cluster.kubernetes.resources import RESOURCES, WORKLOADS
from fleethook.cluster.manifests.yaml_reader import Document
from fleethook.cluster.store import Store
from fleethook.cluster.store.store import key_of
from fleethook.engines.overrider.commands.convert_output import (
    Places,
    Row,
    make_orphan_row,
    make_row,
    print_diff,
    print_json,
    print_report,
    print_yaml,
)
from fleethook.engines.overrider.convert.conversion import (
    Converted,
    convert,
    find_unconverted_overriders,
    merge_remarks,
)
from fleethook.engines.overrider.convert.remarks import Remark
from fleethook.engines.overrider.rollout.manifest_findings import check_kind
from fleethook.engines.overrider.subject.binding import OVERRIDERS_BY_SUBJECT
from fleethook.engines.overrider.subject.unreached_workloads import find_orphans
from fleethook.model.gvk import GroupKind
from fleethook.model.json import JSONObject
from fleethook.model.openyurt import SUBJECT_KINDS

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
    """Return the objects of files, of a cluster, or of both: the cluster then tells about other objects."""
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
