import asyncio
import json
import threading
from collections import Counter

import pytest

from fleethook.app import list_indexes
from fleethook.cluster.manifests.manifest_source import ManifestSource
from fleethook.cluster.store import Store
from fleethook.console import lint_watch
from fleethook.console.lint_watch import (
    FindingCount,
    LintWatch,
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
from tests.waiting import NET, until

WORKLOAD = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "w", "namespace": "default"}}


def test_the_counts_are_those_of_the_command() -> None:
    source = ManifestSource([EXAMPLES], Store(list_indexes()))
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


OVERRIDER = {
    "apiVersion": "apps.openyurt.io/v1alpha1",
    "kind": "YurtAppOverrider",
    "metadata": {"name": "o", "namespace": "default"},
    "subject": {"apiVersion": "apps.openyurt.io/v1alpha1", "kind": "YurtAppSet", "name": "missing"},
    "entries": [],
}


async def test_findings_are_computed_once_asked_for_and_again_after_a_change() -> None:
    context = make_context(yurt_app_set())
    watch = LintWatch(context)
    assert watch.find() == (None, False, "")
    await until(lambda: watch.find().is_current)
    assert watch.find().counts == ()
    context.store.put(OVERRIDER)
    state = watch.find()
    assert (state.counts, state.is_current) == ((), False)
    await until(lambda: watch.find().is_current)
    counts = watch.find().counts
    assert counts is not None
    assert [(one.level, one.code, one.kind, one.total) for one in counts] == [
        ("error", "unknown-subject", "YurtAppOverrider", 1)
    ]


async def test_a_change_of_a_workload_computes_nothing() -> None:
    context = make_context(yurt_app_set())
    watch = LintWatch(context)
    watch.find()
    await until(lambda: watch.find().is_current)
    context.store.put(WORKLOAD)
    assert watch.find().is_current


async def test_a_failure_is_named_and_not_repeated_without_a_change(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def fail(documents: object) -> None:
        calls.append(documents)
        raise ValueError("broken")

    monkeypatch.setattr(lint_watch, "count_findings", fail)
    watch = LintWatch(make_context())
    watch.find()
    await until(lambda: watch.find().is_current)
    assert watch.find() == (None, True, "ValueError: broken")
    assert len(calls) == 1


async def test_pages_need_not_wait_for_findings(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = threading.Event()
    monkeypatch.setattr(lint_watch, "count_findings", lambda _: ended.wait(NET) and [])
    context = make_context()
    watch = LintWatch(context)
    watch.find()
    await asyncio.sleep(0)
    assert await context.worker.run("", lambda: "answered") == "answered"
    assert not watch.find().is_current
    ended.set()
    await until(lambda: watch.find().is_current)
