import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from fleethook.cluster.manifests.manifest_reader import read_documents
from fleethook.cluster.store import ObjectKey, key_of
from fleethook.engines.overrider.commands.render import describe_change
from fleethook.engines.overrider.pages import edit_report
from fleethook.engines.overrider.pages.edit_report import (
    MAX_TEXT_BYTES,
    EditedStore,
    EditError,
    EditReport,
    Part,
    format_command,
    format_overrider,
    list_affected,
    list_affected_workloads,
    locate_edit,
    locate_parts,
    make_overrider,
    normalize,
    parse_overrider,
    report_edit,
    show_source,
)
from fleethook.engines.overrider.rollout.preview import cells
from fleethook.engines.overrider.subject.owner_index import OVERRIDERS_BY_SUBJECT, overriders_of
from fleethook.model.json import JSONObject
from fleethook.model.openyurt import YURT_APP_OVERRIDER, YURT_APP_SET
from fleethook.patch.three_way_merge import LAST_APPLIED
from fleethook.work.pausing import do_at_once
from tests.builders import API, NEW_IMAGE, entry, image, overrider, patch, pool, rendered, workload, yurt_app_set
from tests.cli.commands import invoke
from tests.engines.overrider.pages.fleet_stores import DEMO, make_store

HOSTILE = [
    "kind: X\n",
    "no end of line",
    "EOF\nEOF2\nEOF\n",
    "'EOF'\n\"$(touch pwned)\" `id` $HOME \\ ! ~\n",
    "tab\there\n",
    "a\u202eb\u2066\n",
    "\x1b[31mred\x07\n",
    "ü\u0085\u2028\n",
    "--- # <script>\n...\n",
    "\n\n",
    "\u0000",
]


def run_command(command: str, directory: Path) -> tuple[str, str]:
    """Return the arguments and the input that a kubectl gets from a shell."""
    shell = shutil.which("sh")
    assert shell is not None
    kubectl = directory / "kubectl"
    kubectl.write_text('#!/bin/sh\necho "$@" > arguments\ncat > input\n')
    kubectl.chmod(0o755)
    subprocess.run([shell, "-c", command], cwd=directory, check=True, env={"PATH": f"{directory}:/usr/bin:/bin"})
    return (directory / "arguments").read_text(), (directory / "input").read_bytes().decode()


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_the_command_gives_kubectl_exactly_the_text(text: str, tmp_path: Path) -> None:
    arguments, given = run_command(format_command(text), tmp_path)
    assert arguments == "apply -f -\n"
    assert given == (text if text.endswith("\n") else f"{text}\n")
    assert sorted(one.name for one in tmp_path.iterdir()) == ["arguments", "input", "kubectl"]


def test_a_command_has_no_character_that_a_terminal_interprets() -> None:
    for text in HOSTILE:
        assert format_command(text).replace("\n", "").isprintable()


def test_the_command_names_the_namespace(tmp_path: Path) -> None:
    arguments, _ = run_command(format_command("a: 1\n", namespace="shop; id"), tmp_path)
    assert arguments == "apply --namespace shop; id -f -\n"


def test_the_text_of_an_overrider_has_no_member_of_the_server() -> None:
    stored = overrider(
        uid="1", resourceVersion="2", generation=3, creationTimestamp="now", managedFields=[{}],
        annotations={LAST_APPLIED: "{}"},
    )  # fmt: skip
    stored["status"] = {"conditions": []}
    assert yaml.safe_load(format_overrider(stored)) == overrider()


def test_other_annotations_stay_in_the_text() -> None:
    stored = overrider(annotations={LAST_APPLIED: "{}", "mine": "yes"})
    assert yaml.safe_load(format_overrider(stored))["metadata"]["annotations"] == {"mine": "yes"}


