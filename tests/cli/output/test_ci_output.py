"""Results for CI systems. SARIF is valid by its schema, whose origin is in tests/conformance/sarif/README.md."""

import gzip
import json
import shutil
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleethook.cli.inputs.manifests import InputError
from fleethook.cli.output.findings_output import (
    Annotation,
    AnnotationFormat,
    Case,
    Row,
    annotate_errors,
    annotate_row,
    build_log,
    make_error_row,
    print_junit,
    report_input_errors,
    write_annotations,
)
from fleethook.cluster.manifests.yaml_reader import ManifestError
from tests.builders import entry, image, overrider, yurt_app_set
from tests.cli.commands import invoke
from tests.cli.conftest import WriteYAML
from tests.cli.interpreting import CUSTOMIZATION, FIXTURE
from tests.serving import EXAMPLES, REVIEW, ROOT

STORY = EXAMPLES / "yurtappoverrider" / "story-2"
ERRORS = {"broken.yaml:2", "broken.yaml:5", "latin.yaml:1", "packed.yaml:1"}
COMMANDS = [
    ("lint", "-f"), ("render", "-f"), ("explain", "--all", "-f"),
    ("diff", "--without", "NodePool/beijing", "--against"), ("interpret", "check"), ("interpret", "test"),
    ("interpret", "register", "--service", "a/b", "-f"), ("replay", str(REVIEW), "-f"),
]  # fmt: skip


