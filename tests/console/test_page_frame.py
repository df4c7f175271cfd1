import re
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

import fleethook
from fleethook.cluster.followed_objects import Cluster
from fleethook.cluster.manifests.reloaded_manifests import ManifestSource
from fleethook.cluster.manifests.yaml_decoding_and_lines import read_values
from fleethook.cluster.partial_and_stale_objects import PartState
from fleethook.console.context import VALIDATING
from fleethook.console.page_frame import (
    describe_age,
    divide_sections,
    dump_yaml,
    find_section,
    list_lines,
    list_sections,
    paginate,
    show_time,
    summarize_parts,
)
from fleethook.model.openyurt import YURT_APP_SET
from fleethook.settings import Settings
from tests.builders import yurt_app_set
from tests.console.visits import console_of, make_context, visit


@pytest.mark.parametrize(("page", "expected"), [(-1, 1), (0, 1), (1, 1), (3, 3), (99, 3)])
def test_a_page_beyond_the_ends_is_the_nearest_one(page: int, expected: int) -> None:
    assert paginate(41, page, 20)[:3] == (expected, 3, 41)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "never"), (0.4, "0 s"), (119, "119 s"), (120, "2 min"), (7199, "119 min"), (7200, "2 h"), (172_800, "2 d")],
)
def test_ages_have_one_unit(seconds: Any, text: Any) -> None:
    assert describe_age(seconds) == text


TEMPLATES = sorted(Path(fleethook.__file__).parent.rglob("templates/**/*.html"))
NOW = datetime(2026, 11, 27, 2, 50, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "exact", "shown"),
    [
        ("2026-11-25T21:37:05.123456Z", "2026-11-25T21:37:05.123456Z", "2026-11-25 21:37 UTC (29 h ago)"),
        ("2026-11-25T22:37:00+01:00", "2026-11-25T21:37:00Z", "2026-11-25 21:37 UTC (29 h ago)"),
        ("2026-11-27 02:49", "2026-11-27T02:49:00Z", "2026-11-27 02:49 UTC (60 s ago)"),
        (NOW.timestamp() + 864_000, "2026-12-07T02:50:00Z", "2026-12-07 02:50 UTC (in 10 d)"),
    ],
)
def test_times_have_one_format_with_an_age(value: Any, exact: str, shown: str) -> None:
    text = show_time(value, NOW)
    assert f'<time datetime="{exact}" title="{exact}">' in text
    assert text.striptags() == shown


PLURALS = re.compile(
    r"\{\{[^{}]*\}\} (?:more )?(?:clusters|bindings|reviews|findings|fields|files|objects|equal lines|CRDs)\b"
)


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: path.name)
def test_numbers_before_nouns_use_the_helper(template: Path) -> None:
    assert PLURALS.findall(template.read_text()) == []


def test_the_oldest_part_gives_the_age_and_all_problems_are_named() -> None:
    parts = [
        PartState("nodepools", True, "", 3.0, False),
        PartState("yurtappsets", True, "connection refused", 60.0, True),
        PartState("workspaces", False, "", None, False, needed=False),
        PartState("webhooks", False, "forbidden", None, True),
    ]
    problems = ("yurtappsets: connection refused",)
    assert summarize_parts(parts) == (60.0, ("webhooks",), ("webhooks: forbidden",), problems)


HOSTILE = "<script>alert(1)</script>\"'onerror=alert(1) javascript:alert(1) \u202eevil"


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: path.name)
def test_no_template_switches_escaping_off_or_has_inline_code(template: Path) -> None:
    text = template.read_text()
    for forbidden in [
        "|safe",
        "| safe",
        "autoescape",
        "Markup",
        "<style",
        " style=",
        " onclick=",
        "hx-on",
        "javascript:",
    ]:
        assert forbidden not in text
    assert text.count("<script") == text.count('<script src="/static/')


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: path.name)
def test_each_cell_of_a_list_names_its_column(template: Path) -> None:
    for body in re.findall(r"<thead>.*?<tbody>(.*?)</tbody>", template.read_text(), re.DOTALL):
        cells = re.findall(r"<td\b[^>]*>", body)
        if "heat_cell" not in body and "line.kind" not in body:
            assert [one for one in cells if "data-label=" not in one and "colspan=" not in one] == []


async def test_data_is_text_and_never_markup() -> None:
    answer = await visit(console_of(yurt_app_set(HOSTILE)), "/overriders")
    body = answer.body.decode()
    assert "<script>alert" not in body
    assert "&lt;script&gt;alert(1)&lt;/script&gt;&#34;&#39;onerror" in body