def test_a_form_sends_other_line_ends() -> None:
    assert normalize("a\r\nb\rc\n") == "a\nb\nc\n"


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("", 1, "the text has no object"),
        ("a: 1\nb: }", 2, "expected"),
        ("kind: X\nkind: Z\n", 2, "duplicate key"),
        ("kind: X\n", 1, "apiVersion and kind are required"),
        ("apiVersion: v1\nkind: Secret\nmetadata: {name: a}\n", 1, "takes a YurtAppOverrider, not a Secret"),
        (f"{format_overrider(NEW_IMAGE)}---\n{format_overrider(NEW_IMAGE)}", 18, "the editor takes one object"),
        ("x" * (MAX_TEXT_BYTES + 1), 1, "longer than 1 MiB"),
        ("\ud800", 1, "surrogate pair"),
    ],
)
def test_other_texts_are_refused_with_their_line(text: str, line: int, reason: str) -> None:
    with pytest.raises(EditError) as caught:
        parse_overrider(text)
    assert reason in str(caught.value)
    assert caught.value.line == line


def test_a_misspelled_version_is_left_to_the_findings() -> None:
    text = format_overrider(NEW_IMAGE).replace("v1alpha1", "v1alpha2", 1)
    assert parse_overrider(text).object["apiVersion"].endswith("v1alpha2")


OPENED = ObjectKey("root:a", YURT_APP_OVERRIDER, "shop", "demo1")


def test_a_text_without_namespace_and_cluster_gets_those_of_the_opened_overrider() -> None:
    document = overrider()
    del document["metadata"]["namespace"]
    edited = locate_edit(parse_overrider(format_overrider(document)), make_store(), opened=OPENED)
    assert (edited.key, edited.former) == (OPENED, None)


def test_the_namespace_of_a_text_counts() -> None:
    edited = locate_edit(
        parse_overrider(format_overrider(NEW_IMAGE)), make_store(NEW_IMAGE), opened=OPENED._replace(cluster="")
    )
    assert edited.key.namespace == "default"
    assert edited.former == NEW_IMAGE


def test_no_namespace_and_the_default_namespace_are_the_same_in_manifests() -> None:
    stored = overrider()
    del stored["metadata"]["namespace"]
    edited = locate_edit(
        parse_overrider(format_overrider(overrider())), make_store(yurt_app_set(), stored), opened=None
    )
    assert edited.former == stored


def test_the_edit_is_applied_as_kubectl_does() -> None:
    stored = overrider(uid="1", resourceVersion="7")
    stored["status"] = {"conditions": []}
    edited = locate_edit(parse_overrider(format_overrider(NEW_IMAGE)), make_store(stored), opened=None)
    assert edited.document.object == {**NEW_IMAGE, "metadata": stored["metadata"], "status": stored["status"]}


def test_the_text_of_a_file_keeps_its_comments() -> None:
    text = f"# the reason\n{format_overrider(NEW_IMAGE)}"
    (document,) = read_documents(text, source="a.yaml")
    assert show_source(document) == text


@pytest.mark.parametrize("other", ["---\na: 1\n", "---\n- x\n"])
def test_an_overrider_among_others_in_a_file_is_shown_alone(other: str) -> None:
    text = f"# the reason\n{format_overrider(NEW_IMAGE)}"
    (document,) = read_documents(text, source="a.yaml")
    assert show_source(document._replace(text=text + other)) == format_overrider(NEW_IMAGE)


def test_an_overrider_in_a_list_is_shown_alone() -> None:
    (document,) = read_documents(
        yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": [NEW_IMAGE]}), source="a.yaml"
    )
    assert yaml.safe_load(show_source(document)) == NEW_IMAGE


def test_a_new_overrider_names_its_subject() -> None:
    made = make_overrider(OPENED, "YurtAppSet")
    edited = locate_edit(parse_overrider(format_overrider(made)), make_store(), opened=None)
    assert edited.key == OPENED
    assert made["subject"] == {"apiVersion": API, "kind": "YurtAppSet", "name": "demo1"}


