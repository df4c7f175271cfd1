import logging

import pytest

from fleethook.cluster.manifests.yaml_reader import Document
from fleethook.engines.overrider.preview.manifest_report import ManifestReport
from tests.builders import entry, image, overrider, store_of, yurt_app_set

TYPO = overrider(entry("hangzou", items=[image("nginx", "nginx:2")]))
FIXED = overrider(entry("hangzhou", items=[image("nginx", "nginx:2")]))
TEXT = "entries[0].pools[0]: YurtAppSet demo has no node pool 'hangzou'; did you mean 'hangzhou'?"


async def test_each_finding_is_logged_once_and_shown_until_it_is_corrected(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    report = ManifestReport(store_of(yurt_app_set(), TYPO))
    documents = [Document(yurt_app_set(), "set.yaml", 1), Document(TYPO, "rule.yaml", 3)]
    await report.refresh(documents)
    assert [(record.levelname, record.message) for record in caplog.records] == [
        ("ERROR", f"rule.yaml:3: YurtAppOverrider default/demo1: {TEXT}"),
        (
            "WARNING",
            "rule.yaml:3: YurtAppOverrider default/demo1: entries[0]: applies to none of the node pools of YurtAppSet demo",
        ),
    ]
    assert f"rule.yaml:3: error: YurtAppOverrider default/demo1: {TEXT}; rule.yaml:3: warning: " in report.detail()
    caplog.clear()
    # A comment above moves the finding to another line, but the finding is not new.
    await report.refresh([documents[0], documents[1]._replace(line=9)])
    assert caplog.records == []
    assert "rule.yaml:9: error: " in report.detail()
    fixed = ManifestReport(store_of(yurt_app_set(), FIXED))
    fixed.findings = report.findings
    await fixed.refresh([documents[0], Document(FIXED, "rule.yaml", 9)])
    assert (fixed.detail(), fixed.findings) == ("", [])


async def test_the_detail_shows_the_first_findings_and_counts_the_others() -> None:
    rule = overrider(*[entry(f"p{number}", items=[image("nginx", "nginx:2")]) for number in range(30)])
    report = ManifestReport(store_of(yurt_app_set(), rule))
    await report.refresh([Document(yurt_app_set(), "set.yaml", 1), Document(rule, "rule.yaml", 3)])
    assert report.detail().endswith("; and 40 more")
    assert report.detail().count("rule.yaml:3: ") == 20
