import asyncio
import re
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from fleethook.cluster.manifests.reloaded_manifests import ManifestSource
from fleethook.cluster.partial_and_stale_objects import PartState
from fleethook.console.attention_lines import (
    MAX_OBJECTS,
    Attention,
    AttentionLine,
    FirstSeen,
    LintFinding,
    join_attention,
    list_object_lines,
    list_review_lines,
    list_source_lines,
)
from fleethook.console.reviews.review_index import ReviewSummary
from tests.builders import entry, overrider, patch, yurt_app_set
from tests.console.pages.reading import HOSTILE, Page, get
from tests.console.visits import console_of, make_context, visit
from tests.waiting import NET

NOW = datetime(2026, 1, 1, 12, 30, 20, tzinfo=UTC)


def configuration(webhooks: Any, name: str = "c", kind: str = "ValidatingWebhookConfiguration") -> dict[str, Any]:
    version = "admissionregistration.k8s.io/v1"
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, "webhooks": webhooks}


def line(severity: Any = "error", about: str = "a", *, reason: str = "r", since: str = "") -> AttentionLine:
    return AttentionLine(severity, about, reason, f"/{about}", since)


def test_the_worst_lines_of_all_parts_are_first() -> None:
    found = join_attention(
        [
            Attention([line("warning", "a"), line("waiting", "b")]),
            Attention([line("error", "d"), line("error", "c"), line("failing", "e")]),
        ]
    )
    assert [(one.severity, one.about) for one in found.lines] == [
        ("failing", "e"), ("error", "c"), ("error", "d"), ("waiting", "b"), ("warning", "a"),
    ]  # fmt: skip


def test_a_line_without_a_time_has_that_of_the_first_visit() -> None:
    seen = FirstSeen()
    seen.fill([line()], NOW)
    later = seen.fill([line(reason="other"), line(about="b"), line(since="x")], NOW + timedelta(hours=1))
    assert [one.since for one in later] == ["first seen 2026-01-01 12:30:20", "first seen 2026-01-01 13:30:20", "x"]


def test_only_failing_parts_of_a_source_have_a_line() -> None:
    parts = [
        PartState("manifests", synced=True, detail="bad.yaml: line 1", age=5.0, failing=True),
        PartState("pods", synced=True, detail="", age=1.0, failing=False),
        PartState("crds", synced=False, detail="", age=None, failing=False),
    ]
    assert list_source_lines(parts) == [
        AttentionLine(
            "failing",
            "Source manifests",
            "it cannot be read, so pages show old objects: bad.yaml: line 1",
            "/#sources",
        )
    ]


def review(verdict: str, time: str, *, route: str = "/r", kind: str = "Deployment", name: str = "w") -> ReviewSummary:
    return ReviewSummary(0, 1, time, route, "", "apps", kind, "ns", name, "UPDATE", verdict, 0.1, "u")


REVIEWS = (
    review("failed", "2026-01-01T12:05:00Z", name="last"),
    review("failed", "2026-01-01T12:01:00Z", name="first"),
    review("denied", "2026-01-01T12:01:00Z"),
    review("refused", "2026-01-01T12:02:00Z", route="/s", kind="Secret", name=""),
)


def test_reviews_without_a_decision_have_a_line_for_each_route_and_verdict() -> None:
    assert list_review_lines(REVIEWS) == [
        AttentionLine(
            "failing",
            "Reviews of /r",
            "2 recorded reviews failed; the last one was UPDATE of Deployment last",
            "/reviews?verdict=failed",
            "2026-01-01 12:01:00",
        ),
        AttentionLine(
            "failing",
            "Reviews of /s",
            "1 recorded review refused; the last one was UPDATE of Secret",
            "/reviews?verdict=refused",
            "2026-01-01 12:02:00",
        ),
    ]


def found(level: str, about: str, text: str, code: str = "c") -> LintFinding:
    return LintFinding(level, code, "O", about, text, f"/{about}/{code}")


def list_lines(*findings: LintFinding) -> list[AttentionLine]:
    return list_object_lines(findings)


def test_findings_about_one_object_are_one_line_with_the_worst_one() -> None:
    assert list_lines(
        found("warning", "a", "three"),
        found("error", "a", "one"),
        found("error", "a", "two"),
        found("error", "b", "four"),
        found("warning", "c", "five"),
        found("warning", "c", "six"),
        found("warning", "c", "seven", "d"),
    ) == [
        AttentionLine("error", "a", "one (and 1 more error, 1 warning)", "/a/c"),
        AttentionLine("error", "b", "four", "/b/c"),
        AttentionLine("warning", "c", "five (and 2 more warnings)", "/c/c"),
    ]


def test_a_warning_that_many_objects_have_is_one_line() -> None:
    names = [str(number) for number in range(MAX_OBJECTS + 1)]
    repeated = [found("warning", name, f"text {name}") for name in names]
    other = found("warning", "3", "other")
    few = found("error", "4", "wrong")
    assert list_lines(*repeated, other, few) == [
        AttentionLine("error", "4", "wrong", "/4/c"),
        AttentionLine("warning", "3", "other", "/3/c"),
        AttentionLine("warning", "6 Os", "text 0 (and 5 more warnings like it)", "/0/c"),
    ]
    assert len(list_lines(*repeated[1:])) == MAX_OBJECTS