KEY = ObjectKey("", YURT_APP_OVERRIDER, "default", "demo1")
OTHER = {"apiVersion": API, "kind": "YurtAppSet", "name": "other"}


def bound_names(store: EditedStore, subject: str) -> list[str]:
    found = overriders_of(store, cluster="", namespace="default", group_kind=YURT_APP_SET, name=subject)
    return [one["metadata"]["name"] for one in found]


def edit(after: dict[str, Any], *objects: dict[str, Any]) -> EditedStore:
    return EditedStore(make_store(yurt_app_set(), *objects), KEY, after)


def test_the_edited_object_replaces_the_former_one() -> None:
    after = overrider(labels={"new": "yes"})
    store = edit(after, overrider(), overrider(name="demo2"))
    assert store.get(*KEY) is after
    assert bound_names(store, "demo") == ["demo1", "demo2"]
    assert [one for one in store.each("", YURT_APP_OVERRIDER) if one["metadata"]["name"] == "demo1"] == [after]
    assert len(list(store.each("", YURT_APP_OVERRIDER))) == 2


def test_an_object_that_moves_to_another_subject_leaves_the_former_one() -> None:
    store = edit(overrider(subject=OTHER), overrider())
    assert (bound_names(store, "demo"), bound_names(store, "other")) == ([], ["demo1"])


def test_a_new_object_is_added() -> None:
    store = edit(overrider())
    assert bound_names(store, "demo") == ["demo1"]
    assert store.has(YURT_APP_OVERRIDER)


def test_other_kinds_and_clusters_are_those_of_the_store() -> None:
    store = edit(overrider(), overrider(annotations={"kcp.io/cluster": "root:a"}))
    assert store.get("", YURT_APP_SET, "default", "demo") is not None
    assert len(store.find(OVERRIDERS_BY_SUBJECT, "root:a", ("default", "YurtAppSet", "demo"))) == 1
    assert len(list(store.each("root:a", YURT_APP_OVERRIDER))) == 1
    assert store.has(YURT_APP_SET)
    assert store.knows("root:a")
    assert store.knows("")
    assert not store.knows("root:b")


EXAMPLES = Path(__file__).parents[4] / "examples"
SET = yurt_app_set()


def report(text: str, *objects: dict[str, Any], pool: str = "", max_read: int = 300) -> EditReport:
    """Return the report of a text typed for objects, some of which may be running workloads."""
    store = make_store(*objects)
    edited = locate_edit(parse_overrider(text), store, opened=None)
    keys = list_affected_workloads(edited, store)
    complete = {key: one for one in objects if (key := key_of(one)) in keys}
    running = complete if len(keys) <= max_read else None
    return do_at_once(report_edit(edited, store, running, stored=len(keys), pool=pool))


def test_an_edit_shows_its_difference_in_each_pool() -> None:
    found = report(format_overrider(NEW_IMAGE), SET, overrider(entry("hangzhou", items=[image("nginx", "nginx:1.5")])))
    assert [(one.preview.pool, [(x.before, x.after, x.source) for x in one.changes]) for one in found.changes] == [
        ("beijing", [("nginx:1.0", "nginx:2.0", "entries[0].items[0]")]),
        ("hangzhou", [("nginx:1.5", "nginx:2.0", "entries[0].items[0]")]),
    ]
    assert (found.findings, found.failures, found.compared, found.size) == ([], [], 2, 2)


def test_running_workloads_that_would_roll_are_named() -> None:
    running = rendered(workload(), SET, NEW_IMAGE)
    edited = overrider(entry("*", items=[image("nginx", "nginx:3.0")]))
    found = report(format_overrider(edited), SET, NEW_IMAGE, running)
    assert found.outcomes is not None
    assert [(one.pool, one.effect.name) for one in found.outcomes] == [("hangzhou", "rolls")]
    assert found.totals is not None
    assert found.totals.headline == "rolls 1 of 1 workload, 2 pods"
    assert found.estimate is not None
    assert found.estimate.rolling == ("hangzhou", "beijing")


