from typing import Any

from fleethook.cli.output.findings_output import FindingRow
from fleethook.cluster.manifests.yaml_decoding_and_lines import Document
from fleethook.engines.dispatch.commands.webhook_finding_rows import lint_webhooks
from tests.builders import overrider
from tests.engines.dispatch.builders import configuration, store_of, webhook


def lint(document: dict[str, Any]) -> list[FindingRow]:
    return lint_webhooks([Document(document, "f.yaml", 7)], store_of(document), None)


def test_a_row_names_the_webhook_of_a_configuration() -> None:
    document = configuration("c", "validating", webhook(rules=[]))

    (row,) = [one for one in lint(document) if one.code == "never-called"]

    name, (called,) = document["metadata"]["name"], document["webhooks"]
    assert row == FindingRow(
        level="error", code="never-called", cluster="c", kind="ValidatingWebhookConfiguration", namespace="", name=name,
        webhook=called["name"], field="", text=row.text, place="f.yaml:7",
    )  # fmt: skip


def test_other_objects_have_no_findings() -> None:
    assert lint(overrider()) == []
