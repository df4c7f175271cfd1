"""The findings about webhook configurations and APIBindings as rows of commands."""

from collections.abc import Sequence
from typing import Final

from fleethook.cli.inputs.objects_with_changes import SourceOptions, select_dispatching
from fleethook.cli.output.findings_output import FindingRow
from fleethook.cluster.manifests.yaml_decoding_and_lines import Document
from fleethook.cluster.store import Store, key_of

_LINTED: Final = frozenset(resource.group_kind for resource in select_dispatching(kcp=True))
"""Kinds without which there are no findings about webhooks."""


def lint_webhooks(documents: Sequence[Document], store: Store, _options: SourceOptions | None) -> list[FindingRow]:
    """Return the findings about webhooks and APIBindings, as `fleethook.engine.Engine` describes."""
    if not any(key_of(document.object).group_kind in _LINTED for document in documents):
        return []
    from fleethook.engines.dispatch.lint.rule_and_binding_checks import lint  # noqa: PLC0415 - it needs CEL, and overriders do not

    return [
        FindingRow(
            level=finding.level,
            code=finding.code,
            cluster=finding.cluster,
            kind=finding.kind,
            namespace="",
            name=finding.configuration,
            webhook=finding.webhook,
            field="",
            text=finding.text,
            place=finding.place,
        )
        for finding in lint(store, places={key_of(document.object): document.place for document in documents})
    ]