def test_too_many_workloads_are_only_estimated() -> None:
    found = report(format_overrider(overrider()), SET, NEW_IMAGE, workload(), max_read=0)
    assert (found.outcomes, found.totals, found.stored) == (None, None, 1)
    assert found.estimate is not None
    assert found.estimate.rolls == 2


def test_a_finding_is_at_its_line() -> None:
    broken = overrider(entry("*", patches=[patch("remove", "/spec/nothing")]))
    text = format_overrider(broken)
    found = report(text, SET)
    (finding,) = found.findings
    assert (finding.level, finding.line) == ("error", text.split("\n").index("    path: /spec/nothing"))
    assert [one.key.pool for one in found.failures] == ["beijing", "hangzhou"]


def test_a_missing_subject_is_an_error_if_there_are_others() -> None:
    other = overrider(subject={"apiVersion": API, "kind": "YurtAppSet", "name": "none"})
    (finding,) = [one for one in report(format_overrider(other), SET).findings if one.finding.code == "unknown-subject"]
    assert finding.level == "error"


def test_a_misspelled_version_is_a_finding() -> None:
    found = report(format_overrider(NEW_IMAGE).replace("v1alpha1", "v1alpha2", 1), SET)
    assert [one.finding.code for one in found.findings] == ["unknown-kind"]


def test_an_edit_that_moves_to_another_subject_concerns_both() -> None:
    other = overrider(*NEW_IMAGE["entries"], subject={"apiVersion": API, "kind": "YurtAppSet", "name": "other"})
    store = make_store(SET, yurt_app_set("other"), NEW_IMAGE)
    edited = locate_edit(parse_overrider(format_overrider(other)), store, opened=None)
    assert list_affected(edited, store) == [DEMO, DEMO._replace(name="other")]


def test_only_a_part_of_many_pools_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(edit_report, "MAX_CELLS", 3)
    large = yurt_app_set(pools=[pool(f"p{number}") for number in range(12)])
    found = report(format_overrider(NEW_IMAGE), large)
    assert (found.compared, found.size, len(found.changes)) == (3, 12, 3)
    one = report(format_overrider(NEW_IMAGE), large, pool="P11")
    assert [change.preview.pool for change in one.changes] == ["p11"]
    assert found.estimate is not None
    assert found.estimate.rolls == 12


STORIES = sorted((EXAMPLES / "yurtappoverrider").iterdir())


def change_image(overrider: JSONObject) -> JSONObject:
    """Return an overrider with one more entry."""
    added = entry("*", items=[{"replicas": 7}])
    return {**overrider, "entries": [*overrider["entries"], added]}


def break_entry(overrider: JSONObject) -> JSONObject:
    """Return an overrider with a wrong entry."""
    return {**overrider, "entries": [*overrider["entries"], {"pools": ["nowhere"], "items": [{"imagine": 1}]}]}


def keep(overrider: JSONObject) -> JSONObject:
    """Return the same overrider."""
    return overrider


def read_story(story: Path) -> tuple[list[Path], list[JSONObject]]:
    files = [*sorted(story.glob("*.yaml")), EXAMPLES / "nodepools.yaml"]
    return files, [one.object for file in files for one in read_documents(file.read_text(), source=file.name)]


OVERRIDERS = [
    (story, one["metadata"]["name"])
    for story in STORIES
    for one in read_story(story)[1]
    if one["kind"] == "YurtAppOverrider"
]


def run(*arguments: str) -> tuple[Any, str]:
    result = invoke(list(arguments), env={"NO_COLOR": "1", "COLUMNS": "300"})
    return json.loads(result.stdout), result.stderr


