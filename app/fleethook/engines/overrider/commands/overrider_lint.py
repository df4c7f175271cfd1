"""The findings about overriders and their subjects as rows of commands, also those of kube-apiserver."""

from collections.abc import Collection, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final

from fleethook.cli.inputs.objects_with_changes import SourceOptions
from fleethook.cli.output.findings_output import FindingRow
from fleethook.cli.output.text_output import write_error
from fleethook.cluster.manifests.yaml_decoding_and_lines import Document
from fleethook.cluster.store import ObjectKey, Store, key_of
from fleethook.engines.overrider.rules.finding import Finding
from fleethook.engines.overrider.rules.findings_in_files import ManifestFinding, check_documents, locate_findings
from fleethook.engines.overrider.rules.schema_and_binding_rules import pools_to_check
from fleethook.engines.overrider.subject.subject_and_pools import Subject, find_subject
from fleethook.model.json import JSONObject
from fleethook.model.openyurt import YURT_APP_OVERRIDER

if TYPE_CHECKING:
    from fleethook.engines.overrider.admission.server_dry_run import Trials

_MAX_OVERRIDERS: Final = 50
_MAX_WORKLOADS: Final = 20
"""Distinct workloads of one overrider."""
_SECONDS: Final = 30.0


def lint_overriders(documents: Sequence[Document], store: Store, options: SourceOptions | None) -> list[FindingRow]:
    """Return the findings about overriders and their subjects, as `fleethook.engine.Engine` describes."""
    rows = [make_overrider_row(finding) for finding in check_documents(documents, store)]
    if options is None or not options.reads_cluster:
        return rows
    return rows + check_on_server(options, documents, store, rows)


def make_overrider_row(one: ManifestFinding) -> FindingRow:
    """Return the row of a finding about an overrider or its subject."""
    key, finding = one.key, one.finding
    return FindingRow(
        level=one.level,
        code=finding.code,
        cluster=key.cluster,
        kind=key.group_kind.kind,
        namespace=key.namespace,
        name=key.name,
        webhook="",
        field=finding.field,
        text=finding.message,
        place=one.place,
    )


def check_on_server(
    options: SourceOptions,
    documents: Collection[Document],
    store: Store,
    rows: Sequence[FindingRow],
    *,
    changed: Collection[ObjectKey] | None = None,
) -> list[FindingRow]:
    """Return the mistakes that kube-apiserver finds in the workloads of overriders; none for files.

    Args:
        options: The source of the objects.
        documents: The objects to check.
        store: A store with all objects.
        rows: The findings so far. Overriders with an error are not sent.
        changed: The objects that a change affects, so that only their workloads are sent; None for all.
    """
    if not options.reads_cluster:
        return []
    # Imported here because commands about files start faster without asyncio.
    from fleethook.engines.overrider.admission.server_dry_run import select_trials  # noqa: PLC0415

    broken = {(row.kind, row.cluster, row.namespace, row.name) for row in rows if row.level == "error"}
    overriders = [one for one in documents if key_of(one.object).group_kind == YURT_APP_OVERRIDER]
    sent: list[tuple[Document, Subject, Trials]] = []
    for document in islice(overriders, _MAX_OVERRIDERS):
        key = key_of(document.object)
        subject = find_subject(document.object, cluster=key.cluster, namespace=key.namespace, store=store)
        if subject is None or (key.group_kind.kind, key.cluster, key.namespace, key.name) in broken:
            continue
        if changed is not None and not {key, key_of(subject.document)}.intersection(changed):
            continue
        pools = pools_to_check(subject, store, document.object)
        sent.append((document, subject, select_trials(document.object, subject, pools, limit=_MAX_WORKLOADS)))
    if len(overriders) > _MAX_OVERRIDERS:
        write_error(f"note: kube-apiserver checked {_MAX_OVERRIDERS} of {len(overriders)} overriders")
    found: list[tuple[Document, list[Finding]]] = []
    if sent:
        import asyncio  # noqa: PLC0415 - as above

        found = asyncio.run(_send_all(options, sent))
    # A user may list objects without the right to create workloads. That is no finding about an overrider.
    unchecked = dict.fromkeys(
        finding.text for _, findings in found for finding in findings if finding.code == "not-checked"
    )
    write_error(*(f"note: {text}" for text in unchecked))
    found = [
        (document, [finding for finding in findings if finding.code != "not-checked"]) for document, findings in found
    ]
    return [make_overrider_row(one) for document, findings in found for one in locate_findings(document, findings)]


async def _send_all(
    options: SourceOptions, sent: "Sequence[tuple[Document, Subject, Trials]]"
) -> list[tuple[Document, list[Finding]]]:
    from fleethook.cluster.api_errors import UnreachableError  # noqa: PLC0415 - see fleethook.cluster
    from fleethook.cluster.apiserver_connection import Connection  # noqa: PLC0415 - as above
    from fleethook.engines.overrider.admission.server_dry_run import ServerDryRun  # noqa: PLC0415 - as above

    async def send(cluster: str, path: str, workload: JSONObject) -> None:
        prefix = f"/clusters/{cluster}" if options.kcp and cluster else ""
        await connection.request("POST", prefix + path, query={"dryRun": "All"}, body=workload)

    dry_run = ServerDryRun(send, limit=_MAX_WORKLOADS, seconds=_SECONDS)
    try:
        async with Connection(options.kubeconfig, context=options.context) as connection:
            return [(document, await dry_run.check(trials, subject)) for document, subject, trials in sent]
    except UnreachableError as error:
        write_error(f"note: not checked by kube-apiserver: {error}")
        return []
