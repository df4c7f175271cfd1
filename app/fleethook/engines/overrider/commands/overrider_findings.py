"""The findings about overriders and their subjects as rows of commands."""

from collections.abc import Sequence

from fleethook.cli.inputs.sources import SourceOptions
from fleethook.cli.output.findings_output import FindingRow
from fleethook.cluster.manifests.yaml_reader import Document
from fleethook.cluster.store import Store
from fleethook.engines.overrider.rollout.manifest_findings import ManifestFinding, check_documents


def lint_overriders(documents: Sequence[Document], store: Store, options: SourceOptions | None) -> list[FindingRow]:
    """Return the findings about overriders and their subjects, as `fleethook.engine.Engine` describes."""
    rows = [make_overrider_row(one) for one in check_documents(documents, store)]
    if options is None or not options.reads_cluster:
        return rows
    from fleethook.engines.overrider.commands.server_check import (  # noqa: PLC0415 - files need no connection
        check_on_server,
    )

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
