"""The logs are valid by the schema of SARIF, whose origin is in tests/conformance/sarif/README.md."""

import json
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.cli.annotations import Annotation
from app.cli.sarif import build_log
from tests.cli.commands import invoke
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
