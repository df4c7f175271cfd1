"""``fleethook convert``: v1alpha1 YurtAppSets and YurtAppDaemons with their overriders, as v1beta1 YurtAppSets."""

from collections.abc import Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final, NamedTuple

import typer

from app.cli.cluster import OPENYURT, WORKLOADS, read_cluster
from app.cli.conversion import (
    Places,
    Row,
    print_diff,
    print_json,
    print_report,
    print_yaml,
    row_of,
    row_of_orphan,
)
from app.cli.failures import CHECK_FAILED, fail
from app.cli.manifests import documents
from app.cli.options import OptionalFilesOption, StrictOption
from app.cli.report import count
from app.model.gvk import GroupKind
from app.model.json import JSONObject
from app.overrider.binding import OVERRIDERS_BY_SUBJECT
from app.overrider.convert.conversion import Converted, convert, find_unconverted_overriders, merge_remarks
from app.overrider.convert.remark import Remark
from app.overrider.manifest_kinds import check_kind
from app.overrider.orphans import find_orphans
from app.overrider.owner import SUBJECT_KINDS
from app.store import Store
from app.store.store import key_of
from app.store.yaml_reader import Document

_WORKLOAD_KINDS: Final[frozenset[GroupKind]] = frozenset(resource.group_kind for resource in WORKLOADS)


class Version(StrEnum):
    """The version to convert to."""

    V1BETA1 = "v1beta1"


class Output(StrEnum):
    """How the result is printed."""

    YAML = "yaml"
    JSON = "json"
    DIFF = "diff"


class _Input(NamedTuple):
    """What was read."""

    documents: list[JSONObject]
    """What to convert."""
    known: list[JSONObject]
    """All objects; a later one of the same name counts."""
    files: list[Document]
    """The objects of files."""


def convert_command(
    file: OptionalFilesOption = None,
    to: Annotated[Version, typer.Option(help="The version to convert to.")] = Version.V1BETA1,
    kubeconfig: Annotated[
        Path | None, typer.Option(help="Read overriders, subjects, NodePools and workloads from this cluster.")
    ] = None,
    context: Annotated[str | None, typer.Option(help="Context in the kubeconfig (default: its current one).")] = None,
    in_cluster: Annotated[
        bool, typer.Option("--in-cluster", help="Read them from the cluster that this runs in.")
    ] = False,
    strict: StrictOption = False,
    output: Annotated[Output, typer.Option("--output", "-o", help="How to print it.")] = Output.YAML,
) -> None:
    """Convert v1alpha1 YurtAppSets and YurtAppDaemons with their overriders to v1beta1 YurtAppSets with tweaks.

    Prints the converted YurtAppSets, in the order of their subjects, and no other object. Give the NodePools, too: they
    tell the pools of a YurtAppDaemon, and a YurtAppSet v1beta1 has workloads in existing NodePools only.

    Every node pool's workload is rendered before and after the conversion. The report goes to standard error, with file
    and line. Errors are losses: differences by node pool, path and entry. Warnings are about later changes, such as new
    node pools. Notes say which form an entry has now. `--output diff` shows the differences by node pool.

    With a cluster, -f may be left out, and Deployments and StatefulSets that an upgrade of OpenYurt orphaned are
    reported. Exit codes: 0 converted without loss; 1 with losses; 2 invalid arguments or unreadable input.
    """
    del to  # There is one version to convert to.
    given = _read(file or [], kubeconfig=kubeconfig, context=context, in_cluster=in_cluster)
    store = Store([OVERRIDERS_BY_SUBJECT])
    for document in given.known:
        store.put(document)
    converted = list(convert(given.documents, store))
    rows = [*_report(given, converted, store)]
    _print(output, converted, rows)
    if not converted and not rows:
        fail("nothing to convert: no YurtAppSet or YurtAppDaemon of v1alpha1 in the input")
    if any(row.level == "error" or (strict and row.level == "warning") for row in rows):
        fail(count(rows), code=CHECK_FAILED)


def _read(paths: Sequence[Path], *, kubeconfig: Path | None, context: str | None, in_cluster: bool) -> _Input:
    if kubeconfig is not None and in_cluster:
        fail("--kubeconfig and --in-cluster exclude each other")
    if context is not None and kubeconfig is None:
        fail("--context needs --kubeconfig")
    of_cluster: list[JSONObject] = []
    if kubeconfig is not None or in_cluster:
        of_cluster = read_cluster([*OPENYURT, *WORKLOADS], kubeconfig=kubeconfig, context=context)
    elif not paths:
        fail("nothing to convert: give -f FILE, --kubeconfig FILE or --in-cluster")
    files = documents(paths)
    own = [one.object for one in files]
    return _Input(own or of_cluster, [*of_cluster, *own], files)


def _report(given: _Input, converted: Sequence[Converted], store: Store) -> Iterator[Row]:
    places = Places(given.files, [key_of(one.object) for one in given.files])
    yield from _misspelled(given.files, places)
    remarks = [remark for one in converted for remark in one.remarks]
    remarks += find_unconverted_overriders(given.documents, store)
    yield from (row_of(remark, places) for remark in merge_remarks(remarks))
    workloads = [one for one in given.known if key_of(one).group_kind in _WORKLOAD_KINDS]
    if any(key_of(one).group_kind in SUBJECT_KINDS for one in given.known):
        yield from map(row_of_orphan, find_orphans(workloads, store))


def _misspelled(files: Sequence[Document], places: Places) -> Iterator[Row]:
    for one in files:
        finding, key = check_kind(one.object), key_of(one.object)
        if finding is not None:
            remark = Remark("error", finding.code, key, finding.field, finding.message)
            yield row_of(remark, places)


def _print(output: Output, converted: Sequence[Converted], rows: Sequence[Row]) -> None:
    if output is Output.JSON:
        print_json(converted, rows)
        return
    if output is Output.DIFF:
        print_diff(converted)
    else:
        print_yaml(converted)
    print_report(rows)
