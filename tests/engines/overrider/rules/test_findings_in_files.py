"""Tests of findings in files: levels, places and duplicates. test_mistakes.py has further ones."""

import logging

import pytest

from fleethook.cluster.manifests.manifest_files import read_documents
from fleethook.cluster.manifests.yaml_decoding_and_lines import Document
from fleethook.engines.overrider.rules.findings_in_files import ManifestFinding, ManifestReport, check_documents
from tests.builders import entry, image, overrider, store_of, yurt_app_set

SET = """
apiVersion: apps.openyurt.io/v1alpha1
kind: YurtAppSet
metadata: {name: demo, namespace: default}
spec:
  selector: {matchLabels: {app: demo}}
  workloadTemplate:
    deploymentTemplate:
      spec: {template: {metadata: {labels: {app: demo}}, spec: {containers: [{name: nginx, image: "nginx:1"}]}}}
  topology:
    pools: [{name: hangzhou}]
"""
RULE = """
apiVersion: apps.openyurt.io/v1alpha1
kind: YurtAppOverrider
metadata: {name: demo1, namespace: default}
subject:
  kind: YurtAppSet
  name: demo
entries:
- pools: [hangzhou, beijing]
  items:
  - replicas: 3
"""


def check(*texts: str) -> list[ManifestFinding]:
    documents = [
        document for number, text in enumerate(texts) for document in read_documents(text, source=f"{number}.yaml")
    ]
    return check_documents(documents, store_of(*(document.object for document in documents)))


def test_a_name_that_the_files_contradict_is_an_error_at_its_line() -> None:
    (finding,) = check(SET, RULE)
    assert (finding.level, finding.finding.level, finding.place) == ("error", "warning", "1.yaml:9")
    assert finding.text == (
        "YurtAppOverrider default/demo1: entries[0].pools[1]: YurtAppSet demo has no node pool 'beijing'"
    )


@pytest.mark.parametrize(("texts", "level"), [((RULE,), "warning"), ((RULE, SET.replace("demo,", "other,")), "error")])
def test_a_missing_subject_is_an_error_only_beside_other_subjects(texts: tuple[str, ...], level: str) -> None:
    (finding,) = check(*texts)
    assert (finding.level, finding.finding.code) == (level, "unknown-subject")


def test_fields_that_the_api_of_a_subject_lacks_are_errors() -> None:
    written = SET.replace("pools: [{name: hangzhou}]", "pool: []\n    pools: [{name: hangzhou, Patch: {}}]")
    assert [(one.level, one.place, one.finding.text) for one in check(written)] == [
        ("error", "0.yaml:11", "spec.topology.pool: is not a field of topology; did you mean pools?"),
        ("error", "0.yaml:12", "spec.topology.pools[0].Patch: is not a field of pools; did you mean patch?"),
    ]


def test_rules_do_not_check_an_object_of_an_unknown_version() -> None:
    unknown = SET.replace("v1alpha1", "v2").replace("[{name: hangzhou}]", "[]")
    assert [one.finding.field for one in check(unknown)] == ["apiVersion"]


def test_an_object_that_is_defined_twice_names_the_first_place() -> None:
    (finding,) = check(SET, SET.replace("nginx:1", "nginx:2"))
    assert (finding.finding.code, finding.place) == ("duplicate", "1.yaml:4")
    assert finding.finding.message == "is already defined at 0.yaml:2; remove one of them"


def test_an_object_in_two_versions_names_the_other_version() -> None:
    beta = """
apiVersion: apps.openyurt.io/v1beta1
kind: YurtAppSet
metadata: {name: demo, namespace: default}
spec: {pools: [hangzhou], workload: {workloadTemplate: {deploymentTemplate: {spec: {}}}}}
"""
    found = [one.finding.message for one in check(SET, beta) if one.finding.code == "duplicate"]
    assert len(found) == 1
    assert "0.yaml:2 as apps.openyurt.io/v1alpha1, which is the same object as in apps.openyurt.io/v1beta1" in found[0]


def test_findings_of_an_object_are_in_the_order_of_lines() -> None:
    broken = SET.replace("pools: [{name: hangzhou}]", "pools: [{nam: hangzhou}]").replace(
        "metadata:", "status_: {}\nmetadata:", 1
    )
    found = check(broken)
    assert [one.finding.field for one in found] == [
        "status_",
        "spec.topology.pools[0].nam",
        "spec.topology.pools[0].name",
    ]
    assert [one.line for one in found] == sorted(one.line for one in found)


def test_objects_outside_a_namespace_and_of_a_logical_cluster_are_named() -> None:
    (finding,) = check(RULE.replace(", namespace: default", ", annotations: {kcp.io/cluster: c1}"))
    assert finding.text.startswith("YurtAppOverrider demo1 of c1: subject.name: ")


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
    assert [(one.place, one.level) for one in report.findings] == [("rule.yaml:3", "error"), ("rule.yaml:3", "warning")]
    assert report.findings[0].text == f"YurtAppOverrider default/demo1: {TEXT}"
    caplog.clear()
    # A comment above moves the finding to another line, but the finding is not new.
    await report.refresh([documents[0], documents[1]._replace(line=9)])
    assert caplog.records == []
    assert report.findings[0].place == "rule.yaml:9"
    fixed = ManifestReport(store_of(yurt_app_set(), FIXED))
    fixed.findings = report.findings
    await fixed.refresh([documents[0], Document(FIXED, "rule.yaml", 9)])
    assert fixed.findings == []