def run_lint(*words: str) -> tuple[int, str, str]:
    result = invoke(words)
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Return a directory with manifests, a fixture, and files of other tools."""
    found = tmp_path / "deploy"
    shutil.copytree(STORY, found)
    (found / "pools.yaml").write_text(
        "".join(f"---\napiVersion: apps.openyurt.io/v1beta2\nkind: NodePool\nmetadata: {{name: {name}}}\n" for name in ("hangzhou", "beijing"))
    )  # fmt: skip
    (found / "chart").mkdir()
    (found / "chart" / "values.yaml").write_text("replicaCount: 1\n")
    (found / "kustomization.yaml").write_text("resources: [overrider.yaml]\n")
    (found / "customization.yaml").write_text(CUSTOMIZATION)
    (found / "game-test.yaml").write_text(FIXTURE)
    (found / "setup.py").write_text("raise SystemExit('only for builds')\n")
    (found / "README.md").write_text("# Deploy\n")
    return found


def add_unreadable_files(directory: Path) -> None:
    (directory / "broken.yaml").write_text("---\nkind: X\n---\na: [\n")
    (directory / "latin.yaml").write_bytes(b"# caf\xe9\n")
    (directory / "packed.yaml").write_bytes(gzip.compress(b"a: b", mtime=0))


def find_places(directory: Path, text: str) -> set[str]:
    return {place for place in ERRORS if f"{directory}/{place}" in text}


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_other_files_are_skipped_named_refused_or_left_out(command: tuple[str, ...], directory: Path) -> None:
    words = (*command, str(directory))
    number = 2 if command == ("interpret", "test") else 3
    note = f"note: skipped {number} documents that are no Kubernetes objects"
    code, _, err = run_lint(*words)
    assert (code == 2, f"{note} (--verbose names them)\n" in err) == (command[0] == "replay", True)
    _, _, err = run_lint(*words, "--verbose")
    assert f"{note}\nnote: {directory}/chart/values.yaml:1: has neither apiVersion nor kind\n" in err
    code, _, err = run_lint(*words, "--strict")
    assert (code, f"fleethook: {directory}/kustomization.yaml:1: has neither" in err) == (2, True)
    _, _, err = run_lint(*words, "--exclude", "chart", "--exclude", "kustomization.*", "--exclude", "*-test.yaml")
    assert "note: skipped" not in err


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_unreadable_documents_are_results_of_the_json_output(command: tuple[str, ...], directory: Path) -> None:
    add_unreadable_files(directory)
    output = ("--output", "sarif") if command == ("interpret", "check") else ("--output", "json")
    code, out, err = run_lint(*command, str(directory), *output)
    assert code == 2
    assert json.loads(out)
    # A fixture has file and line as two members.
    shown = out.replace('",\n    "line": ', ":") if command == ("interpret", "test") else err
    assert find_places(directory, shown) == ERRORS
    assert find_places(directory, err) == ERRORS
    assert "latin.yaml" in out


@pytest.mark.parametrize("command", [("lint", "-f"), ("interpret", "check")], ids=" ".join)
def test_unreadable_documents_are_annotations_beside_the_other_findings(
    command: tuple[str, ...], directory: Path
) -> None:
    add_unreadable_files(directory)
    (directory / "customization.yaml").write_text(
        CUSTOMIZATION.replace("return observedObj", "return x + + observedObj")
    )
    code, out, _ = run_lint(*command, str(directory), "--output", "github")
    lines = [one for one in out.splitlines() if "title=unreadable-input" in one]
    places = {
        one.split("file=")[1].split(",title")[0].removeprefix(f"{directory}/").replace(",line=", ":") for one in lines
    }
    assert (code, places) == (2, ERRORS)
    assert len(out.splitlines()) > len(lines)
    code, out, _ = run_lint(*command, str(directory), "--output", "sarif")
    results = json.loads(out)["runs"][0]["results"]
    found = [one["locations"][0]["physicalLocation"] for one in results if one["ruleId"] == "unreadable-input"]
    lines = [f"{Path(one['artifactLocation']['uri']).name}:{one['region']['startLine']}" for one in found]
    assert (code, set(lines)) == (2, ERRORS)
    assert len({one["partialFingerprints"]["fleethook/v1"] for one in results}) == len(results)


def test_fixtures_run_beside_unreadable_documents(directory: Path) -> None:
    add_unreadable_files(directory)
    code, out, _ = run_lint("interpret", "test", str(directory))
    assert (code, "1 passed, 0 failed" in out) == (2, True)
    code, out, _ = run_lint("interpret", "test", str(directory), "--output", "junit")
    suite = ET.fromstring(out)
    assert (code, suite.get("tests"), suite.get("failures")) == (2, "5", "4")


def test_a_script_that_cannot_be_used_is_a_result_of_a_test(directory: Path) -> None:
    (directory / "customization.yaml").write_text(CUSTOMIZATION.replace("function", "functio"))
    code, out, _ = run_lint("interpret", "test", str(directory), "--output", "json")
    unusable, unanswered = json.loads(out)
    assert (code, unusable["file"], unusable["operation"]) == (2, f"{directory}/customization.yaml", "")
    assert (unanswered["operation"], unanswered["passed"]) == ("InterpretHealth", False)


def test_a_python_file_that_cannot_be_loaded_is_an_annotation(directory: Path) -> None:
    file = directory / "broken_interpreter.py"
    file.write_text("interpreter = 1\n\ndef (\n")
    code, out, _ = run_lint("interpret", "check", str(directory), "--output", "github")
    assert (code, f"::error file={file},line=3,title=unreadable-input::" in out) == (2, True)


def test_a_request_that_is_no_object_is_a_result(tmp_path: Path) -> None:
    (tmp_path / "request.yaml").write_text("---\na: b\n")
    words = (
        "explain",
        "-f",
        str(EXAMPLES / "kcp-widgets"),
        "--request",
        str(tmp_path / "request.yaml"),
        "-o",
        "json",
    )
    code, out, _ = run_lint(*words)
    assert (code, json.loads(out)["errors"][0]["place"]) == (2, f"{tmp_path}/request.yaml:2")


def test_no_workload_is_printed_if_one_could_be_wrong(directory: Path) -> None:
    add_unreadable_files(directory)
    code, out, err = run_lint("render", "-f", str(directory))
    assert (code, out) == (2, "")
    assert "warning: YurtAppOverrider story-2/demo1" in err


def test_a_missing_file_is_an_annotation_in_its_first_line(tmp_path: Path) -> None:
    code, out, _ = run_lint("lint", "-f", str(tmp_path / "none.yaml"), "--output", "github")
    assert (code, out.startswith(f"::error file={tmp_path}/none.yaml,line=1,title=unreadable-input::")) == (2, True)


def test_input_errors_are_written_in_the_format_of_the_output(capsys: pytest.CaptureFixture[str]) -> None:
    errors = [ManifestError("a.yaml", 3, "no"), ManifestError("<stdin>", 0, "none")]
    for output, expected in (
        ("text", ""),
        ("json", json.dumps({"errors": [*map(make_error_row, errors)]}, indent=2) + "\n"),
    ):
        with pytest.raises(InputError), report_input_errors(output):
            raise InputError(errors)
        assert capsys.readouterr().out == expected
    assert [(one.file, one.line) for one in annotate_errors(errors)] == [("a.yaml", 3), ("", 1)]


SCHEMA = json.loads((ROOT / "tests/conformance/sarif/sarif-2.1.0-rtm.5.json").read_text())
# JavaScript accepts the pattern's lone bracket, the validator does not. Our logs have no member ``language``.
for definition in ("run", "toolComponent"):
    del SCHEMA["definitions"][definition]["properties"]["language"]["pattern"]
VALIDATOR = jsonschema_rs.validator_for(SCHEMA, validate_formats=True)
FINDING = Annotation("error", "unknown-pool", "YurtAppOverrider demo/a", "entries[0]: no such pool", "a.yaml", 3)


def list_errors(log: Any) -> list[str]:
    return [str(error) for error in VALIDATOR.iter_errors(log)]


def find_result(finding: Annotation) -> Any:
    return build_log([finding])["runs"][0]["results"][0]


def find_artifact(file: str) -> Any:
    return find_result(FINDING._replace(file=file))["locations"][0]["physicalLocation"]["artifactLocation"]


def test_the_schema_refuses_a_log_of_another_form() -> None:
    log = build_log([FINDING])
    assert list_errors(log) == []
    log["runs"][0]["results"][0]["level"] = "fatal"
    assert len(list_errors(log)) == 1


def test_a_result_has_rule_level_message_and_place() -> None:
    result = find_result(FINDING)
    assert (result["ruleId"], result["level"]) == ("unknown-pool", "error")
    assert result["message"] == {"text": "YurtAppOverrider demo/a: entries[0]: no such pool"}
    assert result["locations"][0]["physicalLocation"]["region"] == {"startLine": 3}
    rules = build_log([FINDING, FINDING._replace(code="another")])["runs"][0]["tool"]["driver"]["rules"]
    assert rules == [{"id": "another"}, {"id": "unknown-pool"}]


def test_a_fingerprint_stays_when_the_line_moves_and_differs_for_another_finding() -> None:
    fingerprint = find_result(FINDING)["partialFingerprints"]
    assert find_result(FINDING._replace(line=9))["partialFingerprints"] == fingerprint
    assert find_result(FINDING._replace(text="other"))["partialFingerprints"] != fingerprint


def test_files_below_the_working_directory_are_relative_to_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    relative = {"uri": "a%20b/c.yaml", "uriBaseId": "%SRCROOT%"}
    assert find_artifact("a b/c.yaml") == relative
    assert find_artifact(str(tmp_path / "a b" / "c.yaml")) == relative
    assert find_artifact("/elsewhere/c.yaml") == {"uri": "file:///elsewhere/c.yaml"}


def test_a_finding_about_a_cluster_has_no_file() -> None:
    log = build_log([FINDING._replace(file="", line=0)])
    assert list_errors(log) == []
    assert list(log["runs"][0]["results"][0]["locations"][0]) == ["logicalLocations"]


TEXTS = st.text(max_size=20)


@given(
    st.lists(
        st.builds(Annotation, st.sampled_from(["error", "warning"]), TEXTS, TEXTS, TEXTS, TEXTS, st.integers(0, 9))
    )
)
def test_every_log_is_valid(findings: list[Annotation]) -> None:
    printed = json.loads(json.dumps(build_log(findings)))
    assert list_errors(printed) == []


@pytest.mark.parametrize(
    "arguments",
    [
        ["lint", "-f", str(EXAMPLES)],
        ["interpret", "check", str(EXAMPLES / "retention"), str(EXAMPLES / "interpreter")],
    ],
)
def test_commands_print_a_valid_log_and_nothing_else(arguments: list[str]) -> None:
    result = invoke([*arguments, "--output", "sarif"])
    assert result.exit_code in (0, 1)
    assert list_errors(json.loads(result.stdout)) == []


ROW = Row(
    level="warning", code="no-effect", cluster="ws1", kind="YurtAppOverrider", namespace="demo", name="a",
    webhook="", field="entries[0]", text="has no effect", place="dir/a.yaml:12",
)  # fmt: skip


def run(*arguments: str, stdin: str = "") -> tuple[int, str, str]:
    result = invoke(arguments, stdin=stdin)
    return result.exit_code, result.stdout, result.stderr


@pytest.mark.parametrize(
    ("place", "file", "line"),
    [
        ("dir/a.yaml:12", "dir/a.yaml", 12),
        ("C:a.yaml:1", "C:a.yaml", 1),
        ("<stdin>:3", "", 0),
        ("cluster", "", 0),
        ("", "", 0),
    ],
)
def test_only_places_in_files_have_a_file_and_a_line(place: str, file: str, line: int) -> None:
    row = Row(**{**{name: getattr(ROW, name) for name in ROW.__struct_fields__}, "place": place})
    annotation = annotate_row(row)
    assert (annotation.file, annotation.line) == (file, line)
    assert annotation.subject == "YurtAppOverrider demo/a of ws1"
    assert annotation.text == "entries[0]: has no effect"


def test_github_gets_one_command_for_each_finding(capsys: pytest.CaptureFixture[str]) -> None:
    one = Annotation("error", "bad", "ConfigMap a", "100% wrong:\nline two", "a,b:c.yaml", 4)
    write_annotations([one, one._replace(file="", line=0)], AnnotationFormat.GITHUB)
    assert capsys.readouterr().out.splitlines() == [
        "::error file=a%2Cb%3Ac.yaml,line=4,title=bad::ConfigMap a: 100%25 wrong:%0Aline two",
        "::error title=bad::ConfigMap a: 100%25 wrong:%0Aline two",
    ]


def test_a_name_cannot_start_another_command(write_yaml: WriteYAML) -> None:
    rule = overrider(entry("x\n::error file=/etc/passwd::forged"))
    code, out, err = run("lint", "-f", write_yaml("a.yaml", yurt_app_set(), rule), "-o", "github")
    assert (code, err) == (1, "")
    assert all(line.startswith(("::error file=", "::warning file=")) for line in out.splitlines())
    assert "::error file=/etc" not in [line[:17] for line in out.splitlines()]
    assert "%0A::error" in out or "\\n::error" in out


def test_lint_reports_each_finding_of_its_text_output_to_github() -> None:
    directory = str(EXAMPLES / "kcp-widgets")
    code, out, err = run("lint", "-f", directory, "--output", "github")
    assert (code, err) == (1, "")
    assert out == (
        f"::error file={EXAMPLES}/kcp-widgets/ws3.yaml,line=21,title=shadowed::ValidatingWebhookConfiguration my-own-rules "
        "of ws3, mine.widgets.example.org: rules[0]: APIBinding widgets binds widgets.example.org of ws1, whose webhooks "
        "are called instead: register the webhook in ws1\n"
    )


def test_findings_of_standard_input_have_no_file(write_yaml: WriteYAML) -> None:
    text = json.dumps(overrider(entry("nowhere", items=[image("nginx", "nginx:2")])))
    _, out, _ = run("lint", "-f", "-", "-f", write_yaml("a.yaml", yurt_app_set()), "-o", "github", stdin=text)
    assert out.startswith("::error title=")


def test_cases_failures_and_notes_are_valid_xml_with_any_text(capsys: pytest.CaptureFixture[str]) -> None:
    odd = '<&"\x00\x1b[31m'
    print_junit("run", [Case("g", odd, ["first", odd], 0.5), Case(odd, "b", ["only"]), Case("g", "c")], [odd])
    suite = ET.fromstring(capsys.readouterr().out)
    assert (suite.attrib, suite.findtext("system-out")) == (
        {"name": "run", "tests": "3", "failures": "2"},
        '<&"\\x00\\x1b[31m',
    )
    first, second, third = suite.findall("testcase")
    assert first.attrib == {"classname": "g", "name": '<&"\\x00\\x1b[31m', "time": "0.500000"}
    assert [one.findtext("failure") for one in (first, second, third)] == ['first\n<&"\\x00\\x1b[31m', "", None]
    failure = second.find("failure")
    assert failure is not None
    assert failure.attrib == {"message": "only"}