@pytest.mark.parametrize("edit", [keep, change_image, break_entry])
@pytest.mark.parametrize(("story", "name"), OVERRIDERS, ids=lambda one: getattr(one, "name", one))
def test_the_report_equals_the_answers_of_the_commands(story: Path, name: str, edit: Any, tmp_path: Path) -> None:
    files, objects = read_story(story)
    (before,) = [one for one in objects if one["kind"] == "YurtAppOverrider" and one["metadata"]["name"] == name]
    typed = tmp_path / "overrider.yaml"
    typed.write_text(format_overrider(edit(before)))
    found = report(typed.read_text(), *objects)
    manifests = [option for file in files for option in ("-f", str(file))]
    present = [option for file in files for option in ("--against", str(file))]

    rows, _ = run("lint", *manifests, "--change", str(typed), "--output", "json")
    assert [
        (one.level, one.finding.code, one.finding.field, one.finding.message, one.line) for one in found.findings
    ] == [
        (row["level"], row["code"], row["field"], row["text"], int(row["place"].rpartition(":")[2]))
        for row in rows
        if (row["kind"], row["name"]) == ("YurtAppOverrider", name)
    ]

    changes, errors = run("render", *manifests, "--change", str(typed), "--output", "json")
    assert json.loads(json.dumps([describe_change(one) for one in found.changes])) == changes
    failed = f", {len(found.failures)} cannot be rendered" if found.failures else ""
    assert f"{len(found.changes)} of {count_cells(objects)} workloads differ{failed}" in errors

    effects, _ = run("diff", *present, "-f", str(typed), "--output", "json")
    assert found.totals is not None
    assert (found.totals.headline, found.totals.workloads) == (effects["summary"], effects["count"])


def count_cells(objects: list[JSONObject]) -> int:
    return len(list(cells(make_store(*objects), [""])))


def test_the_effects_equal_the_answer_of_diff(tmp_path: Path) -> None:
    running = [rendered(workload(pool=name), SET, NEW_IMAGE) for name in ("hangzhou", "beijing")]
    edited = overrider(entry("hangzhou", items=[image("nginx", "nginx:3.0")]), entry("*", items=[{"replicas": 4}]))
    objects = [SET, NEW_IMAGE, *running]
    now, typed = tmp_path / "now.yaml", tmp_path / "new.yaml"
    now.write_text(yaml.safe_dump_all(objects))
    typed.write_text(format_overrider(edited))
    found = report(typed.read_text(), *objects)
    effects, _ = run("diff", "--against", str(now), "-f", str(typed), "--output", "json")
    assert found.outcomes
    assert [
        {
            "pool": one.pool,
            "name": one.name,
            "effect": one.effect.name,
            "pods": one.effect.pods,
            "paths": list(one.effect.paths),
        }
        for one in found.outcomes
    ] == [
        {name: one[name] for name in ("pool", "name", "effect", "pods", "paths")}
        for one in effects["subjects"][0]["workloads"]
    ]


def test_parts_of_a_text_have_their_lines_and_missing_ones_the_line_around_them() -> None:
    text = "# c\nkind: YurtAppOverrider\napiVersion: apps.openyurt.io/v1alpha1\nmetadata: {name: a}\nentries:\n- pools: ['*']\n"
    fields = ("entries[0]", "entries[0].pools", "entries[1].items[0]")
    assert list(locate_parts(parse_overrider(text), fields).values()) == [
        Part("entries[0]", 6, "- pools: ['*']", is_missing=False),
        Part("entries[0].pools", 6, "- pools: ['*']", is_missing=False),
        Part("entries[1].items[0]", 5, "entries:", is_missing=True),
    ]


@pytest.mark.parametrize("field", ["", "[", "a" * 300, "entries[99999999999]", "metadata.name.x", "<b>", "\ud800"])
def test_a_part_of_any_name_has_a_line(field: str) -> None:
    text = format_overrider(NEW_IMAGE)
    (found,) = locate_parts(parse_overrider(text), [field]).values()
    assert text.split("\n")[found.line - 1].strip() == found.text
