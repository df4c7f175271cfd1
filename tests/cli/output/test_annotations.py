"""The logs are valid by the schema of SARIF, whose origin is in tests/conformance/sarif/README.md."""

import json
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleethook.cli.output.annotations import Annotation, AnnotationFormat, annotate_row, build_log, write_annotations
from fleethook.cli.output.findings_output import Row
from tests.builders import entry, image, overrider, yurt_app_set
from tests.cli.commands import invoke
from tests.cli.conftest import WriteYAML
from tests.serving import EXAMPLES, ROOT

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
        ["render", "-f", str(EXAMPLES / "yurtappoverrider")],
        ["render", "-f", str(EXAMPLES), "--change", str(EXAMPLES / "yurtappoverrider" / "story-2" / "overrider.yaml")],
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


@pytest.mark.parametrize("change", [False, True])
def test_render_prints_findings_in_place_of_workloads(write_yaml: WriteYAML, *, change: bool) -> None:
    files = write_yaml("a.yaml", yurt_app_set())
    rule = write_yaml("b.yaml", overrider(entry("nowhere", items=[image("nginx", "nginx:2")])))
    code, out, err = run("render", "-f", files, *(["--change", rule] if change else ["-f", rule]), "-o", "github")
    assert code == 1
    assert [line.partition(",line=")[0] for line in out.splitlines()] == [
        f"::warning file={rule}",
        f"::error file={rule}",
    ]
    assert "nowhere" not in err


def test_findings_of_standard_input_have_no_file(write_yaml: WriteYAML) -> None:
    text = json.dumps(overrider(entry("nowhere", items=[image("nginx", "nginx:2")])))
    _, out, _ = run("render", "-f", "-", "-f", write_yaml("a.yaml", yurt_app_set()), "-o", "github", stdin=text)
    assert out.startswith("::error title=")


def test_a_change_without_findings_prints_nothing(write_yaml: WriteYAML) -> None:
    rule = write_yaml("b.yaml", overrider(entry("hangzhou", items=[image("nginx", "nginx:2")])))
    code, out, err = run("render", "-f", write_yaml("a.yaml", yurt_app_set()), "--change", rule, "-o", "github")
    assert (code, out) == (0, "")
    assert err.startswith("1 of ")
