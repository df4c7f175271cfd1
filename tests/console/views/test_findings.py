import json
from collections import Counter

from fleethook.app import INDEXES
from fleethook.cluster.manifests.manifest_source import ManifestSource
from fleethook.cluster.store import Store
from fleethook.console.views.findings import (
    FindingCount,
    collect_documents,
    count_findings,
    select_checked,
    select_kinds,
)
from fleethook.model.openyurt import YURT_APP_OVERRIDER, YURT_APP_SET
from tests.builders import yurt_app_set
from tests.cli.commands import run_command
from tests.console.visits import make_context
from tests.serving import EXAMPLES

WORKLOAD = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "w", "namespace": "default"}}


def test_the_counts_are_those_of_the_command() -> None:
    source = ManifestSource([EXAMPLES], Store(INDEXES))
    source.load()
    rows = json.loads(run_command("lint", "-f", str(EXAMPLES), "--output", "json").stdout)
    expected = Counter((row["level"], row["code"], row["kind"]) for row in rows)
    assert expected
    assert count_findings(select_checked(source.documents())) == [
        FindingCount(*key, total) for key, total in sorted(expected.items())
    ]


def test_workloads_are_not_checked() -> None:
    store = make_context(yurt_app_set(), WORKLOAD).store
    assert [one.object["kind"] for one in collect_documents(store)] == ["YurtAppSet"]
    source = list(collect_documents(store))
    extra = source[0]._replace(object=WORKLOAD)
    assert select_checked([*source, extra]) == source


def test_only_findings_about_the_given_kinds_are_selected() -> None:
    counts = [FindingCount("error", "a", "YurtAppSet", 1), FindingCount("error", "b", "YurtAppOverrider", 2)]
    assert select_kinds(counts, [YURT_APP_OVERRIDER]) == counts[1:]
    assert select_kinds(counts, [YURT_APP_SET, YURT_APP_OVERRIDER]) == counts
    assert select_kinds(counts, []) == []
