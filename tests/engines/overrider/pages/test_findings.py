import json
from pathlib import Path
from typing import Any

import pytest

from fleethook.app import list_indexes
from fleethook.cluster.manifests.manifest_source import ManifestSource
from fleethook.cluster.manifests.yaml_reader import Document
from fleethook.cluster.store import ObjectKey, Store
from fleethook.console.attention import AttentionLine
from fleethook.engines.overrider.pages.findings import (
    collect_documents,
    find_all,
    list_condition_lines,
    needs_attention,
    prepare_findings,
)
from fleethook.engines.overrider.rollout.manifest_findings import ManifestFinding
from fleethook.engines.overrider.rules.finding import Finding
from fleethook.model.openyurt import YURT_APP_OVERRIDER
from tests.builders import yurt_app_set
from tests.cli.commands import invoke
from tests.console.visits import make_context
from tests.serving import EXAMPLES

WORKLOAD = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "w", "namespace": "default"}}
KEY = ObjectKey("", YURT_APP_OVERRIDER, "default", "o")


def overrider(*entries: Any, **members: Any) -> dict[str, Any]:
    return {
        "apiVersion": "apps.openyurt.io/v1alpha1",
        "kind": "YurtAppOverrider",
        "metadata": {"name": "o", "namespace": "default"},
        "subject": {"apiVersion": "apps.openyurt.io/v1alpha1", "kind": "YurtAppSet", "name": "demo"},
        "entries": list(entries),
        **members,
    }


def finding(field: str = "", *, code: str = "invalid", level: Any = "error", key: ObjectKey = KEY) -> ManifestFinding:
    return ManifestFinding(level, Finding(code, field, "wrong"), key, "cluster", 0)


def test_the_findings_are_those_of_the_command() -> None:
    source = ManifestSource([EXAMPLES], Store(list_indexes()))
    source.load()
    rows = json.loads(invoke(["lint", "-f", str(EXAMPLES), "--output", "json"]).stdout)
    expected = [(row["level"], row["code"], row["place"]) for row in rows if row["kind"].startswith("Yurt")]
    found = prepare_findings(make_context(manifests=source))()
    assert expected
    assert sorted((one.level, one.finding.code, one.place) for one in found) == sorted(expected)


def test_workloads_are_not_checked(tmp_path: Path) -> None:
    assert [one.object["kind"] for one in collect_documents(make_context(yurt_app_set(), WORKLOAD))] == ["YurtAppSet"]
    (tmp_path / "a.yaml").write_text(json.dumps(WORKLOAD))
    source = ManifestSource([tmp_path], Store(list_indexes()))
    source.load()
    assert len(source.documents()) == 1
    assert collect_documents(make_context(manifests=source)) == []


def condition(kind: str, status: str, reason: str) -> dict[str, str]:
    time = "2026-01-01T12:00:00Z"
    return {"type": kind, "status": status, "reason": reason, "message": "m", "lastTransitionTime": time}


def test_conditions_that_need_attention_are_a_line_each() -> None:
    conditions = [
        condition("Bound", "True", "SubjectFound"),
        condition("Rendered", "Unknown", "WaitingForOwner"),
        condition("Conflict", "True", "OpenYurtInterferes"),
        condition("Other", "False", "Foreign"),
        None,
    ]
    found = list_condition_lines([(KEY, overrider(status={"conditions": conditions}))], lambda key: f"/{key.name}")
    about, since = "YurtAppOverrider default/o", "2026-01-01 12:00:00"
    assert found == [
        AttentionLine("waiting", about, "WaitingForOwner: m", "/o", since),
        AttentionLine("warning", about, "OpenYurtInterferes: m", "/o", since),
    ]


@pytest.mark.parametrize("status", [None, 1, {"conditions": "x"}, {"conditions": [1]}])
def test_a_status_of_another_shape_has_no_line(status: Any) -> None:
    assert list_condition_lines([(KEY, overrider(status=status))], lambda _: "/") == []


def test_a_part_of_an_overrider_that_changes_nothing_needs_no_attention() -> None:
    images = {"nginx": "nginx:1.0", "ngnix": "nginx:2.0"}
    items = [{"replicas": 2}, *({"image": {"containerName": a, "imageClaim": b}} for a, b in images.items())]
    patches = [{"operation": "replace", "path": "/spec/template/spec/containers/0/image", "value": "nginx:1.0"}]
    entries = [{"pools": ["*"], "items": items, "patches": patches}, {"pools": ["*"]}]
    documents = [yurt_app_set(), overrider(*entries)]
    found = find_all([Document(one, "a.yaml", 1) for one in documents])
    assert {one.finding.text.partition(": ")[0]: needs_attention(one.finding) for one in found} == {
        "entries[0].items[0]": False,
        "entries[0].items[1]": False,
        "entries[0].items[2]": True,
        "entries[0].patches[0]": False,
        "entries[1]": False,
    }
