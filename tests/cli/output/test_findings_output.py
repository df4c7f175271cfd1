"""Admission, `render` and `lint` report the same findings."""

import json
import textwrap
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from fleethook.cli.output.findings_output import FindingRow, count_levels, print_text
from fleethook.cluster.manifests.manifest_files import read_documents
from tests.builders import request, store_of, validate_overrider
from tests.cli.commands import invoke
from tests.serving import EXAMPLES

ROW = FindingRow("error", "lost", "", "YurtAppSet", "shop", "web", webhook="", field="", text="gone", place="f:1")


@pytest.mark.parametrize(
    ("row", "text"),
    [
        (ROW, "YurtAppSet shop/web"),
        (msgspec.structs.replace(ROW, namespace=""), "YurtAppSet web"),
        (msgspec.structs.replace(ROW, cluster="root:org"), "YurtAppSet shop/web of root:org"),
    ],
)
def test_a_row_names_its_object(row: FindingRow, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    print_text([row])
    assert capsys.readouterr().out.splitlines()[1] == f"  {text}: gone"


@pytest.mark.parametrize(
    ("levels", "text"),
    [
        ([], "0 errors, 0 warnings"),
        (["error"], "1 error, 0 warnings"),
        (["warning", "note", "warning", "error", "error"], "2 errors, 2 warnings"),
    ],
)
def test_notes_are_neither_errors_nor_warnings(levels: list[str], text: str) -> None:
    assert count_levels(levels) == text


SUBJECT = """\
apiVersion: apps.openyurt.io/v1alpha1
kind: YurtAppSet
metadata: {name: demo, namespace: default}
spec:
  selector: {matchLabels: {app: demo}}
  workloadTemplate:
    deploymentTemplate:
      metadata: {labels: {app: demo}}
      spec:
        template:
          metadata: {labels: {app: demo}}
          spec: {containers: [{name: app, image: "nginx:1.25"}]}
  topology:
    pools:
    - {name: hangzhou, replicas: 2}
    - {name: beijing, replicas: 2}
"""
GOOD = """\
apiVersion: apps.openyurt.io/v1alpha1
kind: YurtAppOverrider
metadata: {name: demo1, namespace: default}
subject: {kind: YurtAppSet, name: demo}
entries:
- pools:
  - hangzhou
  items:
  - image: {containerName: app, imageClaim: "nginx:1.26"}
"""
WriteFiles = Callable[..., Path]


@pytest.fixture
def write_files(tmp_path: Path) -> WriteFiles:
    def write(**files: str) -> Path:
        for name, text in files.items():
            (tmp_path / f"{name}.yaml").write_text(text)
        return tmp_path

    return write


def run(*arguments: str) -> tuple[int, str, str]:
    result = invoke(list(arguments))
    return result.exit_code, result.stdout, result.stderr


def collect_findings(directory: Path) -> list[tuple[str, str, str]]:
    """Return level, place and text of the findings of `lint`, after checking that `render` reports the same."""
    code, out, _ = run("lint", "-f", str(directory), "--output", "json")
    rows = json.loads(out)
    assert code == (1 if any(row["level"] == "error" for row in rows) else 0)
    _, _, errors = run("render", "-f", str(directory))
    for row in rows:
        field = f"{row['field']}: " if row["field"] else ""
        assert f"{row['place']}: {row['level']}: {row['kind']} " in errors
        assert f": {field}{row['text']}\n" in errors
    return [(row["level"], Path(row["place"]).name, row["field"] + ": " + row["text"]) for row in rows]


def test_good_manifests_have_no_findings(write_files: WriteFiles) -> None:
    directory = write_files(set=SUBJECT, rule=GOOD)
    assert collect_findings(directory) == []
    code, out, errors = run("render", "-f", str(directory), "--strict")
    assert (code, out.count("kind: Deployment"), errors) == (0, 2, "")
    assert run("lint", "-f", str(directory), "--strict") == (0, "", "")


@pytest.mark.parametrize(
    ("now", "then", "line", "text"),
    [
        ("  - hangzhou\n", "  - hangzou\n", 7, "entries[0].pools[0]: YurtAppSet demo has no node pool 'hangzou'; did you mean 'hangzhou'?"),
        ("name: demo}", "name: dmeo}", 4, "subject.name: YurtAppSet default/dmeo is not known yet, so nothing could be rendered to check this; did you mean demo?"),
        ("namespace: default}", "namespace: edge}", 4, "subject.name: YurtAppSet edge/demo is not known yet, so nothing could be rendered to check this; YurtAppSet demo is in namespace default and the overrider in namespace edge: an overrider must be in its subject's namespace"),
        ("kind: YurtAppOverrider", "kind: YurtAppOverider", 2, "kind: apps.openyurt.io has no kind 'YurtAppOverider'; did you mean YurtAppOverrider?"),
        ("{kind: YurtAppSet,", "{kind: YurtAppDaemon,", 4, "subject.name: YurtAppDaemon default/demo is not known yet, so nothing could be rendered to check this; YurtAppSet demo exists: did you mean kind YurtAppSet?"),
        ("  items:", "items:", 8, "items: is not a field of YurtAppOverrider: it belongs in entries"),
        ("imageClaim:", "imageclaim:", 9, "entries[0].items[0].image.imageclaim: is not a field of image; did you mean imageClaim?"),
        ('"nginx:1.26"', "1.26", 9, "entries[0].items[0].image.imageClaim: must be a string, not the number 1.26: quote it"),
    ],
)  # fmt: skip
def test_a_mistake_is_an_error_at_its_line(write_files: WriteFiles, now: str, then: str, line: int, text: str) -> None:
    assert GOOD.count(now) == 1
    directory = write_files(set=SUBJECT, rule=GOOD.replace(now, then))
    assert ("error", f"rule.yaml:{line}", text) in collect_findings(directory)
    code, out, errors = run("render", "-f", str(directory))
    assert (code, out.count("kind: Deployment")) == (1, 2), "the template is still rendered"
    assert "fleethook: 1 error, " in errors


def test_overriders_without_any_subject_in_the_files_are_a_warning_for_lint(write_files: WriteFiles) -> None:
    directory = write_files(rule=GOOD)
    ((level, _, text),) = collect_findings(directory)
    assert (level, "YurtAppSet default/demo is not known yet" in text) == ("warning", True)
    code, _, errors = run("render", "-f", str(directory))
    assert (code, "nothing to render: the files have no YurtAppSet or YurtAppDaemon with a node pool" in errors) == (
        2,
        True,
    )


def test_the_messages_equal_those_of_admission(write_files: WriteFiles) -> None:
    broken = textwrap.dedent(
        """\
        apiVersion: apps.openyurt.io/v1alpha1
        kind: YurtAppOverrider
        metadata: {name: demo1, namespace: default}
        subject: {kind: YurtAppSet, name: demo, nameSpace: default}
        entries:
        - pools: []
        - pools: ["*"]
          items:
          - image: {containerName: app, imageClaim: "Nginx:{{nodepool}}"}
          - {}
          patches:
          - {op: add, path: /spec/paused, value: true}
          - {operation: add, path: /metadata/annotations/pool, value: "{{ nodepool }}"}
        """
    )
    directory = write_files(set=SUBJECT, rule=broken)
    subject, rule = (read_documents(text, source="")[0].object for text in (SUBJECT, broken))
    answer = validate_overrider(request(rule), store=store_of(subject))
    refused = {("error", f"{cause.field}: {cause.message}") for cause in answer.causes}
    warned = {("warning", text) for text in answer.warnings}
    assert {(level, text) for level, _, text in collect_findings(directory)} == refused | warned
    assert (len(refused), len(warned)) == (4, 2)


def test_the_examples_have_no_errors() -> None:
    code, out, _ = run("lint", "-f", str(EXAMPLES / "yurtappoverrider"), "-f", str(EXAMPLES / "nodepools.yaml"))
    assert (code, "error [" in out) == (0, False)