async def test_parameters_are_text_and_never_markup() -> None:
    answer = await visit(console_of(), "/overriders", query="q=%22%3E%3Cscript%3Ealert(1)%3C/script%3E")
    assert "<script>alert" not in answer.body.decode()


async def test_every_page_names_its_section_the_age_of_its_data_and_an_unread_source(tmp_path: Path) -> None:
    source = ManifestSource([tmp_path], make_context().store)
    body = (await visit(console_of(manifests=source), "/overriders")).body.decode()
    assert '<a href="/overriders" aria-current="page">' in body
    assert "Data: never old" in body or "not read yet: <bdi>manifests</bdi>" in body


def test_each_line_has_the_path_of_its_member() -> None:
    value = {"spec": {"list": [{"name": "a", "image": "b"}, "text"], "empty": {}}}
    assert [(one.text, "/".join(one.path)) for one in list_lines(value)] == [
        ("spec:", "spec"),
        ("  list:", "spec/list"),
        ("  - name: a", "spec/list/0/name"),
        ("    image: b", "spec/list/0/image"),
        ("  - text", "spec/list/1"),
        ("  empty: {}", "spec/empty"),
    ]


@pytest.mark.parametrize(
    "text", ["<script>alert(1)</script>", "a\u202eb", "x\x1b[31m", "a\nb", "# no", "- x", "\u2028", "'", '"']
)
def test_the_text_of_any_value_is_read_back_and_has_no_active_character(text: str) -> None:
    dumped = dump_yaml({"name": text, text: ["ü", text]})
    assert read_values(dumped, source="x")[0].value == {"name": text, text: ["ü", text]}
    assert not set("\u202e\x1b\u2028") & set(dumped)


@pytest.mark.parametrize(
    ("path", "title"),
    [("/", "Overview"), ("/overriders", "Overriders"), ("/overriders/pool", "Overriders"), ("/crds/", "CRD tarballs")],
)
def test_a_page_belongs_to_the_section_of_its_first_segment(path: Any, title: Any) -> None:
    section = find_section(path)
    assert section is not None
    assert section.title == title


def karmada(kind: str, group: str) -> dict[str, Any]:
    return {"apiVersion": f"{group}/v1alpha1", "kind": kind, "metadata": {"name": "a", "namespace": "b"}}


def serve(*kinds: Any) -> Cluster:
    """Return a cluster that serves these kinds, and has no objects."""

    def find_informer(kind: Any) -> Any:
        return SimpleNamespace(synced=True, absent=kind not in kinds)

    return cast("Cluster", SimpleNamespace(source=SimpleNamespace(informer=find_informer)))


@pytest.mark.parametrize(
    ("documents", "fields", "used"),
    [
        ([yurt_app_set()], {}, ["Overriders"]),
        ([karmada("ResourceInterpreterCustomization", "config.karmada.io")], {}, ["Interpreters"]),
        ([karmada("Karmada", "operator.karmada.io")], {}, ["CRD tarballs"]),
        ([karmada("APIBinding", "apis.kcp.io")], {}, ["Dispatch"]),
        ([{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "karmada-config"}}], {}, ["Interpreters"]),
        ([], {"cluster": serve(YURT_APP_SET, VALIDATING)}, ["Overriders", "Dispatch"]),
        ([], {"settings": Settings(manifests=Path(), interpreters=["a.py"])}, ["Interpreters"]),
        ([], {"rules": object()}, ["Rules"]),
        ([], {"reviews": object()}, ["Reviews"]),
    ],
)
def test_sections_without_objects_are_under_more(documents: Any, fields: Any, used: list[str]) -> None:
    shown, others = divide_sections(make_context(*documents, **fields))
    assert [one.title for one in shown] == ["Overview", *used]
    assert {*shown, *others} == {*list_sections()}


def test_an_empty_source_shows_all_sections() -> None:
    assert divide_sections(make_context()) == (list_sections(), ())


async def test_the_page_of_a_section_under_more_is_marked_and_in_sight() -> None:
    text = (await visit(console_of(yurt_app_set()), "/crds")).body.decode()
    assert "<details open><summary>More</summary>" in text
    assert '<a href="/crds" aria-current="page">' in text
    assert "<details><summary>More</summary>" in (await visit(console_of(yurt_app_set()), "/overriders")).body.decode()