REGISTERED = {
    "admissionReviewVersions": ["v1"],
    "sideEffects": "None",
    "clientConfig": {"url": "https://hooks.example.org"},
}
RULE = {"operations": ["CREATE"], "apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["deployments"]}
UNREADABLE = {"url": "https://hooks.example.org", "caBundle": "%%"}
FAULTS = (
    yurt_app_set(),
    overrider(entry("*", patches=[patch("remove", "/spec/template/spec/volumes/7")]), name="broken"),
    configuration([{**REGISTERED, "name": "never.example.org", "rules": []}], name="never"),
    configuration([{**REGISTERED, "name": "ca.example.org", "rules": [RULE], "clientConfig": UNREADABLE}], name="ca"),
    {
        "apiVersion": "operator.karmada.io/v1alpha1",
        "kind": "Karmada",
        "metadata": {"name": "instance", "namespace": "default"},
        "status": {
            "conditions": [
                {"type": "Ready", "status": "False", "message": "no tarball", "lastTransitionTime": "2026-01-01T00:00:00Z"}
            ]
        },
    },
    {
        "apiVersion": "config.karmada.io/v1alpha1",
        "kind": "ResourceInterpreterCustomization",
        "metadata": {"name": "script"},
        "spec": {
            "target": {"apiVersion": "example.org/v1", "kind": "Widget"},
            "customizations": {"healthInterpretation": {"luaScript": "functio"}},
        },
    },
)  # fmt: skip


async def find_attention(app: Any) -> Page:
    """Return the list once all objects are checked."""
    deadline = time.monotonic() + NET
    while "being checked" in (page := await get(app, "/attention")).text:
        assert time.monotonic() < deadline, page.text
        await asyncio.sleep(0.01)
    return page


async def test_the_faults_of_all_engines_lead_to_the_pages_that_explain_them() -> None:
    app = console_of(*FAULTS)
    page = await find_attention(app)
    expected = {
        "error YurtAppOverrider default/broken": "volumes",
        "ValidatingWebhookConfiguration never": "never called",
        "ValidatingWebhookConfiguration ca": "caBundle: ",
        "Karmada default/instance": "no tarball",
        "ResourceInterpreterCustomization script": "Lua script error",
    }
    assert f"Needs attention: {len(expected)}" in page.text
    for about, reason in expected.items():
        assert about in page.text
        assert reason in page.text
    for address in page.addresses:
        path, _, query = address.partition("#")[0].partition("?")
        await get(app, path, query)
    assert {re.split("[?-]", one)[0] for one in page.addresses} >= {
        "/overriders/overrider", "/dispatch/object", "/crds#instance", "/interpreters#refused",
    }  # fmt: skip
    assert "2026-01-01 00:00" in page.text
    assert "Nothing needs attention" not in page.text


async def test_without_faults_nothing_needs_attention() -> None:
    app = console_of(yurt_app_set())
    body = (await visit(app, "/")).body.decode()
    assert "The objects are being checked" in body
    assert "Nothing needs attention" not in body
    assert 'data-hx-get="/attention"' in body
    assert "Nothing needs attention" in (await find_attention(app)).text
    assert '<h2 id="attention-title" class="all-well">' in (await visit(app, "/")).body.decode()


async def test_files_that_cannot_be_read_need_attention(tmp_path: Path) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text("kind: [")
    source = ManifestSource([tmp_path], make_context().store)
    source.load()
    app = console_of(manifests=source)
    missing, old = "This page lacks objects, because their source was never read", "This page shows old data, because"
    assert "failing Source manifests it was never read, so pages lack its objects" in (await find_attention(app)).text
    for path in ("/", "/overriders", "/dispatch", "/crds"):
        text = (await get(app, path)).text
        assert (missing in text, old in text, "Data: not read yet: manifests" in text) == (True, False, True)
    # A page that was opened before asks again.
    assert (missing in (text := (await get(app, "/outdated")).text), "bad.yaml:" in text) == (True, True)
    assert "This page" not in (await get(console_of(), "/outdated")).text
    file.write_text(yaml.safe_dump(yurt_app_set()))
    source.load()
    text = (await get(app, "/overriders")).text
    assert (missing in text, old in text, "Data: 0 s old" in text) == (False, False, True)
    file.write_text("kind: [")
    source.load()
    assert "failing Source manifests it cannot be read, so pages show old objects" in (await find_attention(app)).text
    text = (await get(app, "/overriders")).text
    assert (missing in text, old in text) == (False, True)


@pytest.mark.parametrize("bundle", ["eA==", "not base64!", 5, ["eA=="]])
async def test_authorities_that_cannot_be_read_have_one_line(bundle: Any) -> None:
    client = {"url": "https://a.example.org/", "caBundle": bundle}
    hook = {**REGISTERED, "name": "ca.example.org", "rules": [RULE], "clientConfig": client}
    page = await find_attention(console_of(configuration([hook], name="ca")))
    assert "Needs attention: 1" in page.text
    assert "ValidatingWebhookConfiguration ca webhook" in page.text.replace("webhooks[0]", "webhook")
    assert "clientConfig.caBundle: " in page.text


@pytest.mark.parametrize("name", HOSTILE)
async def test_names_in_the_list_are_text(name: str) -> None:
    app = console_of(configuration([{"name": name, "rules": []}], name=name))
    page = await find_attention(app)
    assert f"ValidatingWebhookConfiguration {' '.join(name.split())}" in page.text
